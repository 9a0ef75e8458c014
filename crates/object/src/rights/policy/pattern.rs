//! Patterns of policies: `*` for any text, `?` for one character, `${aws:username}` for what is known of the caller.

/// A pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(char),
    One,
    Any,
    Variable(&'static str),
}

/// The variables that a pattern may have.
const VARIABLES: [&str; 2] = ["aws:username", "aws:userid"];

impl Pattern {
    /// Reads a pattern; `Err` tells what was not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(inside) = rest.strip_prefix("${") {
                let (name, after) = inside.split_once('}').ok_or_else(|| format!("{text:?} has `${{` without `}}`"))?;
                pieces.push(variable(name).ok_or_else(|| format!("the variable `${{{name}}}` is not known"))?);
                rest = after;
                continue;
            }
            pieces.push(match first {
                '*' => Piece::Any,
                '?' => Piece::One,
                other => Piece::Text(other),
            });
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
        Ok(Pattern { pieces })
    }

    /// The characters it stands for now; `None` where a variable is not known.
    fn resolve(&self, known: &[(&'static str, String)]) -> Option<Vec<Piece>> {
        let mut resolved = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            match piece {
                Piece::Variable(name) => {
                    let (_, value) = known.iter().find(|(key, _)| key == name)?;
                    resolved.extend(value.chars().map(Piece::Text));
                }
                other => resolved.push(other.clone()),
            }
        }
        Some(resolved)
    }

    pub fn matches(&self, text: &str, known: &[(&'static str, String)]) -> bool {
        self.resolve(known).is_some_and(|pieces| glob(&pieces, text))
    }

    /// Whether it begins with a bucket's name: all of it stands there, or up to the first wildcard.
    pub fn lies_in(&self, bucket: &str) -> bool {
        let mut pieces = self.pieces.iter();
        for letter in bucket.chars() {
            match pieces.next() {
                Some(Piece::Text(text)) if *text == letter => {}
                Some(Piece::Any | Piece::One) => return true,
                _ => return false,
            }
        }
        matches!(pieces.next(), None | Some(Piece::Text('/') | Piece::Any | Piece::One))
    }

    pub fn matches_ignoring_case(&self, text: &str) -> bool {
        let lower = |piece: &Piece| match piece {
            Piece::Text(letter) => Piece::Text(letter.to_ascii_lowercase()),
            other => other.clone(),
        };
        let pieces: Vec<_> = self.pieces.iter().map(lower).collect();
        glob(&pieces, &text.to_ascii_lowercase())
    }

    /// Whether every text that begins with `prefix` matches. May say no where that is so, never yes where it is not.
    pub fn matches_all_under(&self, prefix: &str, known: &[(&'static str, String)]) -> bool {
        self.resolve(known).is_some_and(|pieces| pieces.last() == Some(&Piece::Any) && glob(&pieces, prefix))
    }

    /// Whether a text that begins with `prefix` may match. May say yes where none does, never no where one does.
    pub fn may_match_under(&self, prefix: &str, known: &[(&'static str, String)]) -> bool {
        let Some(pieces) = self.resolve(known) else {
            return false;
        };
        for (piece, letter) in pieces.iter().zip(prefix.chars()) {
            match piece {
                Piece::Any => return true,
                Piece::One | Piece::Variable(_) => {}
                Piece::Text(text) if *text == letter => {}
                Piece::Text(_) => return false,
            }
        }
        // A pattern that ends within the prefix has too few characters.
        pieces.len() >= prefix.chars().count()
    }
}

fn variable(name: &str) -> Option<Piece> {
    match name {
        "*" => Some(Piece::Text('*')),
        "?" => Some(Piece::Text('?')),
        "$" => Some(Piece::Text('$')),
        _ => VARIABLES.into_iter().find(|known| *known == name).map(Piece::Variable),
    }
}

/// Whether the whole text is as the pattern says. Goes back to the last `*` alone, so it takes at most the product
/// of both lengths.
fn glob(pieces: &[Piece], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = text.get(read) {
        let fits = match pieces.get(at) {
            Some(Piece::Any) => {
                star = Some((at, read));
                at += 1;
                continue;
            }
            Some(Piece::One) => true,
            Some(Piece::Text(wanted)) => wanted == letter,
            Some(Piece::Variable(_)) | None => false,
        };
        if fits {
            (at, read) = (at + 1, read + 1);
            continue;
        }
        let Some((piece, from)) = star else {
            return false;
        };
        star = Some((piece, from + 1));
        (at, read) = (piece + 1, from + 1);
    }
    pieces.get(at..).is_some_and(|rest| rest.iter().all(|piece| *piece == Piece::Any))
}
