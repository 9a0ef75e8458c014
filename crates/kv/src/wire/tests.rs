//! Servers and clients, and strangers of every kind.

mod format;
mod loss;
mod patience;
mod peers;
mod shared;
mod verbs;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{Batch, Durability, Error, ErrorKind, KeyRange, Operation, Place, SpaceId, StageHint, Version};
use koine_env::{Random, SeededRandom};
use tempfile::TempDir;

use super::frame::{DATA_LEN_MAX, Frame, Kind, Limits, MESSAGE_LEN_MAX, write_request};
use super::reply::{Greeting, take_commit, take_error, take_event, take_page, take_stat, take_usage};
use super::request::{PROTOCOL, Request, Rule, without_stages};
use super::server::WATCHES_MAX;
use super::{
    ClientOptions, HEADER_LEN, Handler, HandlerConnection, Key, Peer, Responder, Server, ServerOptions, Timeouts,
    VERB_FOREIGN_FIRST, WireKv,
};
use crate::seam::{Direction, Kv, Wait};
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
        Request::Retrieve { view: 77, at: place("k"), offset: 0, length: 1, into: None },
        Request::Retrieve { view: 0, at: place("k"), offset: 0, length: u32::MAX, into: None },
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
    ask(&mut stream, 62, &Request::Retrieve { view: 0, at: place("k"), offset: 0, length: 100, into: None }, b"");
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
    assert!(error.kind() == ErrorKind::Disconnected && error.message().contains("koine serve"), "{error}");
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
    assert_eq!(gone.kind(), ErrorKind::Disconnected);
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
    let timeouts = Timeouts { reconnect: Duration::ZERO, ..Timeouts::default() };
    let options = ClientOptions { timeouts, ..ClientOptions::default() };
    let kv = Arc::new(WireKv::connect_unix(&served.socket, &options).unwrap());
    let mut watch = kv.watch(SPACE, KeyRange::all(), Version(0)).unwrap();
    while watch.next(Duration::ZERO).unwrap().is_some() {}
    let waiting = std::thread::spawn(move || watch.next(Duration::from_secs(600)));
    let mut view = kv.view().unwrap().cursor(SPACE, KeyRange::all(), Direction::Forward).unwrap();
    served.server.close();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Disconnected);
    let error = kv.commit(Batch::new().put(SPACE, "k", "v"), Durability::Sync).unwrap_err();
    assert!(error.kind() == ErrorKind::Disconnected && error.message().contains("koine serve"), "{error}");
    assert_eq!(view.next().unwrap_err().kind(), ErrorKind::Disconnected);
}

#[test]
fn who_reads_no_answers_holds_up_nobody_else() {
    let options =
        ServerOptions { waiting_len_max: 1 << 20, patience: Duration::from_secs(1), ..ServerOptions::default() };
    let served = served(options);
    served.kv.commit(Batch::new().put(SPACE, "long", vec![7; 1 << 20]), Durability::Sync).unwrap();
    let mut stream = served.greeted();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let request = Request::Retrieve { view: 0, at: place("long"), offset: 0, length: 1 << 20, into: None };
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
    let watch = || one.watch(SPACE, KeyRange::all(), Version(0));
    let mut watches: Vec<_> = (0..WATCHES_MAX).map(|_| watch().unwrap()).collect();
    assert_eq!(watch().map(drop).unwrap_err().kind(), ErrorKind::Busy);
    watches.truncate(1);
    watch().unwrap();
    // More at once than are let through at once.
    let tickets: Vec<_> = (0..200)
        .map(|turn| one.submit(Batch::new().put(SPACE, format!("{turn:03}"), "v"), Durability::Sync, Wait::Never))
        .collect();
    let versions: Vec<Version> = tickets.into_iter().map(|ticket| ticket.wait().unwrap().version).collect();
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]));
}

