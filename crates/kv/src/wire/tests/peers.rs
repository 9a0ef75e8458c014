//! Peers that are dead, slow or malicious, beside one who works.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::wire::frame::{frame_sum, request_header};
use crate::wire::reply::{Welcome, put_number, put_page};
use crate::wire::server::STOP_TIME_MAX;
use crate::{Entry, Lookup, Stat, View};

const LONG: Duration = Duration::from_secs(3600);

/// The server has ended the connection.
fn is_ended(stream: &mut UnixStream) -> bool {
    matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_))
}

fn store(key: &str) -> Request {
    Request::Store { at: place(key), rule: Rule::Any, durability: Durability::Sync, request: None }
}

fn retrieve(key: &str) -> Request {
    Request::Retrieve { view: 0, at: place(key), offset: 0, length: 1 << 20, into: None }
}

#[test]
fn who_greets_by_drops_is_cut_off_in_the_same_time() {
    let served = served(ServerOptions { greeting: Duration::from_millis(300), ..ServerOptions::default() });
    let mut stream = served.raw();
    // A frame as long as a stranger's may be, a byte at a time: each read of the server gets something.
    let mut frame = Vec::new();
    write_request(&mut frame, 0x40, 1, &[0; 512], b"").unwrap();
    let mut sent = 0;
    for byte in &frame {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        sent += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(sent < frame.len(), "a stranger was listened to for as long as he liked");
    eventually("its session has ended", || served.server.connections() == 0);
    served.is_well();
}

#[test]
fn strangers_who_say_nothing_keep_nobody_out() {
    let options = ServerOptions { connections_max: 3, greeting: LONG, ..ServerOptions::default() };
    let served = served(options);
    let working = served.connect();
    let mut silent: Vec<UnixStream> = (0..50).map(|_| served.raw()).collect();
    // The oldest of the strangers makes room, whoever has greeted stays.
    served.is_well();
    eventually("that one has gone", || served.server.connections() < 3);
    let others = [served.connect(), served.connect()];
    working.commit(Batch::new().put(SPACE, "k", "v"), Durability::Sync).unwrap();
    assert!(others.iter().all(|kv| kv.get(SPACE, b"k").unwrap().unwrap() == "v"));
    assert!(silent.iter_mut().all(is_ended), "no stranger has room any more");
    // Those who have greeted give way to nobody.
    assert_eq!(WireKv::connect_unix(&served.socket, &ClientOptions::default()).unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn half_a_frame_holds_up_nobody_and_ends_with_its_connection() {
    let served = served(ServerOptions::default());
    let message = vec![0; 20 << 20];
    let header = request_header(0x68, 9, &message, &[], None);
    let mut halves: Vec<UnixStream> = (0..20).map(|_| served.greeted()).collect();
    for (cut, stream) in [10, HEADER_LEN, HEADER_LEN + 100].iter().cycle().zip(&mut halves) {
        let bytes = [&header[..], &message[..1000]].concat();
        stream.write_all(&bytes[..*cut]).unwrap();
    }
    served.is_well();
    eventually("those who wait are still there", || served.server.connections() == 20);
    // Some go away within it, others the server ends.
    halves.truncate(10);
    eventually("the sessions of the dead have ended", || served.server.connections() == 10);
    let begun = std::time::Instant::now();
    served.server.close();
    assert!(begun.elapsed() < STOP_TIME_MAX, "half a request is nothing to wait for");
    assert!(halves.iter_mut().all(is_ended));
}

#[test]
fn ten_thousand_views_and_stages_are_refused_and_let_go() {
    let served = served(ServerOptions::default());
    let used = served.kv.usage().unwrap().used;
    let most = ServerOptions::default().handles_max as u64;
    let mut stream = served.greeted();
    for number in 1..=10_000 {
        let stage = Request::OpenStage { stage: number, hint: StageHint::default() };
        for request in [Request::OpenView { view: number }, stage] {
            ask(&mut stream, number, &request, b"");
            let frame = answer(&mut stream).unwrap();
            assert_eq!(frame.kind == Kind::Reply, number <= most, "{request:?}");
            if number > most {
                assert_eq!(take_error(frame.message).kind(), ErrorKind::Busy);
            }
        }
        if number % 100 == 0 && number <= most {
            ask(&mut stream, number, &Request::WriteStage { stage: number }, &[1; 10_000]);
            assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
        }
        if number % 1000 == 0 {
            served.is_well();
        }
    }
    // What is open can be used, and others have their own.
    ask(&mut stream, 1, &Request::Exist { view: most, at: place("k") }, b"");
    assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
    let other = served.connect();
    assert!(other.view().unwrap().stat(SPACE, b"k").is_ok() && other.stage(StageHint::default()).is_ok());
    drop(stream);
    let well = served.kv.get(SPACE, b"well").unwrap().unwrap().len() as u64;
    eventually("all of it is gone", || served.kv.usage().unwrap().used <= used + well + 100);
}

#[test]
fn values_on_their_way_take_bounded_memory() {
    let served = served(ServerOptions { staging_len_max: 3 << 20, ..ServerOptions::default() });
    let piece = vec![7; 1 << 20];
    let write = |stream: &mut UnixStream, stage| {
        ask(stream, 1, &Request::OpenStage { stage, hint: StageHint::default() }, b"");
        assert_eq!(answer(stream).unwrap().kind, Kind::Reply);
        ask(stream, 2, &Request::WriteStage { stage }, &piece);
        let frame = answer(stream).unwrap();
        if frame.kind == Kind::Reply { Ok(()) } else { Err(take_error(frame.message)) }
    };
    let mut streams: Vec<UnixStream> = (0..5).map(|_| served.greeted()).collect();
    for stream in &mut streams[..4] {
        let outcomes: Vec<bool> = (1..=5).map(|stage| write(stream, stage).is_ok()).collect();
        assert_eq!(outcomes, [true, true, true, false, false]);
    }
    // All together have no more than four of them.
    let error = write(&mut streams[4], 1).unwrap_err();
    assert!(error.kind() == ErrorKind::Busy && error.message().contains("finish or drop some"), "{error}");
    // What is finished, dropped or left gives it back.
    ask(&mut streams[0], 3, &Request::FinishStage { stage: 1 }, b"");
    assert_eq!(answer(&mut streams[0]).unwrap().kind, Kind::Reply);
    write(&mut streams[4], 2).unwrap();
    ask(&mut streams[0], 3, &Request::DropStage { stage: 2 }, b"");
    assert_eq!(answer(&mut streams[0]).unwrap().kind, Kind::Reply);
    write(&mut streams[4], 3).unwrap();
    drop(streams.drain(1..2));
    eventually("its session has ended", || served.server.connections() == 4);
    write(&mut streams[3], 4).unwrap();
    served.is_well();
}

#[test]
fn lengths_of_four_gibibytes_cost_nothing() {
    let served = served(ServerOptions::default());
    let other = served.connect();
    other.commit(Batch::new().put(SPACE, "k", vec![7; 3000]), Durability::Sync).unwrap();
    // Of a frame: the checksum of the header is right, and it ends the connection.
    for (message_len, data_len) in [(u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        let mut header = request_header(0x01, 9, &[], &[], None);
        header[16..20].copy_from_slice(&message_len.to_le_bytes());
        header[20..24].copy_from_slice(&data_len.to_le_bytes());
        let sum = frame_sum(&header[4..]);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        for mut stream in [served.raw(), served.greeted()] {
            stream.write_all(&header).unwrap();
            assert!(is_ended(&mut stream));
        }
    }
    // Within a message: an error, or no more than there is.
    let mut stream = served.greeted();
    let whole = |view| Request::List {
        view,
        space: SPACE,
        range: KeyRange::all(),
        direction: Direction::Forward,
        entries: u32::MAX,
        bytes: u32::MAX,
    };
    ask(&mut stream, 1, &whole(0), b"");
    assert_eq!(take_page(answer(&mut stream).unwrap().message).unwrap().0.len(), 1);
    ask(&mut stream, 2, &Request::Spaces { view: 0, from: SpaceId(0), most: u32::MAX }, b"");
    assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
    let far = Request::Retrieve { view: 0, at: place("k"), offset: u64::MAX, length: 1 << 20, into: None };
    ask(&mut stream, 3, &far, b"");
    assert!(answer(&mut stream).unwrap().data.is_empty());
    for (length, reserved) in [(u64::from(u32::MAX), false), (u64::MAX, false), (u64::MAX, true)] {
        let hint = StageHint { length: Some(length), reserved, ..StageHint::default() };
        ask(&mut stream, 4, &Request::OpenStage { stage: length, hint }, b"");
        let _opened_or_refused = answer(&mut stream).unwrap();
    }
    // A key that is said to be so long, and a batch of so many operations.
    for message in [
        [&[0, 0, 0][..], &16u64.to_le_bytes(), &u32::MAX.to_le_bytes(), b"k"].concat(),
        [&[0, 0][..], &u32::MAX.to_le_bytes()].concat(),
        [&[0, 0][..], &0u32.to_le_bytes(), &u32::MAX.to_le_bytes()].concat(),
    ] {
        for verb in [0x01, 0x68] {
            write_request(&mut stream, verb, 5, &message, b"").unwrap();
            assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid);
        }
    }
    assert_eq!(other.get(SPACE, b"k").unwrap().unwrap().len(), 3000);
}

/// A store that waits for everything; it counts what was read.
struct Waits<K: ?Sized> {
    below: Arc<K>,
    made: Arc<AtomicU64>,
}

impl<K: ?Sized> Waits<K> {
    fn look(&self, wait: Wait, look: impl FnOnce() -> crate::Result<Lookup>) -> crate::Result<Lookup> {
        if wait == Wait::Never {
            return Ok(Lookup::WouldWait);
        }
        self.made.fetch_add(1, Ordering::SeqCst);
        look()
    }
}

impl Kv for Waits<dyn Kv> {
    crate::pass_on!(Kv, below: profile, stage, submit, watch, usage, sync, close);

    fn view(&self) -> crate::Result<Arc<dyn View>> {
        Ok(Arc::new(Waits { below: self.below.view()?, made: Arc::clone(&self.made) }))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> crate::Result<Lookup> {
        self.look(wait, || self.below.lookup(space, key, offset, length, wait))
    }
}

impl View for Waits<dyn View> {
    crate::pass_on!(View, below: version, keep, spaces, read_into, cursor);

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> crate::Result<Lookup> {
        self.look(wait, || self.below.lookup(space, key, offset, length, wait))
    }
}

#[test]
fn answers_that_nobody_reads_are_not_even_made() {
    let kv = Arc::new(MemoryKv::new(MemoryOptions::default()));
    kv.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    kv.commit(Batch::new().put(SPACE, "long", vec![7; 1 << 20]), Durability::Sync).unwrap();
    let counted = Arc::new(Waits::<dyn Kv> { below: Arc::clone(&kv) as _, made: Arc::default() });
    let server =
        Server::new(Arc::clone(&counted) as _, ServerOptions { waiting_len_max: 4 << 20, ..ServerOptions::default() });
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    server.listen_unix(&socket).unwrap();
    let served = Served { server, kv, socket, _folder: folder };
    let mut stream = served.greeted();
    const COUNT: u64 = 128;
    for id in 10..10 + COUNT {
        ask(&mut stream, id, &retrieve("long"), b"");
    }
    let made = || counted.made.load(Ordering::SeqCst);
    eventually("some are made", || made() >= 4);
    for _ in 0..20 {
        served.is_well();
        // What waits, what the kernel has taken, and the one that was over the limit.
        assert!(made() <= 8 + 20, "{} answers of 1 MiB wait for one who reads none", made());
        std::thread::sleep(Duration::from_millis(10));
    }
    // He reads after all, and gets every one.
    let mut ids: Vec<u64> = (0..COUNT)
        .map(|_| {
            let frame = answer(&mut stream).unwrap();
            assert!(frame.kind == Kind::Reply && frame.data.len() == 1 << 20);
            frame.id
        })
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(10..10 + COUNT));
}

#[test]
fn a_client_that_dies_amid_its_requests_leaves_nothing() {
    let served = served(ServerOptions::default());
    for turn in 0..20 {
        let mut stream = served.greeted();
        for id in 10..138 {
            ask(&mut stream, id, &if id % 2 == 0 { store("k") } else { retrieve("k") }, &[turn; 5000]);
        }
        drop(stream);
        served.is_well();
    }
    eventually("their sessions have ended", || served.server.connections() == 0);
    assert_eq!(served.kv.get(SPACE, b"k").unwrap().unwrap().len(), 5000);
}

#[test]
fn a_server_that_dies_within_a_scan_ends_no_scan() {
    let served = served(ServerOptions::default());
    let batch = (0..1000).fold(Batch::new(), |batch, number| batch.put(SPACE, format!("{number:04}"), "v"));
    served.kv.commit(batch, Durability::Sync).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let kv = served.connect();
        let mut cursor = kv.view().unwrap().cursor(SPACE, KeyRange::all(), direction).unwrap();
        let mut seen = 0;
        while seen < 100 {
            seen += usize::from(cursor.next().unwrap().is_some());
        }
        kv.close().unwrap();
        let error = loop {
            match cursor.next() {
                Ok(entry) => seen += usize::from(entry.is_some_and(|entry| entry.value.is_some())),
                Err(error) => break error,
            }
        };
        assert!(error.kind() == ErrorKind::Stopped && seen < 1000, "{seen}: {error}");
        assert!(cursor.next().is_err(), "asked again it is no end either");
    }
}

/// A server that answers every list with this page.
fn strange_lister(page: Vec<u8>) -> WireKv {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("strange.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let greeting =
            Greeting { protocol: PROTOCOL, nonce: [0; 32], wants_proof: false, in_flight_max: 8, handles_max: 8 };
        let welcome = Welcome { proof: [0; 32], profile: MemoryKv::default().profile().clone() };
        while let Some(asked) = answer(&mut stream) {
            let message = match asked.verb {
                0x40 => greeting.encode(),
                0x41 => welcome.encode(),
                0x50 => put_number(1),
                0x06 => page.clone(),
                _ => Vec::new(),
            };
            let frame = Frame::new(asked.verb, Kind::Reply, asked.id, message);
            let _gone = stream.write_all(&[&frame.header()[..], &frame.message].concat());
        }
    });
    let timeouts = Timeouts { reconnect: Duration::ZERO, ..Timeouts::default() };
    WireKv::connect_unix(&socket, &ClientOptions { timeouts, ..ClientOptions::default() }).unwrap()
}

#[test]
fn pages_that_were_not_asked_for_are_no_end_and_no_circle() {
    let entry = |key: &'static str| Entry {
        key: Bytes::from_static(key.as_bytes()),
        stat: Stat { version: Version(1), size: 1 },
        value: Some(Bytes::from_static(b"v")),
    };
    for entries in [vec![], vec![entry("a")], vec![entry("c"), entry("d")], vec![entry("x")]] {
        let kv = strange_lister(put_page(&entries, false));
        for direction in [Direction::Forward, Direction::Backward] {
            let range = KeyRange { start: "b".into(), end: Some("x".into()) };
            let mut cursor = kv.view().unwrap().cursor(SPACE, range, direction).unwrap();
            let outcomes: Vec<_> = (0..6).map(|_| cursor.next()).collect();
            let error = outcomes.iter().find_map(|outcome| outcome.as_ref().err()).unwrap();
            assert!(error.message().contains("not asked for"), "{error}");
            assert!(!outcomes.iter().any(|outcome| matches!(outcome, Ok(None))), "an end was believed");
        }
    }
}
