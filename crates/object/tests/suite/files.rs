//! Objects as files: modes, positions, and when what was written is seen.

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::support::{bytes, get, keys_in_bucket, kind, names, put, store};
use koine_object::{Error, ErrorKind, FileMode, ObjectFile, ObjectName, Objects, PutOptions, Result};

fn open(objects: &Objects, mode: FileMode) -> Result<ObjectFile> {
    objects.open_file(ObjectName::new("bucket", "file"), mode, PutOptions::default())
}

/// What an error of `std` wraps.
fn cause<T: std::fmt::Debug>(outcome: io::Result<T>) -> ErrorKind {
    let error = outcome.unwrap_err();
    error.get_ref().and_then(|error| error.downcast_ref::<Error>()).unwrap().kind()
}

#[test]
fn a_file_is_read_in_pieces_from_anywhere() {
    let objects = store();
    let body = bytes(300_000, 1);
    put(&objects, "file", &body);
    for length in [1, 1000, 65_535, 65_536, 100_000, 400_000] {
        let mut file = open(&objects, FileMode::Read).unwrap();
        let (mut read, mut buffer) = (Vec::new(), vec![0; length]);
        // By single bytes it would take long.
        let wanted = if length == 1 { 70_000 } else { body.len() };
        while read.len() < wanted {
            let count = file.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "{length}");
            read.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(read, body[..wanted], "{length}");
        assert_eq!(file.position(), wanted as u64);
    }
    let mut file = open(&objects, FileMode::Read).unwrap();
    let mut four = [0; 4];
    for (to, at) in [
        (SeekFrom::End(-4), 299_996),
        (SeekFrom::Start(7), 7),
        (SeekFrom::Current(-4), 7),
        (SeekFrom::Current(100_000), 100_011),
        (SeekFrom::Start(3), 3),
    ] {
        assert_eq!(file.seek(to).unwrap(), at as u64);
        file.read_exact(&mut four).unwrap();
        assert_eq!(four, body[at..at + 4]);
    }
    assert_eq!(cause(file.seek(SeekFrom::End(-300_001))), ErrorKind::InvalidArgument);
    assert_eq!(file.position(), 7);
    file.seek(SeekFrom::Start(1 << 50)).unwrap();
    assert_eq!(file.read(&mut four).unwrap(), 0);
    assert_eq!(cause(file.write(b"no")), ErrorKind::InvalidArgument);
    assert_eq!(file.info().unwrap().size, 300_000);
    assert_eq!(file.close().unwrap(), None);
}

#[test]
fn a_reader_keeps_what_it_opened() {
    let objects = store();
    let body = bytes(200_000, 2);
    put(&objects, "file", &body);
    let mut file = open(&objects, FileMode::Read).unwrap();
    let mut read = vec![0; 10];
    file.read_exact(&mut read).unwrap();
    put(&objects, "file", b"another");
    objects.delete("bucket", "file", koine_object::DeleteOptions::default()).wait().unwrap();
    file.read_to_end(&mut read).unwrap();
    assert_eq!(read, body);
    assert_eq!(kind(open(&objects, FileMode::Read)), ErrorKind::NoSuchKey);
}

#[test]
fn a_new_object_is_seen_at_close_whole() {
    let objects = store();
    put(&objects, "file", b"old");
    let (keys, body) = (keys_in_bucket(&objects), bytes(3_000_000, 3));
    for closed in [false, true] {
        let mut file = open(&objects, FileMode::Create).unwrap();
        for piece in body.chunks(70_000) {
            file.write_all(piece).unwrap();
        }
        file.flush().unwrap();
        assert_eq!((file.position(), file.size()), (3_000_000, 3_000_000));
        assert_eq!(cause(file.seek(SeekFrom::Start(0))), ErrorKind::Unsupported);
        file.seek(SeekFrom::End(0)).unwrap();
        assert_eq!(cause(file.read(&mut [0])), ErrorKind::InvalidArgument);
        assert_eq!(get(&objects, "file").unwrap(), b"old");
        if closed {
            let info = file.close().unwrap().unwrap();
            assert_eq!(objects.head("bucket", "file").unwrap(), info);
        } else {
            drop(file);
            assert_eq!(get(&objects, "file").unwrap(), b"old");
        }
    }
    assert_eq!(get(&objects, "file").unwrap(), body);
    assert_eq!(keys_in_bucket(&objects), keys);
}

#[test]
fn a_file_that_must_be_new_is_refused_at_open_and_at_close() {
    let objects = store();
    let mut first = open(&objects, FileMode::CreateNew).unwrap();
    let mut second = open(&objects, FileMode::CreateNew).unwrap();
    first.write_all(b"first").unwrap();
    second.write_all(b"second").unwrap();
    assert!(names(&objects).is_empty());
    first.close().unwrap();
    assert_eq!(kind(second.close()), ErrorKind::PreconditionFailed);
    assert_eq!(kind(open(&objects, FileMode::CreateNew)), ErrorKind::PreconditionFailed);
    assert_eq!(get(&objects, "file").unwrap(), b"first");
    let nowhere = ObjectName::new("no-such-bucket", "file");
    for mode in [FileMode::Read, FileMode::Create, FileMode::CreateNew] {
        assert_eq!(kind(objects.open_file(nowhere, mode, PutOptions::default())), ErrorKind::NoSuchBucket);
    }
}
