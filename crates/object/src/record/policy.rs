//! The records of policies, of documents of buckets, and of sealing keys.

use koine_env::Timestamp;

use super::identity::Kept;
use crate::error::{Error, Result};
use crate::fields::{FieldWriter, Fields, Reader, as_text, as_u8, as_u64, missing, unknown};

/// A policy that users and groups name (`p`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRecord {
    pub document: String,
    pub created: Timestamp,
    pub changed: Timestamp,
    pub kept: Kept,
}

impl PolicyRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(1, self.document.as_bytes());
        fields.put_u64(2, self.created.0);
        fields.put_u64(3, self.changed.0);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut document, mut created, mut changed, mut kept) = (None, None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => document = Some(as_text(value)?),
                2 => created = Some(Timestamp(as_u64(value)?)),
                3 => changed = Some(Timestamp(as_u64(value)?)),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        let created = created.ok_or_else(|| missing("time of creation"))?;
        let document = document.ok_or_else(|| missing("document"))?;
        Ok(PolicyRecord { document, created, changed: changed.unwrap_or(created), kept })
    }
}

/// Whom a bucket's policy names: looked up when it is set, and kept by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPrincipal {
    pub group: bool,
    pub id: u64,
    /// As the policy writes it.
    pub written: String,
}

/// A document of a bucket (`y`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentRecord {
    pub text: String,
    pub changed: Timestamp,
    pub principals: Vec<NamedPrincipal>,
    pub kept: Kept,
}

impl DocumentRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(1, self.text.as_bytes());
        fields.put_u64(2, self.changed.0);
        for principal in &self.principals {
            let kind = [1 + u8::from(principal.group)];
            fields.put(3, &[&kind, principal.id.to_le_bytes().as_slice(), principal.written.as_bytes()].concat());
        }
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut text, mut changed, mut principals, mut kept) = (None, None, Vec::new(), Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => text = Some(as_text(value)?),
                2 => changed = Some(Timestamp(as_u64(value)?)),
                3 => principals.push(decode_principal(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        let text = text.ok_or_else(|| missing("text"))?;
        Ok(DocumentRecord { text, changed: changed.ok_or_else(|| missing("time"))?, principals, kept })
    }
}

fn decode_principal(value: &[u8]) -> Result<NamedPrincipal> {
    let mut reader = Reader::new(value);
    let group = match reader.byte()? {
        1 => false,
        2 => true,
        kind => return Err(Error::damaged(format!("a policy's record names a principal of kind {kind}"))),
    };
    Ok(NamedPrincipal { group, id: reader.u64()?, written: as_text(reader.rest())? })
}

/// A key that seals secrets (`s`): what is known of it, not the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealingKeyRecord {
    pub created: Timestamp,
    /// Secrets are being sealed anew with another.
    pub being_left: bool,
    pub check: [u8; 32],
    pub kept: Kept,
}

impl SealingKeyRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(1, self.created.0);
        fields.put(2, &[1 + u8::from(self.being_left)]);
        fields.put(3, &self.check);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut created, mut being_left, mut check, mut kept) = (None, None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => created = Some(Timestamp(as_u64(value)?)),
                2 => match as_u8(value)? {
                    1 => being_left = Some(false),
                    2 => being_left = Some(true),
                    state => return Err(Error::damaged(format!("a sealing key has state {state}"))),
                },
                3 => check = Some(<[u8; 32]>::try_from(value).map_err(|_| missing("whole check of a sealing key"))?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(SealingKeyRecord {
            created: created.ok_or_else(|| missing("time of creation"))?,
            being_left: being_left.ok_or_else(|| missing("state"))?,
            check: check.ok_or_else(|| missing("check"))?,
            kept,
        })
    }
}
