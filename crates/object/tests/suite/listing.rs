//! Listings against a model, and what they cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koine_kv::{Batch, Cursor, Direction, Durability, Entry, KeyRange, Kv, MemoryKv, MemoryOptions, SpaceId, View};
use koine_object::{ListPage, ListQuery, Objects};
use proptest::prelude::*;

use crate::backend::CASES;
use crate::support::{kv_of, over, put, store};

/// S3's listing, told of a plain map: names after the marker, rolled up, cut at the limit.
fn model(names: &BTreeSet<String>, query: &ListQuery) -> (Vec<String>, Vec<String>, Option<String>) {
    let rolled = |name: &str| -> Option<String> {
        let rest = name.strip_prefix(query.prefix.as_str())?;
        let at = if query.delimiter.is_empty() { None } else { rest.find(&query.delimiter) }?;
        Some(name[..query.prefix.len() + at + query.delimiter.len()].to_owned())
    };
    let mut told: BTreeMap<String, bool> = BTreeMap::new();
    for name in names.iter().filter(|name| name.starts_with(&query.prefix)) {
        if let Some(after) = &query.after {
            let under_it = rolled(after).as_ref() == Some(after) && name.starts_with(after.as_str());
            if name <= after || under_it {
                continue;
            }
        }
        match rolled(name) {
            Some(common) => told.insert(common, true),
            None => told.insert(name.clone(), false),
        };
    }
    let more = told.len() > query.limit && query.limit > 0;
    let page: Vec<_> = told.into_iter().take(query.limit).collect();
    let next = if more { page.last().map(|(name, _)| name.clone()) } else { None };
    let (common, objects): (Vec<_>, Vec<_>) = page.into_iter().partition(|(_, common)| *common);
    let first = |list: Vec<(String, bool)>| list.into_iter().map(|(name, _)| name).collect();
    (first(objects), first(common), next)
}

fn told(page: ListPage) -> (Vec<String>, Vec<String>, Option<String>) {
    (page.objects.into_iter().map(|object| object.key).collect(), page.common_prefixes, page.next)
}

/// Names made of few characters, so that prefixes and delimiters meet.
fn name(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => Just('a'), 4 => Just('b'), 4 => Just('/'), 1 => Just('\0'), 1 => Just('\u{1}'), 1 => Just('\u{7f}'),
        1 => Just('\u{bf}'), 1 => Just('ÿ'), 1 => Just('日'), 1 => Just('\u{10FFFF}'),
    ];
    proptest::collection::vec(character, length).prop_map(|characters| characters.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_those_of_the_model(
        names in proptest::collection::btree_set(name(1..7), 0..40),
        queries in proptest::collection::vec(
            (name(0..4), prop_oneof![Just(String::new()), Just("/".to_owned()), name(1..3)],
             proptest::option::of(name(0..5)), 0usize..6),
            1..12,
        ),
    ) {
        let objects = store();
        names.iter().for_each(|name| drop(put(&objects, name, b"")));
        for (prefix, delimiter, after, limit) in queries {
            let mut query = ListQuery { prefix, delimiter, after, limit };
            // The whole walk, each page as the model has it.
            let mut pages = 0;
            loop {
                let page = told(objects.list("bucket", &query).unwrap());
                prop_assert_eq!(&page, &model(&names, &query), "{:?}", query);
                let Some(next) = page.2 else { break };
                pages += 1;
                prop_assert!(pages <= names.len(), "a walk that does not end");
                query.after = Some(next);
            }
        }
    }
}

#[test]
fn a_summary_tells_what_the_object_is() {
    let objects = store();
    let info = put(&objects, "key", b"body");
    let page = objects.list("bucket", &ListQuery { limit: 10, ..ListQuery::default() }).unwrap();
    let summary = &page.objects[0];
    assert_eq!((&summary.key, summary.version, summary.size), (&info.key, info.version, 4));
    assert_eq!((&summary.etag, summary.modified), (&info.etag, info.modified));
    assert_eq!(summary.checksums, [(info.checksums[0].algorithm, info.checksums[0].kind())]);
}

