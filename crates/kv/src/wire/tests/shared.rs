//! Shared memory, and clients and servers that misuse it.

use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use koine_engine::Payload;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;
use crate::wire::batch::Names;
use crate::wire::frame::{Shared, request_header};
use crate::wire::reply::{Welcome, put_commit, put_stat};
use crate::wire::request::VERB_SHARE;
use crate::wire::shared::SHARED_LEN_MAX;
use crate::wire::shared::offer::{ClientSide, make};

const LEN: usize = 64 << 10;

/// Sends bytes, with as many descriptors beside them as there are.
fn pass(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); 8192];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let sent = sendmsg(stream, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
    assert_eq!(sent, bytes.len());
}

fn share(stream: &UnixStream, lengths: [u64; 2], files: &[BorrowedFd<'_>]) {
    let message = lengths.map(u64::to_le_bytes).concat();
    pass(stream, &[&request_header(VERB_SHARE, 3, &message, &[], None)[..], &message].concat(), files);
}

/// A stranger who shares memory as he should.
fn sharing(served: &Served) -> (UnixStream, ClientSide) {
    let mut stream = served.greeted();
    let (side, files) = make(LEN).unwrap();
    share(&stream, [LEN as u64; 2], &[files[0].as_fd(), files[1].as_fd()]);
    assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
    (stream, side)
}

/// Asks with data that is said to lie in shared memory.
fn ask_shared(stream: &UnixStream, request: &Request, shared: Shared) {
    let message = request.encode(&without_stages).unwrap();
    let place = shared.offset.to_le_bytes();
    let header = request_header(request.verb(), 9, &message, &place, Some(shared));
    pass(stream, &[&header[..], &message, &place].concat(), &[]);
}

fn store(key: &str) -> Request {
    Request::Store { at: place(key), rule: Rule::Any, durability: Durability::Sync, request: None }
}

#[test]
fn values_go_through_shared_memory_and_it_comes_back() {
    let served = served(ServerOptions { shared_from: 1, ..ServerOptions::default() });
    let options = ClientOptions { shared_from: 1, ..ClientOptions::default() };
    let kv = WireKv::connect_unix(&served.socket, &options).unwrap();
    let all = kv.buffer(SHARED_LEN_MAX).unwrap();
    assert!(kv.buffer(1).is_none(), "it is lent once");
    // With all of it in use the socket does as well.
    kv.commit(Batch::new().put(SPACE, "by the socket", vec![1; 50_000]), Durability::Sync).unwrap();
    drop(all);
    for turn in 0..100_u8 {
        let mut buffer = kv.buffer(100_000).unwrap();
        buffer.fill(turn);
        let value = buffer.freeze();
        let pending = kv.begin(Batch::new().put(SPACE, "made there", value), Durability::Sync).unwrap();
        let dropped = kv.begin_get(SPACE, "by the socket".into()).unwrap();
        pending.wait().unwrap();
        drop(dropped);
        let got = kv.get(SPACE, b"made there").unwrap().unwrap();
        assert!(got.len() == 100_000 && got.iter().all(|byte| *byte == turn));
    }
    let mut stage = kv.stage(StageHint::default()).unwrap();
    stage.write(&[3; 1 << 20]).unwrap();
    stage.write(&[4; 77]).unwrap();
    let token = stage.finish().unwrap();
    let put = Operation::Put { at: place("staged"), value: Payload::Stage(token) };
    kv.commit(Batch::new().then(put), Durability::Sync).unwrap();
    let got = kv.get(SPACE, b"staged").unwrap().unwrap();
    assert!(got.len() == (1 << 20) + 77 && got[(1 << 20) - 1] == 3 && got[1 << 20] == 4);
    drop(got);
    // An answer that nobody waited for comes in before this one.
    assert_eq!(kv.get(SPACE, b"absent").unwrap(), None);
    assert_eq!(kv.buffer(SHARED_LEN_MAX).unwrap().len(), SHARED_LEN_MAX);
}

#[test]
fn memory_that_is_not_as_told_is_refused_and_closed() {
    let served = served(ServerOptions::default());
    let length = LEN as u64;
    let file = |seals: SealFlags| -> OwnedFd {
        let file = rustix::fs::memfd_create("koine-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, length).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let good = || file(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
    let unsealed = || file(SealFlags::empty());
    for (lengths, files) in [
        ([length, length], vec![]),
        ([length, length], vec![good()]),
        ([length, length], vec![good(), unsealed()]),
        ([length, length], vec![unsealed(), good()]),
        ([length, length * 2], vec![good(), good()]),
        ([0, 0], vec![good(), good()]),
        ([u64::MAX, u64::MAX], vec![good(), good()]),
        ([length + 1, length], vec![good(), good()]),
    ] {
        let mut stream = served.greeted();
        let passed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        share(&stream, lengths, &passed);
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid, "{lengths:?} {files:?}");
        // The connection goes on, without shared memory.
        ask(&mut stream, 5, &store("k"), b"v");
        assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
        ask_shared(&stream, &store("k"), Shared { offset: 0, length: 1 });
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid);
    }
    // It is shared once.
    let (mut stream, _side) = sharing(&served);
    let (_, files) = make(LEN).unwrap();
    share(&stream, [length; 2], &[files[0].as_fd(), files[1].as_fd()]);
    assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid);
    served.is_well();
}

