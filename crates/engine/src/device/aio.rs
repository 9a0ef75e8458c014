//! Writes that are under way while their caller does something else, through the kernel's asynchronous I/O (`io_submit`).
//!
//! Why not io_uring: many containers forbid that one, and for a single write there is nothing between the two.
//!
//! Invariants:
//! - A [`Request`] owns its memory and gives it back only when the kernel has; it is waited for when it is dropped.
//! - A context has at most one write under way, so whatever comes out of it is the answer to that one.
//! - Where the kernel takes no write this way the caller has its memory back at once, and nothing was begun.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::AlignedBuffer;

/// Contexts kept while nobody uses them.
const IDLE_MAX: usize = 32;
/// `IOCB_CMD_PWRITE` of linux/aio_abi.h.
const WRITE: u16 = 1;

/// The contexts of one device.
#[derive(Default)]
pub(super) struct Contexts {
    idle: Mutex<Vec<Context>>,
    /// The kernel gives none, or none is wanted.
    is_refused: AtomicBool,
}

/// A context of the kernel, with room for one write.
struct Context(libc::c_ulong);

/// A write that was begun.
pub(super) struct Request {
    /// What both `None` only while it is taken apart.
    parts: Option<(Context, AlignedBuffer)>,
    home: Arc<Contexts>,
}

impl Contexts {
    /// For a device; where it cannot have several writes of one file under way none is begun.
    pub(super) fn new(is_refused: bool) -> Contexts {
        Contexts { is_refused: AtomicBool::new(is_refused), ..Contexts::default() }
    }

    fn take(&self) -> Option<Context> {
        if let Some(context) = self.idle.lock().pop() {
            return Some(context);
        }
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let made = Context::new();
        self.is_refused.store(made.is_none(), Ordering::Relaxed);
        made
    }

    fn give_back(&self, context: Context) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(context);
        }
    }

    /// Begins to write all of `buffer`; gives it back where that cannot be begun.
    pub(super) fn write(
        self: &Arc<Self>,
        file: &File,
        buffer: AlignedBuffer,
        offset: u64,
    ) -> Result<Request, AlignedBuffer> {
        let Some(context) = self.take() else { return Err(buffer) };
        if context.begin(file, &buffer, offset) {
            Ok(Request { parts: Some((context, buffer)), home: Arc::clone(self) })
        } else {
            self.give_back(context);
            Err(buffer)
        }
    }
}

impl Context {
    fn new() -> Option<Context> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word to the pointer.
        #[allow(unsafe_code)]
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
        (made == 0).then_some(Context(context))
    }

    /// Begins a write whose memory must stay until `finish` has returned; says whether it was begun.
    fn begin(&self, file: &File, data: &[u8], offset: u64) -> bool {
        let Ok(offset) = i64::try_from(offset) else { return false };
        // SAFETY: zeros are a valid value of this structure of numbers.
        #[allow(unsafe_code)]
        let mut control: libc::iocb = unsafe { std::mem::zeroed() };
        control.aio_lio_opcode = WRITE;
        control.aio_fildes = file.as_raw_fd() as u32;
        control.aio_buf = data.as_ptr() as u64;
        control.aio_nbytes = data.len() as u64;
        control.aio_offset = offset;
        let mut controls = [&raw mut control];
        // SAFETY: the kernel reads one control block, which it copies, and the memory that it names; `Request` keeps that
        // until `finish` has returned.
        #[allow(unsafe_code)]
        let begun = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, controls.as_mut_ptr()) };
        begun == 1
    }

    /// Waits for the one write that is under way. Never gives up: memory is with the kernel until then.
    fn finish(&self) -> io::Result<usize> {
        // Four words: data, the control block, the result, the second result.
        let mut event = [0i64; 4];
        loop {
            // SAFETY: the kernel writes at most one event of 32 bytes; no time limit is given.
            #[allow(unsafe_code)]
            let count = unsafe {
                let no_limit = std::ptr::null_mut::<libc::timespec>();
                libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, event.as_mut_ptr(), no_limit)
            };
            if count == 1 {
                break;
            }
            // Interrupted.
            std::thread::yield_now();
        }
        let [_, _, answer, _] = event;
        usize::try_from(answer).map_err(|_| io::Error::from_raw_os_error(answer.saturating_neg() as i32))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is this one's own, and nothing is under way in it.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

impl Request {
    /// Waits for it: the memory, and how much of it was written.
    pub(super) fn wait(mut self) -> (AlignedBuffer, io::Result<usize>) {
        self.finish().unwrap_or_else(|| (AlignedBuffer::zeroed(0), Ok(0)))
    }

    fn finish(&mut self) -> Option<(AlignedBuffer, io::Result<usize>)> {
        let (context, buffer) = self.parts.take()?;
        let written = context.finish();
        self.home.give_back(context);
        Some((buffer, written))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let _nobody_asks = self.finish();
    }
}
