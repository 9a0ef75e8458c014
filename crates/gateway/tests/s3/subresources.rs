//! Sub-resources: read as AWS answers for a fresh bucket, set never, and never taken for another call.

use crate::support::{Call, Server};

/// Sub-resource, status and code (or an element that the answer holds).
const OF_BUCKET: &[(&str, u16, &str)] = &[
    ("accelerate", 200, "AccelerateConfiguration"),
    ("acl", 200, "FULL_CONTROL"),
    ("cors", 404, "NoSuchCORSConfiguration"),
    ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
    ("lifecycle", 404, "NoSuchLifecycleConfiguration"),
    ("location", 200, "LocationConstraint"),
    ("logging", 200, "BucketLoggingStatus"),
    ("notification", 200, "NotificationConfiguration"),
    ("object-lock", 404, "ObjectLockConfigurationNotFoundError"),
    ("ownershipControls", 200, "BucketOwnerPreferred"),
    ("policy", 404, "NoSuchBucketPolicy"),
    ("policyStatus", 404, "NoSuchBucketPolicy"),
    ("publicAccessBlock", 200, "<BlockPublicAcls>true</BlockPublicAcls>"),
    ("replication", 404, "ReplicationConfigurationNotFoundError"),
    ("requestPayment", 200, "<Payer>BucketOwner</Payer>"),
    ("tagging", 404, "NoSuchTagSet"),
    ("versioning", 200, "VersioningConfiguration"),
    ("website", 404, "NoSuchWebsiteConfiguration"),
];

/// What of a bucket can be set.
const SET: &[(&str, &str)] = &[
    ("PUT", "acl"),
    ("PUT", "ownershipControls"),
    ("PUT", "policy"),
    ("DELETE", "policy"),
    ("PUT", "publicAccessBlock"),
    ("DELETE", "publicAccessBlock"),
    ("PUT", "tagging"),
    ("DELETE", "tagging"),
    ("PUT", "versioning"),
];

/// Not offered in any way.
const OTHERS: &[&str] =
    &["analytics", "intelligent-tiering", "inventory", "metrics", "metadataTable", "session", "abac", "foo", "X-Foo"];

#[tokio::test]
async fn a_fresh_bucket_answers_as_aws_does() {
    let server = Server::start().await;
    for (name, status, holds) in OF_BUCKET {
        let answer = server.send(Call::new("GET", &format!("/bucket?{name}"))).await;
        assert_eq!(answer.status, *status, "{name}: {}", answer.text());
        assert!(answer.text().contains(holds), "{name}: {}", answer.text());
        server.send(Call::new("GET", &format!("/no-such-bucket?{name}"))).await.must_be(404, "NoSuchBucket");
    }
}

#[tokio::test]
async fn setting_is_refused_and_does_nothing() {
    let server = Server::start().await;
    let names = OF_BUCKET.iter().map(|row| row.0).chain(OTHERS.iter().copied());
    for name in names {
        let methods = ["PUT", "DELETE", "POST"].into_iter().filter(|method| !SET.contains(&(*method, name)));
        for method in methods {
            let call = Call::new(method, &format!("/bucket?{name}"));
            server.send(call).await.must_be(501, "NotImplemented");
            let call = Call::new(method, &format!("/other-bucket?{name}"));
            server.send(call).await.must_be(501, "NotImplemented");
        }
    }
    server.send(Call::new("HEAD", "/bucket")).await.must_be_ok();
    assert_eq!(server.send(Call::new("HEAD", "/other-bucket")).await.status, 404);
    for name in OTHERS {
        server.send(Call::new("GET", &format!("/bucket?{name}"))).await.must_be(501, "NotImplemented");
    }
}

#[tokio::test]
async fn a_sub_resource_of_an_object_is_never_the_object() {
    let server = Server::start().await;
    server.send(Call::new("PUT", "/bucket/key").body("kept")).await.must_be_ok();
    for name in ["acl", "tagging", "retention", "legal-hold", "torrent", "restore", "select", "foo", "renameObject"] {
        for key in ["key", "new"] {
            let set = [("acl", "PUT"), ("tagging", "PUT"), ("tagging", "DELETE")];
            let methods = ["PUT", "DELETE", "POST"].into_iter().filter(|method| !set.contains(&(name, *method)));
            for method in methods {
                let call = Call::new(method, &format!("/bucket/{key}?{name}")).body("changed");
                server.send(call).await.must_be(501, "NotImplemented");
            }
        }
    }
    assert_eq!(server.stored("key").unwrap(), b"kept");
    assert_eq!(server.stored("new"), None);
    for (name, status, holds) in [
        ("acl", 200, "FULL_CONTROL"),
        ("tagging", 200, "<TagSet></TagSet>"),
        ("retention", 400, "InvalidRequest"),
        ("legal-hold", 400, "InvalidRequest"),
        ("torrent", 501, "NotImplemented"),
    ] {
        let answer = server.send(Call::new("GET", &format!("/bucket/key?{name}"))).await;
        assert!(answer.status == status && answer.text().contains(holds), "{name}: {}", answer.text());
    }
    server.send(Call::new("GET", "/bucket/new?acl")).await.must_be(404, "NoSuchKey");
}

#[tokio::test]
async fn headers_that_ask_for_more_are_refused_and_nothing_is_stored() {
    let server = Server::start().await;
    for (name, value) in [
        ("x-amz-acl", "aws-exec-read"),
        ("x-amz-grant-read", "emailAddress=a@b"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-website-redirect-location", "/x"),
        ("x-amz-write-offset-bytes", "5"),
        ("if-none-match", "\"etag\""),
    ] {
        let call = Call::new("PUT", "/bucket/key").header(name, value).body("x");
        server.send(call).await.must_be(501, "NotImplemented");
    }
    assert_eq!(server.stored("key"), None);
    server
        .send(Call::new("PUT", "/locked-bucket").header("x-amz-bucket-object-lock-enabled", "true"))
        .await
        .must_be(501, "NotImplemented");
    // Public access is off: what would open something to everybody is refused, whole.
    for path in ["/public-bucket", "/bucket/public"] {
        let call = Call::new("PUT", path).header("x-amz-acl", "public-read").body("");
        server.send(call).await.must_be(400, "InvalidRequest");
    }
    assert_eq!(server.send(Call::new("HEAD", "/public-bucket")).await.status, 404);
    assert_eq!(server.stored("public"), None);
    assert_eq!(server.send(Call::new("HEAD", "/locked-bucket")).await.status, 404);
    let usual =
        Call::new("PUT", "/bucket/key").header("x-amz-acl", "private").header("x-amz-storage-class", "STANDARD");
    server.send(usual.body("x")).await.must_be_ok();
}

#[tokio::test]
async fn versions_are_null_only() {
    let server = Server::start().await;
    server.send(Call::new("PUT", "/bucket/key").body("x")).await.must_be_ok();
    server.send(Call::new("GET", "/bucket/key?versionId=null")).await.must_be_ok();
    server.send(Call::new("GET", "/bucket/key?versionId=abc")).await.must_be(400, "InvalidArgument");
    server.send(Call::new("DELETE", "/bucket/key?versionId=abc")).await.must_be(400, "InvalidArgument");
    let answer = server.send(Call::new("GET", "/bucket?versions")).await.must_be_ok();
    assert!(answer.text().contains("<VersionId>null</VersionId>"), "{}", answer.text());
    server.send(Call::new("DELETE", "/bucket/key?versionId=null")).await.must_be_ok();
    assert_eq!(server.stored("key"), None);
}
