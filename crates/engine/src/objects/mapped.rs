//! Bytes of an object without a copy.
//!
//! Invariant: mapped bytes count as an open object, so that a store does not close, and its device is nobody else's, while
//! somebody has them.

use std::ops::Deref;
use std::sync::Arc;

use super::Object;
use super::hint::Hint;
use crate::error::Result;
use crate::view::Mapped;

/// Bytes of an object as they were when they were mapped, verified then and kept in memory until they are dropped.
pub struct ObjectBytes {
    mapped: Mapped,
    _open: Object,
}

impl ObjectBytes {
    /// Whether these are the pages of the device themselves, not a copy.
    pub fn is_mapping(&self) -> bool {
        self.mapped.is_mapping()
    }
}

impl Deref for ObjectBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.mapped
    }
}

impl AsRef<[u8]> for ObjectBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for ObjectBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ObjectBytes({} bytes of {:?})", self.len(), self._open)
    }
}

impl Object {
    /// Bytes of a range without a copy, where they lie on the device as they are; shorter only at the object's end. Nothing that
    /// is written or deleted later changes them.
    ///
    /// They were read, and verified, when this returns, and stay in memory until they are dropped: a medium that fails is an
    /// error here, and never a signal later. So much memory may not be kept (see `ulimit -l`), or the bytes may wait in
    /// memory for their place, have holes or lie in small pieces: then they are a copy. A copy of a few KiB is read faster;
    /// mapping pays from hundreds of KiB on, read more than once.
    pub fn map(&self, offset: u64, length: usize) -> Result<ObjectBytes> {
        self.check_open()?;
        let inner = self.inner();
        let open = Object::new(Arc::clone(inner), inner.find(self.number())?, Hint::default());
        Ok(ObjectBytes { mapped: open.map_settled(offset, length)?, _open: open })
    }
}
