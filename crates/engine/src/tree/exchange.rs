//! Putting a value in the place of another that is like it: one way down for the look and the change.

use bytes::Bytes;

use super::delta_leaf::Exchanged;
use super::edit::{own, put_upper, split_if_full};
use super::entry::entry_len;
use super::layout::ENTRY_HEAD_LEN;
use super::node::{Body, Entries, Node, SplitAt, childless, not_open};
use super::value::Value;
use super::{Edit, Tree};
use crate::Result;

/// The neighbour of a node that was split.
type Upper = Option<(Bytes, Node)>;

impl Tree {
    /// Sets a key where it holds a value that is like the new one, as `is_like` tells. After an error the tree may only be
    /// dropped.
    pub fn exchange(
        &mut self,
        edit: &mut Edit<'_>,
        key: &Bytes,
        value: Value,
        is_like: &dyn Fn(&Value) -> bool,
    ) -> Result<Exchanged> {
        let Some(root) = &mut self.root else { return Ok(Exchanged::Not(value)) };
        let node = own(root, None, edit)?;
        let (exchanged, upper) = exchange_in(node, edit, key, value, is_like)?;
        self.grow(edit, upper);
        Ok(exchanged)
    }
}

fn exchange_in(
    node: &mut Node,
    edit: &mut Edit<'_>,
    key: &Bytes,
    value: Value,
    is_like: &dyn Fn(&Value) -> bool,
) -> Result<(Exchanged, Upper)> {
    let before = node.dirty_size();
    let new_len = entry_len(key, &value);
    let exchanged = match &mut node.body {
        Body::Packed(_) | Body::Merged(_) => return Err(not_open()),
        Body::DeltaLeaf(delta) => delta.exchange(edit.source, key, value, is_like)?,
        Body::Open(Entries::Leaf(run)) => match run.find(key).ok().and_then(|spot| run.get_mut(spot)) {
            Some(entry) if is_like(&entry.1) => Exchanged::Old(std::mem::replace(&mut entry.1, value)),
            _ => Exchanged::Not(value),
        },
        Body::Open(Entries::Inner(run)) => {
            let spot = run.find_covering(key).unwrap_or(run.start());
            let child = run.get_mut(spot).map(|entry| &mut entry.1).ok_or_else(childless)?;
            let child = own(child, node.level.checked_sub(1), edit)?;
            let (exchanged, upper) = exchange_in(child, edit, key, value, is_like)?;
            put_upper(run, &mut node.size, spot, upper);
            return finish(node, edit, before, exchanged);
        }
    };
    if let Exchanged::Old(old) = &exchanged {
        node.size.take(ENTRY_HEAD_LEN + key.len() + old.encoded_len());
        node.size.add(new_len);
    }
    finish(node, edit, before, exchanged)
}

fn finish(
    node: &mut Node,
    edit: &mut Edit<'_>,
    before: super::DirtySize,
    exchanged: Exchanged,
) -> Result<(Exchanged, Upper)> {
    let upper = split_if_full(node, edit, SplitAt::Middle)?;
    edit.weigh(before, node.dirty_size());
    Ok((exchanged, upper))
}
