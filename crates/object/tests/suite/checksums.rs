//! Checksums and ETags against values known elsewhere.

use koine_object::{Checksum, ChecksumAlgorithm, ErrorKind, EtagKind, Expected, PutOptions};
use md5::Digest;

use crate::support::{kind, options, put_with, store};

/// Of `123456789`, the input of the catalogue of CRCs; SHA and MD5 by coreutils, xxHash by its own library.
const NINE: &[u8] = b"123456789";
const KNOWN: [(ChecksumAlgorithm, &str); 10] = [
    (ChecksumAlgorithm::Crc32, "cbf43926"),
    (ChecksumAlgorithm::Crc32c, "e3069283"),
    (ChecksumAlgorithm::Crc64Nvme, "ae8b14860a799888"),
    (ChecksumAlgorithm::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
    (ChecksumAlgorithm::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
    (
        ChecksumAlgorithm::Sha512,
        "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274ad27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
    ),
    (ChecksumAlgorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
    (ChecksumAlgorithm::Xxhash64, "8cb841db40e6ae83"),
    (ChecksumAlgorithm::Xxhash3, "72dcb18b67a17dff"),
    (ChecksumAlgorithm::Xxhash128, "33119477ede5dcd5e9716427681d5860"),
];
/// Of the bytes 0, 1, …, 250, 0, … , 1000 of them: longer than what xxHash takes at once.
const LONG: [(ChecksumAlgorithm, &str); 5] = [
    (
        ChecksumAlgorithm::Sha512,
        "5096498d96f50f9a137c4db5b8b0cd38383ad55350fb5a98805fedc31fa1262f1f0cf4d6f12d7ecd8dedd933a4c9126344fe22e937a8ad35fdeae1e876ae698b",
    ),
    (ChecksumAlgorithm::Md5, "a24f1e3ef66950e1327f210e3997ba2c"),
    (ChecksumAlgorithm::Xxhash64, "f306f04aa88b54d3"),
    (ChecksumAlgorithm::Xxhash3, "33ef703fb2b20ed1"),
    (ChecksumAlgorithm::Xxhash128, "18bf41bc8229e27733ef703fb2b20ed1"),
];

#[test]
fn values_of_more_bytes_are_those_known_elsewhere() {
    let objects = store();
    let body: Vec<u8> = (0..1000_u32).map(|place| (place % 251) as u8).collect();
    for (algorithm, value) in LONG {
        let mut writer = objects.put("bucket", "key", options(algorithm)).unwrap();
        body.chunks(77).for_each(|piece| writer.write(piece).unwrap());
        let info = writer.finish(&Expected::none()).wait().unwrap();
        assert_eq!(info.checksums, [Checksum::full(algorithm, hex::decode(value).unwrap())]);
        assert_eq!(objects.head("bucket", "key").unwrap().checksums, info.checksums);
    }
}

#[test]
fn values_are_those_known_elsewhere() {
    let objects = store();
    for (algorithm, value) in KNOWN {
        let expected = vec![Checksum::full(algorithm, hex::decode(value).unwrap())];
        let info = put_with(&objects, "key", NINE, options(algorithm)).unwrap();
        assert_eq!(info.checksums, expected);
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
fn an_etag_is_the_md5_where_it_is_asked_for_or_compared() {
    let objects = store();
    let asked = || PutOptions { etag: EtagKind::Md5, ..PutOptions::default() };
    for (body, etag) in [(NINE, "25f9e794323b453885f5181f1b624d0b"), (b"", "d41d8cd98f00b204e9800998ecf8427e")] {
        assert_eq!(put_with(&objects, "key", body, asked()).unwrap().etag.to_string(), etag);
        let md5 = Some(<[u8; 16]>::try_from(hex::decode(etag).unwrap()).unwrap());
        let compared = PutOptions { expected: Expected { md5, checksums: Vec::new() }, ..PutOptions::default() };
        assert_eq!(put_with(&objects, "key", body, compared).unwrap().etag.to_string(), etag);
        // Too late to be computed.
        let writer = objects.put("bucket", "key", PutOptions::default()).unwrap();
        let trailer = Expected { md5, checksums: Vec::new() };
        assert_eq!(kind(writer.finish(&trailer).wait()), ErrorKind::InvalidRequest);
    }
    let large = crate::support::bytes(2_200_000, 3);
    for piece in [1777, 65_536, 1 << 20, 2_200_000] {
        let mut writer = objects.put("bucket", "key", asked()).unwrap();
        large.chunks(piece).for_each(|piece| writer.write(piece).unwrap());
        let etag = writer.finish(&Expected::none()).wait().unwrap().etag;
        assert_eq!(etag.to_string(), hex::encode(md5::Md5::digest(&large)));
    }
}

#[test]
fn an_etag_that_is_drawn_is_no_others_and_has_a_dash() {
    let objects = store();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let etag = put_with(&objects, "key", NINE, PutOptions::default()).unwrap().etag.to_string();
        assert!(etag.contains('-') && seen.insert(etag.clone()), "{etag}");
        assert_eq!(objects.head("bucket", "key").unwrap().etag.to_string(), etag);
    }
    // A request by a name tells it again, another body under that name another one.
    let named = || PutOptions { request: Some(koine_kv::RequestId([7; 16])), ..PutOptions::default() };
    let first = put_with(&objects, "named", NINE, named()).unwrap().etag;
    assert_eq!(put_with(&objects, "named", NINE, named()).unwrap().etag, first);
    assert_ne!(put_with(&objects, "named", b"other", named()).unwrap().etag, first);
    assert!(first.to_string().contains('-'));
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
            seen.push(info.checksums);
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
