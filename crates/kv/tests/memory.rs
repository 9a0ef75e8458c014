//! The conformance suite on the store in memory.

use std::sync::Arc;

use koine_kv::MemoryKv;
use koine_kv::conformance::{Opened, Suite};

fn open() -> Opened {
    Opened { kv: Arc::new(MemoryKv::default()), reopen: None }
}

koine_kv::conformance_tests!(Suite { open });
