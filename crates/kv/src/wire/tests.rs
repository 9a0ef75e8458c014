//! Bytes as docs/wire.md tells them, and strangers of every kind.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{
    Batch, Condition, Durability, Error, ErrorKind, KeyRange, Operation, Payload, Place, RequestId, Sources, SpaceId,
    StageHint, Version,
};
use koine_env::{Random, SeededRandom};
use proptest::prelude::*;
use tempfile::TempDir;

use super::fields::Fields;
use super::frame::{Frame, Kind, Limits, write_request};
use super::reply::{Greeting, take_commit, take_error, take_event, take_page, take_stat, take_usage};
use super::request::{PROTOCOL, Request, Rule, without_stages};
use super::{
    ClientOptions, HEADER_LEN, Handler, Key, Peer, Responder, Server, ServerOptions, VERB_FOREIGN_FIRST, WireKv,
};
use crate::seam::{Direction, Kv};
use crate::{MemoryKv, MemoryOptions};

const SPACE: SpaceId = SpaceId::FIRST;

/// A store in memory behind a Unix socket.
struct Served {
    server: Server,
    kv: Arc<MemoryKv>,
    socket: PathBuf,
    _folder: TempDir,
}

fn served(options: ServerOptions) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let kv = Arc::new(MemoryKv::new(MemoryOptions::default()));
    kv.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    let server = Server::new(Arc::clone(&kv) as _, options);
    server.listen_unix(&socket).unwrap();
    Served { server, kv, socket, _folder: folder }
}

impl Served {
    fn connect(&self) -> WireKv {
        WireKv::connect_unix(&self.socket, &ClientOptions::default()).unwrap()
    }

    /// A stranger's end of a connection; a read that never ends fails.
    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// One that has greeted.
    fn greeted(&self) -> UnixStream {
        let mut stream = self.raw();
        ask(&mut stream, 1, &Request::Hello { protocol: PROTOCOL, nonce: [0; 32] }, b"");
        Greeting::decode(answer(&mut stream).unwrap().message).unwrap();
        ask(&mut stream, 2, &Request::Prove { proof: [0; 32] }, b"");
        answer(&mut stream).unwrap();
        stream
    }

    /// The server still works.
    fn is_well(&self) {
        let kv = self.connect();
        kv.commit(Batch::new().put(SPACE, "well", "yes"), Durability::Sync).unwrap();
        assert_eq!(kv.get(SPACE, b"well").unwrap().unwrap(), "yes");
    }
}

fn ask(stream: &mut UnixStream, id: u64, request: &Request, data: &[u8]) {
    write_request(stream, request.verb(), id, &request.encode(&without_stages).unwrap(), data).unwrap();
}

/// The next answer; `None` when the server has ended the connection.
fn answer(stream: &mut UnixStream) -> Option<Frame> {
    Frame::read(stream, Limits::FULL).unwrap_or(None)
}

fn failure(stream: &mut UnixStream) -> Error {
    let frame = answer(stream).unwrap();
    assert_eq!(frame.kind, Kind::Failure);
    take_error(frame.message)
}

fn place(key: &str) -> Place {
    Place::new(SPACE, key.to_owned())
}

/// Until it is so; fails when that takes too long.
fn eventually(what: &str, so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not in a minute: {what}");
}

/// The examples of docs/wire.md.
#[test]
fn frames_are_as_documented() {
    let document = include_str!("../../../../docs/wire.md");
    let request = Request::Store {
        at: Place::new(SpaceId(16), "k"),
        rule: Rule::MustNotExist,
        durability: Durability::Sync,
        request: Some(RequestId([0xAB; 16])),
    };
    let retrieve = Request::Retrieve { view: 0, at: Place::new(SpaceId(16), "k"), offset: 4096, length: 65_536 };
    let batch = Batch::new()
        .when(Condition::VersionIs { space: SpaceId(16), key: "k".into(), version: Version(7) })
        .put(SpaceId(16), "k", "value")
        .then(Operation::AddCounter { at: Place::new(SpaceId(17), "n"), delta: -1 });
    let submit = Request::Submit { batch, durability: Durability::Written };
    let mut missing = Vec::new();
    for (id, request, data) in [(1, request, &b"value"[..]), (2, retrieve, b""), (3, submit, b"")] {
        let mut bytes = Vec::new();
        write_request(&mut bytes, request.verb(), id, &request.encode(&without_stages).unwrap(), data).unwrap();
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let lines: Vec<String> = hex.chunks(32).map(|line| line.join(" ")).collect();
        if !document.contains(&lines.join("\n")) {
            missing.push(lines.join("\n"));
        }
    }
    assert!(missing.is_empty(), "docs/wire.md lacks\n{}", missing.join("\n\n"));
}

