//! Names are bytes: stored as they come, never a path.

use crate::support::{Call, Server};

/// Each as it is sent, and as it is stored.
const ODD: &[(&str, &str)] = &[
    ("a/../b", "a/../b"),
    ("a/..", "a/.."),
    (".", "."),
    ("./a", "./a"),
    ("a/./b", "a/./b"),
    ("/a", "/a"),
    ("//", "//"),
    ("a//b", "a//b"),
    ("a/", "a/"),
    ("%2F", "/"),
    ("a%2Fb%2fc", "a/b/c"),
    ("a+b", "a+b"),
    ("a%2Bb", "a+b"),
    ("a%20b", "a b"),
    ("100%25", "100%"),
    ("%252F", "%2F"),
    ("%C3%BC%E2%98%83", "ü☃"),
    ("%F0%9F%92%BE", "💾"),
    ("a%3Fb%26c%3Dd%23e", "a?b&c=d#e"),
    ("%00%01%7F", "\u{0}\u{1}\u{7f}"),
    ("%0A%0D%09", "\n\r\t"),
    ("~tilde_-.", "~tilde_-."),
    ("quote%22%27%3C%3E%5C", "quote\"'<>\\"),
    ("..a/...", "..a/..."),
];

/// SigV4 signs the decoded name, encoded again.
fn canonical(sent: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
    const KEPT: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');
    percent_encode(&percent_decode_str(sent).collect::<Vec<u8>>(), KEPT).to_string()
}

#[tokio::test]
async fn odd_names_are_stored_byte_for_byte() {
    let server = Server::start().await;
    for (sent, stored) in ODD {
        let body = format!("body of {stored}");
        let call = Call::new("PUT", &format!("/bucket/{}", canonical(sent))).body(body.clone());
        let bytes = call.bytes();
        // Signed as the specification wants, sent as a client may write it.
        let text = String::from_utf8(bytes).unwrap().replacen(
            &format!("/bucket/{} ", canonical(sent)),
            &format!("/bucket/{sent} "),
            1,
        );
        let mut client = server.connect().await;
        client.send(text.as_bytes()).await;
        client.answer("PUT").await.must_be_ok();
        assert_eq!(server.stored(stored).unwrap(), body.as_bytes(), "{sent}");
        let answer = server.send(Call::new("GET", &format!("/bucket/{}", canonical(sent)))).await.must_be_ok();
        assert_eq!(answer.text(), body, "{sent}");
    }
    let mut expected: Vec<String> = ODD.iter().map(|(_, stored)| canonical(&stored.replace('%', "%25"))).collect();
    expected.sort();
    expected.dedup();
    let answer = server.send(Call::new("GET", "/bucket?list-type=2&encoding-type=url")).await.must_be_ok();
    let text = answer.text();
    let mut listed: Vec<String> =
        text.split("<Key>").skip(1).map(|rest| rest.split_once("</Key>").unwrap().0.to_owned()).collect();
    listed.sort();
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn names_signed_as_they_are_sent() {
    let server = Server::start().await;
    // Some clients leave reserved characters alone, and sign what they send.
    for (sent, stored) in [("a+b=c", "a+b=c"), ("a:b@c!$,;", "a:b@c!$,;"), ("(a)*", "(a)*")] {
        server.send(Call::new("PUT", &format!("/bucket/{sent}")).body("x")).await.must_be_ok();
        assert_eq!(server.stored(stored).unwrap(), b"x");
    }
}

#[tokio::test]
async fn names_that_climb_above_their_start_are_refused() {
    let server = Server::start().await;
    for key in ["..", "../a", "a/../../b", "./../a", "%2E%2E/a", "a/%2e%2e/%2e%2e/b", "..%2Fa"] {
        for method in ["PUT", "GET", "HEAD", "DELETE"] {
            let mut client = server.connect().await;
            let text = String::from_utf8(Call::new(method, &format!("/bucket/{}", canonical(key))).bytes()).unwrap();
            client.send(text.replacen(&canonical(key), key, 1).as_bytes()).await;
            let answer = client.answer(method).await;
            answer.must_be(400, if method == "HEAD" { "" } else { "InvalidURI" });
        }
    }
    let page = server.objects.list("bucket", &koine_object::ListQuery { limit: 10, ..Default::default() }).unwrap();
    assert_eq!(page.objects.len(), 0);
}

#[tokio::test]
async fn a_bucket_name_is_no_path_either() {
    let server = Server::start().await;
    for target in ["/../a", "/..%2Fa/b", "//bucket/a", "/Bucket/a", "/b/a", "/bu%2Fcket/..%2F..%2Fa"] {
        let mut client = server.connect().await;
        client.send(&Call::new("PUT", target).body("x").bytes()).await;
        let answer = client.answer("PUT").await;
        assert!(matches!(answer.status, 400 | 403 | 404), "{target}: {}", answer.text());
    }
}
