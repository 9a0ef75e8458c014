//! The conformance suite through each wrapper, and through all of them.

mod fault;
mod limit;
mod retry;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_env::{Clock, SeededRandom, SimulatedClock};
use koine_kv::conformance::{self, Opened, Suite};
use koine_kv::wrap::{Call, Calls, Fault, Faults, Limit, Limits, Rate, Retry, RetryOptions};
use koine_kv::{
    Cursor, Direction, KeyRange, Kv, MemoryKv, MemoryOptions, Result, SpaceId, Stage, StageHint, Version, View, Watch,
    pass_on,
};

/// Passes on every call: what `pass_on!` does is what the seam asks for, and it has an arm for every method.
mod plain {
    use super::*;

    struct Plain {
        inner: Arc<dyn Kv>,
    }

    struct PlainView {
        inner: Arc<dyn View>,
    }

    struct PlainOwned<T: ?Sized> {
        inner: Box<T>,
    }

    impl Kv for Plain {
        pass_on!(Kv, inner: profile, lookup, submit, usage, sync, close);

        fn view(&self) -> Result<Arc<dyn View>> {
            Ok(Arc::new(PlainView { inner: self.inner.view()? }))
        }

        fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
            Ok(Box::new(PlainOwned { inner: self.inner.stage(hint)? }))
        }

        fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
            Ok(Box::new(PlainOwned { inner: self.inner.watch(space, range, from)? }))
        }
    }

    impl View for PlainView {
        pass_on!(View, inner: version, keep, spaces, lookup, read_into);

        fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
            Ok(Box::new(PlainOwned { inner: self.inner.cursor(space, range, direction)? }))
        }
    }

    impl Cursor for PlainOwned<dyn Cursor> {
        pass_on!(Cursor, inner: next, seek);
    }

    impl Stage for PlainOwned<dyn Stage> {
        pass_on!(Stage, inner: write, length, finish);
    }

    impl Watch for PlainOwned<dyn Watch> {
        pass_on!(Watch, inner: next);
    }

    fn open() -> Opened {
        Opened { kv: Arc::new(Plain { inner: Arc::new(MemoryKv::default()) }), reopen: None }
    }

    koine_kv::conformance_tests!(Suite { open });
}

/// A clock on which pauses take no time.
fn clock() -> Arc<dyn Clock> {
    Arc::new(SimulatedClock::default())
}

/// A store in memory that remembers more outcomes than it must: a wrapper that names batches uses them too.
fn memory() -> Arc<dyn Kv> {
    Arc::new(MemoryKv::new(MemoryOptions { outcomes_max: 80_000, ..MemoryOptions::default() }))
}

/// Tries as often as the faults of these tests ask for.
fn retry(inner: Arc<dyn Kv>) -> Arc<dyn Kv> {
    let options = RetryOptions { attempts_max: 40, pause_max: Duration::from_millis(3), ..RetryOptions::default() };
    // No two stores draw the same ids: what is opened again remembers those of before.
    static SEED: AtomicU64 = AtomicU64::new(0);
    let seed = SEED.fetch_add(1 << 40, Ordering::Relaxed);
    Arc::new(Retry::with(inner, options, clock(), Arc::new(SeededRandom::new(seed))))
}

/// What can be repeated goes wrong in every way, one call in eight.
fn faults(seed: u64) -> Faults {
    let calls = Calls::all_but(&[Call::Finish]);
    Faults { seed, calls, errors: 60, lost: 60, delays: 20, ..Faults::default() }
}

mod fault_that_does_nothing {
    use super::*;

    fn open() -> Opened {
        Opened { kv: Arc::new(Fault::new(memory(), Faults::default(), clock())), reopen: None }
    }

    koine_kv::conformance_tests!(Suite { open });
}

/// Every case holds while errors are told instead of answers, before and after the deed.
mod retry_over_fault {
    use super::*;

    fn open() -> Opened {
        Opened { kv: retry(Arc::new(Fault::new(memory(), faults(7), clock()))), reopen: None }
    }

    koine_kv::conformance_tests!(Suite { open });
}

/// Every bound is set, each wide enough for what a case asks at once.
fn limits() -> Limits {
    Limits {
        requests_max: Some(64),
        bytes_max: Some(16 << 20),
        views_max: Some(32),
        stages_max: Some(64),
        watches_max: Some(32),
        requests_rate: Some(Rate { per_second: 1_000_000, burst: 100 }),
        bytes_rate: Some(Rate { per_second: 1 << 30, burst: 1 << 20 }),
        usage_max: Some(1 << 40),
        wait: Duration::from_secs(60),
    }
}

mod limit_over_memory {
    use super::*;

    fn open() -> Opened {
        Opened { kv: Arc::new(Limit::with(memory(), &limits(), clock())), reopen: None }
    }

    koine_kv::conformance_tests!(Suite { open });
}

/// All of them on one another over a store that survives: what goes wrong below is made good by `Retry`.
mod stack_over_engine {
    use koine_engine::device::{Device, MemoryDevice};
    use koine_engine::{Engine, FormatOptions, Options};
    use koine_env::OsRandom;
    use koine_kv::EngineKv;

    use super::*;

    fn open(medium: &Arc<MemoryDevice>) -> Arc<dyn Kv> {
        let device: Arc<dyn Device> = medium.clone();
        let engine = Arc::new(EngineKv::open(device, Options::default()).expect("open"));
        let limited = Arc::new(Limit::with(engine, &limits(), clock()));
        let faulty = Arc::new(Fault::new(limited, faults(11), clock()));
        retry(faulty)
    }

    fn open_new() -> Opened {
        let medium = Arc::new(MemoryDevice::growable(64 << 20, 1 << 30));
        Engine::format(medium.as_ref(), FormatOptions::default(), &OsRandom).expect("format");
        let reopen = move || {
            medium.reopen();
            open(&medium)
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(
        Suite { open: open_new },
        the_last_outcomes_are_remembered => |suite| conformance::outcomes_are_remembered(suite, 65_000)
    );
}
