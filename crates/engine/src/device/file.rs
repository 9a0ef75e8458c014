//! A store in a file or on a block device.
//!
//! Invariants:
//! - Two descriptors of one inode: reads that may use the page cache go through one, writes and reads
//!   of what the medium holds go past it through the other. Where the file system does not take direct
//!   I/O there is only the first; writes are then buffered, and a direct read first drops what is clean.
//! - A file is never sparse by our doing before it is used: growing allocates, and fails when it cannot.
//! - No read ever syncs: the kernel tells of a failed write-back once, and it is `sync` that must hear it.
//! - Read-ahead of small reads is the kernel's own: FADV_RANDOM halved sequential reads of 1 MiB, cold and warm, and did
//!   not make random ones of 4 KiB faster. That of streams is the engine's.
//! - A forked copy reads and writes nothing, and leaves the lock, which it shares with its parent, alone.
//! - Interrupted and short calls are taken up again; a caller sees all or an error.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::{Errno, pread, retry_on_intr};

use super::aio::Contexts;
use super::aligned::{AlignedBuffer, BOUNCE_LEN, BouncePool, is_aligned, is_in_huge_page};
use super::cached::{Streamed, is_cached};
use super::io_mode::{IoMode, is_in_user_space, way_to};
use super::lock::{Hold, hold, is_held_elsewhere, owned, release};
use super::mapping::Mapping;
use super::positional::{read_at_least, read_full, read_now, write_full};
use super::uring::Rings;
use super::{BLOCK_LEN, Device, Process, ReadMode, Writing, block, check_read, check_write};
use crate::error::{Error, ErrorKind, Result};

/// Reads past the page cache of this length on go into memory in huge pages, and are copied from there where they belong
/// elsewhere: to hand a device small pages costs more.
const LONG_LEN: usize = 128 << 10;

/// How to open a [`FileDevice`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Refuse every change, and share the store with other readers.
    pub read_only: bool,
    /// Make an empty file, for its owner only, when there is none.
    pub create: bool,
}

/// A file or a block device, held by one owner.
pub struct FileDevice {
    path: PathBuf,
    process: Process,
    /// `None` once closed.
    handles: RwLock<Option<Handles>>,
    read_only: bool,
    is_block: bool,
    length: AtomicU64,
    growing: Mutex<()>,
    /// Whether the file is longer than at the last sync.
    grown: AtomicBool,
    bounce: BouncePool,
    streamed: Streamed,
    io: IoMode,
    rings: Option<Rings>,
    contexts: Arc<Contexts>,
    /// Why the device is not reached as was asked.
    fallback: Option<String>,
}

struct Handles {
    process: Process,
    /// Holds the lock.
    buffered: File,
    /// `None` where the file system refuses direct I/O.
    direct: Option<Arc<File>>,
}

impl Drop for Handles {
    fn drop(&mut self) {
        // The lock belongs to the open file, which a forked copy has too.
        if self.process.is_here() {
            release(&self.buffered);
        }
    }
}

impl FileDevice {
    /// Opens `path` and takes the store for this process; `Owned` when somebody has it.
    pub fn open(path: &Path, options: OpenOptions) -> Result<FileDevice> {
        FileDevice::open_with(path, options, IoMode::default())
    }

