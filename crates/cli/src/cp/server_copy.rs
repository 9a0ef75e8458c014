//! An object into another, inside the server.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::context::ServerContext;
use super::summary::Verified;
use crate::client::{Part, Properties, source_name};
use crate::failure::{Failure, Outcome};

/// The longest object that one call copies.
const COPY_LEN_MAX: u64 = 5 << 30;
/// The length of a part of a longer one.
const PART_LEN: u64 = 1 << 30;

/// Copies one object; the server verifies its own checksums on the way.
pub async fn run(
    context: &Arc<ServerContext>,
    (bucket, key): (&str, &str),
    (to_bucket, to_key): (&str, &str),
) -> Outcome<Verified> {
    let Properties { size, carried, .. } = context.client.head(bucket, key).await?;
    let source = source_name(bucket, key);
    if size <= COPY_LEN_MAX {
        let _permit = context.permit().await?;
        context.client.copy(to_bucket, to_key, &source).await?;
        context.bar.inc(size);
        return Ok(Verified::Yes);
    }
    let upload = context.client.create_upload(to_bucket, to_key, &carried).await?;
    let target = (to_bucket, to_key, upload.as_str());
    let outcome = match copy_parts(context, &source, target, size).await {
        Ok(parts) => context.client.complete_upload(target, &parts, None).await,
        Err(failure) => Err(failure),
    };
    if outcome.is_err() {
        let _ = context.client.abort_upload(target).await;
    }
    outcome.map(|()| Verified::Yes)
}

async fn copy_parts(
    context: &Arc<ServerContext>,
    source: &str,
    (bucket, key, upload): (&str, &str, &str),
    size: u64,
) -> Outcome<Vec<Part>> {
    let mut running = JoinSet::new();
    for (number, index) in (1..).zip(0..size.div_ceil(PART_LEN)) {
        let range = (index * PART_LEN, PART_LEN.min(size - index * PART_LEN));
        let permit = context.permit().await?;
        let (context, source) = (Arc::clone(context), source.to_owned());
        let (bucket, key, upload) = (bucket.to_owned(), key.to_owned(), upload.to_owned());
        running.spawn(async move {
            let _permit = permit;
            let part = context.client.copy_part((&bucket, &key, &upload), number, &source, range).await?;
            context.bar.inc(range.1);
            Ok::<_, Failure>(part)
        });
    }
    let mut parts = Vec::new();
    while let Some(result) = running.join_next().await {
        parts.push(result.map_err(|error| Failure::failed(format!("a part failed: {error}")))??);
    }
    parts.sort_unstable_by_key(|part: &Part| part.number);
    Ok(parts)
}
