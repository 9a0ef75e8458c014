//! Whether a key is there now: the one question for which no view is worth taking.
//!
//! Invariant: who looks holds the lock of what is visible, so nothing newer becomes visible meanwhile, and blocks
//! that the state still names are not given back; for that reason it never waits for the device there.

use crate::batch::SpaceId;
use crate::content::with_record_key;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};

impl Engine {
    /// Whether a key is there, as a view that is taken now would tell.
    pub fn contains(&self, space: SpaceId, key: &[u8]) -> Result<bool> {
        let core = self.shared();
        let found = {
            let visible = core.visible.read();
            let nodes = core.nodes.now();
            visible.look(&nodes, space, |root| match root {
                None => Ok(false),
                Some(root) => {
                    with_record_key(key, |key| root.tree.look(&nodes, key, |held| Ok::<_, Error>(held.is_some())))
                }
            })
        };
        match found {
            Err(error) if error.kind() == ErrorKind::Busy => Ok(self.view().stat(space, key)?.is_some()),
            found => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use koine_env::SeededRandom;

    use crate::batch::{Batch, Durability, SpaceId};
    use crate::device::MemoryDevice;
    use crate::engine::{Background, Engine, FormatOptions, Options};

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
        engine.commit(Batch::new().delete(SPACE, key(8)), Durability::Memory).unwrap();
        let check = |engine: &Engine| {
            for number in 0..4000 {
                assert_eq!(engine.contains(SPACE, &key(number)).unwrap(), number % 2 == 0 && number != 8, "{number}");
            }
            assert!(!engine.contains(SpaceId(21), &key(0)).unwrap());
        };
        check(&engine);
        engine.close().unwrap();
        // Nothing of the index is in memory: the device is asked.
        let device = Arc::new(MemoryDevice::from_bytes(device.to_vec(), 32 << 20));
        check(&Engine::open(device, options()).unwrap());
    }
}
