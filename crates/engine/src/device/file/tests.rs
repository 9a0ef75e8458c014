//! Tests of files and, where a loop device can be had, of block devices.

use std::process::Command;

use super::super::owner_pid;
use super::*;

const B: u64 = BLOCK_LEN as u64;
const CREATE: OpenOptions = OpenOptions { read_only: false, create: true };
const WRITE: OpenOptions = OpenOptions { read_only: false, create: false };
const READ: OpenOptions = OpenOptions { read_only: true, create: false };
const MODES: [ReadMode; 4] = [ReadMode::Cached, ReadMode::Direct, ReadMode::Stream, ReadMode::Stream];

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| (index.wrapping_mul(0x9E37_79B9) >> 16) as u8).collect()
}

/// Writes that are under way at once, and what becomes of those that cannot be done.
fn exercise_begun(device: &FileDevice) {
    let place = |number: u64| (3 << 20) + number * 3 * B;
    let begun: Vec<_> = (0..40u64)
        .map(|number| {
            let mut buffer = AlignedBuffer::zeroed(2 * BLOCK_LEN);
            buffer.fill(number as u8 + 1);
            device.begin_write(buffer, place(number))
        })
        .collect();
    for (number, writing) in begun.into_iter().enumerate().rev() {
        if number % 3 == 0 {
            // To drop it is to wait for it.
            continue;
        }
        let (buffer, outcome) = writing.wait();
        outcome.unwrap();
        assert!(buffer.len() == 2 * BLOCK_LEN && buffer.iter().all(|byte| usize::from(*byte) == number + 1));
    }
    for number in 0..40 {
        let mut bytes = vec![0; 2 * BLOCK_LEN];
        device.read_at(&mut bytes, place(number), ReadMode::Direct).unwrap();
        assert!(bytes.iter().all(|byte| u64::from(*byte) == number + 1));
    }
    for (length, offset) in [(BLOCK_LEN, device.len().unwrap()), (BLOCK_LEN, 512), (100, 0)] {
        let (buffer, outcome) = device.begin_write(AlignedBuffer::zeroed(length), offset).wait();
        assert!(buffer.len() == length && outcome.is_err());
    }
}

