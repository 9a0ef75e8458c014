//! `--attacked`: root's slowest request while strangers hold connections and send what never ends.
//!
//! The strangers come from root's own address, which is the hardest case: connections are shared by address. They are idle
//! connections, heads and bodies that come a byte at a time, and requests with wrong signatures as fast as one
//! connection brings them. Each that the server closes comes again.

use super::payload::Payload;
use super::server::{Server, nonce};
use super::{S3Arguments, Servers};
use crate::Error;
use crate::report::{Report, Row};
use crate::say;
use crate::statistics::{Better, Judgement};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Connections that send nothing.
const IDLE: usize = 512;
/// Connections that never end a head, and as many that never end a body.
const SLOW: usize = 128;
/// What root waits for at most.
const LIMIT_MS: f64 = 1000.0;
/// How often the slow ones send a byte.
const BEAT: Duration = Duration::from_millis(200);
/// What root puts and gets, in bytes.
const OBJECT_LEN: usize = 64 << 10;

/// Root's slowest request to each server, left alone and attacked. The ratio is the limit against ours.
pub fn measure(arguments: &S3Arguments, field: Servers) -> Result<Report, Error> {
    let mut report = Report::new("s3");
    let payload = Payload::new(OBJECT_LEN)?;
    let mut columns = [Vec::new(), Vec::new()];
    let names: Vec<String> = field.servers.iter().map(|server| server.name.clone()).collect();
    for server in field.servers {
        let bucket = format!("/koine-bench-{:x}", nonce() & 0xffff_ffff_ffff);
        server.client.call("PUT", &bucket, "", b"")?;
        let work = |what: &str| {
            let slowest = slowest_ms(arguments, &server, &bucket, &payload);
            let shown = slowest.as_ref().map_or_else(ToString::to_string, |ms| format!("{ms:.1} ms"));
            say(&format!("{}, {what}: root's slowest request {shown}", server.name));
            slowest
        };
        let alone = work("left alone");
        let over = AtomicBool::new(false);
        let attacked = std::thread::scope(|scope| {
            let (address, over) = (server.client.address, &over);
            let target = bucket.as_str();
            scope.spawn(move || hold(address, target, over));
            scope.spawn(move || forge(address, target, over));
            // The strangers are there first.
            sleep(Duration::from_secs(1));
            let attacked = work("attacked");
            over.store(true, Ordering::Relaxed);
            attacked
        });
        for (column, slowest) in columns.iter_mut().zip([alone, attacked]) {
            column.push(slowest.inspect_err(|error| report.errors.push(format!("{}: {error}", server.name))).ok());
        }
    }
    for (case, column) in ["left alone", "attacked"].iter().zip(columns) {
        let limit = BTreeMap::from([("limit".to_owned(), vec![Some(LIMIT_MS)])]);
        let mut judgement = Judgement::of(&[column.first().copied().flatten()], &limit, Better::Lower);
        judgement.references.extend(field.missing.iter().map(|name| (name.clone(), None)));
        judgement.references.extend(names.iter().cloned().zip(column).skip(1));
        let case = format!("root's slowest request, {case}");
        report.rows.push(Row::new(case, "ms", Better::Lower, 1.0, judgement).in_section("Attacked"));
    }
    report.notes.push("The ratio is the limit against ours; other servers are there to compare.".into());
    report.notes.extend(field.notes);
    Ok(report)
}

/// The slowest of root's requests, in milliseconds; an error where one was refused.
fn slowest_ms(arguments: &S3Arguments, server: &Server, bucket: &str, payload: &Payload) -> Result<f64, Error> {
    let (begin, mut slowest, mut number) = (Instant::now(), Duration::ZERO, 0);
    while begin.elapsed().as_secs_f64() < arguments.duration.max(1.0) * 2.0 {
        let path = format!("{bucket}/root{number:06}");
        let body = payload.bytes().get(..OBJECT_LEN).unwrap_or_default();
        let requests = [("PUT", path.as_str(), "", body), ("GET", &path, "", b""), ("GET", bucket, "list-type=2", b"")];
        for (method, path, query, body) in requests {
            let begin = Instant::now();
            server.client.call(method, path, query, body)?;
            slowest = slowest.max(begin.elapsed());
        }
        number += 1;
    }
    Ok(slowest.as_secs_f64() * 1e3)
}

/// Keeps connections that send nothing, or a byte now and then.
fn hold(address: SocketAddr, bucket: &str, over: &AtomicBool) {
    let head = format!("PUT {bucket}/slow HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1048576\r\n\r\n");
    // How many bytes a connection begins with.
    let begins = [(IDLE, 0), (SLOW, 9), (SLOW, head.len())];
    let mut held: Vec<(usize, Option<TcpStream>)> =
        begins.into_iter().flat_map(|(count, length)| (0..count).map(move |_| (length, None))).collect();
    while !over.load(Ordering::Relaxed) {
        for (length, stream) in &mut held {
            let is_there = stream.as_mut().is_some_and(|stream: &mut TcpStream| {
                let open = !matches!(stream.read(&mut [0; 512]), Ok(0));
                open && (*length == 0 || stream.write_all(b"x").is_ok())
            });
            if !is_there {
                *stream = begin(address, head.as_bytes().get(..*length).unwrap_or_default()).ok();
            }
        }
        sleep(BEAT);
    }
}

fn begin(address: SocketAddr, bytes: &[u8]) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, BEAT)?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Sends requests with a wrong signature, one after the other.
fn forge(address: SocketAddr, bucket: &str, over: &AtomicBool) {
    let authorization = "AWS4-HMAC-SHA256 Credential=nobody/20260101/us-east-1/s3/aws4_request, \
        SignedHeaders=host;x-amz-date, Signature=0000000000000000000000000000000000000000000000000000000000000000";
    let request = format!(
        "GET {bucket}/x HTTP/1.1\r\nHost: {address}\r\nX-Amz-Date: 20260101T000000Z\r\nAuthorization: {authorization}\r\n\r\n"
    );
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, BEAT) else {
            sleep(BEAT);
            continue;
        };
        let _waits_no_longer = stream.set_read_timeout(Some(BEAT));
        while !over.load(Ordering::Relaxed)
            && stream.write_all(request.as_bytes()).is_ok()
            && matches!(stream.read(&mut [0; 4096]), Ok(1..))
        {}
    }
}
