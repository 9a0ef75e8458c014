//! Which actions each call of S3 needs: a row a call, from which denials and allowances are made.
//!
//! A call passes when every action but those of its row is denied, and when just those of its row are allowed to who
//! has no other right; it is refused when any one of them is denied, or not allowed.

use std::collections::BTreeSet;

use koine_gateway::CALLS;
use koine_object::{
    Action, Expected, KeyOptions, ObjectName, PartOptions, PutOptions, UploadOptions, UserChange, Versioning,
};

use crate::support::{Answer, Call, Server};

/// A call: its name in the table of the door, its form, what it needs, and what it answers where it may be made.
struct Row {
    call: &'static str,
    /// Method, target, headers and body, with the names of [`Scene`] to be filled in.
    form: (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str),
    needs: &'static [Action],
    /// The code of its answer; empty for a success.
    answer: &'static str,
}

const fn row(
    call: &'static str,
    form: (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str),
    needs: &'static [Action],
    answer: &'static str,
) -> Row {
    Row { call, form, needs, answer }
}

const TAGGING: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const VERSIONING: &str = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
const BLOCK: &str = "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>\
    <IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy>\
    <RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
const OWNERSHIP: &str =
    "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerPreferred</ObjectOwnership></Rule></OwnershipControls>";
const POLICY: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"s3:PutBucketWebsite","Resource":"arn:aws:s3:::BUCKET"}}"#;
const DELETE: &str = "<Delete><Object><Key>plain</Key></Object></Delete>";
const COMPLETE: &str =
    "<CompleteMultipartUpload><Part><ETag>ETAG</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";

