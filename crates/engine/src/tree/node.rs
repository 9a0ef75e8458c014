//! A node: its entries, what they take on the device, and where it was written.
//!
//! Invariants:
//! - [`Size::encoded_len`] is the sum over the entries and never below what the node takes when stored.
//! - A successor has a placement of its own; it is another node with the same entries.
//! - A node that was read from the device is packed and has its place. One that is changed is open, or is a delta over
//!   a stored leaf: such a one is read through [`Node::whole`], or key by key.
//! - Each successor forgets the memory forms of written things in one further chunk, and in all of them when the node
//!   itself was written (then all below it was). So what a checkpoint wrote does not stay
//!   in memory for longer than the next one.

use bytes::Bytes;

use super::chunked_array::{ChunkedArray, Spot};
use super::delta_leaf::DeltaLeaf;
use super::entry::{Payload, entry_len};
use super::layout::NODE_HEADER_LEN;
use super::merged::Merged;
use super::packed::Packed;
use super::value::Value;
use super::{Child, DirtySize, NodeSource, Placement, load};
use crate::address::{NODE_LEN_MAX, NodeRef};
use crate::batch::Version;
use crate::device::BLOCK_LEN;
use crate::{Error, Result};

/// A leaf is split above this, unless it has few entries: a change of one entry writes a whole leaf in the end.
const LEAF_LEN: usize = BLOCK_LEN;
/// So many entries a leaf may have whatever their length, or padding would take more than it saves.
const LEAF_ENTRIES: usize = 8;

/// A node of a tree.
#[derive(Debug)]
pub struct Node {
    pub(super) level: u8,
    pub(super) body: Body,
    pub(super) size: Size,
    /// The chunk that the next clone looks through.
    sweep: usize,
    /// The commit that made it; zero where it was read.
    born: Version,
    pub(super) placement: Placement<NodeRef>,
}

/// What the allocator, counts and spare room add to an open node in memory, in bytes, about.
const OPEN_LEN: usize = 512;

/// How much a node holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// The number of entries.
    pub count: usize,
    /// Bytes that it takes at most when stored, without padding.
    pub encoded_len: usize,
}

impl Size {
    /// An entry of so many bytes is added.
    pub(super) fn add(&mut self, entry_len: usize) {
        self.count += 1;
        self.encoded_len += entry_len;
    }

    /// An entry of so many bytes is taken away.
    pub(super) fn take(&mut self, entry_len: usize) {
        self.count = self.count.saturating_sub(1);
        self.encoded_len = self.encoded_len.saturating_sub(entry_len);
    }
}

/// The forms of a node.
pub(super) enum Body {
    /// To be changed.
    Open(Entries),
    /// As it was stored.
    Packed(Packed),
    /// A leaf to be changed, as what differs from a stored one.
    DeltaLeaf(DeltaLeaf),
    /// A stored leaf and its changes, to be read.
    Merged(Merged),
}

/// The entries of a node that may be changed.
#[derive(Clone)]
pub(super) enum Entries {
    /// Keys and values.
    Leaf(ChunkedArray<Value>),
    /// The lowest possible key of each child, and the child.
    Inner(ChunkedArray<Child>),
}

impl Entries {
    fn size(&self) -> Size {
        let (count, run_len) = match self {
            Entries::Leaf(run) => (run.len(), run_len(run)),
            Entries::Inner(run) => (run.len(), run_len(run)),
        };
        Size { count, encoded_len: NODE_HEADER_LEN + run_len }
    }

    /// What an entry takes in memory beside its stored bytes.
    fn entry_len(&self) -> usize {
        match self {
            Entries::Leaf(_) => size_of::<(Bytes, Value)>(),
            Entries::Inner(_) => size_of::<(Bytes, Child)>(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Body::Open(Entries::Leaf(run)) => f.debug_list().entries(run.iter()).finish(),
            Body::Open(Entries::Inner(run)) => f.debug_list().entries(run.iter()).finish(),
            Body::Packed(packed) => f.debug_list().entries((0..packed.len()).map(|index| packed.key(index))).finish(),
            Body::DeltaLeaf(delta) => f.debug_list().entry(&delta.base()).entries(delta.changes().iter()).finish(),
            Body::Merged(merged) => f.debug_list().entries((0..merged.len()).map(|index| merged.key(index))).finish(),
        }
    }
}

fn run_len<T: Payload>(run: &ChunkedArray<T>) -> usize {
    run.iter().map(|entry| entry_len(&entry.0, &entry.1)).sum()
}

impl Node {
    /// An open node.
    pub(super) fn new(level: u8, entries: Entries, born: Version) -> Self {
        let size = entries.size();
        Node { level, body: Body::Open(entries), size, sweep: 0, born, placement: Placement::new() }
    }

