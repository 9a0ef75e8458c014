//! The working copy of the state that one commit changes.
//!
//! Invariant: until [`WriteTransaction::finish`] nothing outside is touched; a dropped write transaction is a rollback.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::address::{BlockRange, Generation};
use crate::batch::{RequestId, SpaceId, Version};
use crate::changes::{ChangeSet, Changed};
use crate::content::Reading;
use crate::device::{Device, ReadMode};
use crate::error::{Error, Refusal, Result};
use crate::filter::{Filters, Membership};
use crate::limits::Limits;
use crate::requests;
use crate::staged::Staged;
use crate::state::{REQUESTS, State, space_key};
use crate::tree::value::{BlobId, Lineage, Pending, SpaceRoot, Value};
use crate::tree::{DirtySize, Edit, Exchanged, NodeSource, Replaced, Taken};

/// A space in the working copy.
struct Working {
    /// `None`: dropped or never there.
    root: Option<SpaceRoot>,
    changed: bool,
}

/// What a branch has let go of and its point has not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dead {
    pub list: u64,
    pub birth: Generation,
    pub blocks: BlockRange,
    /// A node; else a piece, whose blocks others may name as well.
    pub is_node: bool,
}

/// Numbers that only grow, and that a commit draws from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The next number of a blob, of a branch point, of an entry of the engine's own.
    pub next_blob: u64,
    /// Now.
    pub generation: Generation,
}

/// One commit on its way.
pub struct WriteTransaction<'a> {
    base: State,
    version: Version,
    device: &'a dyn Device,
    spaces: BTreeMap<SpaceId, Working>,
    pub(super) edit: Edit<'a>,
    next_blob: u64,
    pub(super) generation: Generation,
    pub(super) limits: Limits,
    /// The operation being applied, for refusals.
    pub(super) index: u32,
    pub(super) retired: Vec<Arc<Pending>>,
    pub(super) allocated: Vec<BlockRange>,
    pub(super) freed: Vec<BlockRange>,
    pub(super) dead: Vec<Dead>,
    pub(super) changes: Vec<(SpaceId, Changed)>,
    pub(super) taken: Vec<Arc<Staged>>,
    pub(super) bytes_in_memory: u64,
    /// Something was let go of that is to be taken down by and by.
    pub(super) has_dropped: bool,
    filters: &'a Filters,
    membership: Vec<Membership>,
}

/// What a commit did, once nothing can fail any more.
pub struct Applied {
    /// The state after it.
    pub state: State,
    /// The counters after it.
    pub counters: Counters,
    /// Blocks that now belong to the state (of stages).
    pub allocated: Vec<BlockRange>,
    /// Blocks that the state needs no more.
    pub freed: Vec<BlockRange>,
    /// Nodes that left the tree.
    pub replaced: Vec<Replaced>,
    /// Values that left the tree before a checkpoint placed them, as far as was known.
    pub retired: Vec<Arc<Pending>>,
    /// Keys changed.
    pub changes: ChangeSet,
    /// What nodes without a place weigh more than before; those in `replaced` are still in it.
    pub gained: DirtySize,
    /// What they weigh less.
    pub lost: DirtySize,
    /// Bytes of values outside of nodes that only memory and the ring hold.
    pub bytes_in_memory: u64,
    /// Something waits to be taken down.
    pub has_dropped: bool,
    /// How it changed which keys are there.
    pub membership: Vec<Membership>,
}

