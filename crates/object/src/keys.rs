//! Which key holds what: the catalogue's keys, a bucket's keys, and the coding of names in them.
//!
//! Invariants:
//! - Coded names sort as the names' bytes do, a name sorts before every longer one that begins with it, and
//!   the coding of a prefix is a prefix of the coding.
//! - A coded name has no zero byte, so that the terminator ends it; coding UTF-8 never makes it longer.
//! - docs/format-object.md tells the same; changes are made in both.

use bytes::Bytes;
use koine_kv::{KeyRange, SpaceId};

use crate::counter::{Count, Shard};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ObjectId, UploadId};
use crate::request::{OBJECT_KEY_LEN_MAX, PART_NUMBER_MAX};

/// The space of users, keys and buckets.
pub(crate) const CATALOGUE: SpaceId = SpaceId(16);
/// Bucket spaces have ids from here up; below are spaces of fixed meaning.
pub(crate) const BUCKET_SPACE_MIN: u64 = 1 << 32;

const NAMES: u8 = b'n';
const UPLOADS: u8 = b'u';
const PARTS: u8 = b'p';
const DATA: u8 = b'd';
const PART_TABLES: u8 = b't';
const ACCESS_TIMES: u8 = b'a';
const BUCKETS: u8 = b'b';
const SNAPSHOTS: u8 = b'v';
const COUNTERS: u8 = b'c';
const INDEXES: u8 = b'x';
const TERMINATOR: u8 = 0;
/// How many bytes of a value the key of an index entry has. They may end inside a character, so that what they are
/// of sorts as they do.
const INDEXED_LEN_MAX: usize = 256;
/// Between a bucket's name, which cannot have it, and that of a snapshot of it.
const SNAPSHOT_MARK: char = '@';
/// The longest name of a bucket or of a snapshot, in bytes.
pub(crate) const NAME_LEN_MAX: usize = 63;

/// What lies under the id of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfId {
    Data,
    PartTable,
    AccessTime,
}

impl OfId {
    fn room(self) -> u8 {
        match self {
            OfId::Data => DATA,
            OfId::PartTable => PART_TABLES,
            OfId::AccessTime => ACCESS_TIMES,
        }
    }
}

/// What a key below an upload's parts holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfPart {
    Record = 0,
    Data = 1,
}

/// Adds the coding of `name`: bytes up to 0xBF go up by one, which frees zero for the terminator; 0xC0 and
/// 0xC1, which UTF-8 never has, become 0xC1 and a byte more; the others stay.
fn code_name(name: &[u8], key: &mut Vec<u8>) {
    for byte in name {
        match byte {
            0..=0xBF => key.push(byte + 1),
            0xC0 => key.extend([0xC1, 1]),
            0xC1 => key.extend([0xC1, 2]),
            _ => key.push(*byte),
        }
    }
}

/// The name that was coded, and what follows its terminator; `None` when the bytes are no coded name.
fn decode_name(coded: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut name = Vec::with_capacity(coded.len());
    let mut rest = coded;
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            &TERMINATOR => return Some((name, rest)),
            0x01..=0xC0 => name.push(byte - 1),
            0xC1 => {
                let (which, after) = rest.split_first()?;
                rest = after;
                name.push(match which {
                    1 => 0xC0,
                    2 => 0xC1,
                    _ => return None,
                });
            }
            _ => name.push(*byte),
        }
    }
}

fn named(room: u8, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 26);
    key.push(room);
    code_name(name, &mut key);
    key
}

fn decode_named(room: u8, key: &[u8]) -> Result<(String, &[u8])> {
    let name = match key.split_first() {
        Some((first, coded)) if *first == room => decode_name(coded),
        _ => None,
    };
    let text = name.and_then(|(name, rest)| Some((String::from_utf8(name).ok()?, rest)));
    text.ok_or_else(|| Error::damaged(format!("the key {} of a bucket's space is no coded name", hex::encode(key))))
}

/// Holds the catalogue's own record.
pub(crate) fn catalogue_head() -> Bytes {
    Bytes::from_static(b"f")
}

/// Holds the root key.
pub(crate) fn root_key() -> Bytes {
    Bytes::from_static(b"kroot")
}

/// Holds a bucket's record; a prefix of a name gives the prefix of the keys.
pub(crate) fn bucket(name: &str) -> Bytes {
    let mut key = vec![BUCKETS];
    key.extend_from_slice(name.as_bytes());
    Bytes::from(key)
}