fn any_bytes(most: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

fn any_place() -> impl Strategy<Value = Place> {
    (any::<u64>(), any_bytes(40)).prop_map(|(space, key)| Place { space: SpaceId(space), key })
}

fn any_range() -> impl Strategy<Value = KeyRange> {
    (any_bytes(20), prop::option::of(any_bytes(20))).prop_map(|(start, end)| KeyRange { start, end })
}

fn any_condition() -> impl Strategy<Value = Condition> {
    (0..5, any_place(), any_range(), any::<u64>()).prop_map(|(which, Place { space, key }, range, version)| {
        let version = Version(version);
        match which {
            0 => Condition::Absent { space, key },
            1 => Condition::Present { space, key },
            2 => Condition::VersionIs { space, key, version },
            3 => Condition::RangeEmpty { space, range },
            _ => Condition::RangeUnchanged { space, range, since: version },
        }
    })
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<i64>());
    (0..15, any_place(), any_place(), any_range(), any_bytes(300), numbers).prop_map(
        |(which, at, to, range, data, (offset, length, other, delta))| match which {
            0 => Operation::Put { at, value: Payload::Bytes(data) },
            1 => Operation::WriteAt { at, offset, data: Payload::Bytes(data) },
            2 => Operation::Append { at, data: Payload::Bytes(data) },
            3 => Operation::Truncate { at, length },
            4 => Operation::Delete { at },
            5 => Operation::DeleteRange { space: at.space, range },
            6 => Operation::Rename { from: at, to },
            7 => Operation::RenamePrefix { space: at.space, from: at.key, to: to.key },
            8 => Operation::CloneRange { from: at, from_offset: offset, length, to, to_offset: other },
            9 => {
                let fate = if delta < 0 { Sources::Delete } else { Sources::Keep };
                Operation::Concatenate { sources: vec![at.clone(), to, at.clone()], target: at, fate }
            }
            10 => Operation::AddCounter { at, delta },
            11 => Operation::CreateSpace { space: at.space },
            12 => Operation::DropSpace { space: at.space },
            13 => Operation::CloneSpace { from: at.space, to: to.space },
            _ => Operation::SnapshotSpace { from: at.space, to: to.space },
        },
    )
}

proptest! {
    #[test]
    fn batches_come_out_as_they_went_in(
        conditions in prop::collection::vec(any_condition(), 0..10),
        operations in prop::collection::vec(any_operation(), 0..20),
        request in prop::option::of(any::<[u8; 16]>()),
    ) {
        let batch = Batch { conditions, operations, request: request.map(RequestId) };
        let sent = Request::Submit { batch, durability: Durability::Written };
        let message = Bytes::from(sent.encode(&without_stages).unwrap());
        let got = Request::decode(sent.verb(), Fields::new(message.clone()), &mut |_| unreachable!()).unwrap().unwrap();
        prop_assert_eq!(format!("{sent:?}"), format!("{got:?}"));
        // A part of it is no message.
        for end in [message.len() / 2, message.len() - 1] {
            let part = Fields::new(message.slice(..end));
            prop_assert!(Request::decode(sent.verb(), part, &mut |_| unreachable!()).is_err());
        }
    }

    #[test]
    fn other_requests_come_out_as_they_went_in(
        at in any_place(), range in any_range(), numbers in any::<[u64; 3]>(), small in any::<[u32; 2]>(),
        seed in any::<[u8; 32]>(), backward in any::<bool>(),
    ) {
        let [view, offset, other] = numbers;
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let hint = StageHint { length: backward.then_some(offset), reserved: backward, ..StageHint::default() };
        let timeout = Duration::from_millis(u64::from(small[0]));
        for sent in [
            Request::Hello { protocol: small[0], nonce: seed },
            Request::Prove { proof: seed },
            Request::Retrieve { view, at: at.clone(), offset, length: small[0] },
            Request::Delete { at: at.clone(), rule: Rule::MustExist, durability: Durability::Memory, request: None },
            Request::Exist { view, at: at.clone() },
            Request::List { view, space: at.space, range: range.clone(), direction, entries: small[0], bytes: small[1] },
            Request::OpenView { view },
            Request::CloseView { view },
            Request::HasSpace { view, space: at.space },
            Request::Spaces { view, from: at.space, most: small[1] },
            Request::OpenStage { stage: view, hint },
            Request::WriteStage { stage: view },
            Request::FinishStage { stage: view },
            Request::DropStage { stage: view },
            Request::OpenWatch { watch: view, space: at.space, range, from: Version(other) },
            Request::NextEvent { watch: view, timeout },
            Request::CloseWatch { watch: view },
            Request::Usage,
            Request::Sync,
        ] {
            let message = Bytes::from(sent.encode(&without_stages).unwrap());
            let got = Request::decode(sent.verb(), Fields::new(message), &mut |_| unreachable!()).unwrap().unwrap();
            prop_assert_eq!(format!("{sent:?}"), format!("{got:?}"));
        }
    }
}

