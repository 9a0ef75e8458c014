//! The catalogue: keys that lead to what is not there, tokens that have expired, deletions that were begun.
//!
//! Invariants:
//! - Each room of keys has one function that says whether a key of it leads somewhere ([`Catalogue::leads`]), by records
//!   of the same view.
//! - Ids of groups, users and buckets are never used again, so what leads nowhere stays so.

use std::sync::Arc;

use koine_env::Timestamp;
use koine_kv::{Batch, Condition, Direction, Entry, KeyRange, Operation, View};

use super::ids::Ids;
use super::removal::carried_out;
use super::{Found, LeftOver, Run};
use crate::accounts::{group, keys as identity_keys, read_id};
use crate::caller::ROOT;
use crate::error::{ErrorKind, Result};
use crate::keys::{self, CATALOGUE};
use crate::lookup::{read_value, value_of};
use crate::record::{AccessKeyRecord, BucketRecord, GroupRecord, SnapshotRecord, State, TokenRecord, UserRecord};

/// The rooms of keys that lead to something: buckets of groups and owners, names of groups and users, memberships,
/// access keys and tokens, each with what its user has them by, and users of the machine.
const ROOMS: &[u8] = b"hoGUmaAtTl";
/// The rooms whose keys begin with a bucket's id: documents and snapshots.
const ROOMS_OF_BUCKETS: &[u8] = b"yv";

/// The catalogue as one view has it.
struct Catalogue {
    view: Arc<dyn View>,
    now: Timestamp,
}

/// What is to be said of a key.
#[derive(PartialEq, Eq)]
enum Verdict {
    Leads,
    LeadsNowhere,
    Expired,
}

impl Verdict {
    fn when(leads: bool) -> Self {
        if leads { Verdict::Leads } else { Verdict::LeadsNowhere }
    }
}

impl Catalogue {
    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.view.stat(CATALOGUE, key)?.is_some())
    }

    fn has_user(&self, id: u64) -> Result<bool> {
        Ok(id == ROOT || self.has(&identity_keys::user(id))?)
    }

    fn has_group(&self, id: u64) -> Result<bool> {
        Ok(id == ROOT || self.has(&identity_keys::group(id))?)
    }

    /// Whether a key of one of [`ROOMS`] leads to something. The rooms hold nothing that is written otherwise.
    fn leads(&self, key: &[u8], value: &[u8]) -> Result<Verdict> {
        let leads = match key.first() {
            Some(b'h') => self.leads_to_bucket(key, |bucket| bucket.group)?,
            Some(b'o') => self.leads_to_bucket(key, |bucket| bucket.owner)?,
            Some(b'G') => self.has_group(read_id(value)?)?,
            Some(b'U') => self.has_user(read_id(value)?)?,
            Some(b'l') => self.has_user(read_id(value)?)?,
            Some(b'm') => self.has_user(identity_keys::last_id(key)?)? && self.has_group(first_id(key)?)?,
            Some(b'a') => self.has_user(AccessKeyRecord::decode(value)?.user)?,
            Some(b'A') => self.has(&identity_keys::access_key(&identity_keys::text_after_id(key)?))?,
            Some(b'T') => self.has(&identity_keys::token(&identity_keys::token_digest(key)?))?,
            Some(b't') => {
                let token = TokenRecord::decode(value)?;
                if token.expires <= self.now {
                    return Ok(Verdict::Expired);
                }
                self.has_user(token.user)?
            }
            _ => true,
        };
        Ok(Verdict::when(leads))
    }

    /// Whether a bucket of this name is found by this owner or group.
    fn leads_to_bucket(&self, key: &[u8], of: fn(&BucketRecord) -> u64) -> Result<bool> {
        let name = identity_keys::text_after_id(key)?;
        let found = read_value(self.view.as_ref(), CATALOGUE, &keys::bucket(&name))?;
        let bucket = found.map(|(_, bytes)| BucketRecord::decode(&bytes)).transpose()?;
        let id = first_id(key)?;
        Ok(bucket.is_some_and(|bucket| of(&bucket) == id))
    }

    fn room(&self, letter: u8) -> Result<Box<dyn koine_kv::Cursor>> {
        let range = KeyRange::prefix(identity_keys::all_of(letter));
        Ok(self.view.cursor(CATALOGUE, range, Direction::Forward)?)
    }

    fn value(&self, entry: &Entry) -> Result<bytes::Bytes> {
        value_of(self.view.as_ref(), CATALOGUE, &entry.key, entry.value.clone())
    }
}

/// The id that follows the letter of a key.
fn first_id(key: &[u8]) -> Result<u64> {
    let id = key.get(1..).and_then(|rest| rest.first_chunk::<8>()).map(|id| u64::from_be_bytes(*id));
    id.ok_or_else(|| crate::error::Error::damaged(format!("the key {} of the catalogue has no id", hex::encode(key))))
}

fn found<'a>(what: LeftOver, entry: &'a Entry) -> Found<'a> {
    Found { bucket: None, what, key: &entry.key, bytes: entry.stat.size }
}

