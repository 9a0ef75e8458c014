//! Bodies that wait for a transaction, here or elsewhere.

use std::fmt;
use std::sync::Arc;

use super::{Objects, Store};
use crate::body::{Body, Finished};
use crate::calls::Writing;
use crate::checksum::Expected;
use crate::client::{RemoteBody, RemoteWriter};
use crate::error::{Result, invalid};
use crate::request::StageOptions;

/// A body on its way in. Dropped before `finish`, it leaves nothing.
pub struct BodyWriter {
    work: Work,
}

enum Work {
    Here(Box<Body>),
    There(Box<RemoteWriter>),
}

/// A body that is there, for one call of one transaction. Dropped without a commit, it leaves nothing.
#[derive(Clone)]
pub struct StagedBody {
    place: BodyPlace,
}

/// Where it waits.
#[derive(Clone)]
enum BodyPlace {
    Here(Finished),
    There(Arc<RemoteBody>, u64),
}

impl Objects {
    /// Begins a body for a transaction.
    pub fn stage(&self, options: StageOptions) -> Result<BodyWriter> {
        let work = match &self.store {
            Store::Here(local) => {
                let StageOptions { length, expected, checksums, etag } = options;
                Work::Here(Box::new(Body::new(local.kv(), length, expected, etag, checksums)?))
            }
            Store::There(remote) => Work::There(Box::new(RemoteWriter::open(remote, Writing::Body(options))?)),
        };
        Ok(BodyWriter { work })
    }
}

impl BodyWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            Work::Here(body) => body.write(piece),
            Work::There(writer) => writer.write(piece),
        }
    }

    /// No more pieces: verifies what was promised by the options and by these trailers.
    pub fn finish(self, trailers: &Expected) -> Result<StagedBody> {
        let place = match self.work {
            Work::Here(body) => BodyPlace::Here(body.finish(trailers)?),
            Work::There(writer) => {
                let (body, size) = writer.finish_body(trailers)?;
                BodyPlace::There(Arc::new(body), size)
            }
        };
        Ok(StagedBody { place })
    }
}

impl StagedBody {
    /// The body, where it waits here.
    pub(super) fn here(&self) -> Result<&Finished> {
        match &self.place {
            BodyPlace::Here(body) => Ok(body),
            BodyPlace::There(..) => Err(of_another_store()),
        }
    }

    /// Its number where it waits, where that is elsewhere.
    pub(super) fn number_there(&self) -> Result<u64> {
        match &self.place {
            BodyPlace::Here(_) => Err(of_another_store()),
            BodyPlace::There(body, _) => body.number(),
        }
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        match &self.place {
            BodyPlace::Here(body) => body.size,
            BodyPlace::There(_, size) => *size,
        }
    }
}

fn of_another_store() -> crate::error::Error {
    invalid("a body of another store: stage it where the transaction is")
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyWriter")
    }
}

impl fmt::Debug for StagedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedBody({} bytes)", self.size())
    }
}
