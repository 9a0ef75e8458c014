//! Forged, expired, skewed and missing signatures, in each mode.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Call, Damage, SECRET, Server};

fn put(key: &str) -> Call {
    Call::new("PUT", &format!("/bucket/{key}")).body("hello")
}

#[tokio::test]
async fn header_signatures() {
    let server = Server::start().await;
    server.send(put("good")).await.must_be_ok();
    assert_eq!(server.stored("good").unwrap(), b"hello");
    server.send(put("bad").secret("other")).await.must_be(403, "SignatureDoesNotMatch");
    let mut unknown = put("bad");
    unknown.access = "nobody".to_owned();
    server.send(unknown).await.must_be(403, "InvalidAccessKeyId");
    server.send(put("bad").clock_ahead(16 * 60)).await.must_be(403, "RequestTimeTooSkewed");
    server.send(put("bad").clock_ahead(-16 * 60)).await.must_be(403, "RequestTimeTooSkewed");
    server.send(put("early").clock_ahead(14 * 60)).await.must_be_ok();
    server.send(put("late").clock_ahead(-14 * 60)).await.must_be_ok();
    assert_eq!(server.stored("bad"), None);
}

#[tokio::test]
async fn missing_signatures() {
    let server = Server::start().await;
    for call in [put("bad"), Call::new("GET", "/"), Call::new("GET", "/bucket"), Call::new("DELETE", "/bucket")] {
        let mut client = server.connect().await;
        client.send(&call.unsigned_bytes()).await;
        client.answer(&call.method).await.must_be(403, "AccessDenied");
    }
    assert_eq!(server.stored("bad"), None);
}

#[tokio::test]
async fn what_is_signed_cannot_be_changed() {
    let server = Server::start().await;
    let good = String::from_utf8(put("key").header("x-amz-meta-a", "1").bytes()).unwrap();
    for (from, to) in [
        ("PUT /bucket/key", "PUT /bucket/kez"),
        ("PUT /bucket/key", "PUT /bucket/key?x-id=PutObject"),
        ("x-amz-meta-a: 1", "x-amz-meta-a: 2"),
        ("host: localhost", "host: elsewhere"),
    ] {
        let mut client = server.connect().await;
        client.send(good.replace(from, to).as_bytes()).await;
        client.answer("PUT").await.must_be(403, "SignatureDoesNotMatch");
    }
    let mut client = server.connect().await;
    client.send(good.replace("x-amz-meta-a: 1\r\n", "").as_bytes()).await;
    client.answer("PUT").await.must_be(403, "SignatureDoesNotMatch");
    let added = server.send(put("key").loose("x-amz-meta-b", "2")).await;
    added.must_be(403, "AccessDenied");
    assert_eq!(server.stored("key"), None);
}

#[tokio::test]
async fn other_mechanisms() {
    let server = Server::start().await;
    for (target, header, code) in [
        ("/bucket?AWSAccessKeyId=a&Signature=b&Expires=1", None, "InvalidRequest"),
        ("/bucket", Some("AWS test-access:c2lnbmF0dXJl"), "InvalidRequest"),
        ("/bucket", Some("AWS4-HMAC-SHA256 Credential=x"), "AuthorizationHeaderMalformed"),
        ("/bucket?X-Amz-Signature=0&X-Amz-Algorithm=x", None, "AuthorizationQueryParametersError"),
        ("/bucket?X-Amz-Signature=0", Some("AWS4-HMAC-SHA256 Credential=x"), "InvalidArgument"),
    ] {
        let mut call = Call::new("GET", target);
        if let Some(header) = header {
            call = call.header("authorization", header);
        }
        let mut client = server.connect().await;
        client.send(&call.unsigned_bytes()).await;
        client.answer("GET").await.must_be(400, code);
    }
    server.send(put("k").header("x-amz-security-token", "x")).await.must_be(400, "InvalidToken");
}

