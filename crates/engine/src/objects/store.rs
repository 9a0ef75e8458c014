//! A store of numbered objects: opening, creating, deleting, listing, closing.
//!
//! Invariants:
//! - At most one store on an engine at a time, so the count in memory is the count; each commit that makes or
//!   removes objects changes the count on the device too.
//! - A store does not close while an object is open or a call is under way.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hint::Hint;
use super::inner::Inner;
use super::layout::{SPACE, number_of, objects_from};
use super::object::Object;
use super::status::StoreStatus;
use super::transaction::{Transaction, TransactionOptions};
use crate::batch::Durability;
use crate::device::{FileDevice, OpenOptions};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Options;

/// The most objects that one call creates or deletes.
pub const CREATE_MANY_MAX: usize = 16_384;

/// How a store is opened over an engine.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// What it is called in statuses and errors: its path where it has one.
    pub name: String,
    /// The most objects that there may be. Fixed when the store is used for the first time; later `None` takes
    /// what was fixed, and anything else must be the same.
    pub object_limit: Option<u64>,
}

/// How an object is created.
#[derive(Clone, Copy, Debug)]
pub struct CreateOptions {
    /// Its first size in bytes; reads as zeros. So much space is set aside: writing these bytes for the first time
    /// never fails for want of it. Creating fails with `Full` when so much is not free.
    pub size: u64,
    /// How it will be used.
    pub hint: Hint,
    /// What the creation survives when the call returns.
    pub durability: Durability,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions { size: 0, hint: Hint::default(), durability: Durability::Memory }
    }
}

/// A store of numbered objects. Thread-safe; share it by reference or `Arc`.
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

impl Store {
    /// Opens the store in the file or device at `path`, and the engine with it; [`Store::close`] closes both.
    pub fn open(path: &Path, engine: Options) -> Result<Store> {
        let device = FileDevice::open(path, OpenOptions { create: false, read_only: engine.read_only })?;
        let name = path.display().to_string();
        Store::own(Engine::open(Arc::new(device), engine)?, StoreOptions { name, object_limit: None })
    }

    /// Opens the store in an engine, making it at the first use. [`Store::close`] closes the engine too. The
    /// options' name is the path of the engine's file or device.
    pub fn own(engine: Engine, options: StoreOptions) -> Result<Store> {
        let path = PathBuf::from(&options.name);
        Ok(Store { inner: Arc::new(Inner::open(Arc::new(engine), options, Some(path))?) })
    }

    /// Opens the store in an engine that others use too, making it at the first use. [`Store::close`] leaves the
    /// engine open.
    pub fn over(engine: Arc<Engine>, options: StoreOptions) -> Result<Store> {
        Ok(Store { inner: Arc::new(Inner::open(engine, options, None)?) })
    }

    /// The engine that it lies in: to let that grow, and for streams of its spaces. Everything so far has its place there.
    pub fn engine(&self) -> &Engine {
        self.inner.gather.flush();
        &self.inner.engine
    }

    /// What it is called: its path where it has one.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Creates an object of `size` bytes that read as zeros, as [`CreateOptions::size`] tells.
    pub fn create(&self, size: u64) -> Result<Object> {
        self.create_with(CreateOptions { size, ..CreateOptions::default() })
    }

    /// Creates an object.
    pub fn create_with(&self, options: CreateOptions) -> Result<Object> {
        let inner = &self.inner;
        inner.check_room(options.size.max(options.hint.expected_len.unwrap_or(0)))?;
        let node = inner.create_one(options.size, options.durability)?;
        Ok(Object::new(Arc::clone(inner), node, options.hint))
    }

