//! Copying stores: everything arrives, whatever interrupts it, and nothing that is not there is told of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use koine_engine::device::MemoryDevice;
use koine_engine::{Engine, FormatOptions, Options};
use koine_env::{OsRandom, Random, SeededRandom};
use koine_kv::copy::{Copied, CopyError, CopyOptions, Phase, SCRATCH_SPACE, STATE_SPACE, copy};
use koine_kv::wrap::{Limit, Limits};
use koine_kv::{
    Batch, Commit, Direction, Durability, EngineKv, Error, ErrorKind, KeyRange, Kv, Lookup, MemoryKv, MemoryOptions,
    Operation, Payload, Place, Profile, Result, SpaceId, StageHint, Ticket, View, Wait, pass_on,
};

type Dump = BTreeMap<(SpaceId, bool), BTreeMap<Bytes, Bytes>>;

/// Everything but what the copying keeps for itself.
fn dump(kv: &dyn Kv) -> Dump {
    let view = kv.view().expect("a view");
    let spaces = view.spaces(SpaceId::FIRST, usize::MAX).expect("spaces");
    let spaces = spaces.into_iter().filter(|entry| entry.space != STATE_SPACE);
    let keys = |space: SpaceId| {
        let mut cursor = view.cursor(space, KeyRange::all(), Direction::Forward).expect("a cursor");
        let mut keys = BTreeMap::new();
        while let Some(entry) = cursor.next().expect("the next entry") {
            let value = view.bytes(space, &entry.key, 0, entry.stat.size as usize).expect("bytes");
            keys.insert(entry.key, value);
        }
        keys
    };
    spaces.map(|entry| ((entry.space, entry.is_snapshot), keys(entry.space))).collect()
}

fn commit(kv: &dyn Kv, batch: Batch) -> Commit {
    kv.commit(batch, Durability::Memory).expect("the batch is applied")
}

fn put_large(kv: &dyn Kv, space: SpaceId, key: &'static str, value: &[u8]) {
    let mut stage = kv.stage(StageHint::default()).expect("a stage");
    value.chunks(1 << 20).for_each(|piece| stage.write(piece).expect("a piece"));
    let value = Payload::Stage(stage.finish().expect("a token"));
    commit(kv, Batch::new().then(Operation::Put { at: Place::new(space, key), value }));
}

fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes
}

const A: SpaceId = SpaceId(16);
const B: SpaceId = SpaceId(32);
const EMPTY: SpaceId = SpaceId(33);
const SNAPSHOT: SpaceId = SpaceId(40);
const LAST: SpaceId = SpaceId(1 << 40);

/// Spaces with many small and some large values, odd keys, an empty one, and a snapshot of an earlier state.
fn source() -> Arc<dyn Kv> {
    let kv = MemoryKv::default();
    let all =
        [A, B, EMPTY, LAST].into_iter().fold(Batch::new(), |batch, space| batch.then(Operation::CreateSpace { space }));
    commit(&kv, all);
    let many = (0..300u64).fold(Batch::new(), |batch, number| {
        batch.put(B, format!("k{number:03}"), random_bytes(number, (number * number) as usize % 3000))
    });
    commit(&kv, many);
    commit(
        &kv,
        Batch::new().put(A, "", "the empty key").put(A, vec![0xFF; 2048], "the longest key").put(A, "none", ""),
    );
    put_large(&kv, B, "large", &random_bytes(1, 3_500_001));
    commit(&kv, Batch::new().then(Operation::SnapshotSpace { from: B, to: SNAPSHOT }));
    commit(&kv, Batch::new().put(B, "k007", "changed").delete(B, "k100").put(LAST, "k", random_bytes(5, 200_000)));
    put_large(&kv, LAST, "other", &random_bytes(2, 1_200_000));
    Arc::new(kv)
}

fn options() -> CopyOptions {
    CopyOptions::new("there")
}

fn run(from: &dyn Kv, to: &dyn Kv) -> koine_kv::copy::CopyResult<Copied> {
    copy(from, to, &options(), &mut |_| {})
}

fn check_same(from: &dyn Kv, to: &dyn Kv) {
    let (from, to) = (dump(from), dump(to));
    let shape = |dump: &Dump| dump.iter().map(|(space, keys)| (*space, keys.len())).collect::<Vec<_>>();
    assert_eq!(shape(&from), shape(&to));
    assert!(from == to, "a key or a value differs");
}

/// Ends after so many calls that write; what was done before stays.
struct Breaks {
    inner: Arc<dyn Kv>,
    left: AtomicU64,
    /// The last one that ends so was done all the same.
    loses_answer: bool,
}

