//! Groups, users and members.

use std::ffi::{c_char, c_int};

use koine::object::{GroupChange, UserChange, UserQuery, UserState, Whose};

use crate::errors::{Error, Failure, call};
use crate::named::buckets::quota;
use crate::named::options::{Entry, ListOptions, Page, array, flagged, sized, text, text_if};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Field, Row, Table, Told, tell};

/// `koine_identity_change` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IdentityChange {
    struct_size: u64,
    flags: u64,
    name: *const c_char,
    description: *const c_char,
    policies: *const Entry,
    policy_count: u64,
    quota_bytes: u64,
    quota_objects: u64,
    disabled: u64,
    administrator: u64,
    uid: u64,
}

const CHANGE_QUOTA_BYTES: u64 = 0x4000;
const CHANGE_QUOTA_OBJECTS: u64 = 0x8000;
const CHANGE_POLICIES: u64 = 0x8_0000;
const CHANGE_DISABLED: u64 = 0x10_0000;
const CHANGE_ADMINISTRATOR: u64 = 0x20_0000;
const CHANGE_UID: u64 = 0x40_0000;

/// A change, and its name, description and policies.
struct Wanted {
    given: IdentityChange,
    name: Option<String>,
    description: Option<String>,
    policies: Option<Vec<String>>,
}

impl Wanted {
    /// Reads a change that may have these flags.
    ///
    /// # Safety
    /// `change` is NULL or a change as the header says.
    unsafe fn read(change: *const IdentityChange, flags: u64) -> Result<Self, Failure> {
        // SAFETY: as the caller of this function promises.
        let given = unsafe { sized(change, "the change") }?.ok_or_else(|| Failure::invalid("the change is NULL"))?;
        if given.flags & !flags != 0 {
            return Err(Failure::invalid(format!("{:#x} are no flags of this change", given.flags & !flags)));
        }
        let lacks = |flag: u64| given.flags & flag == 0;
        flagged(&[
            ("policies", "KOINE_CHANGE_POLICIES", given.policy_count != 0 && lacks(CHANGE_POLICIES)),
            ("quota_bytes", "KOINE_CHANGE_QUOTA_BYTES", given.quota_bytes != 0 && lacks(CHANGE_QUOTA_BYTES)),
            ("quota_objects", "KOINE_CHANGE_QUOTA_OBJECTS", given.quota_objects != 0 && lacks(CHANGE_QUOTA_OBJECTS)),
            ("disabled", "KOINE_CHANGE_DISABLED", given.disabled != 0 && lacks(CHANGE_DISABLED)),
            ("administrator", "KOINE_CHANGE_ADMINISTRATOR", given.administrator != 0 && lacks(CHANGE_ADMINISTRATOR)),
            ("uid", "KOINE_CHANGE_UID", given.uid != 0 && lacks(CHANGE_UID)),
        ])?;
        // SAFETY: as the caller of this function promises.
        let (name, description, policies) = unsafe {
            let names = array(given.policies, given.policy_count, "policies")?.iter();
            let policies: Result<Vec<String>, Failure> =
                names.map(|entry| text(entry.name_text(), "policy's name").map(str::to_owned)).collect();
            (text_if(given.name, "name")?, text_if(given.description, "description")?, policies?)
        };
        Ok(Wanted {
            given,
            name: name.map(str::to_owned),
            description: description.map(str::to_owned),
            policies: (given.flags & CHANGE_POLICIES != 0).then_some(policies),
        })
    }

    fn has(&self, flag: u64) -> bool {
        self.given.flags & flag != 0
    }

    fn quotas(&self) -> (Option<Option<u64>>, Option<Option<u64>>) {
        let bytes = quota(self.has(CHANGE_QUOTA_BYTES), self.given.quota_bytes);
        (bytes, quota(self.has(CHANGE_QUOTA_OBJECTS), self.given.quota_objects))
    }
}

/// Makes a group.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_group_create(
    session: *mut Session,
    group: *const c_char,
    description: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings; the description may be NULL.
        let (group, description) = unsafe { (text(group, "group's name")?, text_if(description, "description")?) };
        let identities = objects(session)?.identities();
        let info = identities.create_group(group, description.unwrap_or_default()).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::group(info).into()) };
        Ok(true)
    })
}

/// Deletes a group with its users and buckets.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_group_delete(
    session: *mut Session,
    group: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let group = unsafe { text(group, "group's name") }?;
        let gone = objects(session)?.identities().delete_group(group)?;
        let row = || Row::default().number(Field::Users, gone.users).number(Field::Buckets, gone.buckets).into();
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, row) };
        Ok(true)
    })
}

/// What is known of a group.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_group_info(
    session: *const Session,
    group: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let group = unsafe { text(group, "group's name") }?;
        Ok(Table::from(rows::group(objects(session)?.identities().group(group)?)).give())
    })
}

