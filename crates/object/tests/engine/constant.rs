//! What copies and moves cost, counted: docs/semantics.md, S-124.

use std::sync::Arc;

use koine_engine::device::{BLOCK_LEN, Device, MemoryDevice, ReadMode, RecordingDevice};
use koine_engine::{Background, Engine, FormatOptions, Options};
use koine_env::OsRandom;
use koine_kv::EngineKv;
use koine_object::{CopyOptions, ExchangeOptions, ObjectName, Objects, RenameOptions};

use crate::support::{bytes, over, put, put_into};

type Recorded = RecordingDevice<MemoryDevice>;

/// What is done from one name to another.
type Step = fn(&Objects, ObjectName<'_>, ObjectName<'_>);

/// The writes since so many, and the index nodes among them.
fn written(device: &Recorded, since: usize) -> (Vec<usize>, usize) {
    let is_node = |at: u64| {
        let mut head = vec![0; BLOCK_LEN];
        device.inner().read_at(&mut head, at, ReadMode::Cached).unwrap();
        head.starts_with(b"NODE")
    };
    let writes: Vec<_> = device.recording().writes().skip(since).collect();
    let blocks = writes.iter().flat_map(|(at, length)| (*at..at + *length as u64).step_by(BLOCK_LEN));
    let nodes = blocks.filter(|at| is_node(*at)).count();
    (writes.into_iter().map(|(_, length)| length).collect(), nodes)
}

#[test]
fn copies_moves_and_exchanges_write_as_little_whatever_the_size() {
    let (bucket, other) = ("bucket", "other");
    let steps: [(&str, Step); 3] = [
        ("copy", |objects, from, to| drop(objects.copy(from, to, CopyOptions::default()).wait().unwrap())),
        ("move", |objects, from, to| drop(objects.rename(from, to, RenameOptions::default()).wait().unwrap())),
        ("exchange", |objects, from, to| drop(objects.exchange(from, to, ExchangeOptions::default()).wait().unwrap())),
    ];
    // By the step: what it wrote at each size.
    let mut costs = vec![Vec::new(); 2 * steps.len()];
    for length in [0, 1 << 20, 10 << 20, 90 << 20] {
        let inner = MemoryDevice::growable(256 << 20, 1 << 30);
        Engine::format(&inner, FormatOptions::default(), &OsRandom).unwrap();
        let device = Arc::new(RecordingDevice::new(inner).unwrap());
        let options = Options { background: Background::Manual, frozen_above: 4, ..Options::default() };
        let kv = Arc::new(EngineKv::open(Arc::clone(&device) as Arc<dyn Device>, options).unwrap());
        let objects = over(kv.clone());
        objects.create_bucket(other).wait().unwrap();
        let body = bytes(length, 1);
        for (number, target) in [bucket, other].into_iter().enumerate() {
            for (step, (name, act)) in steps.iter().enumerate() {
                put(&objects, name, &body);
                let to = format!("{name} to");
                if *name == "exchange" {
                    put_into(&objects, target, &to, b"short").unwrap();
                }
                kv.engine().checkpoint().unwrap();
                let before = device.recording().writes().count();
                act(&objects, ObjectName::new(bucket, name), ObjectName::new(target, &to));
                let (log, _) = written(&device, before);
                kv.engine().checkpoint().unwrap();
                costs[2 * step + number].push((log, written(&device, before).1));
                assert_eq!(objects.get(target, &to).unwrap().bytes(0, usize::MAX).unwrap(), body);
            }
        }
        assert!(kv.engine().check(&mut |_| ()).unwrap().is_sound());
    }
    for (number, costs) in costs.iter().enumerate() {
        let step = steps[number / 2].0;
        for (log, nodes) in costs {
            assert_eq!(log.as_slice(), [BLOCK_LEN], "one group with one record: {step}, {costs:?}");
            assert!((1..=8).contains(nodes), "index nodes: {step}, {costs:?}");
        }
    }
}