/// The table and the tests cannot part: every row names one that is there, and the numbers are those in force.
#[test]
fn every_limit_is_documented_and_tested() {
    let document = include_str!("../../../../docs/limits.md");
    let section = document.split("\n## ").find(|section| section.starts_with("Keys and values")).unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let tests = [
        include_str!("tests.rs"),
        include_str!("tests/loss.rs"),
        include_str!("tests/peers.rs"),
        include_str!("tests/shared.rs"),
        include_str!("tests/verbs.rs"),
    ];
    for row in &rows {
        // Behind a semicolon stand tests of other crates.
        let named: Vec<&str> = row[4].split(';').next().unwrap_or_default().split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row:?}");
        for test in named {
            assert!(tests.iter().any(|text| text.contains(&format!("fn {test}("))), "{test} of {row:?}");
        }
    }
    let (options, timeouts) = (ServerOptions::default(), Timeouts::default());
    let mib = |length: usize| format!("{} MiB", length >> 20);
    for (name, value) in [
        ("connections_max", options.connections_max.to_string()),
        ("Timeouts::connect", format!("{} s", timeouts.connect.as_secs())),
        ("Timeouts::call", format!("{} s", timeouts.call.as_secs())),
        ("Timeouts::reconnect", format!("{} s", timeouts.reconnect.as_secs())),
        ("greeting", format!("{} s", options.greeting.as_secs())),
        ("in_flight_max", thousands(options.in_flight_max)),
        ("waiting_len_max", mib(options.waiting_len_max)),
        ("staging_len_max", mib(options.staging_len_max)),
        ("patience", format!("{} s", options.patience.as_secs())),
        ("handles_max", thousands(options.handles_max)),
        ("WATCHES_MAX", WATCHES_MAX.to_string()),
        ("STOP_TIME_MAX", format!("{} s", super::STOP_TIME_MAX.as_secs())),
        ("MESSAGE_LEN_MAX", mib(MESSAGE_LEN_MAX)),
        ("DATA_LEN_MAX", mib(DATA_LEN_MAX)),
        ("VERB_MESSAGE_LEN_MAX", mib(super::VERB_MESSAGE_LEN_MAX)),
        ("SHARED_LEN_MAX", mib(super::SHARED_LEN_MAX)),
        ("shared_from", format!("{} KiB", options.shared_from >> 10)),
    ] {
        let row = rows.iter().find(|row| row[1].contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("{name} is missing"));
        assert!(row[2].contains(&value), "{name}: {value}");
    }
}

fn thousands(number: usize) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

struct Echo;

impl Handler for Echo {
    fn begin(&self, peer: &Peer) -> Box<dyn HandlerConnection> {
        assert!(matches!(peer, Peer::Local { uid, .. } if *uid == rustix::process::geteuid().as_raw()));
        Box::new(Echo)
    }
}

impl HandlerConnection for Echo {
    fn handle(&mut self, verb: u16, message: Bytes, data: Bytes, answer: Responder) {
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
    assert_eq!(failure(&mut stream).kind(), ErrorKind::Disconnected);
}

/// Keeps what it was asked for, until the test answers.
#[derive(Clone, Default)]
struct Keeping(Arc<parking_lot::Mutex<Option<Responder>>>);

impl Handler for Keeping {
    fn begin(&self, _peer: &Peer) -> Box<dyn HandlerConnection> {
        Box::new(self.clone())
    }
}

impl HandlerConnection for Keeping {
    fn handle(&mut self, _verb: u16, _message: Bytes, _data: Bytes, answer: Responder) {
        *self.0.lock() = Some(answer);
    }
}

#[test]
fn a_server_that_stops_answers_what_was_asked() {
    let keeping = Keeping::default();
    let handler: Arc<dyn Handler> = Arc::new(keeping.clone());
    let served = served(ServerOptions { handler: Some(handler), ..ServerOptions::default() });
    let mut stream = served.greeted();
    write_request(&mut stream, VERB_FOREIGN_FIRST, 9, b"", b"").unwrap();
    eventually("the request is there", || keeping.0.lock().is_some());
    std::thread::scope(|scope| {
        scope.spawn(|| served.server.close());
        eventually("the server listens no more", || !served.socket.exists());
        keeping.0.lock().take().unwrap().tell(Ok(b"done".to_vec()));
    });
    assert_eq!(answer(&mut stream).unwrap().message, b"done"[..]);
    assert!(answer(&mut stream).is_none());
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
