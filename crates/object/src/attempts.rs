//! Wrong passwords, remembered so that guessing is slow and locks nobody out.
//!
//! Three counts are kept: of a peer for a name, of a peer for all names, and of a name for all peers. Each delays
//! whoever goes on beyond what is free. The last two do not concern a peer that gave the right password of this name
//! before: what others do at its name, or beside it at its address, does not keep it out.
//!
//! Invariants:
//! - What is kept of an attempt is 16 bytes of a hash, however long its name was, and a count; there are at most
//!   [`REMEMBERED_MAX`] of each kind.
//! - An attempt counts from its beginning: many at once are no way around the delay.
//! - A single peer cannot bring a name to the count from which on other peers wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use koine_env::Timestamp;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};

const SECOND: u64 = 1_000_000_000;
/// So many failures in a row of a peer for a name are free; the next waits for a second, and then twice as long each.
const IN_A_ROW_FREE: u32 = 10;
/// The longest wait, and how soon one failure of a peer, or of a name, is forgiven.
const DELAY_SECONDS_MAX: u64 = 60;
/// So many failures of a peer are free, whatever the names; beyond, it has one a minute.
const OF_PEER_FREE: u32 = 50;
/// So many failures for a name are free, whoever makes them; beyond, peers that never were right have one a minute
/// between them.
const OF_NAME_FREE: u32 = 100;
/// Counts that are remembered, and pairs of peers and names that were right.
const REMEMBERED_MAX: usize = 10_000;

/// Who tries to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogInPeer {
    /// A user of this machine, by a socket.
    Uid(u32),
    /// Somebody at an address.
    Address(IpAddr),
    /// This process.
    Here,
}

impl LogInPeer {
    fn text(self) -> String {
        match self {
            LogInPeer::Uid(uid) => format!("uid {uid}"),
            LogInPeer::Here => "here".to_owned(),
            LogInPeer::Address(address) => match address.to_canonical() {
                // Whoever has one address of such a network has all of them.
                IpAddr::V6(address) => format!("network {:x}", u128::from(address) >> 64),
                IpAddr::V4(address) => format!("address {address}"),
            },
        }
    }
}

/// What is remembered in place of a name or a peer.
type Mark = [u8; 16];

fn mark(kind: &str, parts: [&str; 2]) -> Mark {
    let mut hash = Sha256::new();
    for part in [kind].iter().chain(&parts) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut mark = [0; 16];
    mark.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    mark
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: Timestamp,
}

impl Failures {
    /// Without what time has forgiven.
    fn at(self, now: Timestamp) -> Failures {
        let forgiven = now.0.saturating_sub(self.last.0) / (DELAY_SECONDS_MAX * SECOND);
        let count = self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX));
        let last = self.last.0.saturating_add(forgiven.saturating_mul(DELAY_SECONDS_MAX * SECOND));
        Failures { count, last: Timestamp(last) }
    }

    /// When the next of a row of failures may be tried.
    fn next_in_a_row(self) -> u64 {
        let Some(over) = self.count.checked_sub(IN_A_ROW_FREE) else { return 0 };
        let delay = 1u64.checked_shl(over).unwrap_or(u64::MAX).min(DELAY_SECONDS_MAX);
        self.last.0.saturating_add(delay * SECOND)
    }
}

/// The three counts that an attempt concerns.
#[derive(Clone, Copy, Debug)]
struct Marks {
    pair: Mark,
    peer: Mark,
    name: Mark,
}

#[derive(Debug, Default)]
struct Remembered {
    failures: HashMap<Mark, Failures>,
    /// Pairs of a peer and a name that were right, and when.
    right: HashMap<Mark, Timestamp>,
}

impl Remembered {
    /// Whether the next attempt may be made now.
    fn admits(&self, marks: &Marks, now: Timestamp) -> bool {
        let count = |mark| self.failures.get(mark).map_or(0, |failures| failures.at(now).count);
        let in_a_row = self.failures.get(&marks.pair).copied().unwrap_or_default();
        let is_known = self.right.contains_key(&marks.pair);
        in_a_row.next_in_a_row() <= now.0
            && (is_known || count(&marks.peer) < OF_PEER_FREE && count(&marks.name) < OF_NAME_FREE)
    }

