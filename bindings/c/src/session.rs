//! Sessions: an open store and who makes the calls.
//!
//! Invariants:
//! - A store is closed with the last session of it; what is still open of it fails from then on.
//! - A session runs as one caller for ever; logging in gives another session.

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Weak};
use std::time::Duration;

use koine::kv::wire::Key;
use koine::object::{Caller, Objects, Token};
use koine::{OpenOptions, Session as Store, Timeouts};

use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::named::options::{sized, text, text_if};
use crate::table::{Field, Row, Table, Told, tell};

/// What C holds of a session.
pub enum Session {}

/// A store that is closed when the last hold on it goes.
struct Opened(Store);

impl Drop for Opened {
    fn drop(&mut self) {
        // Who wanted to know of a failure has called `koine_close`; a second close does nothing.
        let _ = self.0.close();
    }
}

/// The store that something was opened in, for as long as it is open.
pub struct Within(Weak<Opened>);

/// Keeps a store open while a call works on something of it.
pub struct StoreHeld(#[allow(dead_code, reason = "held, not read")] Arc<Opened>);

impl Within {
    /// The store, unless its last session was closed; `what` was opened in it.
    pub fn hold(&self, what: &str) -> Result<StoreHeld, Failure> {
        self.0.upgrade().map(StoreHeld).ok_or_else(|| Failure::closed(what))
    }
}

/// What a session names.
pub struct Held {
    store: Arc<Opened>,
    objects: Objects,
}

static SESSIONS: Handles<Held> = Handles::new("session");

/// The store of a session, as its caller has it.
pub fn objects(session: *const Session) -> Result<Objects, Failure> {
    Ok(SESSIONS.get(session)?.objects.clone())
}

/// The same, and the store for what is opened in it and stays open.
pub fn objects_within(session: *const Session) -> Result<(Objects, Within), Failure> {
    let held = SESSIONS.get(session)?;
    Ok((held.objects.clone(), Within(Arc::downgrade(&held.store))))
}

/// `koine_open_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SessionOptions {
    struct_size: u64,
    create: c_int,
    size_max: u64,
    memory: u64,
    block_size: u64,
    key: *const c_char,
    token: *const c_char,
    connect_milliseconds: u64,
    call_milliseconds: u64,
    reconnect_milliseconds: u64,
}

impl SessionOptions {
    /// How long a server is waited for; 0 is as long as is usual, `UINT64_MAX` for ever.
    fn timeouts(&self) -> Timeouts {
        let usual = Timeouts::default();
        let of = |milliseconds, usual| match milliseconds {
            0 => usual,
            u64::MAX => Duration::MAX,
            milliseconds => Duration::from_millis(milliseconds),
        };
        Timeouts {
            connect: of(self.connect_milliseconds, usual.connect),
            call: of(self.call_milliseconds, usual.call),
            reconnect: of(self.reconnect_milliseconds, usual.reconnect),
        }
    }
}

fn some(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

/// Runs as the user of a token.
fn by_token(objects: &Objects, token: &str) -> Result<Objects, Failure> {
    let caller = objects.identities().by_token(&Token::new(token))?;
    Ok(objects.as_caller(caller))
}

/// Opens a store.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_open(
    place: *const c_char,
    options: *const SessionOptions,
    error: *mut *mut Error,
) -> *mut Session {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and options of C strings.
        let (place, given) = unsafe { (text(place, "place")?, sized(options, "the options")?) };
        let (mut open, mut token) = (OpenOptions::default(), None);
        if let Some(given) = given {
            // SAFETY: as above.
            let (key, who) = unsafe { (text_if(given.key, "key")?, text_if(given.token, "token")?) };
            token = who;
            open = OpenOptions {
                create: given.create != 0,
                size_max: some(given.size_max),
                memory: some(given.memory),
                block_size: some(given.block_size),
                timeouts: given.timeouts(),
                key: key.map(Key::new).transpose().map_err(koine::Error::Store)?,
                ..OpenOptions::default()
            };
        }
        let store = Store::open(place, &open)?;
        let objects = match token {
            Some(token) => match by_token(&store, token) {
                Ok(objects) => objects,
                Err(failure) => {
                    store.close()?;
                    return Err(failure);
                }
            },
            None => Objects::clone(&store),
        };
        Ok(SESSIONS.add(Held { store: Arc::new(Opened(store)), objects }))
    })
}

