//! What spaces there are.

use crate::batch::{SpaceId, Version};
use crate::error::Result;
use crate::stream::{each_space, is_passing};
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
        let mut found = Vec::new();
        let visited = each_space(self.state(), &self.core().nodes, SpaceId::FIRST, &mut |space, root| {
            let (created, is_snapshot) = (root.created, root.is_read_only());
            found.push(SpaceInfo { space, created, is_snapshot, is_branched: root.lineage().origin != 0 });
        });
        found.retain(|info| !is_passing(info.space));
        self.checked(visited).map(|()| found)
    }
}
