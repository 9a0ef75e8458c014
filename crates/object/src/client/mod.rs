//! The other end: the calls of [`Objects`](crate::Objects), asked of who has the store.
//!
//! Invariants:
//! - A call fails with the kind and the words that it would fail with where the store is.
//! - Requests of one thread reach the server in their order, so that who has an answer sees in the next one what it told.
//! - Where the connection is lost the next call makes another one, and logs in there as before. Calls that read are asked for
//!   again; those that change something only where they have a request id. What was open on the connection says that it is
//!   lost, and what to do.

mod calls;
mod listing;
mod reader;
mod shown;
mod transaction;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_kv::wire::{Answer, Channel, ClientOptions, Key, Timeouts, WireVerbs};
use koine_kv::{Bytes, Error as KvError, ErrorKind as KvErrorKind, RequestId, Version};

use self::shown::Shown;
use crate::calls::errors::above;
use crate::calls::field::{Field, Rest, malformed, message, whole};
use crate::calls::verbs::{AtPin, LogOut, Pin, Unpin, WhoAmI};
use crate::calls::{Call, Proof};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Login, Token};
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

/// A way to the objects of a store that another process has, or a pinned version of it.
pub(crate) struct Remote {
    link: Arc<WireVerbs>,
    place: Arc<str>,
    /// Of readers, writers, transactions and pinned versions.
    numbers: Arc<AtomicU64>,
    /// By what each connection logs in.
    shown: Arc<Shown>,
    /// The pinned version that all is read at; unpinned when this is dropped.
    pin: Option<(Channel, u64)>,
}

/// Something that was opened on a connection: what was told, the data beside it, and where it is.
type Opened<T> = (Channel, T, Bytes);

impl Remote {
    /// A number for a reader or a writer.
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Where the store is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is sent for a verb: as it is, or within what reads at the pinned version.
    fn request<C: Call>(&self, asked: &C::Asked) -> (u16, Vec<u8>) {
        match &self.pin {
            None => (C::VERB, message(asked)),
            Some((_, pin)) => (AtPin::VERB, message(&(*pin, C::VERB, Rest(message(asked))))),
        }
    }

    /// The connection for something that is asked for once; of a pinned version its own.
    fn channel(&self) -> Result<Channel> {
        match &self.pin {
            None => self.link.channel().map_err(above),
            Some((channel, _)) => Ok(channel.clone()),
        }
    }

    /// Pins the newest version: the same server, of which that one is read.
    pub fn pin(&self) -> Result<(Remote, Version)> {
        let number = self.next_number();
        let (channel, version, _) = self.open::<Pin>(number)?;
        let (link, place) = (Arc::clone(&self.link), Arc::clone(&self.place));
        let (numbers, shown) = (Arc::clone(&self.numbers), Arc::clone(&self.shown));
        Ok((Remote { link, place, numbers, shown, pin: Some((channel, number)) }, version))
    }

    /// Asks, and waits for the answer.
    pub fn call<C: Call>(&self, asked: C::Asked) -> Result<C::Told> {
        if C::KIND.reads() {
            return self.open::<C>(asked).map(|(_, told, _)| told);
        }
        Error::check_patience()?;
        let (verb, message) = self.request::<C>(&asked);
        let answer = self.channel()?.ask(verb, &message, &[]).map_err(above)?;
        told::<C::Told>(answer.wait_beyond(C::KIND.time_beyond())).map(|(told, _)| told)
    }

    /// Asks for what a second time does no harm, and waits: again where the connection is lost.
    fn open<C: Call>(&self, asked: C::Asked) -> Result<Opened<C::Told>> {
        let (verb, message) = self.request::<C>(&asked);
        let ask = |channel: &Channel| {
            let answer = channel.ask(verb, &message, &[])?.wait_beyond(C::KIND.time_beyond())?;
            Ok((channel.clone(), answer))
        };
        let (channel, answer) = match &self.pin {
            None => self.link.repeat(ask).map_err(above)?,
            Some((channel, _)) => ask(channel).map_err(|error| {
                lost(channel, error, ErrorKind::Expired, "the version that was pinned went with it: pin the newest one")
            })?,
        };
        let (told, data) = told::<C::Told>(Ok(answer))?;
        Ok((channel, told, data))
    }

    /// Asks for a change, and tells when the answer is there.
    pub fn begin<C: Call>(&self, asked: C::Asked) -> Pending<C::Told> {
        self.begin_named::<C>(asked, None)
    }

