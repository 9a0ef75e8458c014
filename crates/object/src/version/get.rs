//! Reading one version of an object.

use std::sync::Arc;

use koine_kv::{SpaceId, View};

use super::{VersionId, Versions, find_version, no_such_version};
use crate::error::{Error, ErrorKind, Result};
use crate::get::LocalReader;
use crate::info::ObjectInfo;
use crate::keys;
use crate::local::Local;
use crate::lookup::{Standing, find_space};
use crate::object_name::ObjectName;
use crate::rights::Action;

impl Local {
    pub fn get_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<LocalReader> {
        self.find_version(name, version, |view, space, standing| {
            LocalReader::new(Arc::clone(view), space, name.key, standing)
        })
        .map(|reader| reader.asked_as(self, Action::GetObjectVersion, name, Some(version)))
    }

    pub fn head_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<ObjectInfo> {
        self.find_version(name, version, |_, _, standing| {
            standing.record.into_info(name.key.to_owned(), standing.version)
        })
    }

    fn find_version<T>(
        &self,
        name: ObjectName<'_>,
        version: VersionId,
        tell: impl Fn(&Arc<dyn View>, SpaceId, Standing) -> T,
    ) -> Result<T> {
        keys::check_object_key(name.key)?;
        self.read(
            |rights| rights.version(Action::GetObjectVersion, name.bucket, name.key, version),
            |view| {
                let space = find_space(view, name.bucket)?;
                let standing = find_object_version(view, space, name.key, version)?;
                Ok(tell(view, space, standing))
            },
        )
    }
}

/// The object of a version; an error where there is none.
pub(crate) fn find_object_version(
    from: &mut impl Versions,
    space: SpaceId,
    key: &str,
    version: VersionId,
) -> Result<Standing> {
    let found = find_version(from, space, key, version)?.ok_or_else(|| no_such_version(key, version))?;
    found.object().ok_or_else(|| is_marker(key, version))
}

/// A delete marker has nothing that could be read.
fn is_marker(key: &str, version: VersionId) -> Error {
    let message = format!("version {version} of {key:?} is a delete marker, which has no bytes; name another version");
    Error::new(ErrorKind::InvalidRequest, message)
}