#[tokio::test]
async fn presigned_urls() {
    let server = Server::start().await;
    let presigned = async |call: Call| {
        let mut client = server.connect().await;
        client.send(&call.presigned_bytes()).await;
        client.answer(&call.method).await
    };
    presigned(put("url")).await.must_be_ok();
    assert_eq!(server.stored("url").unwrap(), b"hello");
    let get = Call::new("GET", "/bucket/url?response-content-type=text%2Fplain&response-cache-control=no-store");
    let answer = presigned(get.clone()).await.must_be_ok();
    assert_eq!(answer.body, b"hello");
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));

    presigned(put("bad").secret("other")).await.must_be(403, "SignatureDoesNotMatch");
    presigned(put("bad").clock_ahead(-700)).await.must_be(403, "AccessDenied");
    presigned(put("bad").clock_ahead(16 * 60)).await.must_be(403, "RequestTimeTooSkewed");
    presigned(put("bad").loose("x-amz-meta-a", "1")).await.must_be(403, "AccessDenied");
    let changed = get.presigned_target().replace("no-store", "public");
    let mut client = server.connect().await;
    client.send(&get.to_target(&changed)).await;
    client.answer("GET").await.must_be(403, "SignatureDoesNotMatch");
    let elsewhere = put("url").presigned_target().replace("/url", "/bad");
    let mut client = server.connect().await;
    client.send(&put("url").to_target(&elsewhere)).await;
    client.answer("PUT").await.must_be(403, "SignatureDoesNotMatch");
    assert_eq!(server.stored("bad"), None);
}

#[tokio::test]
async fn a_presigned_url_lives_at_most_seven_days() {
    let server = Server::start().await;
    let mut call = put("week");
    call.life = 604_800;
    let mut client = server.connect().await;
    client.send(&call.presigned_bytes()).await;
    client.answer("PUT").await.must_be_ok();
    call.life = 604_801;
    let mut client = server.connect().await;
    client.send(&call.presigned_bytes()).await;
    client.answer("PUT").await.must_be(400, "AuthorizationQueryParametersError");
}

#[tokio::test]
async fn headers_moved_into_a_presigned_url_count() {
    let server = Server::start().await;
    let call = Call::new("PUT", "/bucket/moved?x-amz-meta-colour=blue").body("hello");
    let mut client = server.connect().await;
    client.send(&call.presigned_bytes()).await;
    client.answer("PUT").await.must_be_ok();
    let answer = server.send(Call::new("HEAD", "/bucket/moved")).await;
    assert_eq!(answer.header("x-amz-meta-colour"), Some("blue"));
    let call = Call::new("PUT", "/bucket/acl?x-amz-acl=public-read").body("hello");
    let mut client = server.connect().await;
    client.send(&call.presigned_bytes()).await;
    // The list would be set, were public access on.
    client.answer("PUT").await.must_be(400, "InvalidRequest");
    assert_eq!(server.stored("acl"), None);
}

#[tokio::test]
async fn signed_chunks() {
    let server = Server::start().await;
    let chunks: [&[u8]; 3] = [&[b'a'; 70_000], &[b'b'; 8192], b"c"];
    let whole = chunks.concat();
    let send = async |call: Call, trailers: &[(&str, &str)], damage| {
        let mut client = server.connect().await;
        client.send(&call.chunked(&chunks, trailers, damage)).await;
        client.answer("PUT").await
    };
    let call = |key: &str| Call::new("PUT", &format!("/bucket/{key}"));
    send(call("plain"), &[], Damage::None).await.must_be_ok();
    assert_eq!(server.stored("plain").unwrap(), whole);
    let sum = koine_object_crc32(&whole);
    send(call("trailer"), &[("x-amz-checksum-crc32", &sum)], Damage::None).await.must_be_ok();
    assert_eq!(server.stored("trailer").unwrap(), whole);

    for index in 0..4 {
        let answer = send(call("bad"), &[], Damage::ChunkSignature(index)).await;
        answer.must_be(403, "SignatureDoesNotMatch");
    }
    let trailers = [("x-amz-checksum-crc32", sum.as_str())];
    send(call("bad"), &trailers, Damage::TrailerSignature).await.must_be(403, "SignatureDoesNotMatch");
    send(call("bad"), &[], Damage::NoLastChunk).await.must_be(400, "IncompleteBody");
    send(call("bad").secret("other"), &[], Damage::None).await.must_be(403, "SignatureDoesNotMatch");
    send(call("bad").clock_ahead(1000), &[], Damage::None).await.must_be(403, "RequestTimeTooSkewed");
    let wrong = [("x-amz-checksum-crc32", "AAAAAA==")];
    send(call("bad"), &wrong, Damage::None).await.must_be(400, "BadDigest");
    assert_eq!(server.stored("bad"), None);
}

