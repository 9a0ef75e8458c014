//! Servers that go away, come back, or say nothing any more.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use koine_engine::RequestId;

use super::*;
use crate::seam::WatchEvent;

/// Between a client and a server: passes all on, until it is told to keep the answers to itself.
struct Between {
    socket: PathBuf,
    /// Answers are kept back.
    is_mute: Arc<AtomicBool>,
    /// Connections end with the first answer that is kept back.
    cuts: Arc<AtomicBool>,
    _folder: TempDir,
}

impl Between {
    fn new(served: &Served) -> Between {
        let folder = tempfile::tempdir().unwrap();
        let (socket, to) = (folder.path().join("between.sock"), served.socket.clone());
        let (is_mute, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let listener = UnixListener::bind(&socket).unwrap();
        let (mute, cut) = (Arc::clone(&is_mute), Arc::clone(&cuts));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(client), Ok(server)) = (stream, UnixStream::connect(&to)) else { continue };
                let (mut requests, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ended = std::io::copy(&mut requests, &mut to_server);
                    let _gone = to_server.shutdown(std::net::Shutdown::Both);
                });
                let (mute, cut) = (Arc::clone(&mute), Arc::clone(&cut));
                std::thread::spawn(move || answers(server, client, &mute, &cut));
            }
        });
        Between { socket, is_mute, cuts, _folder: folder }
    }

    fn connect(&self, call: Duration) -> WireKv {
        let timeouts = Timeouts { call, ..Timeouts::default() };
        let options = ClientOptions { timeouts, shared_len: 0, ..ClientOptions::default() };
        WireKv::connect_unix(&self.socket, &options).unwrap()
    }

    fn mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, Ordering::SeqCst);
    }

    fn cut(&self, cuts: bool) {
        self.cuts.store(cuts, Ordering::SeqCst);
        self.mute(cuts);
    }
}

fn answers(mut server: UnixStream, mut client: UnixStream, is_mute: &AtomicBool, cuts: &AtomicBool) {
    let mut buffer = [0; 64 << 10];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        if !is_mute.load(Ordering::SeqCst) {
            let _gone = client.write_all(&buffer[..count]);
        } else if cuts.swap(false, Ordering::SeqCst) {
            is_mute.store(false, Ordering::SeqCst);
            break;
        }
    }
    let _gone = client.shutdown(std::net::Shutdown::Both);
}

const FOR_EVER: Duration = Duration::MAX;

/// The server goes away, and another one comes to its place.
fn restart(served: &mut Served) {
    served.server.close();
    served.server = Server::new(Arc::clone(&served.kv) as _, ServerOptions::default());
    served.server.listen_unix(&served.socket).unwrap();
}

fn put(key: &str) -> Batch {
    Batch::new().put(SPACE, key.to_owned(), "value")
}

#[test]
fn a_client_goes_on_after_its_server_was_started_again() {
    let mut served = served(ServerOptions::default());
    let kv = served.connect();
    kv.commit(put("k"), Durability::Sync).unwrap();
    for round in 0..3 {
        restart(&mut served);
        match round {
            0 => assert_eq!(kv.get(SPACE, b"k").unwrap().unwrap(), "value"),
            // What was not sent before is sent to the new one, without a request id too.
            1 => drop(kv.commit(put("l"), Durability::Sync).unwrap()),
            _ => drop(kv.submit(put("m"), Durability::Sync, Wait::Never).wait().unwrap()),
        }
        assert_eq!(kv.view().unwrap().stat(SPACE, b"k").unwrap().unwrap().size, 5);
        kv.usage().unwrap();
        kv.sync().unwrap();
    }
    assert!(served.kv.get(SPACE, b"l").unwrap().is_some() && served.kv.get(SPACE, b"m").unwrap().is_some());
}

