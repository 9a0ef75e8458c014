//! An object from a store to a server, from a server to a store, or from one server to another.
//!
//! Invariants:
//! - Pieces are fetched several at once and handed on in order; each holds one of the places in flight from before it is
//!   asked for until it is written, so that memory is bounded by `--parallel` parts for all copies together.
//! - What arrived is compared with the checksum of the source before the target appears.

mod source;
mod target;

use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest, Md5};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;

use super::checksum;
use super::context::{CopySide, TransferContext, parts, permit};
use super::summary::Verified;
use crate::failure::{Failure, Outcome};
use source::{ObjectSource, SourceInfo};
use target::ObjectSink;

/// A piece on its way.
pub struct CopyPiece {
    bytes: Bytes,
    sum: u64,
    /// Given back when it is written.
    permit: OwnedSemaphorePermit,
}

/// Copies one object, with the headers of its content, its metadata and its tags.
pub async fn run(
    shared: &Arc<TransferContext>,
    (from, bucket, key): (&CopySide, &str, &str),
    (to, to_bucket, to_key): (&CopySide, &str, &str),
) -> Outcome<Verified> {
    let (source, about) = ObjectSource::open(from, bucket, key).await?;
    let ranges = parts(about.size, shared.options.part_len);
    let mut target = ObjectSink::open(shared, to, (to_bucket, to_key), &about, ranges.len()).await?;
    match feed(shared, source, ranges, &about, &mut target).await {
        Ok((sum, verified)) => target.finish(sum).await.map(|()| verified),
        Err(failure) => {
            // The target knows more where it gave up first.
            Err(target.abandon().await.err().unwrap_or(failure))
        }
    }
}

/// Hands all pieces on, in order; gives the checksum of the whole, which is that of the source where it has one.
async fn feed(
    shared: &Arc<TransferContext>,
    source: ObjectSource,
    ranges: Vec<(u64, u64)>,
    about: &SourceInfo,
    target: &mut ObjectSink,
) -> Outcome<(u64, Verified)> {
    let mut md5 = about.md5.as_ref().filter(|_| about.crc.is_none()).map(|_| Md5::new());
    let mut sums = Vec::new();
    let mut coming = fetch(shared, source, ranges);
    while let Some(piece) = coming.recv().await {
        let piece = piece?.await.map_err(|error| Failure::failed(format!("a part failed: {error}")))??;
        if let Some(md5) = &mut md5 {
            md5.update(&piece.bytes);
        }
        let length = piece.bytes.len() as u64;
        sums.push((piece.sum, length));
        target.take(piece).await?;
        shared.bar.inc(length);
    }
    let sum = checksum::join(sums);
    let md5 = md5.map(|md5| hex::encode(md5.finalize()));
    Ok((sum, about.verify(sum, md5.as_deref())?))
}

/// Fetches pieces as there is room for them; gives them in order.
fn fetch(
    shared: &Arc<TransferContext>,
    source: ObjectSource,
    ranges: Vec<(u64, u64)>,
) -> mpsc::Receiver<Outcome<JoinHandle<Outcome<CopyPiece>>>> {
    let (tell, told) = mpsc::channel(shared.options.parallel);
    let permits = Arc::clone(&shared.permits);
    tokio::spawn(async move {
        for (offset, length) in ranges {
            let source = source.clone();
            let fetching = permit(&permits).await.map(|permit| {
                tokio::spawn(async move {
                    let bytes = source.read(offset, length).await?;
                    let sum = checksum::of(&bytes);
                    Ok(CopyPiece { bytes, sum, permit })
                })
            });
            if tell.send(fetching).await.is_err() {
                return;
            }
        }
    });
    told
}
