//! How the bytes of an object lie in the store below: one value, under the object's id.
//!
//! All calls that make, read, share, move or delete the bytes of an object come here, so that another layout (parts in
//! several values, say) has one place to be written in.
//!
//! Invariants:
//! - Bytes belong to an id and not to a name: a rename touches none.
//! - An id is new when its bytes are made; the commit is tried again with another one where it is not.

use koine_kv::{Bytes, Condition, Operation, Payload, Place, Sources, SpaceId, Transaction, View};

use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::keys;
use crate::request::ByteRange;

/// Where the bytes of an object are.
pub(crate) fn place(space: SpaceId, id: ObjectId) -> Place {
    Place::new(space, keys::data(id))
}

/// Holds while there is an object of this id.
pub(crate) fn present(space: SpaceId, id: ObjectId) -> Condition {
    Condition::Present { space, key: keys::data(id) }
}

/// Whether there is an object of this id.
pub(crate) fn is_present(view: &dyn View, space: SpaceId, id: ObjectId) -> Result<bool> {
    Ok(view.stat(space, &keys::data(id))?.is_some())
}

/// Reads a range that lies within an object: `read` gets the key. Fewer bytes than `length` are `Damaged`.
pub(crate) fn read_whole(
    read: impl FnOnce(&[u8]) -> koine_kv::Result<Bytes>,
    id: ObjectId,
    length: usize,
) -> Result<Bytes> {
    let bytes = read(&keys::data(id))?;
    if bytes.len() == length {
        return Ok(bytes);
    }
    Err(Error::damaged(format!("the data of object {id} is shorter than its record says")))
}

/// A new object of this id, without bytes yet: says where they are to be put.
pub(crate) fn create(txn: &mut Transaction, space: SpaceId, id: ObjectId) -> Place {
    let place = place(space, id);
    txn.when(Condition::Absent { space, key: place.key.clone() });
    place
}

/// Puts bytes of another value as a value that is not there, by sharing them.
pub(crate) fn share(txn: &mut Transaction, from: Place, range: ByteRange, to: Place) {
    txn.then(match range.length {
        0 => empty(to),
        length => Operation::CloneRange { from, from_offset: range.offset, length, to, to_offset: 0 },
    });
}

/// Puts a value without bytes.
pub(crate) fn empty(at: Place) -> Operation {
    Operation::Put { at, value: Payload::Bytes(Bytes::new()) }
}

/// Joins values, which stay or go, to the bytes of an object that [`create`] has made.
pub(crate) fn join(txn: &mut Transaction, sources: Vec<Place>, target: Place, fate: Sources) {
    txn.then(Operation::Concatenate { sources, target, fate });
}

/// Gives the bytes of an object to a new object of another space.
pub(crate) fn move_to(txn: &mut Transaction, from: Place, space: SpaceId, id: ObjectId) {
    let to = create(txn, space, id);
    txn.then(Operation::Rename { from, to });
}

/// Deletes the bytes of an object.
pub(crate) fn delete(txn: &mut Transaction, space: SpaceId, id: ObjectId) {
    txn.delete(space, keys::data(id));
}
