//! From which length on values go through shared memory: each length by both ways, from the same server, over the socket.

use super::contestant::{StoreSetup, Transport, WireOperation};
use super::drive::{WireLoad, WireSample};
use super::served::Served;
use super::{WireArguments, drive};
use crate::report::{Report, Row};
use crate::statistics::{Better, Judgement};
use crate::{Error, say};
use koine_kv::wire::ClientOptions;
use std::collections::BTreeMap;

/// The lengths of values.
const LENGTHS: [usize; 7] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
/// Bytes of values that a store has.
const STORE_LEN: usize = 32 << 20;
/// Requests in flight.
const DEPTHS: [usize; 2] = [1, 32];

const SECTION: &str = "Values through shared memory (reference: through the socket), a store in memory";

/// Measures and adds the rows.
pub fn measure(arguments: &WireArguments, report: &mut Report) -> Result<(), Error> {
    for length in LENGTHS {
        let cells: Vec<(WireOperation, usize, String)> = [WireOperation::Put, WireOperation::Get]
            .into_iter()
            .flat_map(|work| DEPTHS.map(|depth| (work, depth, name(work, depth, length))))
            .filter(|(_, _, name)| arguments.names(name))
            .collect();
        if cells.is_empty() {
            continue;
        }
        let served = Served::start_sharing(StoreSetup::ALL[0], &arguments.dir, Some(1))?;
        let connect = |options: ClientOptions| served.connect_with(Transport::Unix, &options).map_err(Error::Worker);
        let mut shared = connect(ClientOptions { shared_from: 1, ..ClientOptions::default() })?;
        let mut socket = connect(ClientOptions { shared_len: 0, ..ClientOptions::default() })?;
        let keys = (STORE_LEN / length) as u64;
        drive::fill(&mut socket, keys, length).map_err(Error::Worker)?;
        for (work, depth, name) in cells {
            say(&name);
            let (mut by_memory, mut by_socket) = (Vec::new(), Vec::new());
            for round in 0..arguments.rounds() {
                let (seconds, seed) = (arguments.seconds(), round as u64);
                let load = WireLoad { work, depth, keys, value_len: length, seconds, seed };
                by_memory.push(drive::drive(&mut shared, load).map_err(Error::Worker)?);
                by_socket.push(drive::drive(&mut socket, load).map_err(Error::Worker)?);
            }
            let rates = |samples: &[WireSample]| samples.iter().map(|sample| Some(sample.rate())).collect::<Vec<_>>();
            let references = BTreeMap::from([("socket".to_owned(), rates(&by_socket))]);
            let judgement = Judgement::of(&rates(&by_memory), &references, Better::Higher);
            // Only what goes through shared memory by default has to be faster so.
            let goal = if length >= ClientOptions::default().shared_from { 1.0 } else { 0.0 };
            report.rows.push(Row::new(name, "ops/s", Better::Higher, goal, judgement).in_section(SECTION));
        }
    }
    Ok(())
}

/// The names of all cells.
pub fn names() -> impl Iterator<Item = String> {
    let works = [WireOperation::Put, WireOperation::Get];
    LENGTHS
        .into_iter()
        .flat_map(move |length| works.into_iter().flat_map(move |work| DEPTHS.map(|depth| name(work, depth, length))))
}

fn name(work: WireOperation, depth: usize, length: usize) -> String {
    format!("{} {} KiB x{depth}, shared", work.name(), length >> 10)
}
