//! The facade: opens a store by path or URL and composes the floors below.
//!
//! ```
//! let store = koine::open("memory:", &koine::OpenOptions::default())?;
//! store.objects().create_bucket("first").wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No logic of its own beyond looking at what a path holds; the doors stand beside it, not in it.

mod error;
mod format;
mod grow;
mod inspect;
mod names;
pub mod numbered;
mod place;
mod probe;
mod remote;
mod rocks;
mod salvage;
mod sealing;
mod session;
mod socket;
mod store;
mod stream;
mod upgrade;
mod upkeep;

pub use error::{Error, Result};
pub use format::{FormatOptions, Formatted, format};
pub use grow::grow;
pub use inspect::{BucketCount, Inspection, inspect, repair};
pub use koine_engine::device::{IoMode, Process};
pub use koine_engine::{
    Concern, Defrag, DefragOptions, DefragPosition, DefragStep, Finding, GrowTo, Grown, Info, LostKeys, Origin,
    PartialValue, Progress, ReceiveOptions, Received, Repair, Report, SalvageProgress, SalvageReport, Scrub,
    ScrubOptions, ScrubPosition, SpaceId, SpaceInfo, SpaceReport, SpaceUse, Upgrade, Usage,
};
pub use koine_env as env;
pub use koine_kv as kv;
pub use koine_kv::wire::Timeouts;
pub use koine_object as object;
pub use koine_object::{LogIn, Objects, RootKey};
pub use names::{SpaceNames, Whose};
pub use place::Place;
pub use probe::{Found, probe};
pub use salvage::{LostObject, SalvageOptions, Salvaged, salvage};
pub use sealing::SealingKey;
pub use session::Session;
pub use socket::{objects_socket_of, socket_of};
pub use store::{OpenOptions, Store, open};
pub use stream::{ReceiveHow, ReceivedBucket, Spaces};
pub use upgrade::{Upgraded, upgrade};
pub use upkeep::Upkeep;
