//! Searching by metadata and tags: with an index and without, while everything changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use koine_env::{Random, SeededRandom};
use koine_kv::{Batch, Durability, Error, ErrorKind as KvErrorKind, Kv, Operation, Ticket, pass_on};
use koine_object::{
    AttributeChange, CollectOptions, CompleteOptions, ComposeOptions, CopiedMetadata, CopyOptions, CopyPrefixOptions,
    DeleteOptions, EditOptions, ErrorKind, ExchangeOptions, Expected, INDEXES_MAX, Indexed, ListQuery, MetadataChange,
    ObjectName, Objects, PartOptions, PutOptions, RenameOptions, Result, SearchPage, SearchQuery, Segment,
    UploadOptions, Wanted,
};
use proptest::prelude::*;

use crate::backend::{CASES, ROUNDS};
use crate::support::{append, finish, kind, kv_of, over, put, put_with, store};

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn color() -> Indexed {
    Indexed::Metadata("color".into())
}

fn team() -> Indexed {
    Indexed::Tag("team".into())
}

fn entry(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

fn colored(objects: &Objects, key: &str, value: &str) {
    let options = PutOptions { metadata: entry("color", value), ..PutOptions::default() };
    put_with(objects, key, b"body", options).unwrap();
}

/// Text and name of all that is found, over pages of `limit`.
fn search_pages(objects: &Objects, bucket: &str, query: &SearchQuery, limit: usize) -> Vec<(String, String)> {
    let mut query = SearchQuery { limit, ..query.clone() };
    let mut found = Vec::new();
    loop {
        let SearchPage { found: page, next } = objects.search(bucket, &query).unwrap();
        assert!(page.len() <= limit);
        assert_eq!(next.is_some(), next.is_some() && page.len() == limit, "a page ended early");
        found.extend(page.into_iter().map(|(value, object)| (value, object.key)));
        match next {
            Some(next) => query.after = Some(next),
            None => return found,
        }
    }
}

fn search(objects: &Objects, bucket: &str, query: &SearchQuery) -> Vec<(String, String)> {
    let whole = search_pages(objects, bucket, query, usize::MAX);
    assert_eq!(search_pages(objects, bucket, query, 3), whole);
    whole
}

/// What a look at each object by itself finds.
fn expected(objects: &Objects, bucket: &str, query: &SearchQuery) -> Vec<(String, String)> {
    let listed = ListQuery { prefix: query.prefix.clone(), limit: usize::MAX, ..ListQuery::default() };
    let mut found = Vec::new();
    for object in objects.list(bucket, &listed).unwrap().objects {
        let info = objects.head(bucket, &object.key).unwrap();
        let entries = if matches!(query.of, Indexed::Tag(_)) { info.tags } else { info.metadata };
        let value = entries.into_iter().find(|(name, _)| name == query.of.name()).map(|(_, value)| value);
        let wanted = |value: &String| match &query.wanted {
            Wanted::Any => true,
            Wanted::Equal(text) => value == text,
            Wanted::BeginsWith(text) => value.starts_with(text),
            Wanted::Between(first, last) => first <= value && value <= last,
        };
        found.extend(value.filter(wanted).map(|value| (value, object.key)));
    }
    let part = |text: &str| text.as_bytes()[..text.len().min(256)].to_vec();
    found.sort_by_key(|(value, key)| (part(value), key.clone()));
    found
}

/// How many entries of indexes a bucket has.
fn entries(objects: &Objects, bucket: &str) -> usize {
    let space = objects.head_bucket(bucket).unwrap().space;
    let view = kv_of(objects).view().unwrap();
    let range = koine_kv::KeyRange::prefix(&b"x"[..]);
    let mut cursor = view.cursor(space, range, koine_kv::Direction::Forward).unwrap();
    let mut count = 0;
    while cursor.next().unwrap().is_some() {
        count += 1;
    }
    count
}

/// Everything that can be asked for a few texts is told as a look at each object tells it, and no entry is too many.
fn check(objects: &Objects, bucket: &str) {
    let mut indexed = 0;
    for of in [color(), team()] {
        let all = SearchQuery::new(of.clone());
        let whole = expected(objects, bucket, &all);
        if objects.indexes(bucket).unwrap().iter().any(|index| index.of == of) {
            indexed += whole.len();
        }
        let text = |text: &str| text.to_owned();
        let wanted = [
            Wanted::Any,
            Wanted::Equal(text("red")),
            Wanted::Equal(text("")),
            Wanted::BeginsWith(text("r")),
            Wanted::BeginsWith(text("")),
            Wanted::Between(text("blue"), text("red")),
            Wanted::Between(text("red"), text("blue")),
        ];
        for wanted in wanted {
            for prefix in ["", "a/", "b/1"] {
                let query = SearchQuery { wanted: wanted.clone(), prefix: prefix.to_owned(), ..all.clone() };
                assert_eq!(search(objects, bucket, &query), expected(objects, bucket, &query), "{bucket} {query:?}");
            }
        }
    }
    assert_eq!(entries(objects, bucket), indexed, "entries of {bucket}");
}

#[test]
fn objects_are_found_by_metadata_and_tags_with_an_index_and_without() {
    let objects = store();
    for (key, value) in [("a/1", "red"), ("a/2", "blue"), ("b/1", "reddish"), ("b/2", ""), ("c", "red")] {
        colored(&objects, key, value);
    }
    put(&objects, "plain", b"");
    let tagged = PutOptions { tags: entry("team", "red"), metadata: entry("team", "other"), ..PutOptions::default() };
    put_with(&objects, "a/tagged", b"", tagged).unwrap();
    let ask = |wanted: Wanted| search(&objects, "bucket", &SearchQuery { wanted, ..SearchQuery::new(color()) });
    let pairs = |told: &[(&str, &str)]| -> Vec<(String, String)> {
        told.iter().map(|(value, key)| ((*value).to_owned(), (*key).to_owned())).collect()
    };
    for with_index in [false, true] {
        if with_index {
            assert!(objects.add_index("bucket", color()).unwrap().whole);
            objects.add_index("bucket", team()).unwrap();
        }
        assert_eq!(ask(Wanted::Equal("red".into())), pairs(&[("red", "a/1"), ("red", "c")]));
        assert_eq!(
            ask(Wanted::Any),
            pairs(&[("", "b/2"), ("blue", "a/2"), ("red", "a/1"), ("red", "c"), ("reddish", "b/1")])
        );
        check(&objects, "bucket");
    }
    assert_eq!(kind(objects.add_index("bucket", color())), ErrorKind::AlreadyExists);
    assert_eq!(objects.indexes("bucket").unwrap().len(), 2);
    assert_eq!(
        objects.search("bucket", &SearchQuery { limit: 0, ..SearchQuery::new(team()) }).unwrap(),
        SearchPage::default()
    );
    assert_eq!(kind(objects.search("missing", &SearchQuery::new(team()))), ErrorKind::NoSuchBucket);
    objects.drop_index("bucket", color()).wait().unwrap();
    assert_eq!(kind(objects.drop_index("bucket", color()).wait()), ErrorKind::NoSuchIndex);
    check(&objects, "bucket");
    assert_eq!(entries(&objects, "bucket"), 1);
    assert_eq!(kind(objects.add_index("bucket", Indexed::Tag(String::new()))), ErrorKind::InvalidArgument);
    for number in 1..INDEXES_MAX {
        objects.add_index("bucket", Indexed::Tag(number.to_string())).unwrap();
    }
    assert_eq!(kind(objects.add_index("bucket", color())), ErrorKind::InvalidRequest);
}

#[test]
fn long_texts_are_sorted_by_what_they_begin_with_and_found_whole() {
    let objects = store();
    // The 256th byte lies inside `é` of some.
    let common = "x".repeat(255);
    let texts =
        [format!("{common}é1"), format!("{common}é2"), format!("{common}z"), common.clone(), format!("{common}zz")];
    for (number, text) in texts.iter().enumerate() {
        colored(&objects, &format!("key-{number}"), text);
    }
    for with_index in [false, true] {
        if with_index {
            objects.add_index("bucket", color()).unwrap();
        }
        for (number, text) in texts.iter().enumerate() {
            let ask = |wanted: Wanted| search(&objects, "bucket", &SearchQuery { wanted, ..SearchQuery::new(color()) });
            assert_eq!(ask(Wanted::Equal(text.clone())), [(text.clone(), format!("key-{number}"))]);
            for wanted in [
                Wanted::Any,
                Wanted::BeginsWith(text.clone()),
                Wanted::Between(text.clone(), texts[0].clone()),
                Wanted::Between(common.clone(), text.clone()),
            ] {
                let query = SearchQuery { wanted, ..SearchQuery::new(color()) };
                assert_eq!(search(&objects, "bucket", &query), expected(&objects, "bucket", &query), "{query:?}");
            }
        }
    }
}

/// One random call of any kind; what is refused changes nothing.
fn step(objects: &Objects, random: &SeededRandom) -> Result<()> {
    let below = |count: u64| random.next_u64() % count;
    let pick = |from: &[&str]| from[below(from.len() as u64) as usize].to_owned();
    let key = || pick(&["a/1", "a/2", "b/1", "b/10", "c", "d"]);
    let text = || pick(&["red", "reddish", "blue", "", "green"]);
    let (one, two, other) = (key(), key(), pick(&["bucket", "other"]));
    let to = ObjectName::new(&other, &two);
    let metadata = if below(4) == 0 { Vec::new() } else { entry("color", &text()) };
    let tags = if below(2) == 0 { Vec::new() } else { entry("team", &text()) };
    let options = PutOptions { metadata, tags, ..PutOptions::default() };
    match below(18) {
        0..5 => put_with(objects, &one, b"body", options).map(drop),
        5 => objects.delete("bucket", &one, DeleteOptions::default()).wait().map(drop),
        6 => objects.delete_many("bucket", &[one, two]).wait().map(drop),
        7 => objects.copy(name(&one), to, CopyOptions::default()).wait().map(drop),
        8 => {
            let metadata = CopiedMetadata::Replace { headers: options.headers, metadata: options.metadata };
            let options = CopyOptions { metadata, tags: Some(options.tags), ..CopyOptions::default() };
            objects.copy(name(&one), to, options).wait().map(drop)
        }
        9 => objects.rename(name(&one), to, RenameOptions::default()).wait().map(drop),
        10 => objects.exchange(name(&one), to, ExchangeOptions::default()).wait().map(drop),
        11 => {
            let change = MetadataChange::Merge { set: options.metadata, remove: vec!["team".into()] };
            let tags = Some(MetadataChange::Replace(options.tags));
            let change = AttributeChange { metadata: Some(change), tags, ..AttributeChange::default() };
            objects.set_attributes(name(&one), change, EditOptions::default()).wait().map(drop)
        }
        12 => finish(objects.append(name(&one), EditOptions::default()), b"more").map(drop),
        13 => {
            let compose = ComposeOptions { put: options, source_metadata: below(2) == 0 };
            objects.compose(&[Segment::whole(name(&one))], to, compose).wait().map(drop)
        }
        14 => {
            let upload = UploadOptions { metadata: options.metadata, ..UploadOptions::default() };
            let id = objects.create_upload("bucket", &one, upload).wait()?;
            let mut part = objects.put_part(name(&one), id, 1, PartOptions::default())?;
            part.write(b"part")?;
            part.finish(&Expected::none()).wait()?;
            let all = CompleteOptions { all_parts: true, ..CompleteOptions::default() };
            objects.complete_upload(name(&one), id, all).wait().map(drop)
        }
        15 => objects.rename_prefix("bucket", &pick(&["a/", "b/", "z/"]), &pick(&["a/", "b/", "z/"])).wait(),
        16 => {
            let (from, to) = (pick(&["a/", "b/"]), pick(&["a/", "b/", "z/"]));
            objects.copy_prefix(name(&from), ObjectName::new(&other, &to), CopyPrefixOptions::default()).map(drop)
        }
        _ => whole(objects, below(8)),
    }
}

/// What is done with whole buckets and indexes.
fn whole(objects: &Objects, which: u64) -> Result<()> {
    match which {
        0 => objects.snapshot_bucket("bucket", "s").wait().map(drop),
        1 => objects.restore_bucket("bucket", "s").wait(),
        2 => objects.delete_snapshot("bucket", "s").wait(),
        3 => objects.purge_bucket("bucket").wait(),
        4 => objects.add_index("bucket", color()).map(drop),
        5 => objects.add_index("other", team()).map(drop),
        6 => objects.drop_index("bucket", team()).wait(),
        _ => objects.add_index("bucket", team()).map(drop),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES / 4, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_that_of_a_look_at_each_object(seed: u64, steps in 1..60usize) {
        let objects = store();
        objects.create_bucket("other").wait().unwrap();
        let random = SeededRandom::new(seed);
        for _ in 0..steps {
            if let Err(error) = step(&objects, &random) {
                let expected = [ErrorKind::NoSuchKey, ErrorKind::InvalidRequest, ErrorKind::AlreadyExists]
                    .into_iter()
                    .chain([ErrorKind::NoSuchIndex, ErrorKind::NoSuchSnapshot]);
                prop_assert!(expected.into_iter().any(|kind| kind == error.kind()), "{:?}", error);
            }
        }
        objects.branch_bucket("bucket", "branch").wait().unwrap();
        check(&objects, "bucket");
        check(&objects, "other");
        check(&objects, "branch");
        if objects.head_bucket("bucket@s").is_ok() {
            check(&objects, "bucket@s");
        }
    }
}

#[test]
fn a_snapshot_and_a_branch_keep_their_indexes() {
    let objects = store();
    objects.add_index("bucket", color()).unwrap();
    colored(&objects, "a", "red");
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    objects.drop_index("bucket", color()).wait().unwrap();
    objects.add_index("bucket", team()).unwrap();
    colored(&objects, "b", "red");
    let indexes = |bucket: &str| objects.indexes(bucket).unwrap().into_iter().map(|index| index.of).collect::<Vec<_>>();
    let red = SearchQuery { wanted: Wanted::Equal("red".into()), ..SearchQuery::new(color()) };
    assert_eq!((indexes("bucket"), indexes("bucket@s")), (vec![team()], vec![color()]));
    assert_eq!(search(&objects, "bucket@s", &red), [("red".to_owned(), "a".to_owned())]);
    assert_eq!(search(&objects, "bucket", &red).len(), 2);
    objects.branch_bucket("bucket@s", "branch").wait().unwrap();
    objects.restore_bucket("bucket", "s").wait().unwrap();
    for bucket in ["bucket", "branch"] {
        assert_eq!(indexes(bucket), [color()]);
        check(&objects, bucket);
    }
}

#[test]
fn the_collector_takes_entries_that_no_object_stands_for() {
    let objects = store();
    objects.add_index("bucket", color()).unwrap();
    colored(&objects, "a", "red");
    let space = objects.head_bucket("bucket").unwrap().space;
    let entry = |number: u8, value: &str, name: &str| {
        let coded = |text: &str| text.bytes().map(|byte| byte + 1).chain([0]).collect::<Vec<_>>();
        [&[b'x', 0, 0, 0, number][..], &coded(value), &coded(name)].concat()
    };
    let strays = [entry(0, "blue", "a"), entry(0, "red", "gone"), entry(9, "red", "a")];
    let batch = strays.iter().fold(Batch::new(), |batch, key| batch.put(space, key.clone(), Vec::new()));
    kv_of(&objects).commit(batch, Durability::Sync).unwrap();
    assert_eq!(search(&objects, "bucket", &SearchQuery::new(color())), [("red".to_owned(), "a".to_owned())]);
    let collected =
        crate::backend::below(&objects).collect(&CollectOptions { remove: true, ..CollectOptions::default() }).unwrap();
    assert_eq!((collected.entries, collected.found(), collected.removed), (3, 3, 3));
    check(&objects, "bucket");
}

#[test]
fn an_index_is_built_while_others_write() {
    for round in 0..ROUNDS as u64 {
        let objects = store();
        objects.create_bucket("other").wait().unwrap();
        let fill = SeededRandom::new(round);
        (0..300).for_each(|_| drop(step(&objects, &fill)));
        for number in 0..200 {
            colored(&objects, &format!("b/1{number}"), ["red", "blue"][number % 2]);
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (objects, stop) = (&objects, &stop);
                scope.spawn(move || {
                    let random = SeededRandom::new(round * 100 + thread);
                    while !stop.load(Ordering::SeqCst) {
                        drop(step(objects, &random));
                    }
                });
            }
            for of in [color(), team()] {
                // Others drop and add it as well.
                let built = objects.add_index("bucket", of);
                let expected = [ErrorKind::AlreadyExists, ErrorKind::NoSuchIndex];
                assert!(built.as_ref().is_ok_and(|index| index.whole) || expected.contains(&kind(built)));
            }
            stop.store(true, Ordering::SeqCst);
        });
        for of in [color(), team()] {
            drop(objects.add_index("bucket", of));
        }
        assert!(objects.indexes("bucket").unwrap().iter().all(|index| index.whole));
        check(&objects, "bucket");
    }
}

