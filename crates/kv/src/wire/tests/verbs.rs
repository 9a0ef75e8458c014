//! A server of verbs alone, and clients that ask for them.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::wire::{Channel, VERB_MESSAGE_LEN_MAX, WireVerbs};

/// Answers with what it was asked; counts the connections that are there.
#[derive(Clone, Default)]
struct Counting {
    there: Arc<AtomicUsize>,
    kv: Option<Arc<MemoryKv>>,
}

/// From this verb on the conversation holds something.
const HOLDS: u16 = 0x800f;
/// A fault of the handler.
const PANICS: u16 = 0x800e;

struct There(Counting, bool);

impl Drop for There {
    fn drop(&mut self) {
        self.0.there.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler for Counting {
    fn begin(&self, _peer: &Peer) -> Box<dyn HandlerConnection> {
        self.there.fetch_add(1, Ordering::SeqCst);
        Box::new(There(self.clone(), false))
    }
}

impl HandlerConnection for There {
    fn is_idle(&self) -> bool {
        !self.1
    }

    fn handle(&mut self, verb: u16, message: Bytes, data: Bytes, answer: Responder) {
        self.1 |= verb == HOLDS;
        assert_ne!(verb, PANICS, "as it is asked for");
        if let Some(kv) = &self.0.kv {
            // It waits for a commit of its own.
            let key = format!("{verb}");
            answer.tell(kv.commit(Batch::new().put(SPACE, key, "x"), Durability::Written).map(|_| Vec::new()));
        } else if verb == VERB_FOREIGN_FIRST + 1 {
            answer.tell(Err(Error::new(ErrorKind::NotFound, "nothing is there")));
        } else {
            answer.answer(Ok((message.to_vec(), data)));
        }
    }
}

struct Door {
    server: Server,
    counting: Counting,
    socket: PathBuf,
    _folder: TempDir,
}

fn door(options: ServerOptions) -> Door {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("verbs.sock");
    let counting = Counting::default();
    let server = Server::of_verbs(Arc::new(counting.clone()), options);
    server.listen_unix(&socket).unwrap();
    Door { server, counting, socket, _folder: folder }
}

impl Door {
    fn connect(&self) -> koine_engine::Result<WireVerbs> {
        WireVerbs::connect_unix(&self.socket, None, &ClientOptions::default(), None)
    }
}

#[test]
fn a_door_of_verbs_answers_them_and_is_told_of_the_end() {
    let door = door(ServerOptions::default());
    assert_eq!(std::fs::metadata(&door.socket).unwrap().permissions().mode() & 0o777, 0o666);
    let client = door.connect().unwrap();
    assert_eq!(door.counting.there.load(Ordering::SeqCst), 0, "it begins with the first verb");
    let asked: Vec<_> = (0..100u32).map(|n| client.ask(0x8005, &n.to_le_bytes(), &[7; 3]).unwrap()).collect();
    for (n, answer) in (0..).zip(asked) {
        let (message, data) = answer.wait().unwrap();
        assert_eq!((message.as_ref(), data.as_ref()), (&u32::to_le_bytes(n)[..], &[7; 3][..]));
    }
    assert_eq!(client.ask(0x8001, b"", b"").unwrap().wait().unwrap_err().kind(), ErrorKind::NotFound);
    let (told, heard) = std::sync::mpsc::channel();
    client.ask(0x8006, b"later", b"").unwrap().then(move |answer| told.send(answer).unwrap());
    assert_eq!(heard.recv().unwrap().unwrap().0, b"later"[..]);
    assert_eq!(door.counting.there.load(Ordering::SeqCst), 1);
    drop(client);
    eventually("the handler is told of the end", || door.counting.there.load(Ordering::SeqCst) == 0);
    door.server.close();
}

#[test]
fn a_door_of_verbs_has_no_keys_and_values() {
    let door = door(ServerOptions::default());
    let kv = WireKv::connect_unix(&door.socket, &ClientOptions::default()).unwrap();
    assert_eq!(kv.get(SPACE, b"k").unwrap_err().kind(), ErrorKind::Unsupported);
    let error = kv.commit(Batch::new().put(SPACE, "k", "v"), Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "its profile takes nothing");
    assert_eq!(kv.usage().unwrap_err().kind(), ErrorKind::Unsupported);
    let mut stream = UnixStream::connect(&door.socket).unwrap();
    ask(&mut stream, 1, &Request::Hello { protocol: PROTOCOL, nonce: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    ask(&mut stream, 2, &Request::Prove { proof: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    // All numbers below those of others, with messages that are none of theirs.
    for verb in 0..VERB_FOREIGN_FIRST {
        write_request(&mut stream, verb, 3 + u64::from(verb), b"\xff", b"").unwrap();
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Unsupported, "{verb:#x}");
    }
    assert_eq!(door.counting.there.load(Ordering::SeqCst), 0);
    let client = door.connect().unwrap();
    assert_eq!(client.ask(0x42, b"", b"").unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn frames_too_large_and_connections_too_many_are_refused() {
    let door = door(ServerOptions { connections_each_max: 2, ..ServerOptions::default() });
    let client = door.connect().unwrap();
    let message = vec![1; VERB_MESSAGE_LEN_MAX];
    assert_eq!(client.ask(0x8005, &message, b"").unwrap().wait().unwrap().0.len(), message.len());
    assert_eq!(client.ask(0x8005, &vec![1; VERB_MESSAGE_LEN_MAX + 1], b"").unwrap_err().kind(), ErrorKind::Invalid);
    let mut stream = UnixStream::connect(&door.socket).unwrap();
    ask(&mut stream, 1, &Request::Hello { protocol: PROTOCOL, nonce: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    ask(&mut stream, 2, &Request::Prove { proof: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    write_request(&mut stream, HOLDS, 3, b"known", b"").unwrap();
    answer(&mut stream).unwrap();
    client.ask(HOLDS, b"", b"").unwrap().wait().unwrap();
    assert!(door.connect().is_err(), "two are enough for one user");
    let _ended = write_request(&mut stream, 0x8005, 4, &vec![1; VERB_MESSAGE_LEN_MAX + 1], b"");
    assert!(answer(&mut stream).is_none(), "its connection ends");
    eventually("the place is free", || door.connect().is_ok());
    assert!(client.ask(0x8005, b"on", b"").unwrap().wait().is_ok());
}

#[test]
fn a_verb_that_panics_ends_its_connection_and_takes_no_place_for_ever() {
    let door = door(ServerOptions { connections_max: 2, ..ServerOptions::default() });
    let holds = door.connect().unwrap();
    holds.ask(HOLDS, b"", b"").unwrap().wait().unwrap();
    for _ in 0..5 {
        let client = door.connect().unwrap();
        assert!(client.ask(PANICS, b"", b"").and_then(|asked| asked.wait()).is_err());
        eventually("its place is free", || door.server.connections() == 1);
    }
    assert_eq!(door.counting.there.load(Ordering::SeqCst), 1);
    assert!(holds.ask(0x8005, b"on", b"").unwrap().wait().is_ok());
}

#[test]
fn who_greets_and_is_never_known_is_cut_off() {
    let options = ServerOptions { log_in: Duration::from_millis(300), ..ServerOptions::default() };
    let door = door(ServerOptions { greeting: Duration::from_secs(3600), ..options });
    let known = door.connect().unwrap();
    known.ask(0x8005, b"on", b"").unwrap().wait().unwrap();
    let mut stream = UnixStream::connect(&door.socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    ask(&mut stream, 1, &Request::Hello { protocol: PROTOCOL, nonce: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    ask(&mut stream, 2, &Request::Prove { proof: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    // Whatever else it says, and however often, is not who it is.
    for id in 3.. {
        if write_request(&mut stream, 0x68, id, b"", b"").is_err() || answer(&mut stream).is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    eventually("its session has ended", || door.server.connections() == 1);
    assert!(known.ask(0x8005, b"on", b"").unwrap().wait().is_ok(), "who is known stays");
}

#[test]
fn idle_connections_make_room_and_those_that_hold_something_do_not() {
    let door = door(ServerOptions { connections_max: 4, ..ServerOptions::default() });
    let known = |verb: u16| {
        let channel = door.connect().unwrap().channel().unwrap();
        channel.ask(verb, b"on", b"").unwrap().wait().unwrap();
        channel
    };
    let holds = [known(HOLDS), known(HOLDS)];
    let idle = [known(0x8005), known(0x8005)];
    idle[0].ask(0x8005, b"on", b"").unwrap().wait().unwrap();
    let newcomer = known(0x8005);
    let works = |channel: &Channel| channel.ask(0x8005, b"on", b"").and_then(|asked| asked.wait()).is_ok();
    assert!(!works(&idle[1]), "the one that has been idle longest made room");
    assert!(works(&idle[0]) && holds.iter().all(works) && works(&newcomer));
}

#[test]
fn a_verb_that_writes_may_wait_behind_batches_that_came_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let kv = Arc::new(MemoryKv::new(MemoryOptions::default()));
    kv.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).unwrap();
    let handler = Counting { kv: Some(Arc::clone(&kv)), ..Counting::default() };
    let options = ServerOptions { handler: Some(Arc::new(handler)), ..ServerOptions::default() };
    let server = Server::new(Arc::clone(&kv) as _, options);
    server.listen_unix(&socket).unwrap();
    let mut stream = UnixStream::connect(&socket).unwrap();
    ask(&mut stream, 1, &Request::Hello { protocol: PROTOCOL, nonce: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    ask(&mut stream, 2, &Request::Prove { proof: [0; 32] }, b"");
    answer(&mut stream).unwrap();
    let mut bytes = Vec::new();
    for id in (3..100).step_by(2) {
        let store = Request::Store { at: place("k"), rule: Rule::Any, durability: Durability::Written, request: None };
        let message = store.encode(&without_stages).unwrap();
        write_request(&mut bytes, store.verb(), id, &message, b"value").unwrap();
        write_request(&mut bytes, 0x8005, id + 1, b"", b"").unwrap();
    }
    stream.write_all(&bytes).unwrap();
    for _ in 3..101 {
        assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
    }
}
