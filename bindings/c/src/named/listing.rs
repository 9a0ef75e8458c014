//! Listings: pages, and walks that call back.
//!
//! Invariant: a callback runs on the caller's thread, with no lock of the library held.

use std::ffi::{c_char, c_int, c_void};
use std::ops::ControlFlow;

use koine::object::BucketQuery;

use crate::errors::{Error, Failure, call};
use crate::named::options::{GO_ON, ListOptions, Page, text, text_if};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Row, Table, Told, koine_result_free};

/// `koine_each` of the header.
pub type Each = Option<unsafe extern "C" fn(*mut c_void, *const Told) -> c_int>;

/// What is called for each row of a walk.
pub struct Caller {
    each: unsafe extern "C" fn(*mut c_void, *const Told) -> c_int,
    context: *mut c_void,
}

impl Caller {
    /// A callback must be there.
    pub fn new(each: Each, context: *mut c_void) -> Result<Self, Failure> {
        let each = each.ok_or_else(|| Failure::invalid("the callback is NULL"))?;
        Ok(Caller { each, context })
    }

    /// Calls it with a row, which ends with the call.
    pub fn call(&self, row: Row) -> ControlFlow<()> {
        let told = Table::from(row).give();
        // SAFETY: the header asks for a function of this kind.
        let answer = unsafe { (self.each)(self.context, told) };
        koine_result_free(told);
        if answer == GO_ON { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// A page of objects and common prefixes, in the order of their names.
pub fn table(page: koine::object::ListPage) -> Table {
    let mut found: Vec<(String, Row)> = Vec::with_capacity(page.objects.len() + page.common_prefixes.len());
    found.extend(page.objects.into_iter().map(|object| (object.key.clone(), rows::summary(object))));
    found.extend(page.common_prefixes.into_iter().map(|prefix| (prefix.clone(), rows::prefix(prefix))));
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Table::new(found.into_iter().map(|(_, row)| row).collect()).before(page.next)
}

/// A page of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_list(
    session: *const Session,
    bucket: *const c_char,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and options.
        let (bucket, page) = unsafe { (text(bucket, "bucket's name")?, Page::read(options)?) };
        Ok(table(objects(session)?.list(bucket, &page.objects())?).give())
    })
}

/// Calls back for each object of a bucket that begins so.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_for_each(
    session: *const Session,
    bucket: *const c_char,
    prefix: *const c_char,
    each: Each,
    context: *mut c_void,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings; the prefix may be NULL.
        let (bucket, prefix) = unsafe { (text(bucket, "bucket's name")?, text_if(prefix, "prefix")?) };
        let caller = Caller::new(each, context)?;
        objects(session)?.for_each(bucket, prefix.unwrap_or_default(), |object| caller.call(rows::summary(object)))?;
        Ok(true)
    })
}

/// A page of buckets.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_list(
    session: *const Session,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for options.
        let page = unsafe { Page::read(options) }?;
        let (group, names) = (page.group.map(str::to_owned), page.names()?);
        let query = BucketQuery { prefix: names.prefix, after: names.after, limit: names.limit, group };
        let page = objects(session)?.list_buckets(&query)?;
        Ok(Table::new(page.buckets.into_iter().map(rows::bucket).collect()).before(page.next).give())
    })
}

/// Calls back for each bucket that begins so.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_for_each(
    session: *const Session,
    prefix: *const c_char,
    each: Each,
    context: *mut c_void,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string or NULL.
        let prefix = unsafe { text_if(prefix, "prefix") }?.unwrap_or_default();
        let caller = Caller::new(each, context)?;
        objects(session)?.for_each_bucket(prefix, |bucket| caller.call(rows::bucket(bucket)))?;
        Ok(true)
    })
}