/// What both sides read, given anything at all.
#[test]
fn no_bytes_are_too_strange_to_be_refused() {
    let random = SeededRandom::new(11);
    let verbs =
        [1, 2, 6, 0x10, 0x14, 0x40, 0x41, 0x50, 0x51, 0x52, 0x53, 0x60, 0x61, 0x68, 0x70, 0x71, 0x72, 9, 0x8000];
    for turn in 0..20_000usize {
        let mut bytes = vec![0; turn % 97];
        random.fill(&mut bytes);
        // Lengths that could be right now and then.
        bytes.iter_mut().skip(turn % 5).step_by(3).for_each(|byte| *byte %= 4);
        super::fuzzing::request(verbs[turn % verbs.len()], &bytes);
        super::fuzzing::reply(&bytes);
        super::fuzzing::stream(&bytes);
    }
}

#[test]
fn who_does_not_speak_the_protocol_is_cut_off_and_harms_nobody() {
    let served = served(ServerOptions { greeting: Duration::from_millis(300), ..ServerOptions::default() });
    let mut long = [0; HEADER_LEN];
    long[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    let hello = Request::Hello { protocol: PROTOCOL, nonce: [0; 32] }.encode(&without_stages).unwrap();
    let mut early = Vec::new();
    write_request(&mut early, 0x68, 1, &[0; 100], b"").unwrap();
    let mut too_long = Vec::new();
    write_request(&mut too_long, 0x40, 1, &[hello.clone(), vec![0; 5000]].concat(), b"").unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 4096], &long, &too_long, b""] {
        let mut stream = served.raw();
        let _gone = stream.write_all(bytes);
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{bytes:?} was answered");
    }
    let mut stream = served.raw();
    stream.write_all(&early).unwrap();
    assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid);
    assert!(answer(&mut stream).is_none());
    let mut stream = served.raw();
    ask(&mut stream, 1, &Request::Hello { protocol: 99, nonce: [0; 32] }, b"");
    let error = failure(&mut stream);
    assert!(error.kind() == ErrorKind::Unknown && error.message().contains("99"), "{error}");
    assert!(answer(&mut stream).is_none());
    served.is_well();
}

#[test]
fn wrong_requests_get_errors_and_the_connection_goes_on() {
    let served = served(ServerOptions::default());
    let mut stream = served.greeted();
    let wrong = [
        Request::Hello { protocol: PROTOCOL, nonce: [0; 32] },
        Request::Retrieve { view: 77, at: place("k"), offset: 0, length: 1 },
        Request::Retrieve { view: 0, at: place("k"), offset: 0, length: u32::MAX },
        Request::OpenView { view: 0 },
        Request::CloseView { view: 5 },
        Request::WriteStage { stage: 5 },
        Request::FinishStage { stage: 5 },
        Request::DropStage { stage: 5 },
        Request::NextEvent { watch: 5, timeout: Duration::ZERO },
        Request::CloseWatch { watch: 5 },
    ];
    for (id, request) in (10..).zip(&wrong) {
        ask(&mut stream, id, request, b"");
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid, "{request:?}");
    }
    for (verb, kind) in
        [(0x99, ErrorKind::Unsupported), (VERB_FOREIGN_FIRST, ErrorKind::Unsupported), (0x68, ErrorKind::Invalid)]
    {
        write_request(&mut stream, verb, 50, b"?", b"").unwrap();
        assert_eq!(failure(&mut stream).kind(), kind);
    }
    ask(
        &mut stream,
        60,
        &Request::Store { at: place("k"), rule: Rule::MustExist, durability: Durability::Sync, request: None },
        b"v",
    );
    assert_eq!(failure(&mut stream).kind(), ErrorKind::Refused);
    ask(
        &mut stream,
        61,
        &Request::Store { at: place("k"), rule: Rule::Any, durability: Durability::Sync, request: None },
        b"v",
    );
    let stored = take_commit(answer(&mut stream).unwrap().message).unwrap();
    ask(&mut stream, 62, &Request::Retrieve { view: 0, at: place("k"), offset: 0, length: 100 }, b"");
    let got = answer(&mut stream).unwrap();
    assert_eq!(
        (got.id, got.data.as_ref(), take_stat(got.message).unwrap().unwrap().version),
        (62, &b"v"[..], stored.version)
    );
    ask(
        &mut stream,
        63,
        &Request::Delete { at: place("k"), rule: Rule::MustExist, durability: Durability::Sync, request: None },
        b"",
    );
    assert!(answer(&mut stream).unwrap().kind == Kind::Reply);
    assert_eq!(served.kv.get(SPACE, b"k").unwrap(), None);
}

