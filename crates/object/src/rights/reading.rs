//! Reads of the local store, each for a caller who was found to be allowed it.

use std::sync::Arc;

use koine_kv::{Version, View};

use super::{Rights, ownership};
use crate::action::Action;
use crate::error::{READ_ATTEMPTS_MAX, Result, is_taken_back};
use crate::local::Local;

impl Local {
    /// Whether this caller may do something to a bucket or to an object in it, by the rules of this moment. For doors, which
    /// ask before they take in what belongs to a call; the call asks again. Where the calls run elsewhere only they ask.
    pub fn may(&self, action: Action, bucket: &str, key: Option<&str>) -> Result<()> {
        let asked = |rights: &mut Rights<'_>| match key {
            Some(key) => rights.object(action, bucket, key),
            None => rights.bucket(action, bucket),
        };
        self.read(asked, |_| Ok(()))
    }

    /// Reads at the newest version, or at the pinned one, once the caller was found to be allowed all that `needs`
    /// asks for. What is judged are the buckets and objects of the view that is read; the rules are the newest ones.
    /// Every read of this crate gets its view here; where that is taken back meanwhile, as with a connection that is lost, all
    /// of it is read again at the newest version.
    pub(crate) fn read<T>(
        &self,
        mut needs: impl FnMut(&mut Rights<'_>) -> Result<()>,
        mut read: impl FnMut(&mut Arc<dyn View>) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 1;
        loop {
            match self.read_once(&mut needs, &mut read) {
                Err(error) if !self.is_pinned() && is_taken_back(&error) && attempts < READ_ATTEMPTS_MAX => {
                    attempts += 1;
                }
                done => return done,
            }
        }
    }

    fn read_once<T>(
        &self,
        needs: &mut impl FnMut(&mut Rights<'_>) -> Result<()>,
        read: &mut impl FnMut(&mut Arc<dyn View>) -> Result<T>,
    ) -> Result<T> {
        let newest = || self.kv().view();
        let mut view = self.pinned_view().cloned().map_or_else(newest, Ok)?;
        ownership::check_expected(&mut view, self.circumstances())?;
        if self.caller().is_owner() {
            return read(&mut view);
        }
        let mut rules = if self.is_pinned() { newest()? } else { Arc::clone(&view) };
        let mut rights = Rights::new(&mut rules, self);
        if let Some(pinned) = self.pinned_view() {
            rights = rights.of_what_is_in(Arc::clone(pinned));
        }
        needs(&mut rights)?;
        read(&mut view).map_err(|error| rights.hide(error))
    }

    /// Asks by the rules of this moment, for what goes on being read from `view`. `judged` is the version whose rules
    /// were asked last: they are not asked again before there is a newer one.
    pub(crate) fn ask_again(
        &self,
        view: &Arc<dyn View>,
        judged: &mut Version,
        needs: impl FnOnce(&mut Rights<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.caller().is_owner() {
            return Ok(());
        }
        let mut rules = self.kv().view()?;
        if rules.version() == *judged {
            return Ok(());
        }
        let newest = rules.version();
        needs(&mut Rights::new(&mut rules, self).of_what_is_in(Arc::clone(view)))?;
        *judged = newest;
        Ok(())
    }
}