/// Every call, in every form that needs other actions.
const ROWS: &[Row] = {
    use Action::*;
    &[
        row("head_bucket", ("HEAD", "/BUCKET", &[], ""), &[ListBucket], ""),
        row("delete_bucket", ("DELETE", "/EMPTY", &[], ""), &[DeleteBucket], ""),
        row("get_bucket_location", ("GET", "/BUCKET?location", &[], ""), &[GetBucketLocation], ""),
        row(
            "get_bucket_accelerate_configuration",
            ("GET", "/BUCKET?accelerate", &[], ""),
            &[GetAccelerateConfiguration],
            "",
        ),
        row("get_bucket_acl", ("GET", "/BUCKET?acl", &[], ""), &[GetBucketAcl], ""),
        row("get_bucket_cors", ("GET", "/BUCKET?cors", &[], ""), &[GetBucketCors], "NoSuchCORSConfiguration"),
        row(
            "get_bucket_encryption",
            ("GET", "/BUCKET?encryption", &[], ""),
            &[GetEncryptionConfiguration],
            "ServerSideEncryptionConfigurationNotFoundError",
        ),
        row(
            "get_bucket_lifecycle_configuration",
            ("GET", "/BUCKET?lifecycle", &[], ""),
            &[GetLifecycleConfiguration],
            "NoSuchLifecycleConfiguration",
        ),
        row("get_bucket_logging", ("GET", "/BUCKET?logging", &[], ""), &[GetBucketLogging], ""),
        row(
            "get_bucket_notification_configuration",
            ("GET", "/BUCKET?notification", &[], ""),
            &[GetBucketNotification],
            "",
        ),
        row(
            "get_bucket_ownership_controls",
            ("GET", "/BUCKET?ownershipControls", &[], ""),
            &[GetBucketOwnershipControls],
            "",
        ),
        row("get_bucket_policy", ("GET", "/BUCKET?policy", &[], ""), &[GetBucketPolicy], "NoSuchBucketPolicy"),
        row(
            "get_bucket_policy_status",
            ("GET", "/BUCKET?policyStatus", &[], ""),
            &[GetBucketPolicyStatus],
            "NoSuchBucketPolicy",
        ),
        row(
            "get_bucket_replication",
            ("GET", "/BUCKET?replication", &[], ""),
            &[GetReplicationConfiguration],
            "ReplicationConfigurationNotFoundError",
        ),
        row("get_bucket_request_payment", ("GET", "/BUCKET?requestPayment", &[], ""), &[GetBucketRequestPayment], ""),
        row("get_bucket_tagging", ("GET", "/BUCKET?tagging", &[], ""), &[GetBucketTagging], "NoSuchTagSet"),
        row("get_bucket_versioning", ("GET", "/BUCKET?versioning", &[], ""), &[GetBucketVersioning], ""),
        row("put_bucket_versioning", ("PUT", "/BUCKET?versioning", &[], VERSIONING), &[PutBucketVersioning], ""),
        row("put_bucket_acl", ("PUT", "/BUCKET?acl", &[("x-amz-acl", "private")], ""), &[PutBucketAcl], ""),
        row("put_bucket_policy", ("PUT", "/BUCKET?policy", &[], POLICY), &[PutBucketPolicy], ""),
        row("delete_bucket_policy", ("DELETE", "/BUCKET?policy", &[], ""), &[DeleteBucketPolicy], ""),
        row(
            "get_public_access_block",
            ("GET", "/BUCKET?publicAccessBlock", &[], ""),
            &[GetBucketPublicAccessBlock],
            "",
        ),
        row(
            "put_public_access_block",
            ("PUT", "/BUCKET?publicAccessBlock", &[], BLOCK),
            &[PutBucketPublicAccessBlock],
            "",
        ),
        row(
            "delete_public_access_block",
            ("DELETE", "/BUCKET?publicAccessBlock", &[], ""),
            &[PutBucketPublicAccessBlock],
            "NotImplemented",
        ),
        row(
            "put_bucket_ownership_controls",
            ("PUT", "/BUCKET?ownershipControls", &[], OWNERSHIP),
            &[PutBucketOwnershipControls],
            "",
        ),
        row("put_bucket_tagging", ("PUT", "/BUCKET?tagging", &[], TAGGING), &[PutBucketTagging], ""),
        row("delete_bucket_tagging", ("DELETE", "/BUCKET?tagging", &[], ""), &[PutBucketTagging], ""),
        row(
            "get_bucket_website",
            ("GET", "/BUCKET?website", &[], ""),
            &[GetBucketWebsite],
            "NoSuchWebsiteConfiguration",
        ),
        row(
            "get_object_lock_configuration",
            ("GET", "/BUCKET?object-lock", &[], ""),
            &[GetBucketObjectLockConfiguration],
            "ObjectLockConfigurationNotFoundError",
        ),
        row("list_objects", ("GET", "/BUCKET", &[], ""), &[ListBucket], ""),
        row("list_objects_v2", ("GET", "/BUCKET?list-type=2", &[], ""), &[ListBucket], ""),
        row("list_object_versions", ("GET", "/BUCKET?versions", &[], ""), &[ListBucketVersions], ""),
        row("list_multipart_uploads", ("GET", "/BUCKET?uploads", &[], ""), &[ListBucketMultipartUploads], ""),
        row("get_object", ("GET", "/BUCKET/plain", &[], ""), &[GetObject], ""),
        row("get_object", ("GET", "/BUCKET/plain?versionId=VERSION", &[], ""), &[GetObjectVersion], ""),
        row("head_object", ("HEAD", "/BUCKET/plain", &[], ""), &[GetObject], ""),
        row("head_object", ("HEAD", "/BUCKET/plain?versionId=VERSION", &[], ""), &[GetObjectVersion], ""),
        row(
            "get_object_attributes",
            ("GET", "/BUCKET/plain?attributes", &[("x-amz-object-attributes", "ETag")], ""),
            &[GetObject, GetObjectAttributes],
            "",
        ),
        row(
            "get_object_attributes",
            ("GET", "/BUCKET/plain?attributes&versionId=VERSION", &[("x-amz-object-attributes", "ETag")], ""),
            &[GetObjectVersion, GetObjectVersionAttributes],
            "",
        ),
        row("get_object_acl", ("GET", "/BUCKET/plain?acl", &[], ""), &[GetObjectAcl], ""),
        row("get_object_acl", ("GET", "/BUCKET/plain?acl&versionId=VERSION", &[], ""), &[GetObjectVersionAcl], ""),
        row("put_object_acl", ("PUT", "/BUCKET/plain?acl", &[("x-amz-acl", "private")], ""), &[PutObjectAcl], ""),
        row(
            "put_object_acl",
            ("PUT", "/BUCKET/plain?acl&versionId=VERSION", &[("x-amz-acl", "private")], ""),
            &[PutObjectVersionAcl],
            "",
        ),
        row("get_object_tagging", ("GET", "/BUCKET/plain?tagging", &[], ""), &[GetObjectTagging], ""),
        row(
            "get_object_tagging",
            ("GET", "/BUCKET/plain?tagging&versionId=VERSION", &[], ""),
            &[GetObjectVersionTagging],
            "",
        ),
        row("put_object_tagging", ("PUT", "/BUCKET/plain?tagging", &[], TAGGING), &[PutObjectTagging], ""),
        row(
            "put_object_tagging",
            ("PUT", "/BUCKET/plain?tagging&versionId=VERSION", &[], TAGGING),
            &[PutObjectVersionTagging],
            "",
        ),
        row("delete_object_tagging", ("DELETE", "/BUCKET/plain?tagging", &[], ""), &[DeleteObjectTagging], ""),
        row(
            "delete_object_tagging",
            ("DELETE", "/BUCKET/plain?tagging&versionId=VERSION", &[], ""),
            &[DeleteObjectVersionTagging],
            "",
        ),
        row(
            "get_object_legal_hold",
            ("GET", "/BUCKET/plain?legal-hold", &[], ""),
            &[GetObjectLegalHold],
            "InvalidRequest",
        ),
        row(
            "get_object_retention",
            ("GET", "/BUCKET/plain?retention", &[], ""),
            &[GetObjectRetention],
            "InvalidRequest",
        ),
        row("put_object", ("PUT", "/BUCKET/new", &[], "x"), &[PutObject], ""),
        row("put_object", ("PUT", "/BUCKET/new", &[("x-amz-tagging", "a=b")], "x"), &[PutObject, PutObjectTagging], ""),
        row(
            "put_object",
            ("PUT", "/BUCKET/new", &[("x-amz-grant-read", TO_ROOT)], "x"),
            &[PutObject, PutObjectAcl],
            "",
        ),
        row(
            "copy_object",
            ("PUT", "/BUCKET/new", &[("x-amz-copy-source", "/BUCKET/plain")], ""),
            &[GetObject, PutObject],
            "",
        ),
        row(
            "copy_object",
            ("PUT", "/BUCKET/new", &[("x-amz-copy-source", "/BUCKET/plain?versionId=VERSION")], ""),
            &[GetObjectVersion, PutObject],
            "",
        ),
        row(
            "copy_object",
            ("PUT", "/BUCKET/new", &[("x-amz-copy-source", "/BUCKET/tagged")], ""),
            &[GetObject, GetObjectTagging, PutObject, PutObjectTagging],
            "",
        ),
        row(
            "copy_object",
            (
                "PUT",
                "/BUCKET/new",
                &[
                    ("x-amz-copy-source", "/BUCKET/plain"),
                    ("x-amz-tagging-directive", "REPLACE"),
                    ("x-amz-tagging", "a=b"),
                ],
                "",
            ),
            &[GetObject, PutObject, PutObjectTagging],
            "",
        ),
        row("delete_object", ("DELETE", "/BUCKET/plain", &[], ""), &[DeleteObject], ""),
        row("delete_object", ("DELETE", "/BUCKET/plain?versionId=VERSION", &[], ""), &[DeleteObjectVersion], ""),
        row(
            "delete_objects",
            ("POST", "/BUCKET?delete", &[("content-md5", "vnOHnm9/bnU8i8Zcjojt3w==")], DELETE),
            &[DeleteObject],
            "",
        ),
        row("create_multipart_upload", ("POST", "/BUCKET/new?uploads", &[], ""), &[PutObject], ""),
        row("upload_part", ("PUT", "/BUCKET/joined?partNumber=2&uploadId=UPLOAD", &[], "x"), &[PutObject], ""),
        row(
            "upload_part_copy",
            ("PUT", "/BUCKET/joined?partNumber=2&uploadId=UPLOAD", &[("x-amz-copy-source", "/BUCKET/plain")], ""),
            &[GetObject, PutObject],
            "",
        ),
        row("complete_multipart_upload", ("POST", "/BUCKET/joined?uploadId=UPLOAD", &[], COMPLETE), &[PutObject], ""),
        row(
            "abort_multipart_upload",
            ("DELETE", "/BUCKET/joined?uploadId=UPLOAD", &[], ""),
            &[AbortMultipartUpload],
            "",
        ),
        row("list_parts", ("GET", "/BUCKET/joined?uploadId=UPLOAD", &[], ""), &[ListMultipartUploadParts], ""),
        // Every user may do these: they are refused by a denial alone.
        row("list_buckets", ("GET", "/", &[], ""), &[ListAllMyBuckets], ""),
        row("create_bucket", ("PUT", "/MADE", &[], ""), &[CreateBucket], ""),
    ]
};

