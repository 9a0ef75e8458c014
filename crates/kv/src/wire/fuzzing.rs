//! What fuzzers and tests call: everything that reads bytes of the other side.

use bytes::Bytes;
use koine_engine::{Error, Result, StageToken};

use super::batch::Found;
use super::fields::Fields;
use super::frame::{Frame, Limits};
use super::reply::{
    Greeting, Welcome, take_commit, take_error, take_event, take_number, take_page, take_spaces, take_stat, take_usage,
};
use super::request::Request;

/// A request of any verb.
pub fn request(verb: u16, message: &[u8]) {
    let fields = Fields::new(Bytes::copy_from_slice(message));
    let _wrong = Request::decode(verb, fields, &mut Nothing);
}

/// No stage, and memory that reads as zeros.
struct Nothing;

impl Found for Nothing {
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

/// A stream of frames.
pub fn stream(mut bytes: &[u8]) {
    while let Ok(Some(_)) = Frame::read(&mut bytes, Limits::FULL) {}
}
