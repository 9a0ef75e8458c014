//! Checksums and ETags against values known elsewhere.

use koine_object::{Checksum, ChecksumAlgorithm, ErrorKind, Expected, PutOptions};

use crate::support::{kind, options, put_with, store};

/// Of `123456789`, the input of the catalogue of CRCs; SHA and MD5 by coreutils.
const NINE: &[u8] = b"123456789";
const KNOWN: [(ChecksumAlgorithm, &str); 5] = [
    (ChecksumAlgorithm::Crc32, "cbf43926"),
    (ChecksumAlgorithm::Crc32c, "e3069283"),
    (ChecksumAlgorithm::Crc64Nvme, "ae8b14860a799888"),
    (ChecksumAlgorithm::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
    (ChecksumAlgorithm::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
];

#[test]
fn values_are_those_known_elsewhere() {
    let objects = store();
    for (algorithm, value) in KNOWN {
        let expected = vec![Checksum::full(algorithm, hex::decode(value).unwrap())];
        let info = put_with(&objects, "key", NINE, options(algorithm)).unwrap();
        assert_eq!(info.checksums, expected);
        assert_eq!(info.etag.to_string(), "25f9e794323b453885f5181f1b624d0b");
        // As a promise, both ways of giving it.
        let expected = Expected { md5: None, checksums: expected };
        let given = PutOptions { expected: expected.clone(), ..PutOptions::default() };
        assert_eq!(put_with(&objects, "key", NINE, given).unwrap().checksums, info.checksums);
        let mut writer = objects.put("bucket", "key", options(algorithm)).unwrap();
        NINE.iter().for_each(|byte| writer.write(&[*byte]).unwrap());
        assert_eq!(writer.finish(&expected).wait().unwrap().checksums, info.checksums);
    }
}

#[test]
fn values_do_not_depend_on_the_pieces() {
    let objects = store();
    let body = crate::support::bytes(2_200_000, 3);
    for algorithm in ChecksumAlgorithm::ALL {
        let mut seen = Vec::new();
        for piece in [1777, 65_536, 1 << 20, 2_200_000] {
            let mut writer = objects.put("bucket", "key", options(algorithm)).unwrap();
            body.chunks(piece).for_each(|piece| writer.write(piece).unwrap());
            let info = writer.finish(&Expected::none()).wait().unwrap();
            seen.push((info.etag, info.checksums));
            assert_eq!(crate::support::get(&objects, "key").unwrap(), body);
        }
        seen.dedup();
        assert_eq!(seen.len(), 1);
    }
}

#[test]
fn crc64nvme_is_kept_where_nothing_is_asked_for() {
    let objects = store();
    let info = put_with(&objects, "key", NINE, PutOptions::default()).unwrap();
    assert_eq!(info.checksums[0].to_text(), "rosUhgp5mIg=");
    let md5 = Expected::parse_md5("JfnnlDI7RTiF9RgfG2JNCw==").unwrap();
    let given = PutOptions { expected: Expected { md5: Some(md5), checksums: Vec::new() }, ..PutOptions::default() };
    assert_eq!(put_with(&objects, "key", NINE, given).unwrap().checksums, info.checksums);
    let empty = put_with(&objects, "key", b"", PutOptions::default()).unwrap();
    assert_eq!(empty.checksums[0].to_text(), "AAAAAAAAAAA=");
    assert_eq!(empty.etag.to_string(), "d41d8cd98f00b204e9800998ecf8427e");
}

#[test]
fn texts_of_checksums_are_read_strictly() {
    for algorithm in ChecksumAlgorithm::ALL {
        let checksum = Checksum::full(algorithm, vec![7; algorithm.value_len()]);
        assert_eq!(Checksum::parse(algorithm, &checksum.to_text()).unwrap(), checksum);
        let composite = Checksum { composite_parts: Some(3), ..checksum };
        assert_eq!(Checksum::parse(algorithm, &composite.to_text()).unwrap(), composite);
        for wrong in ["", "AAAA", "!!!!", "AAAAAA==-x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(kind(Checksum::parse(algorithm, wrong)), ErrorKind::InvalidDigest, "{wrong}");
        }
        assert_eq!(ChecksumAlgorithm::from_name(&algorithm.name().to_lowercase()), Some(algorithm));
    }
    assert_eq!(kind(Expected::parse_md5("AAAA")), ErrorKind::InvalidDigest);
}
