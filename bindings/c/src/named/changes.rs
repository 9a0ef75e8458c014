//! Edits, copies, moves, compositions, attributes.

use std::ffi::{c_int, c_void};

use koine::object::{
    AttributeChange, ByteRange, CopyPrefixOptions, EditWriter, ExchangeOptions, Expected, MetadataChange, ObjectInfo,
    Result as ObjectResult,
};

use crate::arguments::bytes;
use crate::errors::{Error, Failure, call};
use crate::named::content::{pour, tell_object};
use crate::named::options::{
    Asked, CONDITIONS, DESCRIBED, Entry, NO_CREATE, Name, Options, REPLACE_ATTRIBUTES, REPLACE_TAGS, SOURCE_ATTRIBUTES,
    Segment, Takes, array, entries, flagged, sized, text,
};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Table, Told, tell};

/// What an edit takes.
pub const EDIT: Takes = Takes { flags: NO_CREATE, ..CONDITIONS };
/// What a move takes.
pub const MOVE: Takes = Takes { source: true, ..CONDITIONS };
/// What a copy takes.
pub const COPY: Takes = Takes { source: true, flags: REPLACE_ATTRIBUTES | REPLACE_TAGS, ..DESCRIBED };
/// What a composition takes.
pub const COMPOSE: Takes = Takes { flags: SOURCE_ATTRIBUTES, ..DESCRIBED };

fn finish(writer: EditWriter) -> ObjectResult<ObjectInfo> {
    writer.finish(&Expected::none()).wait()
}

/// Writes into an object at an offset.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_write_at(
    session: *mut Session,
    name: Name,
    offset: u64,
    data: *const c_void,
    length: u64,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name, bytes and options.
        let (name, data, asked) = unsafe { (name.read()?, bytes(data, length)?, Asked::read(options, EDIT)?) };
        let mut writer = objects.write_at(name, offset, asked.edit(Some(length)))?;
        writer.write(data)?;
        let info = finish(writer)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Writes at the end of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_append(
    session: *mut Session,
    name: Name,
    data: *const c_void,
    length: u64,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name, bytes and options.
        let (name, data, asked) = unsafe { (name.read()?, bytes(data, length)?, Asked::read(options, EDIT)?) };
        let mut writer = objects.append(name, asked.edit(Some(length)))?;
        writer.write(data)?;
        let info = finish(writer)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Writes what a file descriptor gives into an object at an offset.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_write_fd(
    session: *mut Session,
    name: Name,
    offset: u64,
    descriptor: c_int,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, EDIT)?) };
        let mut writer = objects.write_at(name, offset, asked.edit(None))?;
        pour(descriptor, |piece| writer.write(piece))?;
        let info = finish(writer)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Gives an object another length.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_truncate(
    session: *mut Session,
    name: Name,
    size: u64,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, EDIT)?) };
        let info = objects.truncate(name, size, asked.edit(None)).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// A segment with a length, for a copy into an object.
///
/// # Safety
/// `from` is NULL or a segment.
pub unsafe fn range_of<'a>(from: *const Segment) -> Result<(koine::object::ObjectName<'a>, ByteRange), Failure> {
    // SAFETY: as the caller of this function promises.
    let segments = unsafe { array(from, 1, "segments") }?;
    let segment = segments.first().ok_or_else(|| Failure::invalid("the segment is NULL"))?;
    // SAFETY: as the caller of this function promises.
    let read = unsafe { segment.read() }?;
    if read.condition.if_match.is_some() {
        return Err(Failure::invalid("this call takes no condition of a source"));
    }
    let range =
        read.range.ok_or_else(|| Failure::invalid("the segment tells its length; koine_head knows the size"))?;
    Ok((read.name, range))
}

