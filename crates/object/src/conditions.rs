//! Whether a condition holds of what stands under a name.

use crate::error::{Error, ErrorKind, Result};
use crate::etag::{PutCondition, ReadCondition};
use crate::info::ObjectInfo;
use crate::lookup::CurrentObject;
use crate::object_name::ObjectName;

impl PutCondition {
    /// `PreconditionFailed` where it does not hold of what is there; `NoSuchKey` where something has to be there.
    pub(crate) fn check(&self, name: ObjectName<'_>, there: Option<&CurrentObject>) -> Result<()> {
        let ObjectName { bucket, key } = name;
        if self.if_absent && there.is_some() {
            return Err(exists(name));
        }
        let Some(there) = there else {
            let wanted = self.if_match.is_some() || self.if_version.is_some();
            return if wanted { Err(Error::no_such_key(bucket, key)) } else { Ok(()) };
        };
        let etag = &there.record.etag;
        if self.if_match.as_ref().is_some_and(|wanted| !wanted.takes(etag)) {
            let message = format!(
                "the object {key:?} in the bucket {bucket:?} has the ETag {etag}, which the condition does not take"
            );
            return Err(Error::new(ErrorKind::PreconditionFailed, message));
        }
        if let Some(wanted) = self.if_version
            && wanted != there.version
        {
            let (is, not) = (there.version.0, wanted.0);
            let message = format!("the object {key:?} in the bucket {bucket:?} has version {is}, not {not}");
            return Err(Error::new(ErrorKind::PreconditionFailed, message));
        }
        Ok(())
    }
}

/// Something has the name that nothing may have.
pub(crate) fn exists(name: ObjectName<'_>) -> Error {
    let ObjectName { bucket, key } = name;
    Error::new(ErrorKind::PreconditionFailed, format!("the object {key:?} in the bucket {bucket:?} exists already"))
}

impl ReadCondition {
    /// `PreconditionFailed` or `NotModified` when it does not hold (a copy's caller makes both the former).
    pub fn check(&self, object: &ObjectInfo) -> Result<()> {
        let failed = |what: &str| {
            let message = format!("the object {:?} does not fulfil {what}", object.key);
            Err(Error::new(ErrorKind::PreconditionFailed, message))
        };
        let modified_seconds = object.modified.seconds();
        if let Some(wanted) = &self.if_match {
            if !wanted.takes(&object.etag) {
                return failed("If-Match");
            }
        } else if self.if_unmodified_since.is_some_and(|since| modified_seconds > since.seconds()) {
            return failed("If-Unmodified-Since");
        }
        let unchanged = match (&self.if_none_match, self.if_modified_since) {
            (Some(refused), _) => refused.takes(&object.etag),
            (None, Some(since)) => modified_seconds <= since.seconds(),
            (None, None) => false,
        };
        if unchanged {
            let message = format!("the object {:?} was not modified", object.key);
            return Err(Error::new(ErrorKind::NotModified, message));
        }
        Ok(())
    }
}
