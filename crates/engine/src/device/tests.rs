//! What wraps a device passes on what is said about reads.

use parking_lot::Mutex;

use super::*;

/// Notes what it is told to fetch.
struct Noting {
    memory: MemoryDevice,
    fetched: Mutex<Vec<(u64, u64)>>,
}

impl Device for Noting {
    pass_on!(memory: len, grow, holds, read_at, write_at, sync, discard, close, is_fixed);

    fn prefetch(&self, offset: u64, length: u64) {
        self.fetched.lock().push((offset, length));
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
