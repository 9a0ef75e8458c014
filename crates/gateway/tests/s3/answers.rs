//! What the calls answer: conditions, ranges, headers, listings, uploads in parts.

use crate::support::{Call, Server};

async fn with_object(body: &[u8]) -> (Server, String) {
    let server = Server::start().await;
    let call = Call::new("PUT", "/bucket/key").header("content-type", "text/x").header("cache-control", "no-cache");
    let call = call.header("x-amz-meta-colour", "blue").header("expires", "whenever").body(body);
    let etag = server.send(call).await.must_be_ok().header("etag").unwrap().to_owned();
    (server, etag)
}

#[tokio::test]
async fn an_object_comes_back_with_its_headers() {
    let (server, etag) = with_object(b"hello").await;
    for method in ["GET", "HEAD"] {
        let answer = server.send(Call::new(method, "/bucket/key")).await.must_be_ok();
        assert_eq!(answer.header("etag"), Some(etag.as_str()));
        assert_eq!(answer.header("content-length"), Some("5"));
        assert_eq!(answer.header("content-type"), Some("text/x"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("expires"), Some("whenever"));
        assert_eq!(answer.header("x-amz-meta-colour"), Some("blue"));
        assert_eq!(answer.header("accept-ranges"), Some("bytes"));
        assert!(answer.header("last-modified").unwrap().ends_with(" GMT"));
        assert!(answer.header("x-amz-request-id").is_some());
        assert_eq!(answer.body, if method == "GET" { b"hello".to_vec() } else { Vec::new() });
    }
}

#[tokio::test]
async fn conditional_reads() {
    let (server, etag) = with_object(b"hello").await;
    let modified = server.send(Call::new("HEAD", "/bucket/key")).await.header("last-modified").unwrap().to_owned();
    let past = "Mon, 01 Jan 2001 00:00:00 GMT";
    for (name, value, status) in [
        ("if-match", etag.as_str(), 200),
        ("if-match", "*", 200),
        ("if-match", "\"other\", \"more\"", 412),
        ("if-none-match", etag.as_str(), 304),
        ("if-none-match", etag.trim_matches('"'), 304),
        ("if-none-match", "\"other\"", 200),
        ("if-modified-since", modified.as_str(), 304),
        ("if-modified-since", past, 200),
        ("if-modified-since", "nonsense", 200),
        ("if-unmodified-since", past, 412),
        ("if-unmodified-since", modified.as_str(), 200),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = server.send(Call::new(method, "/bucket/key").header(name, value)).await;
            assert_eq!(answer.status, status, "{method} {name}: {value}");
            if status == 304 {
                assert_eq!(answer.header("etag"), Some(etag.as_str()));
                assert_eq!(answer.header("content-length").unwrap_or("0"), "0");
            }
        }
    }
}

#[tokio::test]
async fn a_304_does_not_upset_the_connection() {
    let (server, etag) = with_object(b"hello").await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(&Call::new("GET", "/bucket/key").header("if-none-match", &etag).bytes()).await;
        assert_eq!(client.answer("GET").await.status, 304);
        client.send(&Call::new("GET", "/bucket/none").bytes()).await;
        client.answer("GET").await.must_be(404, "NoSuchKey");
        client.send(&Call::new("HEAD", "/bucket/none").bytes()).await;
        assert_eq!(client.answer("HEAD").await.status, 404);
        client.send(&Call::new("GET", "/bucket/key").bytes()).await;
        assert_eq!(client.answer("GET").await.body, b"hello");
    }
}

#[tokio::test]
async fn conditional_writes() {
    let (server, etag) = with_object(b"one").await;
    let put = |name: &str, value: &str| Call::new("PUT", "/bucket/key").header(name, value).body("two");
    server.send(put("if-none-match", "*")).await.must_be(412, "PreconditionFailed");
    server.send(put("if-match", "\"other\"")).await.must_be(412, "PreconditionFailed");
    server.send(put("if-match", &etag)).await.must_be_ok();
    assert_eq!(server.stored("key").unwrap(), b"two");
    let absent = Call::new("PUT", "/bucket/new").header("if-match", &etag).body("x");
    server.send(absent).await.must_be(404, "NoSuchKey");
    let delete = Call::new("DELETE", "/bucket/key").header("if-match", &etag);
    server.send(delete).await.must_be(412, "PreconditionFailed");
    server.send(Call::new("DELETE", "/bucket/key")).await.must_be_ok();
}

#[tokio::test]
async fn a_repeat_after_a_lost_answer_learns_that_it_won() {
    let server = Server::start().await;
    let put = |invocation: &str, body: &str| {
        let call = Call::new("PUT", "/bucket/once").header("if-none-match", "*");
        call.header("amz-sdk-invocation-id", invocation).body(body)
    };
    let first = server.send(put("one", "mine")).await.must_be_ok();
    let again = server.send(put("one", "mine")).await.must_be_ok();
    assert_eq!(again.header("etag"), first.header("etag"));
    server.send(put("two", "mine")).await.must_be(412, "PreconditionFailed");
    server.send(put("one", "other")).await.must_be(412, "PreconditionFailed");
    // Also where nothing in the head tells the bodies apart.
    let unsigned = |body: &str| put("three", body).payload("UNSIGNED-PAYLOAD");
    server.send(Call::new("DELETE", "/bucket/once")).await.must_be_ok();
    server.send(unsigned("mine")).await.must_be_ok();
    server.send(unsigned("mine")).await.must_be_ok();
    server.send(unsigned("ours")).await.must_be(412, "PreconditionFailed");
    assert_eq!(server.stored("once").unwrap(), b"mine");
}

