//! The calls of the table: as the local store makes them, and as methods of [`Objects`] and [`Identities`].

use super::{Identities, Objects};
use crate::calls::vocabulary::*;
use crate::calls::{IdentityCalls, ObjectCalls, calls, given, outcome};
use crate::identity::LocalIdentities;
use crate::local::Local;
#[cfg(doc)]
use crate::request::{COPY_PREFIX_BATCH, DELETE_MANY_MAX};

macro_rules! make {
    ($trait:ident for $local:ident, shown by $face:ident, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident $(named $named:expr)?):
        $vis:vis fn $method:ident($($arg:ident: $sent:ty $(as $given:ty)?),* $(,)?) -> $told:ty;
    )*) => {
        impl $trait for $local {
            $(
                fn $method(&self, $($arg: given!($sent $(, $given)?)),*) -> outcome!($kind, $told) {
                    $local::$method(self, $($arg),*)
                }
            )*
        }

        impl $face {
            $(
                $(#[$doc])*
                $vis fn $method(&self, $($arg: given!($sent $(, $given)?)),*) -> outcome!($kind, $told) {
                    self.calls().$method($($arg),*)
                }
            )*
        }
    };
}

calls!(objects, make ObjectCalls for Local, shown by Objects,);
calls!(identities, make IdentityCalls for LocalIdentities, shown by Identities,);