/// A grant that a list keeps, whoever owns the bucket.
const TO_ROOT: &str = "id=6b6f696e652d726f6f742d6f776e65722d6f662d74686973732d73746f72652d31";
/// Those that every user may make.
const EVERYBODYS: [&str; 2] = ["list_buckets", "create_bucket"];

/// Buckets made for one try, and what is in them.
struct Scene<'a> {
    server: &'a Server,
    names: [(&'static str, String); 6],
}

impl<'a> Scene<'a> {
    fn new(server: &'a Server, number: usize, owner: &str) -> Self {
        let (objects, bucket, empty) = (&server.objects, format!("bucket-{number}"), format!("empty-{number}"));
        for bucket in [&bucket, &empty] {
            objects.create_bucket(bucket).wait().unwrap();
            objects.identities().change_owner(bucket, owner, None).wait().unwrap();
        }
        objects.set_versioning(&bucket, Versioning::Enabled).wait().unwrap();
        let put = |key: &str, options| {
            let mut writer = objects.put(&bucket, key, options).unwrap();
            writer.write(b"body").unwrap();
            writer.finish(&Expected::none()).wait().unwrap()
        };
        let version = put("plain", PutOptions::default()).version_id.to_string();
        put("tagged", PutOptions { tags: vec![("a".into(), "b".into())], ..PutOptions::default() });
        let name = ObjectName::new(&bucket, "joined");
        let upload = objects.create_upload(&bucket, "joined", UploadOptions::default()).wait().unwrap();
        let mut writer = objects.put_part(name, upload, 1, PartOptions::default()).unwrap();
        writer.write(b"part").unwrap();
        let etag = writer.finish(&Expected::none()).wait().unwrap().etag.to_string();
        let made = format!("made-{number}");
        let names = [
            ("BUCKET", bucket),
            ("EMPTY", empty),
            ("MADE", made),
            ("VERSION", version),
            ("UPLOAD", upload.to_string()),
            ("ETAG", etag),
        ];
        Scene { server, names }
    }

    fn fill(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    async fn answer(&self, row: &Row, key: &(String, String)) -> Answer {
        let (method, target, headers, body) = row.form;
        let mut call = Call::new(method, &self.fill(target)).body(self.fill(body));
        for (name, value) in headers {
            call = call.header(name, &self.fill(value));
        }
        (call.access, call.secret) = key.clone();
        self.server.send(call).await
    }
}

fn policy(effect: &str, actions: &[Action]) -> String {
    let names: Vec<String> = actions.iter().map(|action| format!("{:?}", action.name())).collect();
    format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "{effect}", "Action": [{}], "Resource": "*"}}}}"#,
        names.join(", ")
    )
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 403 || answer.text().contains("<Code>AccessDenied</Code>")
}

