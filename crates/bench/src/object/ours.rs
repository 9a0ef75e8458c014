//! The object library over a store in a file, in this process.

use crate::Error;
use koine::object::{Expected, ListPage, ListQuery, ObjectReader, Objects, PutOptions};
use koine::{OpenOptions, Store};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The bucket of everything.
const BUCKET: &str = "bench";
/// A piece of a body, and of a read.
pub const PIECE_LEN: usize = 1 << 20;

/// An open store, which goes with its folder.
pub struct LocalObjects {
    store: Option<Store>,
    folder: TempDir,
    names: AtomicU64,
    memory: Option<u64>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Worker(format!("koine: {error}"))
}

impl LocalObjects {
    /// A fresh store below `dir`, with a bucket in it.
    pub fn start(dir: &Path) -> Result<LocalObjects, Error> {
        LocalObjects::start_with(dir, None)
    }

    /// The same with so much memory for tables and caches.
    pub fn start_with(dir: &Path, memory: Option<u64>) -> Result<LocalObjects, Error> {
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-")
            .tempdir_in(dir)
            .map_err(Error::io(format!("cannot make a folder below {}", dir.display())))?;
        let mut ours = LocalObjects { store: None, folder, names: AtomicU64::new(0), memory };
        ours.open()?;
        ours.objects()?.create_bucket(BUCKET).wait().map_err(failed)?;
        Ok(ours)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.koine")
    }

    fn open(&mut self) -> Result<(), Error> {
        let path = self.path();
        let place = path.to_str().ok_or_else(|| Error::Argument("--dir must be UTF-8".into()))?;
        let options = OpenOptions { create: true, memory: self.memory, ..OpenOptions::default() };
        self.store = Some(koine::open(place, &options).map_err(failed)?);
        Ok(())
    }

    /// Closes the store, forgets what is cached of it, and opens it again.
    pub fn forget(&mut self) -> Result<(), Error> {
        if let Some(store) = self.store.take() {
            store.close().map_err(failed)?;
        }
        crate::stores::kinds::forget_cached(&self.path());
        self.open()
    }

    /// The calls.
    pub fn objects(&self) -> Result<&Objects, Error> {
        self.store.as_ref().map(Store::objects).ok_or_else(|| Error::Worker("the store is closed".into()))
    }

