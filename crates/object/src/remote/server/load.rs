//! How many bytes of bodies on their way are in memory.
//!
//! Invariant: no more than a connection, and all connections together, may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorKind, Result};

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
