//! Objects that others are made of: found, checked, hashed and shared.

use koine_kv::{SpaceId, View};

use crate::checksum::{Digests, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::etag::ReadCondition;
use crate::ids::ObjectId;
use crate::layout;
use crate::lookup::{CurrentObject, find_object, find_space};
use crate::request::ByteRange;
use crate::version_id::VersionId;
use crate::versions::{Versions, find_object_version};

/// How much is read at once to compute a checksum.
const READ_LEN: usize = 1 << 20;

/// What a copy is made from, at one version.
pub(crate) struct Source {
    pub space: SpaceId,
    pub current: CurrentObject,
}

/// Finds a source, the newest version unless one is given, and checks the caller's condition on it.
pub(crate) fn find_source(
    from: &mut impl Versions,
    (bucket, key): (&str, &str),
    version: Option<VersionId>,
    condition: &ReadCondition,
) -> Result<Source> {
    let space = find_space(from, bucket)?;
    let current = match version {
        None => find_object(from, space, key)?.ok_or_else(|| Error::no_such_key(bucket, key))?,
        Some(version) => find_object_version(from, space, key, version)?,
    };
    check_source_condition(condition, key, &current)?;
    Ok(Source { space, current })
}

/// `PreconditionFailed` where the caller's condition on a source does not hold.
pub(crate) fn check_source_condition(condition: &ReadCondition, key: &str, source: &CurrentObject) -> Result<()> {
    let info = source.record.clone().into_info(key.to_owned(), source.version);
    condition.check(&info).map_err(|error| Error::new(ErrorKind::PreconditionFailed, error.message()))
}

/// Hashes bytes of stored data.
pub(crate) fn hash_range(
    view: &dyn View,
    space: SpaceId,
    id: ObjectId,
    range: ByteRange,
    mut hasher: Hasher,
) -> Result<Digests> {
    let (mut offset, end) = (range.offset, range.offset.saturating_add(range.length));
    while offset < end {
        Error::check_patience()?;
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(READ_LEN);
        let bytes = layout::read_whole(|key| view.bytes(space, key, offset, wanted), id, wanted)?;
        hasher.update(&bytes);
        offset += bytes.len() as u64;
    }
    Ok(hasher.finish())
}
