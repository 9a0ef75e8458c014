//! What users prove themselves with: passwords, tokens and access keys.

use std::ffi::c_char;
use std::time::Duration;

use koine::object::{KeyOptions as NewKey, Secret};

use crate::errors::{Error, Failure, call};
use crate::named::options::{sized, text, text_if};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Field, Row, Table, Told};

/// Gives a user another password.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_set_password(
    session: *mut Session,
    user: *const c_char,
    password: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (user, password) = unsafe { (text(user, "user's name")?, text(password, "password")?) };
        objects(session)?.identities().set_password(user, password)?;
        Ok(true)
    })
}

/// Changes a user's password by who knows the old one.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_user_change_password(
    session: *mut Session,
    user: *const c_char,
    old_password: *const c_char,
    password: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (user, password) = unsafe { (text(user, "user's name")?, text(password, "password")?) };
        // SAFETY: the header asks for a C string.
        let old = unsafe { text(old_password, "old password") }?;
        objects(session)?.identities().change_password(user, old, password)?;
        Ok(true)
    })
}

/// The tokens of a user.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_token_list(
    session: *const Session,
    user: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let user = unsafe { text(user, "user's name") }?;
        let tokens = objects(session)?.identities().tokens_of(user)?;
        Ok(Table::new(tokens.into_iter().map(rows::token).collect()).give())
    })
}

/// Takes a token back by its id.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_token_delete(
    session: *mut Session,
    user: *const c_char,
    id: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (user, id) = unsafe { (text(user, "user's name")?, text(id, "token's id")?) };
        objects(session)?.identities().delete_token(user, id).wait()?;
        Ok(true)
    })
}

/// `koine_key_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KeyOptions {
    struct_size: u64,
    seconds: u64,
    access_key: *const c_char,
    secret: *const c_char,
    policy: *const c_char,
    description: *const c_char,
}

/// Makes an access key; a row with its secret.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_key_create(
    session: *mut Session,
    user: *const c_char,
    options: *const KeyOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and options.
        let (user, given) = unsafe { (text(user, "user's name")?, sized(options, "the options")?) };
        let mut options = NewKey::default();
        if let Some(given) = given {
            // SAFETY: as above.
            let (key, secret, policy, description) = unsafe {
                (
                    text_if(given.access_key, "access key")?,
                    text_if(given.secret, "secret")?,
                    text_if(given.policy, "policy")?,
                    text_if(given.description, "description")?,
                )
            };
            options.given = match (key, secret) {
                (Some(key), Some(secret)) => Some((key.to_owned(), Secret::new(secret))),
                (None, None) => None,
                _ => return Err(Failure::invalid("an access key is given with its secret, or neither is")),
            };
            options.life = (given.seconds > 0).then(|| Duration::from_secs(given.seconds));
            options.policy = policy.map(str::to_owned);
            options.description = description.map(str::to_owned);
        }
        let (key, secret) = objects(session)?.identities().create_key(user, options).wait()?;
        Ok(Table::from(Row::default().text(Field::Name, key).text(Field::Secret, secret.expose())).give())
    })
}

/// The access keys of a user.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_key_list(
    session: *const Session,
    user: *const c_char,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let user = unsafe { text(user, "user's name") }?;
        let keys = objects(session)?.identities().keys_of(user)?;
        Ok(Table::new(keys.into_iter().map(rows::access_key).collect()).give())
    })
}

/// Deletes an access key.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_key_delete(
    session: *mut Session,
    user: *const c_char,
    access_key: *const c_char,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for C strings.
        let (user, key) = unsafe { (text(user, "user's name")?, text(access_key, "access key")?) };
        objects(session)?.identities().delete_key(user, key).wait()?;
        Ok(true)
    })
}
