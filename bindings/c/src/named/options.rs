//! Arguments of calls on named objects: names, options, queries.
//!
//! Invariants:
//! - A structure begins with its size: one of an older header is read as far as it goes, the rest is as if it were 0.
//! - What a call does not take is refused, not passed over.

use std::ffi::{CStr, c_char, c_int};
use std::slice;

use koine::kv::Version;
use koine::object::{
    ByteRange, CompleteOptions, ComposeOptions, ContentHeaders, CopiedMetadata, CopyOptions, DeleteOptions,
    EditOptions, EtagKind, EtagMatch, ListQuery, NameQuery, ObjectName, PutCondition, PutOptions, ReadCondition,
    RenameOptions, Segment as ObjectSegment, UploadOptions, VersionId,
};

use crate::errors::Failure;

/// `KOINE_TERMINATED` of the header.
const TERMINATED: u64 = u64::MAX;

/// `koine_name` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Name {
    bucket: *const c_char,
    key: *const c_char,
    key_length: u64,
}

/// `koine_entry` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    name: *const c_char,
    value: *const c_char,
}

/// `koine_segment` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Segment {
    name: Name,
    offset: u64,
    length: u64,
    if_match: *const c_char,
}

/// `koine_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    struct_size: u64,
    flags: u64,
    if_match: *const c_char,
    if_version: u64,
    source_if_match: *const c_char,
    content_type: *const c_char,
    cache_control: *const c_char,
    content_disposition: *const c_char,
    content_encoding: *const c_char,
    content_language: *const c_char,
    expires: *const c_char,
    metadata: *const Entry,
    metadata_count: u64,
    tags: *const Entry,
    tag_count: u64,
    source_version: *const c_char,
}

/// `koine_list_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ListOptions {
    struct_size: u64,
    prefix: *const c_char,
    prefix_length: u64,
    delimiter: *const c_char,
    after: *const c_char,
    after_length: u64,
    limit: u64,
    upload_after: *const c_char,
    group: *const c_char,
}

/// Reads a structure that begins with its size; `None` for NULL.
///
/// # Safety
/// `given` is NULL, or has as many bytes as its first field says. All zeros are a `T`.
pub unsafe fn sized<T: Copy>(given: *const T, what: &str) -> Result<Option<T>, Failure> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: every structure that comes here begins with its size, a `u64`.
    let size = unsafe { given.cast::<u64>().read() };
    let known = size_of::<T>();
    let size = usize::try_from(size).ok().filter(|size| (8..=4096).contains(size)).ok_or_else(|| {
        Failure::invalid(format!(
            "the struct_size of {what} is {size}; set it by koine_init or to sizeof the structure"
        ))
    })?;
    if size > known {
        // SAFETY: as the caller of this function promises.
        let newer = unsafe { slice::from_raw_parts(given.cast::<u8>().add(known), size - known) };
        if newer.iter().any(|byte| *byte != 0) {
            let message = format!("{what} have something that this version of the library does not know");
            return Err(Failure::invalid(message));
        }
    }
    let mut read = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: both sides have so many bytes, and what is not copied is zero.
    unsafe {
        std::ptr::copy_nonoverlapping(given.cast::<u8>(), read.as_mut_ptr().cast::<u8>(), size.min(known));
        Ok(Some(read.assume_init()))
    }
}

/// A text; `None` for NULL.
///
/// # Safety
/// `text` is NULL or a C string that outlives the result.
pub unsafe fn text_if<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    // SAFETY: as the caller of this function promises.
    unsafe { text_of(text, TERMINATED, what) }
}

/// A text that must be there.
///
/// # Safety
/// `text` is NULL or a C string that outlives the result.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller of this function promises.
    unsafe { text_if(text, what) }?.ok_or_else(|| Failure::invalid(format!("the {what} is NULL")))
}

/// A text of a length; `None` for NULL.
///
/// # Safety
/// `text` is NULL, a C string where `length` says so, or has so many bytes; all outlive the result.
unsafe fn text_of<'a>(text: *const c_char, length: u64, what: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    let bytes = match length {
        // SAFETY: as the caller of this function promises.
        TERMINATED => unsafe { CStr::from_ptr(text) }.to_bytes(),
        // SAFETY: as the caller of this function promises.
        length => unsafe { crate::arguments::bytes(text.cast(), length) }?,
    };
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("the {what} is not UTF-8")))?;
    Ok(Some(text))
}

