//! The owner's end: a conversation for each connection, which runs its verbs as who has logged in.
//!
//! Invariants:
//! - Before the log in nothing but greeting and logging in is done, and nothing of the store is told.
//! - The verbs of a connection run on its own thread, one behind the other: who asks for much, or reads slowly, holds up
//!   nobody else.
//! - What a connection holds is bounded: [`READERS_MAX`](held::READERS_MAX), [`WRITERS_MAX`](held::WRITERS_MAX),
//!   [`PINS_MAX`](crate::calls::PINS_MAX), and the bytes of bodies on their way ([`Loads`]).

mod dispatch;
mod held;
mod load;
mod transactions;

use std::time::Duration;

use koine_kv::wire::{Conversation, Handler, Peer, Responder, ServerOptions};
use koine_kv::{Bytes, Error as KvError};

use self::held::Held;
use self::load::Loads;
use crate::attempts::LogInPeer;
use crate::caller::{Caller, Circumstances};
use crate::calls::errors::below;
use crate::calls::field::{Field, message, whole};
use crate::calls::verbs::{Greet, LogInBy, LogOut, WhoAmI};
use crate::calls::{Call, LoggedIn, PROTOCOL, Proof};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Token;
use crate::objects::Objects;
use crate::pending::Pending;

/// The longest message that is told.
const TOLD_LEN_MAX: usize = 16 << 20;

/// The verbs of objects, for a [`Server`](koine_kv::wire::Server).
pub struct ObjectVerbs {
    objects: Objects,
    loads: Loads,
}

impl ObjectVerbs {
    /// Over a store that this process has open. Nothing is done with `objects` as it is: each call is made as who has
    /// logged in.
    pub fn new(objects: Objects) -> Self {
        ObjectVerbs { objects: objects.as_caller(Caller::Everyone), loads: Loads::new() }
    }

    /// What a server of these verbs alone allows.
    pub fn server_options() -> ServerOptions {
        ServerOptions {
            connections_max: 64,
            connections_each_max: 16,
            in_flight_max: 256,
            handles_max: 0,
            staging_len_max: 0,
            waiting_len_max: 4 << 20,
            ..ServerOptions::default()
        }
    }
}

impl Handler for ObjectVerbs {
    fn begin(&self, peer: &Peer) -> Box<dyn Conversation> {
        let (mut objects, mut uid, mut from) = (self.objects.clone(), None, LogInPeer::Here);
        match peer {
            Peer::Local { uid: who, .. } => (uid, from) = (Some(*who), LogInPeer::Uid(*who)),
            Peer::Remote { address } => {
                let address = address.parse().ok().map(|address: std::net::SocketAddr| address.ip());
                from = address.map_or(from, LogInPeer::Address);
                objects = objects.under(Circumstances { address, encrypted: Some(false), ..Circumstances::default() });
            }
        }
        let held = Held::new(self.loads.of(peer));
        let mut session = Session { objects, from, user: None, held };
        // Where the store cannot be asked, nobody is known; a log in tells why.
        if let Some(caller) = uid.and_then(|uid| session.objects.identities().by_uid(uid).ok().flatten()) {
            let _unknown = session.let_in(caller, None);
        }
        Box::new(session)
    }
}

/// One connection.
struct Session {
    /// As nobody.
    objects: Objects,
    /// Whom wrong passwords delay.
    from: LogInPeer,
    user: Option<User>,
    held: Held,
}

/// Who has logged in.
struct User {
    name: String,
    objects: Objects,
    token: Option<Token>,
}

/// A verb that was asked for.
pub(super) struct Request {
    verb: u16,
    message: Bytes,
    data: Bytes,
    answer: Responder,
}

impl Request {
    /// Whether this is it.
    fn is<C: Call>(&self) -> bool {
        self.verb == C::VERB
    }

    /// Does it.
    fn now<C: Call>(self, work: impl FnOnce(C::Asked) -> Result<C::Told>) {
        self.now_with_data::<C>(|asked, _| work(asked).map(|told| (told, Bytes::new())));
    }