    fn count(&mut self, marks: &Marks, now: Timestamp) {
        for (mark, forgives) in [(marks.pair, false), (marks.peer, true), (marks.name, true)] {
            if self.failures.len() >= REMEMBERED_MAX && !self.failures.contains_key(&mark) {
                // Whoever would fill this has many peers, each of which is slow: what it pushes out is as old as it is.
                forget_oldest(&mut self.failures, |failures| failures.last);
            }
            let failures = self.failures.entry(mark).or_default();
            let before = if forgives && failures.count > 0 { failures.at(now) } else { *failures };
            // The minutes of what is forgiven go on, whatever comes between.
            let last = if forgives && before.count > 0 { before.last } else { now };
            *failures = Failures { count: before.count.saturating_add(1), last };
        }
    }

    fn take_back(&mut self, marks: &[Mark]) {
        for mark in marks {
            if let Some(failures) = self.failures.get_mut(mark) {
                failures.count = failures.count.saturating_sub(1);
                if failures.count == 0 {
                    self.failures.remove(mark);
                }
            }
        }
    }

    fn was_right(&mut self, pair: Mark, now: Timestamp) {
        if self.right.len() >= REMEMBERED_MAX && !self.right.contains_key(&pair) {
            forget_oldest(&mut self.right, |at| *at);
        }
        self.right.insert(pair, now);
    }
}

fn forget_oldest<T>(table: &mut HashMap<Mark, T>, age: impl Fn(&T) -> Timestamp) {
    let oldest = table.iter().min_by_key(|(_, kept)| age(kept)).map(|(mark, _)| *mark);
    oldest.iter().for_each(|mark| drop(table.remove(mark)));
}

/// What is remembered of attempts to log in.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    remembered: Mutex<Remembered>,
}

/// An attempt under way: a failure, unless it turns out otherwise.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    attempts: &'a Attempts,
    marks: Marks,
}

impl Attempts {
    /// Begins an attempt; `Busy` where it has to wait.
    pub fn begin(&self, peer: LogInPeer, name: &str, now: Timestamp) -> Result<Attempt<'_>> {
        let (peer, name) = (peer.text(), name.to_ascii_lowercase());
        let marks = Marks {
            pair: mark("pair", [&peer, &name]),
            peer: mark("peer", [&peer, ""]),
            name: mark("name", [&name, ""]),
        };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if !remembered.admits(&marks, now) {
            return Err(Error::new(ErrorKind::Busy, "too many wrong passwords in a row; wait up to a minute"));
        }
        remembered.count(&marks, now);
        Ok(Attempt { attempts: self, marks })
    }
}

