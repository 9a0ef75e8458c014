//! Stores that earlier versions of the program have left, kept as images: they open, are sound, hold what they held,
//! and can be written to. See README.md beside this.

mod image;
mod manifest;
mod scenes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koine_engine::device::{Device, Image, MemoryDevice};
use koine_engine::{
    Background, Batch, Durability, Engine, ErrorKind, FORMAT, FormatOptions, Options, StoreSink, objects, salvage,
};
use koine_env::SeededRandom;

const LENGTH_MAX: u64 = 8 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Calls `look` with the name, the image and the manifest of every store that is kept.
fn each(look: impl Fn(&str, Image, &str)) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "image"));
    paths.sort();
    let kept: Vec<String> = paths.iter().map(|path| path.file_stem().expect("a name").display().to_string()).collect();
    for format in 0..=FORMAT {
        for name in scenes::names(format) {
            assert!(kept.contains(&format!("{format}-{name}")), "{format}-{name} is gone: images are kept for ever");
        }
    }
    for (path, name) in paths.iter().zip(&kept) {
        let text = std::fs::read_to_string(path.with_extension("txt")).expect("its manifest is there");
        println!("{name}");
        look(name, image::kept(path), &text);
    }
}

fn format_of(image: &Image) -> u32 {
    let mut word = [0; 4];
    image.read(8, &mut word);
    u32::from_le_bytes(word)
}

fn open(image: Image, read_only: bool) -> koine_engine::Result<(Arc<MemoryDevice>, Arc<Engine>)> {
    let device = Arc::new(MemoryDevice::from_image(image, LENGTH_MAX));
    let options = Options { background: Background::Manual, read_only, ..Options::default() };
    let engine = Engine::open(Arc::clone(&device) as Arc<dyn Device>, options)?;
    Ok((device, Arc::new(engine)))
}

/// An older format is refused as it is; then what `koine upgrade` makes of it.
fn upgraded(image: Image) -> Image {
    if format_of(&image) == FORMAT {
        return image;
    }
    let error = open(image.clone(), true).err().expect("an older format is refused");
    assert!(error.kind() == ErrorKind::Unknown && error.message().contains("koine upgrade"), "{error}");
    let device = Arc::new(MemoryDevice::from_image(image, LENGTH_MAX));
    Engine::upgrade(Arc::clone(&device) as Arc<dyn Device>, false).expect("it can be upgraded");
    device.image()
}

fn must_be_sound(engine: &Engine) {
    assert_eq!(engine.check(&mut |_| ()).expect("it can be checked").findings, Vec::<String>::new());
}

#[test]
fn every_image_keeps_its_block_size() {
    each(|name, image, _| {
        let expected = if name == "1-blocks" { 64 << 10 } else { 4 << 10 };
        let (device, engine) = open(upgraded(image), false).expect("it opens");
        assert_eq!(engine.info().block_len, expected, "{name}");
        engine.close().expect("it closes");
        device.reopen();
        let (_, engine) = open(device.image(), true).expect("it opens again");
        assert_eq!(engine.info().block_len, expected, "{name}");
    });
}

#[test]
fn only_a_store_with_frozen_blobs_wants_a_program_that_knows_them() {
    each(|name, image, _| {
        let wanted = |slot: usize| {
            let mut word = [0; 8];
            image.read(slot + 24, &mut word);
            u64::from_le_bytes(word)
        };
        let newest = wanted(0).max(wanted(128 * 4096));
        assert_eq!(newest, u64::from(name == "1-frozen"), "{name}: features that must be known");
    });
}

/// The lines of a manifest that tell spaces and keys.
fn content(manifest: &str) -> Vec<&str> {
    manifest.lines().skip(3).collect()
}

#[test]
fn every_image_opens_and_holds_what_it_held() {
    each(|_, image, text| {
        let image = upgraded(image);
        let (device, engine) = open(image.clone(), true).expect("it opens to read");
        assert_eq!(manifest::of(&engine), text);
        must_be_sound(&engine);
        drop(engine);
        assert_eq!(device.image().fingerprint(), image.fingerprint(), "reading changes nothing");
    });
}