/// The bucket that a key of the catalogue is of.
pub(crate) fn bucket_name(key: &[u8]) -> Result<String> {
    let name = key.strip_prefix(&[BUCKETS]).and_then(|name| String::from_utf8(name.to_vec()).ok());
    name.ok_or_else(|| Error::damaged(format!("the key {} of the catalogue is no bucket", hex::encode(key))))
}

/// Begins the keys of the snapshots of a bucket, by its id.
pub(crate) fn snapshots_of(bucket: u64) -> Bytes {
    let mut key = vec![SNAPSHOTS];
    key.extend_from_slice(&bucket.to_be_bytes());
    Bytes::from(key)
}

/// Holds the record of a snapshot of a bucket.
pub(crate) fn snapshot(bucket: u64, name: &str) -> Bytes {
    Bytes::from([&snapshots_of(bucket), name.as_bytes()].concat())
}

/// The name of the snapshot that a key of the catalogue is of.
pub(crate) fn snapshot_name(key: &[u8]) -> Result<String> {
    let name = match key.split_at_checked(9) {
        Some(([SNAPSHOTS, ..], name)) => String::from_utf8(name.to_vec()).ok(),
        _ => None,
    };
    name.ok_or_else(|| Error::damaged(format!("the key {} of the catalogue is no snapshot", hex::encode(key))))
}

/// Begins every newest version's key whose name begins with `prefix`; with an empty one, every name's.
pub(crate) fn names_prefix(prefix: &str) -> Bytes {
    Bytes::from(named(NAMES, prefix.as_bytes()))
}

/// Holds the newest version's record of a name.
pub(crate) fn name(name: &str) -> Bytes {
    let mut key = named(NAMES, name.as_bytes());
    key.push(TERMINATOR);
    Bytes::from(key)
}

/// The name of a key in the room of names, and whether it is the newest version's.
pub(crate) fn name_of(key: &[u8]) -> Result<(String, bool)> {
    decode_named(NAMES, key).map(|(name, rest)| (name, rest.is_empty()))
}

/// Holds the record of an older version of a name, or a delete marker: newer ones sort first.
pub(crate) fn older(name: &str, number: u64) -> Bytes {
    let mut key = named(NAMES, name.as_bytes());
    key.push(TERMINATOR);
    key.extend_from_slice(&(!number).to_be_bytes());
    Bytes::from(key)
}

/// The keys of all older versions of exactly this name.
pub(crate) fn older_of(name: &str) -> KeyRange {
    let KeyRange { start, end } = KeyRange::prefix(self::name(name));
    KeyRange { start: Bytes::from([start.as_ref(), &[0]].concat()), end }
}

/// The name of a key in the room of names, and the number of an older version; `None` for the newest.
pub(crate) fn version_of(key: &[u8]) -> Result<(String, Option<u64>)> {
    let (name, rest) = decode_named(NAMES, key)?;
    if rest.is_empty() {
        return Ok((name, None));
    }
    let number = <[u8; 8]>::try_from(rest)
        .map_err(|_| Error::damaged(format!("the key {} is of no version", hex::encode(key))))?;
    Ok((name, Some(!u64::from_be_bytes(number))))
}

/// Begins the key of every upload whose name begins with `prefix`.
pub(crate) fn uploads_prefix(prefix: &str) -> Bytes {
    Bytes::from(named(UPLOADS, prefix.as_bytes()))
}

/// Begins the keys of the uploads of exactly this name.
pub(crate) fn uploads_of(name: &str) -> Bytes {
    let mut key = named(UPLOADS, name.as_bytes());
    key.push(TERMINATOR);
    Bytes::from(key)
}

/// Holds an upload's record.
pub(crate) fn upload(name: &str, id: UploadId) -> Bytes {
    let mut key = named(UPLOADS, name.as_bytes());
    key.push(TERMINATOR);
    key.extend_from_slice(&id.0);
    Bytes::from(key)
}

/// The name and id of an upload's key.
pub(crate) fn upload_of(key: &[u8]) -> Result<(String, UploadId)> {
    let (name, rest) = decode_named(UPLOADS, key)?;
    let id = <[u8; 16]>::try_from(rest)
        .map_err(|_| Error::damaged(format!("the key {} is of no upload", hex::encode(key))))?;
    Ok((name, UploadId(id)))
}

/// Begins the keys of all that belongs to an upload's parts.
pub(crate) fn parts_prefix(id: UploadId) -> Bytes {
    let mut key = vec![PARTS];
    key.extend_from_slice(&id.0);
    Bytes::from(key)
}