    /// The same where data goes with it.
    fn now_with_data<C: Call>(self, work: impl FnOnce(C::Asked, Bytes) -> Result<(C::Told, Bytes)>) {
        let told = whole(&self.message).and_then(|asked| work(asked, self.data));
        self.answer.answer(told.and_then(|(told, data)| Ok((short(message(&told))?, data))).map_err(|e| below(&e)));
    }

    /// Begins it; whoever completes it tells.
    fn soon<C: Call>(self, work: impl FnOnce(C::Asked) -> Pending<C::Told>) {
        match whole(&self.message) {
            Ok(asked) => tell_when_done(work(asked), self.answer),
            Err(error) => self.answer.tell(Err(below(&error))),
        }
    }

    fn refuse(self, error: &Error) {
        self.answer.tell(Err(below(error)));
    }
}

/// Tells what becomes of something.
fn tell_when_done<T: Field + Send + 'static>(pending: Pending<T>, answer: Responder) {
    pending.on_done(move |outcome| {
        let told = outcome.and_then(|told| short(message(&told)));
        answer.tell(told.map_err(|error| -> KvError { below(&error) }));
    });
}

/// Refuses what no client would take.
fn short(message: Vec<u8>) -> Result<Vec<u8>> {
    if message.len() > TOLD_LEN_MAX {
        let text =
            format!("the answer would have {} bytes; {TOLD_LEN_MAX} are told at once: ask for less", message.len());
        return Err(Error::new(ErrorKind::InvalidRequest, text));
    }
    Ok(message)
}

impl Conversation for Session {
    fn is_known(&self) -> bool {
        self.user.is_some()
    }

    fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    fn handle(&mut self, verb: u16, message: Bytes, data: Bytes, answer: Responder) {
        let request = Request { verb, message, data, answer };
        if request.is::<Greet>() {
            let user = self.user.as_ref().map(|user| user.name.clone());
            return request.now::<Greet>(|_| Ok((PROTOCOL, user)));
        }
        if request.is::<WhoAmI>() {
            return request.now::<WhoAmI>(|()| Ok(self.user.as_ref().map(|user| user.name.clone())));
        }
        if request.is::<LogInBy>() {
            return request.now::<LogInBy>(|proof| self.log_in(proof));
        }
        if request.is::<LogOut>() {
            return request.now::<LogOut>(|token| self.log_out(token.map(Token::new)));
        }
        match &self.user {
            Some(user) => dispatch::run(&user.objects, &mut self.held, request),
            None => request.refuse(&Error::new(
                ErrorKind::AccessDenied,
                "nobody has logged in, and this user of the machine is no user of the store: log in with a token (koine user login gives one)",
            )),
        }
    }
}

impl Session {
    fn log_in(&mut self, proof: Proof) -> Result<LoggedIn> {
        let identities = self.objects.identities();
        let (token, made) = match proof {
            Proof::Token(text) => (Token::new(text), None),
            Proof::Password(name, password, seconds) => {
                let login = identities.log_in_of(self.from, &name, &password, Duration::from_secs(seconds))?;
                (login.token.clone(), Some((login.token.expose().to_owned(), login.expires)))
            }
        };
        let caller = identities.by_token(&token)?;
        let user = self.let_in(caller, Some(token))?;
        Ok(LoggedIn { user, token: made })
    }

    /// From now on calls are made as this one. What another one had open is closed.
    fn let_in(&mut self, caller: Caller, token: Option<Token>) -> Result<String> {
        let objects = self.objects.as_caller(caller);
        let name = objects.identities().own_name()?;
        self.held.clear();
        self.user = Some(User { name: name.clone(), objects, token });
        Ok(name)
    }

    /// Whoever has a token may take it back. Who has logged in by it is nobody from then on.
    fn log_out(&mut self, token: Option<Token>) -> Result<()> {
        let is_own = token.is_none() || self.user.as_ref().is_some_and(|user| user.token == token);
        let own = if is_own { self.user.take().and_then(|user| user.token) } else { None };
        if is_own {
            self.held.clear();
        }
        token.or(own).map_or(Ok(()), |token| self.objects.identities().log_out(&token).wait())
    }
}