impl Kv for Breaks {
    pass_on!(Kv, inner: profile, view, lookup, stage, watch, usage, sync, close);

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        let gone = || Error::new(ErrorKind::Stopped, "the connection is lost");
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(1) if self.loses_answer => Ticket::ready(self.inner.commit(batch, durability).and(Err(gone()))),
            Ok(_) => self.inner.submit(batch, durability, wait),
            Err(_) => Ticket::ready(Err(gone())),
        }
    }
}

/// So small that a batch brings a few keys only.
fn narrow(inner: Arc<dyn Kv>) -> Arc<dyn Kv> {
    Arc::new(Limit::new(inner, &Limits { bytes_max: Some(40_000), ..Limits::default() }))
}

fn engine() -> Arc<dyn Kv> {
    let device = Arc::new(MemoryDevice::growable(64 << 20, 1 << 30));
    Engine::format(device.as_ref(), FormatOptions::default(), &OsRandom).expect("format");
    Arc::new(EngineKv::open(device, Options::default()).expect("open"))
}

#[test]
fn everything_arrives_and_a_second_run_brings_nothing() {
    let from = source();
    for to in [Arc::new(MemoryKv::default()) as Arc<dyn Kv>, engine()] {
        let mut phases = Vec::new();
        let done = copy(&*from, &*to, &options(), &mut |progress| phases.push(progress.phase)).expect("a copy");
        check_same(&*from, &*to);
        let keys: u64 = dump(&*from).values().map(|keys| keys.len() as u64).sum();
        assert_eq!((done.keys, done.kept, done.removed, done.verified), (keys, 0, 0, Some(keys)));
        assert_eq!((done.spaces, done.resumed, done.version), (5, false, from.view().expect("a view").version()));
        assert!(phases.contains(&Phase::Copying) && phases.contains(&Phase::Verifying));
        assert!(!to.view().expect("a view").has_space(SCRATCH_SPACE).expect("has_space"));
        let again = run(&*from, &*to).expect("a copy");
        assert_eq!((again.keys, again.bytes, again.resumed, again.verified), (0, 0, true, Some(keys)));
        // The copy of a copy is one of everything but the state.
        let third = MemoryKv::default();
        copy(&*to, &third, &CopyOptions::new("here"), &mut |_| {}).expect("a copy");
        check_same(&*from, &third);
    }
}

#[test]
fn an_interruption_anywhere_costs_what_was_under_way() {
    let from = source();
    let keys: u64 = dump(&*from).values().map(|keys| keys.len() as u64).sum();
    let mut breaks = 0;
    for loses_answer in [false, true] {
        for left in 0.. {
            let memory: Arc<dyn Kv> = Arc::new(MemoryKv::default());
            let to = narrow(Arc::clone(&memory));
            let first = run(&*from, &Breaks { inner: Arc::clone(&to), left: AtomicU64::new(left), loses_answer });
            let Err(error) = first else { break };
            breaks += 1;
            let text = error.to_string();
            assert!(text.starts_with("the destination: writing") && text.contains("run the same again"), "{text}");
            // What is there before the second run is there for good.
            let arrived: u64 = dump(&*memory).values().map(|keys| keys.len() as u64).sum();
            let second = run(&*from, &*to).expect("the rest");
            check_same(&*from, &*memory);
            assert_eq!(second.resumed, left > 0, "{left}");
            assert!(
                second.keys <= keys - arrived,
                "{} of {keys} were brought again, {arrived} were there",
                second.keys
            );
        }
    }
    assert!(breaks > 40, "{breaks} interruptions");
}

/// Changes of every kind between two runs, the second interrupted as well, and more changes then.
#[test]
fn a_later_run_brings_what_has_changed() {
    for left in [0, 1, 2, 3, 5, 8, 13, 20, 1000] {
        let (from, memory) = (source(), Arc::new(MemoryKv::default()) as Arc<dyn Kv>);
        let to = narrow(Arc::clone(&memory));
        run(&*from, &*to).expect("a copy");
        let fresh = SpaceId(50);
        let swap = Batch::new()
            .put(B, "k200", "changed later")
            .delete(B, "k201")
            .put(B, "new", "new")
            .put(A, "none", "one byte more")
            .then(Operation::DropSpace { space: EMPTY })
            .then(Operation::CreateSpace { space: fresh })
            .put(fresh, "k", "v")
            .then(Operation::DropSpace { space: SNAPSHOT })
            .then(Operation::SnapshotSpace { from: B, to: SNAPSHOT });
        commit(&*from, swap);
        let breaks = Breaks { inner: Arc::clone(&to), left: AtomicU64::new(left), loses_answer: false };
        let second = run(&*from, &breaks);
        assert_eq!(second.is_ok(), left == 1000, "{left}");
        if let Ok(second) = second {
            // 4 keys, and the snapshot anew.
            let snapshot = dump(&*from)[&(SNAPSHOT, true)].len() as u64;
            assert_eq!((second.keys, second.removed), (4 + snapshot, 1));
        }
        let more = Batch::new().put(A, "none", "").put(B, "k050", "x").delete(B, "new");
        commit(&*from, more.then(Operation::DropSpace { space: fresh }));
        run(&*from, &*to).expect("a copy");
        check_same(&*from, &*memory);
    }
}

