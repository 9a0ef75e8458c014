//! What a change tells of the object that it made, also where its request is repeated.

use koine_kv::{Commit, RequestId};

use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectInfo;
use crate::keys;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_object, find_space};
use crate::object_name::{Name, ObjectName};
use crate::record::ObjectRecord;

/// What a commit made of `record`. Where it answers a repeated request, that is what the first one recorded, as
/// long as it still stands.
pub(crate) fn settle(
    local: &Local,
    bucket: &str,
    key: String,
    record: ObjectRecord,
    commit: Commit,
) -> Result<ObjectInfo> {
    if commit.repeated {
        let mut view = local.kv().view()?;
        let space = find_space(&mut view, bucket)?;
        if let Some(current) = find_object(&mut view, space, &key)?
            && current.version == commit.version
        {
            return Ok(current.record.into_info(key, commit.version));
        }
    }
    Ok(record.into_info(key, commit.version))
}

pub(crate) fn checked_names(one: ObjectName<'_>, other: ObjectName<'_>) -> Result<(Name, Name)> {
    keys::check_object_key(one.key)?;
    keys::check_object_key(other.key)?;
    Ok((Name::new(one), Name::new(other)))
}

/// What stands there, where this very request put it there and its answer was lost.
pub(crate) fn made_by(there: Option<&CurrentObject>, request: Option<RequestId>) -> Option<&CurrentObject> {
    there.filter(|there| request.is_some() && there.record.request == request)
}

/// What is known of what stands there.
pub(crate) fn info(current: &CurrentObject, name: &Name) -> ObjectInfo {
    current.record.clone().into_info(name.key.clone(), current.version)
}

/// What a commit made of `record`. Where it answers a repeated request, that is what stands there now.
pub(crate) fn told(local: &Local, name: &Name, record: Option<ObjectRecord>, commit: Commit) -> Result<ObjectInfo> {
    match record {
        Some(record) if !commit.repeated => Ok(record.into_info(name.key.clone(), commit.version)),
        _ => local.head(&name.bucket, &name.key).map_err(|error| match error.kind() {
            ErrorKind::NoSuchKey => {
                let message = format!(
                    "this request was carried out before (commit {}), and the object {:?} is not there any more",
                    commit.version.0, name.key
                );
                Error::new(ErrorKind::NoSuchKey, message)
            }
            _ => error,
        }),
    }
}
