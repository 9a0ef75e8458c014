//! Attacks on what all share, by who holds as much of it as it can get, while root works.

use std::time::Duration;

use koine_gateway::Limits;

use crate::support::{Answer, Call, Client, Server};

/// The most that what must come is waited for; none of the attacks ends by itself within it.
const LONG: Duration = Duration::from_secs(25);

fn patient() -> Limits {
    Limits { idle_time_max: LONG * 4, head_time_max: LONG * 4, ..Limits::default() }
}

/// Root's call on a connection of its own, from an address.
async fn by_root(server: &Server, call: Call, last: u8) -> Answer {
    let answered = async {
        let mut client = server.connect_from(last).await;
        client.send(&call.bytes()).await;
        client.answer(&call.method).await
    };
    tokio::time::timeout(LONG, answered).await.expect("root waits")
}

/// Root works: small and large, in and out, and a document.
async fn root_works(server: &Server, last: u8) {
    let large = vec![7; 3 << 20];
    by_root(server, Call::new("PUT", "/bucket/small").body("hello"), last).await.must_be_ok();
    by_root(server, Call::new("PUT", "/bucket/of-root").body(large.clone()), last).await.must_be_ok();
    assert!(by_root(server, Call::new("GET", "/bucket/of-root"), last).await.body == large);
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let tags = format!("{tags}{}", " ".repeat(70 << 10));
    by_root(server, Call::new("PUT", "/bucket?tagging").body(tags), last).await.must_be_ok();
}

/// A call whose body never comes, but for its first byte.
fn slow(method: &str, target: &str, length: u64) -> Call {
    let mut call = Call::new(method, target).payload("UNSIGNED-PAYLOAD").body("<");
    call.content_length = Some(length);
    call
}

/// Begins calls from an address, and waits until the server has answered those that it refuses. Gives those it took.
async fn hold(server: &Server, calls: impl IntoIterator<Item = Vec<u8>>, last: u8) -> (Vec<Client>, usize) {
    let (mut held, mut refused) = (Vec::new(), 0);
    for call in calls {
        let mut client = server.connect_from(last).await;
        client.send(&call).await;
        // A refusal comes at once; that it did not come is seen after another request has gone through.
        held.push(client);
    }
    for _ in 0..2 {
        by_root(server, Call::new("GET", "/"), 200).await.must_be_ok();
    }
    let mut kept = Vec::new();
    for mut client in held {
        if client.nothing_yet() {
            kept.push(client);
        } else {
            client.answer("PUT").await;
            refused += 1;
        }
    }
    (kept, refused)
}

#[tokio::test]
async fn idle_connections_make_room() {
    let server = Server::with_limits(Limits { connections_max: 32, ..patient() }).await;
    // As many as there are places, ten times over: some say nothing, some half a head, some have been served.
    let mut attackers = Vec::new();
    for attack in 0..320_u32 {
        let mut client = server.connect_from(2).await;
        match attack % 3 {
            0 => {}
            1 => client.send(b"GET / HTTP/1.1\r\nhost: lo").await,
            _ => {
                client.send(&Call::new("GET", "/").secret("wrong").bytes()).await;
                client.answer("GET").await.must_be(403, "SignatureDoesNotMatch");
            }
        }
        attackers.push(client);
        if attack % 80 == 79 {
            // From another address, and from the very one of the attackers.
            root_works(&server, 3).await;
            root_works(&server, 2).await;
        }
    }
    // The oldest went.
    assert!(attackers[0].is_closed().await && attackers[1].is_closed().await);
}

#[tokio::test]
async fn who_works_keeps_its_connection_while_strangers_come() {
    let server = Server::with_limits(Limits { connections_max: 32, ..patient() }).await;
    let mut root = server.connect_from(3).await;
    for _ in 0..10 {
        let mut attackers = Vec::new();
        for _ in 0..40 {
            attackers.push(server.connect_from(2).await);
        }
        let worked = async {
            root.send(&Call::new("PUT", "/bucket/key").body("hello").bytes()).await;
            root.answer("PUT").await.must_be_ok();
        };
        tokio::time::timeout(LONG, worked).await.unwrap();
    }
}