#[test]
fn one_key_for_both_or_no_connection() {
    let served = served(ServerOptions::default());
    let (right, wrong) = (Key::new([1; 32]).unwrap(), Key::new([2; 32]).unwrap());
    let address = served.server.listen_tcp(([127, 0, 0, 1], 0).into(), right.clone()).unwrap().to_string();
    let options = ClientOptions::default();
    let kv = WireKv::connect_tcp(&address, &right, &options).unwrap();
    kv.commit(Batch::new().put(SPACE, "k", "v"), Durability::Sync).unwrap();
    let error = WireKv::connect_tcp(&address, &wrong, &options).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.message().contains("key"), "{error}");
    // A server that does not know the key is not taken for the right one.
    let other = Server::new(Arc::clone(&served.kv) as _, ServerOptions::default());
    let elsewhere = other.listen_tcp(([127, 0, 0, 1], 0).into(), wrong).unwrap().to_string();
    assert_eq!(WireKv::connect_tcp(&elsewhere, &right, &options).unwrap_err().kind(), ErrorKind::Invalid);
    drop(other);
    let error = WireKv::connect_tcp(&elsewhere, &right, &options).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("koine serve"), "{error}");
}

#[test]
fn sockets_are_their_owners() {
    use std::os::unix::fs::PermissionsExt;
    let served = served(ServerOptions::default());
    assert_eq!(std::fs::metadata(&served.socket).unwrap().permissions().mode() & 0o777, 0o600);
    // Not while somebody listens there, and not in the place of anything else.
    let second = Server::new(Arc::clone(&served.kv) as _, ServerOptions::default());
    assert_eq!(second.listen_unix(&served.socket).unwrap_err().kind(), ErrorKind::Owned);
    let file = served.socket.with_file_name("a file");
    std::fs::write(&file, "kept").unwrap();
    assert!(second.listen_unix(&file).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    // A socket that a killed server left is replaced.
    let left = served.socket.with_file_name("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    second.listen_unix(&left).unwrap();
    served.server.close();
    assert!(!served.socket.exists());
    let gone = WireKv::connect_unix(&served.socket, &ClientOptions::default()).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[test]
fn what_a_lost_client_held_comes_back() {
    let served = served(ServerOptions::default());
    let used = served.kv.usage().unwrap().used;
    let kv = served.connect();
    let mut open = kv.stage(StageHint::default()).unwrap();
    open.write(&[1; 100_000]).unwrap();
    let mut finished = kv.stage(StageHint::default()).unwrap();
    finished.write(&[1; 200_000]).unwrap();
    let token = finished.finish().unwrap();
    eventually("stages are there", || served.kv.usage().unwrap().used >= used + 300_000);
    let _view = kv.view().unwrap();
    // Its process dies: the socket closes and nothing is said.
    kv.close().unwrap();
    eventually("stages are gone", || served.kv.usage().unwrap().used == used);
    eventually("its session has ended", || served.server.connections() == 0);
    assert_eq!(open.write(&[1]).unwrap_err().kind(), ErrorKind::Stopped);
    drop((open, token));
    served.is_well();
}

#[test]
fn a_server_that_goes_away_is_told_to_all_who_wait() {
    let served = served(ServerOptions::default());
    let kv = Arc::new(served.connect());
    let mut watch = kv.watch(SPACE, KeyRange::all(), Version(0)).unwrap();
    while watch.next(Duration::ZERO).unwrap().is_some() {}
    let waiting = std::thread::spawn(move || watch.next(Duration::from_secs(600)));
    let mut view = kv.view().unwrap().cursor(SPACE, KeyRange::all(), Direction::Forward).unwrap();
    served.server.close();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Stopped);
    let error = kv.commit(Batch::new().put(SPACE, "k", "v"), Durability::Sync).unwrap_err();
    assert!(error.kind() == ErrorKind::Stopped && error.message().contains("connect again"), "{error}");
    assert_eq!(view.next().unwrap_err().kind(), ErrorKind::Stopped);
}

#[test]
fn who_reads_no_answers_holds_up_nobody_else() {
    let options =
        ServerOptions { waiting_len_max: 1 << 20, patience: Duration::from_secs(1), ..ServerOptions::default() };
    let served = served(options);
    served.kv.commit(Batch::new().put(SPACE, "long", vec![7; 1 << 20]), Durability::Sync).unwrap();
    let mut stream = served.greeted();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let request = Request::Retrieve { view: 0, at: place("long"), offset: 0, length: 1 << 20 };
    let message = request.encode(&without_stages).unwrap();
    for id in 10..2000 {
        if write_request(&mut stream, request.verb(), id, &message, b"").is_err() {
            break;
        }
    }
    served.is_well();
    eventually("the slow client is cut off", || served.server.connections() == 0);
}

#[test]
fn no_more_than_was_allowed() {
    let options = ServerOptions { connections_max: 2, handles_max: 3, in_flight_max: 4, ..ServerOptions::default() };
    let served = served(options);
    let (one, _two) = (served.connect(), served.connect());
    assert_eq!(WireKv::connect_unix(&served.socket, &ClientOptions::default()).unwrap_err().kind(), ErrorKind::Busy);
    let mut views: Vec<_> = (0..4).map(|_| one.view().unwrap()).collect();
    // The fourth was not pinned, and every use of it says so.
    assert!(views[2].stat(SPACE, b"k").is_ok());
    assert!(views[3].stat(SPACE, b"k").is_err());
    views.truncate(2);
    assert!(one.view().unwrap().stat(SPACE, b"k").is_ok());
    // More at once than are let through at once.
    let tickets: Vec<_> =
        (0..100).map(|turn| one.submit(Batch::new().put(SPACE, format!("{turn:03}"), "v"), Durability::Sync)).collect();
    let versions: Vec<Version> = tickets.into_iter().map(|ticket| ticket.wait().unwrap().version).collect();
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]));
}