    /// As [`FileDevice::open`], reached in a way of the caller's choice. Where the kernel or the file system refuses
    /// it, in the next best: [`FileDevice::fallback`] tells.
    pub fn open_with(path: &Path, options: OpenOptions, io: IoMode) -> Result<FileDevice> {
        let is_block = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        let buffered = open_first(path, options, is_block)?;
        let failed = |what: &str, error: io::Error| Error::device(format!("cannot {what} {}", path.display()), error);
        let metadata = buffered.metadata().map_err(|error| failed("look at", error))?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let message = format!("{} is neither a file nor a block device", path.display());
            return Err(Error::invalid(message));
        }
        hold(&buffered, path, if options.read_only { Hold::Shared } else { Hold::Alone })?;
        let length = if kind.is_block_device() {
            block::length(&buffered).map_err(|error| failed("find the size of", error))?
        } else {
            // Again, now that nobody else can change it.
            buffered.metadata().map_err(|error| failed("look at", error))?.len()
        };
        let direct = match io {
            IoMode::Buffered => None,
            _ => open_direct(path, options, &metadata).map_err(|error| failed("open again", error))?,
        };
        let in_user_space = is_in_user_space(&buffered);
        let (rings, fallback) = way_to(io, direct.is_some(), in_user_space);
        let (direct, contexts) = (direct.map(Arc::new), Arc::new(Contexts::new(in_user_space)));
        let process = Process::here();
        Ok(FileDevice {
            path: path.to_owned(),
            process,
            handles: RwLock::new(Some(Handles { process, buffered, direct })),
            read_only: options.read_only,
            is_block: kind.is_block_device(),
            length: AtomicU64::new(length),
            growing: Mutex::new(()),
            grown: AtomicBool::new(false),
            bounce: BouncePool::default(),
            streamed: Streamed::default(),
            io: if io == IoMode::Uring && rings.is_none() { IoMode::Direct } else { io },
            rings,
            contexts,
            fallback,
        })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is reached.
    pub fn io_mode(&self) -> IoMode {
        self.io
    }