impl Run<'_> {
    pub(super) fn catalogue(&mut self) -> Result<()> {
        // What goes with groups and users is not told twice.
        self.deletions()?;
        for letter in ROOMS {
            let catalogue = Catalogue { view: self.view()?, now: self.local.now() };
            self.room_of_catalogue(&catalogue, *letter)?;
        }
        let mut first = Some(0);
        while let Some(from) = first {
            let catalogue = Catalogue { view: self.view()?, now: self.local.now() };
            first = self.of_buckets(&catalogue, from)?;
        }
        Ok(())
    }

    fn room_of_catalogue(&mut self, catalogue: &Catalogue, letter: u8) -> Result<()> {
        let mut removal = self.removal(CATALOGUE);
        let mut cursor = catalogue.room(letter)?;
        while let Some(entry) = cursor.next()? {
            let value = catalogue.value(&entry)?;
            self.read(entry.key.len() + value.len());
            match catalogue.leads(&entry.key, &value)? {
                Verdict::Leads => {}
                Verdict::LeadsNowhere => {
                    self.found(&mut removal, &found(LeftOver::Catalogue, &entry), entry.stat.version)?;
                }
                Verdict::Expired => self.expired(&entry, &value)?,
            }
        }
        self.finish(removal)
    }

    /// A token goes with the key by which its user has it.
    fn expired(&mut self, entry: &Entry, value: &[u8]) -> Result<()> {
        self.tell_of(&found(LeftOver::Token, entry));
        let digest = entry.key.get(1..).and_then(|digest| <[u8; 32]>::try_from(digest).ok());
        if let (true, Some(digest)) = (self.options.remove, digest) {
            let key = entry.key.clone();
            let unchanged = Condition::VersionIs { space: CATALOGUE, key: key.clone(), version: entry.stat.version };
            let of_user = identity_keys::token_of(TokenRecord::decode(value)?.user, &digest);
            let batch = Batch::new().when(unchanged).delete(CATALOGUE, key).delete(CATALOGUE, of_user);
            self.collected.removed += u64::from(carried_out(&self.local, batch)?);
        }
        Ok(())
    }

    /// Documents and snapshots of buckets that are not there, for as many ids of buckets as are compared at once.
    fn of_buckets(&mut self, catalogue: &Catalogue, first: u128) -> Result<Option<u128>> {
        let mut ids = Ids::new(first, self.options.ids_at_once);
        let mut cursor = catalogue.view.cursor(CATALOGUE, KeyRange::prefix(keys::bucket("")), Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            let value = catalogue.value(&entry)?;
            self.read(entry.key.len() + value.len());
            ids.add(u128::from(BucketRecord::decode(&value)?.id()));
        }
        let next = ids.finish();
        for letter in ROOMS_OF_BUCKETS {
            let mut cursor = catalogue.room(*letter)?;
            while let Some(entry) = cursor.next()? {
                self.read(entry.key.len());
                let id = u128::from(first_id(&entry.key)?);
                if id < first || next.is_some_and(|next| id >= next) || ids.has(id) {
                    continue;
                }
                self.tell_of(&found(LeftOver::Catalogue, &entry));
                if self.options.remove {
                    let gone = self.drop_of_bucket(catalogue, *letter, &entry)?;
                    self.collected.removed += u64::from(gone);
                }
            }
        }
        Ok(next)
    }

    /// A snapshot goes with its space, which nothing else names.
    fn drop_of_bucket(&self, catalogue: &Catalogue, letter: u8, entry: &Entry) -> Result<bool> {
        let key = entry.key.clone();
        let unchanged = Condition::VersionIs { space: CATALOGUE, key: key.clone(), version: entry.stat.version };
        let mut batch = Batch::new().when(unchanged).delete(CATALOGUE, key);
        if letter == b'v' {
            let space = SnapshotRecord::decode(&catalogue.value(entry)?)?.space;
            if catalogue.view.has_space(space)? {
                batch = batch.then(Operation::DropSpace { space });
            }
        }
        carried_out(&self.local, batch)
    }

    /// Deletions of groups and users that were begun, and are brought to their end.
    fn deletions(&mut self) -> Result<()> {
        let catalogue = Catalogue { view: self.view()?, now: self.local.now() };
        let mut cursor = catalogue.room(b'g')?;
        while let Some(entry) = cursor.next()? {
            let record = GroupRecord::decode(&catalogue.value(&entry)?)?;
            self.read(entry.key.len());
            if record.being_deleted {
                self.go_on(&record.name, |run, name| run.local.identities().delete_group(name).map(drop))?;
            }
        }
        let mut cursor = catalogue.room(b'u')?;
        while let Some(entry) = cursor.next()? {
            let record = UserRecord::decode(&catalogue.value(&entry)?)?;
            self.read(entry.key.len());
            // A group takes its users along.
            let home = group(&mut Arc::clone(&catalogue.view), record.home)?;
            let goes_with_home = home.is_some_and(|home| home.being_deleted);
            if record.state == State::BeingDeleted && !goes_with_home {
                self.go_on(&record.name, |run, name| run.local.identities().delete_user(name))?;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, name: &str, delete: fn(&Self, &str) -> Result<()>) -> Result<()> {
        let key = name.as_bytes();
        self.tell_of(&Found { bucket: None, what: LeftOver::Deletion, key, bytes: 0 });
        if !self.options.remove {
            return Ok(());
        }
        match delete(self, name) {
            Ok(()) => self.collected.removed += 1,
            // Who began it has ended it meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::NoSuchGroup | ErrorKind::NoSuchUser) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
