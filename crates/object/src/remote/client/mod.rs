//! The other end: the calls of [`Objects`], asked of who has the store.
//!
//! Invariants:
//! - A call fails with the kind and the words that it would fail with where the store is.
//! - Requests of one thread reach the server in their order, so that who has an answer sees in the next one what it told.

mod listing;
mod reader;
mod transaction;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_kv::wire::{Answer, ClientOptions, Key, WireVerbs, letting_go};
use koine_kv::{Bytes, Version};

use super::PROTOCOL;
use super::calls::{AtPin, Call, Greet, LogInBy, LogOut, LoggedIn, Pin, Proof, Unpin, WhoAmI};
use super::errors::above;
use super::field::{Field, Rest, message, whole};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Login, Token};
use crate::objects::Objects;
use crate::pending::{Pending, Step};

pub(crate) use self::reader::RemoteReader;
pub(crate) use self::transaction::{RemoteBody, RemoteTransaction};
pub(crate) use self::writer::RemoteWriter;

/// What a client shows to get in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LogIn {
    /// Whoever the server takes this user of the machine for, which may be nobody yet.
    Later,
    /// Nothing: who it is on this machine.
    Peer,
    /// A token.
    Token(Token),
    /// A name and its password; the token that is made for it lasts so long.
    Password(String, crate::identity::Password, Duration),
}

/// A connection to the objects of a store that another process has, or a pinned version of it.
pub(crate) struct Remote {
    link: Arc<WireVerbs>,
    /// Of readers, writers, transactions and pinned versions.
    numbers: Arc<AtomicU64>,
    /// The pinned version that all is read at; unpinned when this is dropped.
    pin: Option<u64>,
}

impl Remote {
    /// A number for a reader or a writer.
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Where the store is.
    pub fn place(&self) -> &str {
        self.link.place()
    }

    /// Asks, and goes on.
    fn ask<C: Call>(&self, asked: &C::Asked, data: &[u8]) -> Result<Answer> {
        let Some(pin) = self.pin else {
            return self.link.ask(C::VERB, &message(asked), data).map_err(above);
        };
        let within = message(&(pin, C::VERB, Rest(message(asked))));
        self.link.ask(AtPin::VERB, &within, data).map_err(above)
    }

    /// Pins the newest version: the same connection, which reads that one.
    pub fn pin(&self) -> Result<(Remote, Version)> {
        let number = self.next_number();
        let version = self.call::<Pin>(number)?;
        Ok((Remote { link: Arc::clone(&self.link), numbers: Arc::clone(&self.numbers), pin: Some(number) }, version))
    }

    /// Asks, and waits for the answer.
    pub fn call<C: Call>(&self, asked: C::Asked) -> Result<C::Told> {
        self.call_for_data::<C>(asked).map(|(told, _)| told)
    }

    /// The same where data comes with it.
    fn call_for_data<C: Call>(&self, asked: C::Asked) -> Result<(C::Told, Bytes)> {
        told::<C::Told>(self.ask::<C>(&asked, &[])?.wait())
    }

    /// Asks, and tells when the answer is there.
    pub fn begin<C: Call>(&self, asked: C::Asked) -> Pending<C::Told> {
        self.begin_with::<C>(asked, &[])
    }

    fn begin_with<C: Call>(&self, asked: C::Asked, data: &[u8]) -> Pending<C::Told> {
        match self.ask::<C>(&asked, data) {
            Ok(answer) => Pending::new(Step::Asked(
                answer,
                Box::new(|answer| Step::Done(told::<C::Told>(answer).map(|(told, _)| told))),
            )),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(number) = self.pin.take() {
            // Where the connection is gone so is what it had pinned.
            let _gone = letting_go(|| self.ask::<Unpin>(&number, &[]));
        }
    }
}

fn told<T: Field>(answer: koine_kv::Result<(Bytes, Bytes)>) -> Result<(T, Bytes)> {
    let (message, data) = answer.map_err(above)?;
    Ok((whole(&message)?, data))
}

impl Remote {
    /// Logs in by name and password; from then on the calls are made as this user.
    pub fn log_in(&self, name: &str, password: &str, life: Duration) -> Result<Login> {
        let proof = Proof::Password(name.to_owned(), password.to_owned(), life.as_secs());
        let LoggedIn { user, token } = self.call::<LogInBy>(proof)?;
        let (token, expires) = token.ok_or_else(|| super::field::malformed("a log in without a token"))?;
        Ok(Login { user, token: Token::new(token), expires })
    }

