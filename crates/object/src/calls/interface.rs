//! The traits of calls, made of the table. Two implement them: the local store, and the client of a store elsewhere.

use super::table::calls;
use super::vocabulary::*;

/// How a call takes an argument: as it is sent, or by reference.
macro_rules! given {
    ($sent:ty) => {
        $sent
    };
    ($sent:ty, $given:ty) => {
        $given
    };
}

/// What a call gives: a change may be waited for, or not.
macro_rules! outcome {
    (Change, $told:ty) => { Pending<$told> };
    ($kind:ident, $told:ty) => { Result<$told> };
}

pub(crate) use {given, outcome};

macro_rules! declare {
    ($trait:ident, $what:literal, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident $(named $named:expr)?):
        $vis:vis fn $method:ident($($arg:ident: $sent:ty $(as $given:ty)?),* $(,)?) -> $told:ty;
    )*) => {
        #[doc = $what]
        pub(crate) trait $trait {
            $(
                $(#[$doc])*
                fn $method(&self, $($arg: given!($sent $(, $given)?)),*) -> outcome!($kind, $told);
            )*
        }
    };
}

calls!(objects, declare ObjectCalls, "The calls on buckets and objects.",);
calls!(identities, declare IdentityCalls, "The calls on groups, users and rights.",);
