//! Putting an object: a body, then one commit.
//!
//! Invariants:
//! - The commit puts the name and the data, and deletes what stood under the name with its data.
//! - The caller's condition is checked against what the same commit replaces.

use koine_kv::{Commit, Payload, RequestId, Transaction};

use crate::access_list::AccessList;
use crate::accounts::check_list;
use crate::action::Action;
use crate::body::{Body, Finished};
use crate::checksum::{Digests, Expected};
use crate::error::Result;
use crate::etag::{ETag, PutCondition};
use crate::ids::ObjectId;
use crate::info::ObjectInfo;
use crate::keys;
use crate::layout;
use crate::limits::{check_headers, check_metadata, check_tags};
use crate::local::Local;
use crate::lookup::{find_bucket, find_object};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::settle;
use crate::pending::Pending;
use crate::record::{ObjectAccess, ObjectRecord};
use crate::request::PutOptions;
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn put(&self, bucket: &str, key: &str, options: PutOptions) -> Result<LocalWriter> {
        keys::check_object_key(key)?;
        check_metadata(&options.metadata)?;
        check_headers(&options.headers)?;
        check_tags(&options.tags)?;
        // The same is asked again by the verb; here it spares who may not the body.
        self.read(|rights| rights.object(Action::PutObject, bucket, key), |view| find_bucket(view, bucket))?;
        let body = Body::new(self.kv(), options.length, options.expected.clone(), options.etag, options.checksum)?;
        let (local, name) = (self.clone(), Name::new(ObjectName::new(bucket, key)));
        Ok(LocalWriter { local, name, options, access: AccessList::default(), body })
    }
}

/// A request named the same with another body is another request: a client that misuses its names loses nothing.
pub(crate) fn with_body(request: RequestId, digests: &Digests) -> RequestId {
    let mut id = request.0;
    id.iter_mut().zip(digests.fingerprint()).for_each(|(byte, digest)| *byte ^= digest);
    RequestId(id)
}

/// Is drawn with the id.
const UNDRAWN: ETag = ETag::Drawn(ObjectId(0), 0);

/// The ETag of what a named request puts: a repeat gives the same, also when the object was replaced since.
fn named_by(request: RequestId) -> ETag {
    let name = u128::from_be_bytes(request.0);
    ETag::Drawn(ObjectId((name >> 64) as u64), name as u64)
}

/// An object on its way in.
pub(crate) struct LocalWriter {
    local: Local,
    name: Name,
    options: PutOptions,
    access: AccessList,
    body: Body,
}

impl LocalWriter {
    /// Adds a piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.body.write(piece)
    }

    /// The access list that the object gets in the same commit.
    pub fn set_access(&mut self, list: AccessList) {
        self.access = list;
    }

    /// No more pieces: verifies and commits.
    pub fn finish(self, trailers: &Expected) -> Pending<ObjectInfo> {
        let local = self.local.clone();
        match self.into_verb(trailers) {
            Ok(put) => run(&local, put),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// The same without the commit.
    pub fn into_verb(self, trailers: &Expected) -> Result<Put> {
        let body = self.body.finish(trailers)?;
        Ok(Put::new(&self.local, self.name.as_name(), body, self.options).with_access(self.access))
    }
}

/// The verb.
pub(crate) struct Put {
    bucket: String,
    key: String,
    condition: PutCondition,
    /// Its id is drawn by each attempt.
    record: ObjectRecord,
    payload: Payload,
}

impl Put {
    fn new(
        local: &Local,
        name: ObjectName<'_>,
        Finished { payload, size, digests }: Finished,
        options: PutOptions,
    ) -> Self {
        let request = options.request.map(|request| with_body(request, &digests));
        let drawn = request.map_or(UNDRAWN, named_by);
        let etag = digests.md5.map_or(drawn, ETag::Md5);
        let record = ObjectRecord {
            checksums: digests.checksums,
            headers: options.headers,
            metadata: options.metadata,
            access: ObjectAccess { owner: local.caller().user(), ..ObjectAccess::default() },
            tags: options.tags,
            request,
            ..ObjectRecord::new(size, etag, local.now())
        };
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        Put { bucket, key, condition: options.condition, record, payload }
    }

    fn with_access(mut self, list: AccessList) -> Self {
        self.record.access.list = list;
        self
    }

    /// Of a body that is staged already.
    pub fn staged(local: &Local, name: ObjectName<'_>, body: &Finished, options: PutOptions) -> Result<Self> {
        keys::check_object_key(name.key)?;
        check_metadata(&options.metadata)?;
        check_headers(&options.headers)?;
        check_tags(&options.tags)?;
        Ok(Put::new(local, name, body.clone(), options))
    }
}

impl Verb for Put {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.record.request
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::PutObject, &self.bucket, &self.key)?;
        if !self.record.tags.is_empty() {
            rights.object(Action::PutObjectTagging, &self.bucket, &self.key)?;
        }
        if self.record.access.list.is_empty() {
            return Ok(());
        }
        rights.object(Action::PutObjectAcl, &self.bucket, &self.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let space = bucket.space;
        let current = find_object(txn, space, &self.key)?;
        if let Some(current) = &current
            && self.record.request.is_some()
            && current.record.request == self.record.request
        {
            // The same request put this and its answer was lost.
            return Ok(Applied::Done(current.record.clone().into_info(self.key.clone(), current.version)));
        }
        if let Err(error) = self.condition.check(ObjectName::new(&self.bucket, &self.key), current.as_ref()) {
            return Ok(Applied::MaybeReplayed(never(space, &self.key), error));
        }
        check_list(txn, &self.record.access.list)?;
        self.record.id = context.draw_id();
        if self.record.etag == UNDRAWN {
            self.record.etag = ETag::Drawn(self.record.id, context.draw_u64());
        }
        let data = layout::create(txn, space, self.record.id);
        name::set(txn, context, &bucket, &self.key, current.as_ref(), Some(&mut self.record))?;
        txn.put(space, data.key, self.payload.clone());
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        settle(local, &self.bucket, self.key, self.record, commit)
    }
}
