//! What a store holds, as text: one line a store, space and key. The lines stand beside the image that they are of.

use std::fmt::Write as _;

use koine_engine::objects::{SPACE, Store, StoreOptions};
use koine_engine::{Engine, KeyRange, SpaceId, View};

fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// What opening it found, every space, every key with its version, size and checksum.
pub fn of(engine: &Engine) -> String {
    let info = engine.info();
    let found = info.recovered;
    let mut out = format!("store {:016x} ring={}\n", info.store_id, info.ring_len);
    let _ = writeln!(out, "opened clean={} commits={} dropped={}", found.clean, found.commits, found.groups_dropped);
    let _ = writeln!(out, "version {}", info.version.0);
    out + &content(&engine.view())
}

/// Every space, and every key with its version, size and checksum.
pub fn content(view: &View) -> String {
    let mut out = String::new();
    for info in view.spaces().expect("the spaces can be read") {
        let _ = writeln!(
            out,
            "space {} created={} snapshot={} branched={}",
            info.space.0, info.created.0, info.is_snapshot, info.is_branched
        );
        each_key(view, info.space, &mut |key, version, data| {
            let key = key.escape_ascii();
            let _ = writeln!(
                out,
                "key {} {key} version={version} size={} crc64={:016x}",
                info.space.0,
                data.len(),
                crc64(data)
            );
        });
    }
    out
}

/// What is called with a key, its version and its value.
pub type See<'a> = dyn FnMut(&[u8], u64, &[u8]) + 'a;

/// Calls `see` with every key of a space, its version and its value.
pub fn each_key(view: &View, space: SpaceId, see: &mut See<'_>) {
    let mut cursor = view.cursor(space, KeyRange::all(), false).expect("a cursor");
    while let Some(entry) = cursor.next().expect("the next key can be read") {
        let stat = view.stat(space, &entry.key).expect("a key can be looked up").expect("it is there");
        let mut data = vec![0; stat.size as usize];
        let mut at = 0;
        while at < data.len() {
            let count = view.read(space, &entry.key, at as u64, &mut data[at..]).expect("its value can be read");
            assert!(count > 0, "a value ends before its size");
            at += count;
        }
        see(&entry.key, stat.version.0, &data);
    }
}

/// Every numbered object, read through the face of objects; `None` where there are none.
pub fn objects(engine: std::sync::Arc<Engine>) -> Option<String> {
    if !engine.view().has_space(SPACE).expect("a space can be looked up") {
        return None;
    }
    let store = Store::over(engine, StoreOptions::default()).expect("the objects open");
    let mut out = String::new();
    for number in store.list(1, 1000).expect("objects can be listed") {
        let object = store.open_object(number).expect("an object opens");
        let mut data = vec![0; object.size().expect("it has a size") as usize];
        let count = object.read(0, &mut data).expect("an object can be read");
        assert_eq!(count, data.len());
        let _ = writeln!(out, "object {number} size={count} crc64={:016x}", crc64(&data));
    }
    store.close().expect("the objects close");
    Some(out)
}