    /// Creates up to [`CREATE_MANY_MAX`] objects of `size` bytes in one commit, without opening them, and gives
    /// their numbers. All are made or none; space is set aside as [`CreateOptions::size`] tells.
    pub fn create_many(&self, many: usize, size: u64, durability: Durability) -> Result<Range<u64>> {
        check_many(many)?;
        self.inner.within(|| {
            self.inner.check_room(size.saturating_mul(many as u64))?;
            if size > 0 && many > 0 {
                return self.inner.create_reserved(many as u64, size, durability);
            }
            let (numbers, pending) = self.inner.create(many as u64, size, durability)?;
            // Nobody has them open: so that whoever opens one finds it.
            pending.wait()?;
            Ok(numbers)
        })
    }

    /// Opens an object by its number.
    pub fn open_object(&self, number: u64) -> Result<Object> {
        self.open_with(number, Hint::default())
    }

    /// Opens an object by its number, with what is known about its use.
    pub fn open_with(&self, number: u64, hint: Hint) -> Result<Object> {
        Ok(Object::new(Arc::clone(&self.inner), self.inner.find(number)?, hint))
    }

    /// Deletes an object by its number, whether it is open or not.
    pub fn delete(&self, number: u64, durability: Durability) -> Result<()> {
        self.inner.delete_by_number(number, durability)
    }

    /// Deletes up to [`CREATE_MANY_MAX`] objects in one commit; none when one of them is not there.
    pub fn delete_many(&self, numbers: &[u64], durability: Durability) -> Result<()> {
        check_many(numbers.len())?;
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid("an object is named twice among those to be deleted"));
        }
        self.inner.within(|| self.inner.delete_many(&sorted, durability))
    }

    /// The numbers of at most `many` objects, in order, from `from` on.
    pub fn list(&self, from: u64, many: usize) -> Result<Vec<u64>> {
        self.inner.within(|| {
            if let Some(pending) = self.inner.gather.latest() {
                pending.wait()?;
            }
            self.inner.table.settle()?;
            let mut cursor = self.inner.engine.view().cursor(SPACE, objects_from(from), false)?;
            let mut numbers = Vec::new();
            while numbers.len() < many
                && let Some(entry) = cursor.next()?
            {
                numbers.push(number_of(&entry.key)?);
            }
            Ok(numbers)
        })
    }

    /// Begins a transaction over objects of this store.
    pub fn transaction<'b>(&self, options: TransactionOptions) -> Result<Transaction<'b>> {
        Transaction::begin(&self.inner, options)
    }

    /// How full the store is.
    pub fn status(&self) -> Result<StoreStatus> {
        let inner = &self.inner;
        inner.within(|| {
            let (usage, info, objects) = (inner.engine.usage(), inner.engine.info(), inner.count());
            Ok(StoreStatus {
                store: inner.name.to_string(),
                store_id: info.store_id,
                block_len: info.block_len,
                objects,
                // This call is one of them.
                open: inner.table.uses() - 1,
                limit: inner.limit,
                possible: inner.limit.map(|limit| limit.saturating_sub(objects)),
                total: usage.total,
                used: usage.used,
                free: usage.free,
                total_max: usage.limit,
            })
        })
    }

    /// Makes everything so far survive power loss. Where writes that were kept in memory were lost for want of room, the
    /// first call after it tells.
    pub fn sync(&self) -> Result<()> {
        self.inner.within(|| self.inner.gather.sync())
    }

    /// Closes the store, with everything so far durable. `Busy` while objects are open.
    pub fn close(&self) -> Result<()> {
        let inner = &self.inner;
        if inner.engine.check_process().is_err() {
            // A forked copy: the store is the parent's.
            return Ok(());
        }
        inner.table.shut()?;
        let kept = inner.gather.stop();
        let marked = inner.mark_next();
        let closed = if inner.owns { inner.engine.close() } else { inner.engine.sync() };
        inner.give_back();
        marked.and(closed).and(kept)
    }
}

fn check_many(many: usize) -> Result<()> {
    if many > CREATE_MANY_MAX {
        let message = format!("{many} objects in one call; the most is {CREATE_MANY_MAX}: make several calls");
        return Err(Error::invalid(message));
    }
    Ok(())
}
