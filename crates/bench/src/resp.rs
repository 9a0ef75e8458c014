//! The few lines of Redis' protocol (RESP 2) that the benchmarks need.
//!
//! Invariant: an answer that is no answer of that protocol, and an error that the server tells, is an error here.

use std::fmt::Display;
use std::io::BufRead;

/// An answer.
#[derive(Debug, PartialEq)]
pub enum RespReply {
    /// A word or a number.
    Line(String),
    /// A value.
    Value(Vec<u8>),
    /// No value.
    Nothing,
    /// Some answers in one.
    Many(Vec<RespReply>),
}

/// Appends a command.
pub fn ask(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

impl RespReply {
    /// The next answer.
    pub fn read(from: &mut impl BufRead) -> Result<RespReply, String> {
        let mut line = Vec::with_capacity(32);
        from.read_until(b'\n', &mut line).map_err(failed("read an answer of Redis"))?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        match text.split_at_checked(1) {
            Some(("-", error)) => Err(format!("Redis refuses: {error}")),
            Some(("$", "-1")) => Ok(RespReply::Nothing),
            Some(("$", length)) => {
                let length: usize = length.parse().map_err(failed("understand Redis"))?;
                let mut value = vec![0; length + 2];
                from.read_exact(&mut value).map_err(failed("read a value of Redis"))?;
                value.truncate(length);
                Ok(RespReply::Value(value))
            }
            Some(("*", count)) => {
                let count: usize = count.parse().map_err(failed("understand Redis"))?;
                (0..count).map(|_| RespReply::read(from)).collect::<Result<_, _>>().map(RespReply::Many)
            }
            Some(("+" | ":", rest)) => Ok(RespReply::Line(rest.to_owned())),
            _ => Err(format!("Redis said {text:?}")),
        }
    }

    /// The value, where it is one.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            RespReply::Value(value) => Some(value),
            _ => None,
        }
    }
}

fn failed<E: Display>(doing: &str) -> impl Fn(E) -> String {
    move |error| format!("cannot {doing}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_are_as_redis_writes_them() {
        let mut command = Vec::new();
        ask(&mut command, &[b"SET", b"k", b"a\r\nb"]);
        assert_eq!(command, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n");
        let mut answers = &b"+OK\r\n$4\r\na\r\nb\r\n$-1\r\n:7\r\n*2\r\n$1\r\nx\r\n$-1\r\n-ERR no\r\n"[..];
        let mut next = || RespReply::read(&mut answers);
        assert_eq!(next(), Ok(RespReply::Line("OK".into())));
        assert_eq!(next(), Ok(RespReply::Value(b"a\r\nb".to_vec())));
        assert_eq!(next(), Ok(RespReply::Nothing));
        assert_eq!(next(), Ok(RespReply::Line("7".into())));
        let many = next().unwrap();
        assert_eq!(many, RespReply::Many(vec![RespReply::Value(b"x".to_vec()), RespReply::Nothing]));
        assert!(next().unwrap_err().contains("no"));
        assert!(next().is_err());
    }
}
