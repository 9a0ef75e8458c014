//! The `Range` header, and the range of a copied part.
//!
//! Invariants:
//! - A range that is kept lies within the object and has at least one byte.

/// What a `Range` header asks of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedRange {
    /// No range, or one that is not understood: the whole.
    Whole,
    /// These bytes.
    Part {
        /// The first.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// None of its bytes.
    Unsatisfiable,
}

/// Reads a `Range` header against an object of `size` bytes. S3 gives the whole object for several ranges at once, and
/// for what is not a range. Of an empty object the last bytes are the whole.
pub fn parse(header: Option<&str>, size: u64) -> RequestedRange {
    let Some((first, last)) = header.and_then(|text| text.strip_prefix("bytes=")).and_then(|text| text.split_once('-'))
    else {
        return RequestedRange::Whole;
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => RequestedRange::Whole,
        (Some(first), Some(last)) => within(first, last, size),
        (Some(first), None) if last.is_empty() => within(first, u64::MAX, size),
        (None, Some(0)) if first.is_empty() => RequestedRange::Unsatisfiable,
        (None, Some(_)) if first.is_empty() && size == 0 => RequestedRange::Whole,
        (None, Some(count)) if first.is_empty() => {
            let offset = size.saturating_sub(count);
            RequestedRange::Part { offset, length: size - offset }
        }
        _ => RequestedRange::Whole,
    }
}

fn within(first: u64, last: u64, size: u64) -> RequestedRange {
    if first >= size {
        return RequestedRange::Unsatisfiable;
    }
    RequestedRange::Part { offset: first, length: last.min(size - 1) - first + 1 }
}

/// Digits alone, zeros before them or not.
fn number(text: &str) -> Option<u64> {
    // More digits than fit mean a place past every object.
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
}

/// `bytes=first-last`, both given, as copying a part wants it: first byte and last.
pub fn parse_copied(header: &str) -> Option<(u64, u64)> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(offset: u64, length: u64) -> RequestedRange {
        RequestedRange::Part { offset, length }
    }

    #[test]
    fn forms_of_a_range() {
        assert_eq!(parse(Some("bytes=0-0"), 10), part(0, 1));
        assert_eq!(parse(Some("bytes=2-5"), 10), part(2, 4));
        assert_eq!(parse(Some("bytes=5-"), 10), part(5, 5));
        assert_eq!(parse(Some("bytes=5-100"), 10), part(5, 5));
        assert_eq!(parse(Some("bytes=-3"), 10), part(7, 3));
        assert_eq!(parse(Some("bytes=-30"), 10), part(0, 10));
        assert_eq!(parse(Some("bytes=10-"), 10), RequestedRange::Unsatisfiable);
        assert_eq!(parse(Some("bytes=99999999999999999999999-"), 10), RequestedRange::Unsatisfiable);
        assert_eq!(parse(Some("bytes=0-"), 0), RequestedRange::Unsatisfiable);
        assert_eq!(parse(Some("bytes=-0"), 10), RequestedRange::Unsatisfiable);
        assert_eq!(parse(Some("bytes=00-01"), 10), part(0, 2));
        assert_eq!(parse(Some("bytes=-0"), 0), RequestedRange::Unsatisfiable);
        assert_eq!(parse(Some("bytes=00-01"), 0), RequestedRange::Unsatisfiable);
        assert_eq!(parse(Some("bytes=-1"), 0), RequestedRange::Whole);
        for whole in ["bytes= -1", "bytes=0 -1", "bytes=--1", "bytes=0--1", "bytes=+1-2", " bytes=0-1"] {
            assert_eq!(parse(Some(whole), 10), RequestedRange::Whole, "{whole}");
        }
        for whole in ["bytes=5-2", "bytes=0-1,4-5", "bytes=", "bytes=-", "bytes=a-b", "lines=0-1", "", "bytes=1-x"] {
            assert_eq!(parse(Some(whole), 10), RequestedRange::Whole, "{whole}");
        }
        assert_eq!(parse(None, 10), RequestedRange::Whole);
        assert_eq!(parse_copied("bytes=1-3"), Some((1, 3)));
        assert_eq!(parse_copied("bytes=1-"), None);
        assert_eq!(parse_copied("bytes=3-1"), None);
    }

    proptest! {
        #[test]
        fn a_range_lies_within(text in "(bytes=)?[0-9]{0,21}-?[0-9,a-]{0,21}", size in any::<u64>()) {
            if let RequestedRange::Part { offset, length } = parse(Some(&text), size) {
                prop_assert!(length > 0);
                prop_assert!(offset.checked_add(length).unwrap() <= size);
            }
        }
    }
}
