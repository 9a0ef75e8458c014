//! What a client shows on each connection: who it was on the one before it is on the next.
//!
//! Invariant: no connection is used before both sides speak one protocol and the log in of the last one holds there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koine_kv::wire::{BeginChannel, Channel};

use super::{Remote, told};
use crate::calls::errors::below;
use crate::calls::field::message;
use crate::calls::verbs::{Greet, LogInBy};
use crate::calls::{Call, LoggedIn, PROTOCOL, Proof};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Login, Token};

/// The token by which was logged in, if by one.
#[derive(Default)]
pub(super) struct Shown(Mutex<Option<Token>>);

impl Shown {
    fn token(&self) -> MutexGuard<'_, Option<Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is said on every connection.
    pub fn begin(this: &Arc<Shown>) -> BeginChannel {
        let shown = Arc::clone(this);
        Box::new(move |channel| shown.greet(channel).map_err(|error| below(&error)))
    }

    fn greet(&self, channel: &Channel) -> Result<()> {
        let ((protocol, _), _) = ask::<Greet>(channel, &PROTOCOL)?;
        if protocol != PROTOCOL {
            let message = format!(
                "the server at {} speaks protocol {protocol} for objects, this program {PROTOCOL}: use one version for both",
                channel.place()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let token = self.token().clone();
        if let Some(token) = token {
            ask::<LogInBy>(channel, &Proof::Token(token.expose().to_owned()))?;
        }
        Ok(())
    }

    /// Logs in: who that is, and the token where one was made.
    pub fn log_in(&self, remote: &Remote, proof: Proof) -> Result<(String, Option<Login>)> {
        let shown = match &proof {
            Proof::Token(token) => Some(Token::new(token.clone())),
            Proof::Password(..) => None,
        };
        let LoggedIn { user, token } = remote.call::<LogInBy>(proof)?;
        let login = token.map(|(token, expires)| Login { user: user.clone(), token: Token::new(token), expires });
        *self.token() = login.as_ref().map(|login| login.token.clone()).or(shown);
        Ok((user, login))
    }

    /// A token is shown no more, or whichever it was.
    pub fn forget(&self, token: Option<&Token>) {
        let mut shown = self.token();
        if token.is_none() || shown.as_ref() == token {
            *shown = None;
        }
    }
}

fn ask<C: Call>(channel: &Channel, asked: &C::Asked) -> Result<(C::Told, koine_kv::Bytes)> {
    let answer = channel.ask(C::VERB, &message(asked), &[]).map_err(crate::calls::errors::above)?;
    told(answer.wait())
}
