//! Numbers at their limits wherever a request may have some: each is answered by what is wrong with it, and the server
//! goes on.

use crate::support::{Call, Server};

/// As text: too large for any type, too large for the next one, the largest, below zero, no number at all.
const NUMBERS: [&str; 14] = [
    "99999999999999999999999999999999999999999",
    "18446744073709551616",
    "18446744073709551615",
    "18446744073709551614",
    "9223372036854775808",
    "9223372036854775807",
    "4294967296",
    "4294967295",
    "2147483648",
    "2147483647",
    "-1",
    "-9223372036854775808",
    "1e308",
    "",
];

/// Sends it on a connection of its own; it must be answered, and not as a fault of the server.
async fn answered(server: &Server, what: &str, method: &str, bytes: &[u8]) {
    let mut client = server.connect().await;
    client.send(bytes).await;
    let answer = tokio::time::timeout(std::time::Duration::from_secs(30), client.answer(method)).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what}: no answer"));
    assert!(matches!(answer.status, 200..=499 | 501), "{what}: {} {}", answer.status, answer.text());
}

#[tokio::test]
async fn numbers_of_targets() {
    let server = Server::start().await;
    server.send(Call::new("PUT", "/bucket/key").body("body")).await.must_be_ok();
    let begun = server.send(Call::new("POST", "/bucket/parts?uploads")).await.must_be_ok();
    let upload = begun.element("UploadId").unwrap();
    for number in NUMBERS {
        for (method, target) in [
            ("GET", format!("/bucket?max-keys={number}")),
            ("GET", format!("/bucket?list-type=2&max-keys={number}")),
            ("GET", format!("/bucket?versions&max-keys={number}&key-marker=k&version-id-marker={number}")),
            ("GET", format!("/bucket?uploads&max-uploads={number}")),
            ("GET", format!("/?max-buckets={number}")),
            ("GET", format!("/bucket/parts?uploadId={upload}&max-parts={number}&part-number-marker={number}")),
            ("GET", format!("/bucket/key?partNumber={number}")),
            ("HEAD", format!("/bucket/key?partNumber={number}")),
            ("GET", format!("/bucket/key?versionId={number}")),
            ("DELETE", format!("/bucket/key?versionId={number}")),
            ("PUT", format!("/bucket/parts?partNumber={number}&uploadId={upload}")),
        ] {
            let call = Call::new(method, &target);
            answered(&server, &format!("{method} {target}"), method, &call.bytes()).await;
        }
    }
    assert_eq!(server.stored("key").unwrap(), b"body");
}

#[tokio::test]
async fn numbers_of_headers() {
    let server = Server::start().await;
    server.send(Call::new("PUT", "/bucket/key").body("body")).await.must_be_ok();
    for number in NUMBERS {
        for range in [
            format!("bytes={number}-"),
            format!("bytes=-{number}"),
            format!("bytes=0-{number}"),
            format!("bytes={number}-{number}"),
        ] {
            answered(&server, &range, "GET", &Call::new("GET", "/bucket/key").header("range", &range).bytes()).await;
            let copied = Call::new("PUT", "/bucket/other?partNumber=1&uploadId=00000000000000000000000000000000");
            let copied = copied.header("x-amz-copy-source", "/bucket/key").header("x-amz-copy-source-range", &range);
            answered(&server, &format!("copied {range}"), "PUT", &copied.bytes()).await;
        }
        for name in [
            "x-amz-decoded-content-length",
            "x-amz-mp-object-size",
            "x-amz-date",
            "content-md5",
            "x-amz-copy-source-if-modified-since",
        ] {
            let call = Call::new("PUT", "/bucket/other").body("x").loose(name, number);
            answered(&server, &format!("{name}: {number}"), "PUT", &call.unsigned_bytes()).await;
            if name != "x-amz-date" {
                let call = Call::new("PUT", "/bucket/other").body("x").header(name, number);
                answered(&server, &format!("{name}: {number}, signed"), "PUT", &call.bytes()).await;
            }
        }
        let call = Call::new("GET", "/bucket/key").bytes();
        let text = String::from_utf8(call).unwrap().replace("content-length: 0", &format!("content-length: {number}"));
        let mut client = server.connect().await;
        client.send(text.as_bytes()).await;
        drop(client);
        let mut call = Call::new("GET", "/bucket/key");
        call.life = number.parse().unwrap_or(i64::MAX);
        let presigned = call.presigned_bytes();
        answered(&server, &format!("life {number}"), "GET", &presigned).await;
    }
    for date in ["Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"] {
        for name in ["if-modified-since", "if-unmodified-since"] {
            let call = Call::new("GET", "/bucket/key").header(name, date);
            answered(&server, &format!("{name}: {date}"), "GET", &call.bytes()).await;
        }
    }
    for ahead in [i64::from(i32::MAX), -i64::from(i32::MAX), 200_000_000_000] {
        answered(&server, "a clock", "GET", &Call::new("GET", "/bucket/key").clock_ahead(ahead).bytes()).await;
    }
    assert_eq!(server.stored("key").unwrap(), b"body");
}

#[tokio::test]
async fn numbers_of_chunks() {
    let server = Server::start().await;
    for length in [
        "ffffffffffffffffffffffffffffffff",
        "10000000000000000",
        "ffffffffffffffff",
        "fffffffffffffffe",
        "8000000000000000",
        "-1",
        "",
    ] {
        for decoded in ["5", "18446744073709551615", "5368709120"] {
            let body = format!("{length}\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
            let call = Call::new("PUT", "/bucket/chunks")
                .payload("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
                .header("x-amz-decoded-content-length", decoded)
                .header("x-amz-trailer", "x-amz-checksum-crc32")
                .header("content-encoding", "aws-chunked")
                .body(body);
            answered(&server, &format!("a chunk of {length} in {decoded}"), "PUT", &call.bytes()).await;
        }
    }
    assert_eq!(server.stored("chunks"), None);
}

#[tokio::test]
async fn numbers_of_documents() {
    let server = Server::start().await;
    let begun = server.send(Call::new("POST", "/bucket/parts?uploads")).await.must_be_ok();
    let upload = begun.element("UploadId").unwrap();
    for number in NUMBERS {
        let part = format!(
            "<CompleteMultipartUpload><Part><PartNumber>{number}</PartNumber><ETag>\"{:032}\"</ETag></Part></CompleteMultipartUpload>",
            0
        );
        let call = Call::new("POST", &format!("/bucket/parts?uploadId={upload}")).body(part);
        let call = call.header("x-amz-mp-object-size", number);
        answered(&server, &format!("part {number}"), "POST", &call.bytes()).await;
    }
}
