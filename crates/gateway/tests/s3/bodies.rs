//! Wrong bodies: hashes, checksums, lengths, XML. None of them leaves anything.

use crate::support::{Call, Server};

fn put(key: &str) -> Call {
    Call::new("PUT", &format!("/bucket/{key}")).body("hello")
}

#[tokio::test]
async fn a_wrong_hash_leaves_nothing() {
    let server = Server::start().await;
    let other = "0".repeat(64);
    server.send(put("bad").payload(&other)).await.must_be(400, "XAmzContentSHA256Mismatch");
    server.send(put("bad").payload("nonsense")).await.must_be(400, "InvalidArgument");
    let large = Call::new("PUT", "/bucket/bad").body(vec![7; 3 << 20]).payload(&other);
    server.send(large).await.must_be(400, "XAmzContentSHA256Mismatch");
    assert_eq!(server.stored("bad"), None);
    let page = server.objects.list("bucket", &koine_object::ListQuery { limit: 10, ..Default::default() }).unwrap();
    assert_eq!(page.objects.len(), 0);
}

#[tokio::test]
async fn a_wrong_checksum_leaves_nothing() {
    let server = Server::start().await;
    for (name, value, code) in [
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==", "BadDigest"),
        ("content-md5", "short", "InvalidDigest"),
        ("x-amz-checksum-crc32", "AAAAAA==", "BadDigest"),
        ("x-amz-checksum-crc32c", "AAAAAA==", "BadDigest"),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", "BadDigest"),
        ("x-amz-checksum-sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "BadDigest"),
        ("x-amz-checksum-sha256", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "BadDigest"),
        ("x-amz-checksum-sha256", "AAAA", "InvalidRequest"),
        ("x-amz-sdk-checksum-algorithm", "MD4", "InvalidRequest"),
    ] {
        server.send(put("bad").header(name, value)).await.must_be(400, code);
    }
    let right = put("good").header("content-md5", "XUFAKrxLKna5cZ2REBfFkg==");
    server.send(right.header("x-amz-checksum-crc32", "NhCmhg==")).await.must_be_ok();
    assert_eq!(server.stored("bad"), None);
    assert_eq!(server.stored("good").unwrap(), b"hello");
}

#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing() {
    let server = Server::start().await;
    let mut call = put("bad");
    call.content_length = Some(100);
    let mut client = server.connect().await;
    client.send(&call.bytes()).await;
    drop(client);
    // Another request, after the server has seen the end of the first one.
    server.send(put("good")).await.must_be_ok();
    assert_eq!(server.stored("bad"), None);
}

#[tokio::test]
async fn malformed_xml() {
    let server = Server::start().await;
    let md5 = |body: &str| {
        use base64::Engine as _;
        // The digest of a body does not excuse its form.
        let digest = sha2::Sha256::new_with_prefix(body).finalize();
        base64::engine::general_purpose::STANDARD.encode(digest)
    };
    use sha2::Digest as _;
    for body in [
        "not xml",
        "<Delete>",
        "<Delete></Delete>",
        "<Delete><Object></Object></Delete>",
        "<Delete><Object><Key>a</Key></Delete>",
        "<?xml version=\"1.0\"?><!DOCTYPE d [<!ENTITY a \"aaaa\">]><Delete><Object><Key>&a;</Key></Object></Delete>",
        "<Other><Object><Key>a</Key></Object></Other>",
    ] {
        let call = Call::new("POST", "/bucket?delete").header("x-amz-checksum-sha256", &md5(body)).body(body);
        server.send(call).await.must_be(400, "MalformedXML");
        let call = Call::new("POST", "/bucket/key?uploadId=00000000000000000000000000000000").body(body);
        server.send(call).await.must_be(400, "MalformedXML");
        server.send(Call::new("PUT", "/another-bucket").body(body)).await.must_be(400, "MalformedXML");
    }
    server.send(Call::new("HEAD", "/another-bucket")).await.must_be(404, "");
    let unchecked = Call::new("POST", "/bucket?delete").body("<Delete><Object><Key>a</Key></Object></Delete>");
    server.send(unchecked).await.must_be(400, "InvalidRequest");
    let wrong = Call::new("POST", "/bucket?delete").header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    server.send(wrong.body("<Delete><Object><Key>a</Key></Object></Delete>")).await.must_be(400, "BadDigest");
}

#[tokio::test]
async fn trailers_that_were_not_announced_or_come_twice_leave_nothing() {
    let server = Server::start().await;
    let crc = ("x-amz-checksum-crc32", "NhCmhg==");
    let with = |lines: &[&str]| {
        let mut call = Call::new("PUT", "/bucket/bad").unsigned_chunks(b"hello", crc);
        let end = call.body.len() - 2;
        call.body.truncate(end);
        call.body.extend(lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).chain(*b"\r\n"));
        call
    };
    server.send(with(&["x-amz-checksum-crc32:NhCmhg=="])).await.must_be(400, "MalformedTrailerError");
    server.send(with(&["x-amz-checksum-sha1:AAAA"])).await.must_be(400, "MalformedTrailerError");
    server.send(with(&["x-amz-meta-colour:red"])).await.must_be(400, "MalformedTrailerError");
    let signature = format!("x-amz-trailer-signature:{}", "0".repeat(64));
    server.send(with(&[&signature])).await.must_be(400, "MalformedTrailerError");
    assert_eq!(server.stored("bad"), None);
    server.send(with(&[])).await.must_be_ok();
    assert_eq!(server.stored("bad").unwrap(), b"hello");
}

#[tokio::test]
async fn a_checksum_after_a_document_is_compared_too() {
    let server = Server::start().await;
    server.send(Call::new("PUT", "/bucket/kept").body("hello")).await.must_be_ok();
    let document = b"<Delete><Object><Key>kept</Key></Object></Delete>";
    let delete =
        |value: &str| Call::new("POST", "/bucket?delete").unsigned_chunks(document, ("x-amz-checksum-sha256", value));
    server.send(delete(&format!("{}=", "A".repeat(43)))).await.must_be(400, "BadDigest");
    assert!(server.stored("kept").is_some());
    use base64::Engine as _;
    use sha2::Digest as _;
    let right = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(document));
    server.send(delete(&right)).await.must_be_ok();
    assert_eq!(server.stored("kept"), None);
}

#[tokio::test]
async fn uploads_by_html_form_are_refused_before_their_body_is_read() {
    let server = Server::start().await;
    let mut call = Call::new("POST", "/bucket?delete").header("content-type", "multipart/form-data; boundary=x");
    call.content_length = Some(1 << 30);
    server.send(call).await.must_be(501, "NotImplemented");
    let mut client = server.connect().await;
    let call = Call::new("POST", "/bucket").header("content-type", "multipart/form-data; boundary=x");
    client.send(&call.unsigned_bytes()).await;
    client.answer("POST").await.must_be(403, "AccessDenied");
}
