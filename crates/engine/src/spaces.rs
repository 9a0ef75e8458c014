//! What spaces there are.

use crate::batch::{SpaceId, Version};
use crate::error::Result;
use crate::stream::{each_space_while, is_passing};
use crate::view::View;

/// A space that users made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceInfo {
    /// Its id.
    pub space: SpaceId,
    /// The commit that made it.
    pub created: Version,
    /// It cannot be changed.
    pub is_snapshot: bool,
    /// It shares data with a space that it was branched off, or that was branched off it.
    pub is_branched: bool,
}

impl View {
    /// Every space that users made, by id. Those that exist only while a stream is written or read are left out.
    pub fn spaces(&self) -> Result<Vec<SpaceInfo>> {
        self.spaces_from(SpaceId::FIRST, usize::MAX)
    }

    /// As `spaces`, from an id on, and at most so many. One that has the very id is never left out: whether it is there
    /// is what was asked.
    pub fn spaces_from(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceInfo>> {
        let mut found = Vec::new();
        if most == 0 {
            return Ok(found);
        }
        let visited =
            each_space_while(self.state(), &self.core().nodes, from.max(SpaceId::FIRST), &mut |space, root| {
                let (created, is_snapshot) = (root.created, root.is_read_only());
                if space == from || !is_passing(space) {
                    found.push(SpaceInfo { space, created, is_snapshot, is_branched: root.lineage().origin != 0 });
                }
                found.len() < most
            });
        self.checked(visited).map(|()| found)
    }
}
