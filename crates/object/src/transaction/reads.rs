//! What a transaction reads: with its own changes, and as conditions of its commit.

use bytes::Bytes;
use koine_kv::{Direction, KeyRange, SpaceId};

use super::LocalTransaction;
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectInfo;
use crate::keys;
use crate::layout;
use crate::lookup::{find_object, find_space};
use crate::object_name::ObjectName;
use crate::record::summary;
use crate::request::{ByteRange, ListPage, ListQuery};
use crate::rights::{self, Rights};
use crate::walk::{Names, Page};

impl LocalTransaction {
    pub fn head(&mut self, name: ObjectName<'_>) -> Result<Option<ObjectInfo>> {
        self.ask(|rights| rights.object(Action::GetObject, name.bucket, name.key))?;
        keys::check_object_key(name.key)?;
        let space = find_space(&mut self.below, name.bucket)?;
        let current = find_object(&mut self.below, space, name.key)?;
        if current.is_none() {
            // Who may not list the bucket does not learn that the name is absent.
            self.ask(|rights| rights.bucket(Action::ListBucket, name.bucket))?;
        }
        Ok(current.map(|current| current.record.into_info(name.key.to_owned(), current.version)))
    }

    pub fn read(&mut self, name: ObjectName<'_>, range: ByteRange) -> Result<Bytes> {
        let info = self.head(name)?.ok_or_else(|| Error::no_such_key(name.bucket, name.key))?;
        let length = info.size.saturating_sub(range.offset).min(range.length);
        let Some(length) = usize::try_from(length).ok().filter(|length| *length > 0) else {
            return Ok(Bytes::new());
        };
        let space = find_space(&mut self.below, name.bucket)?;
        layout::read_whole(|key| self.below.bytes(space, key, range.offset, length), info.id, length)
    }

    pub fn list(&mut self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        self.ask(|rights| rights.bucket(Action::ListBucket, bucket))?;
        let space = find_space(&mut self.below, bucket)?;
        let Page { objects, common_prefixes, next } = self.walk(space, query)?;
        let mut page = ListPage { objects: Vec::with_capacity(objects.len()), common_prefixes, next };
        for name in objects {
            let key = keys::name(&name);
            let (version, value) = crate::lookup::Lookup::record(&mut self.below, space, &key)?
                .ok_or_else(|| Error::damaged(format!("the object {name:?} was listed and is not there")))?;
            page.objects.push(summary(name, version, &value)?);
        }
        Ok(page)
    }

    fn walk(&mut self, space: SpaceId, query: &ListQuery) -> Result<Page<String>> {
        if query.limit == 0 {
            return Ok(Page::default());
        }
        let range = KeyRange::prefix(keys::names_prefix(&query.prefix));
        let start = range.start.clone();
        let cursor = self.below.cursor(space, range, Direction::Forward)?;
        Names::new(start, cursor).page(query, |name, _| Ok(name))
    }

    pub fn keys(&mut self) -> Result<&mut koine_kv::Transaction> {
        if self.local.caller().is_owner() {
            return Ok(&mut self.below);
        }
        Err(Error::new(ErrorKind::AccessDenied, "keys and values are for the store's owner alone"))
    }

    /// Asks by the rules that the transaction reads, as conditions of its commit, and by those of this moment: what is
    /// read is given before there is a commit.
    fn ask(&mut self, needs: impl Fn(&mut Rights<'_>) -> Result<()>) -> Result<()> {
        let _ = rights::ask(&mut self.below, &self.local, &needs)?;
        self.local.ask_again(self.below.view(), &mut self.judged, needs)
    }
}
