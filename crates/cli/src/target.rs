//! Who has the buckets that a command names: an S3 server, or a store that is opened or whose owner is asked.
//!
//! Invariants:
//! - A store that is not there is not made: a slip of the pen would be a new store.
//! - What a command needs of both is a method here; what only a store can do asks [`TargetArgs::store`].

use std::path::PathBuf;

use clap::Args;
use koine::env::Timestamp;
use koine::object::{BucketQuery, DELETE_MANY_MAX, Error, ListQuery, Objects, Token};
use koine::{LogIn, OpenOptions, SealingKey, Store};
use tokio::runtime::Runtime;

use crate::alias;
use crate::client::{Client, Listed, Listing};
use crate::failure::{Failure, Outcome};
use crate::location::Scheme;
use crate::remote::Remote;
use crate::secret::{read_key, read_secret};

/// How many entries of a store's listing are read at once.
const PAGE_LEN: usize = 1000;

/// The options by which commands on objects find them.
#[derive(Args, Clone, Debug)]
pub struct TargetArgs {
    /// The store, for koine:// locations: a file, a device, koine+unix:SOCKET or koine+tcp:HOST:PORT; one that a server of the same user
    /// holds is reached through that server.
    #[arg(long, value_name = "PLACE", env = "KOINE_STORE")]
    store: Option<String>,
    /// A file with the key that a store over TCP wants.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// A file with the token of a user (see koine user login): the store's server does it with the rights of that user.
    /// KOINE_TOKEN, the token itself, does as well.
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// The store's file of keys that seal the secrets of access keys, or `none` [default: STORE.sealing].
    #[arg(long, value_name = "FILE", env = "KOINE_SEALING_KEY")]
    sealing_key: Option<SealingKey>,
    #[command(flatten)]
    remote: Remote,
}

impl TargetArgs {
    /// Reaches what a scheme leads to.
    pub fn open(&self, scheme: &Scheme) -> Outcome<Target> {
        match scheme {
            Scheme::Store => self.store().map(Target::Store),
            Scheme::S3 => Ok(Target::S3 { client: self.remote.client()?, runtime: runtime()? }),
            Scheme::Alias(name) => Ok(Target::S3 { client: alias::client(name)?, runtime: runtime()? }),
        }
    }

    /// The same to look only: a store that nobody holds is not changed by a byte.
    pub fn look(&self, scheme: &Scheme) -> Outcome<Target> {
        match scheme {
            Scheme::Store => self.look_at_store().map(Target::Store),
            Scheme::S3 | Scheme::Alias(_) => self.open(scheme),
        }
    }

    /// Whether a store was named.
    pub fn names_store(&self) -> bool {
        self.store.is_some()
    }

    /// Opens the store, or its owner's socket.
    pub fn store(&self) -> Outcome<Store> {
        self.store_with(false)
    }

    /// The same to look only.
    pub fn look_at_store(&self) -> Outcome<Store> {
        self.store_with(true)
    }

    fn store_with(&self, read_only: bool) -> Outcome<Store> {
        let place = self.store.as_deref().ok_or_else(|| {
            Failure::usage("koine:// names objects in a store: say which store with --store PLACE or KOINE_STORE")
        })?;
        let key = self.key_file.as_deref().map(read_key).transpose()?;
        let log_in = self.token()?.map(LogIn::Token);
        let sealing_key = self.sealing_key.clone().unwrap_or_default();
        Ok(koine::open(
            place,
            &OpenOptions { join: true, read_only, key, log_in, sealing_key, ..OpenOptions::default() },
        )?)
    }

    /// The token of the user whose rights are meant, where one is named.
    fn token(&self) -> Outcome<Option<Token>> {
        let text = match &self.token {
            Some(path) => read_secret(path)?,
            None => std::env::var("KOINE_TOKEN").unwrap_or_default(),
        };
        let text = text.trim();
        if self.token.is_some() && text.is_empty() {
            return Err(Failure::usage("the file given by --token is empty: koine user login prints a token"));
        }
        Ok((!text.is_empty()).then(|| Token::new(text)))
    }
}

/// Threads for what speaks to a server.
fn runtime() -> Outcome<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::io("cannot start threads", &error))
}

/// Who has the buckets.
pub enum Target {
    /// A store.
    Store(Store),
    /// An S3 server.
    S3 {
        /// Speaks to it.
        client: Client,
        /// On these threads.
        runtime: Runtime,
    },
}

impl Target {
    /// All buckets, or in a store those of a group, by name.
    pub fn buckets(&self, group: Option<String>) -> Outcome<Vec<Listed>> {
        match self {
            Target::S3 { client, runtime } => runtime.block_on(client.buckets()),
            Target::Store(store) => {
                let query = BucketQuery { group, ..BucketQuery::default() };
                let page = store.objects().list_buckets(&query).map_err(failed)?;
                let listed = |bucket: koine::object::BucketInfo| Listed::Bucket {
                    name: bucket.name,
                    created: rfc3339(bucket.created),
                };
                Ok(page.buckets.into_iter().map(listed).collect())
            }
        }
    }