#[test]
fn what_was_open_when_the_server_went_says_so() {
    let mut served = served(ServerOptions::default());
    let kv = served.connect();
    kv.commit(put("k").put(SPACE, "l", "v"), Durability::Sync).unwrap();
    let (read, fresh) = (kv.view().unwrap(), kv.view().unwrap());
    assert!(read.stat(SPACE, b"k").unwrap().is_some());
    let mut cursor = kv.view().unwrap().cursor(SPACE, KeyRange::all(), Direction::Forward).unwrap();
    assert!(cursor.next().unwrap().is_some());
    cursor.seek(b"a").unwrap();
    let mut begun = kv.stage(StageHint::default()).unwrap();
    begun.write(b"some").unwrap();
    let mut other = kv.stage(StageHint::default()).unwrap();
    other.write(b"bytes").unwrap();
    let token = other.finish().unwrap();
    let mut watch = kv.watch(SPACE, KeyRange::all(), Version(1)).unwrap();
    restart(&mut served);
    let told = |error: Error, kind: ErrorKind, what: &str| {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains("was lost") && error.message().contains(what), "{error}");
    };
    told(read.stat(SPACE, b"k").unwrap_err(), ErrorKind::Expired, "open it again");
    told(read.bytes(SPACE, b"k", 0, 9).unwrap_err(), ErrorKind::Expired, "open it again");
    told(cursor.next().unwrap_err(), ErrorKind::Expired, "open it again");
    // Nothing was seen of that version: the newest one does as well.
    assert!(fresh.stat(SPACE, b"k").unwrap().is_some());
    let error = begun.write(b"more").and_then(|()| begun.finish().map(drop)).unwrap_err();
    told(error, ErrorKind::Disconnected, "write it again");
    let batch = Batch::new().then(Operation::Put { at: place("s"), value: koine_engine::Payload::Stage(token) });
    told(kv.commit(batch, Durability::Sync).unwrap_err(), ErrorKind::Disconnected, "write it again");
    assert_eq!(served.kv.get(SPACE, b"s").unwrap(), None);
    assert_eq!(watch.next(Duration::from_secs(60)).unwrap(), Some(WatchEvent::LostSince(Version(1))));
    kv.commit(put("n"), Durability::Sync).unwrap();
    assert!(matches!(watch.next(Duration::from_secs(60)).unwrap(), Some(WatchEvent::Changed(_))));
}

#[test]
fn what_was_not_synced_before_a_loss_is_not_synced_after_it() {
    let mut served = served(ServerOptions::default());
    let kv = served.connect();
    kv.commit(put("k"), Durability::Memory).unwrap();
    restart(&mut served);
    let error = kv.sync().unwrap_err();
    assert!(error.kind() == ErrorKind::Disconnected && error.message().contains("without a sync"), "{error}");
    kv.sync().unwrap();
}

#[test]
fn a_lost_answer_is_asked_for_again_where_that_changes_nothing() {
    let served = served(ServerOptions::default());
    let between = Between::new(&served);
    let kv = between.connect(FOR_EVER);
    let counter = Operation::AddCounter { at: place("n"), delta: 1 };
    let named = |id: u8| Batch::new().then(counter.clone()).with_request(RequestId([id; 16]));
    kv.commit(named(1), Durability::Sync).unwrap();
    let count = || served.kv.get(SPACE, b"n").unwrap();
    let before = count();
    between.cut(true);
    assert!(kv.commit(named(2), Durability::Sync).unwrap().repeated, "the first answer was lost");
    let after = count();
    assert_ne!(before, after);
    between.cut(true);
    assert!(kv.submit(named(3), Durability::Sync, Wait::Never).wait().unwrap().repeated);
    between.cut(true);
    assert_eq!(kv.get(SPACE, b"n").unwrap(), count());
    between.cut(true);
    assert_eq!(kv.begin_get(SPACE, "n".into()).unwrap().wait().unwrap(), count());
    between.cut(true);
    assert!(kv.view().unwrap().stat(SPACE, b"n").unwrap().is_some());
    kv.usage().unwrap();
    // Without an id nobody knows whether it was: it was, here.
    let before = count();
    between.cut(true);
    let error = kv.commit(Batch::new().then(counter.clone()), Durability::Sync).unwrap_err();
    assert!(error.kind() == ErrorKind::Disconnected && error.message().contains("not known"), "{error}");
    assert_ne!(count(), before);
    kv.usage().unwrap();
    let before = count();
    between.cut(true);
    assert_eq!(
        kv.begin(Batch::new().then(counter), Durability::Sync).unwrap().wait().unwrap_err().kind(),
        error.kind()
    );
    assert_ne!(count(), before);
    kv.get(SPACE, b"n").unwrap();
}