/// The owner of the buckets, and somebody who has no right but by its policy.
async fn peopled() -> (Server, [(&'static str, (String, String)); 2]) {
    let server = Server::start().await;
    let identities = server.objects.identities();
    let keys = ["owner", "other"].map(|name| {
        identities.create_group(&format!("of-{name}"), "").wait().unwrap();
        identities.create_user(&format!("of-{name}"), name, None).unwrap();
        let (access, secret) = identities.create_key(name, KeyOptions::default()).wait().unwrap();
        (name, (access, secret.expose().to_owned()))
    });
    (server, keys)
}

async fn ask(server: &Server, user: &(&str, (String, String)), number: usize, row: &Row, policy: &str) -> Answer {
    let identities = server.objects.identities();
    identities.set_policy("tried", Some(policy)).wait().unwrap();
    let change = UserChange { policies: Some(vec!["tried".into()]), ..UserChange::default() };
    identities.set_user(user.0, change).wait().unwrap();
    Scene::new(server, number, "owner").answer(row, &user.1).await
}

#[tokio::test]
async fn every_call_needs_the_actions_of_its_row_and_no_others() {
    let (server, [owner, other]) = peopled().await;
    let mut number = 0;
    for row in ROWS {
        let mut tries = Vec::new();
        let others: Vec<Action> = Action::ALL.iter().copied().filter(|action| !row.needs.contains(action)).collect();
        tries.push((&owner, policy("Deny", &others), true));
        tries.push((&other, policy("Allow", row.needs), true));
        for needed in row.needs {
            tries.push((&owner, policy("Deny", &[*needed]), false));
            let rest: Vec<Action> = Action::ALL.iter().copied().filter(|action| action != needed).collect();
            if !EVERYBODYS.contains(&row.call) {
                tries.push((&other, policy("Allow", &rest), false));
            }
        }
        for (user, policy, passes) in tries {
            number += 1;
            let answer = ask(&server, user, number, row, &policy).await;
            let told = format!("{} {:?} by {}: {policy}\n{}", row.call, row.form, user.0, answer.text());
            assert_eq!(is_refused(&answer), !passes, "{told}");
            if passes {
                assert_eq!(answer.element("Code").unwrap_or_default(), row.answer, "{told}");
                assert!(!row.answer.is_empty() || (200..300).contains(&answer.status), "{told}");
            }
        }
    }
}

#[test]
fn every_call_has_a_row_and_every_action_of_s3_a_call() {
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.call).collect();
    assert_eq!(rows, CALLS.iter().copied().collect());
    let needed: BTreeSet<Action> = ROWS.iter().flat_map(|row| row.needs).copied().collect();
    let of_s3 = Action::ALL.iter().filter(|action| action.name().starts_with("s3:"));
    let idle: Vec<&Action> = of_s3.filter(|action| !needed.contains(action)).collect();
    assert!(idle.is_empty(), "to deny these does nothing: {idle:?}");
}

#[tokio::test]
async fn policies_may_ask_how_a_request_is_signed() {
    let (server, [owner, _]) = peopled().await;
    let row = ROWS.iter().find(|row| row.call == "get_object").unwrap();
    let deny = |key: &str, value: &str| {
        format!(
            r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Deny", "Action": "*", "Resource": "*",
                "Condition": {{"StringEquals": {{"{key}": "{value}"}}}}}}}}"#
        )
    };
    for (number, (key, value, refused)) in [
        ("s3:authType", "REST-HEADER", true),
        ("s3:authType", "REST-QUERY-STRING", false),
        ("s3:authType", "POST", false),
        ("s3:signatureversion", "AWS4-HMAC-SHA256", true),
        ("s3:signatureversion", "AWS", false),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = ask(&server, &owner, number, row, &deny(key, value)).await;
        assert_eq!(is_refused(&answer), refused, "{key} {value}: {}", answer.text());
        let scene = Scene::new(&server, number + 100, "owner");
        let mut call = Call::new("GET", &scene.fill("/BUCKET/plain"));
        (call.access, call.secret) = owner.1.clone();
        let mut client = server.connect().await;
        client.send(&call.presigned_bytes()).await;
        let presigned = client.answer("GET").await;
        assert_eq!(is_refused(&presigned), value == "REST-QUERY-STRING" || value.starts_with("AWS4"), "{key} {value}");
    }
}
