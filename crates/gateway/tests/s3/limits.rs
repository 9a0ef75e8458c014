//! One test a row of docs/limits.md, named for it.

use std::time::Duration;

use koine_gateway::Limits;

use crate::support::{Call, Server};

fn put(key: &str) -> Call {
    Call::new("PUT", &format!("/bucket/{key}")).body("hello")
}

fn short() -> Limits {
    Limits { idle_time_max: Duration::from_millis(300), head_time_max: Duration::from_millis(300), ..Limits::default() }
}

#[tokio::test]
async fn head_len_max() {
    let server = Server::start().await;
    let fitting = put("fits").header("x-filler", &"a".repeat(30 << 10));
    server.send(fitting).await.must_be_ok();
    let huge = put("huge").header("x-filler", &"a".repeat(33 << 10));
    server.send(huge).await.must_be(400, "RequestHeaderSectionTooLarge");
    let query = Call::new("GET", &format!("/bucket?list-type=2&prefix={}", "a".repeat(33 << 10)));
    server.send(query).await.must_be(400, "RequestHeaderSectionTooLarge");
    assert_eq!(server.stored("huge"), None);
}

#[tokio::test]
async fn head_len_hard_max() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(b"GET /bucket HTTP/1.1\r\nx-filler: ").await;
    // Endless: the server answers and closes long before all of it is sent.
    for _ in 0..64 {
        client.send(&[b'a'; 16 << 10]).await;
    }
    let answer = client.answer("GET").await;
    assert!(matches!(answer.status, 431 | 0), "{}", answer.status);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn header_count_max() {
    let server = Server::start().await;
    let mut call = put("many");
    for index in 0..90 {
        call = call.header(&format!("x-filler-{index}"), "a");
    }
    server.send(call.clone()).await.must_be_ok();
    for index in 90..101 {
        call = call.header(&format!("x-filler-{index}"), "a");
    }
    assert_eq!(server.send(call).await.status, 431);
}

