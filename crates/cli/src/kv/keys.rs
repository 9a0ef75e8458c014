//! How keys are written: as text, or as hexadecimal digits.

use bytes::Bytes;

use crate::failure::{Failure, Outcome};
use crate::output::printable;

/// How keys are given and shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// As hexadecimal digits.
    pub hex: bool,
}

impl Form {
    /// The key of what was given.
    pub fn parse(self, text: &str) -> Outcome<Bytes> {
        if !self.hex {
            return Ok(Bytes::copy_from_slice(text.as_bytes()));
        }
        let digits = hex::decode(text);
        digits.map(Bytes::from).map_err(|error| Failure::usage(format!("{text:?} is not hexadecimal: {error}")))
    }

    /// For people. Without --hex, what is no text is shown with escapes.
    pub fn show(self, key: &[u8]) -> String {
        if self.hex { hex::encode(key) } else { printable(&String::from_utf8_lossy(key)) }
    }

    /// For programs: text where it is one, else `{"hex": …}`, so that no two keys look alike.
    pub fn json(self, key: &[u8]) -> serde_json::Value {
        match std::str::from_utf8(key) {
            Ok(text) if !self.hex => text.into(),
            _ => serde_json::json!({ "hex": hex::encode(key) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were_given() {
        let (text, digits) = (Form::default(), Form { hex: true });
        assert_eq!(text.parse("a b").unwrap(), "a b");
        assert_eq!(digits.parse("00ff").unwrap(), &[0, 255][..]);
        assert!(digits.parse("0g").is_err() && digits.parse("0").is_err());
        assert_eq!(digits.show(&[0, 255]), "00ff");
        assert_eq!(text.show(b"a\x1b[2J"), "a\\u{1b}[2J");
        assert_eq!(text.json(b"a"), serde_json::json!("a"));
        assert_eq!(text.json(&[0xff]), serde_json::json!({ "hex": "ff" }));
    }
}
