//! A node: its entries, what they take on the device, and where it was written.
//!
//! Invariants:
//! - `encoded_len` is the sum over the entries and never below what the node takes when stored.
//! - A clone has a fate of its own; it is another node with the same entries.
//! - Each clone forgets the memory forms of written things in one further chunk, and in all of them when the node
//!   itself was written (then all below it was). So what a checkpoint wrote does not stay
//!   in memory for longer than the next one.

use bytes::Bytes;

use super::run::{Run, Spot};
use super::stored::{ENTRY_HEAD_LEN, NODE_HEADER_LEN};
use super::{Child, Fate, NODE_LEN_MAX, NODE_REF_LEN, NodeRef};
use crate::batch::Version;
use crate::value::Value;

/// A node below this joins a neighbour.
pub(super) const NODE_LEN_MIN: usize = NODE_LEN_MAX / 4;
/// Two neighbours join if they fit into this, so that the next insert does not split them again.
pub(super) const JOINED_LEN_MAX: usize = NODE_LEN_MAX * 3 / 4;

/// A node of a tree.
#[derive(Debug)]
pub struct Node {
    pub(super) level: u8,
    pub(super) body: Body,
    pub(super) encoded_len: usize,
    /// The chunk that the next clone looks through.
    sweep: usize,
    pub(super) fate: Fate<NodeRef>,
}

/// The entries.
#[derive(Clone)]
pub(super) enum Body {
    /// Keys and values.
    Leaf(Run<Value>),
    /// The lowest possible key of each child, and the child.
    Inner(Run<Child>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Body::Leaf(run) => f.debug_list().entries(run.iter()).finish(),
            Body::Inner(run) => f.debug_list().entries(run.iter()).finish(),
        }
    }
}

/// What the two kinds of entries have in common.
pub(super) trait Held: Clone {
    /// Bytes of the stored form without key and lengths.
    fn held_len(&self) -> usize;
    /// Whether `settle` would change it.
    fn settles(&self) -> bool;
    /// Forgets the memory form of what was written.
    fn settle(&mut self);
}

impl Held for Value {
    fn held_len(&self) -> usize {
        self.encoded_len()
    }
    fn settles(&self) -> bool {
        Value::settles(self)
    }
    fn settle(&mut self) {
        Value::settle(self);
    }
}

impl Held for Child {
    fn held_len(&self) -> usize {
        NODE_REF_LEN
    }
    fn settles(&self) -> bool {
        Child::settles(self)
    }
    fn settle(&mut self) {
        Child::settle(self);
    }
}

/// The stored length of an entry.
pub(super) fn entry_len<T: Held>(key: &[u8], held: &T) -> usize {
    ENTRY_HEAD_LEN + key.len() + held.held_len()
}

fn run_len<T: Held>(run: &Run<T>) -> usize {
    run.iter().map(|entry| entry_len(&entry.0, &entry.1)).sum()
}

impl Node {
    pub(super) fn new(level: u8, body: Body) -> Self {
        let entries_len = match &body {
            Body::Leaf(run) => run_len(run),
            Body::Inner(run) => run_len(run),
        };
        Node { level, body, encoded_len: NODE_HEADER_LEN + entries_len, sweep: 0, fate: Fate::new() }
    }

