//! Fields of messages: little-endian numbers, texts and lists with their length in front.
//!
//! Invariant: what is taken never reaches past the message, and no more is reserved than the message can hold.

use crate::error::{Error, ErrorKind, Result};

/// What can stand in a message.
pub(crate) trait Field: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes it from the front.
    fn take(from: &mut Taken<'_>) -> Result<Self>;
}

/// What is left of a message.
pub(crate) struct Taken<'m>(&'m [u8]);

/// A message that is not what its verb wants.
pub(crate) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("a message of the wire cannot be understood: {what}"))
}

/// The message of a field.
pub(crate) fn message<T: Field>(field: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    field.put(&mut out);
    out
}

/// The field that a message is, with nothing behind it.
pub(crate) fn whole<T: Field>(message: &[u8]) -> Result<T> {
    let mut from = Taken(message);
    let field = T::take(&mut from)?;
    if !from.0.is_empty() {
        return Err(malformed(format!("{} bytes behind its end", from.0.len())));
    }
    Ok(field)
}

impl<'m> Taken<'m> {
    fn bytes(&mut self, length: usize) -> Result<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| malformed("a field reaches past its end"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.bytes(N)?;
        taken.first_chunk::<N>().copied().ok_or_else(|| malformed("a field is too short"))
    }

    /// One byte, of something that has so few kinds.
    pub fn tag(&mut self) -> Result<u8> {
        u8::take(self)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Taken<'_>) -> Result<Self> {
                Ok(<$number>::from_le_bytes(from.array()?))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

/// Eight bytes; more than this machine can count is as much as it can.
impl Field for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        Ok(usize::try_from(u64::take(from)?).unwrap_or(usize::MAX))
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        match from.tag()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(malformed(format!("{other} where 0 or 1 is wanted"))),
        }
    }
}

/// All that is left of a message: the message of another verb.
pub(crate) struct Rest(pub Vec<u8>);

impl Field for Rest {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        Ok(Rest(std::mem::take(&mut from.0).to_vec()))
    }
}

impl Field for () {
    fn put(&self, _out: &mut Vec<u8>) {}

    fn take(_from: &mut Taken<'_>) -> Result<Self> {
        Ok(())
    }
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        from.array()
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        let length = u32::take(from)? as usize;
        let text = std::str::from_utf8(from.bytes(length)?);
        text.map(str::to_owned).map_err(|_| malformed("a text that is not UTF-8"))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|field| field.put(out));
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|field| field.put(out));
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        let count = u32::take(from)? as usize;
        // Each has a byte at least: a count that the message cannot hold reserves nothing.
        if count > from.0.len() {
            return Err(malformed("a list longer than its message"));
        }
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(T::take(from)?);
        }
        Ok(list)
    }
}

impl<T: Field> Field for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        T::take(from).map(Box::new)
    }
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: Field),+> Field for ($($name,)+) {
            #[allow(non_snake_case, reason = "named as their types")]
            fn put(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.put(out);)+
            }

            fn take(from: &mut Taken<'_>) -> Result<Self> {
                Ok(($($name::take(from)?,)+))
            }
        }
    };
}

tuples!(A);
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);
tuples!(A, B, C, D, E);
tuples!(A, B, C, D, E, F);

/// A structure whose fields stand one behind the other, in this order.
macro_rules! structures {
    ($($name:ty { $($field:ident),* $(,)? })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                // All of them: a field that is new has to be told too.
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }

            fn take(from: &mut Taken<'_>) -> Result<Self> {
                Ok(Self { $($field: Field::take(from)?),* })
            }
        }
    )*};
}

/// A structure around one field.
macro_rules! wrappers {
    ($($name:ident),* $(,)?) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(from: &mut Taken<'_>) -> Result<Self> {
                Field::take(from).map($name)
            }
        }
    )*};
}

/// One of several, told by a number; those with a field have it behind the number.
macro_rules! choices {
    ($($name:ident { $($number:literal $kind:ident $(($($inner:ident),+))? $({ $($field:ident),+ })?),* $(,)? })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$kind $(($($inner),+))? $({ $($field),+ })? => {
                        out.push($number);
                        $($($inner.put(out);)+)?
                        $($($field.put(out);)+)?
                    })*
                }
            }

            fn take(from: &mut Taken<'_>) -> Result<Self> {
                match from.tag()? {
                    $($number => {
                        $($(let $inner = Field::take(from)?;)+)?
                        $($(let $field = Field::take(from)?;)+)?
                        Ok($name::$kind $(($($inner),+))? $({ $($field),+ })?)
                    })*
                    other => Err(malformed(format!("{} {other}", stringify!($name)))),
                }
            }
        }
    )*};
}

pub(crate) use {choices, structures, wrappers};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_and_nothing_else_is() {
        let field = (7u64, "text".to_owned(), Some(vec![(1u32, true)]), None::<u8>, [9u8; 3], usize::MAX);
        let bytes = message(&field);
        assert_eq!(
            whole::<(u64, String, Option<Vec<(u32, bool)>>, Option<u8>, [u8; 3], usize)>(&bytes).unwrap(),
            field
        );
        assert!(whole::<u64>(&bytes).is_err(), "something is behind it");
        for length in 0..bytes.len() {
            let cut = bytes.get(..length).unwrap();
            assert!(whole::<(u64, String, Option<Vec<(u32, bool)>>, Option<u8>, [u8; 3], usize)>(cut).is_err());
        }
        assert!(whole::<Vec<String>>(&[255; 4]).is_err(), "a list of four thousand millions reserves nothing");
        assert!(whole::<bool>(&[2]).is_err());
        let (number, Rest(rest)) = whole::<(u16, Rest)>(&[1, 2, 3, 4]).unwrap();
        assert_eq!((number, rest), (0x0201, vec![3, 4]));
        assert!(whole::<String>(&[1, 0, 0, 0, 0xff]).is_err());
    }
}