/// Writes a range of one object into another.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_write_copy(
    session: *mut Session,
    from: *const Segment,
    to: Name,
    offset: u64,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a segment, a name and options.
        let ((from, range), to, asked) = unsafe { (range_of(from)?, to.read()?, Asked::read(options, EDIT)?) };
        let info = objects.write_copy(from, range, to, offset, asked.edit(None)).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Makes an object of segments of others.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_compose(
    session: *mut Session,
    segments: *const Segment,
    count: u64,
    to: Name,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for segments, a name and options.
        let (segments, to, asked) =
            unsafe { (array(segments, count, "segments")?, to.read()?, Asked::read(options, COMPOSE)?) };
        // SAFETY: as above.
        let segments = segments.iter().map(|segment| unsafe { segment.read() }).collect::<Result<Vec<_>, _>>()?;
        let info = objects.compose(&segments, to, asked.compose()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Copies an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_copy(
    session: *mut Session,
    from: Name,
    to: Name,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for names and options.
        let (from, to, asked) = unsafe { (from.read()?, to.read()?, Asked::read(options, COPY)?) };
        let info = objects.copy(from, to, asked.copy()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Gives an object another name.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_move(
    session: *mut Session,
    from: Name,
    to: Name,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for names and options.
        let (from, to, asked) = unsafe { (from.read()?, to.read()?, Asked::read(options, MOVE)?) };
        let info = objects.rename(from, to, asked.rename()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Swaps two objects.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_exchange(
    session: *mut Session,
    one: Name,
    other: Name,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for names.
        let (one, other) = unsafe { (one.read()?, other.read()?) };
        let (one, other) = objects.exchange(one, other, ExchangeOptions::default()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || Table::new(vec![rows::object(one), rows::object(other)])) };
        Ok(true)
    })
}

/// Copies all objects that begin so; gives how many.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_copy_prefix(session: *mut Session, from: Name, to: Name, error: *mut *mut Error) -> i64 {
    call(error, -1, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for names.
        let (from, to) = unsafe { (from.read()?, to.read()?) };
        let (mut count, mut options) = (0, CopyPrefixOptions::default());
        loop {
            let copied = objects.copy_prefix(from, to, options.clone())?;
            count += copied.objects;
            match copied.next {
                Some(next) => options.after = Some(next),
                None => return Ok(count as i64),
            }
        }
    })
}

/// Gives all objects that begin so names that begin otherwise.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_move_prefix(
    session: *mut Session,
    from: Name,
    to: Name,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for names.
        let (from, to) = unsafe { (from.read()?, to.read()?) };
        if from.bucket != to.bucket {
            return Err(Failure::invalid("a prefix moves within its bucket; copy it and delete what was copied"));
        }
        objects.rename_prefix(from.bucket, from.key, to.key).wait()?;
        Ok(true)
    })
}

/// `koine_change` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Change {
    struct_size: u64,
    flags: u64,
    set_metadata: *const Entry,
    set_metadata_count: u64,
    remove_metadata: *const Entry,
    remove_metadata_count: u64,
    set_tags: *const Entry,
    set_tag_count: u64,
    remove_tags: *const Entry,
    remove_tag_count: u64,
    mode: u64,
    uid: u64,
    gid: u64,
    modified: u64,
    headers: *const Options,
}

const CHANGE_ALL_METADATA: u64 = 0x100;
const CHANGE_ALL_TAGS: u64 = 0x200;
const CHANGE_HEADERS: u64 = 0x400;
const CHANGE_MODE: u64 = 0x800;
const CHANGE_OWNER: u64 = 0x1000;
const CHANGE_MODIFIED: u64 = 0x2000;

