//! Bodies that take long, connections that live on, and a stop in the middle.

use std::time::Duration;

use crate::support::{Call, Server};

/// The most that this test waits for what must come.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn many_requests_on_one_connection() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for index in 0..50 {
        let body = vec![index; usize::from(index) * 1000];
        client.send(&Call::new("PUT", "/bucket/key").body(body.clone()).bytes()).await;
        client.answer("PUT").await.must_be_ok();
        client.send(&Call::new("GET", "/bucket/key").bytes()).await;
        assert_eq!(client.answer("GET").await.body, body);
    }
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let puts: Vec<u8> = (0..5).flat_map(|n| Call::new("PUT", &format!("/bucket/k{n}")).body("x").bytes()).collect();
    let gets: Vec<u8> = (0..5).flat_map(|n| Call::new("GET", &format!("/bucket/k{n}")).bytes()).collect();
    client.send(&[puts, gets].concat()).await;
    for method in ["PUT", "GET"] {
        for _ in 0..5 {
            client.answer(method).await.must_be_ok();
        }
    }
}

#[tokio::test]
async fn large_bodies_come_back_whole() {
    let server = Server::start().await;
    for length in [(64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20, (1 << 20) + 1, (5 << 20) + 12_345] {
        let body: Vec<u8> = (0..length).map(|at| (at * 31 + at / 251) as u8).collect();
        server.send(Call::new("PUT", "/bucket/large").body(body.clone())).await.must_be_ok();
        let answer = server.send(Call::new("GET", "/bucket/large")).await;
        assert!(answer.whole && answer.body == body, "{length}");
        let range = format!("bytes=1000-{}", length - 2);
        let answer = server.send(Call::new("GET", "/bucket/large").header("range", &range)).await;
        assert!(answer.body == body[1000..length - 1], "{length}");
    }
}

/// One thread for everything that may wait: stalled clients must not hold it.
#[test]
fn stalled_uploads_hold_no_thread() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start().await;
        let mut stalled = Vec::new();
        for index in 0..64 {
            let mut call = Call::new("PUT", &format!("/bucket/stalled-{index}")).payload("UNSIGNED-PAYLOAD");
            call.content_length = Some(2 << 20);
            call.body = vec![0; (1 << 20) + 1000];
            let mut client = server.connect().await;
            client.send(&call.bytes()).await;
            stalled.push(client);
        }
        let whole = Call::new("PUT", "/bucket/whole").body(vec![1; 3 << 20]);
        tokio::time::timeout(LONG, server.send(whole)).await.unwrap().must_be_ok();
        let get = Call::new("GET", "/bucket/whole");
        let answer = tokio::time::timeout(LONG, server.send(get)).await.unwrap();
        assert_eq!(answer.body.len(), 3 << 20);
        for client in &mut stalled {
            client.send(&vec![0; (1 << 20) - 1000]).await;
            client.answer("PUT").await.must_be_ok();
        }
    });
}

#[tokio::test]
async fn a_client_that_is_told_to_go_on_is_waited_for() {
    let server = Server::start().await;
    let call = Call::new("PUT", "/bucket/key").header("expect", "100-continue").body("hello");
    let bytes = call.bytes();
    let (head, body) = bytes.split_at(bytes.len() - 5);
    let mut client = server.connect().await;
    client.send(head).await;
    client.send(body).await;
    client.answer("PUT").await.must_be_ok();
    // A refusal comes without the body.
    let mut client = server.connect().await;
    let bytes = call.secret("other").bytes();
    client.send(&bytes[..bytes.len() - 5]).await;
    client.answer("PUT").await.must_be(403, "SignatureDoesNotMatch");
}

#[tokio::test]
async fn a_stop_lets_a_request_under_way_finish() {
    let mut server = Server::start().await;
    let mut call = Call::new("PUT", "/bucket/key").payload("UNSIGNED-PAYLOAD");
    call.content_length = Some(200_000);
    call.body = vec![0; 100_000];
    let mut busy = server.connect().await;
    busy.send(&call.bytes()).await;
    let mut idle = server.connect().await;
    idle.send(&Call::new("GET", "/").bytes()).await;
    idle.answer("GET").await.must_be_ok();
    server.begin_stop();
    assert!(idle.is_closed().await);
    busy.send(&vec![0; 100_000]).await;
    busy.answer("PUT").await.must_be_ok();
    assert_eq!(server.stored("key").unwrap().len(), 200_000);
    assert_eq!(server.stopped().await, 0);
}
