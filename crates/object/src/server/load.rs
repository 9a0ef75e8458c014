//! How many bytes of bodies on their way are in memory.
//!
//! Invariant: no more than a connection, all connections of a peer, and all together may hold; a part is kept for the user
//! that runs the server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use koine_kv::wire::Peer;

use crate::error::{Error, ErrorKind, Result};

/// Bytes of bodies on their way that one connection may hold in memory, those of one peer, and all.
const EACH_MAX: usize = 64 << 20;
const PEER_MAX: usize = 128 << 20;
const ALL_MAX: usize = 256 << 20;
/// What is left for the user that runs the server when others hold all that they may.
const KEPT_FOR_OWNER: usize = 32 << 20;

/// A store keeps so much of a body in memory, whatever its length.
const KEPT_LEN_MAX: usize = 1 << 20;

/// Bytes that are held.
pub(super) struct Load {
    held: AtomicUsize,
    most: usize,
    above: Option<Arc<Load>>,
}

impl Load {
    /// At most so many.
    pub fn new(most: usize) -> Load {
        Load { held: AtomicUsize::new(0), most, above: None }
    }

    /// At most so many of those.
    pub fn below(above: &Arc<Load>, most: usize) -> Load {
        Load { above: Some(Arc::clone(above)), ..Load::new(most) }
    }

    fn take(&self, length: usize) -> Result<()> {
        if self.held.fetch_add(length, Ordering::AcqRel) + length > self.most {
            self.held.fetch_sub(length, Ordering::AcqRel);
            let message = format!("{} MiB of bodies are on their way: finish some and try again", self.most >> 20);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        let taken = self.above.as_ref().map_or(Ok(()), |above| above.take(length));
        taken.inspect_err(|_| {
            self.held.fetch_sub(length, Ordering::AcqRel);
        })
    }

    fn give_back(&self, length: usize) {
        self.held.fetch_sub(length, Ordering::AcqRel);
        self.above.iter().for_each(|above| above.give_back(length));
    }
}

/// What all connections hold, and whose that is.
pub(super) struct Loads {
    all: Arc<Load>,
    /// What is not kept for the owner.
    common: Arc<Load>,
    peers: Mutex<Vec<(Peer, Weak<Load>)>>,
}

impl Loads {
    /// Nothing yet.
    pub fn new() -> Loads {
        let all = Arc::new(Load::new(ALL_MAX));
        let common = Arc::new(Load::below(&all, ALL_MAX - KEPT_FOR_OWNER));
        Loads { all, common, peers: Mutex::default() }
    }

    /// What a connection of a peer may hold.
    pub fn of(&self, peer: &Peer) -> Load {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|(_, load)| load.strong_count() > 0);
        let known = peers.iter().find(|(known, _)| known.is_like(peer)).and_then(|(_, load)| load.upgrade());
        let of_peer = known.unwrap_or_else(|| {
            let above = if peer.owns_this_process() { &self.all } else { &self.common };
            let load = Arc::new(Load::below(above, PEER_MAX));
            peers.push((peer.clone(), Arc::downgrade(&load)));
            load
        });
        Load::below(&of_peer, EACH_MAX)
    }
}

/// What one body holds; given back when it is dropped.
pub(super) struct Share {
    load: Arc<Load>,
    taken: usize,
}

impl Share {
    /// Nothing yet.
    pub fn new(load: &Arc<Load>) -> Share {
        Share { load: Arc::clone(load), taken: 0 }
    }

    /// A body has so many bytes now.
    pub fn grow(&mut self, length: u64) -> Result<()> {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(KEPT_LEN_MAX);
        if wanted > self.taken {
            self.load.take(wanted - self.taken)?;
            self.taken = wanted;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.load.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_half_and_the_owner_what_is_kept() {
        let loads = Loads::new();
        let of = |uid| Arc::new(loads.of(&Peer::Local { uid, pid: 1 }));
        let fill = |load: &Arc<Load>| {
            let mut shares = Vec::new();
            loop {
                let mut share = Share::new(load);
                if share.grow(u64::MAX).is_err() {
                    return shares;
                }
                shares.push(share);
            }
        };
        let strangers: Vec<Arc<Load>> = (0..12).map(|n| of(1_000_000 + n / 4)).collect();
        let held: Vec<Vec<Share>> = strangers.iter().map(&fill).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 0, 0, 64, 32, 0, 0, 0, 0, 0, 0]);
        // Root may reach what any user runs.
        assert_eq!(fill(&of(0)).len(), 32);
        drop((held, strangers));
        assert_eq!(loads.all.held.load(Ordering::Acquire), 0);
        drop(of(7));
        assert_eq!(loads.peers.lock().unwrap().len(), 1, "only the last is known");
    }

    #[test]
    fn bodies_take_what_is_there_and_give_it_back() {
        let all = Arc::new(Load::new(3 << 20));
        let (one, other) = (Arc::new(Load::below(&all, 2 << 20)), Arc::new(Load::below(&all, 2 << 20)));
        let mut shares: Vec<Share> = (0..2).map(|_| Share::new(&one)).collect();
        shares.iter_mut().for_each(|share| share.grow(u64::MAX).unwrap());
        shares.iter_mut().for_each(|share| share.grow(u64::MAX).unwrap());
        assert_eq!(Share::new(&one).grow(1).unwrap_err().kind(), ErrorKind::Busy);
        let mut another = Share::new(&other);
        another.grow(100).unwrap();
        another.grow(1 << 20).unwrap();
        assert_eq!(Share::new(&other).grow(1).unwrap_err().kind(), ErrorKind::Busy, "all together");
        shares.clear();
        Share::new(&other).grow(1 << 20).unwrap();
        drop(another);
        assert_eq!(all.held.load(Ordering::Acquire), 0);
    }
}
