//! Buckets in streams: what the note of a stream says of them, and the records that a received one gets.
//!
//! Invariants:
//! - The note has what is the bucket's own: its settings and those of its snapshots. Owners, access lists and policies are of
//!   the store that it comes from and stay there.
//! - A name that is taken is refused; nothing of what is there is changed, but for a snapshot that is added.
//! - docs/format-stream.md tells the note's bytes; changes are made in both.

use bytes::Bytes;
use koine_kv::{Batch, Commit, SpaceId, Transaction, View};

use super::{draw_space, snapshot};
use crate::access_list::AccessList;
use crate::accounts::find::owner as find_owner;
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::fields::{FieldWriter, Fields, Reader, as_text, as_u32, as_u64, missing};
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket, find_bucket_to_read, find_snapshot};
use crate::record::{BucketRecord, SnapshotRecord};
use crate::rights::{Rights, ownership};
use crate::verb::{Applied, CommandContext, Verb, plan};

/// The version of the note.
const NOTE_FORMAT: u32 = 0;

const TAG_FORMAT: u64 = 1;
const TAG_NAME: u64 = 2;
const TAG_RECORD: u64 = 3;
const TAG_LIVE: u64 = 4;
const TAG_SNAPSHOT: u64 = 5;
const TAG_BASE: u64 = 6;

/// A bucket as a stream tells it: its spaces, and the note for who receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketToSend {
    /// What the stream has.
    pub spaces: Vec<SpaceId>,
    /// The snapshot that the one space is told against.
    pub base: Option<SpaceId>,
    /// What the bucket is.
    pub note: Bytes,
}

/// Under which name a bucket is received, and whose it becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiveBucket {
    /// `None`: the name that it had where it comes from.
    pub name: Option<String>,
    /// A user's name; `None`: root.
    pub owner: Option<String>,
}

/// The records of a bucket that is received, and the spaces that they name: to be made in one commit.
#[derive(Debug)]
pub struct BucketToReceive {
    /// Its name here.
    pub bucket: String,
    /// Whether it was there already and gets a snapshot more.
    pub is_there: bool,
    /// The snapshots that come with it, by name.
    pub snapshots: Vec<String>,
    /// Spaces of the stream, what each becomes here, and whether as a snapshot.
    pub spaces: Vec<(SpaceId, SpaceId, bool)>,
    /// Puts the records.
    pub records: Batch,
}

impl Local {
    pub fn bucket_to_send(&self, bucket: &str, base: Option<&str>) -> Result<BucketToSend> {
        self.check_streams()?;
        self.read(|rights| rights.bucket(Action::GetBucketPolicy, bucket), |view| to_send(view, bucket, base))
    }

    pub fn bucket_to_receive(&self, note: &[u8], how: &ReceiveBucket) -> Result<BucketToReceive> {
        self.check_streams()?;
        let mut verb = Receive { note: Note::decode(note)?, how: how.clone(), made: None };
        let records = plan(self, &mut verb)?;
        let made = verb.made.ok_or_else(|| Error::damaged("a stream of a bucket makes nothing"))?;
        Ok(BucketToReceive { records, ..made })
    }

    fn check_streams(&self) -> Result<()> {
        if self.caller().is_owner() { Ok(()) } else { Err(only_the_owner()) }
    }
}

/// Who else may not send and receive buckets.
pub(crate) fn only_the_owner() -> Error {
    let message = "buckets are sent and received by who has the store, while no server holds it";
    Error::new(ErrorKind::Unsupported, message)
}

