//! MinIO, asked over S3 by the load generator of `koine bench s3`: as many connections as ours has threads.

use super::ours::Throughput;
use crate::Error;
use crate::s3::load::{S3Load, Until, drive};
use crate::s3::payload::Payload;
use crate::s3::prepare::{Batch, Names, Preparer};
use crate::s3::reference;
use crate::s3::server::Server;
use std::path::Path;
use std::time::Duration;

/// Its name in reports.
pub const NAME: &str = "minio";
const BUCKET: &str = "bench";
/// More requests than this are not prepared for one cell.
const PREPARED_MAX: u64 = 100_000;

/// A running MinIO.
pub struct Peer {
    server: Server,
    names_made: usize,
}

impl Peer {
    /// Starts it where it is on PATH.
    pub fn start(dir: &Path) -> Result<Option<Peer>, Error> {
        let Some(program) = reference::find(NAME) else { return Ok(None) };
        let server = reference::start(NAME, &program, dir)?;
        server.client.call("PUT", &format!("/{BUCKET}"), "", b"")?;
        Ok(Some(Peer { server, names_made: 0 }))
    }

    /// Puts new objects for so long; gives the rate, and their names and number.
    pub fn put(
        &mut self,
        size: u64,
        connections: usize,
        time: Duration,
        payload: &Payload,
    ) -> Result<(Throughput, Names, usize), Error> {
        self.names_made += 1;
        let names = Names { start: format!("/{BUCKET}/run{:06}/", self.names_made) };
        // At most 3 GB/s and 20,000 requests a second: more than it does.
        let by_bytes = (3e9 * time.as_secs_f64().max(0.1)) as u64 / size.max(1);
        let by_calls = (20_000.0 * time.as_secs_f64()) as u64;
        let count = by_bytes.min(by_calls).clamp(connections as u64 * 2, PREPARED_MAX);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let batch = self.preparer().put(&names, 0..count, size, payload);
        let until = Until { time: Some(time), once: true };
        let (rate, begun) = self.drive(&batch, connections, until, payload)?;
        Ok((rate, names, begun))
    }

    /// Gets the first `count` of some objects, round and round, for so long.
    pub fn get(
        &self,
        names: &Names,
        count: usize,
        size: u64,
        connections: usize,
        time: Duration,
        payload: &Payload,
    ) -> Result<Throughput, Error> {
        let batch = self.preparer().get(names, 0..count, size);
        // Once, so that all is in memory.
        self.drive(&batch, connections, Until { time: None, once: true }, payload)?;
        let (rate, _) = self.drive(&batch, connections, Until { time: Some(time), once: false }, payload)?;
        Ok(rate)
    }

    /// Removes objects.
    pub fn delete(&self, names: &Names, count: usize, payload: &Payload) -> Result<(), Error> {
        let batch = self.preparer().delete(names, 0..count);
        self.drive(&batch, 16.min(count.max(1)), Until { time: None, once: true }, payload).map(drop)
    }

    fn preparer(&self) -> Preparer {
        Preparer::new(&self.server.client.credentials, &self.server.client.host)
    }

    fn drive(
        &self,
        batch: &Batch,
        connections: usize,
        until: Until,
        payload: &Payload,
    ) -> Result<(Throughput, usize), Error> {
        let load = S3Load { address: self.server.client.address, batch, payload, connections, until };
        let measured = drive(&load)?;
        if let Some(failure) = measured.first_failure {
            return Err(Error::Answer(format!("{NAME}: {} requests failed, first: {failure}", measured.failures)));
        }
        let seconds = measured.elapsed.as_secs_f64().max(1e-9);
        Ok((Throughput { count: measured.latencies.len() as u64, seconds }, measured.begun))
    }
}