/// Begins the keys of an upload's part records (or part data), which sort by number.
pub(crate) fn parts_of(id: UploadId, what: OfPart) -> Bytes {
    let mut key = parts_prefix(id).to_vec();
    key.push(what as u8);
    Bytes::from(key)
}

/// Holds a part's record or data.
pub(crate) fn part(id: UploadId, what: OfPart, number: u32) -> Bytes {
    let mut key = parts_of(id, what).to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    Bytes::from(key)
}

/// Begins the keys of all that belongs to parts.
pub(crate) fn all_parts() -> Bytes {
    Bytes::from_static(&[PARTS])
}

/// The upload and the number that a key of a part is of, and what it holds.
pub(crate) fn part_of(key: &[u8]) -> Option<(UploadId, OfPart, u32)> {
    let (upload, rest) = key.strip_prefix(&[PARTS])?.split_first_chunk::<16>()?;
    let (what, number) = match rest.split_first()? {
        (0, number) => (OfPart::Record, number),
        (1, number) => (OfPart::Data, number),
        _ => return None,
    };
    Some((UploadId(*upload), what, u32::from_be_bytes(number.try_into().ok()?)))
}

/// The number of a part record's key.
pub(crate) fn part_number_of(key: &[u8]) -> Result<u32> {
    let number = key.last_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    let number = number.filter(|number| key.len() == 22 && (1..=PART_NUMBER_MAX).contains(number));
    number.ok_or_else(|| Error::damaged(format!("the key {} is of no part", hex::encode(key))))
}

/// Holds an object's data.
pub(crate) fn data(id: ObjectId) -> Bytes {
    of_id(OfId::Data, id)
}

/// Holds the sizes and checksums of the parts that an object was joined from.
pub(crate) fn part_table(id: ObjectId) -> Bytes {
    of_id(OfId::PartTable, id)
}

/// Holds when an object was last read.
pub(crate) fn access_time(id: ObjectId) -> Bytes {
    of_id(OfId::AccessTime, id)
}

/// Holds what an object has in a room of ids.
pub(crate) fn of_id(room: OfId, id: ObjectId) -> Bytes {
    let mut key = vec![room.room()];
    key.extend_from_slice(&id.0.to_be_bytes());
    Bytes::from(key)
}

/// Begins the keys of a room of ids.
pub(crate) fn all_of_ids(room: OfId) -> Bytes {
    Bytes::from(vec![room.room()])
}

/// The id that a key of such a room is of.
pub(crate) fn id_of(key: &[u8]) -> Option<ObjectId> {
    let (_, id) = key.split_first()?;
    id.try_into().ok().map(|id| ObjectId(u64::from_be_bytes(id)))
}

/// Begins the keys of all counters of a bucket.
pub(crate) fn counters() -> Bytes {
    Bytes::from_static(&[COUNTERS])
}

/// Holds one shard of a count.
pub(crate) fn counter(count: Count, shard: Shard) -> Bytes {
    Bytes::copy_from_slice(&[COUNTERS, count as u8, shard.0])
}

/// As much of a value as an index sorts by.
pub(crate) fn indexed_part(value: &str) -> &[u8] {
    let bytes = value.as_bytes();
    bytes.get(..INDEXED_LEN_MAX).unwrap_or(bytes)
}

/// Begins the keys of all entries of all indexes.
pub(crate) fn indexes() -> Bytes {
    Bytes::from_static(&[INDEXES])
}

/// Begins the keys of all entries of an index.
pub(crate) fn index(number: u32) -> Bytes {
    Bytes::from(index_key(number, &[]))
}

fn index_key(number: u32, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(value.len() + 64);
    key.push(INDEXES);
    key.extend_from_slice(&number.to_be_bytes());
    code_name(value, &mut key);
    key
}

/// Begins the keys of the entries of an index whose values' parts begin with `value`.
pub(crate) fn index_values(number: u32, value: &[u8]) -> Bytes {
    Bytes::from(index_key(number, value))
}

/// Begins the keys of the entries of an index whose values have this part, and whose names begin with `prefix`.
pub(crate) fn index_names(number: u32, value: &[u8], prefix: &str) -> Bytes {
    let mut key = index_key(number, value);
    key.push(TERMINATOR);
    code_name(prefix.as_bytes(), &mut key);
    Bytes::from(key)
}

/// Is the entry of an index for an object whose value has this part.
pub(crate) fn index_entry(number: u32, value: &[u8], name: &str) -> Bytes {
    let mut key = index_names(number, value, name).to_vec();
    key.push(TERMINATOR);
    Bytes::from(key)
}

