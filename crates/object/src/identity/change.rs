//! Changes of the catalogue, as verbs.

use koine_kv::{Commit, Transaction};

use crate::error::{Error, Result};
use crate::local::Local;
use crate::pending::Pending;
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

/// A verb of two functions: what it needs, and what it does and tells.
struct Change<N, A, T> {
    needs: N,
    apply: A,
    outcome: Option<T>,
}

/// Begins a change.
pub(crate) fn change<T, N, A>(local: &Local, needs: N, apply: A) -> Pending<T>
where
    T: Send + 'static,
    N: Fn(&mut Rights<'_>) -> Result<()> + Send + 'static,
    A: FnMut(&mut Transaction, &CommandContext<'_>) -> Result<T> + Send + 'static,
{
    run(local, Change { needs, apply, outcome: None })
}

impl<T, N, A> Verb for Change<N, A, T>
where
    T: Send + 'static,
    N: Fn(&mut Rights<'_>) -> Result<()> + Send + 'static,
    A: FnMut(&mut Transaction, &CommandContext<'_>) -> Result<T> + Send + 'static,
{
    type Outcome = T;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        (self.needs)(rights)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<T>> {
        self.outcome = Some((self.apply)(txn, context)?);
        Ok(Applied::Changed)
    }

    fn committed(self, _local: &Local, _commit: Commit) -> Result<T> {
        self.outcome.ok_or_else(|| Error::damaged("a change ended before it began"))
    }
}
