//! Conditions of statements: an operator, a key, and values of which one must fit.
//!
//! Invariant: over something that is not known of a request a plain condition does not hold, a negated one does, and
//! one that ends in `IfExists` does.

use std::net::IpAddr;

use super::pattern::Pattern;

/// The keys that a condition may have, in lower case.
pub(super) const KEYS: [&str; 15] = [
    "aws:sourceip",
    "aws:securetransport",
    "aws:username",
    "aws:userid",
    "aws:currenttime",
    "aws:epochtime",
    "aws:useragent",
    "aws:referer",
    "aws:principaltype",
    "s3:prefix",
    "s3:delimiter",
    "s3:max-keys",
    "s3:versionid",
    "s3:authtype",
    "s3:signatureversion",
];

/// A condition of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    operator: Operator,
    key: &'static str,
    if_exists: bool,
    negated: bool,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Text,
    TextIgnoringCase,
    Like,
    Number(Order),
    Time(Order),
    Truth,
    Address,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Like(Pattern),
    Number(f64),
    Truth(bool),
    /// An address and how many of its first bits count.
    Network(IpAddr, u8),
}

fn operator_of(name: &str) -> Option<(Operator, bool)> {
    Some(match name {
        "StringEquals" => (Operator::Text, false),
        "StringNotEquals" => (Operator::Text, true),
        "StringEqualsIgnoreCase" => (Operator::TextIgnoringCase, false),
        "StringNotEqualsIgnoreCase" => (Operator::TextIgnoringCase, true),
        "StringLike" => (Operator::Like, false),
        "StringNotLike" => (Operator::Like, true),
        "NumericEquals" => (Operator::Number(Order::Equal), false),
        "NumericNotEquals" => (Operator::Number(Order::Equal), true),
        "NumericLessThan" => (Operator::Number(Order::Less), false),
        "NumericLessThanEquals" => (Operator::Number(Order::LessOrEqual), false),
        "NumericGreaterThan" => (Operator::Number(Order::Greater), false),
        "NumericGreaterThanEquals" => (Operator::Number(Order::GreaterOrEqual), false),
        "DateEquals" => (Operator::Time(Order::Equal), false),
        "DateNotEquals" => (Operator::Time(Order::Equal), true),
        "DateLessThan" => (Operator::Time(Order::Less), false),
        "DateLessThanEquals" => (Operator::Time(Order::LessOrEqual), false),
        "DateGreaterThan" => (Operator::Time(Order::Greater), false),
        "DateGreaterThanEquals" => (Operator::Time(Order::GreaterOrEqual), false),
        "Bool" => (Operator::Truth, false),
        "IpAddress" => (Operator::Address, false),
        "NotIpAddress" => (Operator::Address, true),
        "Null" => (Operator::Null, false),
        _ => return None,
    })
}