/// A change of entries; `None` where nothing is said.
///
/// # Safety
/// The lists are NULL or have so many entries.
pub unsafe fn entry_change(
    set: (*const Entry, u64),
    remove: (*const Entry, u64),
    all: bool,
    what: &str,
) -> Result<Option<MetadataChange>, Failure> {
    // SAFETY: as the caller of this function promises.
    let (set, gone) = unsafe { (entries(set.0, set.1, what)?, array(remove.0, remove.1, what)?) };
    // SAFETY: as the caller of this function promises.
    let names = gone.iter().map(|entry| unsafe { entry.name(what) }.map(str::to_owned));
    let remove: Vec<String> = names.collect::<Result<_, _>>()?;
    match (all, set.is_empty() && remove.is_empty()) {
        (true, _) if !remove.is_empty() => {
            Err(Failure::invalid(format!("all {what} are replaced; none is removed by name")))
        }
        (true, _) => Ok(Some(MetadataChange::Replace(set))),
        (false, true) => Ok(None),
        (false, false) => Ok(Some(MetadataChange::Merge { set, remove })),
    }
}

impl Entry {
    /// Its name alone.
    ///
    /// # Safety
    /// The name is NULL or a C string that outlives the result.
    unsafe fn name<'a>(&self, what: &str) -> Result<&'a str, Failure> {
        // SAFETY: as the caller of this function promises.
        unsafe { text(self.name_text(), what) }
    }
}

fn small(number: u64, what: &str) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|_| Failure::invalid(format!("{number} is no {what}")))
}

/// Reads a change of attributes.
///
/// # Safety
/// `change` is NULL or a change as the header says.
pub unsafe fn attributes(change: *const Change) -> Result<AttributeChange, Failure> {
    // SAFETY: as the caller of this function promises.
    let given = unsafe { sized(change, "the change") }?.ok_or_else(|| Failure::invalid("the change is NULL"))?;
    let known = CHANGE_ALL_METADATA | CHANGE_ALL_TAGS | CHANGE_HEADERS | CHANGE_MODE | CHANGE_OWNER | CHANGE_MODIFIED;
    if given.flags & !known != 0 {
        return Err(Failure::invalid(format!("{:#x} are no flags of a change", given.flags & !known)));
    }
    let has = |flag: u64| given.flags & flag != 0;
    flagged(&[
        ("mode", "KOINE_CHANGE_MODE", given.mode != 0 && !has(CHANGE_MODE)),
        ("uid", "KOINE_CHANGE_OWNER", given.uid != 0 && !has(CHANGE_OWNER)),
        ("gid", "KOINE_CHANGE_OWNER", given.gid != 0 && !has(CHANGE_OWNER)),
        ("modified", "KOINE_CHANGE_MODIFIED", given.modified != 0 && !has(CHANGE_MODIFIED)),
        ("headers", "KOINE_CHANGE_HEADERS", !given.headers.is_null() && !has(CHANGE_HEADERS)),
    ])?;
    // SAFETY: as the caller of this function promises.
    let (metadata, tags, headers) = unsafe {
        let set = (given.set_metadata, given.set_metadata_count);
        let remove = (given.remove_metadata, given.remove_metadata_count);
        let metadata = entry_change(set, remove, has(CHANGE_ALL_METADATA), "metadata")?;
        let (set, remove) = ((given.set_tags, given.set_tag_count), (given.remove_tags, given.remove_tag_count));
        let tags = entry_change(set, remove, has(CHANGE_ALL_TAGS), "tags")?;
        (metadata, tags, Asked::read(given.headers, DESCRIBED)?.put(None).headers)
    };
    Ok(AttributeChange {
        metadata,
        tags,
        headers: has(CHANGE_HEADERS).then_some(headers),
        mode: has(CHANGE_MODE).then(|| small(given.mode, "mode")).transpose()?,
        posix_owner: has(CHANGE_OWNER)
            .then(|| Ok::<_, Failure>((small(given.uid, "user")?, small(given.gid, "group")?)))
            .transpose()?,
        modified: has(CHANGE_MODIFIED).then_some(koine::env::Timestamp(given.modified)),
        ..AttributeChange::default()
    })
}

/// Changes what is known of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_set(
    session: *mut Session,
    name: Name,
    change: *const Change,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name, a change and options.
        let (name, change, asked) = unsafe { (name.read()?, attributes(change)?, Asked::read(options, CONDITIONS)?) };
        let info = objects.set_attributes(name, change, asked.edit(None)).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}
