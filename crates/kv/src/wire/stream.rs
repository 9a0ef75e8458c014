//! A connection's socket: Unix or TCP, read by one thread and written by many.
//!
//! Invariant: `send_now` never waits, so that who tells an outcome is not held up by who reads it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use koine_env::patience;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};

/// A TCP peer that is gone without a word is noticed after about two minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Descriptors of a request: two files in memory.
pub const FILES_MAX: usize = 2;

/// A time as the system takes it for a timeout; `None`, for ever, where it is longer than a program runs.
pub fn bounded(time: Duration) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    (time < LONGEST).then(|| time.max(Duration::from_millis(1)))
}

/// A socket that is connected.
#[derive(Debug)]
pub enum Stream {
    /// On this machine.
    Unix(UnixStream),
    /// On this machine or another.
    Tcp(TcpStream),
}

impl Stream {
    /// Connects to a Unix socket, and waits no longer than this for a server that takes no connections.
    pub fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, bounded(timeout))?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
        Ok(UnixStream::from(socket))
    }

    /// Makes it ready for frames.
    pub fn prepare(&self) -> io::Result<()> {
        if let Stream::Tcp(stream) = self {
            stream.set_nodelay(true)?;
            sockopt::set_socket_keepalive(stream, true)?;
            sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
            sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE / 4)?;
            sockopt::set_tcp_keepcnt(stream, 4)?;
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

    /// Whether the other side has ended it; what it has sent before may be left to read.
    pub fn has_ended(&self) -> bool {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut socket = [PollFd::new(self, PollFlags::RDHUP)];
        match poll(&mut socket, Some(&now)) {
            Ok(count) => count > 0,
            Err(error) => error != rustix::io::Errno::INTR,
        }
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

/// Reads a stream that others write.
pub struct StreamReader {
    stream: Arc<Stream>,
    /// Descriptors that came and nobody has taken; `None` where none is wanted: what comes then the kernel closes.
    files: Option<Vec<OwnedFd>>,
    /// Nothing is waited for beyond this moment, however much comes until then.
    until: Option<Instant>,
    /// So long the other side may say nothing within a frame; the socket's own timeout is shorter.
    silence_max: Option<Duration>,
}

impl StreamReader {
    /// Of a stream.
    pub fn new(stream: Arc<Stream>) -> StreamReader {
        StreamReader { stream, files: None, until: None, silence_max: None }
    }

    /// Of a stream whose reads end after a short time without anything: within a frame it is waited for longer.
    pub fn patient(stream: Arc<Stream>, silence_max: Option<Duration>) -> StreamReader {
        StreamReader { silence_max, ..StreamReader::new(stream) }
    }

    /// Reads what is there, or what comes before the socket's timeout; `None`: nothing did.
    pub fn read_briefly(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&*self.stream).read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As long as the other side may say nothing.
    fn read_patiently(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(most) = self.silence_max else { return (&*self.stream).read(buffer) };
        let begun = Instant::now();
        loop {
            match (&*self.stream).read(buffer) {
                Err(error) if is_nothing(&error) && begun.elapsed() < most => {}
                done => return done,
            }
        }
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

/// Whether a call only ended because the socket's timeout passed.
pub fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(until) = self.until {
            // A timeout of the socket alone begins anew with every byte.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // No longer than until the caller is to be asked whether it waits still.
            let asks = patience::is_given();
            self.stream.set_read_timeout(Some(if asks { left.min(patience::next_look()) } else { left }))?;
            match self.read_once(buffer) {
                Err(error) if asks && is_nothing(&error) && !patience::is_over() => {}
                read => return read,
            }
        }
        self.read_once(buffer)
    }
}

impl StreamReader {
    fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(files) = &mut self.files else { return self.read_patiently(buffer) };
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
