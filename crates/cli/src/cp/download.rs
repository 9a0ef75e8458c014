//! An object into a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::checksum;
use super::context::ServerContext;
use super::part_file::PartFile;
use super::summary::Verified;
use crate::client::Properties;
use crate::failure::{Failure, Outcome};

/// Downloads one object beside its target, verifies it, and renames it into place.
pub async fn run(context: &Arc<ServerContext>, bucket: &str, key: &str, target: &Path) -> Outcome<Verified> {
    let object = context.client.head(bucket, key).await?;
    let failed = |error| Failure::io(target.display(), &error);
    if let Some(folder) = target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder.display(), &error))?;
    }
    let part = PartFile::of(target);
    let file = Arc::new(File::create(&part.path).map_err(|error| Failure::io(part.path.display(), &error))?);
    let sum = fetch(context, &file, (bucket, key), &object).await?;
    let verified = verify(&part.path, &object, sum).await.map_err(|what| {
        Failure::failed(format!(
            "s3://{bucket}/{key}: the data received differs from what is stored ({what}); nothing was kept"
        ))
    })?;
    std::fs::rename(&part.path, target).map_err(failed)?;
    Ok(verified)
}

/// Gets all parts into the file; gives the checksum of the whole.
async fn fetch(
    context: &Arc<ServerContext>,
    file: &Arc<File>,
    (bucket, key): (&str, &str),
    object: &Properties,
) -> Outcome<u64> {
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    let broke = |error| Failure::failed(format!("a part failed: {error}"));
    for (offset, length) in context.parts(object.size) {
        let permit = context.permit().await?;
        while let Some(result) = running.try_join_next() {
            done.push(result.map_err(broke)??);
        }
        let (context, file) = (Arc::clone(context), Arc::clone(file));
        let (bucket, key, etag) = (bucket.to_owned(), key.to_owned(), object.etag.clone());
        running.spawn(async move {
            let _permit = permit;
            let body = context.client.get(&bucket, &key, &etag, offset, length).await?;
            let sum = checksum::of(&body);
            let written = tokio::task::spawn_blocking(move || file.write_all_at(&body, offset)).await;
            match written {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Failure::io("cannot write what arrives", &error)),
                Err(error) => return Err(Failure::failed(error.to_string())),
            }
            context.bar.inc(length);
            Ok((offset, sum, length))
        });
    }
    while let Some(result) = running.join_next().await {
        done.push(result.map_err(broke)??);
    }
    done.sort_unstable();
    Ok(checksum::join(done.into_iter().map(|(_, sum, length)| (sum, length))))
}

/// Compares what arrived with what the server says it has.
async fn verify(path: &Path, object: &Properties, sum: u64) -> Result<Verified, String> {
    if let Some(expected) = object.checksum {
        let told = || format!("CRC-64/NVME {sum:016x}, stored {expected:016x}");
        return if sum == expected { Ok(Verified::Yes) } else { Err(told()) };
    }
    if object.etag.len() != 32 || !object.etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Verified::NothingToCompare);
    }
    let path = path.to_owned();
    let found =
        tokio::task::spawn_blocking(move || checksum::md5_of(&path)).await.map_err(|error| error.to_string())?;
    let found = found.map_err(|error| error.to_string())?;
    let told = || format!("MD5 {found}, stored {}", object.etag);
    if found.eq_ignore_ascii_case(&object.etag) { Ok(Verified::Yes) } else { Err(told()) }
}
