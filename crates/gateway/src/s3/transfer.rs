//! Bodies between a connection and the store, in bounded memory and without holding a thread for a client.
//!
//! Invariants:
//! - A thread that may wait for the device is taken only while a piece of at most [`PIECE_LEN`] bytes is written or
//!   read, never while a client is waited for.
//! - An upload holds one piece while it waits for its client; it takes a second only when one is free, so that uploads
//!   never wait for each other in a circle.
//! - A download whose read fails ends its connection: it is never short with success.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use koine_object::{ObjectReader, ObjectWriter, PartWriter, Pending};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Error, S3ErrorCode, StdError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::admission::{FairLimiter, Permit, Tenant};
use crate::body::IncomingBody;
use crate::errors;
use crate::limits::{Limits, PIECE_LEN, SMALL_BODY_LEN_MAX};

/// How many buffers of one piece are kept for the next upload.
const BUFFERS_KEPT_MAX: usize = 16;
/// How much of a download is read at once, in bytes.
const READ_LEN: usize = 512 << 10;

/// What all transfers share.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// Whose transfers these are.
    tenant: Tenant,
    uploads: Arc<FairLimiter>,
    pieces: Arc<Semaphore>,
    downloads: Arc<FairLimiter>,
    kept: Arc<KeptBuffers>,
}

impl Transfers {
    /// Root's, as many at once as the limits say.
    pub fn new(limits: &Limits) -> Self {
        Transfers {
            tenant: Tenant::Root,
            uploads: FairLimiter::new(limits.uploads_in_flight_max),
            pieces: Arc::new(Semaphore::new(limits.upload_pieces_max.max(limits.uploads_in_flight_max))),
            downloads: FairLimiter::new(limits.downloads_in_flight_max),
            kept: Arc::new(KeptBuffers::default()),
        }
    }

    /// The same for somebody's transfers.
    pub fn of(&self, tenant: Tenant) -> Self {
        Transfers { tenant, ..self.clone() }
    }

    fn piece(&self, permit: OwnedSemaphorePermit) -> Piece {
        Piece { bytes: self.kept.take(), kept: self.kept.clone(), _permit: permit }
    }

    /// A piece when one is free.
    async fn next_piece(&self) -> Result<Piece, S3Error> {
        let permit = self.pieces.clone().acquire_owned().await.map_err(|_| closed())?;
        Ok(self.piece(permit))
    }

    /// A piece if one is free now.
    fn piece_now(&self) -> Option<Piece> {
        let permit = self.pieces.clone().try_acquire_owned().ok()?;
        Some(self.piece(permit))
    }
}

/// What takes a body.
pub trait Sink: Send + 'static {
    /// Adds bytes; may wait for the device.
    fn write(&mut self, piece: &[u8]) -> koine_object::Result<()>;
}

impl Sink for ObjectWriter {
    fn write(&mut self, piece: &[u8]) -> koine_object::Result<()> {
        ObjectWriter::write(self, piece)
    }
}

impl Sink for PartWriter {
    fn write(&mut self, piece: &[u8]) -> koine_object::Result<()> {
        PartWriter::write(self, piece)
    }
}

/// A piece under way, and the right to its memory.
struct Piece {
    bytes: Vec<u8>,
    kept: Arc<KeptBuffers>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.kept.give(std::mem::take(&mut self.bytes));
    }
}

/// Buffers of pieces that are done, for the next ones: taking fresh memory costs as much as filling it.
#[derive(Debug, Default)]
struct KeptBuffers(Mutex<Vec<Vec<u8>>>);

impl KeptBuffers {
    fn take(&self) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Vec::with_capacity(PIECE_LEN))
    }

    fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < BUFFERS_KEPT_MAX {
            kept.push(buffer);
        }
    }
}

fn failed(error: JoinError) -> S3Error {
    tracing::error!(%error, "a call on the store did not finish");
    S3Error::with_message(
        S3ErrorCode::InternalError,
        "We encountered an internal error. The server's log names its cause.",
    )
}

fn closed() -> S3Error {
    S3Error::with_message(S3ErrorCode::ServiceUnavailable, "The server is stopping.")
}

/// Runs a call that may wait for the device where waiting is allowed.
pub async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> koine_object::Result<T> + Send + 'static,
) -> Result<T, S3Error> {
    tokio::task::spawn_blocking(call).await.map_err(failed)?.map_err(errors::s3)
}

/// Awaits an outcome without holding a thread.
pub async fn settle<T: Send + 'static>(pending: Pending<T>) -> Result<T, S3Error> {
    let (sender, receiver) = oneshot::channel();
    // A receiver that is gone is a client that is gone.
    pending.on_done(move |outcome| drop(sender.send(outcome)));
    receiver.await.map_err(|_| closed())?.map_err(errors::s3)
}

/// Moves a whole body into a sink. The sink comes back only when the body was whole.
pub async fn receive<S: Sink>(transfers: &Transfers, mut sink: S, body: &mut IncomingBody) -> Result<S, S3Error> {
    if body.length().is_some_and(|length| length <= SMALL_BODY_LEN_MAX) {
        while let Some(data) = body.next().await? {
            sink.write(&data).map_err(errors::s3)?;
        }
        return Ok(sink);
    }
    let Some(_in_flight) = transfers.uploads.try_acquire(transfers.tenant) else {
        return Err(S3Error::with_message(S3ErrorCode::SlowDown, "Too many uploads are under way. Please try again."));
    };
    let first = transfers.next_piece().await?;
    let mut upload = Upload { sink: Some(sink), writing: None, filling: Some(first) };
    while let Some(mut data) = body.next().await? {
        while !data.is_empty() {
            upload.make_room(transfers).await?;
            upload.fill(&mut data);
        }
    }
    upload.finish().await
}