#[test]
fn every_image_can_be_written_to_and_opened_again() {
    each(|_, image, text| {
        let (device, engine) = open(upgraded(image), false).expect("it opens to write");
        assert_eq!(manifest::content(&engine.view()).lines().collect::<Vec<_>>(), content(text));
        for number in 0..30u8 {
            let batch =
                Batch::new().put(scenes::FOR_TESTS, vec![b't', number], vec![number; usize::from(number) * 700]);
            engine.submit(batch, Durability::Sync).wait().expect("it takes a commit");
        }
        must_be_sound(&engine);
        engine.close().expect("it closes");
        device.reopen();
        let (_, engine) = open(device.image(), false).expect("it opens again");
        must_be_sound(&engine);
        let mine = format!("key {} t", scenes::FOR_TESTS.0);
        let all = manifest::content(&engine.view());
        let (written, before): (Vec<&str>, Vec<&str>) = all.lines().partition(|line| line.starts_with(&mine));
        assert_eq!((written.len(), before), (30, content(text)));
    });
}

#[test]
fn numbered_objects_are_what_their_keys_hold() {
    each(|_, image, _| {
        let (_, engine) = open(upgraded(image), false).expect("it opens");
        let Some(found) = manifest::objects(Arc::clone(&engine)) else { return };
        let mut sizes = Vec::new();
        manifest::each_key(&engine.view(), objects::SPACE, &mut |key, _, data| {
            if let Ok(number) = <[u8; 8]>::try_from(key) {
                sizes.push(format!("object {} size={} ", u64::from_be_bytes(number), data.len()));
            }
        });
        assert!(sizes.len() > 10 && found.lines().count() == sizes.len(), "{found}");
        assert!(found.lines().zip(&sizes).all(|(line, size)| line.starts_with(size)), "{found}");
    });
}

#[test]
fn every_image_can_be_salvaged_with_and_without_its_superblocks() {
    each(|name, image, text| {
        let mut without = image.clone();
        [0, 128 * 4096].iter().for_each(|slot| without.zero(*slot, 4096));
        for image in [image, without] {
            let target = Arc::new(MemoryDevice::growable(1 << 20, LENGTH_MAX));
            Engine::format(target.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).expect("a new store");
            let (_, to) = open(target.image(), false).expect("it opens");
            let damaged: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(image, LENGTH_MAX));
            let report = salvage(&damaged, &mut StoreSink::new(&to, false), &mut |_| ()).expect("it can be salvaged");
            assert!(report.is_whole(), "{name}: {report:?}");
            let salvaged = manifest::content(&to.view());
            assert_eq!(keys_of(&salvaged), keys_of(text), "{name}");
        }
    });
}

/// Keys with sizes and checksums; salvage gives them other versions.
fn keys_of(manifest: &str) -> Vec<String> {
    without_versions(manifest).into_iter().filter(|line| line.starts_with("key ")).collect()
}

/// How many commits a call makes is no matter of the format.
fn without_versions(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().filter(|line| !line.starts_with("version "));
    lines
        .map(|line| {
            line.split(' ')
                .filter(|word| !word.starts_with("version=") && !word.starts_with("created="))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// Set while the images of a new format are made: those that are not there yet.
const MAKE: &str = "KOINE_MAKE_GOLDEN";

#[test]
fn the_scenes_played_today_say_what_their_images_say() {
    for name in scenes::names(FORMAT) {
        let path = folder().join(format!("{FORMAT}-{name}.image"));
        let made = scenes::make(name);
        let (_, engine) = open(made.clone(), true).expect("it opens");
        must_be_sound(&engine);
        let said = manifest::of(&engine);
        if std::env::var_os(MAKE).is_some() && !path.exists() {
            std::fs::write(path.with_extension("txt"), &said).expect("the manifest can be written");
            image::keep(&path, &made);
        }
        let kept = std::fs::read_to_string(path.with_extension("txt")).expect("its manifest is there");
        assert!(without_versions(&said) == without_versions(&kept), "{name}: played today it holds something else");
    }
}