#[tokio::test]
async fn an_address_has_its_share_of_connections() {
    let server = Server::with_limits(Limits { connections_max: 32, ..patient() }).await;
    server.user("ann");
    let calls = (0..40).map(|n| slow("PUT", &format!("/bucket/slow-{n}"), 1000).by("ann").bytes());
    let (held, _) = hold(&server, calls, 2).await;
    assert!(held.len() <= 16, "{}", held.len());
    // What is reserved takes root in even from there, and nobody else.
    root_works(&server, 2).await;
    let mut more = server.connect_from(2).await;
    more.send(&Call::new("GET", "/bucket").by("ann").bytes()).await;
    let answer = more.answer("GET").await;
    answer.must_be(503, "SlowDown");
    assert_eq!(answer.header("connection"), Some("close"));
    // Others from elsewhere are not concerned.
    let mut other = server.connect_from(4).await;
    other.send(&Call::new("GET", "/bucket").by("ann").bytes()).await;
    other.answer("GET").await.must_be_ok();
}

#[tokio::test]
async fn root_gets_in_while_all_connections_are_busy() {
    let server = Server::with_limits(Limits { connections_max: 32, ..patient() }).await;
    server.user("ann");
    let mut held = Vec::new();
    for last in 2..6 {
        let calls = (0..16).map(|n| slow("PUT", &format!("/bucket/slow-{last}-{n}"), 1000).by("ann").bytes());
        held.extend(hold(&server, calls, last).await.0);
    }
    assert!(held.len() >= 28, "{}", held.len());
    root_works(&server, 9).await;
    let mut other = server.connect_from(9).await;
    other.send(&Call::new("GET", "/bucket").by("ann").bytes()).await;
    other.answer("GET").await.must_be(503, "SlowDown");
}

#[tokio::test]
async fn uploads_of_a_user_leave_room_for_others() {
    let server = Server::with_limits(Limits { uploads_in_flight_max: 16, upload_pieces_max: 16, ..patient() }).await;
    ["ann", "bob", "eve"].iter().for_each(|name| server.user(name));
    let slow_ones = |name: &'static str| {
        (0..12).map(move |n| slow("PUT", &format!("/bucket/slow-{name}-{n}"), 1 << 20).by(name).bytes())
    };
    let (_held, refused) = hold(&server, slow_ones("ann"), 2).await;
    assert_eq!(refused, 4, "half of the places are hers");
    let large = Call::new("PUT", "/bucket/large").body(vec![1; 100 << 10]);
    server.send(large.clone().by("ann")).await.must_be(503, "SlowDown");
    server.send(large.clone().by("bob")).await.must_be_ok();
    let (_held_too, refused) = hold(&server, slow_ones("bob"), 2).await;
    assert_eq!(refused, 6, "two are root's");
    server.send(large.by("eve")).await.must_be(503, "SlowDown");
    root_works(&server, 2).await;
}

#[tokio::test]
async fn who_carries_what_root_has_signed_is_not_root() {
    let server = Server::with_limits(Limits {
        connections_max: 64,
        uploads_in_flight_max: 16,
        upload_pieces_max: 16,
        ..patient()
    })
    .await;
    let presigned = |n: usize, length| {
        let mut call = Call::new("PUT", &format!("/bucket/carried-{n}")).body("<");
        call.content_length = Some(length);
        call.presigned_bytes()
    };
    let (_held, refused) = hold(&server, (0..12).map(|n| presigned(n, 1 << 20)), 2).await;
    assert_eq!(refused, 4, "half of the places are theirs");
    root_works(&server, 2).await;
    // All connections, and what is reserved.
    let mut held = Vec::new();
    for last in 2..6 {
        held.extend(hold(&server, (0..32).map(|n| presigned(n, 1000)), last).await.0);
    }
    assert!(held.len() <= 56, "{}", held.len());
    root_works(&server, 9).await;
}

