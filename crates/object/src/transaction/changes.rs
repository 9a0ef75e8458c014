//! What a transaction changes: the calls of the same names, without a commit of their own.
//!
//! Invariant: a call that fails has changed nothing of the transaction; it may go on, or end with that error.

use koine_kv::RequestId;

use super::{StagedBody, Transaction};
use crate::copy::Name;
use crate::delete::Delete;
use crate::edit::{Edit, EditPlace};
use crate::error::Result;
use crate::keys;
use crate::put::Put;
use crate::remote::{InTransaction as In, Source};
use crate::request::{
    AttributeChange, ByteRange, ComposeOptions, CopyOptions, DeleteOptions, Deleted, EditOptions, ExchangeOptions,
    ObjectName, PutOptions, RenameOptions, Segment,
};
use crate::verb::{Applied, Verb, perform};
use crate::version::{DeleteVersion, VersionId};

impl Transaction<'_> {
    /// Puts an object. Of the options, length and checksums were those of the body.
    pub fn put(&mut self, name: ObjectName<'_>, body: &StagedBody, options: &PutOptions) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Put(Name::new(name), body.number_there()?, Box::new(options.clone())));
        }
        let put = Put::staged(self.objects, name, body, PutOptions { request: None, ..options.clone() })?;
        self.change(put)
    }

    /// Writes into an object at an offset, in bytes.
    pub fn write_at(
        &mut self,
        name: ObjectName<'_>,
        offset: u64,
        body: &StagedBody,
        options: &EditOptions,
    ) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::WriteAt(Name::new(name), offset, body.number_there()?, Box::new(options.clone())));
        }
        self.change(Edit::staged(name, EditPlace::At(offset), body, unnamed(options))?)
    }

    /// Writes at the end of an object. Its checksums stay where the body was staged with the same ones.
    pub fn append(&mut self, name: ObjectName<'_>, body: &StagedBody, options: &EditOptions) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Append(Name::new(name), body.number_there()?, Box::new(options.clone())));
        }
        self.change(Edit::staged(name, EditPlace::End, body, unnamed(options))?)
    }

    /// Gives an object another length, in bytes.
    pub fn truncate(&mut self, name: ObjectName<'_>, length: u64, options: &EditOptions) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Truncate(Name::new(name), length, Box::new(options.clone())));
        }
        self.change(Edit::truncate(name, length, unnamed(options))?)
    }

    /// Writes a range of one object into another without copying data.
    pub fn write_copy(
        &mut self,
        from: ObjectName<'_>,
        range: ByteRange,
        to: ObjectName<'_>,
        offset: u64,
        options: &EditOptions,
    ) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::WriteCopy(
                Name::new(from),
                range,
                Name::new(to),
                offset,
                Box::new(options.clone()),
            ));
        }
        self.change(crate::edit::write_copy(from, range, to, offset, unnamed(options))?)
    }

    /// Makes an object of others, without copying data.
    pub fn compose(&mut self, sources: &[Segment<'_>], to: ObjectName<'_>, options: &ComposeOptions) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Compose(
                sources.iter().map(Source::new).collect(),
                Name::new(to),
                Box::new(options.clone()),
            ));
        }
        let put = PutOptions { request: None, ..options.put.clone() };
        let options = ComposeOptions { put, ..options.clone() };
        self.change(crate::edit::compose(sources, to, options)?)
    }

    /// Copies an object without copying its data. A checksum that nobody has stored is computed by reading, from the
    /// newest version: a source that this transaction has changed is a `Conflict` then.
    pub fn copy(&mut self, from: ObjectName<'_>, to: ObjectName<'_>, options: &CopyOptions) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Copy(Name::new(from), Name::new(to), Box::new(options.clone())));
        }
        let copy = self.objects.prepare_copy(from, to, CopyOptions { request: None, ..options.clone() })?;
        self.change(copy)
    }

    /// Gives an object another name.
    pub fn rename(&mut self, from: ObjectName<'_>, to: ObjectName<'_>, options: &RenameOptions) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Rename(Name::new(from), Name::new(to), Box::new(options.clone())));
        }
        let options = RenameOptions { request: None, ..options.clone() };
        self.change(crate::rename::rename(from, to, options)?)
    }

    /// Swaps what two names stand for.
    pub fn exchange(&mut self, one: ObjectName<'_>, other: ObjectName<'_>) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::Exchange(Name::new(one), Name::new(other)));
        }
        self.change(crate::rename::exchange(one, other, ExchangeOptions::default())?)
    }

    /// Deletes an object; one that is absent is deleted already.
    pub fn delete(&mut self, name: ObjectName<'_>, options: &DeleteOptions) -> Result<Deleted> {
        if let Some(there) = &self.there {
            return there.delete(In::Delete(Name::new(name), options.clone()));
        }
        keys::check_object_key(name.key)?;
        let delete = Delete::new(name, options.clone());
        self.change_telling(delete, Delete::deleted)
    }

    /// Deletes a version of an object, or a delete marker, for good.
    pub fn delete_version(&mut self, name: ObjectName<'_>, version: VersionId) -> Result<Deleted> {
        if let Some(there) = &self.there {
            return there.delete(In::DeleteVersion(Name::new(name), version));
        }
        let delete = DeleteVersion::new(name, version)?;
        self.change_telling(delete, DeleteVersion::deleted)
    }

    /// Changes what is known of an object beside its bytes.
    pub fn set_attributes(
        &mut self,
        name: ObjectName<'_>,
        change: AttributeChange,
        options: &EditOptions,
    ) -> Result<()> {
        if let Some(there) = &self.there {
            return there.change(In::SetAttributes(Name::new(name), Box::new(change), Box::new(options.clone())));
        }
        self.change(crate::attributes::set(name, change, unnamed(options))?)
    }

    /// Adds what a verb changes.
    fn change<V: Verb>(&mut self, verb: V) -> Result<()> {
        self.change_telling(verb, |_| ())
    }

    /// The same, and tells what is known of it before the commit.
    fn change_telling<V: Verb, T>(&mut self, mut verb: V, tell: impl FnOnce(&V) -> T) -> Result<T> {
        let (applied, removals) = perform(self.objects, &mut self.below, &mut verb)?;
        self.removals.extend(removals);
        match applied {
            Applied::Changed | Applied::Done(_) => Ok(tell(&verb)),
            Applied::Doubtful(_, error) => Err(error),
        }
    }
}

/// The transaction has a name, its calls have none.
fn unnamed(options: &EditOptions) -> EditOptions {
    let none: Option<RequestId> = None;
    EditOptions { request: none, ..options.clone() }
}