type Written<S> = (S, koine_object::Result<()>);

/// An upload of several pieces: one fills while another is written.
struct Upload<S> {
    sink: Option<S>,
    writing: Option<JoinHandle<Written<S>>>,
    filling: Option<Piece>,
}

impl<S: Sink> Upload<S> {
    /// Sees to it that the piece that fills has room.
    async fn make_room(&mut self, transfers: &Transfers) -> Result<(), S3Error> {
        if self.filling.as_ref().is_some_and(|piece| piece.bytes.len() < PIECE_LEN) {
            return Ok(());
        }
        self.write_filled().await?;
        self.filling = transfers.piece_now();
        if self.filling.is_none() {
            // The piece that is being written is given back at its end.
            self.await_written().await?;
            self.filling = Some(transfers.next_piece().await?);
        }
        Ok(())
    }

    fn fill(&mut self, data: &mut Bytes) {
        if let Some(piece) = &mut self.filling {
            let taken = data.split_to(data.len().min(PIECE_LEN - piece.bytes.len()));
            piece.bytes.extend_from_slice(&taken);
        }
    }

    /// Hands the filled piece over to be written, once the one before it is.
    async fn write_filled(&mut self) -> Result<(), S3Error> {
        self.await_written().await?;
        if let (Some(mut sink), Some(piece)) = (self.sink.take(), self.filling.take()) {
            self.writing = Some(tokio::task::spawn_blocking(move || {
                let outcome = sink.write(&piece.bytes);
                (sink, outcome)
            }));
        }
        Ok(())
    }

    async fn await_written(&mut self) -> Result<(), S3Error> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let (sink, outcome) = writing.await.map_err(failed)?;
        outcome.map_err(errors::s3)?;
        self.sink = Some(sink);
        Ok(())
    }

    async fn finish(mut self) -> Result<S, S3Error> {
        if self.filling.as_ref().is_some_and(|piece| !piece.bytes.is_empty()) {
            self.write_filled().await?;
        }
        self.await_written().await?;
        self.sink.ok_or_else(closed)
    }
}

/// Reads bytes: on this thread where they are in memory, else where waiting is allowed.
pub async fn read(reader: &Arc<ObjectReader>, offset: u64, length: usize) -> Result<Bytes, S3Error> {
    if let Some(bytes) = reader.bytes_now(offset, length).map_err(errors::s3)? {
        return Ok(bytes);
    }
    let reader = reader.clone();
    blocking(move || reader.bytes(offset, length)).await
}

/// A body on its way out, one read ahead of the connection.
pub struct Download {
    reader: Arc<ObjectReader>,
    /// Where the next read begins.
    offset: u64,
    /// How many bytes are still to be read.
    unread: u64,
    /// How many bytes are still to be handed on.
    unsent: u64,
    ahead: Option<NextPiece>,
    _place: Permit,
}

/// The next piece of a body.
enum NextPiece {
    /// It was in memory.
    There(koine_object::Result<Bytes>),
    /// It is being read where waiting is allowed.
    Reading(JoinHandle<koine_object::Result<Bytes>>),
}

impl Download {
    /// A range of an object; waits while too many downloads are under way.
    pub async fn new(
        transfers: &Transfers,
        reader: Arc<ObjectReader>,
        offset: u64,
        length: u64,
    ) -> Result<Self, S3Error> {
        let place = transfers.downloads.acquire(transfers.tenant).await.ok_or_else(closed)?;
        Ok(Download { reader, offset, unread: length, unsent: length, ahead: None, _place: place })
    }

    fn read_ahead(&mut self) {
        // Pieces end at multiples of their length, where runs of the store do too: then nothing is copied.
        let within = usize::try_from(self.offset % READ_LEN as u64).unwrap_or(0);
        let length = usize::try_from(self.unread).unwrap_or(READ_LEN).min(READ_LEN - within);
        if length == 0 {
            return;
        }
        let (reader, offset) = (self.reader.clone(), self.offset);
        self.offset += length as u64;
        self.unread -= length as u64;
        self.ahead = Some(match reader.bytes_now(offset, length).transpose() {
            Some(bytes) => NextPiece::There(bytes),
            None => NextPiece::Reading(tokio::task::spawn_blocking(move || reader.bytes(offset, length))),
        });
    }
}

impl Stream for Download {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ahead.is_none() {
            self.read_ahead();
        }
        let outcome = match self.ahead.take() {
            None => return Poll::Ready(None),
            Some(NextPiece::There(read)) => read.map_err(StdError::from),
            Some(NextPiece::Reading(mut reading)) => match Pin::new(&mut reading).poll(cx) {
                Poll::Ready(read) => read.map_err(StdError::from).and_then(|read| read.map_err(StdError::from)),
                Poll::Pending => {
                    self.ahead = Some(NextPiece::Reading(reading));
                    return Poll::Pending;
                }
            },
        };
        match &outcome {
            Ok(bytes) => {
                self.unsent -= bytes.len() as u64;
                self.read_ahead();
            }
            Err(error) => {
                tracing::error!(%error, "a read failed in the middle of a response; its connection is cut");
                self.unread = 0;
            }
        }
        Poll::Ready(Some(outcome))
    }
}

impl ByteStream for Download {
    fn remaining_length(&self) -> RemainingLength {
        usize::try_from(self.unsent).map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}
