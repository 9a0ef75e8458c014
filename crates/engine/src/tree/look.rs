//! Reading a node, whichever form its entries have.
//!
//! Invariants:
//! - A delta is looked through key by key ([`Node::below`]); everything else goes through [`ChildRef::load`], which gives it whole.
//! - A [`Spot`] is of use with the node it came from only. Nothing here copies keys or values unless its name says so.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::chunked_array::Spot;
use super::delta_leaf::DeltaLeaf;
use super::node::{Body, Entries, childless, not_open};
use super::value::Held;
use super::{Child, Node, NodeSource, load};
use crate::Result;
use crate::address::NodeRef;

/// A child, where its parent holds it.
pub(super) enum ChildRef<'a> {
    /// In memory.
    Memory(&'a Arc<Node>),
    /// On the device.
    Disk(NodeRef),
}

impl ChildRef<'_> {
    /// The node itself. `level` is what the parent says that it must be.
    pub(super) fn load(&self, source: &dyn NodeSource, level: Option<u8>) -> Result<Arc<Node>> {
        match self {
            ChildRef::Memory(node) => Ok(node.whole(source)?.map_or_else(|| Arc::clone(node), Arc::new)),
            ChildRef::Disk(at) => load(source, at, level),
        }
    }
}

/// Where a key is to be looked for next.
pub(super) enum Below<'a> {
    /// Nowhere: this is the leaf, and so much it holds.
    Here(Option<Held<'a>>),
    /// In this child.
    Child(ChildRef<'a>),
    /// In the stored leaf under this delta, as far as it is not gone.
    Base(&'a DeltaLeaf),
}

impl Node {
    /// One step on the way to a key.
    #[inline]
    pub(super) fn below(&self, key: &[u8]) -> Result<Below<'_>> {
        if let Body::DeltaLeaf(delta) = &self.body {
            return Ok(match delta.change(key) {
                Some(value) => Below::Here(Some(Held::Value(value))),
                None => Below::Base(delta),
            });
        }
        if self.level == 0 {
            return Ok(Below::Here(self.find(key).ok().and_then(|spot| self.held(spot))));
        }
        let spot = self.covering(key).ok_or_else(childless)?;
        Ok(Below::Child(self.child(spot)?))
    }

    /// The entry of this key, or the place where it would go.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> std::result::Result<Spot, Spot> {
        match &self.body {
            Body::Packed(packed) => packed.find(key).map(Spot::at).map_err(Spot::at),
            Body::Open(Entries::Leaf(run)) => run.find(key),
            Body::Open(Entries::Inner(run)) => run.find(key),
            Body::Merged(merged) => merged.find(key).map(Spot::at).map_err(Spot::at),
            Body::DeltaLeaf(_) => Err(Spot::at(0)),
        }
    }

    /// The last entry whose key is not above `key`.
    #[inline]
    pub(super) fn covering(&self, key: &[u8]) -> Option<Spot> {
        match self.find(key) {
            Ok(spot) => Some(spot),
            Err(spot) => self.before(spot),
        }
    }

    /// Before the first entry.
    pub(super) fn start(&self) -> Spot {
        Spot::at(0)
    }

    /// After the last entry.
    pub(super) fn end(&self) -> Spot {
        match &self.body {
            Body::Packed(_) | Body::Merged(_) => Spot::at(self.len()),
            Body::DeltaLeaf(_) => Spot::at(0),
            Body::Open(Entries::Leaf(run)) => run.end(),
            Body::Open(Entries::Inner(run)) => run.end(),
        }
    }

    /// The spot behind the entry after this one; `None` when there is no entry.
    #[inline]
    pub(super) fn after(&self, spot: Spot) -> Option<Spot> {
        match &self.body {
            Body::Packed(packed) => (spot.index() < packed.len()).then(|| Spot::at(spot.index() + 1)),
            Body::Merged(merged) => (spot.index() < merged.len()).then(|| Spot::at(spot.index() + 1)),
            Body::DeltaLeaf(_) => None,
            Body::Open(Entries::Leaf(run)) => run.after(spot),
            Body::Open(Entries::Inner(run)) => run.after(spot),
        }
    }

    /// The spot before the entry before this one; `None` when there is no entry.
    #[inline]
    pub(super) fn before(&self, spot: Spot) -> Option<Spot> {
        match &self.body {
            Body::Packed(_) | Body::Merged(_) => spot.index().checked_sub(1).map(Spot::at),
            Body::DeltaLeaf(_) => None,
            Body::Open(Entries::Leaf(run)) => run.before(spot),
            Body::Open(Entries::Inner(run)) => run.before(spot),
        }
    }

    /// The key of the entry after a spot.
    #[inline]
    pub(super) fn key(&self, spot: Spot) -> Option<&[u8]> {
        match &self.body {
            Body::Packed(packed) => (spot.index() < packed.len()).then(|| packed.key(spot.index())),
            Body::Merged(merged) => (spot.index() < merged.len()).then(|| merged.key(spot.index())),
            Body::DeltaLeaf(_) => None,
            Body::Open(Entries::Leaf(run)) => run.get(spot).map(|entry| entry.0.as_ref()),
            Body::Open(Entries::Inner(run)) => run.get(spot).map(|entry| entry.0.as_ref()),
        }
    }

    /// The key of the entry after a spot, sharing the node's memory; empty where there is none.
    pub(super) fn key_bytes(&self, spot: Spot) -> Bytes {
        match &self.body {
            Body::Packed(packed) => packed.key_bytes(spot.index()),
            Body::Merged(merged) => merged.key_bytes(spot.index()),
            Body::DeltaLeaf(_) => Bytes::new(),
            Body::Open(Entries::Leaf(run)) => run.get(spot).map(|entry| entry.0.clone()).unwrap_or_default(),
            Body::Open(Entries::Inner(run)) => run.get(spot).map(|entry| entry.0.clone()).unwrap_or_default(),
        }
    }

    /// What a leaf holds in the entry after a spot.
    #[inline]
    pub(super) fn held(&self, spot: Spot) -> Option<Held<'_>> {
        match &self.body {
            Body::Packed(packed) => (spot.index() < packed.len()).then(|| Held::Stored(packed.held(spot.index()))),
            Body::Open(Entries::Leaf(run)) => run.get(spot).map(|entry| Held::Value(&entry.1)),
            Body::Merged(merged) => merged.held(spot.index()),
            Body::Open(Entries::Inner(_)) | Body::DeltaLeaf(_) => None,
        }
    }

    /// The child of an inner node in the entry after a spot.
    #[inline]
    pub(super) fn child(&self, spot: Spot) -> Result<ChildRef<'_>> {
        match &self.body {
            Body::Packed(packed) => Ok(ChildRef::Disk(packed.child(spot.index())?)),
            Body::Open(Entries::Inner(run)) => match run.get(spot) {
                Some((_, Child::Memory(node))) => Ok(ChildRef::Memory(node)),
                Some((_, Child::Disk(at))) => Ok(ChildRef::Disk(*at)),
                None => Err(childless()),
            },
            Body::Open(Entries::Leaf(_)) | Body::Merged(_) | Body::DeltaLeaf(_) => Err(childless()),
        }
    }

    /// All entries, taken out where they are stored: for who goes through all of them.
    pub(super) fn opened(&self) -> Result<Cow<'_, Entries>> {
        match &self.body {
            Body::Open(entries) => Ok(Cow::Borrowed(entries)),
            Body::Packed(packed) if self.level == 0 => Ok(Cow::Owned(Entries::Leaf(packed.open_leaf()?))),
            Body::Packed(packed) => Ok(Cow::Owned(Entries::Inner(packed.open_inner()?))),
            Body::Merged(merged) => Ok(Cow::Owned(Entries::Leaf(merged.open()?))),
            Body::DeltaLeaf(_) => Err(not_open()),
        }
    }
}
