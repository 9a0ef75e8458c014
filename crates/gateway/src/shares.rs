//! Places for what takes room: so many for all, fewer for each user and each address, and some for root alone.
//!
//! Invariants:
//! - Root waits for no other user: whatever they hold, [`reserved`] places are root's.
//! - Whoever carries an address that root has signed is not root.
//! - No user has more than [`share`] of the places, nor have those who carry what it has signed; those who sign nothing are one user together, and one address of
//!   them has a quarter of that.
//! - What is known of a holder is dropped with its last place.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use koine_object::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Where requests come from: an IPv4 address, or the network of 64 bits that has an IPv6 address, since whoever has one
/// address of it has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(u128);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin(u128::from(address.to_ipv6_mapped())),
            IpAddr::V6(address) => Origin(u128::from(address) >> 64 << 64),
        }
    }
}

/// Whose the room is that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The store's owner's.
    Root,
    /// A user's, by its id.
    User(u64),
    /// That of all who carry an address that a user, or root, has signed, and may have passed on to anybody.
    Bearers(Option<u64>),
    /// Nobody's who is known.
    Nobody(Origin),
}

impl Holder {
    /// Of who asks, from an address; `presigned` where what was signed is the address of the request.
    pub fn of(caller: &Caller, presigned: bool, address: IpAddr) -> Self {
        match caller {
            Caller::Owner if presigned => Holder::Bearers(None),
            Caller::User(identity) if presigned => Holder::Bearers(Some(identity.user())),
            Caller::Owner => Holder::Root,
            Caller::User(identity) => Holder::User(identity.user()),
            _ => Holder::Nobody(address.into()),
        }
    }
}

/// How many of so many places are root's alone: an eighth.
pub const fn reserved(places: usize) -> usize {
    places / 8
}

/// How many of so many places one user, or one address, may have: half, and one at least.
pub const fn share(places: usize) -> usize {
    if places < 2 { 1 } else { places / 2 }
}

/// What is bounded for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bounded {
    User(u64),
    Bearers(Option<u64>),
    Nobodies,
    Origin(Origin),
}

/// Places, all of one kind.
#[derive(Debug)]
pub struct Places {
    /// For everybody.
    common: Arc<Semaphore>,
    /// For root.
    reserved: Arc<Semaphore>,
    each: usize,
    bounded: Mutex<HashMap<Bounded, Arc<Semaphore>>>,
}

/// A place that is held until this is dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
    _own: Vec<Own>,
}

/// What somebody holds, or waits for, of its own share.
#[derive(Debug)]
struct Own {
    places: Arc<Places>,
    who: Bounded,
    share: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut bounded = self.places.bounded.lock().unwrap_or_else(PoisonError::into_inner);
        drop((self.permit.take(), self.share.take()));
        // Nobody else holds or awaits one of it: those do so by a pointer of their own, taken under the lock.
        if bounded.get(&self.who).is_some_and(|share| Arc::strong_count(share) == 1) {
            bounded.remove(&self.who);
        }
    }
}

impl Places {
    /// So many.
    pub fn new(places: usize) -> Arc<Self> {
        let reserved = reserved(places);
        Arc::new(Places {
            common: Arc::new(Semaphore::new(places - reserved)),
            reserved: Arc::new(Semaphore::new(reserved)),
            each: share(places),
            bounded: Mutex::default(),
        })
    }

    /// A place if there is one now.
    pub fn take_now(self: &Arc<Self>, holder: Holder) -> Option<Place> {
        let mut own = self.own(holder);
        for own in &mut own {
            own.permit = Some(own.share.clone()?.try_acquire_owned().ok()?);
        }
        let permit = self.common.clone().try_acquire_owned().ok();
        let reserved = || (holder == Holder::Root).then(|| self.reserved.clone().try_acquire_owned().ok()).flatten();
        Some(Place { _permit: permit.or_else(reserved)?, _own: own })
    }

    /// A place when there is one; `None` never while this lives.
    pub async fn take(self: &Arc<Self>, holder: Holder) -> Option<Place> {
        let mut own = self.own(holder);
        for own in &mut own {
            own.permit = Some(own.share.clone()?.acquire_owned().await.ok()?);
        }
        let common = self.common.clone().acquire_owned();
        let permit = match holder {
            Holder::Root => {
                tokio::select! { permit = common => permit, permit = self.reserved.clone().acquire_owned() => permit }
            }
            Holder::User(_) | Holder::Bearers(_) | Holder::Nobody(_) => common.await,
        };
        Some(Place { _permit: permit.ok()?, _own: own })
    }

    /// What bounds a holder, the narrowest first.
    fn own(self: &Arc<Self>, holder: Holder) -> Vec<Own> {
        let bounds = match holder {
            Holder::Root => Vec::new(),
            Holder::User(id) => vec![(Bounded::User(id), self.each)],
            Holder::Bearers(signer) => vec![(Bounded::Bearers(signer), self.each)],
            Holder::Nobody(origin) => {
                vec![(Bounded::Origin(origin), self.each.div_ceil(4)), (Bounded::Nobodies, self.each)]
            }
        };
        let mut bounded = self.bounded.lock().unwrap_or_else(PoisonError::into_inner);
        let own = bounds.into_iter().map(|(who, most)| {
            let share = bounded.entry(who).or_insert_with(|| Arc::new(Semaphore::new(most))).clone();
            Own { places: self.clone(), who, share: Some(share), permit: None }
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn nobody(last: u8) -> Holder {
        Holder::Nobody(IpAddr::from([10, 0, 0, last]).into())
    }

    fn fill(places: &Arc<Places>, holder: Holder) -> Vec<Place> {
        std::iter::from_fn(|| places.take_now(holder)).collect()
    }

    #[test]
    fn each_has_its_share_and_root_what_is_reserved() {
        let places = Places::new(16);
        let first = fill(&places, Holder::User(1));
        assert_eq!(first.len(), 8);
        let second = fill(&places, Holder::User(2));
        assert_eq!(second.len(), 6, "two are root's alone");
        assert!(places.take_now(Holder::User(3)).is_none());
        let root = fill(&places, Holder::Root);
        assert_eq!(root.len(), 2);
        drop(first);
        // Root may have all that is there.
        assert_eq!(fill(&places, Holder::Root).len(), 8);
    }

    #[test]
    fn those_who_sign_nothing_are_one_user_and_an_address_has_a_quarter_of_it() {
        let places = Places::new(16);
        let one = fill(&places, nobody(1));
        assert_eq!(one.len(), 2);
        let others: Vec<Place> = (2..100).flat_map(|last| fill(&places, nobody(last))).collect();
        assert_eq!(one.len() + others.len(), 8);
        assert_eq!(fill(&places, Holder::User(1)).len(), 6);
    }

    #[test]
    fn what_waits_waits_for_its_own_and_nothing_is_left_behind() {
        let places = Places::new(4);
        let mut held = fill(&places, Holder::User(1));
        assert_eq!(held.len(), 2);
        let mut waiting = Box::pin(places.take(Holder::User(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(places.take(Holder::User(2)).now_or_never().unwrap().unwrap());
        drop(held.pop());
        let got = waiting.as_mut().now_or_never().unwrap();
        assert!(got.is_some());
        drop(waiting);
        let given_up = Box::pin(places.take(Holder::User(1)));
        drop(given_up);
        drop((held, got));
        assert!(places.bounded.lock().unwrap().is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:0:0:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.2"), origin("10.0.0.1"));
    }
}
