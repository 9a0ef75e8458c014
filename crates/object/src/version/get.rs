//! Reading one version of an object.

use std::sync::Arc;

use koine_kv::{SpaceId, View};

use crate::action::Action;
use crate::error::Result;
use crate::get::LocalReader;
use crate::info::ObjectInfo;
use crate::keys;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_space};
use crate::object_name::ObjectName;
use crate::version_id::VersionId;
use crate::versions::find_object_version;

impl Local {
    pub fn get_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<LocalReader> {
        self.find_version(name, version, |view, space, current| {
            LocalReader::new(Arc::clone(view), space, name.key, current)
        })
        .map(|reader| reader.asked_as(self, Action::GetObjectVersion, name, Some(version)))
    }

    pub fn head_version(&self, name: ObjectName<'_>, version: VersionId) -> Result<ObjectInfo> {
        self.find_version(name, version, |_, _, current| current.record.into_info(name.key.to_owned(), current.version))
    }

    fn find_version<T>(
        &self,
        name: ObjectName<'_>,
        version: VersionId,
        tell: impl Fn(&Arc<dyn View>, SpaceId, CurrentObject) -> T,
    ) -> Result<T> {
        keys::check_object_key(name.key)?;
        self.read(
            |rights| rights.version(Action::GetObjectVersion, name.bucket, name.key, version),
            |view| {
                let space = find_space(view, name.bucket)?;
                let current = find_object_version(view, space, name.key, version)?;
                Ok(tell(view, space, current))
            },
        )
    }
}
