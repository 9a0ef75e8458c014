//! Streams of spaces and of buckets: export, send, receive; and the spaces that they are made of.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{
    Batch, Durability, Engine, Landing, Operation, Options, ReceiveOptions, Received, SpaceId, SpaceInfo,
};
use koine_env::{OsRandom, SystemClock};
use koine_kv::{Bytes, EngineKv, Kv};
use koine_object::{Objects, ReceiveBucket};

use crate::error::{Error, Result};
use crate::inspect::refuse_other;
use crate::names::SpaceNames;

/// Where snapshots and clones look for a free id: far above those of buckets.
const FIRST_ID: u64 = 1 << 32;

/// A store opened for work on its spaces.
pub struct Spaces {
    kv: Arc<EngineKv>,
    path: std::path::PathBuf,
}

/// A bucket that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedBucket {
    /// Its name here.
    pub bucket: String,
    /// Whether it was there before, and got a snapshot more.
    pub is_there: bool,
    /// The snapshots that came with it.
    pub snapshots: Vec<String>,
}

/// How a stream is received.
#[derive(Clone, Debug, Default)]
pub struct ReceiveHow {
    /// Of a stream of spaces.
    pub spaces: ReceiveOptions,
    /// Of a stream of a bucket.
    pub bucket: ReceiveBucket,
    /// A stream of a bucket as its spaces alone, without names.
    pub raw: bool,
}

impl ReceiveHow {
    /// Why a stream of spaces cannot be received so.
    fn refuse_names(&self) -> Option<&'static str> {
        let named = self.bucket != ReceiveBucket::default();
        named.then_some("the stream is of spaces and not of a bucket: --as takes an id, and it has no owner")
    }
}

impl Spaces {
    /// Opens the store at a path; to look only, or to change it.
    pub fn open(path: &Path, read_only: bool) -> Result<Spaces> {
        refuse_other(path)?;
        let device = FileDevice::open(path, OpenOptions { read_only, create: false }).map_err(Error::at(path))?;
        let options = Options { read_only, ..Options::default() };
        let engine = Engine::open(Arc::new(device), options).map_err(Error::at(path))?;
        Ok(Spaces { kv: Arc::new(EngineKv::new(engine)), path: path.to_owned() })
    }

    fn engine(&self) -> &Engine {
        self.kv.engine()
    }

    /// Which bucket is in which space.
    pub fn names(&self) -> SpaceNames {
        SpaceNames::of(&self.kv)
    }

    /// Every space that users made.
    pub fn list(&self) -> Result<Vec<SpaceInfo>> {
        self.engine().view().spaces().map_err(Error::at(&self.path))
    }

    /// Makes a snapshot of a space, or with `writable` a clone; gives its id.
    pub fn branch(&self, from: SpaceId, to: Option<SpaceId>, writable: bool) -> Result<SpaceId> {
        let highest = self.list()?.iter().map(|space| space.space.0 + 1).max().unwrap_or(0);
        let to = to.unwrap_or(SpaceId(highest.max(FIRST_ID)));
        let operation =
            if writable { Operation::CloneSpace { from, to } } else { Operation::SnapshotSpace { from, to } };
        self.submit(operation)?;
        Ok(to)
    }

    /// Drops a space and everything in it.
    pub fn drop_space(&self, space: SpaceId) -> Result<()> {
        self.submit(Operation::DropSpace { space })
    }

    fn submit(&self, operation: Operation) -> Result<()> {
        let done = self.engine().submit(Batch::new().then(operation), Durability::Sync).wait();
        done.map(drop).map_err(Error::at(&self.path))
    }

    /// Writes a stream of one space, against a snapshot that it comes from if one is given; gives its length.
    pub fn send(
        &self,
        space: SpaceId,
        base: Option<SpaceId>,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let sent = self.engine().send(space, base).and_then(|mut sending| sending.write_to(out, progress));
        sent.map_err(Error::at(&self.path))
    }