/// What the buckets of a group hold together.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_group_usage(
    session: *const Session,
    group: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let group = unsafe { text(group, "group's name") }?;
        Ok(Table::from(rows::usage(objects(session)?.identities().usage(Whose::Group(group))?)).give())
    })
}

/// A page of groups.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_group_list(
    session: *const Session,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for options.
        let names = unsafe { Page::read(options) }?.names()?;
        let page = objects(session)?.identities().groups(&names)?;
        Ok(Table::new(page.groups.into_iter().map(rows::group).collect()).before(page.next).give())
    })
}

/// Changes a group.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_group_set(
    session: *mut Session,
    group: *const c_char,
    change: *const IdentityChange,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    const FLAGS: u64 = CHANGE_QUOTA_BYTES | CHANGE_QUOTA_OBJECTS | CHANGE_POLICIES;
    call(error, false, || {
        // SAFETY: the header asks for a C string and a change.
        let (group, wanted) = unsafe { (text(group, "group's name")?, Wanted::read(change, FLAGS)?) };
        let (quota_bytes, quota_objects) = wanted.quotas();
        let Wanted { name, description, policies, .. } = wanted;
        let change = GroupChange { name, description, policies, quota_bytes, quota_objects };
        let info = objects(session)?.identities().set_group(group, change).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::group(info).into()) };
        Ok(true)
    })
}

/// Makes a user.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_create(
    session: *mut Session,
    group: *const c_char,
    user: *const c_char,
    password: *const c_char,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings; the password may be NULL.
        let (group, user, password) =
            unsafe { (text(group, "group's name")?, text(user, "user's name")?, text_if(password, "password")?) };
        let info = objects(session)?.identities().create_user(group, user, password)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::user(info).into()) };
        Ok(true)
    })
}

/// Deletes a user.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_delete(session: *mut Session, user: *const c_char, error: *mut *mut Error) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a C string.
        let user = unsafe { text(user, "user's name") }?;
        objects(session)?.identities().delete_user(user)?;
        Ok(true)
    })
}

/// What is known of a user.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_info(
    session: *const Session,
    user: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let user = unsafe { text(user, "user's name") }?;
        Ok(Table::from(rows::user(objects(session)?.identities().user(user)?)).give())
    })
}

/// What the buckets of a user hold together.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_usage(
    session: *const Session,
    user: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let user = unsafe { text(user, "user's name") }?;
        Ok(Table::from(rows::usage(objects(session)?.identities().usage(Whose::User(user))?)).give())
    })
}

/// A page of users, of a group where one is named.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_list(
    session: *const Session,
    group: *const c_char,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string or NULL, and options.
        let (group, names) = unsafe { (text_if(group, "group's name")?, Page::read(options)?.names()?) };
        let query = UserQuery { group: group.map(str::to_owned), names };
        let page = objects(session)?.identities().users(&query)?;
        Ok(Table::new(page.users.into_iter().map(rows::user).collect()).before(page.next).give())
    })
}

/// Changes a user.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_set(
    session: *mut Session,
    user: *const c_char,
    change: *const IdentityChange,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    const FLAGS: u64 = CHANGE_QUOTA_BYTES
        | CHANGE_QUOTA_OBJECTS
        | CHANGE_POLICIES
        | CHANGE_DISABLED
        | CHANGE_ADMINISTRATOR
        | CHANGE_UID;
    call(error, false, || {
        // SAFETY: the header asks for a C string and a change.
        let (user, wanted) = unsafe { (text(user, "user's name")?, Wanted::read(change, FLAGS)?) };
        let (quota_bytes, quota_objects) = wanted.quotas();
        let given = wanted.given;
        let state = if given.disabled == 0 { UserState::Live } else { UserState::Disabled };
        let uid = u32::try_from(given.uid).map_err(|_| Failure::invalid(format!("{} is no uid", given.uid)))?;
        let change = UserChange {
            state: wanted.has(CHANGE_DISABLED).then_some(state),
            administrator: wanted.has(CHANGE_ADMINISTRATOR).then_some(given.administrator != 0),
            uid: wanted.has(CHANGE_UID).then_some(uid),
            name: wanted.name,
            display: wanted.description.map(|display| (!display.is_empty()).then_some(display)),
            policies: wanted.policies,
            quota_bytes,
            quota_objects,
        };
        let info = objects(session)?.identities().set_user(user, change).wait()?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell(told, || rows::user(info).into()) };
        Ok(true)
    })
}

/// Makes a user a member of a group.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_member_add(
    session: *mut Session,
    group: *const c_char,
    user: *const c_char,
    administrator: c_int,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (group, user) = unsafe { (text(group, "group's name")?, text(user, "user's name")?) };
        objects(session)?.identities().add_member(group, user, administrator != 0).wait()?;
        Ok(true)
    })
}

/// Ends a membership.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_member_remove(
    session: *mut Session,
    group: *const c_char,
    user: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (group, user) = unsafe { (text(group, "group's name")?, text(user, "user's name")?) };
        objects(session)?.identities().remove_member(group, user).wait()?;
        Ok(true)
    })
}