/// Writes, reads and syncs in every way that callers may.
fn exercise(device: &FileDevice) {
    let data = pattern(1 << 20);
    let mut aligned = AlignedBuffer::zeroed(data.len());
    aligned.copy_from_slice(&data);
    device.write_at(&aligned, B).unwrap();
    device.write_at(&data, B + data.len() as u64).unwrap();
    let mut unaligned = vec![0; 3 * BLOCK_LEN + 1];
    unaligned[1..].copy_from_slice(&data[..3 * BLOCK_LEN]);
    device.write_at(&unaligned[1..], 0).unwrap();
    device.sync().unwrap();

    let mut expected = vec![0; B as usize + 2 * data.len()];
    expected[BLOCK_LEN..][..data.len()].copy_from_slice(&data);
    expected[BLOCK_LEN + data.len()..].copy_from_slice(&data);
    expected[..3 * BLOCK_LEN].copy_from_slice(&data[..3 * BLOCK_LEN]);
    for mode in MODES {
        for (offset, length) in [(0, expected.len()), (1, 511), (B - 1, 2), (4095, 700_001), (7 * B, 4 * BLOCK_LEN)] {
            let wanted = &expected[offset as usize..][..length];
            let mut plain = vec![0; length];
            device.read_at(&mut plain, offset, mode).unwrap();
            assert!(plain == wanted, "{mode:?} {offset} {length}");
            let mut aligned = AlignedBuffer::zeroed(length);
            device.read_at(&mut aligned, offset, mode).unwrap();
            assert!(aligned[..] == *wanted, "{mode:?} {offset} {length} aligned");
        }
    }
    // What was just read through the cache needs no wait, where the system can say so at all.
    let mut now = vec![0; 10_000];
    match device.read_at(&mut now, 100, ReadMode::Now) {
        Ok(()) => assert!(now == expected[100..10_100]),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
    }
    exercise_begun(device);
    // A write past the cache is seen through it.
    device.write_at(&vec![0xAB; BLOCK_LEN], 0).unwrap();
    device.read_at(&mut now, 0, ReadMode::Cached).unwrap();
    assert!(now[..BLOCK_LEN].iter().all(|byte| *byte == 0xAB));
    device.discard(0, B).unwrap();
    device.sync().unwrap();
    assert!(device.write_at(&[0; 100], 0).is_err());
    let length = device.len().unwrap();
    let error = device.read_at(&mut [0; 2], length - 1, ReadMode::Cached).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_file_is_made_grown_written_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    assert_eq!(FileDevice::open(&path, WRITE).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(FileDevice::open(&path, READ).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(FileDevice::open(folder.path(), CREATE).err().unwrap().kind(), ErrorKind::Invalid);
    let device = FileDevice::open(&path, CREATE).unwrap();
    assert_eq!(device.len().unwrap(), 0);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    device.grow(4 << 20).unwrap();
    device.grow(1).unwrap();
    assert_eq!((device.len().unwrap(), device.is_fixed()), (4 << 20, false));
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 4 << 20, "grown space is the file's own");
    exercise(&device);
    println!("direct I/O on this file system: {}", device.is_direct());
    device.close().unwrap();
    assert!(device.sync().is_err() && device.len().is_err());
    let again = FileDevice::open(&path, CREATE).unwrap();
    assert_eq!(again.len().unwrap(), 4 << 20);
    let mut byte = [0];
    again.read_at(&mut byte, 4 * B, ReadMode::Direct).unwrap();
    assert_eq!(byte[0], pattern(3 * BLOCK_LEN + 1)[3 * BLOCK_LEN]);
}

#[test]
fn every_way_to_a_file_passes_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (name, io) in [("direct", IoMode::Direct), ("buffered", IoMode::Buffered), ("uring", IoMode::Uring)] {
        assert_eq!(name.parse::<IoMode>().unwrap(), io);
        let device = FileDevice::open_with(&folder.path().join(name), CREATE, io).unwrap();
        assert_eq!(device.io_mode() == io, device.fallback().is_none() || !device.is_direct());
        println!("{name}: {}", device.fallback().unwrap_or("as asked"));
        device.grow(4 << 20).unwrap();
        exercise(&device);
        // Several threads, each with large and small calls of its own.
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let device = &device;
                scope.spawn(move || {
                    let (mut data, at) =
                        (AlignedBuffer::zeroed(700_000_usize.next_multiple_of(BLOCK_LEN)), thread << 20);
                    for round in 0..5 {
                        data.fill((thread * 10 + round) as u8);
                        device.write_at(&data, at).unwrap();
                        device.sync().unwrap();
                        let mut read = vec![0; 654_321];
                        device.read_at(&mut read, at + 7, ReadMode::Direct).unwrap();
                        assert!(read.iter().all(|byte| *byte == data[0]));
                    }
                });
            }
        });
        let mapping = device.map(&[(B, 2 * BLOCK_LEN)]).unwrap();
        assert_eq!(mapping.map(|mapping| mapping.as_ref().len()), Some(2 * BLOCK_LEN));
        assert!(device.map(&[(4 << 20, BLOCK_LEN)]).is_err(), "beyond the end");
        device.close().unwrap();
    }
    assert!("mmap".parse::<IoMode>().is_err());
}

#[test]
fn without_direct_io_everything_goes_through_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(&folder.path().join("store"), CREATE).unwrap();
    device.handles.write().as_mut().unwrap().direct = None;
    assert!(!device.is_direct());
    device.grow(4 << 20).unwrap();
    exercise(&device);
}

#[test]
fn a_file_system_without_allocation_gets_zeros_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("store")).unwrap();
    // What `allocate` falls back to, on a file of odd length.
    file.set_len(100).unwrap();
    write_zeros(&file, 100, 3_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 3_000_000);
}

#[test]
fn a_full_file_system_refuses_growth_and_keeps_the_length() {
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(&folder.path().join("store"), CREATE).unwrap();
    device.grow(1 << 20).unwrap();
    let error = device.grow(1 << 62).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    assert_eq!(device.len().unwrap(), 1 << 20);
    assert_eq!(std::fs::metadata(device.path()).unwrap().len(), 1 << 20);
}

