//! What calls tell: tables of rows, whose values C reads field by field.
//!
//! Invariants:
//! - A table never changes once C has it; texts of it stay where they are until it is freed.
//! - Each text ends with a zero that its length does not count. A field that a row has not is an empty text and 0.

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;

use crate::errors::{Failure, call};
use crate::handles::Handles;

/// What C holds of a table.
pub enum Told {}

/// The constants of `koine_field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Field {
    Name = 1,
    IsPrefix = 2,
    Size = 3,
    Etag = 4,
    Version = 5,
    Id = 6,
    Created = 7,
    Modified = 8,
    Changed = 9,
    Mode = 10,
    PartCount = 11,
    ContentType = 12,
    CacheControl = 13,
    ContentDisposition = 14,
    ContentEncoding = 15,
    ContentLanguage = 16,
    Expires = 17,
    Metadata = 18,
    Tags = 19,
    Checksums = 20,
    Uid = 21,
    Gid = 22,
    Body = 23,
    Existed = 24,
    ErrorName = 25,
    ErrorMessage = 26,
    PartNumber = 27,
    Upload = 28,
    Objects = 29,
    Bytes = 30,
    OlderVersions = 31,
    OlderBytes = 32,
    UploadBytes = 33,
    QuotaBytes = 34,
    QuotaObjects = 35,
    Description = 36,
    Group = 37,
    Groups = 38,
    Policies = 39,
    Disabled = 40,
    Administrator = 41,
    HasPassword = 42,
    Token = 43,
    ExpiresAt = 44,
    Secret = 45,
    Owner = 46,
    Policy = 47,
    Users = 48,
    Buckets = 49,
    BeingDeleted = 50,
    Rights = 51,
    Grantee = 52,
    VersionId = 53,
    IsNewest = 54,
    IsMarker = 55,
    Found = 56,
    Indexed = 57,
    IsWhole = 58,
    Versioning = 59,
    AccessTimes = 60,
    Allowed = 61,
    Rule = 62,
    Accessed = 63,
}

/// Bytes with a zero behind them.
struct Text(Box<[u8]>);

impl Text {
    fn new(mut bytes: Vec<u8>) -> Self {
        bytes.push(0);
        Text(bytes.into())
    }

    fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    fn len(&self) -> u64 {
        self.0.len() as u64 - 1
    }
}

enum Value {
    Text(Text),
    Number(u64),
    Entries(Vec<(Text, Text)>),
}

/// What is known of one thing.
#[derive(Default)]
pub struct Row {
    values: Vec<(c_int, Value)>,
}

impl Row {
    /// With a text.
    pub fn text(mut self, field: Field, text: impl Into<Vec<u8>>) -> Self {
        self.values.push((field as c_int, Value::Text(Text::new(text.into()))));
        self
    }

    /// With a number.
    pub fn number(mut self, field: Field, number: impl Into<u64>) -> Self {
        self.values.push((field as c_int, Value::Number(number.into())));
        self
    }

    /// With a text, where there is one.
    pub fn text_if(self, field: Field, text: Option<impl Into<Vec<u8>>>) -> Self {
        match text {
            Some(text) => self.text(field, text),
            None => self,
        }
    }

    /// With a number, where there is one.
    pub fn number_if(self, field: Field, number: Option<impl Into<u64>>) -> Self {
        match number {
            Some(number) => self.number(field, number),
            None => self,
        }
    }

    /// With names that have values.
    pub fn entries(mut self, field: Field, entries: impl IntoIterator<Item = (String, String)>) -> Self {
        let text = |text: String| Text::new(text.into_bytes());
        let entries = entries.into_iter().map(|(name, value)| (text(name), text(value))).collect();
        self.values.push((field as c_int, Value::Entries(entries)));
        self
    }

    /// With names alone.
    pub fn names(self, field: Field, names: impl IntoIterator<Item = String>) -> Self {
        self.entries(field, names.into_iter().map(|name| (name, String::new())))
    }

    fn get(&self, field: c_int) -> Option<&Value> {
        self.values.iter().find(|(of, _)| *of == field).map(|(_, value)| value)
    }
}

/// Rows, and where the next page begins.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
    next: Option<(Text, Text)>,
}

impl Table {
    /// Some rows that are all there is.
    pub fn new(rows: Vec<Row>) -> Self {
        Table { rows, next: None }
    }

    /// The next page begins after `name`.
    pub fn before(self, next: Option<impl Into<Vec<u8>>>) -> Self {
        self.before_other(next.map(|next| (next, None)))
    }