    /// The same of a change that may have a request id: then it is asked for again where the connection is lost.
    pub fn begin_named<C: Call>(&self, asked: C::Asked, named: Option<RequestId>) -> Pending<C::Told> {
        if let Err(error) = Error::check_patience() {
            return Pending::ready(Err(error));
        }
        let (verb, message) = self.request::<C>(&asked);
        let answer = self.channel().and_then(|channel| channel.ask(verb, &message, &[]).map_err(above));
        let again = named.map(|_| (Arc::clone(&self.link), message));
        match answer {
            Ok(answer) => pending(answer, move |answer| match (answer, again) {
                (Err(error), Some((link, message))) if is_loss(&error) => {
                    told(link.repeat(|channel| channel.ask(verb, &message, &[])?.wait()))
                }
                (answer, _) => told(answer),
            }),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some((channel, number)) = self.pin.take() {
            // Where the connection is gone so is what it had pinned.
            let _gone = channel.ask(Unpin::VERB, &message(&number), &[]);
        }
    }
}

fn pending<T: Field + Send + 'static>(
    answer: Answer,
    take: impl FnOnce(koine_kv::Result<(Bytes, Bytes)>) -> Result<(T, Bytes)> + Send + 'static,
) -> Pending<T> {
    Pending::new(Step::Asked(answer, Box::new(|answer| Step::Done(take(answer).map(|(told, _)| told)))))
}

fn told<T: Field>(answer: koine_kv::Result<(Bytes, Bytes)>) -> Result<(T, Bytes)> {
    let (message, data) = answer.map_err(above)?;
    Ok((whole(&message)?, data))
}

/// Whether an error of the wire is that the connection, or the server, goes away.
fn is_loss(error: &KvError) -> bool {
    error.kind() == KvErrorKind::Disconnected
}

/// An error of something that was open on a connection: where that was lost, what went with it.
fn lost(channel: &Channel, error: KvError, kind: ErrorKind, what: &str) -> Error {
    if is_loss(&error) {
        return Error::new(kind, format!("the connection to the server at {} was lost, and {what}", channel.place()));
    }
    above(error)
}

impl Remote {
    /// Logs in by name and password; from then on the calls are made as this user.
    pub fn log_in(&self, name: &str, password: &str, life: Duration) -> Result<Login> {
        let (user, login) =
            self.shown.log_in(self, Proof::Password(name.to_owned(), password.to_owned(), life.as_secs()))?;
        login.ok_or_else(|| malformed(format!("a log in of {user} without a token")))
    }

    /// Logs in by a token.
    pub fn log_in_by(&self, token: &Token) -> Result<()> {
        self.shown.log_in(self, Proof::Token(token.expose().to_owned())).map(drop)
    }

    /// Takes a token back.
    pub fn log_out(&self, token: &Token) -> Pending<()> {
        self.shown.forget(Some(token));
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
    pub fn connect_unix(socket: &Path, owner: Option<u32>, timeouts: Timeouts) -> Result<Self> {
        let (options, shown) = (ClientOptions { timeouts, ..ClientOptions::default() }, Arc::new(Shown::default()));
        let begin = Some(Shown::begin(&shown));
        RemoteObjects::over(WireVerbs::connect_unix(socket, owner, &options, begin).map_err(above)?, shown)
    }

    /// To a server over TCP that knows the same key. `address` is a host and a port.
    pub fn connect_tcp(address: &str, key: &Key, timeouts: Timeouts) -> Result<Self> {
        let (options, shown) = (ClientOptions { timeouts, ..ClientOptions::default() }, Arc::new(Shown::default()));
        let begin = Some(Shown::begin(&shown));
        RemoteObjects::over(WireVerbs::connect_tcp(address, key, &options, begin).map_err(above)?, shown)
    }

    fn over(link: WireVerbs, shown: Arc<Shown>) -> Result<Self> {
        let place = Arc::from(link.place());
        let remote = Remote { link: Arc::new(link), place, numbers: Arc::new(AtomicU64::new(1)), shown, pin: None };
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
        self.remote.shown.log_in(&self.remote, proof)
    }

    /// Who has logged in here.
    pub fn who(&self) -> Result<Option<String>> {
        self.remote.call::<WhoAmI>(())
    }

    /// Takes back the token by which it was logged in, and is nobody from then on.
    pub fn log_out(&self) -> Result<()> {
        self.remote.shown.forget(None);
        self.remote.call::<LogOut>(None)
    }

    /// The way to them.
    pub(crate) fn remote(&self) -> &Arc<Remote> {
        &self.remote
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
