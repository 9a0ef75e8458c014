//! Versions of objects: kept or not, listed, read one by one, deleted for good.

use std::ffi::{c_char, c_int, c_void};

use koine::object::{VersionId, VersionPage, VersionQuery, VersionSummary, Versioning};

use crate::arguments::bytes_mut;
use crate::errors::{Error, Failure, call};
use crate::named::options::{ListOptions, Name, Page, text};
use crate::named::stream::{Reader, reader};
use crate::rows;
use crate::session::{Session, objects, objects_within};
use crate::table::{Row, Table, Told};

/// A version's id.
///
/// # Safety
/// `version` is NULL or a C string.
unsafe fn id(version: *const c_char) -> Result<VersionId, Failure> {
    // SAFETY: as the caller of this function promises.
    Ok(unsafe { text(version, "version") }?.parse()?)
}

/// Sets whether a bucket keeps versions.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_set_versioning(
    session: *mut Session,
    bucket: *const c_char,
    versioning: c_int,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let versioning = match versioning {
            0 => Versioning::Never,
            1 => Versioning::Enabled,
            2 => Versioning::Suspended,
            other => return Err(Failure::invalid(format!("{other} is no koine_versioning"))),
        };
        objects(session)?.set_versioning(bucket, versioning).wait()?;
        Ok(true)
    })
}

/// Versions and common prefixes in the order of their names, versions of a name newest first.
fn table(page: VersionPage) -> Table {
    let version = |version: VersionSummary| (version.key.clone(), rows::version(version));
    let mut found: Vec<(String, Row)> = page.versions.into_iter().map(version).collect();
    found.extend(page.common_prefixes.into_iter().map(|prefix| (prefix.clone(), rows::prefix(prefix))));
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let next = page.next.map(|(key, version)| (key, version.map(|version| version.to_string())));
    Table::new(found.into_iter().map(|(_, row)| row).collect()).before_other(next)
}

/// A page of the versions of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_version_list(
    session: *const Session,
    bucket: *const c_char,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and options.
        let (bucket, page) = unsafe { (text(bucket, "bucket's name")?, Page::read(options)?) };
        let query = VersionQuery {
            prefix: page.prefix().to_owned(),
            delimiter: page.delimiter().to_owned(),
            key_after: page.after().map(str::to_owned),
            version_after: page.version_after()?,
            limit: page.len(),
        };
        Ok(table(objects(session)?.list_versions(bucket, &query)?).give())
    })
}

/// What is known of a version.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_version_head(
    session: *const Session,
    name: Name,
    version: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name and a C string.
        let (name, version) = unsafe { (name.read()?, id(version)?) };
        Ok(Table::from(rows::object(objects(session)?.head_version(name, version)?)).give())
    })
}

/// Reads a range of a version; gives how many bytes.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_version_get(
    session: *const Session,
    name: Name,
    version: *const c_char,
    offset: u64,
    length: u64,
    buffer: *mut c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name, a C string and a buffer.
        let (name, version, buffer) = unsafe { (name.read()?, id(version)?, bytes_mut(buffer, length)?) };
        Ok(objects.get_version(name, version)?.read(offset, buffer)? as i64)
    })
}

/// Opens a version for reading.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_version_open(
    session: *const Session,
    name: Name,
    version: *const c_char,
    error: *mut *mut Error,
) -> *mut Reader {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name and a C string.
        let (name, version) = unsafe { (name.read()?, id(version)?) };
        let (objects, within) = objects_within(session)?;
        reader(within, objects.get_version(name, version)?)
    })
}

/// Deletes a version for good.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_version_delete(
    session: *mut Session,
    name: Name,
    version: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name and a C string.
        let (name, version) = unsafe { (name.read()?, id(version)?) };
        objects(session)?.delete_version(name, version).wait()?;
        Ok(true)
    })
}
