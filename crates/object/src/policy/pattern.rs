//! Patterns of policies: `*` for any text, `?` for one character, `${aws:username}` for what is known of the caller.
//!
//! Invariant: a match takes time in the length of the pattern and the text, and 1/64 of their product at most: what
//! stands between two `*` is looked for by all its characters at once, and never begun anew.

use std::borrow::Cow;

use std::fmt;

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

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Text(letter) => write!(f, "{letter}")?,
                Piece::One => f.write_str("?")?,
                Piece::Any => f.write_str("*")?,
                Piece::Variable(name) => write!(f, "${{{name}}}")?,
            }
        }
        Ok(())
    }
}

impl Pattern {
    /// Reads a pattern of the language before variables: `$` is a letter as others are.
    pub fn without_variables(text: &str) -> Self {
        let piece = |letter| match letter {
            '*' => Piece::Any,
            '?' => Piece::One,
            other => Piece::Text(other),
        };
        Pattern { pieces: text.chars().map(piece).collect() }
    }

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

    /// How many texts stand between two `*`: each is looked for in all that is asked about.
    pub fn searches(&self) -> usize {
        let texts = self.pieces.split(|piece| *piece == Piece::Any).collect::<Vec<_>>();
        let between = texts.get(1..texts.len().saturating_sub(1)).unwrap_or_default();
        between.iter().filter(|text| !text.is_empty()).count()
    }

    /// The characters it stands for now; `None` where a variable is not known.
    fn resolve(&self, known: &[(&'static str, String)]) -> Option<Cow<'_, [Piece]>> {
        if !self.pieces.iter().any(|piece| matches!(piece, Piece::Variable(_))) {
            return Some(Cow::Borrowed(&self.pieces));
        }
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
        Some(Cow::Owned(resolved))
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

/// Whether the whole text is as the pattern says: it begins as what stands before the first `*`, ends as what stands
/// after the last, and has what stands between in order, each as early as it is there.
fn glob(pieces: &[Piece], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let is_any = |piece: &Piece| *piece == Piece::Any;
    let (Some(first), Some(last)) = (pieces.iter().position(is_any), pieces.iter().rposition(is_any)) else {
        return pieces.len() == text.len() && fits(pieces, &text);
    };
    let (Some((begin, rest)), Some(end)) = (pieces.split_at_checked(first), pieces.get(last + 1..)) else {
        return false;
    };
    let Some(middle_len) = text.len().checked_sub(begin.len() + end.len()) else {
        return false;
    };
    let (start, rest_of_text) = text.split_at(begin.len());
    let (mut text, tail) = rest_of_text.split_at(middle_len);
    let between = rest.get(..last - first).unwrap_or_default().split(is_any).filter(|piece| !piece.is_empty());
    fits(begin, start)
        && fits(end, tail)
        && between.into_iter().all(|wanted| {
            let found = end_of_first(wanted, text).and_then(|end| text.get(end..));
            text = found.unwrap_or_default();
            found.is_some()
        })
}

/// Whether each character is as its piece says; both have the same length.
fn fits(pieces: &[Piece], text: &[char]) -> bool {
    pieces.iter().zip(text).all(|(piece, letter)| match piece {
        Piece::Text(wanted) => wanted == letter,
        Piece::One => true,
        Piece::Any | Piece::Variable(_) => false,
    })
}

/// Where the first place ends at which these stand; `None` where they stand nowhere.
///
/// One bit for each of the pieces: whether all up to it fit the characters up to here. A character moves every bit on by
/// one, and those stay whose piece it is.
fn end_of_first(wanted: &[Piece], text: &[char]) -> Option<usize> {
    if wanted.len() > text.len() {
        return None;
    }
    let places = Places::of(wanted);
    let (last_word, last_bit) = ((wanted.len() - 1) / 64, (wanted.len() - 1) % 64);
    let mut reached = vec![0_u64; places.words];
    for (read, letter) in text.iter().enumerate() {
        let mut carry = 1;
        for (word, places) in reached.iter_mut().zip(places.of_letter(*letter)) {
            #[cfg(test)]
            steps::count();
            let moved = (*word << 1) | carry;
            carry = *word >> 63;
            *word = moved & places;
        }
        if reached.get(last_word).is_some_and(|word| word >> last_bit & 1 == 1) {
            return Some(read + 1);
        }
    }
    None
}

/// At which places of some pieces each character fits, a bit a place.
struct Places {
    words: usize,
    /// A row of words for each ASCII character.
    ascii: Vec<u64>,
    others: Vec<(char, Vec<u64>)>,
    /// Of characters that the pieces do not have: where any fits.
    any: Vec<u64>,
}

impl Places {
    fn of(wanted: &[Piece]) -> Places {
        let words = wanted.len().div_ceil(64);
        let mut any = vec![0; words];
        let bit = |place: usize| (place / 64, 1_u64 << (place % 64));
        let set = |row: &mut [u64], place: usize| {
            let (word, bit) = bit(place);
            row.get_mut(word).into_iter().for_each(|word| *word |= bit);
        };
        for (place, _) in wanted.iter().enumerate().filter(|(_, piece)| **piece == Piece::One) {
            set(&mut any, place);
        }
        let mut ascii = any.repeat(128);
        let mut others: Vec<(char, Vec<u64>)> = Vec::new();
        for (place, piece) in wanted.iter().enumerate() {
            let Piece::Text(letter) = piece else { continue };
            let row = *letter as usize * words;
            match ascii.get_mut(row..row + words) {
                Some(row) => set(row, place),
                None => {
                    let at = others.binary_search_by_key(letter, |(other, _)| *other);
                    let at = at.unwrap_or_else(|at| {
                        others.insert(at, (*letter, any.clone()));
                        at
                    });
                    others.get_mut(at).into_iter().for_each(|(_, row)| set(row, place));
                }
            }
        }
        Places { words, ascii, others, any }
    }

    fn of_letter(&self, letter: char) -> &[u64] {
        let row = letter as usize * self.words;
        self.ascii.get(row..row + self.words).unwrap_or_else(|| {
            let found = self.others.binary_search_by_key(&letter, |(other, _)| *other).ok();
            found.and_then(|at| self.others.get(at)).map_or(&self.any, |(_, row)| row)
        })
    }
}

/// How much is done, counted for the tests.
#[cfg(test)]
pub(super) mod steps {
    use std::cell::Cell;

    thread_local! { static STEPS: Cell<u64> = const { Cell::new(0) }; }

    pub fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    /// What was counted since the last time.
    pub fn take() -> u64 {
        STEPS.replace(0)
    }
}