struct Echo;

impl Handler for Echo {
    fn handle(&self, peer: &Peer, verb: u16, message: Bytes, data: Bytes, answer: Responder) {
        assert!(matches!(peer, Peer::Local { uid, .. } if *uid == rustix::process::geteuid().as_raw()));
        if verb == VERB_FOREIGN_FIRST + 7 {
            std::thread::spawn(move || answer.answer(Ok((message.to_vec(), data))));
        }
        // Another one is dropped: the client hears that there is no answer.
    }
}

#[test]
fn verbs_of_higher_floors_go_to_their_handler() {
    let served = served(ServerOptions { handler: Some(Arc::new(Echo)), ..ServerOptions::default() });
    let mut stream = served.greeted();
    write_request(&mut stream, VERB_FOREIGN_FIRST + 7, 9, b"message", b"data").unwrap();
    let frame = answer(&mut stream).unwrap();
    assert_eq!((frame.id, frame.message.as_ref(), frame.data.as_ref()), (9, &b"message"[..], &b"data"[..]));
    write_request(&mut stream, VERB_FOREIGN_FIRST + 8, 10, b"", b"").unwrap();
    assert_eq!(failure(&mut stream).kind(), ErrorKind::Stopped);
}

#[test]
fn answers_of_a_stranger_do_not_harm_a_client() {
    let random = SeededRandom::new(5);
    for turn in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("strange.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let mut noise = vec![0; turn * 7];
        random.fill(&mut noise);
        let strange = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut begin = [0; 32];
            let _short = stream.read(&mut begin);
            let _gone = stream.write_all(&noise);
        });
        assert!(WireKv::connect_unix(&socket, &ClientOptions::default()).is_err());
        strange.join().unwrap();
    }
    for kind in [take_page(Bytes::new()).is_err(), take_usage(Bytes::new()).is_err(), take_event(Bytes::new()).is_err()]
    {
        assert!(kind);
    }
}
