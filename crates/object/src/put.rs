//! Putting an object: a body, then one commit.
//!
//! Invariants:
//! - The commit puts the name and the data, and deletes what stood under the name with its data.
//! - The caller's condition is checked against what the same commit replaces.

use std::collections::BTreeSet;

use koine_kv::{Commit, Condition, Payload, RequestId, Transaction};

use crate::body::{Body, Finished};
use crate::checksum::{Digests, Expected};
use crate::error::{Error, ErrorKind, Result};
use crate::etag::{ETag, PutCondition};
use crate::identity::check_list;
use crate::info::{ContentHeaders, ObjectId, ObjectInfo};
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket, find_object, find_space};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::pending::Pending;
use crate::record::{ObjectAccess, ObjectRecord};
use crate::request::{METADATA_LEN_MAX, PutOptions, TAG_NAME_LEN_MAX, TAG_VALUE_LEN_MAX, TAGS_MAX};
use crate::rights::{AccessList, Action, Rights};
use crate::verb::{Applied, Scope, Verb, run};

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

/// `MetadataTooLarge` above the limit of S3.
pub(crate) fn check_metadata(metadata: &[(String, String)]) -> Result<()> {
    let length: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if length > METADATA_LEN_MAX {
        let message = format!("the metadata has {length} bytes; {METADATA_LEN_MAX} are allowed");
        return Err(Error::new(ErrorKind::MetadataTooLarge, message));
    }
    let mut names = BTreeSet::new();
    for (name, value) in metadata {
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':') {
            let message = format!(
                "{name:?} is no name of metadata: it goes into a header, which takes no spaces, colons and line ends"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if !names.insert(name.to_lowercase()) {
            let message =
                format!("the metadata {name:?} is there twice: names differ by more than upper and lower case");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        check_line(&format!("the metadata {name:?}"), value)?;
    }
    Ok(())
}

/// What is told as one line of a header.
fn check_line(what: &str, value: &str) -> Result<()> {
    if value.contains(['\r', '\n', '\0']) {
        let message = format!("{what} has a line end or a zero, which no header can have");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

/// Whether headers can be told as they are given.
pub(crate) fn check_headers(headers: &ContentHeaders) -> Result<()> {
    let all = [
        ("Content-Type", &headers.content_type),
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Expires", &headers.expires),
    ];
    all.into_iter().try_for_each(|(name, value)| value.as_ref().map_or(Ok(()), |value| check_line(name, value)))
}

/// What S3 allows of tags: at most 10, each name once, of 128 characters and values of 256.
fn invalid_tag(message: String) -> Error {
    Error::new(ErrorKind::InvalidTag, message)
}

pub(crate) fn check_tags(tags: &[(String, String)]) -> Result<()> {
    check_tags_of(TAGS_MAX, tags)
}

/// Tags of something that may have so many of them.
pub(crate) fn check_tags_of(count_max: usize, tags: &[(String, String)]) -> Result<()> {
    if tags.len() > count_max {
        return Err(invalid_tag(format!("{} tags were given; {count_max} are allowed", tags.len())));
    }
    for (place, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > TAG_NAME_LEN_MAX || value.chars().count() > TAG_VALUE_LEN_MAX {
            let message = format!(
                "the tag {name:?} is too long: a name has 1 to {TAG_NAME_LEN_MAX} characters, a value at most {TAG_VALUE_LEN_MAX}"
            );
            return Err(invalid_tag(message));
        }
        if tags.iter().take(place).any(|(other, _)| other == name) {
            return Err(invalid_tag(format!("the tag {name:?} was given twice")));
        }
    }
    Ok(())
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
        objects: &Local,
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
            access: ObjectAccess { owner: objects.caller().user(), ..ObjectAccess::default() },
            tags: options.tags,
            request,
            ..ObjectRecord::new(size, etag, objects.now())
        };
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        Put { bucket, key, condition: options.condition, record, payload }
    }

    fn with_access(mut self, list: AccessList) -> Self {
        self.record.access.list = list;
        self
    }

    /// Of a body that is staged already.
    pub fn staged(objects: &Local, name: ObjectName<'_>, body: &Finished, options: PutOptions) -> Result<Self> {
        keys::check_object_key(name.key)?;
        check_metadata(&options.metadata)?;
        check_headers(&options.headers)?;
        check_tags(&options.tags)?;
        Ok(Put::new(objects, name, body.clone(), options))
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

    fn apply(&mut self, txn: &mut Transaction, scope: &Scope<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let space = bucket.space;
        let standing = find_object(txn, space, &self.key)?;
        if let Some(standing) = &standing
            && self.record.request.is_some()
            && standing.record.request == self.record.request
        {
            // The same request put this and its answer was lost.
            return Ok(Applied::Done(standing.record.clone().into_info(self.key.clone(), standing.version)));
        }
        if let Err(error) = self.condition.check(ObjectName::new(&self.bucket, &self.key), standing.as_ref()) {
            return Ok(Applied::Doubtful(never(space, &self.key), error));
        }
        check_list(txn, &self.record.access.list)?;
        self.record.id = scope.draw_id();
        if self.record.etag == UNDRAWN {
            self.record.etag = ETag::Drawn(self.record.id, scope.draw_u64());
        }
        let data = keys::data(self.record.id);
        txn.when(Condition::Absent { space, key: data.clone() });
        name::set(txn, scope, &bucket, &self.key, standing.as_ref(), Some(&mut self.record))?;
        txn.put(space, data, self.payload.clone());
        Ok(Applied::Changed)
    }

    fn committed(self, objects: &Local, commit: Commit) -> Result<ObjectInfo> {
        settle(objects, &self.bucket, self.key, self.record, commit)
    }
}

/// What a commit made of `record`. Where it answers a repeated request, that is what the first one recorded, as
/// long as it still stands.
pub(crate) fn settle(
    objects: &Local,
    bucket: &str,
    key: String,
    record: ObjectRecord,
    commit: Commit,
) -> Result<ObjectInfo> {
    if commit.repeated {
        let mut view = objects.kv().view()?;
        let space = find_space(&mut view, bucket)?;
        if let Some(standing) = find_object(&mut view, space, &key)?
            && standing.version == commit.version
        {
            return Ok(standing.record.into_info(key, commit.version));
        }
    }
    Ok(record.into_info(key, commit.version))
}

/// Refuses what no writer could have meant.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