    /// A node that was read from `at`, or was just written there.
    pub(super) fn stored(level: u8, packed: Packed, encoded_len: usize, at: NodeRef) -> Self {
        let size = Size { count: packed.len(), encoded_len };
        Node { level, body: Body::Packed(packed), size, sweep: 0, born: Version(0), placement: Placement::at(at) }
    }

    /// The leaf that is stored at `at`, taken out.
    pub(super) fn resident(at: NodeRef, entries: Vec<(Bytes, Value)>) -> Self {
        let leaf = Node::new(0, Entries::Leaf(ChunkedArray::from_sorted(entries)), Version(0));
        Node { placement: Placement::at(at), ..leaf }
    }

    /// A leaf to be changed: the one that is stored at `base`, where nobody needs what memory holds of it.
    pub(super) fn over(base: NodeRef, source: &dyn NodeSource, born: Version) -> Result<Node> {
        let size = load(source, &base, Some(0))?.size;
        let body = Body::DeltaLeaf(DeltaLeaf::new(base, source.lease(&base)));
        Ok(Node { level: 0, body, size, sweep: 0, born, placement: Placement::new() })
    }

    /// The same leaf to be read whole, where this one is a delta.
    pub(super) fn whole(&self, source: &dyn NodeSource) -> Result<Option<Node>> {
        let Body::DeltaLeaf(delta) = &self.body else { return Ok(None) };
        let body = Body::Merged(delta.merged(source)?);
        let placement = self.placement.placed().map_or_else(Placement::new, Placement::at);
        Ok(Some(Node { level: self.level, body, size: self.size, sweep: 0, born: self.born, placement }))
    }

    /// Takes out what is stored of a delta leaf: the whole of it is in memory then.
    pub(super) fn open_up(&mut self, source: &dyn NodeSource) -> Result<()> {
        if let Body::DeltaLeaf(delta) = &self.body {
            self.body = Body::Open(Entries::Leaf(delta.merged(source)?.open()?));
        }
        Ok(())
    }

    /// 0 for a leaf, else one above its children.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.size.count
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.size.count == 0
    }

    /// What it takes in memory, in bytes, about.
    pub fn memory_len(&self) -> usize {
        size_of::<Node>()
            + match &self.body {
                Body::Open(entries) => self.size.encoded_len + self.size.count * entries.entry_len(),
                Body::Packed(packed) => packed.memory_len(),
                Body::DeltaLeaf(delta) => delta.memory_len(),
                Body::Merged(merged) => merged.memory_len(),
            }
    }

    /// Bytes that it takes at most when stored, without padding.
    pub fn encoded_len(&self) -> usize {
        self.size.encoded_len
    }

    /// Where it was written, if it was.
    pub fn placed(&self) -> Option<NodeRef> {
        self.placement.placed()
    }

    /// Says that the newest tree does not hold it from commit `by` on, once; the caller frees the blocks that it gets.
    #[must_use = "the blocks must be freed"]
    pub fn replace(&self, by: Version) -> Option<NodeRef> {
        self.placement.replace(by)
    }

    /// The first key (of an inner node: its first separator, which is empty).
    pub fn first_key(&self) -> Option<&[u8]> {
        self.key(self.start())
    }

    /// The last key (of an inner node: its last separator).
    pub fn last_key(&self) -> Option<&[u8]> {
        self.key(self.before(self.end())?)
    }

    /// What a node that has no place yet is counted as until it has one.
    pub fn dirty_size(&self) -> DirtySize {
        let memory_len = (self.memory_len() + OPEN_LEN) as u64;
        DirtySize {
            memory_len,
            inner_len: if self.level > 0 { memory_len } else { 0 },
            device_len: self.size.encoded_len.next_multiple_of(BLOCK_LEN) as u64,
        }
    }

    /// The commit that made it; zero where it was read.
    pub fn born(&self) -> Version {
        self.born
    }

    /// Whether it is to be split.
    pub(super) fn is_full(&self) -> bool {
        self.size.encoded_len > self.split_len()
    }

    /// It is split above this.
    fn split_len(&self) -> usize {
        if self.level == 0 && self.size.count > LEAF_ENTRIES { LEAF_LEN } else { NODE_LEN_MAX }
    }