/// The number of the index that an entry's key is of.
pub(crate) fn index_number_of(key: &[u8]) -> Option<u32> {
    key.get(1..5).and_then(|number| number.try_into().ok()).map(u32::from_be_bytes)
}

/// The part of the value and the name of an entry's key.
pub(crate) fn index_entry_of(key: &[u8]) -> Result<(Vec<u8>, String)> {
    let parts = match key.split_at_checked(5) {
        Some(([INDEXES, ..], coded)) => decode_name(coded).and_then(|(value, rest)| Some((value, decode_name(rest)?))),
        _ => None,
    };
    let entry = parts.and_then(|(value, (name, rest))| {
        let name = String::from_utf8(name).ok().filter(|_| rest.is_empty())?;
        Some((value, name))
    });
    entry.ok_or_else(|| Error::damaged(format!("the key {} is no entry of an index", hex::encode(key))))
}

/// Whether S3 allows the name for an object.
pub(crate) fn check_object_key(key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "an object's name has at least one byte"));
    }
    if key.len() > OBJECT_KEY_LEN_MAX {
        let message = format!("the object's name has {} bytes; {OBJECT_KEY_LEN_MAX} are allowed", key.len());
        return Err(Error::new(ErrorKind::KeyTooLong, message));
    }
    Ok(())
}

/// Whether S3 allows the name for a bucket: 3 to 63 of lower-case letters, digits, dots and hyphens, beginning
/// and ending with a letter or digit, no two dots in a row, not of the form of an IPv4 address, and without
/// the prefixes and suffixes that S3 keeps to itself.
pub(crate) fn check_bucket_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let reason = if !(3..=NAME_LEN_MAX).contains(&bytes.len()) {
        "it has to have 3 to 63 bytes"
    } else if !bytes.iter().all(|byte| plain(*byte) || matches!(byte, b'.' | b'-')) {
        "it may have lower-case letters, digits, dots and hyphens only"
    } else if !(bytes.first().copied().is_some_and(plain) && bytes.last().copied().is_some_and(plain)) {
        "it has to begin and end with a letter or a digit"
    } else if name.contains("..") {
        "two dots may not follow each other"
    } else if name.parse::<std::net::Ipv4Addr>().is_ok() {
        "it may not look like an IPv4 address"
    } else if ["xn--", "sthree-", "amzn-s3-demo-"].iter().any(|prefix| name.starts_with(prefix))
        || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|suffix| name.ends_with(suffix))
    {
        "its beginning or end is kept for S3 itself"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidBucketName, format!("{name:?} is no name for a bucket: {reason}")))
}

/// What a bucket can be read by: its name, or that and a snapshot's.
pub(crate) fn bucket_and_snapshot(name: &str) -> (&str, Option<&str>) {
    match name.split_once(SNAPSHOT_MARK) {
        Some((bucket, snapshot)) => (bucket, Some(snapshot)),
        None => (name, None),
    }
}