#[test]
fn a_common_prefix_of_100_000_names_costs_one_step() {
    let steps = Arc::new(AtomicU64::new(0));
    let counting = Counting { below: MemoryKv::new(MemoryOptions::default()), steps: Arc::clone(&steps) };
    let objects = over(Arc::new(counting));
    put_names(&objects, "many/", 100_000);
    for name in ["a", "many0", "z/1", "z/2"] {
        put(&objects, name, b"");
    }
    let query = |delimiter: &str, after: Option<&str>| ListQuery {
        delimiter: delimiter.into(),
        after: after.map(String::from),
        limit: 1000,
        ..ListQuery::default()
    };
    steps.store(0, Ordering::SeqCst);
    let page = told(objects.list("bucket", &query("/", None)).unwrap());
    let strings = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(page, (strings(&["a", "many0"]), strings(&["many/", "z/"]), None));
    // Four that are told, and two to find the end.
    assert!(steps.load(Ordering::SeqCst) <= 12, "{} steps", steps.load(Ordering::SeqCst));
    steps.store(0, Ordering::SeqCst);
    let page = told(objects.list("bucket", &query("/", Some("many/"))).unwrap());
    assert_eq!(page, (strings(&["many0"]), strings(&["z/"]), None));
    assert!(steps.load(Ordering::SeqCst) <= 8, "{} steps", steps.load(Ordering::SeqCst));
    // A page deep inside costs what it tells.
    steps.store(0, Ordering::SeqCst);
    let page = told(objects.list("bucket", &query("", Some("many/000050000"))).unwrap());
    assert_eq!(page.0.len(), 1000);
    assert!(steps.load(Ordering::SeqCst) <= 1010, "{} steps", steps.load(Ordering::SeqCst));
}

/// Names are enough for a listing: one record is put under all of them.
fn put_names(objects: &Objects, prefix: &str, count: usize) {
    let space = objects.head_bucket("bucket").unwrap().space;
    put(objects, prefix, b"");
    let view = kv_of(objects).view().unwrap();
    let range = KeyRange::prefix(&b"n"[..]);
    let entry = view.cursor(space, range, Direction::Forward).unwrap().next().unwrap().unwrap();
    let (key, record) = (entry.key, entry.value.unwrap());
    let stem = key.strip_suffix(b"\0").unwrap();
    for start in (0..count).step_by(10_000) {
        let mut batch = Batch::new();
        for number in start..(start + 10_000).min(count) {
            // The coding of a digit is the byte after it.
            let digits = format!("{number:09}").into_bytes().into_iter().map(|digit| digit + 1);
            let key: Vec<u8> = stem.iter().copied().chain(digits).chain([0]).collect();
            batch = batch.put(space, key, record.clone());
        }
        kv_of(objects).commit(batch, Durability::Sync).unwrap();
    }
}

/// Counts how often a cursor is moved.
struct Counting {
    below: MemoryKv,
    steps: Arc<AtomicU64>,
}

struct CountingView {
    below: Arc<dyn View>,
    steps: Arc<AtomicU64>,
}

struct CountingCursor {
    below: Box<dyn Cursor>,
    steps: Arc<AtomicU64>,
}

impl Kv for Counting {
    fn view(&self) -> koine_kv::Result<Arc<dyn View>> {
        Ok(Arc::new(CountingView { below: self.below.view()?, steps: Arc::clone(&self.steps) }))
    }
    koine_kv::pass_on!(Kv, below: profile, lookup, stage, submit, watch, usage, sync, close);
}

impl View for CountingView {
    koine_kv::pass_on!(View, below: version, keep, spaces, lookup, read_into);

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> koine_kv::Result<Box<dyn Cursor>> {
        let below = self.below.cursor(space, range, direction)?;
        Ok(Box::new(CountingCursor { below, steps: Arc::clone(&self.steps) }))
    }
}

impl Cursor for CountingCursor {
    fn next(&mut self) -> koine_kv::Result<Option<Entry>> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        self.below.next()
    }
    fn seek(&mut self, key: &[u8]) -> koine_kv::Result<()> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        self.below.seek(key)
    }
}