/// Entries, whose names and values must be there.
///
/// # Safety
/// `entries` is NULL or has `count` entries of C strings.
pub unsafe fn entries(entries: *const Entry, count: u64, what: &str) -> Result<Vec<(String, String)>, Failure> {
    // SAFETY: as the caller of this function promises.
    unsafe {
        array(entries, count, what)?
            .iter()
            .map(|entry| Ok((text(entry.name, what)?.to_owned(), text(entry.value, what)?.to_owned())))
            .collect()
    }
}

/// Things in a row.
///
/// # Safety
/// `first` is NULL or has `count` of them, which outlive the result and which nobody changes meanwhile.
pub unsafe fn array<'a, T>(first: *const T, count: u64, what: &str) -> Result<&'a [T], Failure> {
    let fits = usize::try_from(count).ok().filter(|count| count.checked_mul(size_of::<T>().max(1)).is_some());
    let count = fits.ok_or_else(|| Failure::invalid(format!("{count} are more {what} than memory can hold")))?;
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid(format!("the list of {what} is NULL"))),
        // SAFETY: as the caller of this function promises.
        (false, _) => Ok(unsafe { slice::from_raw_parts(first, count) }),
    }
}

impl Entry {
    /// Where its name is.
    pub fn name_text(&self) -> *const c_char {
        self.name
    }
}

impl Name {
    /// The name itself.
    ///
    /// # Safety
    /// Its texts outlive the result.
    pub unsafe fn read<'a>(self) -> Result<ObjectName<'a>, Failure> {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let key = text_of(self.key, self.key_length, "key")?.ok_or_else(|| Failure::invalid("the key is NULL"))?;
            Ok(ObjectName::new(text(self.bucket, "bucket's name")?, key))
        }
    }
}

impl Segment {
    /// The segment itself; the length `UINT64_MAX` is all there is from the offset on, which must be 0.
    ///
    /// # Safety
    /// Its texts outlive the result.
    pub unsafe fn read<'a>(&self) -> Result<ObjectSegment<'a>, Failure> {
        // SAFETY: as the caller of this function promises.
        let (name, etag) = unsafe { (self.name.read()?, text_if(self.if_match, "ETag")?) };
        let range = match (self.offset, self.length) {
            (0, u64::MAX) => None,
            (_, u64::MAX) => {
                return Err(Failure::invalid(
                    "a segment that does not begin at 0 tells its length; koine_head knows the size",
                ));
            }
            (offset, length) => Some(ByteRange { offset, length }),
        };
        Ok(ObjectSegment { name, range, condition: source_condition(etag), version: None })
    }
}

fn source_condition(etag: Option<&str>) -> ReadCondition {
    ReadCondition { if_match: etag.map(EtagMatch::parse), ..ReadCondition::default() }
}

/// What a call takes of [`Options`] beside conditions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// Headers, metadata and tags.
    pub attributes: bool,
    /// Flags beside the conditions.
    pub flags: u64,
    /// A condition of the source.
    pub source: bool,
}

/// `KOINE_IF_ABSENT` and the other flags of the header.
const IF_ABSENT: u64 = 1;
const IF_PRESENT: u64 = 2;
const IF_VERSION: u64 = 4;
/// Edits make no object.
pub const NO_CREATE: u64 = 8;
/// A composed object has the first source's headers, metadata and tags.
pub const SOURCE_ATTRIBUTES: u64 = 16;
/// A copy has the given headers and metadata.
pub const REPLACE_ATTRIBUTES: u64 = 32;
/// A copy has the given tags.
pub const REPLACE_TAGS: u64 = 64;
/// The ETag of what is put is the MD5 of its bytes.
pub const MD5: u64 = 128;

/// Nothing but conditions.
pub const CONDITIONS: Takes = Takes { attributes: false, flags: 0, source: false };
/// What describes an object that is made.
pub const DESCRIBED: Takes = Takes { attributes: true, flags: MD5, source: false };

/// Options that were read.
#[derive(Default)]
pub struct Asked {
    flags: u64,
    condition: PutCondition,
    source: ReadCondition,
    source_version: Option<VersionId>,
    headers: ContentHeaders,
    metadata: Vec<(String, String)>,
    tags: Vec<(String, String)>,
}

