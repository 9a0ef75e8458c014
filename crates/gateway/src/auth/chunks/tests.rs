//! The decoder against the published example, and against damage of every kind.

use proptest::prelude::*;

use super::*;
use crate::auth::signing::Secret;

const SCOPE: &str = "20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n";
const SEED: &[u8; 64] = b"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";

fn signer() -> ChunkSigner {
    let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let key = SigningKey::derive(&secret, "20130524", "us-east-1");
    ChunkSigner::new(key, SCOPE.to_owned(), &Signature::parse(SEED).unwrap())
}

/// What the heads of these bodies announce.
fn checksum() -> Option<Vec<String>> {
    Some(vec!["x-amz-checksum-crc32".to_owned()])
}

fn published_example() -> Vec<u8> {
    // "Example: PUT Object with streaming upload" of the S3 reference: 65,536 and 1,024 times the letter a.
    let mut body = Vec::new();
    body.extend_from_slice(
        b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n",
    );
    body.extend_from_slice(&[b'a'; 65536]);
    body.extend_from_slice(
        b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n",
    );
    body.extend_from_slice(&[b'a'; 1024]);
    body.extend_from_slice(
        b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n",
    );
    body
}

fn decode(decoder: &mut ChunkDecoder, body: &[u8], frame_len: usize) -> Result<Vec<u8>, ChunkError> {
    let mut out = Vec::new();
    for frame in body.chunks(frame_len.max(1)) {
        let mut frame = Bytes::copy_from_slice(frame);
        while let Some(data) = decoder.next_data(&mut frame)? {
            out.extend_from_slice(&data);
        }
    }
    decoder.finish()?;
    Ok(out)
}

#[test]
fn the_published_example_decodes_in_frames_of_any_length() {
    let body = published_example();
    for frame_len in [1, 2, 7, 88, 1000, 65_536, body.len()] {
        let mut decoder = ChunkDecoder::new(Some(signer()), None, 66_560);
        assert_eq!(decode(&mut decoder, &body, frame_len).unwrap(), vec![b'a'; 66_560]);
    }
}

#[test]
fn a_changed_byte_anywhere_is_refused() {
    let body = published_example();
    for at in [0, 3, 30, 86, 200, 65_630, 65_700, 66_700, body.len() - 70] {
        let mut damaged = body.clone();
        damaged[at] ^= 1;
        let mut decoder = ChunkDecoder::new(Some(signer()), None, 66_560);
        assert!(decode(&mut decoder, &damaged, 4096).is_err(), "byte {at}");
    }
}

#[test]
fn a_body_cut_at_any_byte_is_refused() {
    let body = published_example();
    // Only the line end after the last chunk may be missing: some clients leave it out.
    for length in (0..body.len() - 2).step_by(97) {
        let mut decoder = ChunkDecoder::new(Some(signer()), None, 66_560);
        assert!(decode(&mut decoder, &body[..length], 8192).is_err(), "cut at {length}");
    }
}

#[test]
fn without_its_last_chunk_a_body_is_not_whole() {
    let mut decoder = ChunkDecoder::new(None, checksum(), 3);
    assert_eq!(decode(&mut decoder, b"3\r\nabc\r\n", 99), Err(ChunkError::Length));
}

#[test]
fn more_or_fewer_bytes_than_announced_are_refused() {
    let body = b"3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(decode(&mut ChunkDecoder::new(None, checksum(), 2), body, 99), Err(ChunkError::Length));
    assert_eq!(decode(&mut ChunkDecoder::new(None, checksum(), 4), body, 99), Err(ChunkError::Length));
    assert_eq!(decode(&mut ChunkDecoder::new(None, checksum(), 3), body, 99).unwrap(), b"abc");
}

#[test]
fn trailers_are_read() {
    let mut decoder = ChunkDecoder::new(None, checksum(), 3);
    let body = b"3\r\nabc\r\n0\r\nX-Amz-Checksum-Crc32: NSRBwg==\r\n\r\n";
    assert_eq!(decode(&mut decoder, body, 5).unwrap(), b"abc");
    assert_eq!(decoder.trailers(), [("x-amz-checksum-crc32".to_owned(), "NSRBwg==".to_owned())]);
}

#[test]
fn trailers_are_those_announced_and_each_comes_once() {
    let after = |trailers: &str, announced: Option<Vec<String>>| {
        let body = format!("3\r\nabc\r\n0\r\n{trailers}\r\n");
        decode(&mut ChunkDecoder::new(None, announced, 3), body.as_bytes(), 7)
    };
    let crc = "x-amz-checksum-crc32:NSRBwg==\r\n";
    assert_eq!(after(crc, checksum()).unwrap(), b"abc");
    // That one is missing is told by who reads them.
    assert_eq!(after("", checksum()).unwrap(), b"abc");
    assert_eq!(after(&format!("{crc}{crc}"), checksum()), Err(ChunkError::Trailers));
    assert_eq!(after(&format!("{crc}x-amz-checksum-sha1:x\r\n"), checksum()), Err(ChunkError::Trailers));
    assert_eq!(after("x-amz-meta-a:b\r\n", checksum()), Err(ChunkError::Trailers));
    let signature = format!("{crc}x-amz-trailer-signature:{}\r\n", "0".repeat(64));
    assert_eq!(after(&signature, checksum()), Err(ChunkError::Trailers));
    assert_eq!(after(crc, Some(Vec::new())), Err(ChunkError::Trailers));
    assert_eq!(after(crc, None), Err(ChunkError::Malformed));
}

