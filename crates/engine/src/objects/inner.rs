//! What the handles of a store share: the engine, the table of objects in use, counts and numbers.
//!
//! Invariants:
//! - The count of objects is raised before a creation is gathered or submitted, so that no race passes the limit.
//! - A deletion lowers it once it has its place in the order of commits.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::layout::{LAYOUT, SPACE, Setting, object_key, object_place, scratch_range};
use super::node::{Node, absent};
use super::numbers::Numbers;
use super::pending::Pending;
use super::store::StoreOptions;
use super::table::{Deletion, Table};
use super::write_buffer::WriteBuffer;
use crate::batch::{Batch, Condition, Durability, Operation, Payload};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::view::View;

/// The engines that have a store.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// What the handles of a store share.
pub struct Inner {
    /// Dropped when the store is closed, so that the engine can get another one. First, so that it lets go of the
    /// engine while that is still there.
    taken: Mutex<Option<Taken>>,
    pub engine: Arc<Engine>,
    pub table: Arc<Table>,
    pub name: Arc<str>,
    /// Whether closing the store closes the engine.
    pub owns: bool,
    pub limit: Option<u64>,
    pub gather: Arc<WriteBuffer>,
    numbers: Numbers,
    /// The next number for what a transaction keeps.
    scratch: AtomicU64,
}

/// An engine's one store.
struct Taken(usize);

impl Taken {
    fn take(engine: &Arc<Engine>, name: &str) -> Result<Taken> {
        let address = Arc::as_ptr(engine) as usize;
        if TAKEN.lock().insert(address) {
            return Ok(Taken(address));
        }
        let message = format!("the objects of {name} are open in this process already: share that store, or close it");
        Err(Error::new(ErrorKind::Owned, message))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.lock().remove(&self.0);
    }
}

impl Inner {
    /// Opens what an engine holds, making it at the first use.
    pub fn open(engine: Arc<Engine>, options: StoreOptions, path: Option<PathBuf>) -> Result<Inner> {
        let taken = Taken::take(&engine, &options.name)?;
        let name: Arc<str> = options.name.into();
        let table = Arc::new(Table::new(Arc::clone(&name)));
        let mut inner = Inner {
            taken: Mutex::new(Some(taken)),
            owns: path.is_some(),
            gather: WriteBuffer::new(Arc::clone(&engine), Arc::clone(&table), path),
            engine,
            table,
            name,
            limit: options.object_limit,
            numbers: Numbers::after(1),
            scratch: AtomicU64::new(0),
        };
        if !inner.engine.view().has_space(SPACE)? {
            inner.make()?;
        }
        inner.load(options.object_limit)?;
        inner.gather.start()?;
        Ok(inner)
    }

    /// The engine may get another store.
    pub fn give_back(&self) {
        *self.taken.lock() = None;
    }

    /// Does `work` with the store kept open.
    pub fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.table.enter_store()?;
        let done = work();
        self.table.leave_store();
        done
    }

    /// Another number for what a transaction keeps.
    pub fn next_scratch(&self) -> u64 {
        self.scratch.fetch_add(1, Ordering::Relaxed)
    }

    /// How many objects there are.
    pub fn count(&self) -> u64 {
        self.gather.count().load(Ordering::SeqCst)
    }

    /// Counts objects that are about to be created, within the limit.
    fn count_in(&self, many: u64) -> Result<()> {
        let limit = self.limit.unwrap_or(i64::MAX as u64);
        let room = |count: u64| count.checked_add(many).filter(|count| *count <= limit);
        self.gather.count().fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).map(|_| ()).map_err(|count| {
            let message = format!(
                "the store {} was made for {limit} objects and has {count}: delete some, or make a store with a higher limit",
                self.name
            );
            Error::new(ErrorKind::Full, message)
        })
    }

    /// Objects were deleted, or not created after all.
    fn count_out(&self, many: u64) {
        self.gather.count().fetch_sub(many, Ordering::SeqCst);
    }

    fn take_numbers(&self, many: u64) -> Result<Range<u64>> {
        self.numbers.take(many, |mark| {
            let batch = Batch::new().put(SPACE, Setting::Next.key(), mark.to_be_bytes().to_vec());
            self.engine.commit(batch, Durability::Sync).map(|_| ())
        })
    }

    /// Sets space aside for the bytes of an object that was just created; deletes it where there is none.
    pub fn preallocate(&self, node: &Arc<Node>, size: u64, durability: Durability) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        // Space is set aside for what is there: the creation may not have its place in the order of commits yet.
        let made = node.settle().map(drop);
        made.and_then(|()| self.engine.reserve(&object_place(node.number()), size, durability)).inspect_err(|_| {
            // What is wrong with that is wrong with the reservation too, which is told.
            let _ = self.delete(node, Durability::Memory);
        })
    }

    /// Refuses what there is no room for at the moment.
    pub fn check_room(&self, size: u64) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        let free = self.gather.room();
        if size > free {
            let message = format!(
                "{size} bytes were asked for and {free} are free: delete something, or give the store more space"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.engine.check_process().is_err() {
            // Its threads are the parent's, and so is what it gathered.
            std::mem::forget((Arc::clone(&self.gather), Arc::clone(&self.engine), Arc::clone(&self.table)));
            return;
        }
        // Nobody is left to be told of what was lost.
        let _ = self.gather.stop();
    }
}