    /// 0 for a leaf, else one above its children.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Leaf(run) => run.len(),
            Body::Inner(run) => run.len(),
        }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Leaf(run) => run.is_empty(),
            Body::Inner(run) => run.is_empty(),
        }
    }

    /// Bytes that it takes at most when stored, without padding; also about what it takes in memory.
    pub fn encoded_len(&self) -> usize {
        self.encoded_len
    }

    /// Where it was written, if it was.
    pub fn placed(&self) -> Option<NodeRef> {
        self.fate.placed()
    }

    /// Says that the newest tree does not hold it from commit `by` on, once; the caller frees the blocks that it gets.
    #[must_use = "the blocks must be freed"]
    pub fn replace(&self, by: Version) -> Option<NodeRef> {
        self.fate.replace(by)
    }

    /// The first key (of an inner node: its first separator, which is empty).
    pub fn first_key(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Leaf(run) => run.first().map(|entry| &entry.0),
            Body::Inner(run) => run.first().map(|entry| &entry.0),
        }
    }

    /// The last key (of an inner node: its last separator).
    pub fn last_key(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Leaf(run) => run.last().map(|entry| &entry.0),
            Body::Inner(run) => run.last().map(|entry| &entry.0),
        }
    }

    /// Another node with the same entries, without what was forgotten of them.
    pub(super) fn successor(&self) -> Node {
        let mut body = self.body.clone();
        let written = self.fate.is_placed();
        let (saved, sweep) = match &mut body {
            Body::Leaf(run) => sweep_run(run, self.sweep, written),
            Body::Inner(run) => sweep_run(run, self.sweep, written),
        };
        Node { level: self.level, body, encoded_len: self.encoded_len - saved, sweep, fate: Fate::new() }
    }

    /// Cuts the upper part off, and says the lowest key that may go there. `Tail` is for keys that come in
    /// ascending order: the lower part stays full.
    pub(super) fn split(&mut self, at: SplitAt) -> Option<(Bytes, Node)> {
        let (separator, upper) = match &mut self.body {
            Body::Leaf(run) => {
                let spot = split_spot(run, at)?;
                let first = &run.get(spot)?.0;
                let last = &run.get(run.before(spot)?)?.0;
                let separator = separator(last, first);
                (separator, Body::Leaf(run.split_off(spot)))
            }
            Body::Inner(run) => {
                let spot = split_spot(run, at)?;
                let mut upper = run.split_off(spot);
                let first = upper.get_mut(upper.start())?;
                let separator = Bytes::copy_from_slice(&first.0);
                first.0 = Bytes::new();
                (separator, Body::Inner(upper))
            }
        };
        let upper = Node::new(self.level, upper);
        self.measure();
        Some((separator, upper))
    }

    /// Adds the entries of the next node of the same level, whose separator was this.
    pub(super) fn append(&mut self, separator: Bytes, upper: Node) {
        match (&mut self.body, upper.body) {
            (Body::Leaf(run), Body::Leaf(upper)) => run.append(upper),
            (Body::Inner(run), Body::Inner(mut upper)) => {
                if let Some(first) = upper.get_mut(upper.start()) {
                    first.0 = separator;
                }
                run.append(upper);
            }
            // Both come from one parent, whose children are of one level.
            _ => debug_assert!(false, "nodes of two levels cannot join"),
        }
        self.measure();
    }

    /// Counts the stored length anew.
    pub(super) fn measure(&mut self) {
        self.encoded_len = NODE_HEADER_LEN
            + match &self.body {
                Body::Leaf(run) => run_len(run),
                Body::Inner(run) => run_len(run),
            };
    }
}

/// Where a full node is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitAt {
    /// So that both parts take about the same bytes.
    Middle,
    /// Before the last entry.
    Tail,
}

fn split_spot<T: Held>(run: &Run<T>, at: SplitAt) -> Option<Spot> {
    let last = run.before(run.end())?;
    if at == SplitAt::Tail && last != run.start() {
        return Some(last);
    }
    let half = run_len(run) / 2;
    let mut spot = run.start();
    let mut lower = 0;
    while let Some(entry) = run.get(spot) {
        let with_entry = lower + entry_len(&entry.0, &entry.1);
        // The entry that crosses the middle goes where it leaves the smaller difference.
        if with_entry > half && lower > 0 && with_entry - half > half - lower.min(half) {
            break;
        }
        lower = with_entry;
        spot = run.after(spot)?;
        if with_entry > half {
            break;
        }
    }
    // Neither part may be without entries.
    if run.is_end(spot) { Some(last) } else { Some(spot) }
}

/// The shortest key above `last` that is not above `first`, in memory of its own.
fn separator(last: &[u8], first: &[u8]) -> Bytes {
    let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
    Bytes::copy_from_slice(first.get(..=common).unwrap_or(first))
}

/// Settles one chunk, or all. Returns the stored bytes saved and the next chunk to look at.
fn sweep_run<T: Held>(run: &mut Run<T>, sweep: usize, all: bool) -> (usize, usize) {
    let count = run.chunk_count().max(1);
    let at = sweep % count;
    let chunks = if all { 0..count } else { at..at + 1 };
    let mut saved = 0;
    for chunk in chunks {
        run.change_chunk(chunk, T::settles, |held| {
            let before = held.held_len();
            held.settle();
            saved += before - held.held_len();
        });
    }
    (saved, (at + 1) % count)
}
