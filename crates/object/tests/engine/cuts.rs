//! S-303: the power is cut at every write and every sync of a script of all calls. What is there afterwards is what was
//! there before the call at hand or after it, and nothing is left over.
//!
//! `KOINE_CRASH_SCALE=2` (as `./x test --full` sets it) looks at every image; the default tier at some of them.

mod script;

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};

use koine_engine::device::{Image, MemoryDevice, RecordingDevice};
use koine_engine::{Background, Engine, FormatOptions, Options};
use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{Batch, Durability, EngineKv, Kv, Ticket, View, pass_on};
use koine_object::{CollectOptions, Objects};

use crate::collector::{content, look, only_found, plant};

const START: Timestamp = Timestamp(1_700_000_000_000_000_000);
const LENGTH_MAX: u64 = 1 << 30;
/// How many images the default tier looks at, of about as many cuts.
const IMAGES: usize = 700;
/// Every so many images, orphans are planted in one.
const PLANTED_EACH: usize = 20;

/// What is there, value by value: length and hash.
type Digest = BTreeMap<(u64, Vec<u8>), (usize, u64)>;

fn digest(view: &dyn View) -> Digest {
    let hashed = |value: Vec<u8>| {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        (value.len(), hasher.finish())
    };
    content(view).into_iter().map(|(key, value)| (key, hashed(value))).collect()
}

/// A state that a commit made, and the call that it was of.
struct State {
    call: &'static str,
    /// Where its commit began and was acknowledged in the recording.
    begun: usize,
    told: usize,
    durable: bool,
    digest: Digest,
}

/// A store whose commits are made one at a time and noted.
struct Noting {
    store: EngineKv,
    device: Arc<RecordingDevice<MemoryDevice>>,
    states: Mutex<Vec<State>>,
    call: Mutex<&'static str>,
}

impl Noting {
    fn new() -> Self {
        let inner = MemoryDevice::growable(4 << 20, LENGTH_MAX);
        let format = FormatOptions { ring_len: 256 << 10, ..FormatOptions::default() };
        Engine::format(&inner, format, &SeededRandom::new(1)).unwrap();
        let device = Arc::new(RecordingDevice::new(inner).unwrap());
        let store = EngineKv::open(device.clone(), Options { memory_len: 16 << 20, ..Options::default() }).unwrap();
        let empty =
            State { call: "nothing", begun: 0, told: 0, durable: true, digest: digest(store.view().unwrap().as_ref()) };
        Noting { store, device, states: Mutex::new(vec![empty]), call: Mutex::new("open") }
    }

    /// The call that the next commits are of.
    fn begin(&self, call: &'static str) {
        *self.call.lock().unwrap() = call;
    }
}

impl Kv for Noting {
    pass_on!(Kv, store: profile, view, lookup, stage, watch, usage, sync, close);

    fn submit(&self, batch: Batch, durability: Durability, _wait: koine_kv::Wait) -> Ticket {
        let mut states = self.states.lock().unwrap();
        let begun = self.device.position();
        let outcome = self.store.commit(batch, durability);
        let told = self.device.position();
        if outcome.as_ref().is_ok_and(|commit| !commit.repeated) {
            let digest = digest(self.store.view().unwrap().as_ref());
            let call = *self.call.lock().unwrap();
            states.push(State { call, begun, told, durable: durability == Durability::Sync, digest });
        }
        Ticket::ready(outcome)
    }
}

fn objects_over(kv: Arc<dyn Kv>) -> Objects {
    Objects::open(kv, Arc::new(SimulatedClock::new(START)), Arc::new(SeededRandom::new(11))).unwrap()
}

/// What a power cut left, opened.
fn open(image: Image) -> Arc<EngineKv> {
    let device = Arc::new(MemoryDevice::from_image(image, LENGTH_MAX));
    let options = Options { background: Background::Manual, memory_len: 8 << 20, filters: false, ..Options::default() };
    Arc::new(EngineKv::open(device, options).unwrap())
}

/// The states that a cut may leave: from the last that was acknowledged as durable to the one under way.
fn allowed(states: &[State], cut: usize) -> &[State] {
    let first = states.iter().rposition(|state| state.durable && state.told <= cut).unwrap_or(0);
    let end = states.iter().rposition(|state| state.begun < cut).map_or(1, |last| last + 1);
    &states[first..end.max(first + 1)]
}

fn is_full_tier() -> bool {
    std::env::var("KOINE_CRASH_SCALE").is_ok_and(|scale| scale.parse::<u64>().is_ok_and(|scale| scale > 1))
}

/// Opens an image, and tells the call whose state it holds.
fn hold(store: &EngineKv, allowed: &[State], place: &str) -> &'static str {
    let found = digest(store.view().unwrap().as_ref());
    let state = allowed.iter().rev().find(|state| state.digest == found);
    let calls: Vec<_> = allowed.iter().map(|state| state.call).collect();
    state.unwrap_or_else(|| panic!("{place}: what is there is the state of none of {calls:?}")).call
}

