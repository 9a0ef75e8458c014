//! Admission control: fair limits on what takes memory, in all, for each user and each address, with some kept for root.
//!
//! Invariants:
//! - Root waits for no other user: whatever they hold, [`reserved`] permits are root's.
//! - Whoever carries an address that root has signed is not root.
//! - No user has more than [`share`] of the permits, nor have those who carry what it has signed; those who sign nothing are one user together, and one address of
//!   them has a quarter of that.
//! - What is known of a tenant is dropped with its last permit.

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

/// Whose share of the server's resources a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// That of the store's owner.
    Root,
    /// That of a user, by its id.
    User(u64),
    /// That of all who carry an address that a user, or root, has signed, and may have passed on to anybody.
    Bearers(Option<u64>),
    /// Everybody who signs nothing, from one origin.
    Anonymous(Origin),
}

impl Tenant {
    /// Of who asks, from an address; `presigned` where what was signed is the address of the request.
    pub fn of(caller: &Caller, presigned: bool, address: IpAddr) -> Self {
        match caller {
            Caller::Owner if presigned => Tenant::Bearers(None),
            Caller::User(identity) if presigned => Tenant::Bearers(Some(identity.user())),
            Caller::Owner => Tenant::Root,
            Caller::User(identity) => Tenant::User(identity.user()),
            _ => Tenant::Anonymous(address.into()),
        }
    }
}

/// How many of so many permits are root's alone: an eighth.
pub const fn reserved(permits: usize) -> usize {
    permits / 8
}

/// How many of so many permits one user, or one address, may have: half, and one at least.
pub const fn share(permits: usize) -> usize {
    if permits < 2 { 1 } else { permits / 2 }
}

/// What has a share of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ShareKey {
    User(u64),
    Bearers(Option<u64>),
    Anonymous,
    Origin(Origin),
}

/// Permits of one kind, shared fairly.
#[derive(Debug)]
pub struct FairLimiter {
    /// For everybody.
    common: Arc<Semaphore>,
    /// For root.
    reserved: Arc<Semaphore>,
    each: usize,
    shares: Mutex<HashMap<ShareKey, Arc<Semaphore>>>,
}

/// A permit; it is given back when this is dropped.
#[derive(Debug)]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
    _own: Vec<HeldShare>,
}

/// A permit of one share, held or awaited.
#[derive(Debug)]
struct HeldShare {
    limiter: Arc<FairLimiter>,
    key: ShareKey,
    share: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        let mut shares = self.limiter.shares.lock().unwrap_or_else(PoisonError::into_inner);
        drop((self.permit.take(), self.share.take()));
        // No other request holds or awaits a permit of this share: it would have a pointer of its own, taken under the lock.
        if shares.get(&self.key).is_some_and(|share| Arc::strong_count(share) == 1) {
            shares.remove(&self.key);
        }
    }
}

impl FairLimiter {
    /// So many.
    pub fn new(permits: usize) -> Arc<Self> {
        let reserved = reserved(permits);
        Arc::new(FairLimiter {
            common: Arc::new(Semaphore::new(permits - reserved)),
            reserved: Arc::new(Semaphore::new(reserved)),
            each: share(permits),
            shares: Mutex::default(),
        })
    }

    /// A permit if there is one now.
    pub fn try_acquire(self: &Arc<Self>, tenant: Tenant) -> Option<Permit> {
        let mut own = self.own(tenant);
        for own in &mut own {
            own.permit = Some(own.share.clone()?.try_acquire_owned().ok()?);
        }
        let permit = self.common.clone().try_acquire_owned().ok();
        let reserved = || (tenant == Tenant::Root).then(|| self.reserved.clone().try_acquire_owned().ok()).flatten();
        Some(Permit { _permit: permit.or_else(reserved)?, _own: own })
    }

    /// A permit when there is one; `None` never while this lives.
    pub async fn acquire(self: &Arc<Self>, tenant: Tenant) -> Option<Permit> {
        let mut own = self.own(tenant);
        for own in &mut own {
            own.permit = Some(own.share.clone()?.acquire_owned().await.ok()?);
        }
        let common = self.common.clone().acquire_owned();
        let permit = match tenant {
            Tenant::Root => {
                tokio::select! { permit = common => permit, permit = self.reserved.clone().acquire_owned() => permit }
            }
            Tenant::User(_) | Tenant::Bearers(_) | Tenant::Anonymous(_) => common.await,
        };
        Some(Permit { _permit: permit.ok()?, _own: own })
    }

    /// What bounds a tenant, the narrowest first.
    fn own(self: &Arc<Self>, tenant: Tenant) -> Vec<HeldShare> {
        let bounds = match tenant {
            Tenant::Root => Vec::new(),
            Tenant::User(id) => vec![(ShareKey::User(id), self.each)],
            Tenant::Bearers(signer) => vec![(ShareKey::Bearers(signer), self.each)],
            Tenant::Anonymous(origin) => {
                vec![(ShareKey::Origin(origin), self.each.div_ceil(4)), (ShareKey::Anonymous, self.each)]
            }
        };
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let own = bounds.into_iter().map(|(key, most)| {
            let share = shares.entry(key).or_insert_with(|| Arc::new(Semaphore::new(most))).clone();
            HeldShare { limiter: self.clone(), key, share: Some(share), permit: None }
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn nobody(last: u8) -> Tenant {
        Tenant::Anonymous(IpAddr::from([10, 0, 0, last]).into())
    }

    fn fill(permits: &Arc<FairLimiter>, tenant: Tenant) -> Vec<Permit> {
        std::iter::from_fn(|| permits.try_acquire(tenant)).collect()
    }

    #[test]
    fn each_has_its_share_and_root_what_is_reserved() {
        let permits = FairLimiter::new(16);
        let first = fill(&permits, Tenant::User(1));
        assert_eq!(first.len(), 8);
        let second = fill(&permits, Tenant::User(2));
        assert_eq!(second.len(), 6, "two are root's alone");
        assert!(permits.try_acquire(Tenant::User(3)).is_none());
        let root = fill(&permits, Tenant::Root);
        assert_eq!(root.len(), 2);
        drop(first);
        // Root may have all that is there.
        assert_eq!(fill(&permits, Tenant::Root).len(), 8);
    }

    #[test]
    fn those_who_sign_nothing_are_one_user_and_an_address_has_a_quarter_of_it() {
        let permits = FairLimiter::new(16);
        let one = fill(&permits, nobody(1));
        assert_eq!(one.len(), 2);
        let others: Vec<Permit> = (2..100).flat_map(|last| fill(&permits, nobody(last))).collect();
        assert_eq!(one.len() + others.len(), 8);
        assert_eq!(fill(&permits, Tenant::User(1)).len(), 6);
    }

    #[test]
    fn what_waits_waits_for_its_own_and_nothing_is_left_behind() {
        let permits = FairLimiter::new(4);
        let mut held = fill(&permits, Tenant::User(1));
        assert_eq!(held.len(), 2);
        let mut waiting = Box::pin(permits.acquire(Tenant::User(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(permits.acquire(Tenant::User(2)).now_or_never().unwrap().unwrap());
        drop(held.pop());
        let got = waiting.as_mut().now_or_never().unwrap();
        assert!(got.is_some());
        drop(waiting);
        let given_up = Box::pin(permits.acquire(Tenant::User(1)));
        drop(given_up);
        drop((held, got));
        assert!(permits.shares.lock().unwrap().is_empty());
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
