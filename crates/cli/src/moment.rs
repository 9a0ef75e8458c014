//! Lengths of time and moments as people write them.

use std::time::Duration;

use koine::env::Timestamp;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

/// Reads `45s`, `90m`, `12h`, `7d`, `2w`.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a length of time; write it as 45s, 90m, 12h, 7d or 2w");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        'w' => 7 * 24 * 3600,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default().trim_end();
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Reads a moment, in milliseconds since 1970: a date, a time, or how long ago it was.
pub fn moment(text: &str) -> Result<i64, String> {
    let wrong =
        || format!("{text:?} is not a point in time; write how long ago (12h, 7d), 2026-01-31 or 2026-01-31T12:00:00Z");
    let at = if let Ok(ago) = span(text) {
        OffsetDateTime::now_utc().checked_sub(time::Duration::try_from(ago).map_err(|_| wrong())?).ok_or_else(wrong)?
    } else if let Ok(date) = Date::parse(text, format_description!("[year]-[month]-[day]")) {
        date.midnight().assume_utc()
    } else {
        OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong())?
    };
    i64::try_from(at.unix_timestamp_nanos().div_euclid(1_000_000)).map_err(|_| wrong())
}

/// A time of a listing, in milliseconds since 1970.
pub fn milliseconds(text: &str) -> Option<i64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

/// As listings tell it; empty where it is before 1970.
pub fn show(milliseconds: i64) -> String {
    let nanoseconds = u64::try_from(milliseconds).ok().and_then(|time| time.checked_mul(1_000_000));
    nanoseconds.map_or_else(String::new, |time| crate::target::rfc3339(Timestamp(time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(span(text).ok().map(|span| span.as_secs()), seconds, "{text}");
        };
        check("45s", Some(45));
        check("7d", Some(604_800));
        check("2 w", Some(1_209_600));
        check("7", None);
        check("d", None);
        check("", None);
        check("-1d", None);
        check("99999999999999999999d", None);
        check("18446744073709551615w", None);
    }

    #[test]
    fn moments_are_dates_times_or_ages() {
        assert_eq!(moment("2026-01-01"), Ok(1_767_225_600_000));
        assert_eq!(moment("2026-01-01T00:00:00.123Z"), Ok(1_767_225_600_123));
        assert_eq!(milliseconds("2026-01-01T00:00:00.123Z"), Some(1_767_225_600_123));
        assert_eq!(milliseconds(""), None);
        assert_eq!(show(1_767_225_600_123), "2026-01-01T00:00:00.123Z");
        assert!(moment("1h").unwrap() < moment("0s").unwrap());
        assert!(moment("yesterday").is_err() && moment("18446744073709551615s").is_err());
    }
}
