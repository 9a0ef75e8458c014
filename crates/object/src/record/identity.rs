//! The records of groups, users, memberships, and of what users prove themselves with.

use std::fmt;

use koine_env::Timestamp;

use crate::error::{Error, Result};
use crate::fields::{FieldWriter, Fields, Reader, as_text, as_u8, as_u64, missing, unknown};

/// Fields of newer programs.
pub(crate) type Kept = Vec<(u64, Vec<u8>)>;

fn put_text(fields: &mut FieldWriter, tag: u64, text: Option<&String>) {
    if let Some(text) = text {
        fields.put(tag, text.as_bytes());
    }
}

fn put_number(fields: &mut FieldWriter, tag: u64, number: Option<u64>) {
    if let Some(number) = number {
        fields.put_u64(tag, number);
    }
}

/// How much may be held: in bytes, and in objects; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub bytes: Option<u64>,
    pub objects: Option<u64>,
}

/// Whether somebody gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    Disabled,
    BeingDeleted,
}

impl State {
    fn of_user(code: u8) -> Result<Self> {
        match code {
            1 => Ok(State::Live),
            2 => Ok(State::Disabled),
            3 => Ok(State::BeingDeleted),
            _ => Err(Error::damaged(format!("a user's record has state {code}"))),
        }
    }

    fn code_of_user(self) -> u8 {
        match self {
            State::Live => 1,
            State::Disabled => 2,
            State::BeingDeleted => 3,
        }
    }
}

/// A group (`g`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub name: String,
    pub description: String,
    pub created: Timestamp,
    pub being_deleted: bool,
    pub policies: Vec<String>,
    pub limits: Limits,
    pub kept: Kept,
}

impl GroupRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(1, self.name.as_bytes());
        if !self.description.is_empty() {
            fields.put(2, self.description.as_bytes());
        }
        fields.put_u64(3, self.created.0);
        fields.put(4, &[1 + u8::from(self.being_deleted)]);
        self.policies.iter().for_each(|policy| fields.put(5, policy.as_bytes()));
        put_number(&mut fields, 6, self.limits.bytes);
        put_number(&mut fields, 7, self.limits.objects);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut name, mut description, mut created, mut being_deleted) = (None, String::new(), None, None);
        let (mut policies, mut limits, mut kept) = (Vec::new(), Limits::default(), Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => name = Some(as_text(value)?),
                2 => description = as_text(value)?,
                3 => created = Some(Timestamp(as_u64(value)?)),
                4 => being_deleted = Some(flag(as_u8(value)?, 1, 2, "a group's state")?),
                5 => policies.push(as_text(value)?),
                6 => limits.bytes = Some(as_u64(value)?),
                7 => limits.objects = Some(as_u64(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(GroupRecord {
            name: name.ok_or_else(|| missing("name"))?,
            description,
            created: created.ok_or_else(|| missing("time of creation"))?,
            being_deleted: being_deleted.ok_or_else(|| missing("state"))?,
            policies,
            limits,
            kept,
        })
    }
}

/// One of two codes.
fn flag(code: u8, no: u8, yes: u8, what: &str) -> Result<bool> {
    if code == no || code == yes {
        return Ok(code == yes);
    }
    Err(Error::damaged(format!("{what} is {code}, which this program does not know")))
}

/// A user (`u`).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UserRecord {
    pub name: String,
    pub created: Timestamp,
    pub state: State,
    pub home: u64,
    /// The hash of its password, as a PHC text.
    pub password: Option<String>,
    pub policies: Vec<String>,
    /// The groups that it is a member of beside its home group.
    pub groups: Vec<u64>,
    pub limits: Limits,
    pub administrator: bool,
    pub display: Option<String>,
    pub password_changed: Option<Timestamp>,
    pub kept: Kept,
}

impl UserRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(1, self.name.as_bytes());
        fields.put_u64(2, self.created.0);
        fields.put(3, &[self.state.code_of_user()]);
        fields.put_u64(4, self.home);
        put_text(&mut fields, 5, self.password.as_ref());
        self.policies.iter().for_each(|policy| fields.put(6, policy.as_bytes()));
        self.groups.iter().for_each(|group| fields.put_u64(7, *group));
        put_number(&mut fields, 8, self.limits.bytes);
        put_number(&mut fields, 9, self.limits.objects);
        if self.administrator {
            fields.put(10, &[1]);
        }
        put_text(&mut fields, 64, self.display.as_ref());
        put_number(&mut fields, 65, self.password_changed.map(|time| time.0));
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut name, mut created, mut state, mut home) = (None, None, None, None);
        let (mut password, mut policies, mut groups) = (None, Vec::new(), Vec::new());
        let (mut limits, mut administrator) = (Limits::default(), false);
        let (mut display, mut password_changed, mut kept) = (None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => name = Some(as_text(value)?),
                2 => created = Some(Timestamp(as_u64(value)?)),
                3 => state = Some(State::of_user(as_u8(value)?)?),
                4 => home = Some(as_u64(value)?),
                5 => password = Some(as_text(value)?),
                6 => policies.push(as_text(value)?),
                7 => groups.push(as_u64(value)?),
                8 => limits.bytes = Some(as_u64(value)?),
                9 => limits.objects = Some(as_u64(value)?),
                10 => administrator = flag(as_u8(value)?, 0, 1, "a user's role")?,
                64 => display = Some(as_text(value)?),
                65 => password_changed = Some(Timestamp(as_u64(value)?)),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(UserRecord {
            name: name.ok_or_else(|| missing("name"))?,
            created: created.ok_or_else(|| missing("time of creation"))?,
            state: state.ok_or_else(|| missing("state"))?,
            home: home.ok_or_else(|| missing("home group"))?,
            password,
            policies,
            groups,
            limits,
            administrator,
            display,
            password_changed,
            kept,
        })
    }
}

