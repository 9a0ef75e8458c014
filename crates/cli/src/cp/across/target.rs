//! Where the bytes go.
//!
//! Invariant: the object appears when all of it was taken, or not at all; an upload that fails is given up.

use std::sync::Arc;

use koine::object::{
    AttributeChange, CompleteOptions, CompletedPart, EditOptions, Expected, MetadataChange, ObjectName, Objects,
    PartOptions, PutOptions, UploadId, UploadOptions,
};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::super::context::{CopySide, TransferContext, TransferOptions};
use super::CopyPiece;
use super::source::SourceInfo;
use crate::client::{Carried, Client, Part};
use crate::failure::{Failure, Outcome};
use crate::target::failed;

/// Longer objects of a store are put in parts: a body has no more.
const WHOLE_LEN_MAX: u64 = 1 << 30;

/// An object that is written.
pub enum ObjectSink {
    /// All of it in one call.
    Whole { client: Client, name: (String, String), carried: Carried, piece: Option<CopyPiece> },
    /// In parts.
    Parts(Parts),
    /// Into a store, on a thread of its own.
    Store { tell: mpsc::Sender<Message>, writing: JoinHandle<Outcome> },
}

/// An upload in parts that is under way.
pub struct Parts {
    client: Client,
    name: (String, String),
    upload: String,
    tags: Vec<(String, String)>,
    running: JoinSet<Outcome<Part>>,
    done: Vec<Part>,
    next: u32,
}

/// What the thread of a store is told; when it is told nothing more, it gives up.
pub enum Message {
    CopyPiece(CopyPiece),
    Finish,
}

impl ObjectSink {
    /// Begins an object that will have this many pieces.
    pub async fn open(
        shared: &Arc<TransferContext>,
        side: &CopySide,
        (bucket, key): (&str, &str),
        about: &SourceInfo,
        pieces: usize,
    ) -> Outcome<Self> {
        let name = (bucket.to_owned(), key.to_owned());
        match side {
            CopySide::S3(client) if pieces <= 1 => {
                Ok(ObjectSink::Whole { client: client.clone(), name, carried: about.carried.clone(), piece: None })
            }
            CopySide::S3(client) => {
                let upload = client.create_upload(bucket, key, &about.carried).await?;
                let (running, done) = (JoinSet::new(), Vec::new());
                let tags = about.carried.tags.clone();
                Ok(ObjectSink::Parts(Parts { client: client.clone(), name, upload, tags, running, done, next: 1 }))
            }
            CopySide::Store(objects) => {
                let (tell, told) = mpsc::channel(1);
                let into = StoreSink {
                    objects: objects.clone(),
                    name,
                    carried: about.carried.clone(),
                    size: about.size,
                    options: shared.options.clone(),
                };
                let writing = tokio::task::spawn_blocking(move || into.run(told));
                Ok(ObjectSink::Store { tell, writing })
            }
        }
    }

    /// Takes the next piece.
    pub async fn take(&mut self, new: CopyPiece) -> Outcome {
        match self {
            ObjectSink::Whole { piece, .. } => {
                *piece = Some(new);
                Ok(())
            }
            ObjectSink::Parts(parts) => parts.take(new),
            ObjectSink::Store { tell, .. } => {
                tell.send(Message::CopyPiece(new)).await.map_err(|_| Failure::failed("the store takes no more"))
            }
        }
    }

    /// All was taken: the object appears, where it has this checksum.
    pub async fn finish(self, sum: u64) -> Outcome {
        match self {
            ObjectSink::Whole { client, name: (bucket, key), carried, piece } => {
                let body = piece.as_ref().map(|piece| piece.bytes.clone()).unwrap_or_default();
                client.put(&bucket, &key, body, sum, &carried).await
            }
            ObjectSink::Parts(parts) => parts.finish(sum).await,
            ObjectSink::Store { tell, writing } => {
                // Where this is not heard the thread has failed, and says why.
                let _ = tell.send(Message::Finish).await;
                drop(tell);
                joined(writing).await
            }
        }
    }

    /// Nothing becomes of it; an error is what made the target fail.
    pub async fn abandon(self) -> Outcome {
        match self {
            ObjectSink::Whole { .. } => Ok(()),
            ObjectSink::Parts(parts) => {
                parts.give_up().await;
                Ok(())
            }
            ObjectSink::Store { tell, writing } => {
                drop(tell);
                joined(writing).await
            }
        }
    }
}

async fn joined(writing: JoinHandle<Outcome>) -> Outcome {
    writing.await.map_err(|error| Failure::failed(format!("a copy failed: {error}")))?
}

