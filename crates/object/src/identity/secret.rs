//! What is shown once: secrets, tokens, passwords.
//!
//! Invariant: none of them is printed by `Debug`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use koine_env::Random;
use sha2::{Digest, Sha256};

/// Begins every token: what it is, and the version of its form.
const TOKEN_PREFIX: &str = "kt1_";

macro_rules! hidden {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// As it came from outside.
            pub fn new(text: impl Into<String>) -> Self {
                $name(text.into())
            }

            /// The text itself, to be shown or sent.
            pub fn expose(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(hidden)"))
            }
        }
    };
}

hidden! {
    /// The secret of an access key.
    Secret
}
hidden! {
    /// What `log_in` gives: it travels with requests until it expires or is taken back.
    Token
}
hidden! {
    /// A password that was made.
    Password
}

fn draw<const N: usize>(random: &dyn Random) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill(&mut bytes);
    bytes
}

impl Token {
    pub(super) fn draw(random: &dyn Random) -> Self {
        Token(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(draw::<32>(random))))
    }

    /// What the store keeps of it; `None` where the text is no token.
    pub(super) fn digest(&self) -> Option<[u8; 32]> {
        let bits = self.0.strip_prefix(TOKEN_PREFIX)?;
        URL_SAFE_NO_PAD.decode(bits).ok().filter(|bits| bits.len() == 32)?;
        Some(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl Secret {
    /// 40 letters, as those of AWS.
    pub(super) fn draw(random: &dyn Random) -> Self {
        Secret(URL_SAFE_NO_PAD.encode(draw::<30>(random)))
    }
}

impl Password {
    pub(super) fn draw(random: &dyn Random) -> Self {
        Password(URL_SAFE_NO_PAD.encode(draw::<18>(random)))
    }
}

/// An access key: 20 letters and digits.
pub(super) fn draw_access_key(random: &dyn Random) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let letter = |byte: u8| LETTERS.get(usize::from(byte % 32)).map_or('A', |letter| char::from(*letter));
    "KO".chars().chain(draw::<18>(random).into_iter().map(letter)).collect()
}