/// Fails batches that put entries of indexes, once so many have gone through.
struct Interrupting {
    below: Arc<dyn Kv>,
    left: Arc<AtomicUsize>,
}

impl Kv for Interrupting {
    fn submit(&self, batch: Batch, durability: Durability, wait: koine_kv::Wait) -> Ticket {
        let of_index =
            |operation: &Operation| matches!(operation, Operation::Put { at, .. } if at.key.starts_with(b"x"));
        let of_index = batch.operations.iter().filter(|operation| of_index(operation)).count();
        if wait == koine_kv::Wait::Never && of_index > 1 {
            let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_err() {
                return Ticket::ready(Err(Error::new(KvErrorKind::Device, "the device failed")));
            }
        }
        self.below.submit(batch, durability, wait)
    }
    pass_on!(Kv, below: profile, view, lookup, stage, watch, usage, sync, close);
}

#[test]
fn building_that_was_interrupted_goes_on_when_it_is_asked_for_again() {
    interrupted(|objects| assert!(objects.add_index("bucket", color()).unwrap().whole));
}

#[test]
fn building_that_was_interrupted_is_ended_by_the_collector() {
    interrupted(|objects| {
        let owner = crate::backend::below(objects);
        let collect = |remove| owner.collect(&CollectOptions { remove, ..CollectOptions::default() }).unwrap();
        let told = collect(false);
        assert_eq!((told.found(), told.indexes, told.removed), (1, 1, 0));
        assert!(!objects.indexes("bucket").unwrap()[0].whole);
        assert_eq!(collect(true).removed, 1);
        assert!(objects.indexes("bucket").unwrap()[0].whole);
        assert_eq!(collect(false).found(), 0);
    });
}

