//! A forked copy of a process: every way to a store refuses it, and what the parent goes on to do is whole.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koine::kv::wire::{Server, ServerOptions};
use koine::object::{Expected, FileMode, ObjectName, Objects, PutOptions};
use koine::{OpenOptions, Session, socket_of};
use koine_c as _;

type Handle = *mut c_void;
type Fault = *mut Handle;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
    fn alarm(seconds: u32) -> u32;
    fn koine_open(place: *const c_char, options: *const c_void, error: Fault) -> Handle;
    fn koine_close(session: Handle, error: Fault) -> bool;
    fn koine_bucket_delete(session: Handle, bucket: *const c_char, flags: c_int, error: Fault) -> bool;
    fn koine_bucket_create(session: Handle, bucket: *const c_char, told: Fault, error: Fault) -> bool;
    fn koine_store_create(path: *const c_char, options: *const c_void, error: Fault) -> Handle;
    fn koine_store_close(store: Handle, error: Fault) -> bool;
    fn koine_store_sync(store: Handle, error: Fault) -> bool;
    fn koine_error_kind(error: Handle) -> c_int;
    fn koine_error_message(error: Handle) -> *const c_char;
    fn koine_error_free(error: Handle);
}

/// How long a copy may take; one that waits for somebody who is not in it waits for ever.
const COPY_SECONDS_MAX: u32 = 60;

/// Whether `child` gives true in a forked copy, which ends without a word.
fn in_a_copy(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the copy has this thread alone, and ends without running what others registered.
    unsafe {
        let copy = fork();
        assert!(copy >= 0);
        if copy == 0 {
            alarm(COPY_SECONDS_MAX);
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            _exit(if held.unwrap_or(false) { 0 } else { 1 });
        }
        let mut status = -1;
        assert_eq!(waitpid(copy, &raw mut status, 0), copy);
        status == 0
    }
}

fn put(objects: &Objects, key: &str, body: &[u8]) -> koine::object::Result<()> {
    let mut writer = objects.put("bucket", key, PutOptions::default())?;
    writer.write(body)?;
    writer.finish(&Expected::none()).wait().map(drop)
}

fn get(objects: &Objects, key: &str) -> koine::object::Result<Vec<u8>> {
    let reader = objects.get("bucket", key)?;
    let mut body = vec![0; reader.info().size as usize];
    reader.read(0, &mut body)?;
    Ok(body)
}

fn is_forked<T>(outcome: koine::object::Result<T>) -> bool {
    let told = outcome.err().map(|error| error.message().to_owned());
    let refused = told.as_ref().is_some_and(|told| told.contains("forked"));
    if !refused {
        eprintln!("the copy was told: {told:?}");
    }
    refused
}

/// What a copy of a session can do: nothing.
fn is_of_no_use(session: Session) -> bool {
    let refused = is_forked(put(&session, "of the copy", &[1; 200_000]))
        && is_forked(put(&session, "short", b"short"))
        && is_forked(get(&session, "first"))
        && is_forked(session.create_bucket("second").wait())
        && is_forked(session.head_bucket("bucket"))
        && is_forked(session.pin());
    let closed = session.close().is_ok();
    drop(session);
    refused && closed
}

/// The parent's values, while and after the copy tries.
fn goes_on(session: &Session) {
    for number in 0..40u8 {
        put(session, &format!("after {number}"), &vec![number; 200_000]).unwrap();
    }
    for number in 0..40u8 {
        assert_eq!(get(session, &format!("after {number}")).unwrap(), vec![number; 200_000]);
    }
    assert!(get(session, "of the copy").is_err() && session.head_bucket("second").is_err());
    assert_eq!(get(session, "first").unwrap(), vec![7; 200_000]);
}

fn at(session: Session) {
    session.create_bucket("bucket").wait().unwrap();
    put(&session, "first", &[7; 200_000]).unwrap();
    let copied = std::mem::ManuallyDrop::new(session);
    assert!(in_a_copy(|| {
        // SAFETY: the copy's own, taken once.
        is_of_no_use(unsafe { std::ptr::read(&*copied) })
    }));
    let session = std::mem::ManuallyDrop::into_inner(copied);
    goes_on(&session);
    copied_at_work(&session);
    session.close().unwrap();
}

