//! Which call each verb is.
//!
//! Invariant: every call is made of `objects`, whose caller is who has logged in.

use koine_kv::Bytes;

use super::Request;
use super::held::Held;
use super::transactions::forward;
use crate::calls::field::{Rest, whole};
use crate::calls::verbs::{
    self, AtPin, BeginTransaction, CloseReader, Compose, DropWriter, EndTransaction, FinishObject, OpenReader,
    OpenVersion, OpenWriter, Pin, Read, ReaderParts, StepInTransaction, Unpin, WritePiece,
};
use crate::calls::vocabulary::*;
use crate::calls::{Bounded, Call, IdentityCalls, Lent, ObjectCalls, Source, calls, reads};
use crate::error::{Error, ErrorKind};
use crate::objects::Objects;

/// An argument as it was sent, given to a call.
macro_rules! received {
    ($arg:ident) => {
        $arg
    };
    ($arg:ident, $given:ty) => {
        <$given as Lent>::of(&$arg)
    };
}

/// How a request is answered, by the kind of the call.
macro_rules! answer {
    (Change, $request:ident, $calls:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        $request.soon::<verbs::$name>(|($($arg),*)| $calls.$method($(received!($arg $(, $given)?)),*))
    };
    (Bounded, $request:ident, $calls:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        $request.now::<verbs::$name>(|($(mut $arg),*)| {
            $(Bounded::bound(&mut $arg);)*
            $calls.$method($(received!($arg $(, $given)?)),*)
        })
    };
    (Page, $request:ident, $calls:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        answer!(Bounded, $request, $calls, $name $method, $(($arg $(, $given)?))*)
    };
    ($kind:ident, $request:ident, $calls:ident, $name:ident $method:ident, $(($arg:ident $(, $given:ty)?))*) => {
        $request.now::<verbs::$name>(|($($arg),*)| $calls.$method($(received!($arg $(, $given)?)),*))
    };
}

macro_rules! dispatch {
    ($list:ident to $trait:ident, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident $(named $named:expr)?):
        $vis:vis fn $method:ident($($arg:ident: $sent:ty $(as $given:ty)?),* $(,)?) -> $told:ty;
    )*) => {
        /// What is not one of these is given back.
        #[allow(unused_parens, reason = "one argument is no tuple")]
        fn $list(calls: &dyn $trait, request: Request) -> Option<Request> {
            match request.verb {
                $($number => answer!($kind, request, calls, $name $method, $(($arg $(, $given)?))*),)*
                _ => return Some(request),
            }
            None
        }
    };
}

calls!(objects, dispatch of_objects to ObjectCalls,);
calls!(identities, dispatch of_identities to IdentityCalls,);

/// Runs a verb.
pub(super) fn run(objects: &Objects, held: &mut Held, request: Request) {
    let rest = of_objects(objects.calls(), request)
        .and_then(|request| of_identities(objects.identities().calls(), request))
        .and_then(|request| of_streams(objects, held, request));
    if let Some(request) = rest {
        let message = format!("this server does not know verb {:#06x}: it may be older", request.verb);
        request.refuse(&Error::new(ErrorKind::Unsupported, message));
    }
}

/// The verbs of what a connection has open, and of a composition.
fn of_streams(objects: &Objects, held: &mut Held, request: Request) -> Option<Request> {
    match request.verb {
        OpenReader::VERB => request.now_with_data::<OpenReader>(|(number, name, first), _| {
            held.open_reader(number, first, || objects.get(&name.bucket, &name.key))
        }),
        OpenVersion::VERB => request.now_with_data::<OpenVersion>(|(number, name, version, first), _| {
            held.open_reader(number, first, || objects.get_version(name.as_name(), version))
        }),
        Read::VERB => {
            request.now_with_data::<Read>(|(number, offset, length), _| Ok(((), held.read(number, offset, length)?)))
        }
        CloseReader::VERB => request.now::<CloseReader>(|number| {
            held.close_reader(number);
            Ok(())
        }),
        ReaderParts::VERB => request.now::<ReaderParts>(|number| held.reader(number)?.parts()),
        OpenWriter::VERB => request.now::<OpenWriter>(|(number, writing)| held.open_writer(objects, number, writing)),
        WritePiece::VERB => request
            .now_with_data::<WritePiece>(|number, piece| held.write_piece(number, &piece).map(|()| ((), Bytes::new()))),
        // The kind of the writer says what is told.
        FinishObject::VERB => held.finish_writer(request),
        DropWriter::VERB => request.now::<DropWriter>(|number| {
            held.drop_writer(number);
            Ok(())
        }),
        Compose::VERB => request.soon::<Compose>(|(sources, to, options)| {
            let sources: Vec<_> = sources.iter().map(Source::segment).collect();
            objects.compose(&sources, to.as_name(), options)
        }),
        BeginTransaction::VERB => {
            request.now::<BeginTransaction>(|(number, name)| held.transactions.begin(objects, number, name))
        }
        StepInTransaction::VERB => forward(held, request),
        EndTransaction::VERB => held.transactions.end(request),
        Pin::VERB => request.now::<Pin>(|number| held.pin(objects, number)),
        Unpin::VERB => request.now::<Unpin>(|number| {
            held.unpin(number);
            Ok(())
        }),
        AtPin::VERB => at_pin(held, request),
        _ => return Some(request),
    }
    None
}

/// Runs the verb within as the same one, at a pinned version.
fn at_pin(held: &mut Held, request: Request) {
    let asked = whole::<<AtPin as Call>::Asked>(&request.message).and_then(|(number, verb, Rest(message))| {
        if !reads(verb) {
            let message = format!("verb {verb:#06x} is none that reads, and what is pinned can only be read");
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        Ok((held.at_pin(number)?, verb, message))
    });
    match asked {
        Ok((objects, verb, message)) => run(&objects, held, Request { verb, message: Bytes::from(message), ..request }),
        Err(error) => request.refuse(&error),
    }
}
