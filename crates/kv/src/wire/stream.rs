//! A connection's socket: Unix or TCP, read by one thread and written by many.
//!
//! Invariant: `send_now` never waits, so that who tells an outcome is not held up by who reads it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use koine_engine::{Error, ErrorKind};
use koine_env::patience;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// A TCP peer that is gone without a word is noticed after about two minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Descriptors of a request: two files in memory.
pub const FILES_MAX: usize = 2;

/// A socket that is connected.
#[derive(Debug)]
pub enum Stream {
    /// On this machine.
    Unix(UnixStream),
    /// On this machine or another.
    Tcp(TcpStream),
}

impl Stream {
    /// Makes it ready for frames.
    pub fn prepare(&self) -> io::Result<()> {
        if let Stream::Tcp(stream) = self {
            stream.set_nodelay(true)?;
            rustix::net::sockopt::set_socket_keepalive(stream, true)?;
            rustix::net::sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
            rustix::net::sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE / 4)?;
            rustix::net::sockopt::set_tcp_keepcnt(stream, 4)?;
        }
        Ok(())
    }

    /// How long a read may wait; `None`: for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// How long a write may wait for the other side to read; `None`: for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(timeout),
            Stream::Tcp(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// From now on reads and writes wake up at every tick, to see whether who called waits still.
    pub fn look_at_patience(&self) -> io::Result<()> {
        self.set_read_timeout(Some(patience::TICK))?;
        self.set_write_timeout(Some(patience::TICK))
    }

    /// Ends it for both sides, whoever is reading or writing.
    pub fn end(&self) {
        let _already = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Nothing more comes in; what is on its way out goes on.
    pub fn end_reading(&self) {
        let _already = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Read),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Sends as much as the kernel takes at once; how much.
    pub fn send_now(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(self, parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a read or a write only woke up to look at its caller's patience: see [`Stream::look_at_patience`]. That the
/// connection timed out is another error.
pub fn is_tick(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Reads a stream that others write.
pub struct StreamReader {
    stream: Arc<Stream>,
    /// Where it ends at a moment: looks at every tick whether who reads waits still.
    is_patient: bool,
    /// Descriptors that came and nobody has taken; `None` where none is wanted: what comes then the kernel closes.
    files: Option<Vec<OwnedFd>>,
    /// Nothing is waited for beyond this moment, however much comes until then.
    until: Option<Instant>,
}

impl StreamReader {
    /// Of a stream.
    pub fn new(stream: Arc<Stream>) -> StreamReader {
        StreamReader { stream, is_patient: false, files: None, until: None }
    }

    /// Of a stream that wakes up at every tick. What it reads until a moment fails with `Interrupted` when who reads waits no
    /// longer; else ticks come out of it as they are.
    pub fn patient(stream: Arc<Stream>) -> StreamReader {
        StreamReader { is_patient: true, ..StreamReader::new(stream) }
    }

    /// From now on reads fail at this moment; `None`: they wait for ever.
    pub fn read_until(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.until = until;
        if until.is_none() { self.stream.set_read_timeout(None) } else { Ok(()) }
    }

    /// From now on descriptors are taken in too, as many as a request can want.
    pub fn receive_files(&mut self) {
        if matches!(*self.stream, Stream::Unix(_)) {
            self.files = Some(Vec::new());
        }
    }

    /// The descriptors that came, in order; no more are taken in.
    pub fn take_files(&mut self) -> Vec<OwnedFd> {
        self.files.take().unwrap_or_default()
    }
}

impl StreamReader {
    fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            // A timeout of the socket alone begins anew with every byte.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(if self.is_patient { left.min(patience::TICK) } else { left }))?;
        }
        let Some(files) = &mut self.files else { return (&*self.stream).read(buffer) };
        // Room for so many: the kernel closes the others.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(buffer)];
        let read = recvmsg(&*self.stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                came.for_each(|file| {
                    if files.len() < FILES_MAX {
                        files.push(file)
                    }
                });
            }
        }
        Ok(read.bytes)
    }
}

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read_once(buffer) {
                Err(error) if self.is_patient && self.until.is_some() && is_tick(&error) => {
                    if patience::is_over() {
                        return Err(io::Error::other(WaitsNoLonger));
                    }
                }
                read => return read,
            }
        }
    }
}

/// Why a read fails that nothing else is wrong with.
#[derive(Debug)]
struct WaitsNoLonger;

impl std::fmt::Display for WaitsNoLonger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("who called waits no longer")
    }
}

impl std::error::Error for WaitsNoLonger {}

/// The error of a read that failed.
pub fn failed(error: io::Error) -> Error {
    if error.get_ref().is_some_and(|inner| inner.is::<WaitsNoLonger>()) {
        return Error::interrupted();
    }
    Error::new(ErrorKind::Stopped, "the connection failed").with_source(error)
}

impl Stream {
    /// Sends bytes, with descriptors beside the first of them. The other side has copies of them then.
    pub fn send_files(&self, bytes: &[u8], files: &[OwnedFd; FILES_MAX]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [files[0].as_fd(), files[1].as_fd()];
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let sent = sendmsg(self, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        (&mut &*self).write_all(bytes.get(sent..).unwrap_or_default())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // With a flag that the standard library does not set: a peer that is gone is an error, not a signal.
        Ok(sendmsg(&**self, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