    /// Why it is not reached as was asked, for people.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Whether writes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.handles.read().as_ref().is_some_and(|handles| handles.direct.is_some())
    }

    fn handles(&self) -> io::Result<MappedRwLockReadGuard<'_, Handles>> {
        self.process.check_io()?;
        RwLockReadGuard::try_map(self.handles.read(), Option::as_ref)
            .map_err(|_| io::Error::other(format!("{} was closed", self.path.display())))
    }

    fn handles_to_write(&self) -> io::Result<MappedRwLockReadGuard<'_, Handles>> {
        if self.read_only {
            let message = format!("{} was opened for reading only", self.path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        self.handles()
    }

    /// Reads past the page cache whatever the range and the memory are.
    fn read_direct(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let blocks = buffer.len().is_multiple_of(BLOCK_LEN) && offset.is_multiple_of(BLOCK_LEN as u64);
        if blocks && is_aligned(buffer) && (buffer.len() < LONG_LEN || is_in_huge_page(buffer)) {
            let length = buffer.len();
            return self.fetch(file, buffer, offset, length);
        }
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let skip = (at % BLOCK_LEN as u64) as usize;
            let length = rest.len().min(BOUNCE_LEN - skip);
            let (piece, after) = rest.split_at_mut(length);
            self.bounce.with(|memory| {
                let span = (skip + length).next_multiple_of(BLOCK_LEN);
                self.fetch(file, &mut memory[..span], at - skip as u64, skip + length)?;
                piece.copy_from_slice(&memory[skip..skip + length]);
                io::Result::Ok(())
            })?;
            rest = after;
            at += length as u64;
        }
        Ok(())
    }

    /// Fills at least the first `wanted` bytes of aligned memory.
    fn fetch(&self, file: &File, buffer: &mut [u8], offset: u64, wanted: usize) -> io::Result<()> {
        match &self.rings {
            Some(rings) => rings.read(file, buffer, offset, wanted),
            None => read_at_least(file, buffer, offset, wanted),
        }
    }

    /// Writes aligned memory. To a block device never asynchronously: the kernel drops pages of its page cache before
    /// such a write and not after it, and one that was read ahead meanwhile would keep old bytes.
    fn store(&self, file: &File, data: &[u8], offset: u64) -> io::Result<()> {
        match &self.rings {
            Some(rings) if !self.is_block => rings.write(file, data, offset),
            _ => write_full(file, data, offset),
        }
    }

    fn write_direct(&self, file: &File, data: &[u8], offset: u64) -> io::Result<()> {
        if is_aligned(data) {
            return self.store(file, data, offset);
        }
        let mut at = offset;
        for piece in data.chunks(BOUNCE_LEN) {
            self.bounce.with(|memory| {
                let memory = &mut memory[..piece.len()];
                memory.copy_from_slice(piece);
                self.store(file, memory, at)
            })?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl Device for FileDevice {
    fn len(&self) -> io::Result<u64> {
        drop(self.handles()?);
        Ok(self.length.load(Ordering::Acquire))
    }

    fn grow(&self, length: u64) -> io::Result<()> {
        let handles = self.handles_to_write()?;
        let _growing = self.growing.lock();
        let old_length = self.length.load(Ordering::Acquire);
        if length <= old_length {
            return Ok(());
        }
        if self.is_block {
            let message = format!("{} is a block device of {old_length} bytes and cannot grow", self.path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        if let Err(error) = allocate(&handles.buffered, old_length, length) {
            // What was allocated before the error is given back; should that fail, the next open sees a
            // longer file, which is no harm: only the superblock says what is in use.
            let _ = handles.buffered.set_len(old_length);
            return Err(match error.kind() {
                io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    io::Error::new(io::ErrorKind::StorageFull, error)
                }
                _ => error,
            });
        }
        self.grown.store(true, Ordering::Release);
        self.length.store(length, Ordering::Release);
        Ok(())
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        self.handles().is_ok_and(|handles| is_cached(&handles.buffered, offset, length as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        let handles = self.handles()?;
        check_read(buffer.len(), offset, self.length.load(Ordering::Acquire))?;
        match (mode, &handles.direct) {
            (ReadMode::Now, _) => read_now(&handles.buffered, buffer, offset),
            (ReadMode::Cached, _) => read_full(&handles.buffered, buffer, offset),
            (ReadMode::Stream, Some(direct)) if !self.streamed.again(offset, buffer.len() as u64) => {
                self.read_direct(direct, buffer, offset)
            }
            (ReadMode::Stream, _) => read_full(&handles.buffered, buffer, offset),
            (ReadMode::Direct, direct) => {
                // Whole pages, so that none stays behind that the page cache holds wrongly. Only a hint: a
                // file system that ignores it is read through its cache.
                let start = offset - offset % BLOCK_LEN as u64;
                let end = (offset + buffer.len() as u64).next_multiple_of(BLOCK_LEN as u64);
                if let Some(length) = NonZeroU64::new(end - start) {
                    let _ = fadvise(&handles.buffered, start, Some(length), Advice::DontNeed);
                }
                match direct {
                    Some(direct) => self.read_direct(direct, buffer, offset),
                    None => read_full(&handles.buffered, buffer, offset),
                }
            }
        }
    }

    fn prefetch(&self, offset: u64, length: u64) {
        if let (Ok(handles), Some(length)) = (self.handles(), NonZeroU64::new(length)) {
            // Only a hint: the read will tell what is wrong.
            let _ = fadvise(&handles.buffered, offset, Some(length), Advice::WillNeed);
        }
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let handles = self.handles_to_write()?;
        check_write(data.len(), offset, self.length.load(Ordering::Acquire))?;
        match &handles.direct {
            Some(direct) => self.write_direct(direct, data, offset),
            None => write_full(&handles.buffered, data, offset),
        }
    }

    fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        let direct = self.handles_to_write().and_then(|handles| {
            check_write(buffer.len(), offset, self.length.load(Ordering::Acquire))?;
            // Rings and the page cache have ways of their own.
            Ok(handles.direct.clone().filter(|_| self.rings.is_none()))
        });
        let buffer = match direct {
            Err(error) => return Writing::ended(buffer, Err(error)),
            Ok(None) => buffer,
            Ok(Some(file)) => match self.contexts.write(&file, buffer, offset) {
                Ok(request) => return Writing::under_way(request, file, offset),
                Err(buffer) => buffer,
            },
        };
        let outcome = self.write_at(&buffer, offset);
        Writing::ended(buffer, outcome)
    }

    // The kernel takes pages of a file out of its cache after such a write too, but not those of a block device.
    fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        if !self.is_block {
            return self.begin_write(buffer, offset);
        }
        let outcome = self.write_at(&buffer, offset);
        Writing::ended(buffer, outcome)
    }

    fn write_cached(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let handles = self.handles_to_write()?;
        check_write(data.len(), offset, self.length.load(Ordering::Acquire))?;
        write_full(&handles.buffered, data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let handles = self.handles()?;
        if self.grown.swap(false, Ordering::AcqRel) {
            handles.buffered.sync_all()
        } else {
            match &self.rings {
                Some(rings) => rings.sync_data(&handles.buffered),
                None => handles.buffered.sync_data(),
            }
        }
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let handles = self.handles_to_write()?;
        let length_in_memory = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        check_write(length_in_memory, offset, self.length.load(Ordering::Acquire))?;
        if length == 0 {
            return Ok(());
        }
        let outcome = retry_on_intr(|| {
            if self.is_block {
                block::discard(&handles.buffered, offset, length)
            } else {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&handles.buffered, punch, offset, length)
            }
        });
        match outcome {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn map(&self, parts: &[(u64, usize)]) -> io::Result<Option<Mapping>> {
        let (handles, length) = (self.handles()?, self.length.load(Ordering::Acquire));
        parts.iter().try_for_each(|(offset, part)| check_read(*part, *offset, length).map(drop))?;
        Mapping::of(&handles.buffered, parts).map(Some)
    }

    fn close(&self) -> io::Result<()> {
        if !self.process.is_here() {
            return Ok(());
        }
        *self.handles.write() = None;
        Ok(())
    }

    fn is_fixed(&self) -> bool {
        self.is_block
    }

    fn refresh(&self) -> io::Result<u64> {
        let handles = self.handles()?;
        if self.is_block {
            let _growing = self.growing.lock();
            self.length.store(block::length(&handles.buffered)?, Ordering::Release);
        }
        Ok(self.length.load(Ordering::Acquire))
    }
}

/// Opens the descriptor that will hold the lock, making the file if that is wanted.
fn open_first(path: &Path, options: OpenOptions, is_block: bool) -> Result<File> {
    let mut open = std::fs::OpenOptions::new();
    open.read(true).write(!options.read_only).mode(0o600);
    if is_block && !options.read_only {
        // Without O_CREAT this keeps away mounts and others who ask the same of a block device.
        open.custom_flags(OFlags::EXCL.bits() as i32);
    }
    let mut outcome = open.open(path);
    if options.create && !options.read_only && matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::NotFound)
    {
        outcome = open.create_new(true).open(path);
        match &outcome {
            Ok(_) => sync_parent(path)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                outcome = open.create_new(false).open(path);
            }
            Err(_) => {}
        }
    }
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("there is no {}", path.display())),
        io::ErrorKind::IsADirectory => Error::invalid(format!("{} is a directory, not a store", path.display())),
        _ if is_held_elsewhere(&error) => owned(path),
        _ => Error::device(format!("cannot open {}", path.display()), error),
    })
}

