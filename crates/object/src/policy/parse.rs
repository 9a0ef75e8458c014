//! Reading policies: what is not understood is `MalformedPolicy`, with its place.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::condition::Condition;
use super::pattern::Pattern;
use super::{POLICY_LEN_MAX, POLICY_SEARCHES_MAX, Policy, Principal, Statement};
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};

/// The most statements, values and patterns of each list: what is looked at in a request stays small.
const ITEMS_MAX: usize = 200;
const ARN: &str = "arn:aws:s3:::";

fn malformed(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::MalformedPolicy, format!("the policy is not understood: {message}"))
}

impl Policy {
    /// Reads a policy of a user, a group, a key or a token: it names no principal.
    pub fn of_identity(text: &str) -> Result<Self> {
        Policy::read(text, false, |text| serde_json::from_str(text))
    }

    /// Reads a policy of a bucket: each statement names its principals, and resources of this bucket alone.
    pub fn of_bucket(text: &str) -> Result<Self> {
        Policy::read(text, true, |text| serde_json::from_str(text))
    }

    /// Reads a policy that is to be set, of a bucket or not. It must not have a name twice in an object, actions that
    /// nobody has, and patterns that cost too much whenever they are asked. One that is there already is asked
    /// whatever it has: who it is about goes on to get in.
    pub fn to_set(text: &str, of_bucket: bool) -> Result<Self> {
        let policy = Policy::read(text, of_bucket, |text| serde_json::from_str(text).map(|Unique(value)| value))?;
        policy.check_actions()?;
        policy.check_cost()
    }

    pub(super) fn check_cost(self) -> Result<Self> {
        let of_statement = |statement: &Statement| {
            let of_names = statement.actions.iter().chain(&statement.resources).map(Pattern::searches).sum::<usize>();
            of_names + statement.conditions.iter().map(Condition::searches).sum::<usize>()
        };
        let searches: usize = self.statements.iter().map(of_statement).sum();
        if searches > POLICY_SEARCHES_MAX {
            return Err(malformed(format!(
                "its patterns have {searches} texts between two `*`; {POLICY_SEARCHES_MAX} are allowed"
            )));
        }
        Ok(self)
    }

    fn read(text: &str, of_bucket: bool, parse: fn(&str) -> serde_json::Result<Value>) -> Result<Self> {
        if text.len() > POLICY_LEN_MAX {
            return Err(malformed(format!("it has {} bytes; {POLICY_LEN_MAX} are allowed", text.len())));
        }
        let value = parse(text).map_err(malformed)?;
        let document = value.as_object().ok_or_else(|| malformed("it is no object"))?;
        only(document, &["Version", "Id", "Statement"])?;
        let variables = match document.get("Version").map(Value::as_str) {
            Some(Some("2012-10-17")) => true,
            None | Some(Some("2008-10-17")) => false,
            _ => {
                return Err(malformed("its Version must be \"2012-10-17\", or \"2008-10-17\", which has no variables"));
            }
        };
        let statements = match document.get("Statement") {
            Some(Value::Array(statements)) => statements.iter().collect(),
            Some(statement @ Value::Object(_)) => vec![statement],
            _ => return Err(malformed("it has no Statement")),
        };
        if statements.len() > ITEMS_MAX {
            return Err(malformed(format!("it has more than {ITEMS_MAX} statements")));
        }
        let statements = statements.into_iter().map(|statement| parse_statement(statement, of_bucket, variables));
        Ok(Policy { statements: statements.collect::<Result<_>>()? })
    }
}

