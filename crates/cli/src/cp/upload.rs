//! A file into a bucket.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::checksum;
use super::context::ServerContext;
use super::summary::Verified;
use crate::client::{Carried, Part};
use crate::failure::{Failure, Outcome};

/// Uploads one file; in parts when it is longer than one.
pub async fn run(context: &Arc<ServerContext>, path: &Path, bucket: &str, key: &str) -> Outcome<Verified> {
    let failed = |error| Failure::io(path.display(), &error);
    let file = Arc::new(File::open(path).map_err(failed)?);
    let before = file.metadata().map_err(failed)?;
    if before.len() <= context.part_len {
        let _permit = context.permit().await?;
        let body = read(&file, path, 0, before.len()).await?;
        context.client.put(bucket, key, body.clone(), checksum::of(&body), &Carried::default()).await?;
        context.bar.inc(before.len());
        return Ok(Verified::Yes);
    }
    let upload = context.client.create_upload(bucket, key, &Carried::default()).await?;
    let target = (bucket, key, upload.as_str());
    let result = send_parts(context, &file, path, target, before.len()).await;
    let result = match result {
        Ok(_) if changed(&file, &before) => Err(Failure::failed("the file changed while it was read; copy it again")),
        other => other,
    };
    let outcome = match result {
        Ok((parts, whole)) => context.client.complete_upload(target, &parts, Some(whole)).await,
        Err(failure) => Err(failure),
    };
    if outcome.is_err() {
        // Its space comes back; when this fails too the first failure is the one to tell.
        let _ = context.client.abort_upload(target).await;
    }
    outcome.map(|()| Verified::Yes)
}

/// Sends all parts, as many at once as there are permits; gives them in order, and the checksum of the whole.
async fn send_parts(
    context: &Arc<ServerContext>,
    file: &Arc<File>,
    path: &Path,
    (bucket, key, upload): (&str, &str, &str),
    size: u64,
) -> Outcome<(Vec<Part>, u64)> {
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    let broke = |error| Failure::failed(format!("a part failed: {error}"));
    for (number, (offset, length)) in (1..).zip(context.parts(size)) {
        let permit = context.permit().await?;
        // A part that failed ends the upload now, not after the rest was sent in vain.
        while let Some(result) = running.try_join_next() {
            done.push(result.map_err(broke)??);
        }
        let (context, file, path) = (Arc::clone(context), Arc::clone(file), path.to_owned());
        let (bucket, key, upload) = (bucket.to_owned(), key.to_owned(), upload.to_owned());
        running.spawn(async move {
            let _permit = permit;
            let body = read(&file, &path, offset, length).await?;
            let sum = checksum::of(&body);
            let part = context.client.put_part((&bucket, &key, &upload), number, body, sum).await?;
            context.bar.inc(length);
            Ok::<_, Failure>((part, sum, length))
        });
    }
    while let Some(result) = running.join_next().await {
        done.push(result.map_err(broke)??);
    }
    done.sort_unstable_by_key(|(part, _, _)| part.number);
    let whole = checksum::join(done.iter().map(|(_, sum, length)| (*sum, *length)));
    Ok((done.into_iter().map(|(part, _, _)| part).collect(), whole))
}

/// Reads a range on a thread that may wait.
async fn read(file: &Arc<File>, path: &Path, offset: u64, length: u64) -> Outcome<Bytes> {
    let file = Arc::clone(file);
    let length = usize::try_from(length).map_err(|_| Failure::failed("a part too long for this machine"))?;
    // Made here: the allocator gives back soon what threads that go on allocating have made.
    let mut buffer = vec![0; length];
    let task =
        tokio::task::spawn_blocking(move || file.read_exact_at(&mut buffer, offset).map(|()| Bytes::from(buffer)));
    match task.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(Failure::io(path.display(), &error)),
        Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
    }
}

fn changed(file: &File, before: &Metadata) -> bool {
    match (file.metadata().and_then(|now| Ok((now.len(), now.modified()?))), before.modified()) {
        (Ok((length, modified)), Ok(then)) => length != before.len() || modified != then,
        _ => true,
    }
}
