//! Objects as files: modes, positions, and when what was written is seen.

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::support::{bytes, get, keys_in_bucket, kind, names, put, store};
use koine_object::{
    ByteRange, EditOptions, Error, ErrorKind, FileMode, ObjectFile, ObjectName, Objects, PutCondition, PutOptions,
    Result,
};

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

#[test]
fn edits_of_a_file_are_one_commit_at_flush_and_close() {
    let objects = store();
    let mut wanted = bytes(200_000, 4);
    let before = put(&objects, "file", &wanted);
    let mut file = open(&objects, FileMode::ReadWrite).unwrap();
    let write = |file: &mut ObjectFile, wanted: &mut Vec<u8>, at: usize, piece: &[u8]| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(piece).unwrap();
        wanted.resize(wanted.len().max(at + piece.len()), 0);
        wanted[at..at + piece.len()].copy_from_slice(piece);
    };
    let all = |file: &mut ObjectFile| {
        let mut read = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut read).unwrap();
        read
    };
    let old = wanted.clone();
    write(&mut file, &mut wanted, 10, b"ten");
    write(&mut file, &mut wanted, 12, b"over");
    write(&mut file, &mut wanted, 190_000, &bytes(20_000, 5));
    write(&mut file, &mut wanted, 250_000, b"past the end");
    assert_eq!(all(&mut file), wanted);
    assert_eq!((file.size(), get(&objects, "file").unwrap()), (wanted.len() as u64, old));
    file.flush().unwrap();
    let flushed = objects.head("bucket", "file").unwrap();
    assert_eq!((flushed.id, file.info()), (before.id, Some(&flushed)));
    assert_eq!(get(&objects, "file").unwrap(), wanted);
    // All of the pieces were one commit; they are too small to be staged, which takes commits of some back ends.
    assert_eq!(flushed.version.0, before.version.0 + 1);
    // Shorter, then longer again: what was cut reads as zeros.
    file.truncate(100).unwrap();
    file.truncate(150).unwrap();
    wanted.truncate(100);
    wanted.resize(150, 0);
    assert_eq!(all(&mut file), wanted);
    write(&mut file, &mut wanted, 120, b"new");
    let info = file.close().unwrap().unwrap();
    assert_eq!((get(&objects, "file").unwrap(), objects.head("bucket", "file").unwrap()), (wanted.clone(), info));
    // A file that is dropped leaves nothing of what was not flushed.
    let mut file = open(&objects, FileMode::ReadWrite).unwrap();
    file.write_all(b"lost").unwrap();
    drop(file);
    assert_eq!(get(&objects, "file").unwrap(), wanted);
}

#[test]
fn a_file_edits_the_object_that_it_opened() {
    let objects = store();
    put(&objects, "file", b"old");
    for mode in [FileMode::ReadWrite, FileMode::Append] {
        let mut file = open(&objects, mode).unwrap();
        file.write_all(b"mine").unwrap();
        put(&objects, "file", b"another");
        assert_eq!(cause(file.flush()), ErrorKind::Conflict);
        assert_eq!(get(&objects, "file").unwrap(), b"another");
        let mut file = open(&objects, mode).unwrap();
        file.write_all(b"mine").unwrap();
        objects.delete("bucket", "file", koine_object::DeleteOptions::default()).wait().unwrap();
        assert_eq!(kind(file.close()), ErrorKind::NoSuchKey);
        put(&objects, "file", b"old");
    }
    assert_eq!(
        kind(objects.open_file(ObjectName::new("bucket", "no"), FileMode::ReadWrite, PutOptions::default())),
        ErrorKind::NoSuchKey
    );
}