#[tokio::test]
async fn ranges() {
    let (server, _) = with_object(b"0123456789").await;
    for (range, status, body, content_range) in [
        ("bytes=2-4", 206, "234", Some("bytes 2-4/10")),
        ("bytes=7-", 206, "789", Some("bytes 7-9/10")),
        ("bytes=-2", 206, "89", Some("bytes 8-9/10")),
        ("bytes=5-100", 206, "56789", Some("bytes 5-9/10")),
        ("bytes=0-1,4-5", 200, "0123456789", None),
    ] {
        let answer = server.send(Call::new("GET", "/bucket/key").header("range", range)).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{range}");
        assert_eq!(answer.header("content-range"), content_range);
        let head = server.send(Call::new("HEAD", "/bucket/key").header("range", range)).await;
        assert_eq!(head.header("content-length"), Some(body.len().to_string().as_str()));
    }
    server.send(Call::new("GET", "/bucket/key").header("range", "bytes=10-")).await.must_be(416, "InvalidRange");
}

#[tokio::test]
async fn uploads_in_parts() {
    let server = Server::start().await;
    let answer = server.send(Call::new("POST", "/bucket/parts?uploads").header("content-type", "text/y")).await;
    let upload = answer.must_be_ok().element("UploadId").unwrap();
    let bodies = [vec![b'a'; 5 << 20], vec![b'b'; 5 << 20], b"end".to_vec()];
    let mut listed = String::new();
    for (index, body) in bodies.iter().enumerate() {
        let target = format!("/bucket/parts?partNumber={}&uploadId={upload}", index + 1);
        let answer = server.send(Call::new("PUT", &target).body(body.clone())).await.must_be_ok();
        let etag = answer.header("etag").unwrap().replace('"', "&quot;");
        listed += &format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", index + 1);
    }
    let parts =
        server.send(Call::new("GET", &format!("/bucket/parts?uploadId={upload}&max-parts=2"))).await.must_be_ok();
    assert_eq!(parts.element("NextPartNumberMarker").as_deref(), Some("2"));
    let uploads = server.send(Call::new("GET", "/bucket?uploads")).await.must_be_ok();
    assert_eq!(uploads.element("UploadId").as_deref(), Some(upload.as_str()));
    let body = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
    let complete = Call::new("POST", &format!("/bucket/parts?uploadId={upload}")).body(body);
    let first = server.send(complete.clone()).await.must_be_ok();
    assert!(first.element("ETag").unwrap().contains("-3"));
    // A repeat after a lost answer gets the same one.
    let again = server.send(complete).await.must_be_ok();
    assert_eq!(again.element("ETag"), first.element("ETag"));
    assert_eq!(server.stored("parts").unwrap(), bodies.concat());
    let part = server.send(Call::new("GET", "/bucket/parts?partNumber=3")).await;
    assert_eq!((part.status, part.text().as_str()), (206, "end"));
    assert_eq!(part.header("x-amz-mp-parts-count"), Some("3"));
    server.send(Call::new("GET", "/bucket/parts?partNumber=4")).await.must_be(416, "InvalidPartNumber");
    let head = server.send(Call::new("HEAD", "/bucket/parts")).await;
    assert_eq!(head.header("content-type"), Some("text/y"));
}

#[tokio::test]
async fn an_unquoted_etag_completes_an_upload_too() {
    let server = Server::start().await;
    let upload = server.send(Call::new("POST", "/bucket/p?uploads")).await.element("UploadId").unwrap();
    let target = format!("/bucket/p?partNumber=1&uploadId={upload}");
    let etag =
        server.send(Call::new("PUT", &target).body("x")).await.header("etag").unwrap().trim_matches('"').to_owned();
    let wrong = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>nonsense</ETag></Part></CompleteMultipartUpload>";
    let complete = |body: String| Call::new("POST", &format!("/bucket/p?uploadId={upload}")).body(body);
    server.send(complete(wrong.to_owned())).await.must_be(400, "InvalidPart");
    server.send(complete(wrong.replace("nonsense", &etag))).await.must_be_ok();
    server.send(complete(wrong.replace("nonsense", &etag).replace("<Part>", "<Other>1</Other><Part>"))).await;
    server.send(Call::new("DELETE", &target.replace("partNumber=1&", ""))).await.must_be(404, "NoSuchUpload");
}

