//! Sizes in bytes as people write and read them.

/// Units in steps of 1,024.
const UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Reads `4096`, `64KiB`, `1.5GiB`, `10G`; decimal units (`KB`, `MB`, …) are powers of 1,000.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("{text:?} is not a size; write it as 4096, 64KiB, 1.5GiB or 10TiB");
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let power = match unit.chars().next() {
        None | Some('b') => 0,
        Some(letter) => "kmgtpe".find(letter).ok_or_else(wrong)? + 1,
    };
    let base: u64 = match unit.get(1..).unwrap_or_default() {
        _ if power == 0 && unit.len() > 1 => return Err(wrong()),
        "" | "i" | "ib" => 1024,
        "b" => 1000,
        _ => return Err(wrong()),
    };
    let scale = u32::try_from(power).ok().and_then(|power| base.checked_pow(power)).ok_or_else(wrong)?;
    let number = number.replace('_', "");
    match number.split_once('.') {
        None => number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(wrong),
        Some(_) => {
            let value = number.parse::<f64>().map_err(|_| wrong())? * scale as f64;
            if value < u64::MAX as f64 { Ok(value as u64) } else { Err(wrong()) }
        }
    }
}

/// Writes a size with at most one digit behind the point: `999 B`, `1.5 GiB`.
pub fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    let text = format!("{value:.1}");
    format!("{} {name}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A limit that may be set or taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

/// Reads a limit in bytes: a size, or `none`.
pub fn parse_limit(text: &str) -> Result<Limit, String> {
    if text == "none" { Ok(Limit(None)) } else { parse(text).map(|bytes| Limit(Some(bytes))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(parse(text).ok(), bytes, "{text}");
        check("4096", Some(4096));
        check("64KiB", Some(64 << 10));
        check("64k", Some(64 << 10));
        check("1.5 GiB", Some(3 << 29));
        check("10TB", Some(10_000_000_000_000));
        check("7B", Some(7));
        check("1_000", Some(1000));
        check("15EiB", Some(15 << 60));
        check("16EiB", None);
        check("", None);
        check("GiB", None);
        check("1x", None);
        check("1bb", None);
        check("1.2.3M", None);
        check("-1", None);
    }

    #[test]
    fn sizes_are_shown() {
        let check = |bytes: u64, text: &str| assert_eq!(show(bytes), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1 KiB");
        check(1536, "1.5 KiB");
        check((1 << 20) - 1, "1 MiB");
        check(256 << 20, "256 MiB");
        check(u64::MAX, "16 EiB");
    }
}
