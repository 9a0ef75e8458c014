//! Taking a tree down from its first key on, a part at a time.
//!
//! Invariants:
//! - What a branch point shares ([`Edit::shared`]) is let go of without being read.
//! - Every other node is reported once through the edit, its entries before it.
//! - What is left is a sound tree.

use bytes::Bytes;

use super::edit::own;
use super::node::childless;
use super::node::{Body, Entries};
use super::{Child, DirtySize, Edit, Tree};
use crate::Result;
use crate::tree::value::Value;

impl Tree {
    /// Takes away up to about `most` leaves from the front and hands their entries out; true when nothing is left.
    pub fn prune(
        &mut self,
        edit: &mut Edit<'_>,
        most: u32,
        out: &mut dyn FnMut(Bytes, Value) -> Result<()>,
    ) -> Result<bool> {
        let mut budget = most;
        let Some(root) = &mut self.root else { return Ok(true) };
        if take_down(root, None, edit, &mut budget, out)? {
            self.root = None;
            self.len = 0;
        }
        Ok(self.root.is_none())
    }
}

/// Takes down what is below a child; true when the child itself is gone.
fn take_down(
    child: &mut Child,
    level: Option<u8>,
    edit: &mut Edit<'_>,
    budget: &mut u32,
    out: &mut dyn FnMut(Bytes, Value) -> Result<()>,
) -> Result<bool> {
    if child.stored().is_some_and(|at| at.birth <= edit.shared) {
        return Ok(true);
    }
    let node = child.load(edit.source, level)?;
    if node.level == 0 {
        *budget = budget.saturating_sub(1);
        for (key, value) in node.entries()? {
            out(key, value)?;
        }
        drop(node);
        edit.replace(child.clone());
        return Ok(true);
    }
    drop(node);
    let node = own(child, level, edit)?;
    let before = node.dirty_size();
    let level = node.level.checked_sub(1);
    let Body::Open(Entries::Inner(run)) = &mut node.body else { return Err(childless()) };
    while *budget > 0
        && let Some((_, first)) = run.get_mut(run.start())
        && take_down(first, level, edit, budget, out)?
    {
        run.remove(run.start());
    }
    // The first separator stands for the lowest key.
    run.rename_first(Bytes::new());
    let gone = run.is_empty();
    node.measure();
    edit.weigh(before, if gone { DirtySize::default() } else { node.dirty_size() });
    Ok(gone)
}