#[tokio::test]
async fn head_time_max() {
    let server = Server::with_limits(short()).await;
    let mut client = server.connect().await;
    client.send(b"GET /bucket HTTP/1.1\r\nhost: local").await;
    assert!(client.is_closed().await);
    // An idle connection ends likewise.
    let mut client = server.connect().await;
    client.send(&put("one").bytes()).await;
    client.answer("PUT").await.must_be_ok();
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn idle_time_max() {
    let server = Server::with_limits(short()).await;
    for length in [100, 10 << 20] {
        let mut call = put("stalled");
        call.content_length = Some(length);
        call.payload = Some("UNSIGNED-PAYLOAD".to_owned());
        server.send(call).await.must_be(400, "RequestTimeout");
    }
    assert_eq!(server.stored("stalled"), None);
}

#[tokio::test]
async fn body_rate_min() {
    let limits = Limits { body_rate_min: 1 << 20, idle_time_max: Duration::from_millis(400), ..Limits::default() };
    let server = Server::with_limits(limits).await;
    let mut call = put("trickle").payload("UNSIGNED-PAYLOAD");
    call.content_length = Some(1 << 20);
    let mut client = server.connect().await;
    client.send(&call.bytes()).await;
    for _ in 0..40 {
        client.send(b"a").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client.answer("PUT").await.must_be(400, "RequestTimeout");
}

#[tokio::test]
async fn idle_time_max_of_a_client_that_reads_nothing() {
    let server = Server::with_limits(short()).await;
    server.send(Call::new("PUT", "/bucket/large").body(vec![1; 32 << 20])).await.must_be_ok();
    let mut client = server.connect().await;
    client.send(&Call::new("GET", "/bucket/large").bytes()).await;
    // More than the sockets' buffers hold waits at the server until it gives up.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = client.answer("GET").await;
    assert!(!answer.whole, "{} of the bytes came", answer.body.len());
}

#[tokio::test]
async fn xml_len_max() {
    let server = Server::start().await;
    let mut call = Call::new("POST", "/bucket?delete").header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    call.content_length = Some((4 << 20) + 1);
    call.payload = Some("UNSIGNED-PAYLOAD".to_owned());
    server.send(call).await.must_be(400, "MaxMessageLengthExceeded");
}

#[tokio::test]
async fn documents_in_flight_max() {
    let server = Server::with_limits(Limits { documents_in_flight_max: 1, ..Limits::default() }).await;
    let mut call = Call::new("POST", "/bucket?delete").header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    call.content_length = Some(100 << 10);
    call.payload = Some("UNSIGNED-PAYLOAD".to_owned());
    let mut first = server.connect().await;
    first.send(&call.bytes()).await;
    let mut whole = call.clone().body(vec![b' '; 100 << 10]);
    whole.content_length = None;
    loop {
        let answer = server.send(whole.clone()).await;
        if answer.status == 503 {
            answer.must_be(503, "SlowDown");
            break;
        }
        answer.must_be(400, "BadDigest");
    }
    first.send(&vec![b' '; 100 << 10]).await;
    first.answer("POST").await.must_be(400, "BadDigest");
    server.send(whole).await.must_be(400, "BadDigest");
}

#[tokio::test]
async fn endless_bodies_need_a_length() {
    let server = Server::start().await;
    let call = Call::new("PUT", "/bucket/endless").payload("UNSIGNED-PAYLOAD").loose("transfer-encoding", "chunked");
    let mut client = server.connect().await;
    client.send(&call.bytes()).await;
    client.send(b"5\r\nhello\r\n").await;
    client.answer("PUT").await.must_be(411, "MissingContentLength");
    assert_eq!(server.stored("endless"), None);
}

#[tokio::test]
async fn body_len_max() {
    let server = Server::start().await;
    for target in ["/bucket/large", "/bucket/large?partNumber=1&uploadId=00000000000000000000000000000000"] {
        let mut call = Call::new("PUT", target).payload("UNSIGNED-PAYLOAD");
        call.content_length = Some((5 << 30) + 1);
        server.send(call).await.must_be(400, "EntityTooLarge");
        let announced = ((5_u64 << 30) + 1).to_string();
        let call = Call::new("PUT", target)
            .payload("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            .header("x-amz-trailer", "x-amz-checksum-crc32")
            .header("x-amz-decoded-content-length", &announced);
        server.send(call).await.must_be(400, "EntityTooLarge");
    }
}

#[tokio::test]
async fn connections_max() {
    let server = Server::with_limits(Limits { connections_max: 2, ..Limits::default() }).await;
    let mut slow = put("one").payload("UNSIGNED-PAYLOAD");
    slow.body = b"h".to_vec();
    slow.content_length = Some(5);
    // A share is one connection: the other address has the other one.
    let mut first = server.connect().await;
    first.send(&slow.bytes()).await;
    let mut second = server.connect_from(2).await;
    second.send(&slow.bytes()).await;
    loop {
        let mut third = server.connect_from(3).await;
        third.send(&put("two").bytes()).await;
        let answer = third.answer("PUT").await;
        if answer.status == 503 {
            answer.must_be(503, "SlowDown");
            assert!(third.is_closed().await);
            break;
        }
        // The head of one of them has not been seen: it was idle, and made room.
        answer.must_be_ok();
        first = server.connect().await;
        first.send(&slow.bytes()).await;
        second = server.connect_from(2).await;
        second.send(&slow.bytes()).await;
    }
    first.send(b"ello").await;
    first.answer("PUT").await.must_be_ok();
    // It is idle now, and makes room.
    let mut next = server.connect_from(3).await;
    next.send(&put("three").bytes()).await;
    next.answer("PUT").await.must_be_ok();
    assert!(first.is_closed().await);
    second.send(b"ello").await;
    second.answer("PUT").await.must_be_ok();
}

#[tokio::test]
async fn uploads_in_flight_max() {
    let server = Server::with_limits(Limits { uploads_in_flight_max: 1, ..Limits::default() }).await;
    let mut call = put("slow").payload("UNSIGNED-PAYLOAD");
    call.content_length = Some(1 << 20);
    let mut slow = server.connect().await;
    slow.send(&call.bytes()).await;
    // The second is refused as soon as the first has begun.
    let large = Call::new("PUT", "/bucket/large").body(vec![1; 100 << 10]);
    loop {
        let answer = server.send(large.clone()).await;
        if answer.status == 503 {
            answer.must_be(503, "SlowDown");
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Small bodies do not count.
    server.send(put("small")).await.must_be_ok();
    slow.send(&vec![0; (1 << 20) - 5]).await;
    slow.answer("PUT").await.must_be_ok();
    server.send(large).await.must_be_ok();
}

#[tokio::test]
async fn downloads_in_flight_max() {
    let server = Server::with_limits(Limits { downloads_in_flight_max: 1, ..Limits::default() }).await;
    let body = vec![3; 24 << 20];
    server.send(Call::new("PUT", "/bucket/large").body(body.clone())).await.must_be_ok();
    let get = Call::new("GET", "/bucket/large").bytes();
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    first.send(&get).await;
    // Its first bytes are there: it has the only place.
    first.some_bytes().await;
    second.send(&get).await;
    // Small ones do not wait, whatever the large ones do.
    let small = server.send(Call::new("GET", "/bucket/large").header("range", "bytes=0-9")).await;
    assert_eq!(small.body, [3; 10]);
    assert!(second.nothing_yet());
    assert!(first.answer("GET").await.body == body);
    drop(first);
    assert!(second.answer("GET").await.body == body);
}

#[tokio::test]
async fn metadata_len_max() {
    let server = Server::start().await;
    server.send(put("fits").header("x-amz-meta-a", &"a".repeat(2047))).await.must_be_ok();
    server.send(put("large").header("x-amz-meta-a", &"a".repeat(2048))).await.must_be(400, "MetadataTooLarge");
    assert_eq!(server.stored("large"), None);
}

#[tokio::test]
async fn object_key_len_max() {
    let server = Server::start().await;
    server.send(put(&"k".repeat(1024))).await.must_be_ok();
    server.send(put(&"k".repeat(1025))).await.must_be(400, "KeyTooLongError");
}

fn many(start: &str, entry: &str, end: &str, count: usize) -> String {
    let entries: String = (1..=count).map(|index| entry.replace('#', &index.to_string())).collect();
    format!("{start}{entries}{end}")
}

fn checked(target: &str, body: String) -> Call {
    use base64::Engine as _;
    use sha2::Digest as _;
    let digest = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(&body));
    Call::new("POST", target).header("x-amz-checksum-sha256", &digest).body(body)
}

#[tokio::test]
async fn delete_many_max() {
    let server = Server::start().await;
    server.send(put("k1")).await.must_be_ok();
    let body = |count| many("<Delete>", "<Object><Key>k#</Key></Object>", "</Delete>", count);
    server.send(checked("/bucket?delete", body(1001))).await.must_be(400, "MalformedXML");
    assert!(server.stored("k1").is_some());
    let answer = server.send(checked("/bucket?delete", body(1000))).await.must_be_ok();
    assert_eq!(answer.text().matches("<Deleted>").count(), 1000);
    assert_eq!(server.stored("k1"), None);
}

#[tokio::test]
async fn part_number_max() {
    let server = Server::start().await;
    let answer = server.send(Call::new("POST", "/bucket/parts?uploads")).await.must_be_ok();
    let upload = answer.element("UploadId").unwrap();
    for number in ["0", "10001", "-1"] {
        let call = Call::new("PUT", &format!("/bucket/parts?partNumber={number}&uploadId={upload}")).body("x");
        server.send(call).await.must_be(400, "InvalidArgument");
    }
    let call = Call::new("PUT", &format!("/bucket/parts?partNumber=10000&uploadId={upload}")).body("x");
    server.send(call).await.must_be_ok();
    let part = "<Part><PartNumber>#</PartNumber><ETag>0cc175b9c0f1b6a831c399e269772661</ETag></Part>";
    let body = many("<CompleteMultipartUpload>", part, "</CompleteMultipartUpload>", 10_001);
    let call = Call::new("POST", &format!("/bucket/parts?uploadId={upload}")).body(body);
    server.send(call).await.must_be(400, "MalformedXML");
}

#[tokio::test]
async fn page_len_max() {
    let server = Server::start().await;
    for index in 0..1001 {
        let options = koine_object::PutOptions::default();
        let writer = server.objects.put("bucket", &format!("k{index:04}"), options).unwrap();
        writer.finish(&koine_object::Expected::none()).wait().unwrap();
    }
    let answer = server.send(Call::new("GET", "/bucket?list-type=2&max-keys=5000")).await.must_be_ok();
    assert_eq!(answer.text().matches("<Key>").count(), 1000);
    assert_eq!(answer.element("MaxKeys").as_deref(), Some("1000"));
    assert_eq!(answer.element("IsTruncated").as_deref(), Some("true"));
    server.send(Call::new("GET", "/bucket?list-type=2&max-keys=-1")).await.must_be(400, "InvalidArgument");
    server.send(Call::new("GET", "/bucket?list-type=2&max-keys=a")).await.must_be(400, "InvalidArgument");
}

#[tokio::test]
async fn stop_time_max() {
    let limits = Limits { stop_time_max: Duration::from_millis(200), ..Limits::default() };
    let mut server = Server::with_limits(limits).await;
    let mut call = put("never").payload("UNSIGNED-PAYLOAD");
    call.content_length = Some(1 << 20);
    let mut client = server.connect().await;
    client.send(&call.bytes()).await;
    server.send(put("other")).await.must_be_ok();
    server.begin_stop();
    assert_eq!(server.stopped().await, 1);
    assert!(client.is_closed().await);
}

/// The table and the tests cannot part: every row names one that is there, and the numbers are those in force.
#[test]
fn every_row_has_its_test() {
    let document = include_str!("../../../../docs/limits.md");
    let document = document.split("\n## ").find(|section| section.starts_with("S3\n")).unwrap();
    let tests = [
        include_str!("limits.rs"),
        include_str!("fairness.rs"),
        include_str!("signatures.rs"),
        include_str!("transfers.rs"),
        include_str!("../../src/auth/chunks/tests.rs"),
    ]
    .concat();
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| name"))
        .map(|line| line.split('|').collect())
        .collect();
    assert!(rows.len() > 20);
    for row in &rows {
        let names = row[4].split('`').skip(1).step_by(2);
        assert!(names.clone().count() > 0, "{row:?}");
        for name in names {
            assert!(tests.contains(&format!("fn {name}(")), "{name}");
        }
    }
    let limits = Limits::default();
    let shown = |name: &str| rows.iter().find(|row| row[1].contains(name)).unwrap()[2];
    for (name, number) in [
        ("head_len_max", (limits.head_len_max >> 10) as u64),
        ("head_time_max", limits.head_time_max.as_secs()),
        ("xml_len_max", (limits.xml_len_max >> 20) as u64),
        ("documents_in_flight_max", limits.documents_in_flight_max as u64),
        ("idle_time_max", limits.idle_time_max.as_secs()),
        ("body_rate_min", limits.body_rate_min >> 10),
        ("uploads_in_flight_max", limits.uploads_in_flight_max as u64),
        ("upload_pieces_max", limits.upload_pieces_max as u64),
        ("downloads_in_flight_max", limits.downloads_in_flight_max as u64),
        ("stop_time_max", limits.stop_time_max.as_secs()),
    ] {
        assert!(shown(name).trim_start().starts_with(&number.to_string()), "{name}: {number}");
    }
    assert_eq!(limits.connections_max, 1024);
}
