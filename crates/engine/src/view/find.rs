//! Finding what a view shows of a key, in the index alone.

use super::View;
use crate::batch::SpaceId;
use crate::content::{as_record, with_record_key, would_block};
use crate::error::Result;
use crate::tree::{Held, NodeSource, Tree};
use crate::value::Record;

impl View {
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
                None => Err(would_block()),
            })
        })
    }
}
