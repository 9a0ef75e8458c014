//! What wraps a device passes on what is said about reads.

use parking_lot::Mutex;

use super::*;

/// Notes what it is told to fetch.
struct Noting {
    memory: MemoryDevice,
    fetched: Mutex<Vec<(u64, u64)>>,
}

impl Device for Noting {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }
    fn grow(&self, length: u64) -> io::Result<()> {
        self.memory.grow(length)
    }
    fn holds(&self, offset: u64, length: usize) -> bool {
        self.memory.holds(offset, length)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        self.memory.read_at(buffer, offset, mode)
    }
    fn prefetch(&self, offset: u64, length: u64) {
        self.fetched.lock().push((offset, length));
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.memory.write_at(data, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.memory.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.memory.discard(offset, length)
    }
    fn close(&self) -> io::Result<()> {
        self.memory.close()
    }
    fn is_fixed(&self) -> bool {
        self.memory.is_fixed()
    }
}

#[test]
fn what_is_to_be_fetched_reaches_the_device_beneath() {
    let noting = Arc::new(Noting { memory: MemoryDevice::fixed(1 << 20), fetched: Mutex::default() });
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&noting)).unwrap());
    let fault = Fault { call: Call::Read, nth: 1, times: Times::Once, trouble: Trouble::Error };
    let faulty = FaultyDevice::new(Arc::clone(&recording), vec![fault], 1);
    let outermost: Arc<dyn Device> = Arc::new(faulty);
    outermost.prefetch(4096, 10_000);
    assert_eq!(*noting.fetched.lock(), [(4096, 10_000)]);
    assert_eq!(recording.position(), 0, "it changes nothing");
    outermost.read_at(&mut [0], 0, ReadMode::Cached).expect_err("it is no read: the first one fails, as planned");
    // Memory has all of it.
    noting.memory.prefetch(0, u64::MAX);
}
