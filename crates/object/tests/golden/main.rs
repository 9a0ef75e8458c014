//! Stores that earlier versions of the program have left, kept as images: their catalogue, buckets, objects and
//! identities are what they were, and can be changed. See README.md beside this.

#[path = "../../../engine/tests/golden/image.rs"]
mod image;
mod manifest;
mod scene;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koine_engine::device::{Device, Image, MemoryDevice};
use koine_engine::{Background, Options};
use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{EngineKv, Kv};
use koine_object::{
    CollectOptions, Collected, DeleteOptions, Expected, Indexed, KeyOptions, ObjectName, Objects, PutOptions,
    SealingKeys, SearchQuery,
};

const LENGTH_MAX: u64 = 16 << 20;
/// When the images are opened; nothing in them has expired by then.
pub const LATER: Timestamp = Timestamp(1_792_000_000_000_000_000);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Opens a store on an image, with the sealing keys that are kept beside it.
fn open(image: Image, read_only: bool, sealing: SealingKeys) -> (Arc<MemoryDevice>, Arc<EngineKv>, Objects) {
    let device = Arc::new(MemoryDevice::from_image(image, LENGTH_MAX));
    let options = Options { background: Background::Manual, read_only, ..Options::default() };
    let kv = Arc::new(EngineKv::open(Arc::clone(&device) as Arc<dyn Device>, options).expect("it opens"));
    let clock = Arc::new(SimulatedClock::new(LATER));
    let objects = Objects::open(Arc::clone(&kv) as Arc<dyn Kv>, clock, Arc::new(SeededRandom::new(11)));
    (device, kv, objects.expect("its catalogue opens").with_sealing_keys(sealing))
}

/// Each image with its manifest and its sealing keys. There is one of every format.
fn each(look: impl Fn(Image, &str, SealingKeys)) {
    for format in 1..=scene::FORMAT {
        let name = format!("{format}-all");
        let path = folder().join(&name);
        let text = std::fs::read_to_string(path.with_extension("txt"));
        let text = text.unwrap_or_else(|error| panic!("{name} is gone ({error}): images are kept for ever"));
        let (_folder, sealing) = kept_sealing(&path);
        look(image::kept(&path.with_extension("image")), &text, sealing);
    }
}

/// The sealing keys of an image, in a file that only its owner reads, as they must be.
fn kept_sealing(path: &Path) -> (tempfile::TempDir, SealingKeys) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sealing");
    scene::copy_private(&path.with_extension("sealing"), &file);
    let keys = SealingKeys::open(&file, None).expect("the sealing keys can be read");
    (folder, keys)
}

fn collected(objects: &Objects) -> Collected {
    objects.collect(&CollectOptions::default()).expect("it can be collected")
}

#[test]
fn every_image_opens_and_holds_what_it_held() {
    each(|image, text, sealing| {
        let (_, kv, objects) = open(image, true, sealing);
        assert!(manifest::of(&objects) == text, "it holds something else:\n{}", manifest::of(&objects));
        assert_eq!(kv.engine().check(&mut |_| ()).expect("it can be checked").findings, Vec::<String>::new());
        assert_eq!(collected(&objects).found(), 0);
    });
}

#[test]
fn who_was_let_in_is_let_in() {
    each(|image, _, sealing| {
        let (_, _, objects) = open(image, false, sealing);
        let identities = objects.identities();
        let login = identities.log_in("ann", scene::PASSWORD, std::time::Duration::from_secs(60));
        assert_eq!(login.expect("the password still lets in").user, "ann");
        let (caller, secret) = identities.by_access_key(scene::KEY).expect("the key is there");
        assert_eq!(secret.expose(), scene::SECRET);
        let ann = objects.as_caller(caller);
        assert!(ann.head("of-ann", "hers").is_ok());
        // By a policy of her group's she reads everything, and changes nothing of others.
        assert!(ann.head("bucket", "large").is_ok());
        assert!(ann.delete("bucket", "large", DeleteOptions::default()).wait().is_err());
        let (cleo, _) = identities.by_access_key(scene::PLAIN_KEY).expect("a key that is not sealed is there");
        let cleo = objects.as_caller(cleo);
        // By the policy of the bucket, by the access list of the object (while public access is on), and not at all.
        assert!(cleo.get("of-ann", "hers").is_ok());
        assert!(cleo.get("bucket", "listed").is_err());
        identities.set_public_access(true).wait().expect("it is switched on");
        assert!(cleo.get("bucket", "listed").is_ok());
        assert!(cleo.get("bucket", "large").is_err());
        assert_eq!(objects.root_key().expect("it can be read").expect("there is one").secret, scene::ROOT_SECRET);
        assert!(identities.by_uid(1000).expect("it can be looked up").is_some());
    });
}

