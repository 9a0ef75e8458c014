//! Which bytes of an object a command means: `FIRST-LAST`, `FIRST-`, `-COUNT`, as in HTTP.

use std::str::FromStr;

/// Bytes of an object whose length is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// From a byte on, to another one where it is told, both included.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl Range {
    /// Offset and length within an object of `size` bytes.
    pub fn within(self, size: u64) -> (u64, u64) {
        match self {
            Range::From(first, last) => {
                let end = last.map_or(size, |last| last.saturating_add(1).min(size));
                (first.min(size), end.saturating_sub(first))
            }
            Range::Last(count) => (size.saturating_sub(count), count.min(size)),
        }
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range; write FIRST-LAST, FIRST- or -COUNT, in bytes from 0");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        match (first, last) {
            ("", count) => Ok(Range::Last(number(count)?)),
            (first, "") => Ok(Range::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first { Err(wrong()) } else { Ok(Range::From(first, Some(last))) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        let within = |text: &str, size| text.parse::<Range>().unwrap().within(size);
        assert_eq!(within("0-0", 10), (0, 1));
        assert_eq!(within("2-", 10), (2, 8));
        assert_eq!(within("-3", 10), (7, 3));
        assert_eq!(within("-30", 10), (0, 10));
        assert_eq!(within("5-100", 10), (5, 5));
        assert_eq!(within("50-100", 10), (10, 0));
        for wrong in ["", "-", "5", "a-b", "7-3", "1-2-3"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
