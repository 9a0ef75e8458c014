//! The calls of the table, asked of the other side.
//!
//! Invariant: a change that has a request id is asked for with it, so that a lost connection does not lose its outcome.

use super::Remote;
use crate::calls::vocabulary::*;
use crate::calls::{IdentityCalls, Lent, ObjectCalls, calls, given, outcome, verbs};

/// What is sent of an argument.
macro_rules! sent {
    ($arg:ident) => {
        $arg
    };
    ($arg:ident, $given:ty) => {
        <$given as Lent>::to_sent($arg)
    };
}

/// What a call does, by its kind.
macro_rules! ask {
    (Page, $remote:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        Remote::$method($remote, $($arg),*)
    };
    (Change, $remote:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        $remote.begin::<verbs::$name>(($(sent!($arg $(, $given)?)),*))
    };
    (Change named $named:expr, $remote:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {{
        let named = $named;
        $remote.begin_named::<verbs::$name>(($(sent!($arg $(, $given)?)),*), named)
    }};
    ($kind:ident, $remote:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        $remote.call::<verbs::$name>(($(sent!($arg $(, $given)?)),*))
    };
}

macro_rules! implement {
    ($trait:ident, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident $(named $named:expr)?):
        $vis:vis fn $method:ident($($arg:ident: $sent:ty $(as $given:ty)?),* $(,)?) -> $told:ty;
    )*) => {
        impl $trait for Remote {
            $(
                fn $method(&self, $($arg: given!($sent $(, $given)?)),*) -> outcome!($kind, $told) {
                    let remote = self;
                    ask!($kind $(named $named)?, remote, $name $method, $(($arg $(, $given)?))*)
                }
            )*
        }
    };
}

calls!(objects, implement ObjectCalls,);
calls!(identities, implement IdentityCalls,);