/// Makes the name of a new file durable.
fn sync_parent(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let outcome = File::open(parent).and_then(|folder| folder.sync_all());
    outcome.map_err(|error| Error::device(format!("cannot make {} durable in its folder", path.display()), error))
}

/// The second descriptor of the inode that `first` describes, if its file system takes direct I/O.
fn open_direct(path: &Path, options: OpenOptions, first: &std::fs::Metadata) -> io::Result<Option<File>> {
    let mut open = std::fs::OpenOptions::new();
    open.read(true).write(!options.read_only).custom_flags(OFlags::DIRECT.bits() as i32);
    let file = match open.open(path) {
        Ok(file) => file,
        Err(error) if refuses_direct(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let second = file.metadata()?;
    if (second.dev(), second.ino()) != (first.dev(), first.ino()) {
        return Err(io::Error::other("it was replaced while it was being opened"));
    }
    // Some file systems take the flag and refuse the reads.
    match retry_on_intr(|| pread(&file, &mut *AlignedBuffer::zeroed(BLOCK_LEN), 0)) {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
        // Another error is for the first real read to tell.
        _ => Ok(Some(file)),
    }
}

fn refuses_direct(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Makes the file `length` bytes long with every new block its own.
fn allocate(file: &File, old_length: u64, length: u64) -> io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), old_length, length - old_length)) {
        Ok(()) => return Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    // Only lengthening the file would let a later write find the file system full.
    write_zeros(file, old_length, length)
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let piece = zeros.len().min(usize::try_from(to - at).unwrap_or(usize::MAX));
        std::os::unix::fs::FileExt::write_all_at(file, &zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
