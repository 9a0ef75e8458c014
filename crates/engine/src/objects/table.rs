//! The objects that are open, or whose last change is not visible yet; who is inside the store; what is known of others.
//!
//! Invariants:
//! - All handles of an object share one node. A node stays in the table until nobody has it open and its last change is
//!   visible (or failed), or was gathered: then [`ExistenceCache`] tells what it did until it is visible.
//! - A number that is neither in the table nor known has no change that is not visible: the index tells.
//! - A deleted object is found here, or known to be absent, until its deletion is visible: nobody opens it.
//! - Who is inside is counted in the shard of the object that it came for, and the store is shut with all of them locked.

use std::collections::VecDeque;
use std::collections::hash_map::Entry as Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::MutexGuard;

use super::existence_cache::{ByNumber, ExistenceCache, Presence};
use super::node::{Node, absent};
use super::pending::Pending;
use super::write_buffer::{Buffered, Next};
use crate::device::Process;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::Mutex;

/// Parts of the table with locks of their own.
const SHARDS: u64 = 16;
/// What is known is kept of 64 times so many numbers in each shard: of eight million, in some 8 MB when all were met.
const KNOWN_MAX: usize = 8192;
/// So many gathered changes are settled before the next shard is locked.
const SETTLED_AT_ONCE: usize = 1024;

struct Entry {
    node: Arc<Node>,
    handles: u64,
}

struct Shard {
    /// By number within the shard.
    nodes: ByNumber<Entry>,
    known: ExistenceCache,
    /// Who is inside the store.
    uses: u64,
    closed: bool,
}

/// What becomes of a deletion by number.
pub enum Deletion {
    /// It was gathered.
    Buffered(Next),
    /// The object is in use, or only the index can tell whether it is there.
    ByNode,
}

/// All nodes.
pub struct Table {
    /// A forked copy lets nobody in.
    process: Process,
    name: Arc<str>,
    /// As all shards say.
    closed: AtomicBool,
    shards: [Mutex<Shard>; SHARDS as usize],
    /// Objects that nobody has open and whose last change was not visible when they were closed, oldest first.
    lingering: Mutex<VecDeque<u64>>,
    /// How many they are.
    lingers: AtomicUsize,
}

impl Shard {
    fn enter(&mut self, store: &str) -> Result<()> {
        if self.closed {
            return Err(closed(store));
        }
        self.uses += 1;
        Ok(())
    }
}

fn closed(store: &str) -> Error {
    Error::invalid(format!("the store {store} was closed"))
}

/// A number among those of its shard.
fn within_shard(number: u64) -> u64 {
    number / SHARDS
}

impl Table {
    /// Of a store of this name.
    pub fn new(name: Arc<str>) -> Table {
        let shard =
            || Shard { nodes: ByNumber::default(), known: ExistenceCache::new(KNOWN_MAX), uses: 0, closed: false };
        Table {
            process: Process::here(),
            name,
            closed: AtomicBool::new(false),
            shards: std::array::from_fn(|_| Mutex::new(shard())),
            lingering: Mutex::default(),
            lingers: AtomicUsize::new(0),
        }
    }

