//! What changes survive, counted and after power cuts: docs/semantics.md, S-181.

use std::sync::Arc;

use koine_engine::device::{Device, Image, MemoryDevice, RecordingDevice};
use koine_engine::{Background, Engine, FormatOptions, Options};
use koine_env::{OsRandom, SystemClock};
use koine_kv::EngineKv;
use koine_object::{Durability, Expected, ObjectName, Objects, PutOptions, StageOptions};

use crate::support::{bytes, get, over, put};

const LENGTH_MAX: u64 = 1 << 30;

fn store(device: Arc<dyn Device>) -> Arc<EngineKv> {
    let options = Options { background: Background::Manual, ..Options::default() };
    Arc::new(EngineKv::open(device, options).unwrap())
}

/// Which of these objects a medium holds, each whole.
fn held(image: Image, objects: &[(&str, Vec<u8>)]) -> Vec<bool> {
    let kv = store(Arc::new(MemoryDevice::from_image(image, LENGTH_MAX)));
    let store = Objects::open(kv, Arc::new(SystemClock::new()), Arc::new(OsRandom)).unwrap();
    let is_held = |(key, body): &(&str, Vec<u8>)| match get(&store, key) {
        Ok(found) => {
            assert!(found == *body, "{key} is there in part");
            true
        }
        Err(_) => false,
    };
    objects.iter().map(is_held).collect()
}

#[test]
fn a_handle_may_ask_for_less_than_a_power_cut_and_what_is_synced_later_covers_it() {
    for durability in [Durability::Written, Durability::Memory] {
        let inner = MemoryDevice::growable(64 << 20, LENGTH_MAX);
        Engine::format(&inner, FormatOptions::default(), &OsRandom).unwrap();
        let device = Arc::new(RecordingDevice::new(inner).unwrap());
        let objects = over(store(device.clone()));
        let loose = objects.with_durability(durability);
        let all = [
            ("small", bytes(100, 1)),
            ("long", bytes(3 << 20, 2)),
            ("both", bytes(200_000, 3)),
            ("synced", bytes(9, 4)),
        ];
        let syncs = || device.recording().syncs().len();

        let (begun, before) = (device.position(), syncs());
        all[..2].iter().for_each(|(key, body)| drop(put(&loose, key, body)));
        let mut body = loose.stage(StageOptions::default()).unwrap();
        body.write(&all[2].1).unwrap();
        let body = body.finish(&Expected::none()).unwrap();
        let name = ObjectName::new("bucket", all[2].0);
        loose.transact(None, |txn| txn.put(name, &body, &PutOptions::default())).unwrap();
        assert!(all[..3].iter().all(|(key, body)| get(&objects, key).unwrap() == *body), "seen at once");
        assert_eq!(syncs(), before, "{durability:?}");

        put(&objects, all[3].0, &all[3].1);
        assert_eq!(syncs(), before + 1, "{durability:?}");
        let told = device.position();

        let recording = device.recording();
        let mut walker = recording.images(7);
        for cut in begun..told {
            walker.advance(cut);
            for part in 0..4 {
                // Each is whole or not there, and none without those before it.
                let held = held(walker.partial(part), &all);
                assert!(held.is_sorted_by(|one, next| one >= next), "{held:?}");
            }
        }
        walker.advance(told);
        assert_eq!(held(walker.durable(), &all), [true; 4], "{durability:?}");
    }
}
