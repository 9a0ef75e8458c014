//! Looking at a store without changing a byte of it: `check`, `scrub` and `stat`.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{
    Engine, Info, Options, Progress, Report, Scrub, ScrubOptions, ScrubPosition, SpaceId, SpaceReport, Usage,
};
use koine_env::{OsRandom, SystemClock};
use koine_kv::EngineKv;
use koine_object::{BucketQuery, ListQuery, Objects};

use crate::error::{Error, Result};
use crate::probe::{Found, probe};

/// A store opened to look at it; nobody can write to it meanwhile.
pub struct Inspection {
    kv: Arc<EngineKv>,
    path: std::path::PathBuf,
}

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

/// The space that names the buckets (docs/format-object.md); a store without it was never served.
const CATALOGUE: SpaceId = SpaceId(16);
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

impl Inspection {
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
        if !self.kv.engine().view().has_space(CATALOGUE).map_err(Error::at(&self.path))? {
            return Ok(Vec::new());
        }
        let kv = Arc::clone(&self.kv) as Arc<dyn koine_kv::Kv>;
        let objects = Objects::open(kv, Arc::new(SystemClock::new()), Arc::new(OsRandom))?;
        let buckets = objects.list_buckets(&BucketQuery::default())?.buckets;
        let count = |bucket: koine_object::BucketInfo| {
            let (mut found, mut query) = (0, ListQuery { limit: PAGE, ..ListQuery::default() });
            let mut object_len = 0;
            loop {
                let page = objects.list(&bucket.name, &query)?;
                found += page.objects.len() as u64;
                object_len += page.objects.iter().map(|object| object.size).sum::<u64>();
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            Ok(BucketCount { name: bucket.name, space: bucket.space, objects: found, object_len })
        };
        buckets.into_iter().map(count).collect()
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
        Found::Empty => Err(Error::Occupied { path: path.to_owned(), found: "nothing (an empty file)".to_owned() }),
        Found::Zeros => Err(Error::Occupied { path: path.to_owned(), found: "zeros".to_owned() }),
        Found::Other(found) => Err(Error::Occupied { path: path.to_owned(), found }),
        Found::Store => Ok(()),
    }
}