impl Asked {
    /// Reads options; NULL asks for nothing.
    ///
    /// # Safety
    /// `options` is NULL or options as the header says.
    pub unsafe fn read(options: *const Options, takes: Takes) -> Result<Asked, Failure> {
        // SAFETY: as the caller of this function promises.
        let Some(given) = unsafe { sized(options, "the options") }? else { return Ok(Asked::default()) };
        let of_headers = |text: *const c_char, what| {
            // SAFETY: as the caller of this function promises.
            unsafe { text_if(text, what) }.map(|text| text.map(str::to_owned))
        };
        let headers = ContentHeaders {
            content_type: of_headers(given.content_type, "content type")?,
            cache_control: of_headers(given.cache_control, "cache control")?,
            content_disposition: of_headers(given.content_disposition, "content disposition")?,
            content_encoding: of_headers(given.content_encoding, "content encoding")?,
            content_language: of_headers(given.content_language, "content language")?,
            expires: of_headers(given.expires, "time of expiry")?,
        };
        // SAFETY: as the caller of this function promises.
        let (metadata, tags) = unsafe {
            (entries(given.metadata, given.metadata_count, "metadata")?, entries(given.tags, given.tag_count, "tags")?)
        };
        let described = headers != ContentHeaders::default() || !metadata.is_empty() || !tags.is_empty();
        if described && !takes.attributes {
            return Err(Failure::invalid("this call takes no headers, metadata or tags; koine_set changes them"));
        }
        let unknown = given.flags & !(IF_ABSENT | IF_PRESENT | IF_VERSION | takes.flags);
        if unknown != 0 {
            return Err(Failure::invalid(format!("the flags {unknown:#x} are not for this call")));
        }
        // SAFETY: as the caller of this function promises.
        let (etag, source) =
            unsafe { (text_if(given.if_match, "ETag")?, text_if(given.source_if_match, "source's ETag")?) };
        // SAFETY: as the caller of this function promises.
        let source_version = unsafe { text_if(given.source_version, "source's version") }?;
        if source_version.is_some() && takes.flags & REPLACE_ATTRIBUTES == 0 {
            return Err(Failure::invalid("this call takes no version of a source; koine_copy does"));
        }
        let source_version = source_version.map(str::parse).transpose()?;
        if source.is_some() && !takes.source {
            return Err(Failure::invalid("this call takes no condition of a source"));
        }
        flagged(&[("if_version", "KOINE_IF_VERSION", given.if_version != 0 && given.flags & IF_VERSION == 0)])?;
        let condition = condition(given.flags, etag, given.if_version)?;
        let source = source_condition(source);
        Ok(Asked { flags: given.flags, condition, source, source_version, headers, metadata, tags })
    }

    fn etag(&self) -> EtagKind {
        if self.has(MD5) { EtagKind::Md5 } else { EtagKind::Drawn }
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// For an object whose length is known, or not.
    pub fn put(self, length: Option<u64>) -> PutOptions {
        let etag = self.etag();
        let Asked { condition, headers, metadata, tags, .. } = self;
        PutOptions { headers, metadata, tags, condition, length, etag, ..PutOptions::default() }
    }

    /// For an edit.
    pub fn edit(self, length: Option<u64>) -> EditOptions {
        EditOptions { create: !self.has(NO_CREATE), condition: self.condition, length, ..EditOptions::default() }
    }

    /// For a copy.
    pub fn copy(self) -> CopyOptions {
        let (replaces, tags) = (self.has(REPLACE_ATTRIBUTES), self.has(REPLACE_TAGS));
        let Asked { condition, source, source_version, headers, metadata, tags: given, .. } = self;
        let metadata = match replaces {
            true => CopiedMetadata::Replace { headers, metadata },
            false => CopiedMetadata::Copy,
        };
        let tags = tags.then_some(given);
        CopyOptions { metadata, tags, source_version, source_condition: source, condition, ..CopyOptions::default() }
    }

    /// For a move.
    pub fn rename(self) -> RenameOptions {
        RenameOptions { condition: self.condition, source_condition: self.source, ..RenameOptions::default() }
    }

    /// For a composition.
    pub fn compose(self) -> ComposeOptions {
        ComposeOptions { source_metadata: self.has(SOURCE_ATTRIBUTES), put: self.put(None) }
    }

    /// For a deletion.
    pub fn delete(self) -> DeleteOptions {
        DeleteOptions { condition: self.condition }
    }

    /// For the end of an upload.
    pub fn complete(self) -> CompleteOptions {
        CompleteOptions { condition: self.condition, ..CompleteOptions::default() }
    }

    /// For the beginning of an upload.
    pub fn upload(self) -> Result<UploadOptions, Failure> {
        if self.condition != PutCondition::none() || !self.tags.is_empty() {
            return Err(Failure::invalid(
                "conditions of an upload are given to koine_upload_complete, tags to koine_set",
            ));
        }
        let etag = self.etag();
        Ok(UploadOptions { headers: self.headers, metadata: self.metadata, etag, ..UploadOptions::default() })
    }
}

/// Refuses members that are set and whose flags are not: each is told with its name, the name of its flag, and whether it is so.
pub fn flagged(members: &[(&str, &str, bool)]) -> Result<(), Failure> {
    match members.iter().find(|(_, _, is_unflagged)| *is_unflagged) {
        Some((member, flag, _)) => Err(Failure::invalid(format!("{member} is set without the flag {flag}"))),
        None => Ok(()),
    }
}

/// What must hold of a name.
fn condition(flags: u64, etag: Option<&str>, version: u64) -> Result<PutCondition, Failure> {
    let present = flags & IF_PRESENT != 0;
    let if_match = etag.map(EtagMatch::parse).or(present.then_some(EtagMatch::Any));
    let if_version = (flags & IF_VERSION != 0).then_some(Version(version));
    let if_absent = flags & IF_ABSENT != 0;
    if if_absent && (if_match.is_some() || if_version.is_some()) {
        return Err(Failure::invalid("KOINE_IF_ABSENT goes with no condition on what is there"));
    }
    Ok(PutCondition { if_absent, if_match, if_version })
}

/// A page that is asked for.
pub struct Page<'a> {
    prefix: &'a str,
    delimiter: &'a str,
    after: Option<&'a str>,
    /// The most rows; 0 is as many as one page has.
    pub limit: u64,
    /// Uploads, or versions, of that name after this one.
    pub upload_after: Option<&'a str>,
    /// Buckets of this group.
    pub group: Option<&'a str>,
}