/// A document in which no object has two values of one name: readers would take either.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document of JSON")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Unique, E> {
        Ok(Unique(Value::Bool(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Unique, E> {
        Ok(Unique(Value::from(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Unique, E> {
        Ok(Unique(Value::from(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Unique, E> {
        Ok(Unique(Value::from(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Unique, E> {
        Ok(Unique(Value::from(text)))
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Unique(Value::Array(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique, A::Error> {
        let mut all = Map::new();
        while let Some((name, Unique(value))) = entries.next_entry::<String, Unique>()? {
            if all.contains_key(&name) {
                return Err(serde::de::Error::custom(format_args!("{name:?} is there twice")));
            }
            all.insert(name, value);
        }
        Ok(Unique(Value::Object(all)))
    }
}

fn only(object: &Map<String, Value>, allowed: &[&str]) -> Result<()> {
    match object.keys().find(|key| !allowed.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(malformed(format!("{key:?} is not known; {} are", allowed.join(", ")))),
    }
}

fn parse_statement(value: &Value, of_bucket: bool, variables: bool) -> Result<Statement> {
    let object = value.as_object().ok_or_else(|| malformed("a Statement is no object"))?;
    only(object, &["Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition"])?;
    let allow = match object.get("Effect").and_then(Value::as_str) {
        Some("Allow") => true,
        Some("Deny") => false,
        _ => return Err(malformed("an Effect must be \"Allow\" or \"Deny\"")),
    };
    let id = match object.get("Sid") {
        None => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(malformed("a Sid is no text")),
    };
    let principals = match (object.get("Principal"), of_bucket) {
        (Some(value), true) => Some(parse_principals(value)?),
        (None, false) => None,
        (None, true) => return Err(malformed("a statement of a bucket's policy has no Principal")),
        (Some(_), false) => return Err(malformed("a Principal stands in the policies of buckets alone")),
    };
    let (actions, actions_inverted) = one_of(object, "Action", "NotAction")?;
    let (resources, resources_inverted) = one_of(object, "Resource", "NotResource")?;
    Ok(Statement {
        id,
        allow,
        principals,
        actions: actions.iter().map(|action| parse_action(action)).collect::<Result<_>>()?,
        actions_inverted,
        resources: resources.iter().map(|resource| parse_resource(resource, variables)).collect::<Result<_>>()?,
        resources_inverted,
        conditions: object.get("Condition").map_or(Ok(Vec::new()), |value| parse_conditions(value, variables))?,
    })
}

/// The texts under one of two keys that exclude each other, and whether it is the second.
fn one_of(object: &Map<String, Value>, plain: &str, inverted: &str) -> Result<(Vec<String>, bool)> {
    match (object.get(plain), object.get(inverted)) {
        (Some(value), None) => Ok((texts(value)?, false)),
        (None, Some(value)) => Ok((texts(value)?, true)),
        _ => Err(malformed(format!("a statement needs one of {plain} and {inverted}"))),
    }
}

/// A text, or a list of some.
fn texts(value: &Value) -> Result<Vec<String>> {
    let items: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        single => vec![single],
    };
    if items.is_empty() || items.len() > ITEMS_MAX {
        return Err(malformed(format!("a list must have 1 to {ITEMS_MAX} items")));
    }
    let text = |item: &&Value| match item {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(malformed(format!("{other} is no text"))),
    };
    items.iter().map(text).collect()
}

fn parse_principals(value: &Value) -> Result<Vec<Principal>> {
    let named = match value {
        Value::String(everyone) if everyone == "*" => return Ok(vec![Principal::Everyone]),
        Value::Object(kinds) => {
            only(kinds, &["AWS"])?;
            texts(kinds.get("AWS").ok_or_else(|| malformed("a Principal has no \"AWS\""))?)?
        }
        _ => return Err(malformed("a Principal must be \"*\" or have \"AWS\"")),
    };
    Ok(named.into_iter().map(|name| if name == "*" { Principal::Everyone } else { Principal::Named(name) }).collect())
}

fn parse_action(text: &str) -> Result<Pattern> {
    let pattern = Pattern::parse(text).map_err(malformed)?;
    let known = Action::ALL.iter().any(|action| pattern.matches_ignoring_case(action.name()));
    // Whether S3 has it is looked at when a policy is set (`check_actions`).
    let of_s3 = text.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("s3:")) && text.len() > 3;
    if known || (of_s3 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":*?".contains(&byte))) {
        return Ok(pattern);
    }
    Err(malformed(format!("the action {text:?} is not known")))
}

fn parse_resource(text: &str, variables: bool) -> Result<Pattern> {
    let name = match text.strip_prefix(ARN) {
        Some(name) if !name.is_empty() => name,
        None if text == "*" => text,
        _ => {
            return Err(malformed(format!(
                "the resource {text:?} is neither \"*\" nor {ARN}BUCKET or {ARN}BUCKET/KEY"
            )));
        }
    };
    if variables { Pattern::parse(name).map_err(malformed) } else { Ok(Pattern::without_variables(name)) }
}

fn parse_conditions(value: &Value, variables: bool) -> Result<Vec<Condition>> {
    let mut conditions = Vec::new();
    for (operator, keys) in value.as_object().ok_or_else(|| malformed("a Condition is no object"))? {
        for (key, values) in keys.as_object().ok_or_else(|| malformed("a Condition's operator has no keys"))? {
            conditions.push(Condition::parse(operator, key, &texts(values)?, variables).map_err(malformed)?);
        }
    }
    Ok(conditions)
}
