//! Two places side by side: what only one has, what differs, and why.
//!
//! Invariants:
//! - `koine sync` copies exactly what `koine diff` tells: both ask here.
//! - Of each place one entry is looked at at a time.
//! - Where it cannot be told whether two are equal, they differ.

use std::cmp::Ordering;
use std::sync::mpsc::Receiver;

use super::tree::{Entry, TreeItem};
use crate::cp::plan::LeftOut;
use crate::failure::{Failure, Outcome};

/// What is compared of a file or an object that both places have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareBy {
    /// Length, then ETags where both have one, then times.
    Time,
    /// Length alone.
    Size,
    /// Length, then CRC-64/NVME of all bytes.
    Checksum,
}

/// How two entries of a name differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// Their lengths do.
    Size,
    /// Both ETags are MD5s, and they do.
    Etag,
    /// The first was changed after the second.
    Newer,
    /// Their checksums do.
    Checksum,
}

impl DifferenceKind {
    /// As people read it.
    pub fn text(self) -> &'static str {
        match self {
            DifferenceKind::Size => "size",
            DifferenceKind::Etag => "etag",
            DifferenceKind::Newer => "newer",
            DifferenceKind::Checksum => "checksum",
        }
    }
}

/// What is found of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The first place alone has it.
    First(Entry),
    /// The second place alone has it.
    Second(Entry),
    /// Both have it, and not the same.
    Differs(Entry, DifferenceKind),
    /// Both have it, and it is the same.
    Same,
    /// It cannot be read, in the first place.
    LeftOut(LeftOut),
}

/// A listing, one entry of which is looked at.
struct ListingCursor {
    told: Receiver<TreeItem>,
    next: Option<Entry>,
    /// The name before, which the next must come behind.
    before: Option<String>,
}

impl ListingCursor {
    fn new(told: Receiver<TreeItem>) -> Self {
        ListingCursor { told, next: None, before: None }
    }

    /// The next entry; what is left out before it goes to `left_out`.
    fn fill(&mut self, left_out: &mut Vec<LeftOut>) -> Outcome {
        while self.next.is_none() {
            match self.told.recv() {
                Err(_) => return Ok(()),
                Ok(TreeItem::Failed(failure)) => return Err(failure),
                Ok(TreeItem::LeftOut(left)) => left_out.push(left),
                Ok(TreeItem::Entry(entry)) => {
                    if self.before.as_ref().is_some_and(|before| *before >= entry.name) {
                        return Err(Failure::failed(format!(
                            "{}: the listing is not in the order of names, so it cannot be compared",
                            entry.name
                        )));
                    }
                    self.before = Some(entry.name.clone());
                    self.next = Some(entry);
                }
            }
        }
        Ok(())
    }
}

/// Compares two listings.
pub struct Compare<'a> {
    first: ListingCursor,
    second: ListingCursor,
    left_out: Vec<LeftOut>,
    by: CompareBy,
    /// Whether a name has the same bytes in both places.
    same_bytes: &'a (dyn Fn(&Entry, &Entry) -> Outcome<bool> + Sync),
}

impl<'a> Compare<'a> {
    /// Of two listings.
    pub fn new(
        first: Receiver<TreeItem>,
        second: Receiver<TreeItem>,
        by: CompareBy,
        same_bytes: &'a (dyn Fn(&Entry, &Entry) -> Outcome<bool> + Sync),
    ) -> Self {
        Compare {
            first: ListingCursor::new(first),
            second: ListingCursor::new(second),
            left_out: Vec::new(),
            by,
            same_bytes,
        }
    }

    /// What is found next; `None` at the end of both.
    pub fn next(&mut self) -> Outcome<Option<Difference>> {
        self.first.fill(&mut self.left_out)?;
        // What the second place cannot read is seen when it is written, if it is.
        self.second.fill(&mut Vec::new())?;
        if let Some(left) = self.left_out.pop() {
            return Ok(Some(Difference::LeftOut(left)));
        }
        let order = match (&self.first.next, &self.second.next) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(first), Some(second)) => first.name.cmp(&second.name),
        };
        let first = if order.is_le() { self.first.next.take() } else { None };
        let second = if order.is_ge() { self.second.next.take() } else { None };
        Ok(match (first, second) {
            (Some(first), Some(second)) => Some(match self.judge(&first, &second)? {
                None => Difference::Same,
                Some(why) => Difference::Differs(first, why),
            }),
            (Some(first), None) => Some(Difference::First(first)),
            (None, Some(second)) => Some(Difference::Second(second)),
            (None, None) => None,
        })
    }

    fn judge(&self, first: &Entry, second: &Entry) -> Outcome<Option<DifferenceKind>> {
        Ok(match self.by {
            _ if first.size != second.size => Some(DifferenceKind::Size),
            CompareBy::Size => None,
            CompareBy::Checksum if (self.same_bytes)(first, second)? => None,
            CompareBy::Checksum => Some(DifferenceKind::Checksum),
            CompareBy::Time => by_time(first, second),
        })
    }
}