/// A copy has the locks that others held when it was made, and they never give them back there.
fn copied_at_work(session: &Session) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3u8 {
            let done = &done;
            scope.spawn(move || {
                for number in 0.. {
                    let (key, body) = (format!("{worker} {}", number % 10), vec![worker; 100 << (number % 10)]);
                    put(session, &key, &body).unwrap();
                    assert_eq!(get(session, &key).unwrap(), body);
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let refused = (0..20).all(|_| {
            // SAFETY: the copy's own, taken once.
            in_a_copy(|| is_of_no_use(unsafe { std::ptr::read(session) }))
        });
        done.store(true, Ordering::Relaxed);
        assert!(refused);
    });
}

fn made(place: &str) -> Session {
    let options = OpenOptions { create: true, size_max: Some(256 << 20), ..OpenOptions::default() };
    Session::open(place, &options).unwrap()
}

#[test]
fn a_store_in_a_file_stays_the_parents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.koine").display().to_string();
    at(made(&path));
    let again = made(&path);
    assert_eq!(get(&again, "after 39").unwrap(), vec![39; 200_000]);
    // What a copy drops it holds with the parent: files under way, readers, views.
    let mut file = again.open_file(ObjectName::new("bucket", "file"), FileMode::Create, PutOptions::default()).unwrap();
    std::io::Write::write_all(&mut file, &[3; 400_000]).unwrap();
    let (reader, pinned) = (again.get("bucket", "first").unwrap(), again.pin().unwrap());
    let copied = std::mem::ManuallyDrop::new((file, reader, pinned));
    assert!(in_a_copy(|| {
        // SAFETY: the copy's own, taken once.
        let (mut file, reader, pinned) = unsafe { std::ptr::read(&*copied) };
        let wrote = std::io::Write::write_all(&mut file, &[4; 4 << 20]).and_then(|()| std::io::Write::flush(&mut file));
        let refused = wrote.is_err() || is_forked(file.close());
        let read = is_forked(reader.read(0, &mut [0; 100]).map(drop)) && is_forked(get(pinned.objects(), "first"));
        drop((reader, pinned));
        // The parent's lock holds.
        let held = Session::open(&path, &OpenOptions::default()).is_err_and(|error| error.is_held());
        refused && read && held
    }));
    assert!(Session::open(&path, &OpenOptions::default()).unwrap_err().is_held());
    let (file, reader, pinned) = std::mem::ManuallyDrop::into_inner(copied);
    file.close().unwrap();
    drop((reader, pinned));
    assert_eq!(get(&again, "file").unwrap(), vec![3; 400_000]);
    again.close().unwrap();
}

#[test]
fn a_store_behind_a_server_stays_the_parents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.koine");
    let place = path.display().to_string();
    let owner = made(&place);
    let server = Server::new(Arc::clone(owner.kv().unwrap()), ServerOptions::default());
    server.listen_unix(&socket_of(&path).unwrap()).unwrap();
    let client = Session::open(&place, &OpenOptions::default()).unwrap();
    assert!(!client.is_owner());
    at(client);
    server.close();
    owner.close().unwrap();
}

#[test]
fn stores_of_all_kinds_stay_the_parents() {
    at(made("memory:"));
    if cfg!(feature = "rocksdb") {
        let folder = tempfile::tempdir().unwrap();
        at(Session::open(
            &format!("rocksdb:{}", folder.path().join("store").display()),
            &OpenOptions { create: true, ..OpenOptions::default() },
        )
        .unwrap());
    }
}

#[test]
fn handles_of_c_are_the_parents() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| CString::new(folder.path().join(name).to_str().unwrap()).unwrap();
    made(path("objects").to_str().unwrap()).close().unwrap();
    // SAFETY: strings end in a zero, results have a place.
    unsafe {
        let mut error = null_mut();
        let session = koine_open(path("objects").as_ptr(), null(), &mut error);
        let store = koine_store_create(path("numbered").as_ptr(), null(), &mut error);
        assert!(!session.is_null() && !store.is_null());
        assert!(in_a_copy(|| {
            let mut error = null_mut();
            let refused = |error: &mut Handle| {
                let told = CStr::from_ptr(koine_error_message(*error)).to_string_lossy().contains("forked");
                let kind = koine_error_kind(*error);
                koine_error_free(*error);
                *error = null_mut();
                told && kind == 10
            };
            let made = koine_bucket_create(session, c"bucket".as_ptr(), null_mut(), &mut error);
            let made_refused = refused(&mut error);
            let synced = koine_store_sync(store, &mut error);
            let sync_refused = refused(&mut error);
            let closed = koine_close(session, &mut error) && koine_store_close(store, &mut error) && error.is_null();
            // A store of its own is as good as ever.
            let own = koine_open(c"memory:".as_ptr(), null(), &mut error);
            let works = koine_bucket_create(own, c"bucket".as_ptr(), null_mut(), &mut error)
                && koine_bucket_delete(own, c"bucket".as_ptr(), 0, &mut error)
                && koine_close(own, &mut error);
            !made && made_refused && !synced && sync_refused && closed && works
        }));
        assert!(koine_bucket_create(session, c"bucket".as_ptr(), null_mut(), &mut error));
        assert!(koine_store_sync(store, &mut error) && koine_store_close(store, &mut error));
        assert!(koine_close(session, &mut error) && error.is_null());
    }
}
