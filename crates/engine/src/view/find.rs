//! Finding what a view shows of a key, in the index alone.

use bytes::Bytes;

use super::{Stat, View};
use crate::batch::SpaceId;
use crate::content::{as_record, with_record_key};
use crate::device::ReadMode;
use crate::error::{Error, ErrorKind, Result};
use crate::tree::value::{Record, RecordHead};
use crate::tree::{Held, NodeSource, Tree};
use crate::view::{LOOKUP_COPY_MAX, Lookup};

impl View {
    /// Version, size and bytes of a range in one look-up, without waiting for the device.
    pub fn lookup_now(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Lookup> {
        let core = self.core();
        let nodes = core.nodes.now();
        let reading = self.reading(&nodes, ReadMode::Now);
        let found = self.look_at(&nodes, space, key, |tree, held| {
            let head = RecordHead::of(&held)?;
            let stat = Stat { version: head.version, size: head.size };
            if let Some(bytes) = head.bytes {
                return Ok(Lookup::Found(stat, bytes.share(offset, length)));
            }
            let count = head.size.saturating_sub(offset).min(length as u64) as usize;
            let record = as_record(held.to_value()?)?;
            if let Some(bytes) = reading.share(tree, &record, offset, count)? {
                return Ok(Lookup::Found(stat, bytes));
            }
            if count > LOOKUP_COPY_MAX {
                return Ok(Lookup::WouldWait);
            }
            let mut buffer = vec![0; count];
            if count > 0 {
                reading.read(tree, &record, offset, &mut buffer)?;
            }
            Ok(Lookup::Found(stat, Bytes::from(buffer)))
        });
        match self.checked(found) {
            Ok(found) => Ok(found.unwrap_or(Lookup::Absent)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(Lookup::WouldWait),
            Err(error) => Err(error),
        }
    }

    pub(super) fn tree(&self, source: &dyn NodeSource, space: SpaceId) -> Result<Option<Tree>> {
        Ok(self.pinned.state.space(source, space)?.map(|root| root.tree))
    }

    pub(super) fn find(&self, source: &dyn NodeSource, space: SpaceId, key: &[u8]) -> Result<Option<(Tree, Record)>> {
        self.look_at(source, space, key, |tree, held| Ok((tree.clone(), as_record(held.to_value()?)?)))
    }

    /// Shows what the index holds for a key, where it lies, and the tree of its space; `None` when either is absent.
    pub(super) fn look_at<R>(
        &self,
        source: &dyn NodeSource,
        space: SpaceId,
        key: &[u8],
        see: impl FnOnce(&Tree, Held<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        self.pinned.state.look(source, space, |root| {
            let Some(root) = root else { return Ok(None) };
            with_record_key(key, |key| {
                root.tree.look(source, key, |held| held.map(|held| see(&root.tree, held)).transpose())
            })
        })
    }

    /// As `look_at`, waiting for the device where that is needed.
    pub(super) fn look_through<R>(
        &self,
        space: SpaceId,
        key: &[u8],
        see: impl FnOnce(&Tree, Held<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let core = self.core();
        // Called at most once: by the look-up that finds the key.
        let mut see = Some(see);
        core.filters.look(&core.nodes, space, key, self.version(), |source| {
            self.look_at(source, space, key, |tree, held| match see.take() {
                Some(see) => see(tree, held),
                None => Err(Error::would_block()),
            })
        })
    }
}
