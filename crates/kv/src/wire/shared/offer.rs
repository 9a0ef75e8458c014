//! Files in memory that a client offers, and what a server looks at before it maps them.
//!
//! Invariants:
//! - Accepted is only a file in memory whose length was told, is allowed, and cannot change; with pages of the usual size, since
//!   of others there may be none left when they are touched.
//! - What a server does not accept it closes.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use koine_engine::{Error, ErrorKind, Result};
use rustix::fs::{FileType, MemfdFlags, SealFlags};

use super::slots::Slots;
use super::{Access, Mapping, PART_LEN, SHARED_LEN_MAX};

/// The file system of files in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// What a client has of a shared memory.
#[derive(Clone, Debug)]
pub struct ClientSide {
    /// It writes there, the server reads.
    pub to_server: Arc<Slots>,
    /// The server writes there, it reads.
    pub to_client: Arc<Slots>,
}

/// What a server has of it.
#[derive(Debug)]
pub struct ServerSide {
    /// Read by copies alone.
    pub to_server: Mapping,
    /// Written by copies alone.
    pub to_client: Mapping,
}

/// Makes both files, each of so many bytes: what the client has of them, and what it passes on.
pub fn make(length: usize) -> std::io::Result<(ClientSide, [OwnedFd; 2])> {
    let fixed = SealFlags::SHRINK | SealFlags::GROW;
    let file = || -> std::io::Result<OwnedFd> {
        let file = rustix::fs::memfd_create("koine-wire", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        Ok(file)
    };
    let (to_server, to_client) = (file()?, file()?);
    let written = Mapping::new(to_server.as_fd(), length, Access::Write)?;
    // From here on nobody else gets a way to write it.
    rustix::fs::fcntl_add_seals(&to_server, fixed | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
    rustix::fs::fcntl_add_seals(&to_client, fixed | SealFlags::SEAL)?;
    let read = Mapping::new(to_client.as_fd(), length, Access::Read)?;
    let side = ClientSide { to_server: Slots::new(written), to_client: Slots::new(read) };
    Ok((side, [to_server, to_client]))
}

/// Looks at what a client has passed, and maps it.
pub fn accept(files: [OwnedFd; 2], lengths: [u64; 2]) -> Result<ServerSide> {
    let [to_server, to_client] = files;
    let [sent, received] = lengths;
    Ok(ServerSide {
        to_server: accept_one(&to_server, sent, Access::Read)?,
        to_client: accept_one(&to_client, received, Access::Write)?,
    })
}

fn accept_one(file: &OwnedFd, length: u64, access: Access) -> Result<Mapping> {
    let wrong = |what: String| Error::invalid(format!("memory cannot be shared: {what}"));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if !(PART_LEN..=SHARED_LEN_MAX).contains(&length) || !length.is_multiple_of(PART_LEN) {
        return Err(wrong(format!("{length} bytes; multiples of {PART_LEN} up to {SHARED_LEN_MAX} are taken")));
    }
    let failed = |error: rustix::io::Errno| {
        let error = std::io::Error::from(error);
        Error::new(ErrorKind::Invalid, "memory cannot be shared: what was passed is no such file").with_source(error)
    };
    let status = rustix::fs::fstat(file).map_err(failed)?;
    let system = rustix::fs::fstatfs(file).map_err(failed)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || system.f_type as u64 != TMPFS_MAGIC {
        return Err(wrong("what was passed is no file in memory, with pages of the usual size".into()));
    }
    // Seals come before the length: from then on it stays.
    let seals = rustix::fs::fcntl_get_seals(file).map_err(failed)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
        return Err(wrong("the file could still become shorter or longer: it is not sealed".into()));
    }
    let found = rustix::fs::fstat(file).map_err(failed)?.st_size;
    if found != length as i64 {
        return Err(wrong(format!("a file of {found} bytes where {length} were told")));
    }
    let mapped = Mapping::new(file.as_fd(), length, access);
    mapped.map_err(|error| {
        Error::new(ErrorKind::Invalid, "memory cannot be shared: it cannot be mapped").with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 64 << 10;

    fn sealed(length: usize, seals: SealFlags, flags: MemfdFlags) -> OwnedFd {
        let file =
            rustix::fs::memfd_create("koine-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags).unwrap();
        rustix::fs::ftruncate(&file, length as u64).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn what_a_client_makes_a_server_takes() {
        let (client, files) = make(LEN).unwrap();
        let server = accept(files, [LEN as u64; 2]).unwrap();
        let part = client.to_server.lend(3).unwrap();
        part.fill(b"abc").unwrap();
        assert_eq!(server.to_server.copy_out(part.offset(), 3).unwrap().as_ref(), b"abc");
        assert!(server.to_server.copy_in(0, b"x").is_err());
        let lent = client.to_client.lend(3 * PART_LEN).unwrap();
        server.to_client.copy_in(lent.offset(), b"def").unwrap();
        let got = lent.received(3);
        assert_eq!(got.as_ref(), b"def");
        assert_eq!(client.to_client.free_len(), LEN - PART_LEN);
        drop(got);
        assert_eq!(client.to_client.free_len(), LEN);
    }

    #[test]
    fn nothing_else_is_taken() {
        let fixed = SealFlags::SHRINK | SealFlags::GROW;
        let all = fixed | SealFlags::SEAL;
        let none = MemfdFlags::empty();
        let plain = tempfile::tempfile().unwrap();
        plain.set_len(LEN as u64).unwrap();
        let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let length = LEN as u64;
        let wrong: [(OwnedFd, u64, &str); 9] = [
            (sealed(LEN, SealFlags::empty(), none), length, "not sealed"),
            (sealed(LEN, SealFlags::SHRINK | SealFlags::SEAL, none), length, "not sealed"),
            (sealed(LEN, fixed, none), length, "not sealed"),
            (sealed(LEN / 2, all, none), length, "32768 bytes"),
            (sealed(LEN, all, none), length - 1, "multiples"),
            (sealed(LEN, all, none), 0, "multiples"),
            (plain.into(), length, "no file in memory"),
            (pipe, length, "no file in memory"),
            (socket.into(), length, "no file in memory"),
        ];
        for (file, told, why) in wrong {
            let error = accept_one(&file, told, Access::Read).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(why), "{why}: {error}");
        }
        let too_long = sealed(SHARED_LEN_MAX + PART_LEN, all, none);
        assert!(accept_one(&too_long, (SHARED_LEN_MAX + PART_LEN) as u64, Access::Read).is_err());
        // For the server to write, it must be writable.
        let read_only = sealed(LEN, all | SealFlags::WRITE, none);
        assert!(accept_one(&read_only, length, Access::Write).is_err());
        assert!(accept_one(&read_only, length, Access::Read).is_ok());
    }

    /// Where the machine can make one at all.
    #[test]
    fn large_pages_are_not_taken() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        if let Ok(file) = rustix::fs::memfd_create("koine-test", flags) {
            let length = 2 << 20;
            let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            if rustix::fs::ftruncate(&file, length).is_ok() && rustix::fs::fcntl_add_seals(&file, all).is_ok() {
                let error = accept_one(&file, length, Access::Read).unwrap_err();
                assert!(error.to_string().contains("usual size"), "{error}");
            }
        }
    }
}
