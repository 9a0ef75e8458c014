//! The load generator against a server of a few lines, which answers as each test needs.

use super::*;
use crate::s3::prepare::{Names, Preparer};
use crate::s3::sign::Credentials;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to answer to the n-th request, given its head and the length of its body; `None` closes the connection.
type Answer = dyn Fn(usize, &str, usize) -> Option<Vec<u8>> + Send + Sync;

/// Serves every connection on a thread of its own until its client leaves.
fn serve(answer: impl Fn(usize, &str, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (answer, count): (Arc<Answer>, _) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || connection(stream, answer.as_ref(), &count));
        }
    });
    address
}

fn connection(mut stream: TcpStream, answer: &Answer, count: &AtomicUsize) {
    let mut received = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        let head = end.map(|end| String::from_utf8_lossy(&received[..end]).into_owned());
        let length: usize = head
            .iter()
            .flat_map(|head| head.lines())
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |text| text.parse().unwrap());
        if let (Some(head), Some(end)) = (head, end)
            && received.len() >= end + length
        {
            received.drain(..end + length);
            let Some(reply) = answer(count.fetch_add(1, Ordering::SeqCst), &head, length) else { return };
            if stream.write_all(&reply).is_err() {
                return;
            }
            continue;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(taken) => received.extend_from_slice(&buffer[..taken]),
        }
    }
}

fn ok(body: &[u8]) -> Option<Vec<u8>> {
    let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    reply.extend_from_slice(body);
    Some(reply)
}

fn preparer() -> Preparer {
    let credentials = Credentials { access_key: "a".into(), secret_key: "b".into(), region: "us-east-1".into() };
    Preparer::new(&credentials, "localhost")
}

fn names() -> Names {
    Names { start: "/bucket/key".into() }
}

const ONCE: Until = Until { time: None, once: true };

fn run(address: SocketAddr, batch: &Batch, payload: &Payload, connections: usize) -> LoadFigures {
    drive(&S3Load { address, batch, payload, connections, until: ONCE }).unwrap()
}

#[test]
fn every_request_is_sent_once_whole_and_counted() {
    let seen = Arc::new(AtomicUsize::new(0));
    let bytes = Arc::clone(&seen);
    let address = serve(move |_, head, length| {
        assert!(head.starts_with("PUT /bucket/key"), "{head}");
        bytes.fetch_add(length, Ordering::SeqCst);
        ok(b"")
    });
    // Small payload goes by gathered sends, large payload by sendfile; both must arrive whole.
    let payload = Payload::new(3 << 20).unwrap();
    for (size, count, connections) in [(4096, 100, 1), (4096, 100, 7), (3 << 20, 5, 3)] {
        seen.store(0, Ordering::SeqCst);
        let measured = run(address, &preparer().put(&names(), 0..count, size, &payload), &payload, connections);
        assert_eq!((measured.latencies.len(), measured.begun, measured.failures), (count, count, 0));
        assert_eq!(seen.load(Ordering::SeqCst) as u64, size * count as u64);
    }
}

#[test]
fn chunked_requests_arrive_whole() {
    let address = serve(|_, _, _| ok(b""));
    let payload = Payload::new(300_000).unwrap();
    let batch = preparer().put_chunked(&names(), 0..4, 300_000, &payload);
    assert_eq!(run(address, &batch, &payload, 2).latencies.len(), 4);
}

#[test]
fn bodies_of_every_size_and_framing_are_followed_to_their_end() {
    let payload = Payload::new(1).unwrap();
    for size in [1_usize, 4096, 100_000, 5 << 20] {
        let address = serve(move |_, _, _| ok(&vec![7; size]));
        let measured = run(address, &preparer().get(&names(), 0..6, size as u64), &payload, 2);
        assert_eq!((measured.latencies.len(), measured.failures), (6, 0), "{size} bytes");
    }
    let chunked = |_: usize, _: &str, _: usize| {
        Some(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec())
    };
    let measured = run(serve(chunked), &preparer().list("bucket", "", 10), &payload, 1);
    assert_eq!((measured.latencies.len(), measured.failures), (1, 0));
}

#[test]
fn wrong_answers_are_failures_and_the_run_goes_on() {
    let payload = Payload::new(1).unwrap();
    let batch = preparer().get(&names(), 0..10, 3);
    let cases: [(&str, &str); 4] = [
        ("status 503", "HTTP/1.1 503 Slow Down\r\nContent-Length: 4\r\n\r\nbusy"),
        ("bytes of body instead of 3", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"),
        ("after the end", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd"),
        ("no HTTP", "SSH-2.0-other\r\n\r\n"),
    ];
    for (word, wrong) in cases {
        let reply = wrong.as_bytes().to_vec();
        let address = serve(move |number, _, _| if number == 4 { Some(reply.clone()) } else { ok(b"abc") });
        let measured = run(address, &batch, &payload, 2);
        assert_eq!((measured.latencies.len(), measured.failures), (9, 1), "{word}");
        assert!(measured.first_failure.as_deref().is_some_and(|text| text.contains(word)), "{measured:?}");
    }
    let measured = run(serve(|number, _, _| if number == 4 { None } else { ok(b"abc") }), &batch, &payload, 2);
    assert_eq!((measured.latencies.len(), measured.failures), (9, 1), "a closed connection");
}

#[test]
fn a_refusal_shows_its_text() {
    let payload = Payload::new(1).unwrap();
    let address = serve(|_, _, _| Some(b"HTTP/1.1 403 F\r\nContent-Length: 12\r\n\r\nAccessDenied".to_vec()));
    let measured = run(address, &preparer().get(&names(), 0..1, 3), &payload, 1);
    assert!(measured.first_failure.is_some_and(|text| text.contains("403") && text.contains("AccessDenied")));
}

#[test]
fn a_server_that_closes_after_each_answer_is_no_failure() {
    let payload = Payload::new(1).unwrap();
    let closing = |_: usize, _: &str, _: usize| {
        Some(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc".to_vec())
    };
    let measured = run(serve(closing), &preparer().get(&names(), 0..10, 3), &payload, 2);
    assert_eq!((measured.latencies.len(), measured.failures), (10, 0));
}

#[test]
fn a_hopeless_run_ends_early() {
    let payload = Payload::new(1).unwrap();
    let measured = run(serve(|_, _, _| None), &preparer().get(&names(), 0..100_000, 3), &payload, 2);
    assert!(measured.failures >= FAILURES_LIMIT && measured.begun < 1000, "{measured:?}");
}

#[test]
fn requests_go_round_until_the_time_is_over() {
    let payload = Payload::new(1).unwrap();
    let batch = preparer().get(&names(), 0..2, 3);
    let until = Until { time: Some(Duration::from_millis(100)), once: false };
    let address = serve(|_, _, _| ok(b"abc"));
    let measured = drive(&S3Load { address, batch: &batch, payload: &payload, connections: 1, until }).unwrap();
    assert!(measured.latencies.len() > 2, "{}", measured.latencies.len());
    assert_eq!((measured.begun, measured.failures), (measured.latencies.len(), 0));
}
