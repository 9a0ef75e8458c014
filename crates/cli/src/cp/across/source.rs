//! Where the bytes come from.
//!
//! Invariant: all pieces are of one version of the object; where it is written meanwhile, the copy fails or has the old bytes.

use std::sync::Arc;

use bytes::Bytes;
use koine::object::{ETag, ObjectReader};

use super::super::context::CopySide;
use super::super::store_copy::crc_in;
use super::super::summary::Verified;
use crate::client::{Carried, Client, Properties};
use crate::failure::{Failure, Outcome};
use crate::target::failed;

/// An object that is read.
#[derive(Clone)]
pub enum ObjectSource {
    Store(Arc<ObjectReader>),
    S3(Arc<ServerObject>),
}

/// An object of a server, in the version that was found.
pub struct ServerObject {
    client: Client,
    bucket: String,
    key: String,
    etag: String,
}

/// What is known of it.
pub struct SourceInfo {
    pub size: u64,
    /// CRC-64/NVME of all bytes, where it is stored.
    pub crc: Option<u64>,
    /// MD5 of all bytes in hexadecimal, where the ETag has that form.
    pub md5: Option<String>,
    /// What goes with the bytes.
    pub carried: Carried,
    /// Whether every byte is verified where it is read.
    sound: bool,
}

impl SourceInfo {
    /// Compares what arrived with what is stored.
    pub fn verify(&self, crc: u64, md5: Option<&str>) -> Outcome<Verified> {
        let wrong = |what: String| {
            Failure::failed(format!("the data received differs from what is stored ({what}); nothing was written"))
        };
        match (self.crc, &self.md5, md5) {
            (Some(stored), _, _) if stored == crc => Ok(Verified::Yes),
            (Some(stored), _, _) => Err(wrong(format!("CRC-64/NVME {crc:016x}, stored {stored:016x}"))),
            (None, Some(stored), Some(found)) if found.eq_ignore_ascii_case(stored) => Ok(Verified::Yes),
            (None, Some(stored), Some(found)) => Err(wrong(format!("MD5 {found}, stored {stored}"))),
            _ if self.sound => Ok(Verified::Yes),
            _ => Ok(Verified::NothingToCompare),
        }
    }
}

impl ObjectSource {
    /// Looks an object up.
    pub async fn open(side: &CopySide, bucket: &str, key: &str) -> Outcome<(Self, SourceInfo)> {
        match side {
            CopySide::Store(objects) => {
                let (objects, bucket, key) = (objects.clone(), bucket.to_owned(), key.to_owned());
                let reader = waiting(move || objects.get(&bucket, &key).map_err(failed)).await?;
                let info = reader.info();
                let md5 = match &info.etag {
                    ETag::Md5(digest) => Some(hex::encode(digest)),
                    _ => None,
                };
                let (headers, metadata, tags) = (info.headers.clone(), info.metadata.clone(), info.tags.clone());
                let carried = Carried { headers, metadata, tags };
                let about = SourceInfo { size: info.size, crc: crc_in(&info.checksums), md5, carried, sound: true };
                Ok((ObjectSource::Store(Arc::new(reader)), about))
            }
            CopySide::S3(client) => {
                let Properties { size, etag, checksum, mut carried, tag_count } = client.head(bucket, key).await?;
                if tag_count > 0 {
                    carried.tags = client.tags(bucket, key).await?;
                }
                let is_md5 = etag.len() == 32 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
                let md5 = is_md5.then(|| etag.clone());
                let (bucket, key) = (bucket.to_owned(), key.to_owned());
                let source = ObjectSource::S3(Arc::new(ServerObject { client: client.clone(), bucket, key, etag }));
                Ok((source, SourceInfo { size, crc: checksum, md5, carried, sound: false }))
            }
        }
    }

    /// A range of its bytes.
    pub async fn read(&self, offset: u64, length: u64) -> Outcome<Bytes> {
        match self {
            ObjectSource::S3(remote) => {
                let ServerObject { client, bucket, key, etag } = remote.as_ref();
                client.get(bucket, key, etag, offset, length).await
            }
            ObjectSource::Store(reader) => {
                let reader = Arc::clone(reader);
                let length =
                    usize::try_from(length).map_err(|_| Failure::failed("a part too long for this machine"))?;
                // Made here: the allocator gives back soon what threads that go on allocating have made.
                let buffer = vec![0; length];
                waiting(move || fill(&reader, offset, buffer)).await
            }
        }
    }
}

/// Fills a buffer from an object.
fn fill(reader: &ObjectReader, offset: u64, mut buffer: Vec<u8>) -> Outcome<Bytes> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        match reader.read(offset + filled as u64, rest).map_err(failed)? {
            0 => return Err(Failure::failed("the object is shorter than recorded")),
            count => filled += count,
        }
    }
    Ok(Bytes::from(buffer))
}

/// Does something on a thread that may wait.
pub async fn waiting<T: Send + 'static>(act: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<T> {
    match tokio::task::spawn_blocking(act).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Failure::failed(format!("a copy failed: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(crc: Option<u64>, md5: Option<&str>, sound: bool) -> SourceInfo {
        SourceInfo { size: 1, crc, md5: md5.map(str::to_owned), carried: Carried::default(), sound }
    }

    #[test]
    fn what_arrives_is_compared_with_what_the_source_has() {
        let check = |about: SourceInfo, md5: Option<&str>, verified: Option<Verified>| {
            assert_eq!(about.verify(7, md5).ok(), verified);
        };
        check(about(Some(7), None, false), None, Some(Verified::Yes));
        check(about(Some(8), None, true), None, None);
        check(about(Some(8), Some("ab"), false), Some("ab"), None);
        check(about(None, Some("ab"), false), Some("AB"), Some(Verified::Yes));
        check(about(None, Some("ab"), true), Some("ac"), None);
        check(about(None, None, true), None, Some(Verified::Yes));
        check(about(None, None, false), None, Some(Verified::NothingToCompare));
    }
}
