//! What AWS answers word for word: checksums of every algorithm, attributes, ranges, regions, tags, versions.

use crate::support::{Call, Server};

/// Of `hello`, by other programs.
const OF_HELLO: [(&str, &str, &str); 10] = [
    ("crc32", "CRC32", "NhCmhg=="),
    ("crc32c", "CRC32C", "mnG7TA=="),
    ("crc64nvme", "CRC64NVME", "M3eFcAZSQlc="),
    ("sha1", "SHA1", "qvTGHdzF6KLavt4PO0gs2a6pQ00="),
    ("sha256", "SHA256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
    ("sha512", "SHA512", "m3HSJL1i83hdltRq0+o9czGb+8KJDKra4t/3JRlnPKcjI8PZm6XBHXx6zG4UuMXaDEZjR1wuXDre9G9zvN7AQw=="),
    ("md5", "MD5", "XUFAKrxLKna5cZ2REBfFkg=="),
    ("xxhash64", "XXHASH64", "JseCfYifbaM="),
    ("xxhash3", "XXHASH3", "lVXoVVxi3P0="),
    ("xxhash128", "XXHASH128", "tenBrQcbPn/Hec+qXlI4GA=="),
];

fn put(key: &str) -> Call {
    Call::new("PUT", &format!("/bucket/{key}")).body("hello")
}

#[tokio::test]
async fn every_checksum_is_compared_kept_and_told() {
    let server = Server::start().await;
    for (name, element, value) in OF_HELLO {
        let header = format!("x-amz-checksum-{name}");
        let other = if name == "crc32" { "AAAAAA==".to_owned() } else { value.replacen(&value[..1], "A", 1) };
        let wrong = server.send(put("wrong").header(&header, &other)).await;
        wrong.must_be(400, "BadDigest");
        let words = format!("The {element} you specified did not match the calculated checksum.");
        assert_eq!(wrong.element("Message"), Some(words));
        assert_eq!(server.stored("wrong"), None);
        let given = server.send(put(name).header(&header, value)).await.must_be_ok();
        assert_eq!(given.header(&header), Some(value));
        assert_eq!(given.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
        let head = Call::new("HEAD", &format!("/bucket/{name}")).header("x-amz-checksum-mode", "ENABLED");
        assert_eq!(server.send(head).await.header(&header), Some(value));
        let attributes = Call::new("GET", &format!("/bucket/{name}?attributes"))
            .header("x-amz-object-attributes", "Checksum,ETag,ObjectSize");
        let told = server.send(attributes).await.must_be_ok();
        assert_eq!(told.element(&format!("Checksum{element}")).as_deref(), Some(value), "{}", told.text());
        assert_eq!(told.element("ETag").as_deref(), Some("5d41402abc4b2a76b9719d911017c592"));
        assert_eq!(told.element("ObjectSize").as_deref(), Some("5"));
        let copy = put("copy").body("").header("x-amz-copy-source", &format!("bucket/{name}"));
        let told = server.send(copy).await.must_be_ok();
        assert_eq!(told.element(&format!("Checksum{element}")).as_deref(), Some(value), "{}", told.text());
    }
}

#[tokio::test]
async fn every_checksum_of_parts_is_composed_or_combined() {
    let server = Server::start().await;
    for (name, element, value) in OF_HELLO {
        let header = format!("x-amz-checksum-{name}");
        let begin = Call::new("POST", "/bucket/key?uploads").header("x-amz-checksum-algorithm", element);
        let upload = server.send(begin).await.must_be_ok().element("UploadId").unwrap();
        let target = format!("/bucket/key?partNumber=1&uploadId={upload}");
        let part = server.send(Call::new("PUT", &target).body("hello").header(&header, value)).await.must_be_ok();
        assert_eq!(part.header(&header), Some(value));
        let whole = format!("/bucket/key?uploadId={upload}");
        let listed = server.send(Call::new("GET", &whole)).await.must_be_ok();
        assert_eq!(listed.element(&format!("Checksum{element}")).as_deref(), Some(value), "{}", listed.text());
        assert_eq!(listed.element("ChecksumAlgorithm").as_deref(), Some(element));
        let etag = part.header("etag").unwrap();
        let complete = |sums: &str| {
            let part = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag>{sums}</Part>");
            let document = format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>");
            Call::new("POST", &whole).body(document)
        };
        let sum = format!("<Checksum{element}>{value}</Checksum{element}>");
        let bad = format!("<Checksum{element}>AAAA</Checksum{element}>");
        server.send(complete(&bad)).await.must_be(400, "InvalidArgument");
        let mode =
            complete(&sum).header("x-amz-checksum-type", if name == "crc64nvme" { "COMPOSITE" } else { "FULL_OBJECT" });
        server.send(mode).await.must_be(400, "InvalidRequest");
        if name != "crc64nvme" {
            server.send(complete("")).await.must_be(400, "InvalidRequest");
        }
        let done = server.send(complete(&sum)).await.must_be_ok();
        let told = done.element(&format!("Checksum{element}")).unwrap();
        assert_eq!(told.ends_with("-1"), name != "crc64nvme", "{told}");
        let head = Call::new("HEAD", "/bucket/key").header("x-amz-checksum-mode", "ENABLED");
        assert_eq!(server.send(head).await.header(&header), Some(told.as_str()));
    }
    let refused = Call::new("POST", "/bucket/key?uploads")
        .header("x-amz-checksum-algorithm", "XXHASH3")
        .header("x-amz-checksum-type", "FULL_OBJECT");
    let refused = server.send(refused).await;
    refused.must_be(400, "InvalidRequest");
    let words = "The FULL_OBJECT checksum type cannot be used with the xxhash3 checksum algorithm.";
    assert_eq!(refused.element("Message").as_deref(), Some(words));
}

#[tokio::test]
async fn attributes_tell_parts_in_pages() {
    let server = Server::start().await;
    let begun = server.send(Call::new("POST", "/bucket/key?uploads")).await.must_be_ok();
    let upload = begun.element("UploadId").unwrap();
    let mut named = String::new();
    for (number, body) in [(1, vec![1; 5 << 20]), (3, b"end".to_vec())] {
        let target = format!("/bucket/key?partNumber={number}&uploadId={upload}");
        let part = server.send(Call::new("PUT", &target).body(body)).await.must_be_ok();
        let etag = part.header("etag").unwrap();
        named.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"));
    }
    let document = format!("<CompleteMultipartUpload>{named}</CompleteMultipartUpload>");
    let complete = Call::new("POST", &format!("/bucket/key?uploadId={upload}")).body(document);
    server.send(complete).await.must_be_ok();
    let attributes = |headers: &[(&str, &str)]| {
        let call = Call::new("GET", "/bucket/key?attributes").header("x-amz-object-attributes", "ObjectParts");
        headers.iter().fold(call, |call, (name, value)| call.header(name, value))
    };
    let page = |after: &str, more: &str, number: &str| {
        [
            ("PartNumberMarker", after),
            ("IsTruncated", more),
            ("PartNumber", number),
            ("PartsCount", "2"),
            ("MaxParts", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
    };
    for (after, more, number) in [("0", "true", "1"), ("1", "false", "3"), ("2", "false", "3")] {
        let call = attributes(&[("x-amz-max-parts", "1"), ("x-amz-part-number-marker", after)]);
        let told = server.send(call).await.must_be_ok();
        let found = page(after, more, number).map(|(name, _)| (name.clone(), told.element(&name)));
        assert_eq!(found, page(after, more, number), "{}", told.text());
    }
    let none = Call::new("GET", "/bucket/none?attributes").header("x-amz-object-attributes", "ETag");
    server.send(none).await.must_be(404, "NoSuchKey");
    let unknown = Call::new("GET", "/bucket/key?attributes").header("x-amz-object-attributes", "Colour");
    server.send(unknown).await.must_be(400, "InvalidArgument");
}

#[tokio::test]
async fn ranges_with_zeros_and_of_nothing() {
    let server = Server::start().await;
    server.send(put("key")).await.must_be_ok();
    server.send(put("empty").body("")).await.must_be_ok();
    for (key, range, status, body) in [
        ("key", "bytes=00-01", 206, "he"),
        ("key", "bytes= -1", 200, "hello"),
        ("key", "bytes=0 -1", 200, "hello"),
        ("empty", "bytes=-1", 200, ""),
        ("empty", "bytes=a-b", 200, ""),
        ("empty", "bytes=0-0", 416, ""),
        ("empty", "bytes=0-", 416, ""),
    ] {
        let target = format!("/bucket/{key}");
        let got = server.send(Call::new("GET", &target).header("range", range)).await;
        assert_eq!(got.status, status, "{key} {range}");
        assert!(status == 416 || got.text() == body, "{key} {range}: {}", got.text());
        let head = server.send(Call::new("HEAD", &target).header("range", range)).await;
        assert_eq!(head.status, status, "{key} {range}");
    }
    for method in ["GET", "HEAD"] {
        for expires in ["Thu, 01 Dec 2024 16:00:00 GMT", "tomorrow"] {
            let target = format!(
                "/bucket/key?response-expires={}",
                expires.replace(' ', "%20").replace(',', "%2C").replace(':', "%3A")
            );
            let told = server.send(Call::new(method, &target)).await.must_be_ok();
            assert_eq!(told.header("expires"), Some(expires));
        }
    }
}

const LOCATION_REFUSED: &str = "The specified location-constraint is not valid";

/// Makes a bucket in a region and with tags.
fn made(bucket: &str, region: &str, tags: &str) -> Call {
    let document = format!("<LocationConstraint>{region}</LocationConstraint>{tags}");
    let document = format!("<CreateBucketConfiguration>{document}</CreateBucketConfiguration>");
    Call::new("PUT", &format!("/{bucket}")).body(document)
}

#[tokio::test]
async fn every_region_is_taken_and_told_back() {
    let server = Server::start().await;
    for (bucket, region, location) in [
        ("of-moon", "moon-1", ">moon-1</LocationConstraint>"),
        ("of-virginia", "us-east-1", "></LocationConstraint>"),
        ("of-europe", "EU", ">EU</LocationConstraint>"),
        ("of-none", "", "></LocationConstraint>"),
    ] {
        let call = if region.is_empty() { Call::new("PUT", &format!("/{bucket}")) } else { made(bucket, region, "") };
        server.send(call).await.must_be_ok();
        let told = server.send(Call::new("GET", &format!("/{bucket}?location"))).await.must_be_ok();
        assert!(told.text().contains(location), "{bucket}: {}", told.text());
        let told = server.send(Call::new("HEAD", &format!("/{bucket}"))).await.must_be_ok();
        let expected = if region.is_empty() { "us-east-1" } else { region };
        assert_eq!(told.header("x-amz-bucket-region"), Some(expected), "{bucket}");
    }
    // Who fixes the region takes no other.
    let server = Server::in_region("us-east-1").await;
    server.send(made("other", "moon-1", "")).await.must_be(400, "InvalidLocationConstraint");
    server.send(Call::new("HEAD", "/other")).await.must_be(404, "");
    server.send(made("other", "us-east-1", "")).await.must_be_ok();
}

#[tokio::test]
async fn a_bucket_is_made_with_its_tags_or_not_at_all() {
    let server = Server::start().await;
    let tag = |name: &str| format!("<Tag><Key>{name}</Key><Value>of {name}</Value></Tag>");
    let tags = |names: &[&str]| format!("<Tags>{}</Tags>", names.iter().map(|name| tag(name)).collect::<String>());
    server.send(made("tagged", "moon-1", &tags(&["a", "b"]))).await.must_be_ok();
    let told = server.send(Call::new("GET", "/tagged?tagging")).await.must_be_ok();
    assert!(told.text().contains(&tag("a")) && told.text().contains(&tag("b")), "{}", told.text());
    server.send(made("twice", "moon-1", &tags(&["a", "a"]))).await.must_be(400, "InvalidTag");
    server.send(Call::new("GET", "/twice?location")).await.must_be(404, "NoSuchBucket");
}

#[tokio::test]
async fn a_canned_list_is_told_with_the_owner_first_and_read_before_write() {
    let server = Server::start().await;
    server.objects.identities().set_public_access(true).wait().unwrap();
    for (canned, expected) in [
        ("private", "FULL_CONTROL"),
        ("public-read", "FULL_CONTROL READ"),
        ("public-read-write", "FULL_CONTROL READ WRITE"),
        ("authenticated-read", "FULL_CONTROL READ"),
    ] {
        server.send(Call::new("PUT", "/bucket?acl").header("x-amz-acl", canned)).await.must_be_ok();
        let told = server.send(Call::new("GET", "/bucket?acl")).await.must_be_ok().text();
        let of = |grant: &str| Some(grant.split_once("<Permission>")?.1.split_once('<')?.0.to_owned());
        let told: Vec<String> = told.split("<Grant>").filter_map(of).collect();
        assert_eq!(told.join(" "), expected, "{canned}");
    }
}

#[tokio::test]
async fn errors_are_told_in_the_words_of_s3_and_in_their_order() {
    let server = Server::start().await;
    server.send(put("key")).await.must_be_ok();
    let none = "00000000000000000000000000000000";
    let upload = format!("partNumber=1&uploadId={none}");
    for (call, status, code, words) in [
        (Call::new("GET", "/none"), 404, "NoSuchBucket", "The specified bucket does not exist."),
        (Call::new("GET", "/bucket/none"), 404, "NoSuchKey", "The specified key does not exist."),
        (made("another", "two words", ""), 400, "InvalidLocationConstraint", LOCATION_REFUSED),
        (Call::new("DELETE", "/bucket"), 409, "BucketNotEmpty", "The bucket you tried to delete is not empty."),
        (Call::new("PUT", &format!("/none/key?{upload}")), 404, "NoSuchBucket", "The specified bucket does not exist."),
        (
            Call::new("PUT", "/none/key?partNumber=1&uploadId=x"),
            404,
            "NoSuchBucket",
            "The specified bucket does not exist.",
        ),
        (
            Call::new("PUT", "/bucket/key?partNumber=1&uploadId=x"),
            404,
            "NoSuchUpload",
            "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been \
             aborted or completed.",
        ),
        (
            Call::new("GET", "/bucket/key?versionId=01G65Z755AFWAKHE12NY0CQ9FH"),
            404,
            "NoSuchVersion",
            "The specified version does not exist.",
        ),
        (Call::new("GET", "/bucket/key?versionId=no_version"), 400, "InvalidArgument", "Invalid version id specified"),
        (
            Call::new("PUT", "/bucket?versioning").body("<Other/>"),
            400,
            "MalformedXML",
            "The XML you provided was not well-formed or did not validate against our published schema.",
        ),
    ] {
        let answer = server.send(call).await;
        answer.must_be(status, code);
        assert_eq!(answer.element("Message").as_deref(), Some(words));
    }
}

#[tokio::test]
async fn tags_that_are_wrong() {
    let server = Server::start().await;
    server.send(put("key")).await.must_be_ok();
    let tags = |target: &str, pairs: &[(String, String)]| {
        let each: String =
            pairs.iter().map(|(name, value)| format!("<Tag><Key>{name}</Key><Value>{value}</Value></Tag>")).collect();
        Call::new("PUT", target).body(format!("<Tagging><TagSet>{each}</TagSet></Tagging>"))
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for target in ["/bucket?tagging", "/bucket/key?tagging"] {
        for (wrong, words) in [
            (vec![pair("", "x")], "The TagKey you have provided is invalid"),
            (vec![pair(&"k".repeat(129), "x")], "The TagKey you have provided is invalid"),
            (vec![pair("ke!y", "x")], "The TagKey you have provided is invalid"),
            (vec![pair("k", &"v".repeat(257))], "The TagValue you have provided is invalid"),
            (vec![pair("k", "val#")], "The TagValue you have provided is invalid"),
            (vec![pair("k", "1"), pair("k", "2")], "Cannot provide multiple Tags with the same key"),
        ] {
            let answer = server.send(tags(target, &wrong)).await;
            answer.must_be(400, "InvalidTag");
            assert_eq!(answer.element("Message").as_deref(), Some(words));
        }
        let count = if target.contains("key") { 10 } else { 50 };
        let many = |count: usize| (0..count).map(|n| pair(&n.to_string(), "é x_.:/=+-@")).collect::<Vec<_>>();
        server.send(tags(target, &many(count + 1))).await.must_be(400, "BadRequest");
        let set = server.send(tags(target, &many(count))).await.must_be_ok();
        assert_eq!(set.status, if target.contains("key") { 200 } else { 204 });
    }
    for (tags, code) in [("a=1&a=2", "InvalidArgument"), ("=1", "InvalidArgument"), ("a%21=1", "InvalidTag")] {
        server.send(put("new").header("x-amz-tagging", tags)).await.must_be(400, code);
    }
}