    fn shard(&self, number: u64) -> MutexGuard<'_, Shard> {
        self.shards[(number % SHARDS) as usize].lock()
    }

    /// Keeps the store from being closed; `leave_store` ends it.
    pub fn enter_store(&self) -> Result<()> {
        self.process.check()?;
        self.shard(0).enter(&self.name)
    }

    /// Ends what `enter_store` began.
    pub fn leave_store(&self) {
        self.shard(0).uses -= 1;
    }

    /// How many are inside.
    pub fn uses(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().uses).sum()
    }

    /// Lets nobody in any more. `Busy` while somebody is inside.
    pub fn shut(&self) -> Result<()> {
        let mut shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        if shards.iter().any(|shard| shard.closed) {
            return Err(Error::invalid(format!("the store {} was closed already", self.name)));
        }
        let uses: u64 = shards.iter().map(|shard| shard.uses).sum();
        if uses > 0 {
            let objects = if uses == 1 { "1 object".to_owned() } else { format!("{uses} objects") };
            let message = format!("the store {} has {objects} open: close them first, then the store", self.name);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        shards.iter_mut().for_each(|shard| shard.closed = true);
        self.closed.store(true, Ordering::Release);
        Ok(())
    }

    /// Fails when the store was closed.
    pub fn check_open(&self) -> Result<()> {
        self.process.check()?;
        if self.closed.load(Ordering::Acquire) { Err(closed(&self.name)) } else { Ok(()) }
    }

    /// Gathers the creation of an object (`push` does) and gives its node, with one handle and one use of the store.
    pub fn create(&self, number: u64, push: impl FnOnce() -> (Arc<Pending>, Next)) -> Result<(Arc<Node>, Next)> {
        let mut shard = self.shard(number);
        shard.enter(&self.name)?;
        shard.known.gathered(within_shard(number), true);
        let (pending, next) = push();
        let (node, was_there) = match shard.nodes.entry(within_shard(number)) {
            Place::Vacant(place) => {
                let node = Node::new(number, true, Some(Arc::clone(&pending)));
                place.insert(Entry { node: Arc::clone(&node), handles: 1 });
                (node, false)
            }
            // Somebody looks whether there is an object of the next number.
            Place::Occupied(mut entry) => {
                entry.get_mut().handles += 1;
                (Arc::clone(&entry.get().node), true)
            }
        };
        drop(shard);
        if was_there {
            node.created(&pending);
        }
        Ok((node, next))
    }

    /// The node of an object, with one handle more and one use of the store; whether it is sure that the object is
    /// there. `latest` gives what was gathered last.
    pub fn open(&self, number: u64, latest: impl FnOnce() -> Option<Arc<Pending>>) -> Result<(Arc<Node>, bool)> {
        let mut shard = self.shard(number);
        shard.enter(&self.name)?;
        if let Some(entry) = shard.nodes.get_mut(&within_shard(number)) {
            entry.handles += 1;
            return Ok((Arc::clone(&entry.node), false));
        }
        let (there, pending) = match shard.known.look(within_shard(number)) {
            Presence::Absent => {
                shard.uses -= 1;
                return Err(absent(number));
            }
            Presence::There { unseen: true } => (true, latest()),
            Presence::There { unseen: false } => (true, None),
            Presence::Unknown => (false, None),
        };
        let node = Node::new(number, there, pending);
        shard.nodes.insert(within_shard(number), Entry { node: Arc::clone(&node), handles: 1 });
        Ok((node, there))
    }

    /// Gathers the deletion of an object (`push` does) that nobody has open and that is known to be there.
    pub fn delete(&self, number: u64, push: impl FnOnce() -> (Arc<Pending>, Next)) -> Result<Deletion> {
        let mut shard = self.shard(number);
        if shard.closed {
            return Err(closed(&self.name));
        }
        if shard.nodes.contains_key(&within_shard(number)) {
            return Ok(Deletion::ByNode);
        }
        match shard.known.look(within_shard(number)) {
            Presence::Absent => Err(absent(number)),
            Presence::There { .. } => {
                shard.known.gathered(within_shard(number), false);
                Ok(Deletion::Buffered(push().1))
            }
            Presence::Unknown => Ok(Deletion::ByNode),
        }
    }

    /// Gathers the deletion (`push` does) of an object whose node the caller has locked.
    pub fn delete_in_use<T>(&self, number: u64, push: impl FnOnce() -> T) -> T {
        let mut shard = self.shard(number);
        shard.known.gathered(within_shard(number), false);
        push()
    }

    /// The index told that the object is there; the caller has its node locked.
    pub fn learn(&self, number: u64) {
        self.shard(number).known.learn(within_shard(number));
    }

    /// A commit of its own is about to delete the object; the caller has its node in use.
    pub fn forget(&self, number: u64) {
        self.shard(number).known.forget(within_shard(number));
    }

    /// What was gathered is visible, or has failed.
    pub fn settle_gathered(&self, gathered: &[Buffered], pending: &Pending) {
        let settle = |shard: &mut Shard, gathered: &Buffered| {
            let failed = !matches!(pending.peek_for(gathered.number), Some(Ok(())));
            shard.known.settled(within_shard(gathered.number), gathered.creates, failed);
        };
        if gathered.len() < SHARDS as usize {
            gathered.iter().for_each(|of| settle(&mut self.shard(of.number), of));
            return;
        }
        for some in gathered.chunks(SETTLED_AT_ONCE) {
            for number in 0..SHARDS {
                let mut shard = self.shard(number);
                some.iter().filter(|of| of.number % SHARDS == number).for_each(|of| settle(&mut shard, of));
            }
        }
    }

    /// The node of an object, made when it is not in use; with one handle more.
    pub fn enter(&self, number: u64, make: impl FnOnce() -> Arc<Node>) -> Arc<Node> {
        let mut shard = self.shard(number);
        let entry = shard.nodes.entry(within_shard(number)).or_insert_with(|| Entry { node: make(), handles: 0 });
        entry.handles += 1;
        Arc::clone(&entry.node)
    }

    /// As `enter`, with one use of the store more; for who is inside.
    pub fn enter_used(&self, number: u64, make: impl FnOnce() -> Arc<Node>) -> Arc<Node> {
        self.shard(number).uses += 1;
        self.enter(number, make)
    }

    /// One handle less, and one use of the store.
    pub fn leave(&self, number: u64) {
        self.give_up(number, 1);
    }

    /// One handle less; who had it stays inside the store.
    pub fn exit(&self, number: u64) {
        self.give_up(number, 0);
    }

    fn give_up(&self, number: u64, uses: u64) {
        let mut shard = self.shard(number);
        shard.uses -= uses;
        let Some(entry) = shard.nodes.get_mut(&within_shard(number)) else { return };
        entry.handles -= 1;
        let (is_last, lingers) = (entry.handles == 0, entry.handles == 0 && !entry.node.is_dispensable());
        // Let go of once the shard is free for others.
        let _entry = (is_last && !lingers).then(|| shard.nodes.remove(&within_shard(number)));
        drop(shard);
        if lingers || self.lingers.load(Ordering::Relaxed) > 0 {
            self.let_go(lingers.then_some(number));
        }
    }

    /// Adds one that lingers, and lets go of those whose last change is visible.
    fn let_go(&self, number: Option<u64>) {
        let mut lingering = self.lingering.lock();
        lingering.extend(number);
        while let Some(number) = lingering.front().copied() {
            let mut shard = self.shard(number);
            match shard.nodes.get(&within_shard(number)) {
                Some(entry) if entry.handles == 0 && !entry.node.is_dispensable() => break,
                Some(entry) if entry.handles == 0 => drop(shard.nodes.remove(&within_shard(number))),
                // Opened again: closing it comes back to it.
                _ => {}
            }
            drop(shard);
            lingering.pop_front();
        }
        self.lingers.store(lingering.len(), Ordering::Relaxed);
    }

    /// Waits until every change that was submitted before is visible.
    pub fn settle(&self) -> Result<()> {
        for shard in &self.shards {
            let nodes: Vec<Arc<Node>> = shard.lock().nodes.values().map(|entry| Arc::clone(&entry.node)).collect();
            for pending in nodes.iter().filter_map(|node| node.pending()) {
                match pending.wait() {
                    // A change that was refused is no matter of who asks for all.
                    Err(error) if error.kind() == ErrorKind::Stopped => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().nodes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;

    fn push() -> (Arc<Pending>, Next) {
        (Arc::new(Pending::gathered(&Weak::new())), Next::Nothing)
    }

    #[test]
    fn what_is_gathered_is_remembered_while_it_is_not_visible() {
        let table = Table::new("test".into());
        let (node, next) = table.create(5, push).unwrap();
        assert!(node.number() == 5 && next == Next::Nothing);
        assert!(matches!(table.delete(5, push), Ok(Deletion::ByNode)));
        assert!(matches!(table.delete(6, push), Ok(Deletion::ByNode)));
        table.leave(5);
        assert_eq!((table.uses(), table.len()), (0, 0));
        // Nobody has it open, and it is remembered however many others are met.
        let others = |from: u64| (from..from + 64 * SHARDS * KNOWN_MAX as u64 * 2).step_by(64 * SHARDS as usize);
        others(5 + 64 * SHARDS).for_each(|number| table.learn(number));
        let gathered = push().0;
        let (node, there) = table.open(5, || Some(Arc::clone(&gathered))).unwrap();
        assert!(there && node.pending().is_some_and(|pending| Arc::ptr_eq(&pending, &gathered)));
        table.leave(5);
        assert!(matches!(table.delete(5, push), Ok(Deletion::Buffered(Next::Nothing))));
        assert_eq!(table.open(5, || None).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        gathered.submitted(None, None);
        table.settle_gathered(&[true, false].map(|creates| Buffered { number: 5, creates }), &gathered);
        assert_eq!(table.open(5, || None).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        others(5 + 64 * SHARDS).for_each(|number| table.learn(number));
        // Only the index can tell now.
        assert!(!table.open(5, || None).unwrap().1);
    }

    #[test]
    fn who_is_inside_keeps_the_store_open() {
        let table = Table::new("test".into());
        table.enter_store().unwrap();
        let (node, _next) = table.create(7, push).unwrap();
        assert_eq!(node.number(), 7);
        assert_eq!(table.uses(), 2);
        assert_eq!(table.shut().unwrap_err().kind(), ErrorKind::Busy);
        table.leave_store();
        table.leave(7);
        table.shut().unwrap();
        assert!(table.enter_store().is_err() && table.check_open().is_err());
        assert!(table.open(7, || None).is_err() && table.create(8, push).is_err());
        assert!(table.delete(7, push).is_err() && table.shut().is_err());
        assert_eq!(table.uses(), 0);
    }
}
