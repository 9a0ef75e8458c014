//! `--memory`: the highest anonymous and shared memory of each server while large objects move.
//!
//! File pages do not count: the system takes them back when it wants them. The servers are loaded one after the other;
//! memory does not depend on who else runs.

use super::client::element;
use super::load::{LoadFigures, S3Load, Until, drive};
use super::payload::Payload;
use super::plan::show_size;
use super::prepare::{Batch, Names, Preparer};
use super::server::{Server, nonce};
use super::{S3Arguments, Servers};
use crate::Error;
use crate::process::ProcessId;
use crate::report::{Report, Row};
use crate::say;
use crate::statistics::{Better, Judgement};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::Duration;

/// Clients that move an object each.
const CLIENTS: usize = 16;
/// Parts of the one larger object.
const PART_BYTES: u64 = 64 << 20;
/// What the issue allows.
const LIMIT_MIB: f64 = 300.0;
const MIB: f64 = 1_048_576.0;

/// Loads each server and reports the peaks. The ratio is the limit against ours: above 1 is below the limit.
pub fn measure(arguments: &S3Arguments, field: Servers) -> Result<Report, Error> {
    let needed = arguments.memory_object * CLIENTS as u64 + arguments.memory_large;
    let available = rustix::fs::statvfs(&arguments.dir)
        .map(|found| found.f_bavail * found.f_frsize)
        .map_err(Error::io(format!("cannot look at {}", arguments.dir.display())))?;
    if arguments.endpoints.is_empty() && available < needed + needed / 4 {
        let dir = arguments.dir.display();
        return Err(Error::Argument(format!(
            "{dir} has {} free; this run stores {}",
            show_size(available),
            show_size(needed)
        )));
    }
    let payload = Payload::new(PART_BYTES as usize)?;
    let mut report = Report::new("s3");
    let mut peaks = Vec::new();
    let mut names = Vec::new();
    // A server that was measured is stopped and its store removed before the next one fills the disk.
    for server in field.servers {
        let peak = measure_server(arguments, &server, &payload, &mut report.errors)?;
        say(&format!("{}: idle {:.0} MiB, highest {:.0} MiB", server.name, peak.0 / MIB, peak.1 / MIB));
        report.notes.push(format!("{} had {:.0} MiB before the load.", server.name, peak.0 / MIB));
        peaks.push(Some(peak.1 / MIB));
        names.push(server.name.clone());
    }
    let ours = peaks.first().copied().flatten();
    let limit = BTreeMap::from([("limit".to_owned(), vec![Some(LIMIT_MIB)])]);
    let mut judgement = Judgement::of(&[ours], &limit, Better::Lower);
    judgement.references.extend(field.missing.into_iter().map(|name| (name, None)));
    judgement.references.extend(names.into_iter().zip(peaks).skip(1));
    let (object, large) = (show_size(arguments.memory_object), show_size(arguments.memory_large));
    let case = format!("highest memory, {CLIENTS} x {object} and 1 x {large}");
    report.rows.push(Row::new(case, "MiB", Better::Lower, 1.0, judgement).in_section("Memory"));
    report.notes.push("The ratio is the limit against ours; other servers are there to compare.".into());
    report.notes.extend(field.notes);
    Ok(report)
}

/// Memory in bytes: before the load, and the highest during it.
fn measure_server(
    arguments: &S3Arguments,
    server: &Server,
    payload: &Payload,
    errors: &mut Vec<String>,
) -> Result<(f64, f64), Error> {
    let process =
        server.process.ok_or_else(|| Error::Argument(format!("--memory needs the process id of {}", server.name)))?;
    let bucket = format!("koine-bench-{:x}", nonce() & 0xffff_ffff_ffff);
    server.client.call("PUT", &format!("/{bucket}"), "", b"")?;
    let idle = process.own_memory_bytes().unwrap_or(0);
    let (peak, over) = (AtomicU64::new(idle), AtomicBool::new(false));
    let moved = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(process, &peak, &over));
        let moved = move_objects(arguments, server, &bucket, payload);
        over.store(true, Ordering::Relaxed);
        join(watcher);
        moved
    });
    for (what, measured) in moved? {
        if measured.failures > 0 {
            let first = measured.first_failure.unwrap_or_default();
            errors.push(format!("{}, {what}: {} failed, first: {first}", server.name, measured.failures));
        }
    }
    server.client.call("DELETE", &format!("/{bucket}"), "", b"")?;
    Ok((idle as f64, peak.load(Ordering::Relaxed) as f64))
}