#[test]
fn a_store_has_one_writer_or_many_readers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let device = FileDevice::open(&path, CREATE).unwrap();
    device.grow(B).unwrap();
    for options in [WRITE, READ, CREATE] {
        let error = FileDevice::open(&path, options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Owned);
        assert!(error.message().contains(&format!("pid {}", std::process::id())), "{error}");
    }
    assert_eq!(owner_pid(&path), Some(std::process::id()));
    device.close().unwrap();
    assert_eq!(owner_pid(&path), None);
    let one = FileDevice::open(&path, READ).unwrap();
    let two = FileDevice::open(&path, READ).unwrap();
    assert_eq!(one.write_at(&[0; BLOCK_LEN], 0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert!(two.grow(2 * B).is_err() && two.discard(0, B).is_err());
    assert_eq!(FileDevice::open(&path, WRITE).err().unwrap().kind(), ErrorKind::Owned);
    drop((one, two));
    FileDevice::open(&path, WRITE).unwrap();
}

#[test]
fn the_owner_in_another_process_is_named_and_its_death_frees_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    File::create(&path).unwrap();
    let Ok(mut child) = Command::new("flock").arg("--no-fork").arg(&path).args(["sleep", "60"]).spawn() else {
        println!("skipped: no `flock` program here");
        return;
    };
    let error = loop {
        match FileDevice::open(&path, WRITE) {
            Err(error) => break error,
            Ok(device) => drop(device),
        }
        assert!(child.try_wait().unwrap().is_none(), "the other process holds the store");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(error.kind(), ErrorKind::Owned);
    assert!(error.message().contains(&format!("pid {}", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    FileDevice::open(&path, WRITE).unwrap();
}

#[test]
fn now_says_would_block_for_what_is_not_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(&folder.path().join("store"), CREATE).unwrap();
    device.grow(1 << 20).unwrap();
    device.write_at(&pattern(1 << 20), 0).unwrap();
    device.sync().unwrap();
    fadvise(&device.handles().unwrap().buffered, 0, None, Advice::DontNeed).unwrap();
    // Hints, also where there is nothing.
    device.prefetch(8192, 0);
    device.prefetch(2 << 20, 4096);
    device.prefetch(300_000, u64::MAX);
    fadvise(&device.handles().unwrap().buffered, 0, None, Advice::DontNeed).unwrap();
    let mut buffer = vec![0; 5000];
    // Some file systems (those in memory) always have everything; then it must be right.
    match device.read_at(&mut buffer, 300_000, ReadMode::Now) {
        Ok(()) => assert!(buffer == pattern(1 << 20)[300_000..305_000]),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
    }
    device.prefetch(700_000, 10_000);
    for at in [300_000, 700_000] {
        device.read_at(&mut buffer, at as u64, ReadMode::Cached).unwrap();
        assert!(buffer == pattern(1 << 20)[at..at + 5000]);
    }
    device.close().unwrap();
    device.prefetch(0, 4096);
}

/// A loop device over a file, taken down at the end.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path) -> Option<Loop> {
        let run = Command::new("losetup").args(["--show", "-f"]).arg(file).output().ok()?;
        let name = String::from_utf8(run.stdout).ok()?;
        (run.status.success() && !name.trim().is_empty()).then(|| Loop(PathBuf::from(name.trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_is_fixed_direct_and_held_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let Some(disk) = Loop::over(&path) else {
        println!("skipped: no loop device can be made here (needs root and losetup)");
        return;
    };
    let device = FileDevice::open(&disk.0, CREATE).unwrap();
    assert!(device.is_fixed());
    assert_eq!(device.len().unwrap(), 8 << 20);
    assert_eq!(device.grow(16 << 20).unwrap_err().kind(), io::ErrorKind::Unsupported);
    device.grow(8 << 20).unwrap();
    exercise(&device);
    let error = FileDevice::open(&disk.0, WRITE).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Owned);
    assert!(error.message().contains(&format!("pid {}", std::process::id())), "{error}");
    assert_eq!(FileDevice::open(&disk.0, READ).err().unwrap().kind(), ErrorKind::Owned);
    drop(device);
    FileDevice::open(&disk.0, READ).unwrap();
}

#[test]
fn what_is_streamed_again_stays_in_the_page_cache() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(&folder.path().join("store"), CREATE).unwrap();
    device.grow(40 * MIB).unwrap();
    let bytes = pattern(40 << 20);
    device.write_at(&bytes, 0).unwrap();
    device.sync().unwrap();
    fadvise(&device.handles().unwrap().buffered, 0, None, Advice::DontNeed).unwrap();
    // Some file systems always have everything, and some systems do not say what is there.
    let known = device.is_direct() && !device.holds(0, 1);
    let mut buffer = vec![0; (1 << 20) + 1];
    for round in 0..3 {
        // Off the blocks' boundaries too, as pieces of values are.
        for (offset, skip) in (0..38).flat_map(|number| [(number * MIB, 0), (number * MIB + 100, 1)]) {
            let part = &mut buffer[skip..skip + (1 << 20)];
            device.read_at(part, offset, ReadMode::Stream).unwrap();
            assert!(part == &bytes[offset as usize..][..1 << 20], "{round} {offset}");
        }
        if known && round == 0 {
            assert!(!device.holds(10 * MIB, BLOCK_LEN), "what was read once leaves nothing");
        }
    }
    let held = device.holds(10 * MIB, 1 << 20);
    // Where the system says what is there it says so of what was just read too.
    device.read_at(&mut buffer[..4096], 0, ReadMode::Cached).unwrap();
    assert_eq!(held, device.holds(0, 4096), "what was read again stays");
}