fn by_time(first: &Entry, second: &Entry) -> Option<DifferenceKind> {
    let is_md5 = |etag: &str| etag.len() == 32 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (&first.etag, &second.etag) {
        (Some(one), Some(other)) if one.eq_ignore_ascii_case(other) => return None,
        (Some(one), Some(other)) if is_md5(one) && is_md5(other) => return Some(DifferenceKind::Etag),
        _ => {}
    }
    match (first.modified, second.modified) {
        (Some(first), Some(second)) if first <= second => None,
        _ => Some(DifferenceKind::Newer),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn entry(name: &str, size: u64, modified: i64, etag: &str) -> Entry {
        let etag = Some(etag.to_owned()).filter(|etag| !etag.is_empty());
        Entry { name: name.to_owned(), size, modified: Some(modified), etag }
    }

    fn listing(entries: Vec<Entry>) -> Receiver<TreeItem> {
        let (tell, told) = channel();
        entries.into_iter().for_each(|entry| tell.send(TreeItem::Entry(entry)).unwrap());
        told
    }

    fn compared(first: Vec<Entry>, second: Vec<Entry>, by: CompareBy) -> Outcome<Vec<String>> {
        let same_bytes = |one: &Entry, _: &Entry| Ok(one.name != "damaged");
        let mut compare = Compare::new(listing(first), listing(second), by, &same_bytes);
        let mut all = Vec::new();
        while let Some(found) = compare.next()? {
            all.push(match found {
                Difference::First(entry) => format!("< {}", entry.name),
                Difference::Second(entry) => format!("> {}", entry.name),
                Difference::Differs(entry, why) => format!("{} {}", why.text(), entry.name),
                Difference::Same => "same".to_owned(),
                Difference::LeftOut(left) => left.name,
            });
        }
        Ok(all)
    }

    #[test]
    fn names_are_laid_side_by_side() {
        let of = |names: &[&str]| names.iter().map(|name| entry(name, 1, 1, "")).collect::<Vec<_>>();
        let found = compared(of(&["a", "c", "d"]), of(&["b", "c", "e", "f"]), CompareBy::Size).unwrap();
        assert_eq!(found, ["< a", "> b", "same", "< d", "> e", "> f"]);
        assert!(compared(of(&["b", "a"]), of(&[]), CompareBy::Size).is_err(), "not in order");
    }

    #[test]
    fn two_of_a_name_are_judged_by_what_was_asked_for() {
        const ONE: &str = "0cc175b9c0f1b6a831c399e269772661";
        const OTHER: &str = "92eb5ffee6ae2fec3ad71c777531578f";
        let check = |first: Entry, second: Entry, by: CompareBy, found: &str| {
            assert_eq!(compared(vec![first], vec![second], by).unwrap(), [found]);
        };
        check(entry("a", 1, 5, ""), entry("a", 2, 9, ""), CompareBy::Time, "size a");
        check(entry("a", 1, 5, ""), entry("a", 1, 5, ""), CompareBy::Time, "same");
        check(entry("a", 1, 6, ""), entry("a", 1, 5, ""), CompareBy::Time, "newer a");
        check(entry("a", 1, 6, ""), entry("a", 1, 5, ""), CompareBy::Size, "same");
        check(entry("a", 1, 6, ONE), entry("a", 1, 5, ONE), CompareBy::Time, "same");
        check(entry("a", 1, 4, ONE), entry("a", 1, 5, OTHER), CompareBy::Time, "etag a");
        check(entry("a", 1, 4, "x-1"), entry("a", 1, 5, OTHER), CompareBy::Time, "same");
        check(entry("a", 1, 4, ONE), entry("a", 1, 5, OTHER), CompareBy::Checksum, "same");
        check(entry("damaged", 1, 4, ""), entry("damaged", 1, 5, ""), CompareBy::Checksum, "checksum damaged");
        let untimed = Entry { modified: None, ..entry("a", 1, 0, "") };
        check(untimed, entry("a", 1, 5, ""), CompareBy::Time, "newer a");
    }
}