    /// A page of a bucket's keys.
    pub fn list(&self, bucket: &str, prefix: &str, delimiter: &str, from: Option<&str>) -> Outcome<Listing> {
        match self {
            Target::S3 { client, runtime } => runtime.block_on(client.list(bucket, prefix, delimiter, from)),
            Target::Store(store) => list_store(store.objects(), bucket, prefix, delimiter, from),
        }
    }

    /// Every object under a prefix, page by page; ends with the first failure.
    pub fn each(&self, bucket: &str, prefix: &str, mut then: impl FnMut(Listed) -> Outcome) -> Outcome {
        let mut from = None;
        loop {
            let page = self.list(bucket, prefix, "", from.as_deref())?;
            page.entries.into_iter().try_for_each(&mut then)?;
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// The length of an object.
    pub fn size(&self, bucket: &str, key: &str) -> Outcome<u64> {
        match self {
            Target::S3 { client, runtime } => Ok(runtime.block_on(client.head(bucket, key))?.size),
            Target::Store(store) => Ok(store.objects().head(bucket, key).map_err(failed)?.size),
        }
    }

    /// Makes a bucket.
    pub fn create_bucket(&self, bucket: &str) -> Outcome {
        match self {
            Target::S3 { client, runtime } => runtime.block_on(client.create_bucket(bucket)),
            Target::Store(store) => store.objects().create_bucket(bucket).wait().map(drop).map_err(failed),
        }
    }

    /// Removes an empty bucket.
    pub fn delete_bucket(&self, bucket: &str) -> Outcome {
        match self {
            Target::S3 { client, runtime } => runtime.block_on(client.delete_bucket(bucket)),
            Target::Store(store) => store.objects().delete_bucket(bucket).wait().map_err(failed),
        }
    }

    /// Deletes objects; those that are absent are deleted already.
    pub fn delete(&self, bucket: &str, keys: &[String]) -> Outcome {
        match self {
            Target::S3 { client, runtime } => runtime.block_on(async { delete_each(client, bucket, keys).await }),
            Target::Store(store) => keys.chunks(DELETE_MANY_MAX).try_for_each(|keys| {
                let outcomes = store.objects().delete_many(bucket, keys).wait().map_err(failed)?;
                outcomes.into_iter().try_for_each(|outcome| outcome.map(drop).map_err(failed))
            }),
        }
    }

    /// Finishes what is under way and gives the store back.
    pub fn close(self) -> Outcome {
        match self {
            Target::Store(store) => Ok(store.close()?),
            Target::S3 { .. } => Ok(()),
        }
    }
}

async fn delete_each(client: &Client, bucket: &str, keys: &[String]) -> Outcome {
    for key in keys {
        client.delete(bucket, key).await?;
    }
    Ok(())
}

fn list_store(objects: &Objects, bucket: &str, prefix: &str, delimiter: &str, from: Option<&str>) -> Outcome<Listing> {
    let query = ListQuery {
        prefix: prefix.to_owned(),
        delimiter: delimiter.to_owned(),
        after: from.map(str::to_owned),
        limit: PAGE_LEN,
    };
    let page = objects.list(bucket, &query).map_err(failed)?;
    let mut entries: Vec<Listed> = page.common_prefixes.into_iter().map(|prefix| Listed::Prefix { prefix }).collect();
    entries.extend(page.objects.into_iter().map(|object| Listed::Object {
        key: object.key,
        size: object.size,
        modified: rfc3339(object.modified),
        etag: object.etag.to_string(),
    }));
    entries.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(Listing { entries, next: page.next })
}

/// A time as listings tell it: `2026-11-21T15:00:00.000Z`.
pub fn rfc3339(time: Timestamp) -> String {
    let form = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.0))
        .ok()
        .and_then(|time| time.format(form).ok())
        .unwrap_or_default()
}

/// An error of the objects, with the exit code that scripts look at.
pub fn failed(error: Error) -> Failure {
    error.into()
}

#[cfg(test)]
mod tests {
    use koine::object::ErrorKind;

    use super::*;
    use crate::failure::Exit;

    #[test]
    fn times_have_milliseconds_and_a_zone() {
        assert_eq!(rfc3339(Timestamp(1_767_225_600_123_456_789)), "2026-01-01T00:00:00.123Z");
    }

    #[test]
    fn what_is_absent_has_an_exit_code_of_its_own() {
        assert_eq!(failed(Error::new(ErrorKind::NoSuchKey, "x")).exit, Exit::Missing);
        assert_eq!(failed(Error::new(ErrorKind::KeyTooLong, "x")).exit, Exit::Usage);
        assert_eq!(failed(Error::new(ErrorKind::Damaged, "x")).exit, Exit::Failed);
    }
}
