//! Buckets, their settings, snapshots and branches.

use std::ffi::{c_char, c_int};

use koine::object::{AccessTimes, BucketChange};

use crate::errors::{Error, Failure, call};
use crate::named::changes::entry_change;
use crate::named::options::{Entry, flagged, sized, text};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Field, Row, Table, Told, tell};

/// `koine_bucket_change` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BucketSettings {
    struct_size: u64,
    flags: u64,
    quota_bytes: u64,
    quota_objects: u64,
    access_times: u64,
    set_metadata: *const Entry,
    set_metadata_count: u64,
    remove_metadata: *const Entry,
    remove_metadata_count: u64,
    set_tags: *const Entry,
    set_tag_count: u64,
    remove_tags: *const Entry,
    remove_tag_count: u64,
}

const CHANGE_QUOTA_BYTES: u64 = 0x4000;
const CHANGE_QUOTA_OBJECTS: u64 = 0x8000;
const CHANGE_BUCKET_METADATA: u64 = 0x1_0000;
const CHANGE_BUCKET_TAGS: u64 = 0x2_0000;
const CHANGE_ACCESS_TIMES: u64 = 0x4_0000;

/// What a change of a bucket says.
///
/// # Safety
/// `change` is NULL or a change as the header says.
unsafe fn settings(change: *const BucketSettings) -> Result<BucketChange, Failure> {
    // SAFETY: as the caller of this function promises.
    let given = unsafe { sized(change, "the change") }?.ok_or_else(|| Failure::invalid("the change is NULL"))?;
    let has = |flag: u64| given.flags & flag != 0;
    let known =
        CHANGE_QUOTA_BYTES | CHANGE_QUOTA_OBJECTS | CHANGE_BUCKET_METADATA | CHANGE_BUCKET_TAGS | CHANGE_ACCESS_TIMES;
    if has(!known) {
        return Err(Failure::invalid(format!("{:#x} are no flags of a bucket's change", given.flags & !known)));
    }
    flagged(&[
        ("quota_bytes", "KOINE_CHANGE_QUOTA_BYTES", given.quota_bytes != 0 && !has(CHANGE_QUOTA_BYTES)),
        ("quota_objects", "KOINE_CHANGE_QUOTA_OBJECTS", given.quota_objects != 0 && !has(CHANGE_QUOTA_OBJECTS)),
        ("access_times", "KOINE_CHANGE_ACCESS_TIMES", given.access_times != 0 && !has(CHANGE_ACCESS_TIMES)),
    ])?;
    let access_times = match given.access_times {
        _ if !has(CHANGE_ACCESS_TIMES) => None,
        0 => Some(AccessTimes::Off),
        1 => Some(AccessTimes::Relative),
        other => return Err(Failure::invalid(format!("{other} is neither 0 nor 1: whether access times are kept"))),
    };
    // SAFETY: as the caller of this function promises.
    let (metadata, tags) = unsafe {
        let set = (given.set_metadata, given.set_metadata_count);
        let remove = (given.remove_metadata, given.remove_metadata_count);
        let metadata = entry_change(set, remove, has(CHANGE_BUCKET_METADATA), "metadata")?;
        let (set, remove) = ((given.set_tags, given.set_tag_count), (given.remove_tags, given.remove_tag_count));
        (metadata, entry_change(set, remove, has(CHANGE_BUCKET_TAGS), "tags")?)
    };
    Ok(BucketChange {
        quota_bytes: quota(has(CHANGE_QUOTA_BYTES), given.quota_bytes),
        quota_objects: quota(has(CHANGE_QUOTA_OBJECTS), given.quota_objects),
        access_times,
        metadata,
        tags,
        ..BucketChange::default()
    })
}

/// A limit that is changed, or not; `UINT64_MAX` takes it away.
pub fn quota(changed: bool, limit: u64) -> Option<Option<u64>> {
    changed.then_some((limit != u64::MAX).then_some(limit))
}

/// Makes a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_create(
    session: *mut Session,
    bucket: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let info = objects(session)?.create_bucket(bucket).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::bucket(info).into()) };
        Ok(true)
    })
}

/// Deletes a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_delete(
    session: *mut Session,
    bucket: *const c_char,
    with_snapshots: c_int,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let objects = objects(session)?;
        match with_snapshots {
            0 => objects.delete_bucket(bucket).wait()?,
            _ => objects.delete_bucket_and_snapshots(bucket).wait()?,
        }
        Ok(true)
    })
}

/// Deletes all buckets of a group, with what is in them.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_delete_all(
    session: *mut Session,
    group: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let group = unsafe { text(group, "group's name") }?;
        let buckets = objects(session)?.delete_buckets_of(group)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || Row::default().number(Field::Buckets, buckets).into()) };
        Ok(true)
    })
}

/// What is known of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_info(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        Ok(Table::from(rows::bucket(objects(session)?.head_bucket(bucket)?)).give())
    })
}

/// What a bucket holds.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_usage(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        Ok(Table::from(rows::usage(objects(session)?.bucket_usage(bucket)?)).give())
    })
}

/// Changes settings of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_set(
    session: *mut Session,
    bucket: *const c_char,
    change: *const BucketSettings,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string and a change.
        let (bucket, change) = unsafe { (text(bucket, "bucket's name")?, settings(change)?) };
        let info = objects(session)?.set_bucket(bucket, change).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::bucket(info).into()) };
        Ok(true)
    })
}

/// Takes everything out of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_purge(
    session: *mut Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        objects(session)?.purge_bucket(bucket).wait()?;
        Ok(true)
    })
}

/// Makes a snapshot.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_snapshot_create(
    session: *mut Session,
    bucket: *const c_char,
    snapshot: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (bucket, snapshot) = unsafe { (text(bucket, "bucket's name")?, text(snapshot, "snapshot's name")?) };
        let info = objects(session)?.snapshot_bucket(bucket, snapshot).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::snapshot(info).into()) };
        Ok(true)
    })
}

/// The snapshots of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_snapshot_list(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let all = objects(session)?.list_snapshots(bucket)?;
        Ok(Table::new(all.into_iter().map(rows::snapshot).collect()).give())
    })
}

/// Deletes a snapshot.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_snapshot_delete(
    session: *mut Session,
    bucket: *const c_char,
    snapshot: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (bucket, snapshot) = unsafe { (text(bucket, "bucket's name")?, text(snapshot, "snapshot's name")?) };
        objects(session)?.delete_snapshot(bucket, snapshot).wait()?;
        Ok(true)
    })
}

/// Puts a bucket back to what it was in a snapshot.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_restore(
    session: *mut Session,
    bucket: *const c_char,
    snapshot: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (bucket, snapshot) = unsafe { (text(bucket, "bucket's name")?, text(snapshot, "snapshot's name")?) };
        objects(session)?.restore_bucket(bucket, snapshot).wait()?;
        Ok(true)
    })
}

/// Makes a bucket that begins as another, or a snapshot of it, is.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_branch(
    session: *mut Session,
    from: *const c_char,
    to: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (from, to) = unsafe { (text(from, "bucket's name")?, text(to, "branch's name")?) };
        let info = objects(session)?.branch_bucket(from, to).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::bucket(info).into()) };
        Ok(true)
    })
}
