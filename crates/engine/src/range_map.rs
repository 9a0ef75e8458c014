//! Spans of bytes by their offset: the one map behind values with holes, writes that wait, and values that were recovered.
//!
//! Invariant: spans are not empty and do not overlap; what none covers is a hole.

use std::collections::BTreeMap;
use std::collections::btree_map::{IntoIter, Iter};

use bytes::Bytes;

/// Consecutive bytes that can be cut in two without copying.
pub trait Span {
    /// The length in bytes.
    fn span_len(&self) -> u64;

    /// Cuts it in two at `at` bytes from its start, which lie inside; keeps the first part.
    #[must_use]
    fn split_off(&mut self, at: u64) -> Self;
}

impl Span for Bytes {
    fn span_len(&self) -> u64 {
        self.len() as u64
    }

    fn split_off(&mut self, at: u64) -> Self {
        // Inside, so that it is a `usize`.
        Bytes::split_off(self, at as usize)
    }
}

/// Spans by offset.
#[derive(Clone, Debug)]
pub struct RangeMap<S> {
    spans: BTreeMap<u64, S>,
}

impl<S> Default for RangeMap<S> {
    fn default() -> Self {
        RangeMap { spans: BTreeMap::new() }
    }
}

impl<S: Span> RangeMap<S> {
    /// Without spans.
    pub fn new() -> Self {
        RangeMap::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many there are; neighbours count apart.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Where the last one ends; zero without any.
    pub fn end(&self) -> u64 {
        self.spans.last_key_value().map_or(0, |(start, span)| start.saturating_add(span.span_len()))
    }

    /// Puts a span into a hole.
    pub fn insert(&mut self, at: u64, span: S) {
        debug_assert!(span.span_len() > 0 && self.within(at, at.saturating_add(span.span_len())).next().is_none());
        self.spans.insert(at, span);
    }

    /// Takes away the span that begins at an offset.
    pub fn remove(&mut self, at: u64) -> Option<S> {
        self.spans.remove(&at)
    }

    /// The last span that begins at or before an offset.
    pub fn at_or_before(&self, offset: u64) -> Option<(u64, &S)> {
        self.spans.range(..=offset).next_back().map(|(start, span)| (*start, span))
    }

    /// The same, to be changed; its length stays, or grows into a hole.
    pub fn at_or_before_mut(&mut self, offset: u64) -> Option<(u64, &mut S)> {
        self.spans.range_mut(..=offset).next_back().map(|(start, span)| (*start, span))
    }

    /// All, in order.
    pub fn iter(&self) -> Iter<'_, u64, S> {
        self.spans.iter()
    }

    /// Those that have bytes in `from..to`, whole, in order.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &S)> {
        let before =
            self.spans.range(..from).next_back().filter(|(start, span)| start.saturating_add(span.span_len()) > from);
        let first = before.map_or(from, |(start, _)| *start);
        self.spans.range(first..to.max(first)).map(|(start, span)| (*start, span))
    }

    /// Those that touch `from..to` as well, whole, in order.
    pub fn touching(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &S)> {
        let before =
            self.spans.range(..from).next_back().filter(|(start, span)| start.saturating_add(span.span_len()) >= from);
        let first = before.map_or(from, |(start, _)| *start);
        self.spans.range(first..=to.max(first)).map(|(start, span)| (*start, span))
    }

    /// Makes a hole of `from..to`; gives each part that was there to `removed`.
    pub fn carve(&mut self, from: u64, to: u64, mut removed: impl FnMut(S)) {
        if from >= to {
            return;
        }
        if let Some((start, span)) = self.spans.range_mut(..from).next_back()
            && start.saturating_add(span.span_len()) > from
        {
            let mut covered = span.split_off(from - start);
            if from.saturating_add(covered.span_len()) > to {
                let right = covered.split_off(to - from);
                self.spans.insert(to, right);
            }
            removed(covered);
        }
        while let Some((start, _)) = self.spans.range(from..to).next() {
            let start = *start;
            let Some(mut span) = self.spans.remove(&start) else { return };
            if start.saturating_add(span.span_len()) > to {
                let right = span.split_off(to - start);
                self.spans.insert(to, right);
            }
            removed(span);
        }
    }
}

impl<S> IntoIterator for RangeMap<S> {
    type Item = (u64, S);
    type IntoIter = IntoIter<u64, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.spans.into_iter()
    }
}

impl<'a, S> IntoIterator for &'a RangeMap<S> {
    type Item = (&'a u64, &'a S);
    type IntoIter = Iter<'a, u64, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.spans.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_last_is_there_and_what_was_carved_is_given(
            steps in prop::collection::vec((0u64..200, 1u64..60, any::<Option<u8>>()), 1..40)
        ) {
            let (mut map, mut model) = (RangeMap::new(), vec![None; 300]);
            for (from, length, byte) in steps {
                let to = from + length;
                let mut removed = Vec::new();
                map.carve(from, to, |part: Bytes| removed.extend_from_slice(&part));
                let old: Vec<u8> = model[from as usize..to as usize].iter().copied().flatten().collect();
                prop_assert_eq!(removed, old);
                model[from as usize..to as usize].fill(byte);
                if let Some(byte) = byte {
                    map.insert(from, Bytes::from(vec![byte; length as usize]));
                }
                let mut there = vec![None; 300];
                for (start, span) in &map {
                    prop_assert!(!span.is_empty());
                    for (at, byte) in span.iter().enumerate() {
                        prop_assert!(there[*start as usize + at].replace(*byte).is_none(), "spans overlap");
                    }
                }
                prop_assert_eq!(&there, &model);
                let end = model.iter().rposition(Option::is_some).map_or(0, |last| last as u64 + 1);
                prop_assert_eq!(map.end(), end);
                let within: Vec<u64> = map.within(from, to).map(|(start, _)| start).collect();
                let overlap = |(start, span): &(&u64, &Bytes)| **start < to && **start + span.span_len() > from;
                let expected: Vec<u64> = map.iter().filter(overlap).map(|(start, _)| *start).collect();
                prop_assert_eq!(within, expected);
                let touch = |(start, span): &(&u64, &Bytes)| **start <= to && **start + span.span_len() >= from;
                let touching: Vec<u64> = map.touching(from, to).map(|(start, _)| start).collect();
                let expected: Vec<u64> = map.iter().filter(touch).map(|(start, _)| *start).collect();
                prop_assert_eq!(touching, expected);
            }
        }
    }
}