impl fmt::Debug for UserRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserRecord({:?})", self.name)
    }
}

/// A membership (`m`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MembershipRecord {
    pub administrator: bool,
    pub since: Timestamp,
    pub kept: Kept,
}

impl MembershipRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(1, &[u8::from(self.administrator)]);
        fields.put_u64(2, self.since.0);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut administrator, mut since, mut kept) = (false, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => administrator = flag(as_u8(value)?, 0, 1, "a member's role")?,
                2 => since = Some(Timestamp(as_u64(value)?)),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(MembershipRecord { administrator, since: since.ok_or_else(|| missing("beginning"))?, kept })
    }
}

/// The secret of an access key as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum KeptSecret {
    Plain(Vec<u8>),
    Sealed { key: u32, nonce: [u8; 24], ciphertext: Vec<u8> },
}

impl KeptSecret {
    fn encode(&self) -> Vec<u8> {
        match self {
            KeptSecret::Plain(secret) => [&[0], secret.as_slice()].concat(),
            KeptSecret::Sealed { key, nonce, ciphertext } => {
                [&[1], key.to_le_bytes().as_slice(), nonce, ciphertext].concat()
            }
        }
    }

    fn decode(value: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(value);
        match reader.byte()? {
            0 => Ok(KeptSecret::Plain(reader.rest().to_vec())),
            1 => Ok(KeptSecret::Sealed {
                key: reader.u32()?,
                nonce: reader.array()?,
                ciphertext: reader.rest().to_vec(),
            }),
            kind => Err(Error::damaged(format!("an access key has a secret of kind {kind}"))),
        }
    }
}

impl fmt::Debug for KeptSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptSecret::Plain(_) => f.write_str("KeptSecret(plain)"),
            KeptSecret::Sealed { key, .. } => write!(f, "KeptSecret(sealed with {key})"),
        }
    }
}

/// An access key (`a`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessKeyRecord {
    pub user: u64,
    pub created: Timestamp,
    pub disabled: bool,
    pub secret: KeptSecret,
    pub expires: Option<Timestamp>,
    pub policy: Option<String>,
    pub description: Option<String>,
    pub kept: Kept,
}

impl AccessKeyRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(1, self.user);
        fields.put_u64(2, self.created.0);
        fields.put(3, &[1 + u8::from(self.disabled)]);
        fields.put(4, &self.secret.encode());
        put_number(&mut fields, 5, self.expires.map(|time| time.0));
        put_text(&mut fields, 6, self.policy.as_ref());
        put_text(&mut fields, 64, self.description.as_ref());
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut user, mut created, mut disabled, mut secret) = (None, None, None, None);
        let (mut expires, mut policy, mut description, mut kept) = (None, None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => user = Some(as_u64(value)?),
                2 => created = Some(Timestamp(as_u64(value)?)),
                3 => disabled = Some(flag(as_u8(value)?, 1, 2, "an access key's state")?),
                4 => secret = Some(KeptSecret::decode(value)?),
                5 => expires = Some(Timestamp(as_u64(value)?)),
                6 => policy = Some(as_text(value)?),
                64 => description = Some(as_text(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(AccessKeyRecord {
            user: user.ok_or_else(|| missing("user"))?,
            created: created.ok_or_else(|| missing("time of creation"))?,
            disabled: disabled.ok_or_else(|| missing("state"))?,
            secret: secret.ok_or_else(|| missing("secret"))?,
            expires,
            policy,
            description,
            kept,
        })
    }
}

/// A token (`t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenRecord {
    pub user: u64,
    pub created: Timestamp,
    pub expires: Timestamp,
    pub policy: Option<String>,
    pub description: Option<String>,
    pub kept: Kept,
}

impl TokenRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(1, self.user);
        fields.put_u64(2, self.created.0);
        fields.put_u64(3, self.expires.0);
        put_text(&mut fields, 4, self.policy.as_ref());
        put_text(&mut fields, 64, self.description.as_ref());
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut user, mut created, mut expires) = (None, None, None);
        let (mut policy, mut description, mut kept) = (None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => user = Some(as_u64(value)?),
                2 => created = Some(Timestamp(as_u64(value)?)),
                3 => expires = Some(Timestamp(as_u64(value)?)),
                4 => policy = Some(as_text(value)?),
                64 => description = Some(as_text(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(TokenRecord {
            user: user.ok_or_else(|| missing("user"))?,
            created: created.ok_or_else(|| missing("time of creation"))?,
            expires: expires.ok_or_else(|| missing("time of expiry"))?,
            policy,
            description,
            kept,
        })
    }
}