/// Its keys are no newer than those of the one before, and as long.
#[test]
fn a_snapshot_that_was_made_anew_is_not_taken_for_the_old_one() {
    let (from, to) = (MemoryKv::default(), MemoryKv::default());
    let take = || Operation::SnapshotSpace { from: B, to: SNAPSHOT };
    commit(&from, Batch::new().then(Operation::CreateSpace { space: B }).put(B, "k", "old").then(take()));
    commit(&from, Batch::new().put(B, "k", "new"));
    let unseen = CopyOptions { verify: false, ..options() };
    copy(&from, &to, &unseen, &mut |_| {}).expect("a copy");
    assert_eq!(to.get(SNAPSHOT, b"k").expect("a get").as_deref(), Some(&b"old"[..]));
    commit(&from, Batch::new().then(Operation::DropSpace { space: SNAPSHOT }).then(take()));
    let second = copy(&from, &to, &unseen, &mut |_| {}).expect("a copy");
    assert_eq!((second.keys, second.kept), (1, 1));
    check_same(&from, &to);
}

#[test]
fn a_destination_with_other_things_is_refused_unless_it_is_forced() {
    let from = source();
    let to = MemoryKv::default();
    commit(
        &to,
        Batch::new().then(Operation::CreateSpace { space: B }).then(Operation::CreateSpace { space: SpaceId(77) }),
    );
    // Empty spaces are nothing.
    let other = MemoryKv::default();
    commit(&other, Batch::new().then(Operation::CreateSpace { space: B }));
    run(&*from, &other).expect("a copy");
    check_same(&*from, &other);

    commit(&to, Batch::new().put(B, "k001", "other").put(B, "zz", "other").put(SpaceId(77), "k", "stays"));
    let refused = run(&*from, &to).expect_err("it holds something");
    assert!(matches!(&refused, CopyError::Occupied(text) if text.contains("(space 32)")), "{refused}");
    assert!(!to.view().expect("a view").has_space(STATE_SPACE).expect("has_space"), "nothing was changed");
    let forced = CopyOptions { force: true, ..options() };
    let done = copy(&*from, &to, &forced, &mut |_| {}).expect("a copy");
    assert_eq!(done.removed, 1);
    assert_eq!(to.get(SpaceId(77), b"k").expect("a get").as_deref(), Some(&b"stays"[..]));
    commit(&to, Batch::new().then(Operation::DropSpace { space: SpaceId(77) }));
    check_same(&*from, &to);

    // From elsewhere, or of other spaces, it is another copy.
    let elsewhere = copy(&*from, &to, &CopyOptions::new("elsewhere"), &mut |_| {}).expect_err("another source");
    assert!(elsewhere.to_string().contains("was copied from there (spaces: all)"), "{elsewhere}");
    let some = CopyOptions { spaces: Some(vec![B]), ..options() };
    assert!(matches!(copy(&*from, &to, &some, &mut |_| {}), Err(CopyError::Occupied(_))));
    let only = MemoryKv::default();
    assert_eq!(copy(&*from, &only, &some, &mut |_| {}).expect("a copy").spaces, 1);
    assert_eq!(dump(&only).keys().collect::<Vec<_>>(), [&(B, false)]);
    let none = CopyOptions { spaces: Some(vec![SpaceId(99)]), ..options() };
    let missing = copy(&*from, &MemoryKv::default(), &none, &mut |_| {}).expect_err("no such space");
    assert!(missing.to_string().contains("space 99 is not there"), "{missing}");

    // What is not ours is not written to.
    let strange = MemoryKv::default();
    commit(&strange, Batch::new().then(Operation::CreateSpace { space: STATE_SPACE }).put(STATE_SPACE, "mine", ""));
    let error = run(&*from, &strange).expect_err("not a state");
    assert!(error.to_string().contains("space 31 holds something that is no state of a copy"), "{error}");

    // What a new store begins with may be there, and what of it the source lacks stays, in later runs too.
    let founded = MemoryKv::default();
    commit(
        &founded,
        Batch::new().then(Operation::CreateSpace { space: A }).put(A, "head", "of its own").put(A, "none", "x"),
    );
    let of_a_store = |keys: &[&'static str]| {
        let founded = keys.iter().map(|key| (A, KeyRange::single(*key))).collect();
        CopyOptions { founded, ..options() }
    };
    assert!(matches!(copy(&*from, &founded, &of_a_store(&["head"]), &mut |_| {}), Err(CopyError::Occupied(_))));
    for _ in 0..2 {
        copy(&*from, &founded, &of_a_store(&["head", "none"]), &mut |_| {}).expect("a copy");
        assert_eq!(founded.get(A, b"head").expect("a get").as_deref(), Some(&b"of its own"[..]));
        assert_eq!(founded.get(A, b"none").expect("a get").as_deref(), Some(&b""[..]));
    }
}