    /// Writes a stream of several spaces as they are in one version; without any, of all; gives its length.
    pub fn export(&self, spaces: &[SpaceId], out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        let sent = self.engine().export(spaces).and_then(|mut sending| sending.write_to(out, progress));
        sent.map_err(Error::at(&self.path))
    }

    /// Writes a stream of a bucket with its snapshots, or of one snapshot of it (`BUCKET@SNAPSHOT`), against an older one if
    /// that is given; gives its length.
    pub fn send_bucket(
        &self,
        bucket: &str,
        base: Option<&str>,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let objects = Objects::inspect(Arc::clone(&self.kv) as Arc<dyn Kv>);
        let told = objects.bucket_to_send(bucket, base)?;
        let sent = self.engine().send_noted(&told.spaces, told.base, told.note);
        sent.and_then(|mut sending| sending.write_to(out, progress)).map_err(Error::at(&self.path))
    }

    /// Makes spaces of a stream of spaces; of a stream of a bucket that bucket with its snapshots, or it adds the snapshot in
    /// it to the bucket that has the one which it is told against. All of it in one commit, or nothing.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        how: &ReceiveHow,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Received, Option<ReceivedBucket>)> {
        let (mut of_bucket, mut refused) = (None, None);
        let mut accept = |note: Option<&Bytes>| {
            let Some(note) = note.filter(|_| !how.raw) else {
                return match how.refuse_names() {
                    Some(why) => Err(koine_kv::Error::invalid(why)),
                    None => Ok(Some(how.spaces)),
                };
            };
            // Refused now, and not after all of it was read.
            let tried = self.objects_of(how).and_then(|objects| {
                objects.bucket_to_receive(note, &how.bucket)?;
                Ok(objects)
            });
            match tried {
                Ok(objects) => of_bucket = Some((objects, note.clone())),
                Err(error) => {
                    let told = koine_kv::Error::invalid(error.to_string());
                    refused = Some(error);
                    return Err(told);
                }
            }
            Ok(None)
        };
        let arrived = self.engine().arrive(input, &mut accept, progress);
        if let Some(refused) = refused {
            return Err(refused);
        }
        let arrived = arrived.map_err(Error::at(&self.path))?;
        let Some((objects, note)) = of_bucket else {
            let landings = arrived.landings();
            let received = arrived.land(&landings, Batch::default()).map_err(Error::at(&self.path))?;
            return Ok((received, None));
        };
        let made = objects.bucket_to_receive(&note, &how.bucket)?;
        let landing = |(from, to, is_snapshot): &(SpaceId, SpaceId, bool)| Landing {
            from: *from,
            to: *to,
            is_snapshot: *is_snapshot,
        };
        let landings: Vec<Landing> = made.spaces.iter().map(landing).collect();
        let received = arrived.land(&landings, made.records).map_err(Error::at(&self.path))?;
        let bucket = ReceivedBucket { bucket: made.bucket, is_there: made.is_there, snapshots: made.snapshots };
        Ok((received, Some(bucket)))
    }

    /// The objects of the store, for a bucket that comes. Their catalogue is made by nobody else here: a stream of all
    /// spaces brings its own.
    fn objects_of(&self, how: &ReceiveHow) -> Result<Objects> {
        if how.spaces != ReceiveOptions::default() {
            let message =
                "the stream is of a bucket: it gets a name by --as NAME, and no id; --raw receives its spaces";
            return Err(Error::BadPlace(message.to_owned()));
        }
        let kv = Arc::clone(&self.kv) as Arc<dyn Kv>;
        Ok(Objects::open(kv, Arc::new(SystemClock::new()), Arc::new(OsRandom))?)
    }

    /// Closes the store with everything durable.
    pub fn close(&self) -> Result<()> {
        self.kv.close().map_err(Error::at(&self.path))
    }
}