#[test]
fn no_descriptor_stays_open() {
    let served = served(ServerOptions::default());
    let (mut read_end, write_end) =
        rustix::pipe::pipe().map(|(read, write)| (std::fs::File::from(read), write)).unwrap();
    let passed = [write_end.as_fd(); 200];
    let (request, length) = (store("k").encode(&without_stages).unwrap(), LEN as u64);
    // Before the greeting, beside other requests, in the place of memory, and far too many of them.
    let stranger = served.raw();
    pass(&stranger, &[0; 8], &passed);
    let mut streams = vec![stranger];
    for count in [1, 2, 3, 200] {
        let mut stream = served.greeted();
        share(&stream, [length; 2], &passed[..count]);
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid);
        let header = request_header(0x01, 7, &request, b"v", None);
        pass(&stream, &[&header[..], &request, b"v"].concat(), &passed[..count]);
        assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
        streams.push(stream);
    }
    let unused = served.greeted();
    let header = request_header(0x01, 7, &request, b"v", None);
    pass(&unused, &[&header[..], &request, b"v"].concat(), &passed);
    drop(write_end);
    // What was passed beside a request and is not asked for goes with its connection at the latest; all else is gone.
    drop(unused);
    let mut rest = Vec::new();
    read_end.read_to_end(&mut rest).unwrap();
    drop(streams);
    served.is_well();
}

#[test]
fn places_outside_of_the_memory_are_errors() {
    let served = served(ServerOptions { shared_from: 1, ..ServerOptions::default() });
    served.kv.commit(Batch::new().put(SPACE, "k", vec![7; 10_000]), Durability::Sync).unwrap();
    let (mut stream, _side) = sharing(&served);
    let length = LEN as u64;
    for (offset, count) in [(length, 1), (length - 1, 2), (u64::MAX, 1), (u64::MAX - 5, 10), (1, 65_536), (0, 1 << 20)]
    {
        ask_shared(&stream, &store("k"), Shared { offset, length: count });
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid, "{offset} {count}");
    }
    for into in [length, length - 9_999, u64::MAX] {
        let request = Request::Retrieve { view: 0, at: place("k"), offset: 0, length: 10_000, into: Some(into) };
        ask(&mut stream, 9, &request, b"");
        assert_eq!(failure(&mut stream).kind(), ErrorKind::Invalid, "{into}");
    }
    // Each batch may have so much of it and no more, however often it names the same bytes.
    struct Same;
    impl Names for Same {
        fn stage(&self, _token: &koine_engine::StageToken) -> koine_engine::Result<u64> {
            Err(Error::invalid("none"))
        }
        fn shared(&self, _bytes: &Bytes) -> Option<u64> {
            Some(0)
        }
    }
    let puts = |count: usize| {
        let value = Bytes::from(vec![0; LEN]);
        let batch = (0..count).fold(Batch::new(), |batch, at| batch.put(SPACE, format!("{at}"), value.clone()));
        let request = Request::Submit { batch, durability: Durability::Sync };
        (request.verb(), request.encode(&Same).unwrap())
    };
    for (count, kind) in [(255, Kind::Reply), (257, Kind::Failure)] {
        let (verb, message) = puts(count);
        write_request(&mut stream, verb, 10, &message, b"").unwrap();
        assert_eq!(answer(&mut stream).unwrap().kind, kind, "{count}");
    }
    assert_eq!(served.kv.get(SPACE, b"k").unwrap().unwrap(), vec![7; 10_000]);
    // No bytes, or more than a frame may have, are no frame.
    for count in [0, DATA_LEN_MAX as u32 + 1] {
        let (mut stream, _side) = sharing(&served);
        ask_shared(&stream, &store("k"), Shared { offset: 0, length: count });
        assert!(answer(&mut stream).is_none(), "{count}");
    }
    served.is_well();
}