#[test]
fn a_file_is_appended_to_where_it_ends_by_then() {
    let objects = store();
    let mut file = open(&objects, FileMode::Append).unwrap();
    assert_eq!(kind(open(&objects, FileMode::Read)), ErrorKind::NoSuchKey);
    file.write_all(b"one,").unwrap();
    file.write_all(b"two,").unwrap();
    assert!(names(&objects).is_empty());
    file.flush().unwrap();
    assert_eq!(get(&objects, "file").unwrap(), b"one,two,");
    let mut other = open(&objects, FileMode::Append).unwrap();
    assert_eq!(other.position(), 8);
    other.write_all(b"other,").unwrap();
    file.write_all(b"three").unwrap();
    other.close().unwrap();
    assert_eq!(cause(file.read(&mut [0])), ErrorKind::InvalidArgument);
    let info = file.close().unwrap().unwrap();
    assert_eq!(get(&objects, "file").unwrap(), b"one,two,other,three");
    assert_eq!(info.size, 19);
    // An object is made, though nothing be written.
    let empty = ObjectName::new("bucket", "empty");
    objects.open_file(empty, FileMode::Append, PutOptions::default()).unwrap().close().unwrap();
    assert_eq!(get(&objects, "empty").unwrap(), b"");
}

#[test]
fn what_waits_for_a_flush_is_bounded() {
    let objects = store();
    put(&objects, "file", &[0; 100_000]);
    let mut file = open(&objects, FileMode::ReadWrite).unwrap();
    let mut wanted = vec![0; 100_000];
    for n in 0..1000_usize {
        file.seek(SeekFrom::Start(n as u64 * 100)).unwrap();
        file.write_all(b"piece").unwrap();
        wanted[n * 100..n * 100 + 5].copy_from_slice(b"piece");
    }
    file.close().unwrap();
    assert_eq!(get(&objects, "file").unwrap(), wanted);
}

/// Gives some bytes, is interrupted now and then, and fails in the end if it is told so.
struct Source<'b> {
    rest: &'b [u8],
    reads: usize,
    fails: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        match (self.reads % 3, self.rest.is_empty()) {
            (0, _) => Err(io::ErrorKind::Interrupted.into()),
            (_, true) if self.fails => Err(io::Error::other("the cable is out")),
            _ => {
                let most = buffer.len().min(100_001);
                self.rest.read(&mut buffer[..most])
            }
        }
    }
}

#[test]
fn objects_come_out_of_what_can_be_read_and_go_into_what_can_be_written() {
    let objects = store();
    let name = ObjectName::new("bucket", "file");
    let body = bytes(2_500_000, 3);
    let source = |fails| Source { rest: &body, reads: 0, fails };
    let edit = EditOptions::default;

    let made = objects.put_from(name, &mut source(false), PutOptions::default()).unwrap();
    assert_eq!((made.size, get(&objects, "file").unwrap()), (2_500_000, body.clone()));
    let absent = PutOptions { condition: PutCondition::absent(), ..PutOptions::default() };
    assert_eq!(cause(objects.put_from(name, &mut source(false), absent)), ErrorKind::PreconditionFailed);

    let written = objects.write_from(name, 1_000_000, &mut source(false), edit()).unwrap();
    assert_eq!(written.size, 3_500_000);
    let both = [&body[..1_000_000], &body].concat();
    assert_eq!(get(&objects, "file").unwrap(), both);

    // A source that fails leaves what was there.
    let failed = objects.put_from(name, &mut source(true), PutOptions::default()).unwrap_err();
    assert_eq!(failed.to_string(), "the cable is out");
    assert_eq!(objects.write_from(name, 0, &mut source(true), edit()).unwrap_err().to_string(), "the cable is out");
    assert_eq!(get(&objects, "file").unwrap(), both);

    let reader = objects.get("bucket", "file").unwrap();
    let range = |offset, length| ByteRange { offset, length };
    for (range, expected) in [
        (range(0, u64::MAX), &both[..]),
        (range(999_999, 1_500_001), &both[999_999..2_500_000]),
        (range(3_499_990, 100), &both[3_499_990..]),
        (range(3_500_000, 1), &[]),
        (range(u64::MAX, u64::MAX), &[]),
    ] {
        let mut target = Vec::new();
        assert_eq!(reader.read_to(range, &mut target).unwrap(), expected.len() as u64, "{range:?}");
        assert!(target == expected, "{range:?}");
    }
    let mut full = [0; 10];
    let refused = reader.read_to(range(0, 11), &mut &mut full[..]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WriteZero);
}
