//! What a page of a listing costs, counted in index nodes that are read from the device: docs/semantics.md, S-242.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use koine_engine::device::{AlignedBuffer, BLOCK_LEN, Device, MemoryDevice, ReadMode, Writing};
use koine_engine::{Background, Engine, FormatOptions, Options};
use koine_env::{OsRandom, SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{EngineKv, Kv};
use koine_object::{Expected, ListQuery, Objects, PutOptions};

/// Counts the index nodes that are read.
struct Counting {
    device: Arc<MemoryDevice>,
    nodes: AtomicUsize,
}

impl Device for Counting {
    fn len(&self) -> io::Result<u64> {
        self.device.len()
    }
    fn grow(&self, length: u64) -> io::Result<()> {
        self.device.grow(length)
    }
    fn holds(&self, offset: u64, length: usize) -> bool {
        self.device.holds(offset, length)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        self.device.read_at(buffer, offset, mode)?;
        let nodes = buffer.chunks(BLOCK_LEN).filter(|block| block.starts_with(b"NODE")).count();
        self.nodes.fetch_add(nodes, Ordering::SeqCst);
        Ok(())
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_at(data, offset)
    }
    fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        self.device.begin_write(buffer, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.device.discard(offset, length)
    }
    fn is_fixed(&self) -> bool {
        self.device.is_fixed()
    }
    fn close(&self) -> io::Result<()> {
        self.device.close()
    }
}

fn open(device: Arc<dyn Device>) -> (Arc<EngineKv>, Objects) {
    let options = Options { background: Background::Manual, filters: false, ..Options::default() };
    let kv = Arc::new(EngineKv::open(device, options).unwrap());
    let clock = Arc::new(SimulatedClock::new(Timestamp(1)));
    let objects = Objects::open(Arc::clone(&kv) as Arc<dyn Kv>, clock, Arc::new(SeededRandom::new(1))).unwrap();
    (kv, objects)
}

/// A store with 100 prefixes of so many names each, closed.
fn filled(names: usize) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::growable(64 << 20, 1 << 30));
    Engine::format(device.as_ref(), FormatOptions::default(), &OsRandom).unwrap();
    let (kv, objects) = open(Arc::clone(&device) as Arc<dyn Device>);
    objects.create_bucket("bucket").wait().unwrap();
    let mut under_way = Vec::new();
    for prefix in 0..100 {
        for name in 0..names {
            let writer = objects.put("bucket", &format!("{prefix:02}/{name:04}"), PutOptions::default()).unwrap();
            under_way.push(writer.finish(&Expected::none()));
        }
        under_way.drain(..).for_each(|put| drop(put.wait().unwrap()));
    }
    drop(objects);
    kv.engine().close().unwrap();
    device.reopen();
    device
}

/// How many nodes a page costs of a store of which nothing is in memory.
fn nodes_of(device: &Arc<MemoryDevice>, query: &ListQuery) -> usize {
    let counting = Arc::new(Counting { device: Arc::clone(device), nodes: AtomicUsize::new(0) });
    let (kv, objects) = open(Arc::clone(&counting) as Arc<dyn Device>);
    objects.head_bucket("bucket").unwrap();
    let before = counting.nodes.load(Ordering::SeqCst);
    let page = objects.list("bucket", query).unwrap();
    assert_eq!(page.objects.len() + page.common_prefixes.len(), query.limit);
    let nodes = counting.nodes.load(Ordering::SeqCst) - before;
    drop(objects);
    kv.engine().close().unwrap();
    device.reopen();
    nodes
}

#[test]
fn a_page_costs_what_it_tells_wherever_it_begins_and_however_many_names_there_are() {
    // A tree of three levels has one more than one of two.
    const DEEPER: usize = 2;
    let [few, many] = [10, 400].map(filled);
    let after = |name: &str| Some(name.to_owned());
    let names = |key_after| ListQuery { limit: 500, after: key_after, ..ListQuery::default() };
    let first = nodes_of(&few, &names(None));
    assert!(first > 0, "nothing was counted");
    for place in [None, after("49/0200"), after("98/0200")] {
        let nodes = nodes_of(&many, &names(place.clone()));
        assert!(nodes <= first + DEEPER, "{nodes} nodes for a page after {place:?}, {first} in a small bucket");
    }
    // A prefix is told for each time the tree is gone down, past whatever stands under it.
    let prefixes = |place| ListQuery { limit: 5, delimiter: "/".to_owned(), after: place, ..ListQuery::default() };
    let first = nodes_of(&many, &prefixes(None));
    let last = nodes_of(&many, &prefixes(after("94/")));
    assert!(last <= first + DEEPER && first <= 5 * 3, "{last} nodes for the last prefixes, {first} for the first");
}
