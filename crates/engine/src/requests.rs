//! Outcomes of named requests, so that a repeat after a lost answer gets the first one.
//!
//! The table lives in memory and in the space `REQUESTS`, in the order of log numbers; opening the
//! store reads it back. Stored form: the request (16 bytes), a byte (0 applied, 1 refused by a condition, 2
//! by an operation), the index of that condition or operation (u32, little-endian).
//!
//! Invariant: at least the last [`REQUESTS_KEPT`] outcomes are known, across restarts and checkpoints.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::batch::{Commit, KeyRange, RequestId, Version};
use crate::codec::{Reader, Writer};
use crate::error::{Error, Refusal, Result};
use crate::state::REQUESTS;
use crate::state::State;
use crate::tree::NodeSource;
use crate::tree::value::Value;

/// How many outcomes are remembered.
pub const REQUESTS_KEPT: usize = 65_536;

/// The stored form of an outcome.
pub fn encode(request: RequestId, outcome: Option<Refusal>) -> Bytes {
    let mut out = Vec::with_capacity(21);
    out.extend_from_slice(&request.0);
    let (kind, index) = match outcome {
        None => (0, 0),
        Some(Refusal::Condition(index)) => (1, index),
        Some(Refusal::Operation(index)) => (2, index),
    };
    out.push(kind);
    out.put_u32(index);
    Bytes::from(out)
}

/// Reads the stored form.
pub fn decode(bytes: &[u8]) -> Result<(RequestId, Option<Refusal>)> {
    let mut reader = Reader::new(bytes);
    let request = RequestId(reader.array()?);
    let (kind, index) = (reader.u8()?, reader.u32()?);
    reader.end()?;
    match kind {
        0 => Ok((request, None)),
        1 => Ok((request, Some(Refusal::Condition(index)))),
        2 => Ok((request, Some(Refusal::Operation(index)))),
        _ => Err(Error::damaged("an outcome of a request is of no known kind")),
    }
}

/// The outcomes in memory.
#[derive(Default)]
pub struct Requests {
    by_request: HashMap<RequestId, (Version, Option<Refusal>)>,
    in_order: VecDeque<(Version, RequestId)>,
}

impl Requests {
    /// Reads the outcomes that a state holds.
    pub fn load(state: &State, source: &dyn NodeSource) -> Result<Requests> {
        let mut requests = Requests::default();
        let Some(space) = state.space(source, REQUESTS)? else { return Ok(requests) };
        let mut cursor = space.tree.cursor(KeyRange::all());
        while let Some((key, value)) = cursor.next(source)? {
            let (Value::Raw(bytes), Ok(key)) = (value, <[u8; 8]>::try_from(key.as_ref())) else {
                return Err(Error::damaged("the table of requests holds something else"));
            };
            let (request, outcome) = decode(&bytes)?;
            requests.push(Version(u64::from_be_bytes(key)), request, outcome);
        }
        Ok(requests)
    }

    /// The outcome of a request seen before.
    pub fn find(&self, request: &RequestId) -> Option<Result<Commit>> {
        let (version, outcome) = self.by_request.get(request)?;
        Some(match outcome {
            None => Ok(Commit { version: *version, repeated: true }),
            Some(refusal) => Err(refused(*refusal)),
        })
    }

    /// The oldest outcome, if one more would be too many.
    pub fn to_forget(&self) -> Option<Version> {
        let full = self.in_order.len() >= REQUESTS_KEPT;
        self.in_order.front().filter(|_| full).map(|(version, _)| *version)
    }

    /// Adds an outcome; the oldest beyond the limit goes.
    pub fn push(&mut self, version: Version, request: RequestId, outcome: Option<Refusal>) {
        while self.in_order.len() >= REQUESTS_KEPT
            && let Some((_, oldest)) = self.in_order.pop_front()
        {
            self.by_request.remove(&oldest);
        }
        self.in_order.push_back((version, request));
        self.by_request.insert(request, (version, outcome));
    }
}

/// The error that a refused batch gets, the first time and when repeated.
pub fn refused(refusal: Refusal) -> Error {
    let message = match refusal {
        Refusal::Condition(index) => format!("condition {index} of the batch does not hold"),
        Refusal::Operation(index) => format!("operation {index} of the batch cannot be applied"),
    };
    Error::refused(refusal, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_a_round_trip_and_the_oldest_goes() {
        for outcome in [None, Some(Refusal::Condition(7)), Some(Refusal::Operation(1))] {
            assert_eq!(decode(&encode(RequestId([3; 16]), outcome)).unwrap(), (RequestId([3; 16]), outcome));
        }
        let mut requests = Requests::default();
        let id = |n: u64| RequestId(u128::from(n).to_be_bytes());
        for n in 0..REQUESTS_KEPT as u64 + 1 {
            assert_eq!(requests.to_forget().is_some(), n == REQUESTS_KEPT as u64);
            requests.push(Version(n + 1), id(n), None);
        }
        assert!(requests.find(&id(0)).is_none());
        assert_eq!(requests.find(&id(1)).unwrap().unwrap().version, Version(2));
    }
}
