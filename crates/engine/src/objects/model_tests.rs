//! Objects against a plain vector, over memory and a file, with and without threads in the background.

use std::sync::Arc;

use koine_env::SeededRandom;
use proptest::prelude::*;

use super::{Hint, Object, Store, StoreOptions};
use crate::device::{Device, FileDevice, MemoryDevice, OpenOptions};
use crate::{Background, Durability, Engine, FormatOptions, Options};

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, length: usize, durability: Durability },
    Read { offset: u64, length: usize },
    Resize { size: u64 },
    Checkpoint,
    Reopen { hint: u8 },
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..200u64, 4000..4200u64, 0..300_000u64]
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![1..50usize, 4000..5000usize, 1..120_000usize];
    let durability =
        prop_oneof![4 => Just(Durability::Memory), 1 => Just(Durability::Sync), 1 => Just(Durability::Written)];
    prop_oneof![
        5 => (offset(), length.clone(), durability)
            .prop_map(|(offset, length, durability)| Step::Write { offset, length, durability }),
        5 => (offset(), length).prop_map(|(offset, length)| Step::Read { offset, length }),
        1 => offset().prop_map(|size| Step::Resize { size }),
        1 => Just(Step::Checkpoint),
        1 => (0..3u8).prop_map(|hint| Step::Reopen { hint }),
    ]
}

fn hint(number: u8) -> Hint {
    [Hint::default(), Hint::sequential(), Hint::random()][number as usize % 3]
}

fn read(object: &Object, model: &[u8], offset: u64, length: usize) {
    let mut buffer = vec![0xEE; length];
    let count = object.read(offset, &mut buffer).unwrap();
    let start = model.len().min(offset as usize);
    let expected = &model[start..model.len().min(start + length)];
    assert!(buffer[..count] == *expected, "{length} bytes at {offset}");
    assert!(buffer[count..].iter().all(|byte| *byte == 0xEE));
}

fn run(device: Arc<dyn Device>, background: Background, steps: &[Step]) {
    let format = FormatOptions { ring_len: 256 << 10, ..FormatOptions::default() };
    Engine::format(&device, format, &SeededRandom::new(1)).unwrap();
    let engine = Arc::new(Engine::open(device, Options { background, frozen_above: 1, ..Options::default() }).unwrap());
    let store = Store::over(Arc::clone(&engine), StoreOptions::default()).unwrap();
    let mut object = store.create(0).unwrap();
    let mut model: Vec<u8> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Write { offset, length, durability } => {
                let data: Vec<u8> = (0..*length).map(|i| (i + at * 7) as u8 | 1).collect();
                object.write(*offset, &data, *durability).unwrap();
                let (start, end) = (*offset as usize, *offset as usize + length);
                model.resize(model.len().max(end), 0);
                model[start..end].copy_from_slice(&data);
            }
            Step::Read { offset, length } => read(&object, &model, *offset, *length),
            Step::Resize { size } => {
                object.resize(*size, Durability::Memory).unwrap();
                model.resize(*size as usize, 0);
            }
            Step::Checkpoint => engine.checkpoint().unwrap(),
            Step::Reopen { hint: number } => object = store.open_with(object.number(), hint(*number)).unwrap(),
        }
    }
    read(&object, &model, 0, model.len() + 1);
    assert_eq!(object.size().unwrap(), model.len() as u64);
    object.delete(Durability::Memory).unwrap();
    store.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn an_object_is_a_vector_of_bytes(steps in prop::collection::vec(step(), 1..40)) {
        run(Arc::new(MemoryDevice::fixed(32 << 20)), Background::Manual, &steps);
    }

    #[test]
    fn also_with_work_in_the_background(steps in prop::collection::vec(step(), 1..40)) {
        run(Arc::new(MemoryDevice::growable(4 << 20, 1 << 30)), Background::Threads, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn also_in_a_file(steps in prop::collection::vec(step(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let device = FileDevice::open(&path, OpenOptions { create: true, read_only: false }).unwrap();
        device.grow(8 << 20).unwrap();
        run(Arc::new(device), Background::Threads, &steps);
    }
}