    /// Whether it is to join a neighbour.
    pub(super) fn is_small(&self) -> bool {
        let split_len = if self.level == 0 { LEAF_LEN } else { NODE_LEN_MAX };
        self.size.encoded_len < split_len / 4
    }

    /// Whether it is to be split again after it has joined a neighbour, or the next insert would split it.
    pub(super) fn is_too_full_to_join(&self) -> bool {
        self.size.encoded_len > self.split_len() / 4 * 3
    }

    /// Another node with the same entries, made by commit `born` to be changed, without what was forgotten of them.
    pub(super) fn successor(&self, born: Version) -> Result<Node> {
        let written = self.placement.is_placed();
        let (body, (saved, sweep)) = match &self.body {
            Body::DeltaLeaf(delta) => {
                let mut delta = delta.clone();
                let swept = sweep_run(delta.changes_mut(), self.sweep, written);
                if swept.0 > 0 {
                    delta.measure();
                }
                (Body::DeltaLeaf(delta), swept)
            }
            stored => {
                let mut entries = self.opened()?.into_owned();
                let swept = match (stored, &mut entries) {
                    // What was stored holds nothing in memory.
                    (Body::Packed(_), _) => (0, 0),
                    (_, Entries::Leaf(run)) => sweep_run(run, self.sweep, written),
                    (_, Entries::Inner(run)) => sweep_run(run, self.sweep, written),
                };
                (Body::Open(entries), swept)
            }
        };
        let size = Size { encoded_len: self.size.encoded_len - saved, ..self.size };
        Ok(Node { level: self.level, body, size, sweep, born, placement: Placement::new() })
    }

    /// The same node without the memory forms of what is written below it: its place, if it has one, is that one's.
    pub(super) fn settled(&self) -> Result<Node> {
        let settled = self.successor(self.born)?;
        Ok(match self.placement.placed() {
            Some(at) => Node { placement: Placement::at(at), ..settled },
            None => settled,
        })
    }

    /// Cuts the upper part off, and says the lowest key that may go there. `Tail` is for keys that come in
    /// ascending order: the lower part stays full.
    pub(super) fn split(&mut self, at: SplitAt) -> Option<(Bytes, Node)> {
        let (separator, upper) = match &mut self.body {
            Body::Packed(_) | Body::DeltaLeaf(_) | Body::Merged(_) => return None,
            Body::Open(Entries::Leaf(run)) => {
                let spot = split_spot(run, at)?;
                let first = &run.get(spot)?.0;
                let last = &run.get(run.before(spot)?)?.0;
                let separator = separator(last, first);
                (separator, Entries::Leaf(run.split_off(spot)))
            }
            Body::Open(Entries::Inner(run)) => {
                let spot = split_spot(run, at)?;
                let mut upper = run.split_off(spot);
                let separator = Bytes::copy_from_slice(&upper.first()?.0);
                upper.rename_first(Bytes::new());
                (separator, Entries::Inner(upper))
            }
        };
        let upper = Node::new(self.level, upper, self.born);
        self.measure();
        Some((separator, upper))
    }

    /// Adds the entries of the next node of the same level, whose separator was this.
    pub(super) fn append(&mut self, separator: Bytes, upper: Node) {
        match (&mut self.body, upper.body) {
            (Body::Open(Entries::Leaf(run)), Body::Open(Entries::Leaf(upper))) => run.append(upper),
            (Body::Open(Entries::Inner(run)), Body::Open(Entries::Inner(mut upper))) => {
                upper.rename_first(separator);
                run.append(upper);
            }
            // Both come from one parent, whose children are of one level, and both are changed.
            _ => debug_assert!(false, "nodes of two levels cannot join"),
        }
        self.measure();
    }

    /// Counts anew what it holds.
    pub(super) fn measure(&mut self) {
        if let Body::Open(entries) = &self.body {
            self.size = entries.size();
        }
    }
}

/// A stored node was to be changed: a fault of this program.
pub(super) fn not_open() -> Error {
    Error::invalid("a stored node cannot be changed")
}

/// A node without a child for a key: damage.
pub(super) fn childless() -> Error {
    Error::damaged("an inner node of the index has no child for a key")
}

/// Where a full node is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitAt {
    /// So that both parts take about the same bytes.
    Middle,
    /// Before the last entry.
    Tail,
}

fn split_spot<T: Payload>(run: &ChunkedArray<T>, at: SplitAt) -> Option<Spot> {
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
fn sweep_run<T: Payload>(run: &mut ChunkedArray<T>, sweep: usize, all: bool) -> (usize, usize) {
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
