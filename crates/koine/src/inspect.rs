//! Looking at a store without changing a byte of it (`check`, `scrub`, `stat`), and mending its free list.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{
    Engine, Info, Options, Progress, Repair, Report, Scrub, ScrubOptions, ScrubPosition, SpaceId, SpaceReport, Usage,
};
use koine_env::SystemClock;
use koine_kv::EngineKv;
use koine_object::{BucketInfo, BucketQuery, ListQuery, ObjectReader, ObjectSummary, Objects};

use crate::error::{Error, Result};
use crate::names::CATALOGUE;
use crate::probe::{Found, probe};

/// A store opened to look at it; nobody can write to it meanwhile.
pub struct Inspection {
    kv: Arc<EngineKv>,
    path: std::path::PathBuf,
}

/// What is called for every page of a bucket's objects.
pub(crate) type EachPage<'a> = dyn FnMut(&Objects, &BucketInfo, &[ObjectSummary]) -> Result<()> + 'a;

/// A bucket and how much is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketCount {
    /// Its name.
    pub name: String,
    /// Its space in the engine.
    pub space: SpaceId,
    /// Its objects.
    pub objects: u64,
    /// The sum of their sizes in bytes.
    pub object_len: u64,
}

/// Names in one page of a listing.
const PAGE: usize = 1000;

/// Opens the store at a path for reading only.
pub fn inspect(path: &Path) -> Result<Inspection> {
    refuse_other(path)?;
    let device = FileDevice::open(path, OpenOptions { read_only: true, create: false }).map_err(Error::at(path))?;
    let options = Options { read_only: true, ..Options::default() };
    let engine = Engine::open(Arc::new(device), options).map_err(Error::at(path))?;
    Ok(Inspection { kv: Arc::new(EngineKv::new(engine)), path: path.to_owned() })
}

/// Makes the free list of the store at a path anew, where that alone is wrong.
pub fn repair(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Repair> {
    refuse_other(path)?;
    let device = FileDevice::open(path, OpenOptions::default()).map_err(Error::at(path))?;
    Engine::repair(Arc::new(device), Options::default(), progress).map_err(Error::at(path))
}

impl Inspection {
    pub(crate) fn kv(&self) -> &Arc<EngineKv> {
        &self.kv
    }

    /// How full the store is.
    pub fn usage(&self) -> Usage {
        self.kv.engine().usage()
    }

    /// What it is, and what opening it found.
    pub fn info(&self) -> Info {
        self.kv.engine().info()
    }

    /// Begins to read and verify the store, from a position on.
    pub fn scrub(&self, options: ScrubOptions, from: ScrubPosition) -> Scrub {
        self.kv.engine().scrub(options, Arc::new(SystemClock::new()), from)
    }

    /// Where the space goes.
    pub fn space_report(&self) -> Result<SpaceReport> {
        self.kv.engine().space_report().map_err(Error::at(&self.path))
    }

    /// The buckets and how much is in each; none where nothing was ever served from the store.
    pub fn buckets(&self) -> Result<Vec<BucketCount>> {
        let mut counts = Vec::new();
        self.each_object(&mut |_, bucket, page| {
            if counts.last().is_none_or(|last: &BucketCount| last.space != bucket.space) {
                let (name, space) = (bucket.name.clone(), bucket.space);
                counts.push(BucketCount { name, space, objects: 0, object_len: 0 });
            }
            if let Some(count) = counts.last_mut() {
                count.objects += page.len() as u64;
                count.object_len += page.iter().map(|object| object.size).sum::<u64>();
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Calls `act` with every object of every bucket, opened for reading, and the bucket's name.
    pub fn read_objects(&self, act: &mut dyn FnMut(&str, &ObjectReader)) -> Result<()> {
        self.each_object(&mut |objects, bucket, page| {
            for object in page {
                act(&bucket.name, &objects.get(&bucket.name, &object.key)?);
            }
            Ok(())
        })
    }

    /// Calls `act` for every page of every bucket, at least once a bucket.
    pub(crate) fn each_object(&self, act: &mut EachPage<'_>) -> Result<()> {
        if !self.kv.engine().view().has_space(CATALOGUE).map_err(Error::at(&self.path))? {
            return Ok(());
        }
        let kv = Arc::clone(&self.kv) as Arc<dyn koine_kv::Kv>;
        let objects = Objects::inspect(kv);
        for bucket in objects.list_buckets(&BucketQuery::default())?.buckets {
            let mut query = ListQuery { limit: PAGE, ..ListQuery::default() };
            loop {
                let page = objects.list(&bucket.name, &query)?;
                act(&objects, &bucket, &page.objects)?;
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Reads and verifies everything.
    pub fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
        self.kv.engine().check(progress).map_err(Error::at(&self.path))
    }
}

/// Refuses a path where no store is. A damaged store is left to the engine, which says what is wrong.
pub(crate) fn refuse_other(path: &Path) -> Result<()> {
    match probe(path)? {
        Found::Missing => Err(Error::Missing(path.to_owned())),
        Found::Empty => Err(Error::Blank { path: path.to_owned(), found: "nothing (an empty file)" }),
        Found::Zeros => Err(Error::Blank { path: path.to_owned(), found: "zeros" }),
        Found::Other(found) => Err(Error::NotAStore { path: path.to_owned(), found }),
        Found::Store => Ok(()),
    }
}