/// How many rows a page has unless told otherwise.
const PAGE_LEN: u64 = 1000;

/// How many rows at most; 0 is as many as a page has.
pub fn length(limit: u64) -> usize {
    usize::try_from(if limit == 0 { PAGE_LEN } else { limit }).unwrap_or(usize::MAX)
}

impl<'a> Page<'a> {
    /// Reads options; NULL asks for all.
    ///
    /// # Safety
    /// `options` is NULL or options as the header says, whose texts outlive the result.
    pub unsafe fn read(options: *const ListOptions) -> Result<Page<'a>, Failure> {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let Some(given) = sized(options, "the options")? else {
                return Ok(Page { prefix: "", delimiter: "", after: None, limit: 0, upload_after: None, group: None });
            };
            // A length of 0 is that of a text that ends with a zero.
            let length = |length| if length == 0 { TERMINATED } else { length };
            Ok(Page {
                prefix: text_of(given.prefix, length(given.prefix_length), "prefix")?.unwrap_or_default(),
                delimiter: text_if(given.delimiter, "delimiter")?.unwrap_or_default(),
                after: text_of(given.after, length(given.after_length), "name to begin after")?,
                limit: given.limit,
                upload_after: text_if(given.upload_after, "upload to begin after")?,
                group: text_if(given.group, "group")?,
            })
        }
    }

    /// The prefix.
    pub fn prefix(&self) -> &'a str {
        self.prefix
    }

    /// The delimiter.
    pub fn delimiter(&self) -> &'a str {
        self.delimiter
    }

    /// The name to begin after.
    pub fn after(&self) -> Option<&'a str> {
        self.after
    }

    /// The version to begin after.
    pub fn version_after(&self) -> Result<Option<VersionId>, Failure> {
        Ok(self.upload_after.filter(|version| !version.is_empty()).map(str::parse).transpose()?)
    }

    /// How many rows at most.
    pub fn len(&self) -> usize {
        length(self.limit)
    }

    /// For objects.
    pub fn objects(&self) -> ListQuery {
        ListQuery {
            prefix: self.prefix.to_owned(),
            delimiter: self.delimiter.to_owned(),
            after: self.after.map(str::to_owned),
            limit: self.len(),
        }
    }

    /// For what has names alone; a delimiter is refused.
    pub fn names(&self) -> Result<NameQuery, Failure> {
        if !self.delimiter.is_empty() {
            return Err(Failure::invalid("this listing takes no delimiter"));
        }
        let (prefix, after) = (self.prefix.to_owned(), self.after.map(str::to_owned));
        Ok(NameQuery { prefix, after, limit: self.len() })
    }
}

/// What a callback of a walk says: to go on.
pub const GO_ON: c_int = 0;