#[test]
fn a_destination_that_was_changed_is_found_and_mended_by_the_next_run() {
    let from = source();
    let to = MemoryKv::default();
    run(&*from, &to).expect("a copy");
    let mut large = random_bytes(1, 3_500_001);
    large[2_000_000] ^= 1;
    put_large(&to, B, "large", &large);
    let damage = Batch::new().put(B, "k200", random_bytes(0, 40_000 % 3000)).delete(B, "k201").put(A, "extra", "");
    commit(&to, damage);
    let without = CopyOptions { verify: false, ..options() };
    assert_eq!(copy(&*from, &to, &without, &mut |_| {}).expect("nothing is looked at").verified, None);
    let error = run(&*from, &to).expect_err("it differs");
    let CopyError::Different { count, first } = &error else { panic!("{error}") };
    assert_eq!(*count, 4);
    let expected = [
        "key \"extra\" of space 16 is only in the destination",
        "key \"k200\" of space 32 differs at byte 0",
        "key \"k201\" of space 32 is missing",
        "key \"large\" of space 32 differs at byte 2000000",
    ];
    assert_eq!(first.as_slice(), expected);
    let mended = run(&*from, &to).expect("a copy");
    assert_eq!((mended.keys, mended.removed), (3, 1));
    check_same(&*from, &to);
    // A source that was set back is another one: nothing is believed of its versions.
    let younger = MemoryKv::default();
    commit(&younger, Batch::new().then(Operation::CreateSpace { space: B }).put(B, "k001", "another"));
    run(&younger, &to).expect("a copy");
    check_same(&younger, &to);
}

/// A source whose view is taken back after so many reads.
struct Expires {
    inner: Arc<dyn Kv>,
    left: Arc<AtomicU64>,
}

struct ExpiringView {
    inner: Arc<dyn View>,
    left: Arc<AtomicU64>,
}

impl Kv for Expires {
    pass_on!(Kv, inner: profile, lookup, stage, submit, watch, usage, sync, close);

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(Arc::new(ExpiringView { inner: self.inner.view()?, left: Arc::clone(&self.left) }))
    }
}

impl View for ExpiringView {
    pass_on!(View, inner: version, keep, spaces, read_into, cursor);

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        if length == 0 {
            return self.inner.lookup(space, key, offset, length, wait);
        }
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| Error::new(ErrorKind::Expired, "the view was pinned too long"))?;
        self.inner.lookup(space, key, offset, length, wait)
    }
}

#[test]
fn what_goes_wrong_is_told_with_what_to_do() {
    let from = source();
    let told = |from: &dyn Kv, to: &dyn Kv| run(from, to).expect_err("it fails").to_string();

    let to = MemoryKv::default();
    let left = Arc::new(AtomicU64::new(150));
    let text = told(&Expires { inner: Arc::clone(&from), left: Arc::clone(&left) }, &to);
    assert!(text.starts_with("the source: reading key") && text.contains("it goes on from here"), "{text}");
    left.store(u64::MAX, Ordering::SeqCst);
    assert!(run(&Expires { inner: Arc::clone(&from), left }, &to).expect("the rest").resumed);
    check_same(&*from, &to);

    let small = MemoryKv::new(MemoryOptions { capacity: Some(2 << 20), ..MemoryOptions::default() });
    let text = told(&*from, &small);
    assert!(
        text.starts_with("the destination: staging key \"large\" of space 32: the store in memory is full"),
        "{text}"
    );
    assert!(text.contains("give the destination more room"), "{text}");

    struct Short {
        inner: MemoryKv,
        profile: Profile,
    }
    impl Kv for Short {
        fn profile(&self) -> &Profile {
            &self.profile
        }
        pass_on!(Kv, inner: view, lookup, stage, submit, watch, usage, sync, close);
    }
    let memory = MemoryKv::default();
    let profile = Profile { key_len_max: 1000, ..memory.profile().clone() };
    let text = told(&*from, &Short { inner: memory, profile });
    assert!(text.contains("of space 16: a key of 2048 bytes, and it takes at most 1000"), "{text}");

    from.close().expect("close");
    let text = told(&*from, &MemoryKv::default());
    assert!(text.starts_with("the source: taking a view") && text.contains("when the store is back"), "{text}");
}