impl Attempt<'_> {
    fn with(&self, change: impl FnOnce(&mut Remembered)) {
        change(&mut self.attempts.remembered.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The password was right.
    pub fn succeeded(self, now: Timestamp) {
        self.with(|remembered| {
            remembered.failures.remove(&self.marks.pair);
            remembered.take_back(&[self.marks.peer, self.marks.name]);
            remembered.was_right(self.marks.pair, now);
        });
    }

    /// It was never looked at.
    pub fn was_none(self) {
        self.with(|remembered| remembered.take_back(&[self.marks.pair, self.marks.peer, self.marks.name]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACKER: LogInPeer = LogInPeer::Uid(1001);
    const OWNER: LogInPeer = LogInPeer::Uid(1000);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * SECOND)
    }

    /// Tries a wrong password; whether it was looked at.
    fn fails(attempts: &Attempts, peer: LogInPeer, name: &str, now: Timestamp) -> bool {
        attempts.begin(peer, name, now).is_ok()
    }

    #[test]
    fn ten_failures_in_a_row_delay_the_next_by_a_second_and_then_by_more() {
        let attempts = Attempts::default();
        let mut now = Timestamp(1);
        for _ in 0..10 {
            assert!(fails(&attempts, ATTACKER, "ann", now));
        }
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            let early = Timestamp(now.0 + wait * SECOND - 1);
            let refused = attempts.begin(ATTACKER, "Ann", early).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy);
            attempts.begin(ATTACKER, "bob", early).unwrap().was_none();
            now = Timestamp(now.0 + wait * SECOND);
            assert!(fails(&attempts, ATTACKER, "ann", now));
        }
        now = Timestamp(now.0 + 60 * SECOND);
        attempts.begin(ATTACKER, "ann", now).unwrap().succeeded(now);
        attempts.begin(ATTACKER, "ann", now).unwrap().was_none();
    }

    #[test]
    fn a_peer_that_guesses_does_not_lock_the_name_for_its_owner() {
        let attempts = Attempts::default();
        // Without an end, as fast as it may, and from the owner's first log in on.
        for second in 0..10_000 {
            let _looked_at = fails(&attempts, ATTACKER, "ann", at(second));
            if second % 100 == 99 {
                let owner = if second < 5_000 { LogInPeer::Uid(5) } else { OWNER };
                attempts.begin(owner, "ann", at(second)).unwrap().was_none();
            }
        }
        attempts.begin(OWNER, "ann", at(10_000)).unwrap().succeeded(at(10_000));
    }

    #[test]
    fn many_peers_together_have_little_and_do_not_keep_out_who_was_right_before() {
        let attempts = Attempts::default();
        attempts.begin(OWNER, "ann", at(1)).unwrap().succeeded(at(1));
        let looked_at = (0..1000).filter(|uid| fails(&attempts, LogInPeer::Uid(*uid + 2000), "ann", at(2))).count();
        assert_eq!(looked_at, OF_NAME_FREE as usize);
        assert!(!fails(&attempts, LogInPeer::Uid(9999), "ann", at(50)));
        attempts.begin(OWNER, "ann", at(50)).unwrap().succeeded(at(50));
        // A minute forgives one.
        assert!(fails(&attempts, LogInPeer::Uid(9999), "ann", at(62)));
        assert!(!fails(&attempts, LogInPeer::Uid(9998), "ann", at(62)));
    }

    #[test]
    fn a_peer_does_not_get_more_by_many_names_nor_by_being_right_between() {
        let attempts = Attempts::default();
        attempts.begin(ATTACKER, "his-own", at(1)).unwrap().succeeded(at(1));
        let mut looked_at = 0;
        for name in 0..200 {
            looked_at += usize::from(fails(&attempts, ATTACKER, &format!("user{name}"), at(2)));
            attempts.begin(ATTACKER, "his-own", at(2)).unwrap().succeeded(at(2));
        }
        assert_eq!(looked_at, OF_PEER_FREE as usize);
        attempts.begin(OWNER, "user0", at(2)).unwrap().succeeded(at(2));
    }

    #[test]
    fn attempts_count_from_their_beginning() {
        let attempts = Attempts::default();
        let under_way: Vec<_> = (0..30).map_while(|_| attempts.begin(ATTACKER, "ann", at(1)).ok()).collect();
        assert_eq!(under_way.len(), IN_A_ROW_FREE as usize);
        under_way.into_iter().for_each(Attempt::was_none);
        assert!(attempts.remembered.lock().unwrap().failures.is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded_in_entries_and_bytes() {
        let attempts = Attempts::default();
        let long = "x".repeat(1 << 20);
        for peer in 0..12_000_u32 {
            let address = IpAddr::from((u128::from(peer) << 64).to_be_bytes());
            let name = if peer % 4000 == 0 { long.clone() } else { peer.to_string() };
            let attempt = attempts.begin(LogInPeer::Address(address), &name, at(u64::from(peer))).unwrap();
            if peer % 2 == 0 {
                attempt.succeeded(at(u64::from(peer)));
            }
        }
        let remembered = attempts.remembered.lock().unwrap();
        assert!(remembered.failures.len() <= REMEMBERED_MAX && remembered.right.len() <= REMEMBERED_MAX);
        let entry = size_of::<(Mark, Failures)>();
        assert!(remembered.failures.capacity() * entry + remembered.right.capacity() * entry < 2 << 20);
        drop(remembered);
        // The newest is remembered, in whatever network its address lies.
        let last = LogInPeer::Address(IpAddr::from(((11_999_u128 << 64) + 7).to_be_bytes()));
        for _ in 0..9 {
            assert!(fails(&attempts, last, "11999", at(12_000)));
        }
        assert!(!fails(&attempts, last, "11999", at(12_000)));
    }
}