#[test]
fn every_image_can_be_changed_and_opened_again() {
    each(|image, _, sealing| {
        let (device, kv, objects) = open(image, false, sealing.clone());
        change(&objects);
        assert_eq!(collected(&objects).found(), 0);
        objects.write_access_times().expect("access times can be written");
        kv.engine().close().expect("it closes");
        device.reopen();
        let (_, kv, objects) = open(device.image(), false, sealing);
        assert_eq!(kv.engine().check(&mut |_| ()).expect("it can be checked").findings, Vec::<String>::new());
        assert_eq!(collected(&objects).found(), 0);
        assert_eq!(objects.head("bucket", "new").expect("what was put is there").size, 100_000);
    });
}

/// Goes on with everything that an image holds.
fn change(objects: &Objects) {
    let before = objects.bucket_usage("bucket").expect("usage is told");
    let mut writer = objects.put("bucket", "new", PutOptions::default()).expect("a put begins");
    writer.write(&[7; 100_000]).expect("bytes are taken");
    writer.finish(&Expected::none()).wait().expect("it is put");
    let after = objects.bucket_usage("bucket").expect("usage is told");
    assert_eq!((after.objects, after.bytes), (before.objects + 1, before.bytes + 100_000));
    // An index that was there goes on being kept.
    let mut query = SearchQuery::new(Indexed::Metadata("colour".to_owned()));
    query.limit = 100;
    let found = objects.search("versioned", &query).expect("it can be searched").found.len();
    objects.delete("versioned", "kept", DeleteOptions::default()).wait().expect("it is deleted");
    assert_eq!(objects.search("versioned", &query).expect("it can be searched").found.len(), found - 1);
    // An upload that was under way is joined.
    let uploads = objects.list_uploads("bucket", &manifest::all_uploads()).expect("uploads are listed").uploads;
    let upload = uploads.first().expect("one is under way");
    let name = ObjectName::new("bucket", &upload.key);
    objects.complete_upload(name, upload.id, scene::all_parts(objects, name, upload.id)).wait().expect("it is joined");
    objects.restore_bucket("bucket", "before").wait().expect("it goes back to a snapshot");
    let mut writer = objects.put("bucket", "new", PutOptions::default()).expect("a put begins");
    writer.write(&[8; 100_000]).expect("bytes are taken");
    writer.finish(&Expected::none()).wait().expect("it is put");
    objects.branch_bucket("bucket", "branched-again").wait().expect("it is branched");
    let identities = objects.identities();
    identities.create_key("ann", KeyOptions::default()).wait().expect("a key is made");
    assert!(identities.rotate_sealing_key().expect("secrets are sealed anew") >= 2);
    identities.delete_group("office").expect("a group is deleted");
}

/// Set while the image of a new format is made.
const MAKE: &str = "KOINE_MAKE_GOLDEN";

#[test]
fn the_scene_played_today_says_what_its_image_says() {
    let path = folder().join(format!("{}-all", scene::FORMAT));
    let sealing = tempfile::tempdir().expect("a folder");
    let file = sealing.path().join("sealing");
    let made = scene::make(&file);
    let (_, _, objects) = open(made.clone(), true, SealingKeys::open(&file, None).expect("sealing keys"));
    let said = manifest::of(&objects);
    if std::env::var_os(MAKE).is_some() && !path.with_extension("image").exists() {
        std::fs::write(path.with_extension("txt"), &said).expect("the manifest can be written");
        scene::copy_private(&file, &path.with_extension("sealing"));
        image::keep(&path.with_extension("image"), &made);
    }
    let kept = std::fs::read_to_string(path.with_extension("txt")).expect("its manifest is there");
    assert!(said == kept, "played today it holds something else:\n{said}");
}