/// Whether a snapshot may have the name: 1 to 63 letters, digits, dots, hyphens and low lines of ASCII, of which a
/// letter or digit is first.
pub(crate) fn check_snapshot_name(name: &str) -> Result<()> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    let bytes = name.as_bytes();
    let allowed = |byte: &u8| plain(byte) || matches!(byte, b'.' | b'-' | b'_');
    if bytes.len() <= NAME_LEN_MAX && bytes.first().is_some_and(plain) && bytes.iter().all(allowed) {
        return Ok(());
    }
    let message = format!(
        "{name:?} is no name for a snapshot: it has to be 1 to {NAME_LEN_MAX} letters, digits, dots, hyphens and low \
         lines, and to begin with a letter or a digit"
    );
    Err(Error::new(ErrorKind::InvalidBucketName, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn coded(name: &[u8]) -> Vec<u8> {
        let mut key = named(NAMES, name);
        key.push(TERMINATOR);
        key
    }

    #[test]
    fn a_name_of_any_utf8_keeps_its_length() {
        for name in ["\0", "a", "\u{7f}", "\u{80}", "ÿ", "日本", "\u{10FFFF}"] {
            assert_eq!(coded(name.as_bytes()).len(), name.len() + 2);
        }
        assert!(upload(&"\0".repeat(1024), UploadId([9; 16])).len() < koine_kv::KEY_LEN_MAX);
    }

    #[test]
    fn older_versions_of_a_name_follow_it_newest_first() {
        let keys =
            [name("a"), older("a", u64::MAX), older("a", 7), older("a", 6), older("a", 1), name("a\0"), name("aa")];
        assert!(keys.is_sorted());
        let KeyRange { start, end } = older_of("a");
        let inside = |key: &&Bytes| **key >= start && end.as_ref().is_none_or(|end| *key < end);
        assert_eq!(keys.iter().filter(inside).count(), 4);
        assert_eq!(version_of(&keys[2]).unwrap(), ("a".to_owned(), Some(7)));
        assert_eq!(version_of(&keys[0]).unwrap(), ("a".to_owned(), None));
        assert!(version_of(&[&keys[0], [1].as_slice()].concat()).is_err());
    }

    #[test]
    fn bucket_names_follow_the_rules_of_s3() {
        for good in ["abc", "a-b.c9", "0aa", &"x".repeat(63), "1.2.3", "1.2.3.4.5"] {
            assert!(check_bucket_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(64);
        for bad in
            ["", "ab", "Abc", "a_b", "-ab", "ab-", ".ab", "a..b", "192.168.5.4", "xn--ab", "ab-s3alias", &long, "aé"]
        {
            assert_eq!(check_bucket_name(bad).unwrap_err().kind(), ErrorKind::InvalidBucketName, "{bad}");
        }
    }

    #[test]
    fn snapshots_are_named_after_their_bucket() {
        assert_eq!(bucket_and_snapshot("abc"), ("abc", None));
        assert_eq!(bucket_and_snapshot("abc@2026-01-01_a.B"), ("abc", Some("2026-01-01_a.B")));
        for good in ["a", "Z", "0", "2026-01-01T00_00", &"x".repeat(63)] {
            assert!(check_snapshot_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a@b", "-a", "_a", ".a", "a b", "a/b", "é", "a\0", &"x".repeat(64)] {
            assert_eq!(check_snapshot_name(bad).unwrap_err().kind(), ErrorKind::InvalidBucketName, "{bad}");
        }
        assert_eq!(snapshot_name(&snapshot(7, "name")).unwrap(), "name");
        assert!(check_bucket_name("abc@def").is_err());
    }

    proptest! {
        #[test]
        fn coding_keeps_the_order_of_bytes(a in bytes_near_edges(), b in bytes_near_edges()) {
            prop_assert_eq!(a.cmp(&b), coded(&a).cmp(&coded(&b)));
        }

        #[test]
        fn entries_of_indexes_sort_by_value_and_then_by_name(
            a in ("\\PC{0,3}", "\\PC{1,3}"), b in ("\\PC{0,3}", "\\PC{1,3}"), number: u32,
        ) {
            let entry = |(value, name): &(String, String)| index_entry(number, value.as_bytes(), name);
            prop_assert_eq!(a.cmp(&b), entry(&a).cmp(&entry(&b)));
            prop_assert_eq!(index_entry_of(&entry(&a)).unwrap(), (a.0.as_bytes().to_vec(), a.1.clone()));
            prop_assert!(entry(&a).starts_with(&index_values(number, a.0.as_bytes())));
            prop_assert!(index_entry(number, &[b'\0'; 256], &"\0".repeat(1024)).len() < koine_kv::KEY_LEN_MAX);
        }

        #[test]
        fn coding_can_be_undone(name in bytes_near_edges(), after in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut key = coded(&name);
            key.extend_from_slice(&after);
            prop_assert_eq!(decode_name(&key[1..]), Some((name, after.as_slice())));
        }

        #[test]
        fn a_prefix_codes_to_a_prefix(a in bytes_near_edges(), b in bytes_near_edges()) {
            let whole = [a.as_slice(), b.as_slice()].concat();
            prop_assert!(named(NAMES, &whole).starts_with(&named(NAMES, &a)));
            prop_assert_eq!(whole.starts_with(&b), named(NAMES, &whole).starts_with(&named(NAMES, &b)) && whole.starts_with(&b));
        }

        #[test]
        fn arbitrary_keys_never_panic(key in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (name_of(&key), version_of(&key), upload_of(&key), part_number_of(&key), bucket_name(&key), snapshot_name(&key));
            let _ = index_entry_of(&key);
        }
    }

    /// Bytes in which the coding's edges are frequent.
    fn bytes_near_edges() -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![Just(0u8), Just(1), Just(0xBF), Just(0xC0), Just(0xC1), Just(0xC2), Just(0xFF), any::<u8>()];
        proptest::collection::vec(byte, 0..12)
    }
}
