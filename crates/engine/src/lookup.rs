//! What is asked of one key, and answered at once: no view is worth taking for it.
//!
//! Invariant: who looks holds the lock of what is visible, so nothing newer becomes visible meanwhile, and blocks
//! that the state still names are not given back; for that reason it neither waits for the device there nor walks
//! through the pieces of a value. Where it would have to, a view is taken after all.

use bytes::Bytes;

use crate::batch::SpaceId;
use crate::content::{as_record, with_record_key};
use crate::device::BLOCK_LEN;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::tree::Held;
use crate::tree::value::{Content, RecordHead};
use crate::view::{Lookup, Stat, blocks_of_piece};

impl Engine {
    /// As [`View::lookup_now`](crate::View::lookup_now) of a view that is taken now.
    pub fn lookup_now(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Lookup> {
        let found = self.look_now(space, key, |held| {
            let head = RecordHead::of(&held)?;
            let none_wanted = head.size.saturating_sub(offset).min(length as u64) == 0;
            let bytes = head.bytes.as_ref().map(|bytes| bytes.share(offset, length));
            Ok((stat_of(&head), bytes.or_else(|| none_wanted.then(Bytes::new))))
        })?;
        Ok(match found {
            None => Lookup::WouldWait,
            Some(None) => Lookup::Absent,
            Some(Some((stat, Some(bytes)))) => Lookup::Found(stat, bytes),
            // The bytes are on the device, perhaps in the system's cache: they have to be pinned while they are read.
            Some(Some((_, None))) => return self.view().lookup_now(space, key, offset, length),
        })
    }

    /// Whether a key is there, as a view that is taken now would tell.
    pub fn contains(&self, space: SpaceId, key: &[u8]) -> Result<bool> {
        match self.look_now(space, key, |_| Ok(()))? {
            Some(found) => Ok(found.is_some()),
            None => Ok(self.view().stat(space, key)?.is_some()),
        }
    }

    /// The whole value of a key, as a view that is taken now would give it: shared where it lies in memory. `None` when
    /// the key (or its space) is absent.
    pub fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        match self.lookup_now(space, key, 0, usize::MAX)? {
            Lookup::Absent => Ok(None),
            Lookup::Found(_, bytes) => Ok(Some(bytes)),
            Lookup::WouldWait => self.view().get(space, key),
        }
    }

    /// As [`View::stat`](crate::View::stat) of a view that is taken now.
    pub fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        match self.look_now(space, key, |held| RecordHead::of(&held).map(|head| stat_of(&head)))? {
            Some(found) => Ok(found),
            None => self.view().stat(space, key),
        }
    }

    /// As [`View::stat`](crate::View::stat) and [`View::allocated`](crate::View::allocated) of a view that is taken now.
    pub fn footprint(&self, space: SpaceId, key: &[u8]) -> Result<Option<(Stat, u64)>> {
        let found = self.look_now(space, key, |held| {
            let stat = RecordHead::of(&held).map(|head| stat_of(&head))?;
            Ok((stat, blocks_of_one(&as_record(held.to_value()?)?.content)))
        })?;
        match found {
            Some(None) => Ok(None),
            Some(Some((stat, Some(blocks)))) => Ok(Some((stat, blocks * BLOCK_LEN as u64))),
            None | Some(Some((_, None))) => {
                let view = self.view();
                Ok(view.stat(space, key)?.zip(view.allocated(space, key)?))
            }
        }
    }

    /// Shows what the index holds for a key; `None` when that cannot be told without waiting.
    fn look_now<R>(
        &self,
        space: SpaceId,
        key: &[u8],
        see: impl FnOnce(Held<'_>) -> Result<R>,
    ) -> Result<Option<Option<R>>> {
        let core = self.shared();
        let visible = core.visible.read();
        let nodes = core.nodes.now();
        let found = visible.look(&nodes, space, |root| match root {
            None => Ok(None),
            Some(root) => with_record_key(key, |key| root.tree.look(&nodes, key, |held| held.map(see).transpose())),
        });
        match found {
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            found => found.map(Some),
        }
    }
}

