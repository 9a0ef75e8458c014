//! An I/O error at every read, write, sync and growth of a workload in turn, once and for ever.
//!
//! What must hold: every answer is right or an error that names the device; after a failed write or sync no
//! commit is acknowledged as synced until the store was opened again; and opened again, with the faults gone,
//! it holds everything that was acknowledged as synced and no commit in part.

use std::sync::Arc;

use koine_engine::device::{Call, Calls, Fault, FaultyDevice, MemoryDevice, Times, Trouble};
use koine_engine::{Batch, Durability, ErrorKind};

use crate::coverage::Coverage;
use crate::run::{Positioned, Run, State, Stop, Verdict, stop};
use crate::store::{self, Build};
use crate::workload::Generator;

impl Positioned for FaultyDevice<MemoryDevice> {
    fn position(&self) -> usize {
        let Calls { reads, writes, syncs, grows } = self.calls();
        (reads + writes + syncs + grows) as usize
    }
}

/// A shorter life than the crash search's, since it is lived once for each call that can fail.
fn generator(seed: u64) -> Generator {
    let mut generator = Generator::new(seed);
    generator.shape.actions = 45;
    generator
}

/// How many calls of each kind the workload makes when nothing fails.
pub fn calls(seed: u64) -> Verdict<Calls> {
    let mut life = Life::new(seed, Vec::new())?;
    life.live()?;
    Ok(life.device.calls())
}

/// Runs the workload with one fault, and reopens the store without it.
pub fn with_fault(seed: u64, fault: Fault, coverage: &mut Coverage) -> Verdict {
    let mut life = Life::new(seed, vec![fault])?;
    let outcome = life.live();
    let allowed = match (outcome, &mut life.run) {
        (Err(wrong @ (Stop::Wrong(_) | Stop::Damaged(_))), _) => return Err(wrong),
        (Ok(()), Some(run)) => {
            coverage.count("a fault without effect");
            run.in_doubt()?
        }
        (Err(Stop::Failed(_)), Some(run)) => {
            coverage.count("a fault that was told");
            let allowed = run.in_doubt()?;
            still_right(run, fault, &allowed, coverage)?;
            allowed
        }
        (_, None) => {
            coverage.count("a fault while opening");
            Vec::new()
        }
    };
    life.run = None;
    life.device.set_plan(Vec::new());
    life.device.inner().reopen();
    reopen(&life.device, &allowed)
}

struct Life {
    device: Arc<FaultyDevice<MemoryDevice>>,
    generator: Generator,
    /// `None` until the store is open.
    run: Option<Run<FaultyDevice<MemoryDevice>>>,
}

impl Life {
    fn new(seed: u64, plan: Vec<Fault>) -> Verdict<Life> {
        let generator = generator(seed);
        let memory = store::formatted(&generator.shape, seed)?;
        Ok(Life { device: Arc::new(FaultyDevice::new(memory, plan, seed)), generator, run: None })
    }

    fn live(&mut self) -> Verdict {
        let engine = store::open(self.device.clone(), Build::Right).map_err(stop("opening failed"))?;
        self.run = Some(Run::new(self.device.clone(), engine)?);
        match &mut self.run {
            Some(run) => run.live(&mut self.generator),
            None => Ok(()),
        }
    }
}

/// What an engine that told of a failure may still do.
fn still_right(
    run: &mut Run<FaultyDevice<MemoryDevice>>,
    fault: Fault,
    allowed: &[State],
    coverage: &mut Coverage,
) -> Verdict {
    match store::read_all(&run.engine) {
        Ok(found) if allowed.iter().any(|state| state.content.fits(&found)) => coverage.count("read after a failure"),
        // What it shows may be newer than what is certain to be durable, not older; both are in `allowed`.
        Ok(found) => return Err(Stop::Wrong(format!("after a failure the store shows {found:?}"))),
        Err(error) if matches!(error.kind(), ErrorKind::Device | ErrorKind::Stopped) => {}
        // With the sync that failed, bytes were lost that it should have made durable; readers are told.
        Err(error) if fault.call == Call::Sync && error.kind() == ErrorKind::Damaged => {
            coverage.count("loss noticed by a reader");
        }
        Err(error) => return Err(Stop::Wrong(format!("after a failure a read says {error:?}"))),
    }
    let more = Batch::new().put(koine_engine::SpaceId::FIRST, &b"after the failure"[..], &b"x"[..]);
    match (run.engine.submit(more, Durability::Sync).wait(), fault.call) {
        (Ok(commit), Call::Sync | Call::Write) => {
            Err(Stop::Wrong(format!("{commit:?} was acknowledged as synced after a failed write or sync")))
        }
        (Ok(_), Call::Read | Call::Grow) => {
            coverage.count("commit after a failed read");
            Ok(())
        }
        (Err(error), _) if matches!(error.kind(), ErrorKind::Device | ErrorKind::Stopped | ErrorKind::Full) => {
            coverage.count("refused after a failure");
            Ok(())
        }
        (Err(error), _) => Err(Stop::Wrong(format!("after a failure a commit says {error:?}"))),
    }
}

fn reopen(device: &Arc<FaultyDevice<MemoryDevice>>, allowed: &[State]) -> Verdict {
    let engine = store::open(device.clone(), Build::Right).map_err(stop("opening without the fault failed"))?;
    let mut found = store::read_all(&engine).map_err(stop("cannot read after opening again"))?;
    // The commit that `still_right` tried may be there as well.
    if let Some(space) = found.0.get_mut(&koine_engine::SpaceId::FIRST) {
        space.remove(&b"after the failure"[..]);
    }
    if !allowed.is_empty() && !allowed.iter().any(|state| state.content.fits(&found)) {
        let differences: Vec<String> = allowed.iter().filter_map(|state| state.content.difference(&found)).collect();
        let message = format!("opened again it is none of {} states: {}", allowed.len(), differences.join("; "));
        return Err(Stop::Wrong(message));
    }
    store::must_be_sound(&engine)?;
    let more = Batch::new().put(koine_engine::SpaceId::FIRST, &b"more"[..], &b"x"[..]);
    match engine.submit(more, Durability::Sync).wait() {
        Ok(_) => Ok(()),
        // The space may not have been made yet, or there may be no room.
        Err(error) if matches!(error.kind(), ErrorKind::Full | ErrorKind::Refused) => Ok(()),
        Err(error) => Err(Stop::Wrong(format!("opened again it takes no commit: {error:?}"))),
    }
}

/// Every fault of the plan: each call of each kind, once and for ever, and torn for writes.
pub fn every_fault(calls: Calls) -> Vec<Fault> {
    let kinds = [
        (Call::Read, calls.reads, Trouble::Error),
        (Call::Write, calls.writes, Trouble::Error),
        (Call::Write, calls.writes, Trouble::Torn),
        (Call::Write, calls.writes, Trouble::FullBeyond(0)),
        (Call::Sync, calls.syncs, Trouble::Error),
        (Call::Grow, calls.grows, Trouble::Error),
        (Call::Grow, calls.grows, Trouble::FullBeyond(0)),
    ];
    let mut faults = Vec::new();
    for (call, count, trouble) in kinds {
        for nth in 1..=count {
            for times in [Times::Once, Times::Forever] {
                faults.push(Fault { call, nth, times, trouble });
            }
        }
    }
    faults
}
