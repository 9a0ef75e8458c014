//! Finding a server and being let in by the system.
//!
//! Invariant: neither a name that does not resolve nor a server that takes nobody holds up a caller for longer than the
//! options say, or than it waits.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use koine_engine::{Error, ErrorKind, Result};
use koine_env::patience;

use super::ClientOptions;

/// To a socket on this machine.
pub(super) fn unix(path: &Path, options: &ClientOptions) -> Result<UnixStream> {
    let (place, path) = (path.display().to_string(), path.to_owned());
    within(options, &place, move || UnixStream::connect(path))
}

/// To a host and a port.
pub(super) fn tcp(address: &str, options: &ClientOptions) -> Result<TcpStream> {
    let (place, connect) = (address.to_owned(), options.connect);
    within(options, address, move || {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, format!("{place} has no address"));
        for found in place.to_socket_addrs()? {
            match TcpStream::connect_timeout(&found, connect) {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    })
}

/// Does it on a thread of its own, which may wait for longer than the caller does.
fn within<T: Send + 'static>(
    options: &ClientOptions,
    place: &str,
    connect: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let until = Instant::now() + options.connect;
    let (tell, told) = channel();
    let thread = std::thread::Builder::new().name("koine-connect".into());
    let begun = thread.spawn(move || {
        let _nobody = tell.send(connect());
    });
    begun.map_err(|error| Error::new(ErrorKind::Busy, "cannot start a thread").with_source(error))?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match told.recv_timeout(patience::next_look().min(left)) {
            Ok(connected) => return connected.map_err(|error| failed(place, error)),
            Err(RecvTimeoutError::Timeout) if patience::is_over() => return Err(Error::interrupted()),
            Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(_) => return Err(failed(place, io::ErrorKind::TimedOut.into())),
        }
    }
}

/// What to do about a server that is not there.
fn failed(place: &str, error: io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let (kind, message) = match error.kind() {
        Io::NotFound | Io::ConnectionRefused => {
            (ErrorKind::NotFound, format!("no server is at {place}: start `koine serve`, or name another place"))
        }
        Io::PermissionDenied => {
            let message = format!("{place} belongs to another user");
            return Error::new(ErrorKind::Invalid, message).with_source(error);
        }
        Io::TimedOut => (ErrorKind::Busy, format!("the server at {place} does not answer")),
        _ => (ErrorKind::Stopped, format!("cannot connect to {place}")),
    };
    Error::new(kind, message).with_source(error).of_connection()
}
