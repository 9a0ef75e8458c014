//! Which connections there are, and which of them makes room for another.
//!
//! A connection is *idle* while no request of it is under way: nothing came yet, half a head came, or its last answer has
//! left. It is *proven* once a request of it was signed rightly.
//!
//! Invariants:
//! - Idle connections keep nobody out: where there is no room, one of them ends. Of the address that has most it is
//!   one that is not proven before one that is, and then the one that has been idle longest.
//! - No address has more than its [`share`](crate::admission::share).
//! - Where all are busy, [`reserved`](crate::admission::reserved) more come in as far as their first head, which shows
//!   whether it is root's; others are told `SlowDown`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::admission::{Origin, reserved, share};

/// One connection, as the server sees it.
#[derive(Debug)]
pub struct Connection {
    peer: SocketAddr,
    origin: Origin,
    /// Whether it came in where only root may stay.
    is_reserved: bool,
    is_proven: AtomicBool,
    state: Mutex<ConnectionState>,
    ended: Notify,
}

#[derive(Debug)]
struct ConnectionState {
    /// Requests whose answer has not left.
    active: usize,
    /// When it became idle: how many had become so before, of all connections.
    idle_since: u64,
    is_ended: bool,
}

impl Connection {
    /// Who is at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether only root may use it.
    pub fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// A request of it was signed rightly.
    pub fn prove(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// Whether one was.
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Ready when it has to make room.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when it is idle; `None` where it is busy, or ends already.
    fn idle_since(&self) -> Option<u64> {
        let state = self.state();
        (state.active == 0 && !state.is_ended).then_some(state.idle_since)
    }

    /// Ends it; false where a request has begun meanwhile.
    fn end(&self) -> bool {
        let mut state = self.state();
        if state.active > 0 || state.is_ended {
            return false;
        }
        state.is_ended = true;
        self.ended.notify_one();
        true
    }
}

/// A request under way: its connection is busy until this is dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let now = self.connections.tick();
        let mut state = self.connection.state();
        state.active = state.active.saturating_sub(1);
        state.idle_since = now;
    }
}

/// A connection that was let in; it counts until this is dropped.
#[derive(Debug)]
pub struct AdmittedConnection {
    connection: Arc<Connection>,
    number: u64,
    connections: Arc<Connections>,
}

impl AdmittedConnection {
    /// The connection.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Begins a request; `None` where the connection has to make room.
    pub fn begin(&self) -> Option<ActiveRequest> {
        let mut state = self.connection.state();
        if state.is_ended {
            return None;
        }
        state.active += 1;
        Some(ActiveRequest { connection: self.connection.clone(), connections: self.connections.clone() })
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.connections.open().leave(self.number);
    }
}

/// All connections of a gateway.
#[derive(Debug)]
pub struct Connections {
    /// How many that are not root's alone.
    most: usize,
    reserved: usize,
    each: usize,
    open: Mutex<ConnectionTable>,
    clock: std::sync::atomic::AtomicU64,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    /// Those that are there and not told to end.
    all: HashMap<u64, Arc<Connection>>,
    /// How many of them are ordinary ones, by where they come from.
    by_origin: HashMap<Origin, usize>,
    ordinary: usize,
}

impl ConnectionTable {
    fn enter(&mut self, connection: &Arc<Connection>) -> u64 {
        self.next += 1;
        self.all.insert(self.next, connection.clone());
        if !connection.is_reserved {
            self.ordinary += 1;
            *self.by_origin.entry(connection.origin).or_default() += 1;
        }
        self.next
    }

    fn leave(&mut self, number: u64) {
        let Some(connection) = self.all.remove(&number) else { return };
        if connection.is_reserved {
            return;
        }
        self.ordinary -= 1;
        if let Some(count) = self.by_origin.get_mut(&connection.origin) {
            *count -= 1;
            if *count == 0 {
                self.by_origin.remove(&connection.origin);
            }
        }
    }

    fn of(&self, origin: Origin) -> usize {
        self.by_origin.get(&origin).copied().unwrap_or_default()
    }

    /// Ends an idle one of these; false where none is.
    fn make_room(&mut self, among: impl Fn(&Connection) -> bool) -> bool {
        loop {
            let idle =
                self.all.iter().filter(|(_, connection)| among(connection)).filter_map(|(number, connection)| {
                    let since = connection.idle_since()?;
                    let load = self.of(connection.origin);
                    Some(((std::cmp::Reverse(load), connection.is_proven(), since), *number))
                });
            let Some((_, number)) = idle.min() else { return false };
            if self.all.get(&number).is_some_and(|connection| connection.end()) {
                self.leave(number);
                return true;
            }
            // Its next request has come: another one.
        }
    }
}

impl Connections {
    /// So many at once, those among them that are root's alone.
    pub fn new(most: usize) -> Arc<Self> {
        let reserved = reserved(most);
        let (each, most) = (share(most), most - reserved);
        Arc::new(Connections { most, reserved, each, open: Mutex::default(), clock: Default::default() })
    }

