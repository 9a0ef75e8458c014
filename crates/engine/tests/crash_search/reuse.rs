//! The case that shows why freed blocks wait: commit r names block X, commit f frees it, both are acknowledged, and no
//! group says yet that r is durable. Were X written over now, a recovery would find that r's data does not hold, end
//! the log before r, and take with it what was acknowledged after.

use bytes::Bytes;
use koine_engine::{Batch, Durability, ErrorKind, Operation, Place, SpaceId, StageHint, StageToken};

use crate::run::{Run, Verdict, stop};
use crate::search::{Effort, Found, Recorder, Search};
use crate::store::{self, Build};
use crate::workload::Shape;

const SPACE: SpaceId = SpaceId::FIRST;
const LENGTH: usize = 1 << 20;
/// Length of the value whose blocks are freed, in bytes.
const VALUE_LEN: usize = 60_000;
const EFFORT: Effort = Effort { cuts: 0, parts: 6, again_percent: 30 };

/// Lives through the case, and looks at every image from the acknowledgement on.
pub fn search(build: Build) -> Found {
    // The build without the rule breaks in recoveries too, but in other ways.
    let again_percent = if build == Build::Right { EFFORT.again_percent } else { 0 };
    let mut search = Search::new(1, build, Effort { again_percent, ..EFFORT });
    search.length_max = None;
    search.run("RUST_BACKTRACE=1".to_owned(), |search| {
        let shape = Shape { length: LENGTH, length_max: LENGTH as u64, fixed: true, ..Shape::from(0) };
        let mut run = search.begin(store::formatted(&shape, 3)?.image())?;
        run.submit(Batch::new().then(Operation::CreateSpace { space: SPACE }), Durability::Sync)?;
        run.settle()?;
        let _kept = stages_in_memory(&run)?;
        // One group: that it says what is durable is out of the question for its own commits.
        let value = Bytes::from(vec![0x5A; VALUE_LEN]);
        run.submit(Batch::new().put(SPACE, &b"x"[..], value), Durability::Sync)?;
        run.submit(Batch::new().then(Operation::Delete { at: Place::new(SPACE, &b"x"[..]) }), Durability::Sync)?;
        run.submit(Batch::new().put(SPACE, &b"after"[..], &b"acknowledged"[..]), Durability::Sync)?;
        run.settle()?;
        let acknowledged = run.told.last().map_or(0, |told| told.position);
        // Writes over every block that the allocator gives out.
        let mut stages = Vec::new();
        loop {
            let data = Bytes::from(vec![0xA5; 16_384]);
            let hint = StageHint { length: Some(data.len() as u64), ..StageHint::default() };
            match store::stage(&run.engine, &data, hint, true) {
                Ok(token) => stages.push(token),
                Err(error) if error.kind() == ErrorKind::Full => break,
                Err(error) => return Err(stop("staging failed")(error)),
            }
        }
        search.found.coverage.add("stages until the store was full", stages.len() as u64);
        let recording = search.end(&run)?;
        let written = recording.writes().filter(|(_, length)| *length == 16_384).count();
        search.found.coverage.add("writes of stages", written as u64);
        // The last one may lie in pieces.
        if written + 1 < stages.len() {
            return Err(format!("{} stages, {written} writes of them", stages.len()).into());
        }
        let cuts = (acknowledged..=recording.len()).collect();
        search.cuts(&run, &recording, cuts)
    })
}

/// As many finished stages as a store keeps in memory: the next ones are written when they are finished.
fn stages_in_memory(run: &Run<Recorder>) -> Verdict<Vec<StageToken>> {
    let data = Bytes::from(vec![0x11; 4096]);
    let hint = StageHint { length: Some(data.len() as u64), ..StageHint::default() };
    let mut kept = Vec::new();
    loop {
        let before = run.device.position();
        kept.extend(store::stage(&run.engine, &data, hint, true).map_err(stop("staging failed"))?);
        if run.device.position() > before {
            return Ok(kept);
        }
    }
}

/// A cut at which the freed blocks were written over, in the build that reuses them too early, loses commits.
pub fn must_lose_commits(found: &Found) -> Verdict {
    let failure =
        found.failure.as_ref().ok_or_else(|| "the build without the rule of reuse came through".to_owned())?;
    if failure.place.starts_with("cut ") && failure.message.contains("/after") && failure.message.contains("is missing")
    {
        return Ok(());
    }
    Err(format!("it failed otherwise: {failure}").into())
}