impl Parts {
    fn take(&mut self, piece: CopyPiece) -> Outcome {
        while let Some(done) = self.running.try_join_next() {
            self.done.push(done.map_err(broke)??);
        }
        let (client, (bucket, key), upload) = (self.client.clone(), self.name.clone(), self.upload.clone());
        let number = self.next;
        self.next += 1;
        self.running.spawn(async move {
            let CopyPiece { bytes, sum, permit } = piece;
            let part = client.put_part((&bucket, &key, &upload), number, bytes, sum).await;
            drop(permit);
            part
        });
        Ok(())
    }

    async fn finish(mut self, sum: u64) -> Outcome {
        let completed = self.complete(sum).await;
        if completed.is_err() {
            self.give_up().await;
            return completed;
        }
        let (bucket, key) = &self.name;
        if self.tags.is_empty() { Ok(()) } else { self.client.put_tags(bucket, key, &self.tags).await }
    }

    async fn complete(&mut self, sum: u64) -> Outcome {
        while let Some(done) = self.running.join_next().await {
            self.done.push(done.map_err(broke)??);
        }
        self.done.sort_unstable_by_key(|part| part.number);
        let (bucket, key) = &self.name;
        self.client.complete_upload((bucket, key, &self.upload), &self.done, Some(sum)).await
    }

    /// Its space comes back; when this fails too the first failure is the one to tell.
    async fn give_up(mut self) {
        self.running.shutdown().await;
        let (bucket, key) = &self.name;
        let _ = self.client.abort_upload((bucket, key, &self.upload)).await;
    }
}

fn broke(error: tokio::task::JoinError) -> Failure {
    Failure::failed(format!("a part failed: {error}"))
}

/// An object of a store that is written.
struct StoreSink {
    objects: Objects,
    name: (String, String),
    carried: Carried,
    size: u64,
    options: TransferOptions,
}

impl StoreSink {
    fn name(&self) -> ObjectName<'_> {
        ObjectName::new(&self.name.0, &self.name.1)
    }

    fn run(self, told: mpsc::Receiver<Message>) -> Outcome {
        if self.size <= WHOLE_LEN_MAX {
            return self.whole(told);
        }
        let options = UploadOptions {
            headers: self.carried.headers.clone(),
            metadata: self.carried.metadata.clone(),
            etag: self.options.etag(),
            ..UploadOptions::default()
        };
        let begun = self.objects.create_upload(self.name().bucket, self.name().key, options);
        let upload = begun.wait().map_err(failed)?;
        let finished = self.in_parts(upload, told);
        if !matches!(finished, Ok(true)) {
            // Its space comes back; when this fails too the first failure is the one to tell.
            let _ = self.objects.abort_upload(self.name(), upload).wait();
        }
        finished.map(drop)
    }

    fn whole(&self, mut told: mpsc::Receiver<Message>) -> Outcome {
        let Carried { headers, metadata, tags } = self.carried.clone();
        let options = PutOptions {
            headers,
            metadata,
            tags,
            length: Some(self.size),
            condition: self.options.condition(),
            etag: self.options.etag(),
            ..PutOptions::default()
        };
        let mut writer = self.objects.put(self.name().bucket, self.name().key, options).map_err(failed)?;
        while let Some(message) = told.blocking_recv() {
            match message {
                Message::CopyPiece(piece) => writer.write(&piece.bytes).map_err(failed)?,
                Message::Finish => return writer.finish(&Expected::none()).wait().map(drop).map_err(failed),
            }
        }
        Ok(())
    }

    /// Whether the object is there.
    fn in_parts(&self, upload: UploadId, mut told: mpsc::Receiver<Message>) -> Outcome<bool> {
        let mut parts = Vec::new();
        while let Some(message) = told.blocking_recv() {
            let Message::CopyPiece(piece) = message else {
                let options = CompleteOptions {
                    parts,
                    condition: self.options.condition(),
                    size: Some(self.size),
                    ..CompleteOptions::default()
                };
                self.objects.complete_upload(self.name(), upload, options).wait().map_err(failed)?;
                self.set_tags()?;
                return Ok(true);
            };
            let number = u32::try_from(parts.len() + 1).map_err(|_| Failure::failed("too many parts"))?;
            let options = PartOptions { length: Some(piece.bytes.len() as u64), ..PartOptions::default() };
            let mut writer = self.objects.put_part(self.name(), upload, number, options).map_err(failed)?;
            writer.write(&piece.bytes).map_err(failed)?;
            let part = writer.finish(&Expected::none()).wait().map_err(failed)?;
            parts.push(CompletedPart { number, etag: part.etag.to_string(), checksums: Vec::new() });
        }
        Ok(false)
    }

    /// An upload in parts takes none.
    fn set_tags(&self) -> Outcome {
        if self.carried.tags.is_empty() {
            return Ok(());
        }
        let set = MetadataChange::Merge { set: self.carried.tags.clone(), remove: Vec::new() };
        let change = AttributeChange { tags: Some(set), ..AttributeChange::default() };
        self.objects.set_attributes(self.name(), change, EditOptions::default()).wait().map(drop).map_err(failed)
    }
}