#[test]
fn who_changes_the_memory_meanwhile_changes_no_value() {
    let served = served(ServerOptions { shared_from: 1, ..ServerOptions::default() });
    let (mut stream, side) = sharing(&served);
    let part = side.to_server.lend(LEN).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let patterns = [vec![1; LEN], vec![2; LEN]];
            for turn in 0.. {
                part.fill(&patterns[turn % 2]).unwrap();
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for turn in 0..200 {
            let key = format!("{turn}");
            ask_shared(&stream, &store(&key), Shared { offset: 0, length: LEN as u32 });
            assert_eq!(answer(&mut stream).unwrap().kind, Kind::Reply);
            let once = served.kv.get(SPACE, key.as_bytes()).unwrap().unwrap();
            let copy = once.to_vec();
            std::thread::yield_now();
            assert!(once == copy && once.len() == LEN && once.iter().all(|byte| *byte < 3));
        }
        ended.store(true, Ordering::Relaxed);
    });
}

/// A server that answers one request with `reply`, after a greeting and memory that it takes and forgets.
fn strange_server(reply: impl FnOnce(u64) -> Frame + Send + 'static) -> WireKv {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("strange.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let profile = MemoryKv::default().profile().clone();
        let greeting =
            Greeting { protocol: PROTOCOL, nonce: [0; 32], wants_proof: false, in_flight_max: 8, handles_max: 8 };
        let welcome = Welcome { proof: [0; 32], profile };
        for message in [greeting.encode(), welcome.encode(), Vec::new()] {
            let asked = answer(&mut stream).unwrap();
            send(&mut stream, &Frame::new(asked.verb, Kind::Reply, asked.id, message));
        }
        let asked = answer(&mut stream).unwrap();
        send(&mut stream, &reply(asked.id));
        let mut rest = Vec::new();
        let _until_the_end = stream.read_to_end(&mut rest);
    });
    let timeouts = Timeouts { reconnect: Duration::ZERO, ..Timeouts::default() };
    WireKv::connect_unix(&socket, &ClientOptions { timeouts, ..ClientOptions::default() }).unwrap()
}

fn send(stream: &mut UnixStream, frame: &Frame) {
    stream.write_all(&[&frame.header()[..], &frame.message, &frame.data].concat()).unwrap();
}

#[test]
fn a_server_that_answers_where_nothing_was_lent_is_left() {
    let stat = |size| put_stat(Some(crate::Stat { version: Version(1), size }));
    for shared in [Shared { offset: 4096, length: 5 }, Shared { offset: 0, length: (1 << 20) + 1 }] {
        let kv = strange_server(move |id| Frame::new(0x03, Kind::Reply, id, stat(5)).with_shared(shared));
        let error = kv.get(SPACE, b"k").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Stopped), "{shared:?}: {error}");
        assert_eq!(kv.get(SPACE, b"k").unwrap_err().kind(), ErrorKind::Disconnected);
    }
    let commit = put_commit(koine_engine::Commit { version: Version(1), repeated: false });
    let kv = strange_server(move |id| {
        Frame::new(0x01, Kind::Reply, id, commit).with_shared(Shared { offset: 0, length: 1 })
    });
    assert!(kv.commit(Batch::new().put(SPACE, "k", "v"), Durability::Sync).is_err());
    // Where it was lent, what lies there is the value.
    let kv = strange_server(move |id| {
        Frame::new(0x03, Kind::Reply, id, stat(5)).with_shared(Shared { offset: 0, length: 5 })
    });
    assert_eq!(kv.get(SPACE, b"k").unwrap().unwrap().as_ref(), &[0; 5]);
}