/// The operation that creates an object of this size.
fn creation(number: u64, size: u64) -> Operation {
    let at = object_place(number);
    match size {
        0 => Operation::Put { at, value: Payload::Bytes(Bytes::new()) },
        length => Operation::Truncate { at, length },
    }
}

/// Objects are created and counted.
fn creations(numbers: Range<u64>, size: u64) -> Batch {
    let delta = (numbers.end - numbers.start) as i64;
    let mut batch = Batch::new();
    batch.operations.extend(numbers.map(|number| creation(number, size)));
    batch.then(Operation::AddCounter { at: Setting::Count.place(), delta })
}

impl Inner {
    /// Makes the space at its first use.
    fn make(&self) -> Result<()> {
        let mut batch = Batch::new().then(Operation::CreateSpace { space: SPACE });
        batch = batch.put(SPACE, Setting::Layout.key(), LAYOUT);
        batch = batch.put(SPACE, Setting::Next.key(), 1u64.to_be_bytes().to_vec());
        batch = batch.then(Operation::AddCounter { at: Setting::Count.place(), delta: 0 });
        if let Some(limit) = self.limit {
            batch = batch.put(SPACE, Setting::Limit.key(), limit.to_be_bytes().to_vec());
        }
        self.engine.commit(batch, Durability::Sync).map(|_| ())
    }

