//! Putting, reading, deleting: what docs/semantics.md says of keys, bodies and conditions.

mod support;

use koine_object::{DeleteOptions, ErrorKind, PutOptions};
use support::{bytes, get, kind, names, put, put_with, store};

#[test]
fn bodies_of_every_size_come_back() {
    let objects = store();
    for length in [0, 1, 4096, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3_500_000] {
        let body = bytes(length, length as u64);
        let info = put(&objects, "key", &body);
        assert_eq!(info.size, length as u64);
        assert_eq!(get(&objects, "key").unwrap(), body);
        assert_eq!(objects.head("bucket", "key").unwrap(), info);
    }
}

#[test]
fn odd_names_are_stored_byte_for_byte() {
    let objects = store();
    let long = "x".repeat(1024);
    let zeros = "\0".repeat(1024);
    let mut odd = vec![
        "\0",
        "a",
        "a\0",
        "a\0b",
        "a b",
        "a%20b",
        "a+b",
        "a//b",
        "/",
        "//",
        "../x",
        "a/../b",
        ".",
        "ÿ",
        "日本語",
        "\u{10FFFF}",
        "\u{1}",
        "\u{7f}",
        "\u{80}",
        &long,
        &zeros,
    ];
    for name in &odd {
        put(&objects, name, name.as_bytes());
    }
    odd.sort_unstable();
    assert_eq!(names(&objects), odd);
    for name in &odd {
        assert_eq!(get(&objects, name).unwrap(), name.as_bytes());
        assert!(objects.delete("bucket", name, DeleteOptions::default()).wait().unwrap().existed);
        assert_eq!(kind(objects.head("bucket", name)), ErrorKind::NoSuchKey);
    }
    assert_eq!(kind(put_with(&objects, &"x".repeat(1025), b"", PutOptions::default())), ErrorKind::KeyTooLong);
    assert_eq!(kind(put_with(&objects, "", b"", PutOptions::default())), ErrorKind::InvalidArgument);
}