#[tokio::test]
async fn listings() {
    let server = Server::start().await;
    for key in ["a/1", "a/2", "b", "c%20d", "e/f/g"] {
        server.send(Call::new("PUT", &format!("/bucket/{key}")).body("x")).await.must_be_ok();
    }
    let answer = server.send(Call::new("GET", "/bucket?delimiter=%2F&list-type=2")).await.must_be_ok();
    let text = answer.text();
    assert!(text.contains("<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>"), "{text}");
    assert!(
        text.contains("<Key>b</Key>") && text.contains("<Key>c d</Key>") && text.contains("<KeyCount>4</KeyCount>")
    );
    assert!(!text.contains("<Owner>"));
    let owned = server.send(Call::new("GET", "/bucket?fetch-owner=true&list-type=2&max-keys=1")).await.must_be_ok();
    assert!(owned.text().contains("<Owner>"));
    let next = owned.element("NextContinuationToken").unwrap();
    let page =
        server.send(Call::new("GET", &format!("/bucket?continuation-token={next}&list-type=2"))).await.must_be_ok();
    assert!(!page.text().contains("<Key>a/1</Key>") && page.text().contains("<Key>a/2</Key>"));
    server.send(Call::new("GET", "/bucket?continuation-token=%21&list-type=2")).await.must_be(400, "InvalidArgument");
    let first = server.send(Call::new("GET", "/bucket?delimiter=%2F&max-keys=1")).await.must_be_ok();
    assert_eq!(first.element("NextMarker").as_deref(), Some("a/"));
    let second = server.send(Call::new("GET", "/bucket?delimiter=%2F&marker=a%2F&max-keys=1")).await.must_be_ok();
    assert!(second.text().contains("<Key>b</Key>"), "{}", second.text());
    server.send(Call::new("GET", "/bucket?encoding-type=other")).await.must_be(400, "InvalidArgument");
    server.send(Call::new("GET", "/no-such-bucket?list-type=2")).await.must_be(404, "NoSuchBucket");
    let buckets = server.send(Call::new("GET", "/")).await.must_be_ok();
    assert!(buckets.text().contains("<Name>bucket</Name>"));
}

#[tokio::test]
async fn copies() {
    let (server, etag) = with_object(b"hello").await;
    let copy = Call::new("PUT", "/bucket/copy").header("x-amz-copy-source", "/bucket/key");
    let answer = server.send(copy.clone()).await.must_be_ok();
    assert!(answer.element("ETag").unwrap().contains(etag.trim_matches('"')));
    let head = server.send(Call::new("HEAD", "/bucket/copy")).await;
    assert_eq!(head.header("x-amz-meta-colour"), Some("blue"));
    let replace = copy.clone().header("x-amz-metadata-directive", "REPLACE").header("x-amz-meta-size", "5");
    server.send(replace).await.must_be_ok();
    let head = server.send(Call::new("HEAD", "/bucket/copy")).await;
    assert_eq!((head.header("x-amz-meta-colour"), head.header("x-amz-meta-size")), (None, Some("5")));
    let refused = copy.clone().header("x-amz-copy-source-if-none-match", &etag);
    server.send(refused).await.must_be(412, "PreconditionFailed");
    let absent = Call::new("PUT", "/bucket/copy").header("x-amz-copy-source", "bucket/none");
    server.send(absent).await.must_be(404, "NoSuchKey");
    let onto_itself = Call::new("PUT", "/bucket/key").header("x-amz-copy-source", "bucket/key");
    server.send(onto_itself).await.must_be(400, "InvalidRequest");
}

#[tokio::test]
async fn numbers_beyond_every_object_are_refused_and_store_nothing() {
    let (server, _) = with_object(b"hello").await;
    let begun = server.send(Call::new("POST", "/bucket/joined?uploads=")).await.must_be_ok();
    let upload = begun.element("UploadId").unwrap();
    let part = |number: &str| Call::new("PUT", &format!("/bucket/joined?partNumber={number}&uploadId={upload}"));
    const MOST: u64 = u64::MAX;
    for range in [
        format!("bytes=0-{MOST}"),
        format!("bytes={MOST}-{MOST}"),
        format!("bytes=1-{MOST}"),
        "bytes=0-99999999999999999999999999".to_owned(),
        "bytes=0-5".to_owned(),
        "bytes=5-5".to_owned(),
    ] {
        let call = part("1").header("x-amz-copy-source", "/bucket/key").header("x-amz-copy-source-range", &range);
        let (status, code) = server.send(call).await.refusal();
        assert!(matches!((status, code.as_str()), (416 | 400, "InvalidRange" | "InvalidArgument")), "{range}: {code}");
    }
    for number in ["0", "10001", "-1", "2147483648", "18446744073709551616", "1e3"] {
        let (status, code) = server.send(part(number).body("x")).await.refusal();
        assert_eq!((status, code.as_str()), (400, "InvalidArgument"), "{number}");
    }
    for query in [
        "?max-keys=18446744073709551616",
        "?max-keys=-1",
        "?list-type=2&max-keys=2147483648",
        "?uploads&max-uploads=99999999999999999999",
        "?versions&max-keys=99999999999999999999",
    ] {
        let answer = server.send(Call::new("GET", &format!("/bucket{query}"))).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    let listed = server.send(Call::new("GET", &format!("/bucket/joined?uploadId={upload}"))).await.must_be_ok();
    assert!(!listed.text().contains("<Part>"), "{}", listed.text());
}