impl Condition {
    /// Reads one condition; `Err` tells what was not understood.
    pub fn parse(operator: &str, key: &str, values: &[String], variables: bool) -> Result<Self, String> {
        let (name, if_exists) = match operator.strip_suffix("IfExists") {
            Some(name) if name != "Null" => (name, true),
            _ => (operator, false),
        };
        let unknown = || format!("the operator {operator:?} of a condition is not known");
        let (operator, negated) = operator_of(name).ok_or_else(unknown)?;
        let lower = key.to_ascii_lowercase();
        let known = KEYS.into_iter().find(|known| *known == lower);
        let key = known.ok_or_else(|| format!("the key {key:?} of a condition is not known"))?;
        if values.is_empty() {
            return Err(format!("the condition {name} of {key} has no value"));
        }
        let value = |text: &String| {
            Value::parse(operator, text, variables)
                .ok_or_else(|| format!("{text:?} is no value for the condition {name} of {key}"))
        };
        let values = values.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Condition { operator, key, if_exists, negated, values })
    }

    /// How many texts its patterns look for.
    pub fn searches(&self) -> usize {
        let of_value = |value: &Value| if let Value::Like(pattern) = value { pattern.searches() } else { 0 };
        self.values.iter().map(of_value).sum()
    }

    /// Whether it holds for a request of which this is known.
    pub fn holds(&self, known: &[(&'static str, String)]) -> bool {
        let found = known.iter().find(|(key, _)| *key == self.key).map(|(_, value)| value.as_str());
        if self.operator == Operator::Null {
            return self.values.iter().any(|value| *value == Value::Truth(found.is_none()));
        }
        match found {
            None => self.negated || self.if_exists,
            Some(found) => self.values.iter().any(|value| self.fits(value, found, known)) != self.negated,
        }
    }

    fn fits(&self, value: &Value, found: &str, known: &[(&'static str, String)]) -> bool {
        match (value, self.operator) {
            (Value::Text(text), Operator::TextIgnoringCase) => text.eq_ignore_ascii_case(found),
            (Value::Text(text), _) => text == found,
            (Value::Like(pattern), _) => pattern.matches(found, known),
            (Value::Number(number), Operator::Time(order)) => {
                seconds(found).is_some_and(|found| order.holds(found, *number))
            }
            (Value::Number(number), Operator::Number(order)) => {
                found.parse().is_ok_and(|found: f64| order.holds(found, *number))
            }
            (Value::Number(_), _) => false,
            (Value::Truth(truth), _) => found.eq_ignore_ascii_case(if *truth { "true" } else { "false" }),
            (Value::Network(network, bits), _) => found.parse().is_ok_and(|found| within(found, *network, *bits)),
        }
    }
}

impl Order {
    fn holds(self, found: f64, wanted: f64) -> bool {
        match self {
            Order::Equal => found.total_cmp(&wanted).is_eq(),
            Order::Less => found < wanted,
            Order::LessOrEqual => found <= wanted,
            Order::Greater => found > wanted,
            Order::GreaterOrEqual => found >= wanted,
        }
    }
}

impl Value {
    fn parse(operator: Operator, text: &str, variables: bool) -> Option<Self> {
        match operator {
            // A variable is resolved where it stands; without one this is the text itself.
            Operator::Text if variables && text.contains("${") => {
                Pattern::parse(&text.replace('*', "${*}").replace('?', "${?}")).ok().map(Value::Like)
            }
            Operator::Text | Operator::TextIgnoringCase => Some(Value::Text(text.to_owned())),
            Operator::Like if !variables => Some(Value::Like(Pattern::without_variables(text))),
            Operator::Like => Pattern::parse(text).ok().map(Value::Like),
            Operator::Number(_) => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Number),
            Operator::Time(_) => seconds(text).map(Value::Number),
            Operator::Truth | Operator::Null => text.to_ascii_lowercase().parse().ok().map(Value::Truth),
            Operator::Address => {
                let (address, bits) =
                    text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
                let address: IpAddr = address.parse().ok()?;
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits: u8 = bits.map_or(Ok(most), str::parse).ok().filter(|bits| *bits <= most)?;
                // An IPv4 network may come as an IPv6 one, as an address may.
                let mapped = !address.to_canonical().eq(&address);
                match (mapped, bits.checked_sub(96)) {
                    (true, Some(bits)) => Some(Value::Network(address.to_canonical(), bits)),
                    _ => Some(Value::Network(address, bits)),
                }
            }
        }
    }
}

/// Whether an address lies in a network; an IPv4 address may come as an IPv6 one.
fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address.to_canonical(), network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            u32::from(address) & mask == u32::from(network) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            u128::from(address) & mask == u128::from(network) & mask
        }
        _ => false,
    }
}

/// Seconds since 1970 of a time: as a number, or `2026-01-31T23:59:59Z`.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers =
        |text: &str, by: char| text.split(by).map(|part| part.parse::<i64>().ok()).collect::<Option<Vec<_>>>();
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (date.as_slice(), time.as_slice()) else {
        return None;
    };
    let valid = (1970..=9999).contains(year) && (1..=12).contains(month) && (1..=31).contains(day);
    if !valid || !(0..24).contains(hour) || !(0..60).contains(minute) || !(0..61).contains(second) {
        return None;
    }
    // Days of the civil calendar, with the year beginning in March.
    let shifted = if *month <= 2 { year - 1 } else { *year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719_468;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second) as f64)
}