/// Building an index fails half way; others go on; then it is built to its end.
fn interrupted(build: impl Fn(&Objects)) {
    let left = Arc::new(AtomicUsize::new(1));
    let objects = over(Arc::new(Interrupting { below: crate::backend::kv(), left: Arc::clone(&left) }));
    for number in 0..800 {
        colored(&objects, &format!("a/{number:03}"), ["red", "blue", "green"][number % 3]);
    }
    for to in ["b/", "c/", "d/", "e/", "f/", "g/", "h/"] {
        objects.copy_prefix(name("a/"), name(to), CopyPrefixOptions::default()).unwrap();
    }
    assert_eq!(kind(objects.add_index("bucket", color())), ErrorKind::Device);
    let [index] = &objects.indexes("bucket").unwrap()[..] else { panic!("one index") };
    assert!(!index.whole);
    let built = entries(&objects, "bucket");
    assert!((1..6_400).contains(&built), "{built}");
    // Until it is whole it is kept, and nothing is searched in it.
    let red = SearchQuery { wanted: Wanted::Equal("red".into()), ..SearchQuery::new(color()) };
    let found = expected(&objects, "bucket", &red);
    assert_eq!(search_pages(&objects, "bucket", &red, usize::MAX), found);
    objects.rename(name("h/000"), name("a/0"), RenameOptions::default()).wait().unwrap();
    append(&objects, "g/001", b"more");
    objects.delete("bucket", "a/002", DeleteOptions::default()).wait().unwrap();
    left.store(usize::MAX, Ordering::SeqCst);
    build(&objects);
    assert_eq!(search_pages(&objects, "bucket", &red, 1_000), expected(&objects, "bucket", &red));
    assert_eq!(entries(&objects, "bucket"), 6_399);
}