fn join(watcher: ScopedJoinHandle<'_, ()>) {
    if let Err(panic) = watcher.join() {
        std::panic::resume_unwind(panic);
    }
}

fn watch(process: ProcessId, peak: &AtomicU64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        peak.fetch_max(process.own_memory_bytes().unwrap_or(0), Ordering::Relaxed);
        sleep(Duration::from_millis(20));
    }
}

type Steps = Vec<(&'static str, LoadFigures)>;

fn move_objects(arguments: &S3Arguments, server: &Server, bucket: &str, payload: &Payload) -> Result<Steps, Error> {
    let client = &server.client;
    let prepare = || Preparer::new(&client.credentials, &client.host);
    let run = |batch: &Batch, connections: usize| {
        let until = Until { time: None, once: true };
        drive(&S3Load { address: client.address, batch, payload, connections, until })
    };
    let names = Names { start: format!("/{bucket}/object") };
    let mut steps = Vec::new();
    say(&format!("{}: {CLIENTS} clients put {} each", server.name, show_size(arguments.memory_object)));
    steps.push(("PUT", run(&prepare().put(&names, 0..CLIENTS, arguments.memory_object, payload), CLIENTS)?));
    say(&format!("{}: {CLIENTS} clients get them", server.name));
    steps.push(("GET", run(&prepare().get(&names, 0..CLIENTS, arguments.memory_object), CLIENTS)?));
    steps.push(("DELETE", run(&prepare().delete(&names, 0..CLIENTS), 1)?));

    let large = arguments.memory_large.max(PART_BYTES) / PART_BYTES * PART_BYTES;
    say(&format!("{}: one client puts {} in parts", server.name, show_size(large)));
    let path = Names { start: format!("/{bucket}/large") }.path(0);
    let begun = client.call("POST", &path, "uploads=", b"")?;
    let document = String::from_utf8_lossy(&begun.body).into_owned();
    let upload = element(&document, "UploadId").ok_or_else(|| Error::Answer("there is no upload id".into()))?;
    let count = usize::try_from(large / PART_BYTES).unwrap_or(1);
    // One connection, part after part: the ETags are looked up afterwards.
    steps.push(("PUT of parts", run(&prepare().put_parts(&path, upload, 1..count + 1, PART_BYTES, payload), 1)?));
    complete(server, &path, upload)?;
    say(&format!("{}: one client gets it", server.name));
    let whole = Names { start: format!("/{bucket}/large") };
    steps.push(("GET of the whole", run(&prepare().get(&whole, 0..1, large), 1)?));
    steps.push(("DELETE", run(&prepare().delete(&whole, 0..1), 1)?));
    Ok(steps)
}

/// Completes an upload from the list of its parts.
fn complete(server: &Server, path: &str, upload: &str) -> Result<(), Error> {
    let listed = server.client.call("GET", path, &format!("uploadId={upload}"), b"")?;
    let document = String::from_utf8_lossy(&listed.body).into_owned();
    let mut body = String::from("<CompleteMultipartUpload>");
    for part in document.split("<Part>").skip(1) {
        let (Some(number), Some(etag)) = (element(part, "PartNumber"), element(part, "ETag")) else {
            return Err(Error::Answer("a listed part has no number or no ETag".into()));
        };
        body.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"));
    }
    body.push_str("</CompleteMultipartUpload>");
    let reply = server.client.call("POST", path, &format!("uploadId={upload}"), body.as_bytes())?;
    // The status was sent before the work was done; only the document tells how it ended.
    let text = String::from_utf8_lossy(&reply.body);
    if text.contains("<Error>") {
        return Err(Error::Answer(format!("{} did not complete the upload: {text}", server.name)));
    }
    Ok(())
}