/// Ends a session.
#[unsafe(no_mangle)]
pub extern "C" fn koine_close(session: *mut Session, error: *mut *mut Error) -> bool {
    call(error, false, || {
        if SESSIONS.leave(session) {
            return Ok(true);
        }
        let held = SESSIONS.remove(session)?;
        let store = Arc::clone(&held.store);
        // A thread that is within a call has the session until it returns, and closes the store then.
        drop(held);
        match Arc::into_inner(store) {
            Some(store) => Ok(store.0.close().map(|()| true)?),
            None => Ok(true),
        }
    })
}

/// Logs in: another session of the same store.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_log_in(
    session: *mut Session,
    user: *const c_char,
    password: *const c_char,
    seconds: u64,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> *mut Session {
    call(error, std::ptr::null_mut(), || {
        let held = SESSIONS.get(session)?;
        // SAFETY: the header asks for C strings.
        let (user, password) = unsafe { (text(user, "user's name")?, text(password, "password")?) };
        let life = Duration::from_secs(if seconds == 0 { 12 * 3600 } else { seconds });
        let login = held.objects.identities().log_in(user, password, life)?;
        let objects = by_token(&held.store.0, login.token.expose())?;
        let table = || {
            Row::default()
                .text(Field::Name, login.user.as_str())
                .text(Field::Token, login.token.expose())
                .number(Field::ExpiresAt, login.expires.0)
                .into()
        };
        // SAFETY: the header asks for NULL or a place for a result.
        unsafe { tell(told, table) };
        Ok(SESSIONS.add(Held { store: Arc::clone(&held.store), objects }))
    })
}

/// A session of the user of a token; of everyone for NULL.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_as(session: *mut Session, token: *const c_char, error: *mut *mut Error) -> *mut Session {
    call(error, std::ptr::null_mut(), || {
        let held = SESSIONS.get(session)?;
        // SAFETY: the header asks for NULL or a C string.
        let objects = match unsafe { text_if(token, "token") }? {
            Some(token) => by_token(&held.store.0, token)?,
            None => held.store.0.as_caller(Caller::Everyone),
        };
        Ok(SESSIONS.add(Held { store: Arc::clone(&held.store), objects }))
    })
}

/// Takes a token back.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_log_out(session: *mut Session, token: *const c_char, error: *mut *mut Error) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let token = unsafe { text(token, "token") }?;
        objects(session)?.identities().log_out(&Token::new(token)).wait()?;
        Ok(true)
    })
}

/// A session that reads what is there now.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_pin(
    session: *mut Session,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> *mut Session {
    call(error, std::ptr::null_mut(), || {
        let held = SESSIONS.get(session)?;
        let pinned = held.objects.pin()?;
        // SAFETY: the header asks for NULL or a place for a result.
        unsafe { tell(told, || Row::default().number(Field::Version, pinned.version().0).into()) };
        Ok(SESSIONS.add(Held { store: Arc::clone(&held.store), objects: pinned.objects().clone() }))
    })
}

/// What is known of a session.
#[unsafe(no_mangle)]
pub extern "C" fn koine_session_info(session: *const Session, error: *mut *mut Error) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        let held = SESSIONS.get(session)?;
        let row = Row::default()
            .text(Field::Name, held.store.0.place().to_string())
            .number(Field::Owner, u64::from(held.store.0.is_owner()));
        Ok(Table::from(row).give())
    })
}
