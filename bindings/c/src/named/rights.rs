//! Policies, owners of buckets and access lists.

use std::ffi::{c_char, c_int};

use koine::object::{AccessList, Asker, Grant as ObjectGrant, Grantee, Identities};

use crate::errors::{Error, Failure, call};
use crate::named::options::{Name, array, text, text_if};
use crate::session::{Session, objects};
use crate::table::{Field, Row, Table, Told};

/// `koine_grant` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Grant {
    grantee: u64,
    name: *const c_char,
    rights: u64,
}

/// The constants of `koine_right` are the library's rights, from this bit on: none is a `koine_grantee`.
const RIGHTS_FROM: u32 = 24;

/// The constants of `koine_grantee`.
const TO_USER: u64 = 1;
const TO_GROUP: u64 = 2;
const TO_EVERY_USER: u64 = 3;
const TO_EVERYONE: u64 = 4;

/// Sets a policy that users and groups can be given; deletes it for NULL.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_policy_set(
    session: *mut Session,
    policy: *const c_char,
    document: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings; the document may be NULL.
        let (policy, document) = unsafe { (text(policy, "policy's name")?, text_if(document, "document")?) };
        objects(session)?.identities().set_policy(policy, document).wait()?;
        Ok(true)
    })
}

/// The document of a policy.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_policy_get(
    session: *const Session,
    policy: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let policy = unsafe { text(policy, "policy's name") }?;
        let document = objects(session)?.identities().policy(policy)?;
        Ok(Table::from(Row::default().text(Field::Name, policy).text(Field::Policy, document)).give())
    })
}

/// Sets the policy of a bucket; takes it away for NULL.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_set_policy(
    session: *mut Session,
    bucket: *const c_char,
    document: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings; the document may be NULL.
        let (bucket, document) = unsafe { (text(bucket, "bucket's name")?, text_if(document, "document")?) };
        objects(session)?.identities().set_bucket_policy(bucket, document).wait()?;
        Ok(true)
    })
}

/// The policy of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_get_policy(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let document = objects(session)?.identities().bucket_policy(bucket)?;
        Ok(Table::from(Row::default().text(Field::Name, bucket).text(Field::Policy, document)).give())
    })
}

/// Gives a bucket to a user and a group.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_set_owner(
    session: *mut Session,
    bucket: *const c_char,
    owner: *const c_char,
    group: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings; the group may be NULL.
        let (bucket, owner, group) =
            unsafe { (text(bucket, "bucket's name")?, text(owner, "owner's name")?, text_if(group, "group's name")?) };
        objects(session)?.identities().change_owner(bucket, owner, group).wait()?;
        Ok(true)
    })
}

/// Whose a bucket is.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_get_owner(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        let (owner, group) = objects(session)?.identities().owner(bucket)?;
        Ok(Table::from(Row::default().text(Field::Owner, owner).text(Field::Group, group)).give())
    })
}

/// An access list of grants.
///
/// # Safety
/// `grants` is NULL or has `count` grants.
unsafe fn list(identities: &Identities, grants: *const Grant, count: u64) -> Result<AccessList, Failure> {
    let mut all = Vec::new();
    // SAFETY: as the caller of this function promises.
    for grant in unsafe { array(grants, count, "grants") }? {
        // SAFETY: as the caller of this function promises.
        let name = || unsafe { text(grant.name, "name of who is granted something") };
        let to = match grant.grantee {
            TO_USER => Grantee::User(identities.user(name()?)?.id),
            TO_GROUP => Grantee::Group(identities.group(name()?)?.id),
            TO_EVERY_USER => Grantee::EveryUser,
            TO_EVERYONE => Grantee::Everyone,
            other => return Err(Failure::invalid(format!("{other} is no koine_grantee"))),
        };
        if grant.rights & !(0xf << RIGHTS_FROM) != 0 {
            return Err(Failure::invalid(format!("{:#x} are no rights of koine_right", grant.rights)));
        }
        let rights = u32::try_from(grant.rights >> RIGHTS_FROM).unwrap_or(u32::MAX);
        all.push(ObjectGrant { to, rights });
    }
    Ok(AccessList::new(all)?)
}

fn table(list: &AccessList) -> Table {
    let row = |grant: &ObjectGrant| {
        let row = Row::default().number(Field::Rights, u64::from(grant.rights) << RIGHTS_FROM);
        match grant.to {
            Grantee::User(id) => row.number(Field::Grantee, TO_USER).text(Field::Id, format!("{id:016x}")),
            Grantee::Group(id) => row.number(Field::Grantee, TO_GROUP).text(Field::Id, format!("{id:016x}")),
            Grantee::EveryUser => row.number(Field::Grantee, TO_EVERY_USER),
            Grantee::Everyone => row.number(Field::Grantee, TO_EVERYONE),
            // Newer than this binding.
            _ => row,
        }
    };
    Table::new(list.grants().iter().map(row).collect())
}

/// Sets the access list of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_set_access(
    session: *mut Session,
    bucket: *const c_char,
    grants: *const Grant,
    count: u64,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let identities = objects(session)?.identities();
        // SAFETY: the header asks for a C string and grants.
        let (bucket, list) = unsafe { (text(bucket, "bucket's name")?, list(&identities, grants, count)?) };
        identities.set_bucket_access(bucket, list).wait()?;
        Ok(true)
    })
}

/// The access list of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_bucket_get_access(
    session: *const Session,
    bucket: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let bucket = unsafe { text(bucket, "bucket's name") }?;
        Ok(table(&objects(session)?.identities().bucket_access(bucket)?).give())
    })
}

/// Sets the access list of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_set_access(
    session: *mut Session,
    name: Name,
    grants: *const Grant,
    count: u64,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let identities = objects(session)?.identities();
        // SAFETY: the header asks for a name and grants.
        let (name, list) = unsafe { (name.read()?, list(&identities, grants, count)?) };
        identities.set_object_access(name, list).wait()?;
        Ok(true)
    })
}

/// The access list of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_get_access(session: *const Session, name: Name, error: *mut *mut Error) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        Ok(table(&objects(session)?.identities().object_access(name)?).give())
    })
}

/// Whether somebody may do something, and what decides.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_explain(
    session: *const Session,
    asker: c_int,
    who: *const c_char,
    action: *const c_char,
    bucket: *const c_char,
    key: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for C strings; the key may be NULL.
        let (action, bucket, key) =
            unsafe { (text(action, "action")?.parse()?, text(bucket, "bucket's name")?, text_if(key, "key")?) };
        // SAFETY: the header asks for a C string where somebody is named.
        let name = || unsafe { text(who, "name of who asks") }.map(str::to_owned);
        let asker = match asker {
            0 => Asker::Everyone,
            1 => Asker::User(name()?),
            2 => Asker::AccessKey(name()?),
            other => return Err(Failure::invalid(format!("{other} is no koine_asker"))),
        };
        let decision = objects(session)?.identities().explain(&asker, action, bucket, key)?;
        let row = Row::default()
            .number(Field::Allowed, u64::from(decision.allowed))
            .text(Field::Rule, decision.rule.to_string());
        Ok(Table::from(row).give())
    })
}

/// Whether everybody may get what lists and policies give to everyone.
#[unsafe(no_mangle)]
pub extern "C" fn koine_set_public_access(session: *mut Session, on: c_int, error: *mut *mut Error) -> bool {
    call(error, false, || {
        objects(session)?.identities().set_public_access(on != 0).wait()?;
        Ok(true)
    })
}