#[test]
fn signed_trailers_need_their_signature() {
    let mut seed = signer();
    let sign = |string: String, seed: &mut ChunkSigner| {
        let signature = seed.key.sign(string.as_bytes());
        seed.previous = String::from_utf8(signature.as_bytes().to_vec()).unwrap();
        seed.previous.clone()
    };
    let one =
        format!("AWS4-HMAC-SHA256-PAYLOAD\n{SCOPE}{}\n{EMPTY_SHA256}\n{}", seed.previous, hex::encode(sha256(b"abc")));
    let one = sign(one, &mut seed);
    let last = format!("AWS4-HMAC-SHA256-PAYLOAD\n{SCOPE}{}\n{EMPTY_SHA256}\n{EMPTY_SHA256}", seed.previous);
    let last = sign(last, &mut seed);
    let hash = hex::encode(sha256(b"x-amz-checksum-crc32:NSRBwg==\n"));
    let trailer = format!("AWS4-HMAC-SHA256-TRAILER\n{SCOPE}{}\n{hash}", seed.previous);
    let trailer = sign(trailer, &mut seed);
    let start = format!("3;chunk-signature={one}\r\nabc\r\n0;chunk-signature={last}\r\n");

    let whole = format!("{start}x-amz-checksum-crc32:NSRBwg==\r\nx-amz-trailer-signature:{trailer}\r\n\r\n");
    let mut decoder = ChunkDecoder::new(Some(signer()), checksum(), 3);
    assert_eq!(decode(&mut decoder, whole.as_bytes(), 10).unwrap(), b"abc");

    let signature = format!("x-amz-trailer-signature:{trailer}\r\n");
    let wrong = format!("x-amz-trailer-signature:{}\r\n", "0".repeat(64));
    let checked = format!("{start}x-amz-checksum-crc32:NSRBwg==\r\n");
    for twice in [format!("{wrong}{signature}"), format!("{signature}{wrong}"), format!("{signature}{signature}")] {
        let mut decoder = ChunkDecoder::new(Some(signer()), checksum(), 3);
        assert_eq!(decode(&mut decoder, format!("{checked}{twice}\r\n").as_bytes(), 10), Err(ChunkError::Trailers));
    }

    for bad in [
        format!("{start}x-amz-checksum-crc32:NSRBwg==\r\n\r\n"),
        format!("{start}x-amz-checksum-crc32:NSRBwg=A\r\nx-amz-trailer-signature:{trailer}\r\n\r\n"),
        format!("{start}\r\n"),
    ] {
        let mut decoder = ChunkDecoder::new(Some(signer()), checksum(), 3);
        assert_eq!(decode(&mut decoder, bad.as_bytes(), 10), Err(ChunkError::Signature));
    }
}

#[test]
fn lines_and_trailers_are_bounded() {
    let mut decoder = ChunkDecoder::new(None, checksum(), 3);
    assert_eq!(decode(&mut decoder, &[b'0'; 300], 10), Err(ChunkError::Malformed));
    let mut decoder = ChunkDecoder::new(None, checksum(), 0);
    let endless = [b"0\r\n".to_vec(), vec![b'a'; TRAILERS_LEN_MAX + 1]].concat();
    assert_eq!(decode(&mut decoder, &endless, 100), Err(ChunkError::TrailersTooLong));
}

#[test]
fn a_chunk_larger_than_memory_is_not_gathered() {
    let mut decoder = ChunkDecoder::new(None, checksum(), u64::MAX);
    let mut frame = Bytes::from_static(b"ffffffffff\r\nabc");
    assert_eq!(decoder.next_data(&mut frame).unwrap().unwrap(), "abc");
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_decoded_without_panic(body in proptest::collection::vec(any::<u8>(), 0..600), frame in 1usize..64) {
        let _ = decode(&mut ChunkDecoder::new(None, checksum(), 100), &body, frame);
        let _ = decode(&mut ChunkDecoder::new(Some(signer()), checksum(), 100), &body, frame);
    }

    #[test]
    fn what_is_encoded_decodes(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..6), frame in 1usize..700) {
        let data = parts.concat();
        let mut body = Vec::new();
        for part in &parts {
            body.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            body.extend_from_slice(part);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let mut decoder = ChunkDecoder::new(None, checksum(), data.len() as u64);
        prop_assert_eq!(decode(&mut decoder, &body, frame).unwrap(), data);
    }
}
