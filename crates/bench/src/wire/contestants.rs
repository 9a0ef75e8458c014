//! All contestants that can be measured on one store.

use super::contestant::{Contestant, Store, Way};
use super::direct::Direct;
use super::redis::Redis;
use super::served::Served;
use crate::Error;
use std::path::Path;

/// Starts them: ours over the socket and over TCP, the store called directly, and Redis where it is installed.
pub fn start(store: Store, dir: &Path) -> Result<Vec<Box<dyn Contestant>>, Error> {
    let served = Served::start(store, dir)?;
    let mut all: Vec<Box<dyn Contestant>> = vec![
        Box::new(served.connect(Way::Unix).map_err(Error::Worker)?),
        Box::new(served.connect(Way::Tcp).map_err(Error::Worker)?),
        Box::new(Direct::open(store, dir)?),
    ];
    for redis in Redis::start(store.durability, dir)? {
        all.push(Box::new(redis));
    }
    Ok(all)
}
