//! A lexer just good enough to tell Rust code from comments and literals.
//!
//! Invariants:
//! - `blank` keeps every line and column: what is not code becomes spaces, newlines stay.
//! - It never fails: an unterminated literal or comment blanks to the end.

/// The text with comments and the insides of strings and characters replaced by spaces.
pub fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = literal_length(bytes, at);
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            let end = (at + length).min(bytes.len());
            out.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// The length of the comment or literal that begins here; 0 when none does.
fn literal_length(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => block_comment_length(rest),
        b'"' => quoted_length(rest, b'"'),
        b'\'' => character_length(rest),
        b'b' | b'c' | b'r' if !after_word => prefixed_length(rest),
        // Text outside ASCII is only legal in comments, literals and names; it never carries structure.
        byte if byte >= 0x80 => 1,
        _ => 0,
    }
}

/// A nested block comment.
fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// From the opening quote through the closing one, backslashes escaping.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal; 0 for a lifetime or a label.
fn character_length(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => quoted_length(rest, b'\''),
        Some(b'\'') | None => 0,
        Some(first) => {
            // One character of up to four bytes, then the closing quote.
            let width = match first {
                0xF0.. => 4,
                0xE0.. => 3,
                0xC0.. => 2,
                _ => 1,
            };
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
    }
}

/// `b"…"`, `c"…"`, `b'…'`, `r"…"`, `br#"…"#` and their kin.
fn prefixed_length(rest: &[u8]) -> usize {
    let letters = rest.iter().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    if letters > 2 {
        return 0;
    }
    let raw = rest[..letters].contains(&b'r');
    let hashes = if raw { rest[letters..].iter().take_while(|byte| **byte == b'#').count() } else { 0 };
    let open = letters + hashes;
    match rest.get(open) {
        Some(b'"') if raw => {
            let mut close = vec![b'"'];
            close.resize(hashes + 1, b'#');
            let body = &rest[open + 1..];
            body.windows(close.len())
                .position(|window| window == close)
                .map_or(rest.len(), |found| open + 1 + found + close.len())
        }
        Some(b'"') => letters + quoted_length(&rest[letters..], b'"'),
        Some(b'\'') if rest[0] == b'b' && letters == 1 => 1 + quoted_length(&rest[1..], b'\''),
        _ => 0,
    }
}

/// Whether a byte can stand in a name.
pub fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The words of a line of code with their columns (counted from zero, in bytes).
pub fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = line.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_word(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        (start < at).then(|| (start, &line[start..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let check = |text: &str, code: &str| {
            let blanked = blank(text);
            assert_eq!(blanked.split_whitespace().collect::<Vec<_>>().join(" "), code, "{text}");
            assert_eq!(blanked.len(), text.len(), "{text}");
            assert_eq!(blanked.matches('\n').count(), text.matches('\n').count(), "{text}");
        };
        check("a // { \nb", "a b");
        check("a /* { /* } \n*/ { */ b", "a b");
        check(r#"f("{ \" }") {"#, "f( ) {");
        check("f(\"{ \n }\") {", "f( ) {");
        check(r##"f(r#"{ " }"#, b'{') }"##, "f( , ) }");
        check("'{' 'a: '\\'' '}'", "'a:");
        check("for 'é' in bar", "for in bar");
        check("r#type b\"{\" c\"{\" cr#\"{\"#", "r#type");
        check("\"open {", "");
        check("attr\"x\"", "attr");
    }

    #[test]
    fn words_have_columns() {
        let found: Vec<(usize, &str)> = words("pub fn a_b(c: u8)").collect();
        assert_eq!(found, [(0, "pub"), (4, "fn"), (7, "a_b"), (11, "c"), (14, "u8")]);
    }
}