fn to_send(view: &mut std::sync::Arc<dyn View>, bucket: &str, base: Option<&str>) -> Result<BucketToSend> {
    let (name, wanted) = keys::bucket_and_snapshot(bucket);
    let record = find_bucket_to_read(view, name)?;
    let mut note = Note { name: name.to_owned(), record, live: None, snapshots: Vec::new(), base: None };
    let mut base_space = None;
    match wanted {
        Some(snapshot) => {
            note.snapshots.push((snapshot.to_owned(), find_snapshot(view, &note.record, snapshot)?));
            if let Some(base) = base {
                base_space = Some(find_snapshot(view, &note.record, base)?.space);
                note.base = Some(base.to_owned());
            }
        }
        None if base.is_some() => {
            let message = format!(
                "only a snapshot can be sent against an older one: `koine snapshot {bucket} NAME`, then send {bucket}@NAME"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        None => {
            note.live = Some(note.record.space);
            for info in snapshot::list(view.as_ref(), &note.record)? {
                let record = find_snapshot(view, &note.record, &info.name)?;
                note.snapshots.push((info.name, record));
            }
        }
    }
    let spaces = note.live.into_iter().chain(note.snapshots.iter().map(|(_, snapshot)| snapshot.space)).collect();
    Ok(BucketToSend { spaces, base: base_space, note: Bytes::from(note.encode()) })
}

/// What a stream says of the bucket in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    name: String,
    record: BucketRecord,
    /// The space of its content; none where the stream has a snapshot alone.
    live: Option<SpaceId>,
    snapshots: Vec<(String, SnapshotRecord)>,
    /// The snapshot that the one in the stream is told against.
    base: Option<String>,
}

impl Note {
    fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u32(TAG_FORMAT, NOTE_FORMAT);
        fields.put(TAG_NAME, self.name.as_bytes());
        let record = BucketRecord { origin: None, ..own(self.record.clone()) };
        fields.put(TAG_RECORD, &record.encode());
        if let Some(space) = self.live {
            fields.put_u64(TAG_LIVE, space.0);
        }
        for (name, record) in &self.snapshots {
            let length = (name.len() as u32).to_le_bytes();
            fields.put(TAG_SNAPSHOT, &[length.as_slice(), name.as_bytes(), &record.encode()].concat());
        }
        if let Some(base) = &self.base {
            fields.put(TAG_BASE, base.as_bytes());
        }
        fields.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Note> {
        let (mut format, mut name, mut record, mut live, mut base) = (None, None, None, None, None);
        let mut snapshots = Vec::new();
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_FORMAT => format = Some(as_u32(value)?),
                TAG_NAME => name = Some(as_text(value)?),
                TAG_RECORD => record = Some(own(BucketRecord::decode(value)?)),
                TAG_LIVE => live = Some(SpaceId(as_u64(value)?)),
                TAG_SNAPSHOT => {
                    let mut reader = Reader::new(value);
                    let length = reader.u32()? as usize;
                    let name = as_text(reader.take(length)?)?;
                    keys::check_snapshot_name(&name)?;
                    snapshots.push((name, SnapshotRecord::decode(reader.rest())?));
                }
                TAG_BASE => base = Some(as_text(value)?),
                _ => return Err(Error::damaged(format!("the note of the stream has the unknown field {tag}"))),
            }
        }
        if format != Some(NOTE_FORMAT) {
            let message = "the note of the stream has another format; use a newer program, or receive it by --raw";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (name, record) = (name.ok_or_else(|| missing("name"))?, record.ok_or_else(|| missing("record"))?);
        if live.is_none() && snapshots.len() != 1 {
            return Err(Error::damaged("the note of the stream has neither a bucket nor one snapshot"));
        }
        Ok(Note { name, record, live, snapshots, base })
    }
}

/// A bucket's record without what is of the store around it.
fn own(record: BucketRecord) -> BucketRecord {
    BucketRecord { owner: 0, group: 0, id: None, list: AccessList::default(), ..record }
}

struct Receive {
    note: Note,
    how: ReceiveBucket,
    made: Option<BucketToReceive>,
}

impl Receive {
    /// The bucket that a snapshot is added to, where there is one of its name.
    fn there(&self, txn: &mut Transaction, name: &str) -> Result<Option<BucketRecord>> {
        let found = match find_bucket(txn, name) {
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => return Ok(None),
            found => found?,
        };
        let taken = |why: &str| {
            let message = format!("{why}; nothing of it was changed. --as NAME receives it as another bucket");
            Error::new(ErrorKind::BucketAlreadyExists, message)
        };
        let Some(base) = &self.note.base else {
            return Err(taken(&format!("the bucket {name:?} is there already")));
        };
        if find_snapshot(txn, &found, base).is_err() {
            let why = format!(
                "the bucket {name:?} is there already and has no snapshot {base:?}, which the stream is told against"
            );
            return Err(taken(&why));
        }
        for (snapshot, _) in &self.note.snapshots {
            if txn.stat(keys::CATALOGUE, &keys::snapshot(found.id(), snapshot))?.is_some() {
                return Err(taken(&format!("the bucket {name:?} has a snapshot {snapshot:?} already")));
            }
        }
        Ok(Some(found))
    }
}

impl Verb for Receive {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::CreateBucket, self.how.name.as_deref().unwrap_or(&self.note.name))
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<()>> {
        let bucket = self.how.name.clone().unwrap_or_else(|| self.note.name.clone());
        keys::check_bucket_name(&bucket)?;
        let there = self.there(txn, &bucket)?;
        let is_there = there.is_some();
        let mut spaces = Vec::new();
        let record = match there {
            Some(record) => record,
            None => {
                let (owner, group) = find_owner(txn, self.how.owner.as_deref().unwrap_or("root"))?;
                let space = draw_space(context);
                let snapshot = self.note.snapshots.first().map(|(_, snapshot)| snapshot);
                let from = self.note.live.or(snapshot.map(|snapshot| snapshot.space));
                spaces.push((from.ok_or_else(|| missing("space"))?, space, false));
                let indexes = match (self.note.live, snapshot) {
                    (None, Some(snapshot)) => snapshot.indexes.clone(),
                    _ => self.note.record.indexes.clone(),
                };
                let record = BucketRecord { space, owner, group, indexes, ..self.note.record.clone() };
                ownership::put_bucket(txn, &bucket, &record);
                record
            }
        };
        for (name, snapshot) in &self.note.snapshots {
            let space = draw_space(context);
            spaces.push((snapshot.space, space, true));
            let record_of = SnapshotRecord { space, ..snapshot.clone() };
            txn.put(keys::CATALOGUE, keys::snapshot(record.id(), name), Bytes::from(record_of.encode()));
        }
        let snapshots = self.note.snapshots.iter().map(|(name, _)| name.clone()).collect();
        self.made = Some(BucketToReceive { bucket, is_there, snapshots, spaces, records: Batch::default() });
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
