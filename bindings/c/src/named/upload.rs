//! Uploads in parts, named by the texts of their ids.

use std::ffi::{c_char, c_int, c_void};

use koine::object::{
    ByteRange, CompletedPart, Expected, ObjectName, Objects, PartInfo, PartOptions, PartWriter, UploadId, UploadQuery,
};

use crate::arguments::bytes;
use crate::errors::{Error, Failure, call};
use crate::named::content::{pour, tell_object};
use crate::named::options::{Asked, CONDITIONS, DESCRIBED, ListOptions, Name, Options, Page, Segment, array, text};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Field, Row, Table, Told, tell};

/// `koine_part` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    number: u64,
    etag: *const c_char,
}

fn part_number(number: u64) -> u32 {
    // What is larger than any number of a part is none, and told so.
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A name and the id of an upload.
///
/// # Safety
/// The texts are as the header says and outlive the result.
unsafe fn target<'a>(name: Name, upload: *const c_char) -> Result<(ObjectName<'a>, UploadId), Failure> {
    // SAFETY: as the caller of this function promises.
    let (name, id) = unsafe { (name.read()?, text(upload, "upload's id")?) };
    Ok((name, id.parse()?))
}

/// Tells of a part.
///
/// # Safety
/// `told` is NULL or points to a place for a pointer.
unsafe fn tell_part(told: *mut *mut Told, part: PartInfo) {
    // SAFETY: as the caller of this function promises.
    unsafe { tell(told, || rows::part(part).into()) };
}

fn begin(
    objects: &Objects,
    (name, upload): (ObjectName<'_>, UploadId),
    number: u64,
    length: Option<u64>,
) -> Result<PartWriter, Failure> {
    let options = PartOptions { length, ..PartOptions::default() };
    Ok(objects.put_part(name, upload, part_number(number), options)?)
}

/// Begins an upload; a row with its id.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_create(
    session: *mut Session,
    name: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, DESCRIBED)?) };
        let id = objects.create_upload(name.bucket, name.key, asked.upload()?).wait()?;
        let row = Row::default().text(Field::Name, name.key).text(Field::Upload, id.to_string());
        Ok(Table::from(row).give())
    })
}

/// Puts a part.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_part(
    session: *mut Session,
    name: Name,
    upload: *const c_char,
    number: u64,
    data: *const c_void,
    length: u64,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name, a C string and bytes.
        let (target, data) = unsafe { (target(name, upload)?, bytes(data, length)?) };
        let mut writer = begin(&objects(session)?, target, number, Some(length))?;
        writer.write(data)?;
        let part = writer.finish(&Expected::none()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_part(told, part) };
        Ok(true)
    })
}

/// Puts a part that a file descriptor gives.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_part_fd(
    session: *mut Session,
    name: Name,
    upload: *const c_char,
    number: u64,
    descriptor: c_int,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name and a C string.
        let target = unsafe { target(name, upload) }?;
        let mut writer = begin(&objects(session)?, target, number, None)?;
        pour(descriptor, |piece| writer.write(piece))?;
        let part = writer.finish(&Expected::none()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_part(told, part) };
        Ok(true)
    })
}

/// Puts a part that is a segment of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_part_copy(
    session: *mut Session,
    from: *const Segment,
    name: Name,
    upload: *const c_char,
    number: u64,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a segment, a name and a C string.
        let (segments, (name, upload)) = unsafe { (array(from, 1, "segments")?, target(name, upload)?) };
        let segment = segments.first().ok_or_else(|| Failure::invalid("the segment is NULL"))?;
        // SAFETY: as above.
        let from = unsafe { segment.read() }?;
        let range: Option<ByteRange> = from.range;
        let number = part_number(number);
        let part = objects(session)?.copy_part(from.name, range, &from.condition, name, upload, number).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_part(told, part) };
        Ok(true)
    })
}

/// A page of parts after one of that number.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_parts(
    session: *const Session,
    name: Name,
    upload: *const c_char,
    after: u64,
    limit: u64,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name and a C string.
        let (name, upload) = unsafe { target(name, upload) }?;
        let limit = if limit == 0 { 1000 } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        let page = objects(session)?.list_parts(name, upload, part_number(after), limit)?;
        let next = page.next.map(|number| number.to_string());
        Ok(Table::new(page.parts.into_iter().map(rows::part).collect()).before(next).give())
    })
}

/// Makes an object of parts; of all of them for NULL.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_complete(
    session: *mut Session,
    name: Name,
    upload: *const c_char,
    parts: *const Part,
    count: u64,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        let all = parts.is_null() && count == 0;
        // SAFETY: the header asks for a name, a C string, parts and options.
        let ((name, upload), given, asked) =
            unsafe { (target(name, upload)?, array(parts, count, "parts")?, Asked::read(options, CONDITIONS)?) };
        let mut options = asked.complete();
        options.all_parts = all;
        for part in given {
            // SAFETY: as above.
            let etag = unsafe { text(part.etag, "ETag of a part") }?.to_owned();
            options.parts.push(CompletedPart { number: part_number(part.number), etag, checksums: Vec::new() });
        }
        let info = objects.complete_upload(name, upload, options).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Gives an upload up.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_abort(
    session: *mut Session,
    name: Name,
    upload: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name and a C string.
        let (name, upload) = unsafe { target(name, upload) }?;
        objects(session)?.abort_upload(name, upload).wait()?;
        Ok(true)
    })
}

/// A page of uploads of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_upload_list(
    session: *const Session,
    bucket: *const c_char,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and options.
        let (bucket, page) = unsafe { (text(bucket, "bucket's name")?, Page::read(options)?) };
        let query = UploadQuery {
            prefix: page.prefix().to_owned(),
            delimiter: page.delimiter().to_owned(),
            key_after: page.after().map(str::to_owned),
            upload_after: page.upload_after.filter(|id| !id.is_empty()).map(str::parse).transpose()?,
            limit: page.len(),
        };
        let found = objects(session)?.list_uploads(bucket, &query)?;
        let mut all: Vec<(String, Row)> =
            found.uploads.into_iter().map(|upload| (upload.key.clone(), rows::upload(upload))).collect();
        all.extend(found.common_prefixes.into_iter().map(|prefix| (prefix.clone(), rows::prefix(prefix))));
        all.sort_by(|one, other| one.0.cmp(&other.0));
        let next = found.next.map(|(key, upload)| (key, upload.map(|upload| upload.to_string())));
        Ok(Table::new(all.into_iter().map(|(_, row)| row).collect()).before_other(next).give())
    })
}