fn koine_object_crc32(bytes: &[u8]) -> String {
    use base64::Engine as _;
    // The reflected polynomial of CRC-32, bit by bit.
    let crc = !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    });
    base64::engine::general_purpose::STANDARD.encode(crc.to_be_bytes())
}

#[tokio::test]
async fn unsigned_chunks_with_a_trailer() {
    let server = Server::start().await;
    let sum = koine_object_crc32(b"hello");
    let call = |key: &str| Call::new("PUT", &format!("/bucket/{key}"));
    server.send(call("good").unsigned_chunks(b"hello", ("x-amz-checksum-crc32", &sum))).await.must_be_ok();
    assert_eq!(server.stored("good").unwrap(), b"hello");
    let head = server.send(Call::new("HEAD", "/bucket/good").header("x-amz-checksum-mode", "ENABLED")).await;
    assert_eq!(head.header("x-amz-checksum-crc32"), Some(sum.as_str()));
    assert_eq!(head.header("content-encoding"), None);

    let wrong = call("bad").unsigned_chunks(b"hellO", ("x-amz-checksum-crc32", &sum));
    server.send(wrong).await.must_be(400, "BadDigest");
    let mut missing = call("bad").unsigned_chunks(b"hello", ("x-amz-checksum-crc32", &sum));
    missing.body = b"5\r\nhello\r\n0\r\n\r\n".to_vec();
    server.send(missing).await.must_be(400, "MalformedTrailerError");
    let mut cut = call("bad").unsigned_chunks(b"hello", ("x-amz-checksum-crc32", &sum));
    cut.body = b"5\r\nhello\r\n".to_vec();
    server.send(cut).await.must_be(400, "IncompleteBody");
    let mut garbage = call("bad").unsigned_chunks(b"hello", ("x-amz-checksum-crc32", &sum));
    garbage.body = b"hello\r\n".to_vec();
    server.send(garbage).await.must_be(400, "IncompleteBody");
    let forged = call("bad").unsigned_chunks(b"hello", ("x-amz-checksum-crc32", &sum)).secret("other");
    server.send(forged).await.must_be(403, "SignatureDoesNotMatch");
    assert_eq!(server.stored("bad"), None);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// On one thread, so that everything the server says comes to this test's log.
#[tokio::test(flavor = "current_thread")]
async fn refusals_are_logged_without_secrets() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let server = Server::start().await;
    server.send(put("ok")).await.must_be_ok();
    server.send(put("forged").secret("other-secret")).await.must_be(403, "SignatureDoesNotMatch");
    let presigned = put("url").presigned_target();
    let mut client = server.connect().await;
    client.send(&put("url").to_target(&presigned)).await;
    client.answer("PUT").await.must_be_ok();
    drop(guard);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("SignatureDoesNotMatch") && text.contains("/bucket/forged"), "{text}");
    assert!(!text.contains(SECRET) && !text.contains("other-secret"));
    // A presigned URL is a key as long as it lives: what the door and the library say must not hold one.
    let signature = presigned.split_once("X-Amz-Signature=").unwrap().1;
    let ours = text.lines().filter(|line| line.contains("koine_gateway") || line.contains("s3s"));
    assert!(ours.clone().count() > 0);
    for line in ours {
        assert!(!line.contains(signature) && !line.contains("Signature="), "{line}");
    }
}
