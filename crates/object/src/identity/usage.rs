//! How much the buckets of users and groups hold.

use super::{Identities, find};
use crate::count;
use crate::error::Result;
use crate::info::BucketUsage;
use crate::quota::{Holder, sum_of};
use crate::remote;

/// Whose buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those that this user owns.
    User(&'a str),
    /// Those of this group.
    Group(&'a str),
}

impl Identities {
    /// How much the buckets of a user or a group hold together, at this moment: a look at each of the buckets. Of a
    /// user for administrators and itself, of a group for its members too.
    pub fn usage(&self, whose: Whose<'_>) -> Result<BucketUsage> {
        if let Some(remote) = self.objects.remote() {
            let (is_group, name) = match whose {
                Whose::User(name) => (false, name),
                Whose::Group(name) => (true, name),
            };
            return remote.call::<remote::UsageOf>((is_group, name.to_owned()));
        }
        self.objects.read(
            |rights| match whose {
                Whose::User(name) => rights.administer_user(name, true),
                Whose::Group(name) => rights.see_group(name),
            },
            |view| {
                let holder = match whose {
                    Whose::User(name) => Holder::User(find::owner(view, name)?.0),
                    Whose::Group(name) => Holder::Group(find::owning_group(view, name)?),
                };
                Ok(count::told(sum_of(view, holder)?.counts))
            },
        )
    }
}