#[test]
fn a_prefix_with_too_many_entries_for_one_commit_is_copied_in_more_calls_and_not_moved() {
    let objects = store();
    let named = |number: usize| (format!("name-{number}"), "text".to_owned());
    let (metadata, tags) = ((0..6).map(named).collect(), (0..10).map(named).collect());
    put_with(&objects, "a/000", b"", PutOptions { metadata, tags, ..PutOptions::default() }).unwrap();
    for number in 0..10 {
        objects.add_index("bucket", Indexed::Tag(named(number).0)).unwrap();
    }
    for number in 0..6 {
        objects.add_index("bucket", Indexed::Metadata(named(number).0)).unwrap();
    }
    for number in 1..1_400 {
        objects.copy(name("a/000"), name(&format!("a/{number:03}")), CopyOptions::default()).wait().unwrap();
    }
    assert_eq!(kind(objects.rename_prefix("bucket", "a/", "b/").wait()), ErrorKind::TransactionTooLarge);
    let mut copied = BTreeMap::new();
    let mut after = None;
    loop {
        let options = CopyPrefixOptions { after: after.clone(), ..CopyPrefixOptions::default() };
        let told = objects.copy_prefix(name("a/"), name("b/"), options).unwrap();
        copied.insert(after, told.objects);
        after = told.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((copied.len() > 1, copied.values().sum::<u64>()), (true, 1_400));
    assert_eq!(entries(&objects, "bucket"), 2 * 1_400 * 16);
}