    /// A name that nothing has.
    pub fn fresh(&self) -> String {
        format!("{:09}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Puts an object of the first `size` bytes of a payload that is repeated.
    pub fn put(&self, key: &str, size: u64, payload: &[u8]) -> Result<(), Error> {
        let options = PutOptions { length: Some(size), ..PutOptions::default() };
        let mut writer = self.objects()?.put(BUCKET, key, options).map_err(failed)?;
        let mut left = size;
        while left > 0 {
            let whole = payload.len().min(PIECE_LEN);
            let piece = payload.get(..usize::try_from(left).unwrap_or(usize::MAX).min(whole)).unwrap_or_default();
            writer.write(piece).map_err(failed)?;
            left -= piece.len() as u64;
        }
        writer.finish(&Expected::none()).wait().map(drop).map_err(failed)
    }

    /// Opens an object.
    pub fn get(&self, key: &str) -> Result<ObjectReader, Error> {
        self.objects()?.get(BUCKET, key).map_err(failed)
    }

    /// Reads an object through buffers, which are taken in turn; gives how many bytes there were.
    pub fn read(&self, key: &str, buffers: &mut Buffers) -> Result<u64, Error> {
        let reader = self.get(key)?;
        let mut offset = 0;
        loop {
            let count = reader.read(offset, buffers.next()).map_err(failed)?;
            if count == 0 {
                return Ok(offset);
            }
            offset += count as u64;
            if offset >= reader.info().size {
                return Ok(offset);
            }
        }
    }

    /// Deletes objects.
    pub fn delete(&self, keys: &[String]) -> Result<(), Error> {
        for keys in keys.chunks(1000) {
            self.objects()?.delete_many(BUCKET, keys).wait().map_err(failed)?;
        }
        Ok(())
    }

    /// A page of a listing.
    pub fn list(&self, query: &ListQuery) -> Result<ListPage, Error> {
        self.objects()?.list(BUCKET, query).map_err(failed)
    }

    /// Puts many small objects, some hundreds at a time.
    pub fn fill(&self, keys: impl Iterator<Item = String>) -> Result<(), Error> {
        let mut under_way = std::collections::VecDeque::new();
        for key in keys {
            let mut writer = self.objects()?.put(BUCKET, &key, PutOptions::default()).map_err(failed)?;
            writer.write(b"x").map_err(failed)?;
            under_way.push_back(writer.finish(&Expected::none()));
            if under_way.len() >= 512
                && let Some(first) = under_way.pop_front()
            {
                first.wait().map_err(failed)?;
            }
        }
        under_way.into_iter().try_for_each(|put| put.wait().map(drop).map_err(failed))
    }
}

/// Memory that is read into, so much of it that it is in no cache.
pub struct Buffers {
    bytes: Vec<u8>,
    piece_len: usize,
    at: usize,
}

impl Buffers {
    /// `count` buffers for objects of `size` bytes, touched.
    pub fn new(count: usize, size: u64) -> Buffers {
        let piece_len = usize::try_from(size).unwrap_or(PIECE_LEN).clamp(1, PIECE_LEN);
        Buffers { bytes: vec![1; count * piece_len], piece_len, at: 0 }
    }

    fn next(&mut self) -> &mut [u8] {
        let start = self.at;
        self.at = (start + self.piece_len) % self.bytes.len();
        self.bytes.get_mut(start..start + self.piece_len).unwrap_or_default()
    }
}

/// What was done in how long.
#[derive(Debug, Clone, Copy)]
pub struct Throughput {
    /// Objects.
    pub count: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Does something again and again on `threads` threads until the time is over, at least once on each.
pub fn repeat(
    threads: usize,
    time: Duration,
    act: impl Fn(usize, u64) -> Result<(), Error> + Sync,
) -> Result<Throughput, Error> {
    let begun = Instant::now();
    let run = |thread: usize| -> Result<u64, Error> {
        let mut count = 0;
        while count == 0 || begun.elapsed() < time {
            act(thread, count)?;
            count += 1;
        }
        Ok(count)
    };
    let counts: Vec<Result<u64, Error>> = if threads == 1 {
        vec![run(0)]
    } else {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<u64, Error>>| {
                thread.join().unwrap_or_else(|_| Err(Error::Worker("a thread broke off".into())))
            };
            running.into_iter().map(ended).collect()
        })
    };
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    Ok(Throughput { count: counts.into_iter().sum::<Result<u64, Error>>()?, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read_back_and_found_after_it_was_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut ours = LocalObjects::start(folder.path()).unwrap();
        let payload: Vec<u8> = (0..3000).map(|number| number as u8).collect();
        let key = ours.fresh();
        ours.put(&key, 10_000, &payload).unwrap();
        ours.forget().unwrap();
        let mut buffers = Buffers::new(3, 10_000);
        assert_eq!(ours.read(&key, &mut buffers).unwrap(), 10_000);
        let expected: Vec<u8> = payload.iter().copied().cycle().take(10_000).collect();
        assert_eq!(buffers.bytes.get(..10_000), Some(expected.as_slice()));
        ours.delete(std::slice::from_ref(&key)).unwrap();
        assert!(ours.get(&key).is_err());
    }

    #[test]
    fn each_thread_acts_at_least_once() {
        let rate = repeat(4, Duration::ZERO, |_, _| Ok(())).unwrap();
        assert_eq!(rate.count, 4);
        assert!(
            repeat(2, Duration::ZERO, |thread, _| match thread {
                1 => Err(Error::Worker("no".into())),
                _ => Ok(()),
            })
            .is_err()
        );
    }
}