    /// Logs in by a token.
    pub fn log_in_by(&self, token: &Token) -> Result<()> {
        self.call::<LogInBy>(Proof::Token(token.expose().to_owned())).map(drop)
    }

    /// Takes a token back.
    pub fn log_out(&self, token: &Token) -> Pending<()> {
        self.begin::<LogOut>(Some(token.expose().to_owned()))
    }
}

/// The objects of a store that another process has, asked for over its wire.
///
/// [`objects`](RemoteObjects::objects) has the calls. They run where the store is, as who has logged in here.
#[derive(Clone)]
pub struct RemoteObjects {
    remote: Arc<Remote>,
}

impl RemoteObjects {
    /// To a socket on this machine (`STORE.objects.sock`). The server must be of this user, of root, or of `owner`, who is
    /// known to have the store.
    pub fn connect_unix(socket: &Path, owner: Option<u32>, options: &ClientOptions) -> Result<Self> {
        RemoteObjects::over(WireVerbs::connect_unix(socket, owner, options).map_err(above)?)
    }

    /// To a server over TCP that knows the same key. `address` is a host and a port.
    pub fn connect_tcp(address: &str, key: &Key, options: &ClientOptions) -> Result<Self> {
        RemoteObjects::over(WireVerbs::connect_tcp(address, key, options).map_err(above)?)
    }

    fn over(link: WireVerbs) -> Result<Self> {
        let remote = Remote { link: Arc::new(link), numbers: Arc::new(AtomicU64::new(1)), pin: None };
        let (protocol, _) = remote.call::<Greet>(PROTOCOL)?;
        if protocol != PROTOCOL {
            let message = format!(
                "the server at {} speaks protocol {protocol} for objects, this program {PROTOCOL}: use one version for both",
                remote.place()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(RemoteObjects { remote: Arc::new(remote) })
    }

    /// Logs in; the name of who that is, and the token where one was made. From then on the calls are made as this user.
    pub fn log_in(&self, how: &LogIn) -> Result<(String, Option<Login>)> {
        let proof = match how {
            LogIn::Peer => {
                let message = "this user of the machine is no user of the store: log in with a token, or a name and password (koine user login)";
                let user = self.who()?.ok_or_else(|| Error::new(ErrorKind::LogInFailed, message))?;
                return Ok((user, None));
            }
            LogIn::Later => return Ok((self.who()?.unwrap_or_default(), None)),
            LogIn::Token(token) => Proof::Token(token.expose().to_owned()),
            LogIn::Password(name, password, life) => {
                Proof::Password(name.clone(), password.expose().to_owned(), life.as_secs())
            }
        };
        let LoggedIn { user, token } = self.remote.call::<LogInBy>(proof)?;
        let login = token.map(|(token, expires)| Login { user: user.clone(), token: Token::new(token), expires });
        Ok((user, login))
    }

    /// Who has logged in here.
    pub fn who(&self) -> Result<Option<String>> {
        self.remote.call::<WhoAmI>(())
    }

    /// Takes back the token by which it was logged in, and is nobody from then on.
    pub fn log_out(&self) -> Result<()> {
        self.remote.call::<LogOut>(None)
    }

    /// The buckets and objects.
    pub fn objects(&self) -> Objects {
        Objects::elsewhere(Arc::clone(&self.remote))
    }

    /// Ends the connection: later calls fail, and the log in is over.
    pub fn close(&self) {
        self.remote.link.close();
    }
}

impl std::fmt::Debug for RemoteObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteObjects({})", self.remote.place())
    }
}
