//! Finding older versions: the newest of them, one of a number, and the one that is `null`.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use koine_kv::{Direction, KeyRange, SpaceId, Transaction, Version, View};

use crate::error::{Error, ErrorKind, Result};
use crate::keys;
use crate::lookup::{CurrentObject, Lookup, find_object};
use crate::record::{ObjectRecord, OlderRecord};
use crate::version_id::VersionId;
use crate::walk::Walk;

/// What is done with a key of a walk, and its value where it is at hand.
type Each<'a> = &'a mut dyn FnMut(Bytes, Option<Bytes>) -> ControlFlow<()>;

/// What versions are looked for in: what is walked over in a transaction is a condition of its batch.
pub(crate) trait Versions: Lookup {
    /// Walks over the keys of a range until `each` breaks.
    fn walk(&mut self, space: SpaceId, range: KeyRange, direction: Direction, each: Each<'_>) -> Result<()>;
}

fn walk_over<C: Walk>(mut cursor: C, each: Each<'_>) -> Result<()> {
    while let Some((key, entry)) = cursor.next_entry()? {
        if each(key, C::value(entry)).is_break() {
            break;
        }
    }
    Ok(())
}

impl Versions for Arc<dyn View> {
    fn walk(&mut self, space: SpaceId, range: KeyRange, direction: Direction, each: Each<'_>) -> Result<()> {
        walk_over(self.cursor(space, range, direction)?, each)
    }
}

impl Versions for Transaction {
    fn walk(&mut self, space: SpaceId, range: KeyRange, direction: Direction, each: Each<'_>) -> Result<()> {
        walk_over(self.cursor(space, range, direction)?, each)
    }
}

/// An older version, or a delete marker.
pub(crate) struct Older {
    pub number: u64,
    pub version: Version,
    pub record: OlderRecord,
}

/// The number of the newest of the older versions of a name.
pub(crate) fn newest_older_number(from: &mut impl Versions, space: SpaceId, key: &str) -> Result<Option<u64>> {
    edge(from, space, keys::older_of(key), Direction::Forward)
}

/// The newest of the older versions of a name.
pub(crate) fn newest_older(from: &mut impl Versions, space: SpaceId, key: &str) -> Result<Option<Older>> {
    match newest_older_number(from, space, key)? {
        Some(number) => older(from, space, key, number),
        None => Ok(None),
    }
}

/// The newest of those that are older than a number.
pub(crate) fn older_below(from: &mut impl Versions, space: SpaceId, key: &str, number: u64) -> Result<Option<Older>> {
    let KeyRange { end, .. } = keys::older_of(key);
    let after = KeyRange::single(keys::older(key, number)).end;
    let range = KeyRange { start: after.unwrap_or_default(), end };
    match edge(from, space, range, Direction::Forward)? {
        Some(number) => older(from, space, key, number),
        None => Ok(None),
    }
}

/// The older version of a number.
pub(crate) fn older(
    from: &mut (impl Lookup + ?Sized),
    space: SpaceId,
    key: &str,
    number: u64,
) -> Result<Option<Older>> {
    let Some((version, bytes)) = from.record(space, &keys::older(key, number))? else {
        return Ok(None);
    };
    Ok(Some(Older { number, version, record: OlderRecord::decode(&bytes)? }))
}

/// The older version that is `null`. It is the newest or the oldest of them unless versions were suspended for a while
/// and enabled again, so that the others are looked at last.
pub(crate) fn older_null(from: &mut impl Versions, space: SpaceId, key: &str) -> Result<Option<Older>> {
    let Some(newest) = newest_older(from, space, key)? else {
        return Ok(None);
    };
    if newest.record.id() == VersionId::Null {
        return Ok(Some(newest));
    }
    let oldest = edge(from, space, keys::older_of(key), Direction::Backward)?;
    let Some(oldest) = oldest.filter(|oldest| *oldest != newest.number) else {
        return Ok(None);
    };
    match older(from, space, key, oldest)? {
        Some(oldest) if oldest.record.id() == VersionId::Null => Ok(Some(oldest)),
        _ => null_between(from, space, key),
    }
}

/// Where no key stands between the two there is nothing to look at; else every one is.
fn null_between(from: &mut impl Versions, space: SpaceId, key: &str) -> Result<Option<Older>> {
    let (mut found, mut large, mut wrong) = (None, Vec::new(), None);
    from.walk(space, keys::older_of(key), Direction::Forward, &mut |at, value| {
        let Some(value) = value else {
            large.push(at);
            return ControlFlow::Continue(());
        };
        match OlderRecord::decode(&value) {
            Ok(record) if record.id() == VersionId::Null => found = Some(at),
            Ok(_) => return ControlFlow::Continue(()),
            Err(error) => wrong = Some(error),
        }
        ControlFlow::Break(())
    })?;
    if let Some(error) = wrong {
        return Err(error);
    }
    for at in found.into_iter().chain(large) {
        if let (_, Some(number)) = keys::version_of(&at)?
            && let Some(older) = older(from, space, key, number)?
            && older.record.id() == VersionId::Null
        {
            return Ok(Some(older));
        }
    }
    Ok(None)
}

/// The number of the first or last key of a range of older ones.
fn edge(from: &mut impl Versions, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Option<u64>> {
    let mut found = None;
    from.walk(space, range, direction, &mut |at, _| {
        found = Some(at);
        ControlFlow::Break(())
    })?;
    match found {
        Some(at) => keys::version_of(&at).map(|(_, number)| number),
        None => Ok(None),
    }
}

/// One version of a name, wherever it stands.
pub(crate) enum Found {
    /// Under the name itself.
    Newest(CurrentObject),
    /// Behind it.
    Older {
        /// Of its key.
        number: u64,
        /// The commit that put it there.
        version: Version,
        /// What is recorded of it.
        record: OlderRecord,
    },
}

impl Found {
    /// The object; `None` for a delete marker.
    pub fn object(self) -> Option<CurrentObject> {
        match self {
            Found::Newest(current) => Some(current),
            Found::Older { version, record: OlderRecord::Object(record), .. } => {
                Some(CurrentObject { version, record })
            }
            Found::Older { record: OlderRecord::Marker(_), .. } => None,
        }
    }
}

impl From<Older> for Found {
    fn from(Older { number, version, record }: Older) -> Self {
        Found::Older { number, version, record }
    }
}

/// Finds a version of a name.
pub(crate) fn find_version(
    from: &mut impl Versions,
    space: SpaceId,
    key: &str,
    id: VersionId,
) -> Result<Option<Found>> {
    if let VersionId::Number(number) = id
        && let Some(older) = older(from, space, key, number)?.filter(|older| older.record.id() == id)
    {
        return Ok(Some(older.into()));
    }
    match find_object(from, space, key)? {
        Some(current) if VersionId::from(current.record.version_id) == id => Ok(Some(Found::Newest(current))),
        _ if id == VersionId::Null => Ok(older_null(from, space, key)?.map(Found::from)),
        _ => Ok(None),
    }
}

/// The object of a version, where that takes no walk: for access lists, which are asked for in many a place.
pub(crate) fn object_of_version(
    from: &mut (impl Lookup + ?Sized),
    space: SpaceId,
    key: &str,
    id: VersionId,
) -> Result<Option<ObjectRecord>> {
    if let Some(current) = find_object(from, space, key)?
        && VersionId::from(current.record.version_id) == id
    {
        return Ok(Some(current.record));
    }
    let VersionId::Number(number) = id else {
        return Ok(None);
    };
    let older = older(from, space, key, number)?.filter(|older| older.record.id() == id);
    Ok(older.and_then(|older| match older.record {
        OlderRecord::Object(record) => Some(record),
        OlderRecord::Marker(_) => None,
    }))
}

/// The object of a version; an error where there is none.
pub(crate) fn find_object_version(
    from: &mut impl Versions,
    space: SpaceId,
    key: &str,
    version: VersionId,
) -> Result<CurrentObject> {
    let found = find_version(from, space, key, version)?.ok_or_else(|| no_such_version(key, version))?;
    found.object().ok_or_else(|| is_marker(key, version))
}

/// A delete marker has nothing that could be read.
fn is_marker(key: &str, version: VersionId) -> Error {
    let message = format!("version {version} of {key:?} is a delete marker, which has no bytes; name another version");
    Error::new(ErrorKind::InvalidRequest, message)
}

pub(crate) fn no_such_version(key: &str, version: VersionId) -> Error {
    Error::new(ErrorKind::NoSuchVersion, format!("the object {key:?} has no version {version}; see its versions"))
}
