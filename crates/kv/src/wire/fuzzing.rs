//! What fuzzers and tests call: everything that reads bytes of the other side.
//!
//! Checksums of frames are put right before they are read, so that a fuzzer reaches what lies behind them. Invariant: every
//! function takes any bytes without a panic, and asserts that what is read is written back the same.

use bytes::Bytes;
use koine_engine::{Error, Result, StageToken};

use super::batch::References;
use super::fields::Fields;
use super::frame::{Frame, HEADER_LEN, Limits, frame_sum, is_whole};
use super::reply::{
    Greeting, Welcome, take_commit, take_error, take_event, take_number, take_page, take_spaces, take_stat, take_usage,
};
use super::request::{Request, without_stages};

/// A request of any verb.
pub fn request(verb: u16, message: &[u8]) {
    let fields = Fields::new(Bytes::copy_from_slice(message));
    let Ok(Some(request)) = Request::decode(verb, fields, &mut Nothing) else { return };
    assert_eq!(request.verb(), verb);
    // No stage is named, and what lay in shared memory is written inline.
    let again = request.encode(&without_stages).expect("what was read can be written");
    let read = Request::decode(verb, Fields::new(again.clone()), &mut Nothing).ok().flatten();
    let read = read.expect("what was written is read");
    assert_eq!(read.encode(&without_stages).expect("what was read can be written"), again);
}

/// No stage, and memory that reads as zeros.
struct Nothing;

impl References for Nothing {
    fn stage(&mut self, _number: u64) -> Result<StageToken> {
        Err(Error::invalid("no stage"))
    }

    fn shared(&mut self, offset: u64, length: u32) -> Result<Bytes> {
        let fits = offset.checked_add(u64::from(length)).is_some_and(|end| end <= 4096);
        if fits { Ok(Bytes::from(vec![0; length as usize])) } else { Err(Error::invalid("outside of the memory")) }
    }
}

/// Every kind of answer.
pub fn reply(message: &[u8]) {
    let message = Bytes::copy_from_slice(message);
    let _error = take_error(message.clone());
    let _wrong = Greeting::decode(message.clone());
    let _wrong = Welcome::decode(message.clone());
    let _wrong = take_commit(message.clone());
    let _wrong = take_event(message.clone());
    let _wrong = take_number(message.clone());
    let _wrong = take_page(message.clone());
    let _wrong = take_spaces(message.clone());
    let _wrong = take_stat(message.clone());
    let _wrong = take_usage(message);
}

/// A stream of frames: as it is, and with checksums that are right.
pub fn stream(bytes: &[u8]) {
    let mut input = bytes;
    while let Ok(Some(_)) = Frame::read(&mut input, Limits::FULL) {}
    let sealed = sealed(bytes);
    for limits in [Limits::GREETING, Limits::FULL] {
        let mut input = sealed.as_slice();
        let mut at = 0;
        while let Ok(Some(frame)) = Frame::read(&mut input, limits) {
            let again = [&frame.header()[..], &frame.message, &frame.data].concat();
            assert_eq!(sealed.get(at..at + again.len()), Some(again.as_slice()));
            assert!(is_whole(&again) && !is_whole(again.get(..again.len() - 1).unwrap_or_default()));
            at += again.len();
        }
    }
}

/// The same bytes as frames: of each what its header must have is put there, and lengths are those of a short frame.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    const PART_LEN: u16 = 1024;
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
        let number = |at: usize| {
            header.get(at..at + 2).map_or(0, |at| at.iter().fold(0, |sum, byte| sum << 8 | u16::from(*byte)))
        };
        // Some lengths are left as they are, most of which are not allowed.
        let keeps = number(12) % 16 == 0;
        let [message_len, data_len] = [16, 20].map(|at| usize::from(number(at) % PART_LEN));
        let is_shared = number(6) & 1 == 1 && data_len > 0;
        let (message, behind) = behind.split_at(message_len.min(behind.len()));
        let (data, behind) = behind.split_at(if is_shared { 8 } else { data_len }.min(behind.len()));
        let mut header = *header;
        let mut put = |at: usize, field: &[u8]| {
            header.iter_mut().skip(at).zip(field).for_each(|(byte, new)| *byte = *new);
        };
        put(7, &[u8::from(is_shared)]);
        if !keeps {
            put(16, &(message_len as u32).to_le_bytes());
            put(20, &(data_len as u32).to_le_bytes());
        }
        put(24, &frame_sum(message).to_le_bytes());
        put(28, &if data.is_empty() { 0 } else { frame_sum(data) }.to_le_bytes());
        let own = frame_sum(header.get(4..).unwrap_or_default());
        header.iter_mut().zip(own.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        out.extend([&header[..], message, data].concat());
        rest = behind;
    }
    out.extend_from_slice(rest);
    out
}
