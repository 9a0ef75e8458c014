//! How much the buckets of users and groups hold.

use crate::accounts::find;
use crate::count;
use crate::error::Result;
use crate::identity::LocalIdentities;
use crate::info::BucketUsage;
use crate::quota::sum_of;
use crate::sums::Holder;

/// Whose buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those that this user owns.
    User(&'a str),
    /// Those of this group.
    Group(&'a str),
}

impl LocalIdentities {
    pub fn usage(&self, whose: Whose<'_>) -> Result<BucketUsage> {
        self.local.read(
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