fn stat_of(head: &RecordHead<'_>) -> Stat {
    Stat { version: head.version, size: head.size }
}

/// Blocks that a value's data takes; `None` when it is in pieces.
fn blocks_of_one(content: &Content) -> Option<u64> {
    match content {
        Content::Empty => Some(0),
        Content::Single(piece) => Some(blocks_of_piece(piece)),
        Content::Pieces(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use koine_env::SeededRandom;

    use crate::batch::{Batch, Durability, SpaceId};
    use crate::device::MemoryDevice;
    use crate::engine::{Engine, FormatOptions};
    use crate::options::{Background, Options};
    use crate::view::{LOOKUP_COPY_MAX, Lookup};

    const SPACE: SpaceId = SpaceId(20);

    #[test]
    fn it_tells_what_a_view_tells() {
        let device = Arc::new(MemoryDevice::fixed(32 << 20));
        Engine::format(&device, FormatOptions::default(), &SeededRandom::new(1)).unwrap();
        let options = || Options { background: Background::Manual, ..Options::default() };
        let engine = Engine::open(device.clone(), options()).unwrap();
        let key = |number: u32| number.to_be_bytes().to_vec();
        assert!(!engine.contains(SPACE, &key(0)).unwrap());
        let mut batch = Batch::new().then(crate::Operation::CreateSpace { space: SPACE });
        for number in (0..4000).step_by(2) {
            batch = batch.put(SPACE, key(number), Vec::new());
        }
        engine.commit(batch, Durability::Memory).unwrap();
        let batch =
            Batch::new().delete(SPACE, key(8)).put(SPACE, key(10), vec![1; 100]).put(SPACE, key(12), vec![1; 9000]);
        engine.commit(batch, Durability::Memory).unwrap();
        let at = crate::Place::new(SPACE, key(14));
        let data = crate::Payload::Bytes(vec![1; 9000].into());
        engine
            .commit(Batch::new().then(crate::Operation::WriteAt { at, offset: 1 << 20, data }), Durability::Memory)
            .unwrap();
        let check = |engine: &Engine, may_wait: bool| {
            for number in 0..4000 {
                assert_eq!(engine.contains(SPACE, &key(number)).unwrap(), number % 2 == 0 && number != 8, "{number}");
                let (view, key) = (engine.view(), key(number));
                let stat = view.stat(SPACE, &key).unwrap();
                assert_eq!(engine.stat(SPACE, &key).unwrap(), stat);
                let value = stat.map(|stat| view.bytes(SPACE, &key, 0, stat.size as usize).unwrap());
                assert_eq!(engine.get(SPACE, &key).unwrap(), value);
                assert_eq!(engine.footprint(SPACE, &key).unwrap(), stat.zip(view.allocated(SPACE, &key).unwrap()));
                for (offset, length) in [(0, usize::MAX), (0, 0), (50, 3000), (1 << 20, 1 << 20), (u64::MAX, 1)] {
                    let answers = [
                        engine.lookup_now(SPACE, &key, offset, length).unwrap(),
                        view.lookup_now(SPACE, &key, offset, length).unwrap(),
                    ];
                    for answer in answers {
                        match answer {
                            Lookup::Absent => assert_eq!(stat, None),
                            Lookup::Found(seen, bytes) => {
                                assert_eq!(Some(seen), stat);
                                assert_eq!(bytes, view.bytes(SPACE, &key, offset, length).unwrap());
                            }
                            Lookup::WouldWait => assert!(may_wait || length > LOOKUP_COPY_MAX),
                        }
                    }
                }
            }
            assert!(!engine.contains(SpaceId(21), &key(0)).unwrap());
        };
        check(&engine, false);
        engine.checkpoint().unwrap();
        check(&engine, true);
        engine.close().unwrap();
        // Nothing of the index is in memory: the device is asked.
        let device = Arc::new(MemoryDevice::from_bytes(device.to_vec(), 32 << 20));
        check(&Engine::open(device, options()).unwrap(), true);
    }
}