    /// Reads what is kept beside the objects, and clears away what a crash left of transactions.
    fn load(&mut self, asked: Option<u64>) -> Result<()> {
        let view = self.engine.view();
        let layout = self.setting::<{ LAYOUT.len() }>(&view, Setting::Layout)?;
        if layout.as_ref().map(<[u8; LAYOUT.len()]>::as_slice) != Some(LAYOUT) {
            let message = "the objects are of a layout that this version does not know: use a newer version";
            return Err(Error::new(ErrorKind::Unknown, message));
        }
        let missing = || Error::damaged("the store of objects has no count or no next number");
        let count = self.setting(&view, Setting::Count)?.map(i64::from_le_bytes).ok_or_else(missing)?;
        let next = self.setting(&view, Setting::Next)?.map(u64::from_be_bytes).ok_or_else(missing)?;
        let limit = self.setting(&view, Setting::Limit)?.map(u64::from_be_bytes);
        if asked.is_some() && asked != limit {
            let fixed = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("a limit of {limit}"));
            return Err(Error::invalid(format!("the store {} was made with {fixed} of objects", self.name)));
        }
        let negative = |_| Error::damaged(format!("the count of objects is {count}"));
        self.gather.count().store(u64::try_from(count).map_err(negative)?, Ordering::SeqCst);
        self.numbers = Numbers::after(next);
        self.limit = limit;
        if view.cursor(SPACE, scratch_range(), false)?.next()?.is_some() {
            let clear = Batch::new().then(Operation::DeleteRange { space: SPACE, range: scratch_range() });
            match self.engine.commit(clear, Durability::Memory) {
                // Opened to read only: it stays, unseen.
                Err(error) if error.kind() == ErrorKind::Invalid => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    fn setting<const LEN: usize>(&self, view: &View, setting: Setting) -> Result<Option<[u8; LEN]>> {
        let key = setting.key();
        match view.stat(SPACE, &key)? {
            None => Ok(None),
            Some(stat) if stat.size != LEN as u64 => {
                Err(Error::damaged(format!("a setting of the objects has {} bytes instead of {LEN}", stat.size)))
            }
            Some(_) => {
                let mut bytes = [0; LEN];
                view.read(SPACE, &key, 0, &mut bytes)?;
                Ok(Some(bytes))
            }
        }
    }

    /// So that the numbers reserved and not used are not skipped.
    pub fn mark_next(&self) -> Result<()> {
        let next = self.numbers.next().to_be_bytes();
        if self.setting(&self.engine.view(), Setting::Next)? == Some(next) {
            return Ok(());
        }
        let batch = Batch::new().put(SPACE, Setting::Next.key(), next.to_vec());
        self.gather.commit(batch, Durability::Memory)
    }

    /// Creates objects that have their space set aside, in one commit; nobody has them open.
    pub fn create_reserved(&self, many: u64, size: u64, durability: Durability) -> Result<Range<u64>> {
        self.count_in(many)?;
        let created = self.take_numbers(many).and_then(|numbers| {
            let places: Vec<_> = numbers.clone().map(object_place).collect();
            self.engine.reserve_with(creations(numbers.clone(), size), &places, size, durability)?;
            Ok(numbers)
        });
        created.inspect_err(|_| self.count_out(many))
    }

    /// Submits the creation of objects, and waits as the durability asks.
    pub fn create(&self, many: u64, size: u64, durability: Durability) -> Result<(Range<u64>, Arc<Pending>)> {
        self.count_in(many)?;
        let created = self.take_numbers(many).and_then(|numbers| {
            let batch = creations(numbers.clone(), size);
            let pending = self.gather.submit(batch, durability)?;
            if durability > Durability::Memory {
                pending.wait()?;
            }
            Ok((numbers, pending))
        });
        created.inspect_err(|_| self.count_out(many))
    }

    /// Creates one object and gives its node, with one handle and one use of the store. Where memory is enough for an
    /// object without bytes it is gathered with others.
    pub fn create_one(&self, size: u64, durability: Durability) -> Result<Arc<Node>> {
        self.table.check_open()?;
        if durability == Durability::Memory && size == 0 && !self.gather.is_full() {
            self.gather.check()?;
            self.count_in(1)?;
            let created = self.take_numbers(1).and_then(|numbers| {
                // Where this fails the number is not given out: there is no harm in a gap.
                self.table.create(numbers.start, || self.gather.push(numbers.start, true))
            });
            let (node, next) = created.inspect_err(|_| self.count_out(1))?;
            self.gather.after(next);
            return Ok(node);
        }
        self.table.enter_store()?;
        let made = self.create(1, size, durability).and_then(|(numbers, pending)| {
            self.gather.note_room();
            let node = self.table.enter_used(numbers.start, || Node::new(numbers.start, true, Some(pending)));
            self.preallocate(&node, size, durability).inspect_err(|_| self.table.leave(numbers.start))?;
            Ok(node)
        });
        self.table.leave_store();
        made
    }

    /// The node of an object that is there, with one handle and one use of the store more.
    pub fn find(&self, number: u64) -> Result<Arc<Node>> {
        let (node, is_there) = self.table.open(number, || self.gather.latest())?;
        if is_there {
            return Ok(node);
        }
        // Looked for once the node is in the table: from then on nobody deletes the object past it.
        let there = node.check_there(|| {
            let there = self.engine.contains(SPACE, &number.to_be_bytes())?;
            if there {
                self.table.learn(number);
            }
            Ok(there)
        });
        if there.is_err() {
            self.table.leave(number);
        }
        there.map(|()| node)
    }

    /// Deletes an object, whether somebody has it open or not.
    pub fn delete_by_number(&self, number: u64, durability: Durability) -> Result<()> {
        if durability == Durability::Memory {
            self.gather.check()?;
            if let Deletion::Buffered(next) = self.table.delete(number, || self.gather.push(number, false))? {
                self.count_out(1);
                self.gather.after(next);
                return Ok(());
            }
        }
        let node = self.find(number)?;
        let done = self.delete(&node, durability);
        self.table.leave(number);
        done
    }

    /// Deletes an object that somebody has open.
    pub fn delete(&self, node: &Node, durability: Durability) -> Result<()> {
        if durability == Durability::Memory {
            self.gather.check()?;
            let mut state = node.lock()?;
            node.forget_status();
            let (pending, next) = self.gather.delete(node);
            node.note(&mut state, &pending, true);
            drop(state);
            self.count_out(1);
            self.gather.after(next);
            return Ok(());
        }
        let (space, key) = (SPACE, object_key(node.number()));
        let batch = Batch::new().when(Condition::Present { space, key: key.clone() }).delete(space, key);
        let batch = batch.then(Operation::AddCounter { at: Setting::Count.place(), delta: -1 });
        self.table.forget(node.number());
        node.change(&self.gather, batch, durability, true)?;
        self.count_out(1);
        Ok(())
    }

    /// Deletes objects, sorted by number, in one commit.
    pub fn delete_many(&self, numbers: &[u64], durability: Durability) -> Result<()> {
        let mut nodes = Vec::with_capacity(numbers.len());
        let mut found = Ok(());
        for number in numbers {
            match self.find(*number) {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    found = Err(error);
                    break;
                }
            }
        }
        let done = found.and_then(|()| self.delete_nodes(&nodes, durability));
        nodes.iter().for_each(|node| self.table.leave(node.number()));
        done
    }

    fn delete_nodes(&self, nodes: &[Arc<Node>], durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        for node in nodes {
            let key = object_key(node.number());
            batch.conditions.push(Condition::Present { space: SPACE, key: key.clone() });
            batch = batch.delete(SPACE, key);
        }
        let many = nodes.len() as u64;
        batch = batch.then(Operation::AddCounter { at: Setting::Count.place(), delta: -(many as i64) });
        let explain = |error: Error| match error.refusal() {
            Some(Refusal::Condition(index)) => nodes.get(index as usize).map_or(error, |node| absent(node.number())),
            _ => error,
        };
        let pending = {
            // In the order of numbers, as everybody who locks several.
            let mut states = nodes.iter().map(|node| node.lock()).collect::<Result<Vec<_>>>()?;
            for node in nodes {
                node.forget_status();
                self.table.forget(node.number());
            }
            let pending = self.gather.submit(batch, durability).map_err(explain)?;
            nodes.iter().zip(&mut states).for_each(|(node, state)| node.note(state, &pending, true));
            pending
        };
        self.count_out(many);
        if durability > Durability::Memory {
            pending.wait().map_err(explain)?;
        }
        Ok(())
    }
}