impl<'a> WriteTransaction<'a> {
    /// A working copy of `base` for commit `version`.
    pub fn new(
        base: &State,
        version: Version,
        counters: Counters,
        limits: &Limits,
        source: &'a dyn NodeSource,
        device: &'a dyn Device,
        filters: &'a Filters,
    ) -> WriteTransaction<'a> {
        WriteTransaction {
            base: base.clone(),
            version,
            device,
            spaces: BTreeMap::new(),
            edit: Edit::new(source, version),
            next_blob: counters.next_blob,
            generation: counters.generation,
            limits: *limits,
            index: 0,
            retired: Vec::new(),
            allocated: Vec::new(),
            freed: Vec::new(),
            dead: Vec::new(),
            changes: Vec::new(),
            taken: Vec::new(),
            bytes_in_memory: 0,
            has_dropped: false,
            filters,
            membership: Vec::new(),
        }
    }

    /// The commit's log number.
    pub fn version(&self) -> Version {
        self.version
    }

    pub(super) fn source(&self) -> &'a dyn NodeSource {
        self.edit.source
    }

    pub(super) fn reading(&self) -> Reading<'a> {
        Reading::new(self.edit.source, self.device, ReadMode::Cached)
    }

    /// Refuses the batch at the operation being applied.
    pub(super) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::refused(Refusal::Operation(self.index), message)
    }

    pub(super) fn new_blob(&mut self) -> BlobId {
        let blob = BlobId(self.next_blob);
        self.next_blob += 1;
        blob
    }

    fn working(&mut self, space: SpaceId) -> Result<&mut Working> {
        if !self.spaces.contains_key(&space) {
            let root = self.base.space(self.edit.source, space)?;
            self.spaces.insert(space, Working { root, changed: false });
        }
        self.spaces.get_mut(&space).ok_or_else(|| Error::damaged("a space vanished from the working copy"))
    }

    /// A space as it is now, if it is there.
    pub(super) fn find_space(&mut self, space: SpaceId) -> Result<Option<&SpaceRoot>> {
        Ok(self.working(space)?.root.as_ref())
    }

    /// A space's tree to read; refused when the space is absent.
    pub(super) fn tree(&mut self, space: SpaceId) -> Result<crate::tree::Tree> {
        match self.find_space(space)? {
            Some(root) => Ok(root.tree.clone()),
            None => Err(self.refuse(format!("space {} is not there", space.0))),
        }
    }

    /// Sets or removes a space.
    pub(super) fn set_space(&mut self, space: SpaceId, root: Option<SpaceRoot>) -> Result<()> {
        let working = self.working(space)?;
        let (was_there, is_empty) = (working.root.is_some(), root.as_ref().map(|root| root.tree.is_empty()));
        working.root = root;
        working.changed = true;
        match is_empty {
            Some(true) if !was_there => self.membership.push(Membership::Made(space)),
            // The same keys, which have come to come from elsewhere.
            Some(_) if was_there => {}
            Some(_) | None => self.membership.push(Membership::Unknown(space)),
        }
        Ok(())
    }

    /// A space of the engine's own, made when it is not there.
    pub(super) fn ensure_space(&mut self, space: SpaceId) -> Result<()> {
        if self.find_space(space)?.is_none() {
            let created = self.version;
            self.set_space(space, Some(SpaceRoot::new(created)))?;
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, space: SpaceId, key: Bytes, value: Value) -> Result<Option<Value>> {
        self.working(space)?;
        let Some(Working { root: Some(root), changed }) = self.spaces.get_mut(&space) else {
            return Err(self.refuse(format!("space {} is not there", space.0)));
        };
        *changed = true;
        let lineage = root.lineage();
        self.edit.shared = lineage.shared;
        let before = root.tree.insert(&mut self.edit, key.clone(), value)?;
        if before.is_none() {
            let born = self.filters.hash(space, &key).map(|hash| Membership::Born(space, hash));
            self.membership.extend(born);
        }
        self.note_dead_nodes(lineage);
        Ok(before)
    }

    /// Puts a value in the place of another one that is like it, if the key holds such a one; gives that, or back what
    /// was given.
    pub(super) fn exchange_like(
        &mut self,
        space: SpaceId,
        key: &Bytes,
        value: Value,
        is_like: &dyn Fn(&Value) -> bool,
    ) -> Result<Exchanged> {
        self.working(space)?;
        let Some(Working { root: Some(root), changed }) = self.spaces.get_mut(&space) else {
            return Err(self.refuse(format!("space {} is not there", space.0)));
        };
        *changed = true;
        let lineage = root.lineage();
        self.edit.shared = lineage.shared;
        let exchanged = root.tree.exchange(&mut self.edit, key, value, is_like)?;
        self.note_dead_nodes(lineage);
        Ok(exchanged)
    }

    pub(super) fn remove(&mut self, space: SpaceId, key: &[u8]) -> Result<Option<Value>> {
        let mut before = None;
        self.remove_sorted(space, &[key], &mut |_, value| {
            before = Some(value);
            Ok(())
        })?;
        Ok(before)
    }

    /// Takes keys away that ascend strictly, and tells the number of each that was there and its value.
    pub(super) fn remove_sorted(&mut self, space: SpaceId, keys: &[&[u8]], taken: &mut Taken<'_>) -> Result<()> {
        self.working(space)?;
        let Some(Working { root: Some(root), changed }) = self.spaces.get_mut(&space) else {
            return Err(self.refuse(format!("space {} is not there", space.0)));
        };
        *changed = true;
        let lineage = root.lineage();
        self.edit.shared = lineage.shared;
        let (filters, membership) = (self.filters, &mut self.membership);
        root.tree.remove_sorted(&mut self.edit, keys, &mut |number, value| {
            let gone = keys.get(number).and_then(|key| filters.hash(space, key));
            membership.extend(gone.map(|hash| Membership::Gone(space, hash)));
            taken(number, value)
        })?;
        self.note_dead_nodes(lineage);
        Ok(())
    }

    /// Nodes that left a tree and that its branch point still reaches.
    fn note_dead_nodes(&mut self, lineage: Lineage) {
        let list = lineage.dead;
        let nodes = self.edit.dead.drain(..);
        self.dead.extend(nodes.map(|at| Dead { list, birth: at.birth, blocks: at.range(), is_node: true }));
        self.edit.shared = Generation::default();
    }

    /// Where a space comes from.
    pub(super) fn lineage(&mut self, space: SpaceId) -> Result<Lineage> {
        Ok(self.find_space(space)?.map(SpaceRoot::lineage).unwrap_or_default())
    }

    /// Refuses a change inside a snapshot.
    pub(super) fn must_be_writable(&mut self, space: SpaceId) -> Result<()> {
        if self.find_space(space)?.is_some_and(SpaceRoot::is_read_only) {
            return Err(self.refuse(format!("space {} is a snapshot and cannot be changed", space.0)));
        }
        Ok(())
    }

    /// Remembers the outcome of a named request, and forgets the oldest beyond the limit.
    pub fn remember(&mut self, request: RequestId, outcome: Option<Refusal>, forget: Option<Version>) -> Result<()> {
        self.ensure_space(REQUESTS)?;
        let key = Bytes::copy_from_slice(&self.version.0.to_be_bytes());
        self.insert(REQUESTS, key, Value::Raw(requests::encode(request, outcome)))?;
        if let Some(oldest) = forget {
            self.remove(REQUESTS, &oldest.0.to_be_bytes())?;
        }
        Ok(())
    }

    /// Gives the stages back that it has taken: the commit does not happen.
    pub fn roll_back(self) {
        for staged in &self.taken {
            staged.untake();
        }
    }

    /// The commit happens: the state after it and everything that follows from it.
    pub fn finish(mut self) -> Result<Applied> {
        let master = self.write_back().inspect_err(|_| self.taken.iter().for_each(|staged| staged.untake()))?;
        Ok(Applied {
            state: State { master, version: self.version },
            counters: Counters { next_blob: self.next_blob, generation: self.generation },
            allocated: self.allocated,
            freed: self.freed,
            replaced: self.edit.replaced,
            retired: self.retired,
            changes: Arc::new(self.changes),
            gained: self.edit.gained,
            lost: self.edit.lost,
            bytes_in_memory: self.bytes_in_memory,
            has_dropped: self.has_dropped,
            membership: self.membership,
        })
    }

    /// The master tree with the changed spaces in it.
    fn write_back(&mut self) -> Result<crate::tree::Tree> {
        self.write_dead()?;
        let mut master = self.base.master.clone();
        let spaces = std::mem::take(&mut self.spaces);
        for (space, working) in spaces.into_iter().filter(|(_, working)| working.changed) {
            match working.root {
                Some(root) => master.insert(&mut self.edit, space_key(space), Value::Root(root))?,
                None => master.remove(&mut self.edit, &space.0.to_be_bytes())?,
            };
        }
        Ok(master)
    }
}