    fn open(&self) -> MutexGuard<'_, ConnectionTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open().all.len()
    }

    /// Ends up to so many idle connections; how many.
    pub fn make_room(&self, most: usize) -> usize {
        let mut open = self.open();
        (0..most).take_while(|_| open.make_room(|_| true)).count()
    }

    /// Lets a connection in; `None` where there is no room and none can be made.
    pub fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<AdmittedConnection> {
        let origin = Origin::from(peer.ip());
        let mut open = self.open();
        let has_room = if open.of(origin) >= self.each {
            open.make_room(|connection| !connection.is_reserved && connection.origin == origin)
        } else {
            open.ordinary < self.most || open.make_room(|connection| !connection.is_reserved)
        };
        if !has_room {
            let taken = open.all.len() - open.ordinary;
            if taken >= self.reserved && !open.make_room(|connection| connection.is_reserved) {
                return None;
            }
        }
        let state = ConnectionState { active: 0, idle_since: self.tick(), is_ended: false };
        let connection = Arc::new(Connection {
            peer,
            origin,
            is_reserved: !has_room,
            is_proven: AtomicBool::new(false),
            state: Mutex::new(state),
            ended: Notify::new(),
        });
        let number = open.enter(&connection);
        Some(AdmittedConnection { connection, number, connections: self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn peer(address: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, address], 1000))
    }

    fn is_ended(admitted: &AdmittedConnection) -> bool {
        admitted.connection.ended().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_idle_one_of_who_has_most_makes_room() {
        let connections = Connections::new(16);
        let mut few: Vec<AdmittedConnection> = (0..7).map(|_| connections.admit(peer(1)).unwrap()).collect();
        let many: Vec<AdmittedConnection> = (0..7).map(|_| connections.admit(peer(2)).unwrap()).collect();
        assert_eq!(connections.count(), 14);
        // The first is proven, the second busy: the third goes.
        many[0].connection.prove();
        let busy = many[1].begin().unwrap();
        few.pop();
        let newcomers = [connections.admit(peer(3)).unwrap(), connections.admit(peer(3)).unwrap()];
        assert!(newcomers.iter().all(|newcomer| !newcomer.connection.is_reserved()));
        assert_eq!(many.iter().map(is_ended).collect::<Vec<_>>(), [false, false, true, false, false, false, false]);
        assert!(many[2].begin().is_none() && few.iter().all(|one| one.begin().is_some()));
        drop(busy);
        assert_eq!(connections.count(), 14);
    }

    #[test]
    fn an_address_has_its_share_and_what_is_busy_is_not_ended() {
        let connections = Connections::new(16);
        let held: Vec<AdmittedConnection> = (0..8).map(|_| connections.admit(peer(1)).unwrap()).collect();
        let busy: Vec<ActiveRequest> = held.iter().map(|one| one.begin().unwrap()).collect();
        let beyond = connections.admit(peer(1)).unwrap();
        assert!(beyond.connection.is_reserved(), "the share of the address is taken");
        assert!(!connections.admit(peer(2)).unwrap().connection.is_reserved(), "that of others is not");
        drop(busy);
        let next = connections.admit(peer(1)).unwrap();
        assert!(!next.connection.is_reserved() && is_ended(&held[0]), "an idle one made room");
        let _busy = next.begin().unwrap();
        assert_eq!((connections.make_room(3), connections.make_room(100), connections.make_room(1)), (3, 5, 0));
    }

    #[test]
    fn what_is_reserved_can_always_be_tried() {
        let connections = Connections::new(16);
        let held: Vec<AdmittedConnection> = (0..14).map(|at| connections.admit(peer(at)).unwrap()).collect();
        let busy: Vec<ActiveRequest> = held.iter().map(|one| one.begin().unwrap()).collect();
        let waiting: Vec<AdmittedConnection> = (0..20).map(|at| connections.admit(peer(at)).unwrap()).collect();
        assert!(waiting.iter().all(|one| one.connection.is_reserved()));
        assert_eq!(waiting.iter().filter(|one| !is_ended(one)).count(), 2);
        let roots: Vec<ActiveRequest> = waiting[18..].iter().map(|one| one.begin().unwrap()).collect();
        assert!(connections.admit(peer(9)).is_none(), "all are busy");
        drop((roots, busy, waiting, held));
        assert_eq!(connections.count(), 0);
        assert!(connections.open().by_origin.is_empty());
    }

    #[test]
    fn a_few_connections_are_shared_too() {
        let connections = Connections::new(1);
        let first = connections.admit(peer(1)).unwrap();
        let second = connections.admit(peer(2)).unwrap();
        assert!(is_ended(&first) && !is_ended(&second));
        let _busy = second.begin().unwrap();
        assert!(connections.admit(peer(3)).is_none());
    }
}
