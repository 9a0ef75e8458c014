//! Which bytes of an object a command means: `FIRST-LAST`, `FIRST-`, `-COUNT`, as in HTTP.

use std::str::FromStr;

/// Bytes of an object whose length is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeArg {
    /// From a byte on, to another one where it is told, both included.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl RangeArg {
    /// Offset and length within an object of `size` bytes.
    pub fn within(self, size: u64) -> (u64, u64) {
        match self {
            RangeArg::From(first, last) => {
                let end = last.map_or(size, |last| last.saturating_add(1).min(size));
                (first.min(size), end.saturating_sub(first))
            }
            RangeArg::Last(count) => (size.saturating_sub(count), count.min(size)),
        }
    }
}

impl FromStr for RangeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range; write FIRST-LAST, FIRST- or -COUNT, in bytes from 0");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        match (first, last) {
            ("", count) => Ok(RangeArg::Last(number(count)?)),
            (first, "") => Ok(RangeArg::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first { Err(wrong()) } else { Ok(RangeArg::From(first, Some(last))) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        let within = |text: &str, size| text.parse::<RangeArg>().unwrap().within(size);
        assert_eq!(within("0-0", 10), (0, 1));
        assert_eq!(within("2-", 10), (2, 8));
        assert_eq!(within("-3", 10), (7, 3));
        assert_eq!(within("-30", 10), (0, 10));
        assert_eq!(within("5-100", 10), (5, 5));
        assert_eq!(within("50-100", 10), (10, 0));
        for wrong in ["", "-", "5", "a-b", "7-3", "1-2-3"] {
            assert!(wrong.parse::<RangeArg>().is_err(), "{wrong}");
        }
    }
}
