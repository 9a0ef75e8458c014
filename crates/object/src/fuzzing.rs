//! What the fuzz target of records calls. Invariant: any bytes are read or refused, and what is read is written back
//! so that it reads the same.

use crate::keys;
use crate::record::{
    BucketRecord, HeadRecord, MarkerRecord, ObjectRecord, OlderRecord, PartRecord, RootKeyRecord, UploadRecord,
    decode_part_table, summary,
};

/// Every record that a store holds, and every key.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = ObjectRecord::decode(bytes) {
        assert_eq!(ObjectRecord::decode(&record.encode()).ok(), Some(record));
    }
    if let Ok(record) = UploadRecord::decode(bytes) {
        assert_eq!(UploadRecord::decode(&record.encode()).ok(), Some(record));
    }
    if let Ok(record) = PartRecord::decode(bytes) {
        assert_eq!(PartRecord::decode(&record.encode()).ok(), Some(record));
    }
    if let Ok(record) = BucketRecord::decode(bytes) {
        assert_eq!(BucketRecord::decode(&record.encode()).ok(), Some(record));
    }
    if let Ok(record) = RootKeyRecord::decode(bytes) {
        assert!(RootKeyRecord::decode(&record.encode()).ok() == Some(record));
    }
    if let Ok(record) = HeadRecord::decode(bytes) {
        assert!(HeadRecord::decode(&record.encode()).is_ok());
    }
    match OlderRecord::decode(bytes) {
        Ok(OlderRecord::Marker(marker)) => assert_eq!(MarkerRecord::decode(&marker.encode()).ok(), Some(marker)),
        Ok(OlderRecord::Object(record)) => assert_eq!(ObjectRecord::decode(&record.encode()).ok(), Some(record)),
        Err(_) => {}
    }
    let _ = decode_part_table(bytes);
    let _ = summary("key".to_owned(), koine_kv::Version(1), bytes);
}

/// Every key of a bucket's space and of the catalogue.
pub fn key(bytes: &[u8]) {
    if let Ok((name, true)) = keys::name_of(bytes) {
        assert_eq!(keys::name(&name).as_ref(), bytes);
    }
    if let Ok((name, Some(number))) = keys::version_of(bytes) {
        assert_eq!(keys::older(&name, number).as_ref(), bytes);
    }
    if let Ok((name, id)) = keys::upload_of(bytes) {
        assert_eq!(keys::upload(&name, id).as_ref(), bytes);
    }
    if let Ok((value, name)) = keys::index_entry_of(bytes) {
        let number = keys::index_number_of(bytes).unwrap_or_default();
        assert_eq!(keys::index_entry(number, &value, &name).as_ref(), bytes);
    }
    let _ = keys::part_number_of(bytes);
    if let Ok(name) = keys::bucket_name(bytes) {
        assert_eq!(keys::bucket(&name).as_ref(), bytes);
    }
}

/// A message of the verb of objects that stands in front of it, as it is asked or told.
pub fn message(bytes: &[u8]) {
    if let Some((verb, message)) = bytes.split_first_chunk::<2>() {
        crate::calls::any_message(0x8000 | u16::from_le_bytes(*verb) & 0xff, message);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![0u8..20, any::<u8>()], 0..200)) {
            record(&bytes);
            key(&bytes);
            message(&bytes);
            // Behind the version, where most bytes are refused.
            let versioned: Vec<u8> = std::iter::once(1).chain(bytes).collect();
            record(&versioned);
        }
    }
}
