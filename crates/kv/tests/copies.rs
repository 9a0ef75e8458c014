//! How often a value is copied and hashed on its way through the wire. One test, in a process of its own: the counts are the
//! process's.

use std::sync::Arc;

use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::{Engine, FormatOptions, Options};
use koine_env::OsRandom;
use koine_kv::copies::{Copies, so_far};
use koine_kv::wire::{ClientOptions, Key, Server, ServerOptions, WireKv};
use koine_kv::{Batch, Bytes, Durability, EngineKv, Kv, MemoryKv, Operation, SpaceId, StageHint};

const SPACE: SpaceId = SpaceId::FIRST;
const LEN: usize = 1 << 20;

/// What `work` cost, in copies, crossings of the kernel's border, and checksums of [`LEN`] bytes; headers and keys, which are
/// not a hundredth of it, do not count.
fn cost(work: impl FnOnce()) -> [u64; 3] {
    let before = so_far();
    work();
    let Copies { copied, crossed, hashed } = so_far().since(before);
    [copied, crossed, hashed].map(|bytes| (bytes + LEN as u64 / 100) / LEN as u64)
}

fn put(kv: &WireKv, key: &'static str, value: Bytes) {
    kv.commit(Batch::new().put(SPACE, key, value), Durability::Memory).expect("put");
}

#[test]
fn a_value_in_shared_memory_is_copied_once() {
    if !cfg!(debug_assertions) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("store.sock");
    let store = Arc::new(MemoryKv::default());
    store.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).expect("a space");
    let server = Server::new(store, ServerOptions::default());
    server.listen_unix(&socket).expect("a socket");
    let kv = WireKv::connect_unix(&socket, &ClientOptions::default()).expect("a connection");

    // Made where the server takes it from: one copy, into the memory that is the value then; nothing is hashed, since what is
    // put into memory and stays there has no way on which it could be damaged.
    let mut buffer = kv.buffer(LEN).expect("shared memory");
    buffer.fill(7);
    let value = buffer.freeze();
    assert_eq!(cost(|| put(&kv, "made there", value.clone())), [1, 0, 0]);
    // A part of it, in a batch with others.
    let batch = Batch::new().put(SPACE, "a part", value.slice(100..LEN - 100)).put(SPACE, "small", "x");
    let mut version = None;
    assert_eq!(cost(|| version = kv.commit(batch, Durability::Memory).ok()), [1, 0, 0]);
    assert!(version.is_some());
    drop(value);
    // From memory of the caller: one copy more, on this side.
    let own = Bytes::from(vec![9; LEN]);
    assert_eq!(cost(|| put(&kv, "own", own.clone())), [2, 0, 0]);
    // Got: one copy, from the value into the memory that the caller is given.
    let mut got = None;
    assert_eq!(cost(|| got = kv.get(SPACE, b"own").expect("get")), [1, 0, 0]);
    assert_eq!(got.take(), Some(own.clone()));

    on_a_device(&value_of(7));

    // Without it: the message is built, goes into the kernel and out of it, and is hashed on both sides.
    let options = ClientOptions { shared_len: 0, ..ClientOptions::default() };
    let plain = WireKv::connect_unix(&socket, &options).expect("a connection");
    assert_eq!(cost(|| put(&plain, "plain", own.clone())), [0, 2, 2]);
    assert_eq!(cost(|| got = plain.get(SPACE, b"plain").expect("get")), [0, 2, 2]);
    assert!(plain.buffer(LEN).is_none());
    let key = Key::new([5; 32]).expect("a key");
    let address = server.listen_tcp(([127, 0, 0, 1], 0).into(), key.clone()).expect("a port").to_string();
    let far = WireKv::connect_tcp(&address, &key, &ClientOptions::default()).expect("a connection");
    assert_eq!(cost(|| put(&far, "far", own.clone())), [0, 2, 2]);
}

fn value_of(byte: u8) -> Vec<u8> {
    vec![byte; LEN]
}

/// The way to a device, as a data node has it: one copy into the server's memory, one to where the device takes it from, and
/// one checksum, which is the one that is kept; back the same, the checksum compared.
fn on_a_device(own: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, path) = (folder.path().join("node.sock"), folder.path().join("store.koine"));
    let options = OpenOptions { create: true, read_only: false };
    let device = FileDevice::open(&path, options).expect("a file");
    device.grow(256 << 20).expect("room");
    Engine::format(&device, FormatOptions::default(), &OsRandom).expect("format");
    let store = Arc::new(EngineKv::open(Arc::new(device), Options::default()).expect("open"));
    store.commit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync).expect("a space");
    let server = Server::new(store, ServerOptions::default());
    server.listen_unix(&socket).expect("a socket");
    let kv = WireKv::connect_unix(&socket, &ClientOptions::default()).expect("a connection");
    let mut buffer = kv.buffer(LEN).expect("shared memory");
    buffer.copy_from_slice(own);
    let value = buffer.freeze();
    assert_eq!(cost(|| put(&kv, "value", value.clone())), [2, 0, 1]);
    let mut stage = kv.stage(StageHint { length: Some(LEN as u64), ..StageHint::default() }).expect("a stage");
    // From memory of the caller: into the shared memory, into the server's, to where the device takes it from.
    assert_eq!(cost(|| stage.write(own).and_then(|()| stage.finish().map(drop)).expect("stage")), [3, 0, 1]);
    let mut got = None;
    assert_eq!(cost(|| got = kv.get(SPACE, b"value").expect("get")), [2, 0, 1]);
    assert_eq!(got.as_deref(), Some(own));
    assert!(
        kv.view().expect("a view").stat(SPACE, b"value").expect("stat").is_some_and(|stat| stat.size == LEN as u64)
    );
    kv.commit(Batch::new().delete(SPACE, "value"), Durability::Sync).expect("delete");
    assert_eq!(kv.get(SPACE, b"value").expect("get"), None);
}
