//! All contestants that can be measured on one store.

use super::contestant::{Contestant, StoreSetup, Transport};
use super::direct::Direct;
use super::redis::RedisClient;
use super::served::Served;
use crate::Error;
use std::path::Path;

/// Starts them: ours over the socket and over TCP, the store called directly, and Redis where it is installed.
pub fn start(store: StoreSetup, dir: &Path) -> Result<Vec<Box<dyn Contestant>>, Error> {
    let served = Served::start(store, dir)?;
    let mut all: Vec<Box<dyn Contestant>> = vec![
        Box::new(served.connect(Transport::Unix).map_err(Error::Worker)?),
        Box::new(served.connect(Transport::Tcp).map_err(Error::Worker)?),
        Box::new(Direct::open(store, dir)?),
    ];
    for redis in RedisClient::start(store.durability, dir)? {
        all.push(Box::new(redis));
    }
    Ok(all)
}