/// Nothing is left over; but a group may be half deleted, or an index half built, and then the collector ends that.
fn nothing_is_left(objects: &Objects, call: &str, place: &str) {
    let found = look(objects, 1 << 20);
    if found.deletions + found.indexes > 0 {
        let begun = if found.indexes > 0 { "add_index" } else { "delete_group" };
        assert_eq!((call, found.found()), (begun, 1), "{place}: {found:?}");
        objects.collect(&CollectOptions { remove: true, ..CollectOptions::default() }).unwrap();
        assert_eq!(look(objects, 1 << 20).found(), 0, "{place}");
        return;
    }
    assert_eq!(found.found(), 0, "{place}, {call}: {found:?}");
}

/// What is planted is found exactly, and removed exactly, whatever the power cut left beside it.
fn planted_goes(store: &EngineKv, objects: &Objects, place: &str) {
    let mut buckets = Vec::new();
    let each = |bucket: koine_object::BucketInfo| {
        buckets.push(bucket.name);
        std::ops::ControlFlow::Continue(())
    };
    objects.for_each_bucket("", each).unwrap();
    let before = digest(store.view().unwrap().as_ref());
    let planted = plant(objects, &buckets.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(only_found(look(objects, 2)), planted, "{place}");
    let options = CollectOptions { remove: true, ..CollectOptions::default() };
    assert_eq!(objects.collect(&options).unwrap().removed, planted.found(), "{place}");
    assert!(digest(store.view().unwrap().as_ref()) == before, "{place}: something live went");
    assert_eq!(look(objects, 1 << 20).found(), 0, "{place}");
}

/// Looks at images of all these cuts, or at so many of them; how many differed.
fn images(noting: &Noting, mut each: impl FnMut(&Arc<EngineKv>, usize, &str)) -> usize {
    let recording = noting.device.recording();
    let mut cuts = [recording.changes(), recording.syncs(), vec![recording.len()]].concat();
    cuts.sort_unstable();
    cuts.dedup();
    let step = if is_full_tier() { 1 } else { cuts.len().div_ceil(IMAGES).max(1) };
    let parts = if is_full_tier() { 4 } else { 2 };
    let mut walker = recording.images(3);
    let mut seen = HashSet::new();
    for (number, cut) in cuts.into_iter().enumerate() {
        if number % step != 0 {
            continue;
        }
        walker.advance(cut);
        for part in 0..parts {
            let image = if part == 0 { walker.durable() } else { walker.partial(number as u64 * parts + part) };
            // The same bytes may be allowed at one cut and not at another: that is what `cut` is for.
            if !seen.insert((image.fingerprint(), cut)) {
                continue;
            }
            let place = format!("cut {cut} of {}, part {part}", recording.len());
            each(&open(image), cut, &place);
        }
    }
    seen.len()
}

#[test]
fn a_power_cut_in_any_call_leaves_all_of_it_or_nothing_and_nothing_beside_it() {
    let noting = Arc::new(Noting::new());
    let objects = objects_over(noting.clone());
    script::every_call(&objects, &noting);
    nothing_is_left(&objects, "the end", "at the end");
    let states = noting.states.lock().unwrap();
    let (mut met, mut looked) = (HashSet::new(), 0);
    let count = images(&noting, |store, cut, place| {
        let call = hold(store, allowed(&states, cut), place);
        met.insert(call);
        let objects = objects_over(store.clone());
        nothing_is_left(&objects, call, place);
        looked += 1;
        if looked % PLANTED_EACH == 0 {
            planted_goes(store, &objects, place);
        }
    });
    let calls: HashSet<_> = states.iter().map(|state| state.call).collect();
    println!("{count} images of {} states of {} calls, {} of them met", states.len(), calls.len(), met.len());
    assert!(met.len() * 10 >= calls.len() * 9, "too few calls were met: {} of {}", met.len(), calls.len());
}

#[test]
fn a_collection_that_a_power_cut_ends_goes_on() {
    let noting = Arc::new(Noting::new());
    let objects = objects_over(noting.clone());
    objects.create_bucket("bucket").wait().unwrap();
    crate::support::put(&objects, "live", &[7; 9_000]);
    let live = digest(noting.view().unwrap().as_ref());
    let planted = plant(&objects, &["bucket"]);
    let begun = noting.device.position();
    // One thing a slice, so that there are many batches.
    let options = CollectOptions { remove: true, ids_at_once: 1, ..CollectOptions::default() };
    assert_eq!(objects.collect(&options).unwrap().removed, planted.found());
    let states = noting.states.lock().unwrap();
    images(&noting, |store, cut, place| {
        if cut < begun {
            return;
        }
        hold(store, allowed(&states, cut), place);
        let objects = objects_over(store.clone());
        objects.collect(&options).unwrap();
        assert!(digest(store.view().unwrap().as_ref()) == live, "{place}");
        assert_eq!(look(&objects, 9).found(), 0, "{place}");
    });
}
