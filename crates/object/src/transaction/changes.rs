//! What a transaction changes: the calls of the same names, without a commit of their own.
//!
//! Invariant: a call that fails has changed nothing of the transaction; it may go on, or end with that error.

use koine_kv::RequestId;

use super::LocalTransaction;
use crate::body::Finished;
use crate::delete::Delete;
use crate::edit::{Edit, EditPlace};
use crate::error::Result;
use crate::keys;
use crate::object_name::ObjectName;
use crate::put::Put;
use crate::request::{
    AttributeChange, ByteRange, ComposeOptions, CopyOptions, DeleteOptions, Deleted, EditOptions, ExchangeOptions,
    PutOptions, RenameOptions, Segment,
};
use crate::verb::{Applied, Verb, perform};
use crate::version::DeleteVersion;
use crate::version_id::VersionId;

impl LocalTransaction {
    pub fn put(&mut self, name: ObjectName<'_>, body: &Finished, options: &PutOptions) -> Result<()> {
        let put = Put::staged(&self.local, name, body, PutOptions { request: None, ..options.clone() })?;
        self.change(put)
    }

    pub fn write_at(
        &mut self,
        name: ObjectName<'_>,
        offset: u64,
        body: &Finished,
        options: &EditOptions,
    ) -> Result<()> {
        self.change(Edit::staged(name, EditPlace::At(offset), body, unnamed(options))?)
    }

    pub fn append(&mut self, name: ObjectName<'_>, body: &Finished, options: &EditOptions) -> Result<()> {
        self.change(Edit::staged(name, EditPlace::End, body, unnamed(options))?)
    }

    pub fn truncate(&mut self, name: ObjectName<'_>, length: u64, options: &EditOptions) -> Result<()> {
        self.change(Edit::truncate(name, length, unnamed(options))?)
    }

    pub fn write_copy(
        &mut self,
        from: ObjectName<'_>,
        range: ByteRange,
        to: ObjectName<'_>,
        offset: u64,
        options: &EditOptions,
    ) -> Result<()> {
        self.change(crate::edit::write_copy(from, range, to, offset, unnamed(options))?)
    }

    pub fn compose(&mut self, sources: &[Segment<'_>], to: ObjectName<'_>, options: &ComposeOptions) -> Result<()> {
        let put = PutOptions { request: None, ..options.put.clone() };
        let options = ComposeOptions { put, ..options.clone() };
        self.change(crate::edit::compose(sources, to, options)?)
    }

    pub fn copy(&mut self, from: ObjectName<'_>, to: ObjectName<'_>, options: &CopyOptions) -> Result<()> {
        let copy = self.local.prepare_copy(from, to, CopyOptions { request: None, ..options.clone() })?;
        self.change(copy)
    }

    pub fn rename(&mut self, from: ObjectName<'_>, to: ObjectName<'_>, options: &RenameOptions) -> Result<()> {
        let options = RenameOptions { request: None, ..options.clone() };
        self.change(crate::rename::rename(from, to, options)?)
    }

    pub fn exchange(&mut self, one: ObjectName<'_>, other: ObjectName<'_>) -> Result<()> {
        self.change(crate::rename::exchange(one, other, ExchangeOptions::default())?)
    }

    pub fn delete(&mut self, name: ObjectName<'_>, options: &DeleteOptions) -> Result<Deleted> {
        keys::check_object_key(name.key)?;
        let delete = Delete::new(name, options.clone());
        self.change_telling(delete, Delete::deleted)
    }

    pub fn delete_version(&mut self, name: ObjectName<'_>, version: VersionId) -> Result<Deleted> {
        let delete = DeleteVersion::new(name, version)?;
        self.change_telling(delete, DeleteVersion::deleted)
    }

    pub fn set_attributes(
        &mut self,
        name: ObjectName<'_>,
        change: AttributeChange,
        options: &EditOptions,
    ) -> Result<()> {
        self.change(crate::attributes::set(name, change, unnamed(options))?)
    }

    /// Adds what a verb changes.
    fn change<V: Verb>(&mut self, verb: V) -> Result<()> {
        self.change_telling(verb, |_| ())
    }

    /// The same, and tells what is known of it before the commit.
    fn change_telling<V: Verb, T>(&mut self, mut verb: V, tell: impl FnOnce(&V) -> T) -> Result<T> {
        let (applied, removals) = perform(&self.local, &mut self.below, &mut verb)?;
        self.removals.extend(removals);
        match applied {
            Applied::Changed | Applied::Done(_) => Ok(tell(&verb)),
            Applied::MaybeReplayed(_, error) => Err(error),
        }
    }
}

/// The transaction has a name, its calls have none.
fn unnamed(options: &EditOptions) -> EditOptions {
    let none: Option<RequestId> = None;
    EditOptions { request: none, ..options.clone() }
}