    /// The next page begins after `name` and another text: of uploads one of them, of versions one of them, of what was
    /// searched for its text.
    pub fn before_other(mut self, next: Option<(impl Into<Vec<u8>>, Option<String>)>) -> Self {
        self.next =
            next.map(|(name, other)| (Text::new(name.into()), Text::new(other.unwrap_or_default().into_bytes())));
        self
    }

    /// As C holds it.
    pub fn give(self) -> *mut Told {
        TABLES.add(self)
    }
}

impl From<Row> for Table {
    fn from(row: Row) -> Self {
        Table::new(vec![row])
    }
}

static TABLES: Handles<Table> = Handles::of_memory("result");

/// Puts a table where the caller wants one.
///
/// # Safety
/// `place` is NULL or points to a place for a pointer.
pub unsafe fn tell(place: *mut *mut Told, table: impl FnOnce() -> Table) {
    if !place.is_null() {
        // SAFETY: as the caller of this function promises.
        unsafe { place.write(table().give()) };
    }
}

/// Reads something of a table; `none` where it is not there.
fn of<T>(told: *const Told, none: T, read: impl FnOnce(&Table) -> Option<T>) -> T {
    let found = catch_unwind(std::panic::AssertUnwindSafe(|| TABLES.get(told).ok().and_then(|table| read(&table))));
    found.ok().flatten().unwrap_or(none)
}

fn of_row<T>(told: *const Told, row: u64, field: c_int, none: T, read: impl FnOnce(&Value) -> Option<T>) -> T {
    let at = usize::try_from(row).unwrap_or(usize::MAX);
    of(told, none, |table| read(table.rows.get(at)?.get(field)?))
}

fn entry(value: &Value, at: u64) -> Option<&(Text, Text)> {
    match value {
        Value::Entries(entries) => entries.get(usize::try_from(at).ok()?),
        Value::Text(_) | Value::Number(_) => None,
    }
}

/// How many rows a result has.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_rows(result: *const Told) -> u64 {
    of(result, 0, |table| Some(table.rows.len() as u64))
}

/// Whether a row has a field.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_has(result: *const Told, row: u64, field: c_int) -> bool {
    of_row(result, row, field, false, |_| Some(true))
}

/// A text.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_text(result: *const Told, row: u64, field: c_int) -> *const c_char {
    of_row(result, row, field, c"".as_ptr(), |value| match value {
        Value::Text(text) => Some(text.as_ptr()),
        Value::Number(_) | Value::Entries(_) => None,
    })
}

/// The length of a text in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_length(result: *const Told, row: u64, field: c_int) -> u64 {
    of_row(result, row, field, 0, |value| match value {
        Value::Text(text) => Some(text.len()),
        Value::Number(_) | Value::Entries(_) => None,
    })
}

/// A number.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_number(result: *const Told, row: u64, field: c_int) -> u64 {
    of_row(result, row, field, 0, |value| match value {
        Value::Number(number) => Some(*number),
        Value::Text(_) | Value::Entries(_) => None,
    })
}

/// How many entries a field has.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_entries(result: *const Told, row: u64, field: c_int) -> u64 {
    of_row(result, row, field, 0, |value| match value {
        Value::Entries(entries) => Some(entries.len() as u64),
        Value::Text(_) | Value::Number(_) => None,
    })
}

/// The name of an entry.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_entry_name(result: *const Told, row: u64, field: c_int, entry: u64) -> *const c_char {
    of_row(result, row, field, c"".as_ptr(), |value| self::entry(value, entry).map(|(name, _)| name.as_ptr()))
}

/// The value of an entry.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_entry_value(result: *const Told, row: u64, field: c_int, entry: u64) -> *const c_char {
    of_row(result, row, field, c"".as_ptr(), |value| self::entry(value, entry).map(|(_, text)| text.as_ptr()))
}

/// Whether there is another page.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_has_next(result: *const Told) -> bool {
    of(result, false, |table| Some(table.next.is_some()))
}

/// Where the next page begins: `after` of the next call.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_next(result: *const Told) -> *const c_char {
    of(result, c"".as_ptr(), |table| table.next.as_ref().map(|(name, _)| name.as_ptr()))
}

/// The length of that in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_next_length(result: *const Told) -> u64 {
    of(result, 0, |table| table.next.as_ref().map(|(name, _)| name.len()))
}

/// The upload after which the next page of uploads begins.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_next_upload(result: *const Told) -> *const c_char {
    of(result, c"".as_ptr(), |table| table.next.as_ref().map(|(_, upload)| upload.as_ptr()))
}

/// Frees a result.
#[unsafe(no_mangle)]
pub extern "C" fn koine_result_free(result: *mut Told) {
    call(std::ptr::null_mut(), (), || {
        let _ = TABLES.remove(result);
        Ok::<(), Failure>(())
    });
}