#[test]
fn a_server_that_does_not_come_back_is_told() {
    let served = served(ServerOptions::default());
    let timeouts = Timeouts { reconnect: Duration::from_millis(50), ..Timeouts::default() };
    let options = ClientOptions { timeouts, ..ClientOptions::default() };
    let kv = WireKv::connect_unix(&served.socket, &options).unwrap();
    served.server.close();
    for _ in 0..3 {
        let error = kv.get(SPACE, b"k").unwrap_err();
        assert!(error.kind() == ErrorKind::Disconnected && error.message().contains("koine serve"), "{error}");
        assert_eq!(kv.commit(put("k"), Durability::Sync).unwrap_err().kind(), ErrorKind::Disconnected);
    }
    kv.close().unwrap();
    assert_eq!(kv.get(SPACE, b"k").unwrap_err().kind(), ErrorKind::Stopped);
}

#[test]
fn who_is_closed_does_not_connect_again() {
    let mut served = served(ServerOptions::default());
    let kv = served.connect();
    kv.close().unwrap();
    restart(&mut served);
    assert_eq!(kv.get(SPACE, b"k").unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(kv.view().map(drop).unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(kv.commit(put("k"), Durability::Sync).unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(served.server.connections(), 0);
}

#[test]
fn a_server_that_says_nothing_holds_up_nobody_for_ever() {
    let served = served(ServerOptions::default());
    let between = Between::new(&served);
    let kv = between.connect(Duration::from_millis(100));
    kv.commit(put("k"), Durability::Sync).unwrap();
    between.mute(true);
    let late = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.message().contains("has not answered"), "{error}");
    };
    late(kv.get(SPACE, b"k").unwrap_err());
    late(kv.commit(put("l"), Durability::Sync).unwrap_err());
    late(kv.submit(put("m"), Durability::Sync, Wait::Never).wait().unwrap_err());
    late(kv.view().unwrap().stat(SPACE, b"k").unwrap_err());
    let mut cursor = kv.view().unwrap().cursor(SPACE, KeyRange::all(), Direction::Forward).unwrap();
    late(cursor.next().unwrap_err());
    std::thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(|| late(kv.get(SPACE, b"k").unwrap_err()))));
    });
    let mut stage = kv.stage(StageHint::default());
    late(stage.as_mut().map(drop).map_err(|error| error.clone()).unwrap_err());
    // Answers that come all the same are nobody's, and the connection goes on.
    between.mute(false);
    let kv = between.connect(Duration::from_millis(100));
    assert!(kv.get(SPACE, b"l").unwrap().is_some());
    kv.close().unwrap();
}

#[test]
fn a_server_that_takes_nothing_is_not_waited_for_either() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let timeouts = Timeouts { connect: Duration::from_millis(50), ..Timeouts::default() };
    let options = ClientOptions { timeouts, ..ClientOptions::default() };
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    // As many wait to be taken as may, from one of these on.
    let mut failed = Vec::new();
    for _ in 0..4 {
        failed.push(WireKv::connect_unix(&socket, &options).unwrap_err());
    }
    assert!(failed.iter().all(|error| error.kind() == ErrorKind::TimedOut), "{failed:?}");
    assert!(failed.iter().any(|error| error.message().contains("does not answer")), "{failed:?}");
    assert!(failed.iter().any(|error| error.message().contains("does not greet")), "{failed:?}");
}

#[test]
fn views_that_are_kept_leave_room_for_others() {
    let served = served(ServerOptions { handles_max: 16, ..ServerOptions::default() });
    let kv = served.connect();
    kv.commit(put("k"), Durability::Sync).unwrap();
    let kept: Vec<_> = (0..14).map(|_| kv.view().unwrap()).collect();
    kept.iter().for_each(|view| view.keep().unwrap());
    for _ in 0..10 {
        let view = kv.view().unwrap();
        assert!(view.stat(SPACE, b"k").unwrap().is_some());
        let error = view.keep().unwrap_err();
        assert!(error.kind() == ErrorKind::Busy && error.message().contains("14"), "{error}");
    }
    drop(kept);
    kv.view().unwrap().keep().unwrap();
}