#[tokio::test]
async fn readers_that_stall_leave_room_for_others() {
    let server = Server::with_limits(Limits { downloads_in_flight_max: 8, ..patient() }).await;
    ["ann", "bob"].iter().for_each(|name| server.user(name));
    let body = vec![5; 24 << 20];
    server.send(Call::new("PUT", "/bucket/huge").body(body)).await.must_be_ok();
    let get = |name: &str| Call::new("GET", "/bucket/huge").by(name).bytes();
    let mut stalled = Vec::new();
    for _ in 0..12 {
        let mut client = server.connect().await;
        client.send(&get("ann")).await;
        stalled.push(client);
    }
    // Four of them have all the places that are hers.
    for client in &mut stalled[..4] {
        client.some_bytes().await;
    }
    root_works(&server, 2).await;
    let mut other = server.connect().await;
    other.send(&get("bob")).await;
    tokio::time::timeout(LONG, other.some_bytes()).await.expect("another user waits");
    assert!(stalled[4..].iter().all(Client::nothing_yet));
}

#[tokio::test]
async fn documents_of_strangers_leave_room_for_others() {
    let server = Server::start().await;
    server.user("ann");
    server.open_to_everybody(r#"["s3:DeleteObject", "s3:PutBucketTagging"]"#);
    let anonymous = |n: u64| {
        let mut call = Call::new("POST", "/bucket?delete").header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==").body("<");
        call.content_length = Some((100 << 10) + n);
        call.unsigned_bytes()
    };
    let (_held, refused) = hold(&server, (0..16).map(anonymous), 2).await;
    assert_eq!(refused, 14, "an address has two places");
    root_works(&server, 2).await;
    let (_held_too, refused) = hold(&server, (0..16).map(anonymous), 3).await;
    assert_eq!(refused, 14);
    let users = (0..16).map(|_| slow("PUT", "/bucket?tagging", 100 << 10).by("ann").bytes());
    let (_held_as_well, refused) = hold(&server, users, 4).await;
    assert_eq!(refused, 8);
    root_works(&server, 2).await;
}

#[tokio::test]
async fn rights_are_asked_before_a_body_is_read() {
    let server = Server::with_limits(patient()).await;
    server.user("ann");
    server.objects.identities().set_public_access(true).wait().unwrap();
    let of = |method: &str, target: &str, length: u64| {
        let mut call = Call::new(method, target).body("<");
        call.content_length = Some(length);
        call
    };
    // More than there are places of any kind: each is answered although its body never comes.
    for length in [1000, 100 << 10, 2 << 20] {
        for n in 0..24 {
            for (method, target) in [
                ("PUT", format!("/bucket/key-{n}")),
                ("PUT", format!("/bucket/key?partNumber=1&uploadId={:032x}", n)),
                ("PUT", "/bucket?policy".to_owned()),
                ("PUT", "/bucket?acl".to_owned()),
                ("PUT", "/bucket?tagging".to_owned()),
                ("PUT", "/bucket?versioning".to_owned()),
                ("PUT", "/bucket?publicAccessBlock".to_owned()),
                ("PUT", "/bucket?ownershipControls".to_owned()),
                ("PUT", "/bucket/key?acl".to_owned()),
                ("PUT", "/bucket/key?tagging".to_owned()),
                ("POST", format!("/bucket/key?uploadId={:032x}", n)),
                ("PUT", format!("/another-bucket-{n}")),
            ] {
                let mut client = server.connect().await;
                client.send(&of(method, &target, length).unsigned_bytes()).await;
                let answer = tokio::time::timeout(LONG, client.answer(method)).await;
                let answer =
                    answer.unwrap_or_else(|_| panic!("{method} {target} of {length} bytes waits for its body"));
                assert_eq!(answer.status, 403, "{method} {target}: {}", answer.text());
            }
        }
    }
    root_works(&server, 2).await;
}
