//! Searching by metadata and tags, and the indexes that make it cheap.

use std::ffi::{c_char, c_int};

use koine::object::{Indexed, SearchQuery, Wanted};

use crate::errors::{Error, Failure, call};
use crate::named::options::{length, sized, text, text_if};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Field, Table, Told, tell};

/// `koine_search_query` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Query {
    struct_size: u64,
    of: u64,
    name: *const c_char,
    equal: *const c_char,
    begins_with: *const c_char,
    first: *const c_char,
    last: *const c_char,
    prefix: *const c_char,
    value_after: *const c_char,
    name_after: *const c_char,
    limit: u64,
}

/// The constants of `koine_indexed`.
const OF_METADATA: i64 = 1;
const OF_TAG: i64 = 2;

/// What is searched for, or what an index is over.
///
/// # Safety
/// `name` is NULL or a C string.
unsafe fn indexed(of: i64, name: *const c_char) -> Result<Indexed, Failure> {
    // SAFETY: as the caller of this function promises.
    let name = unsafe { text(name, "name of the metadata or tag") }?.to_owned();
    match of {
        OF_METADATA => Ok(Indexed::Metadata(name)),
        OF_TAG => Ok(Indexed::Tag(name)),
        other => Err(Failure::invalid(format!("{other} is no koine_indexed"))),
    }
}

/// What its text has to be.
///
/// # Safety
/// The texts of the query are NULL or C strings.
unsafe fn wanted(given: &Query) -> Result<Wanted, Failure> {
    let of = |text: *const c_char, what| {
        // SAFETY: as the caller of this function promises.
        unsafe { text_if(text, what) }.map(|text| text.map(str::to_owned))
    };
    let (first, last) = (of(given.first, "first text")?, of(given.last, "last text")?);
    match (of(given.equal, "text")?, of(given.begins_with, "beginning of the text")?, first, last) {
        (None, None, None, None) => Ok(Wanted::Any),
        (Some(text), None, None, None) => Ok(Wanted::Equal(text)),
        (None, Some(text), None, None) => Ok(Wanted::BeginsWith(text)),
        (None, None, Some(first), Some(last)) => Ok(Wanted::Between(first, last)),
        _ => Err(Failure::invalid("one of equal, begins_with, or first and last together, says what is wanted")),
    }
}

/// Objects that have an entry of metadata or a tag.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_search(
    session: *const Session,
    bucket: *const c_char,
    query: *const Query,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and a query.
        let (bucket, given) = unsafe { (text(bucket, "bucket's name")?, sized(query, "the query")?) };
        let given = given.ok_or_else(|| Failure::invalid("the query is NULL"))?;
        // SAFETY: as above.
        let query = unsafe {
            let after =
                (text_if(given.value_after, "text to begin after")?, text_if(given.name_after, "name to begin after")?);
            SearchQuery {
                of: indexed(i64::try_from(given.of).unwrap_or(i64::MAX), given.name)?,
                wanted: wanted(&given)?,
                prefix: text_if(given.prefix, "prefix")?.unwrap_or_default().to_owned(),
                after: match after {
                    (None, None) => None,
                    (Some(value), Some(name)) => Some((value.to_owned(), name.to_owned())),
                    _ => return Err(Failure::invalid("value_after and name_after go together")),
                },
                limit: length(given.limit),
            }
        };
        let page = objects(session)?.search(bucket, &query)?;
        let row = |(value, object)| rows::summary(object).text(Field::Found, String::into_bytes(value));
        let next = page.next.map(|(value, name)| (name, Some(value)));
        Ok(Table::new(page.found.into_iter().map(row).collect()).before_other(next).give())
    })
}

/// Adds an index and builds it.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_index_add(
    session: *mut Session,
    bucket: *const c_char,
    of: c_int,
    name: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (bucket, of) = unsafe { (text(bucket, "bucket's name")?, indexed(of.into(), name)?) };
        let info = objects(session)?.add_index(bucket, of)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::index(info).into()) };
        Ok(true)
    })
}

/// Drops an index.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_index_drop(
    session: *mut Session,
    bucket: *const c_char,
    of: c_int,
    name: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (bucket, of) = unsafe { (text(bucket, "bucket's name")?, indexed(of.into(), name)?) };
        objects(session)?.drop_index(bucket, of).wait()?;
        Ok(true)
    })
}

/// The indexes of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_index_list(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let all = objects(session)?.indexes(bucket)?;
        Ok(Table::new(all.into_iter().map(rows::index).collect()).give())
    })
}
