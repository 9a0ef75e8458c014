//! Outcomes of requests, in the map.
//!
//! Invariant: as many are there as are remembered in memory, the oldest going as a new one comes.

use bytes::{BufMut, Bytes, BytesMut};
use koine_engine::{Error, KeyRange, Refusal, RequestId, Result, Version};

use super::format::OUTCOMES;
use super::{OUTCOMES_MAX, Snapshot, Write};
use crate::memory::history::History;
use crate::seam::Direction;

const COMMITTED: u8 = 0;
const CONDITION: u8 = 1;
const OPERATION: u8 = 2;
/// So many are read at once.
const SCAN: usize = 1024;

fn key(number: u64) -> Bytes {
    Bytes::from([OUTCOMES, &number.to_be_bytes()].concat())
}

fn damaged() -> Error {
    Error::damaged("the record of an outcome is not readable")
}

/// What remembers an outcome and forgets the oldest.
pub(super) fn writes(number: u64, request: RequestId, outcome: &Result<Version>) -> Vec<Write> {
    let mut record = BytesMut::from(&request.0[..]);
    match outcome {
        Ok(version) => {
            record.put_u8(COMMITTED);
            record.put_u64_le(version.0);
        }
        Err(error) => {
            let (form, index) = match error.refusal() {
                Some(Refusal::Condition(index)) => (CONDITION, index),
                Some(Refusal::Operation(index)) => (OPERATION, index),
                None => return Vec::new(),
            };
            record.put_u8(form);
            record.put_u32_le(index);
            record.put_slice(error.message().as_bytes());
        }
    }
    let mut writes = vec![Write::Put(key(number), record.freeze())];
    writes.extend(number.checked_sub(OUTCOMES_MAX).map(|oldest| Write::Delete(key(oldest))));
    writes
}

fn decode(record: &[u8]) -> Result<(RequestId, Result<Version>)> {
    let (request, rest) = record.split_first_chunk::<16>().ok_or_else(damaged)?;
    let (form, rest) = rest.split_first().ok_or_else(damaged)?;
    if *form == COMMITTED {
        let version = rest.try_into().map_err(|_| damaged())?;
        return Ok((RequestId(*request), Ok(Version(u64::from_le_bytes(version)))));
    }
    let (index, message) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let index = u32::from_le_bytes(*index);
    let refusal = match *form {
        CONDITION => Refusal::Condition(index),
        OPERATION => Refusal::Operation(index),
        _ => return Err(damaged()),
    };
    Ok((RequestId(*request), Err(Error::refused(refusal, String::from_utf8_lossy(message)))))
}

/// Reads all outcomes into a history; gives the number of the next one.
pub(super) fn load(snapshot: &impl Snapshot, history: &mut History) -> Result<u64> {
    let mut range = KeyRange::prefix(OUTCOMES);
    let mut next = 0;
    loop {
        let entries = snapshot.scan(&range, Direction::Forward, SCAN)?;
        for (key, record) in &entries {
            let number = key.get(OUTCOMES.len()..).and_then(|number| number.try_into().ok()).ok_or_else(damaged)?;
            next = u64::from_be_bytes(number) + 1;
            let (request, outcome) = decode(record)?;
            history.remember(request, outcome);
        }
        match entries.last() {
            Some((last, _)) if entries.len() == SCAN => range.start = Bytes::from([last.as_ref(), &[0]].concat()),
            _ => return Ok(next),
        }
    }
}
