//! Servers that go away and come back, for those who asked them for objects.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koine_kv::wire::Timeouts;
use koine_object::{
    DeleteOptions, EditOptions, Error, ErrorKind, Expected, ListQuery, ObjectName, PutOptions, RemoteObjects,
    RenameOptions, RequestId, StageOptions,
};

use crate::backend::serve;
use crate::peers::{Served, get, password, served};
use crate::support::put_into;

/// The server goes away, and another one comes to its place.
fn restart(served: &mut Served) {
    served.server.close();
    served.server = serve(&served.objects, &served.socket);
}

fn told(error: &Error, kind: ErrorKind, what: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains("was lost") && error.message().contains(what), "{error}");
}

#[test]
fn a_session_goes_on_as_who_it_was_after_its_server_was_started_again() {
    let mut served = served();
    let (by_password, token) = served.by_password("ada");
    let by_token = served.connect();
    by_token.log_in(&koine_object::LogIn::Token(token)).unwrap();
    let nobody = served.connect();
    by_password.objects().create_bucket("papers").wait().unwrap();
    for (round, remote) in [&by_password, &by_token, &by_password].into_iter().enumerate() {
        restart(&mut served);
        let objects = remote.objects();
        // The first call of each round is another one: some read, some change something.
        match round {
            0 => assert!(objects.list("papers", &ListQuery::default()).is_ok()),
            1 => drop(put_into(&objects, "papers", "one", b"body").unwrap()),
            _ => assert!(objects.delete("papers", "one", DeleteOptions::default()).wait().unwrap().existed),
        }
        assert_eq!(remote.who().unwrap().as_deref(), Some("ada"));
        put_into(&objects, "papers", "large", &vec![7; 3 << 20]).unwrap();
        assert_eq!(get(&objects, "papers", "large").unwrap().len(), 3 << 20);
    }
    assert_eq!(nobody.who().unwrap(), None, "who was nobody is nobody");
    // Who has logged out stays so.
    by_password.log_out().unwrap();
    restart(&mut served);
    assert_eq!(by_password.who().unwrap(), None);
    // And a token that was taken back lets nobody in on another connection either.
    assert_eq!(by_token.who().unwrap_err().kind(), ErrorKind::LogInFailed);
    by_password.log_in(&password("ada", "ada's password")).unwrap();
    restart(&mut served);
    assert_eq!(by_password.who().unwrap().as_deref(), Some("ada"));
}

#[test]
fn what_was_open_when_the_server_went_says_what_became_of_it() {
    let mut served = served();
    let (remote, _) = served.by_password("ada");
    let objects = remote.objects();
    objects.create_bucket("papers").wait().unwrap();
    put_into(&objects, "papers", "large", &vec![7; 3 << 20]).unwrap();
    let reader = objects.get("papers", "large").unwrap();
    let pinned = objects.pin().unwrap();
    let mut writer = objects.put("papers", "new", PutOptions::default()).unwrap();
    writer.write(&[1; 100]).unwrap();
    let finishing = objects.put("papers", "new", PutOptions::default()).unwrap();
    let body = objects.stage(StageOptions::default()).unwrap().finish(&Expected::none()).unwrap();
    let transacted = objects.transact(None, |transaction| {
        if served.server.connections() > 0 {
            restart(&mut served);
        }
        transaction.head(ObjectName::new("papers", "large"))
    });
    told(&transacted.map(drop).unwrap_err(), ErrorKind::Disconnected, "begin it again");
    told(&reader.bytes(2 << 20, 10).unwrap_err(), ErrorKind::Expired, "open it again");
    told(&pinned.head("papers", "large").unwrap_err(), ErrorKind::Expired, "pin the newest one");
    told(&pinned.get("papers", "large").map(drop).unwrap_err(), ErrorKind::Expired, "pin the newest one");
    let lost = (0..8).find_map(|_| writer.write(&[2; 1 << 20]).err()).unwrap();
    told(&lost, ErrorKind::Disconnected, "write it again");
    told(&finishing.finish(&Expected::none()).wait().unwrap_err(), ErrorKind::Disconnected, "write it again");
    let put = objects
        .transact(None, |transaction| transaction.put(ObjectName::new("papers", "new"), &body, &PutOptions::default()));
    told(&put.map(drop).unwrap_err(), ErrorKind::Disconnected, "stage it again");
    assert_eq!(objects.head("papers", "new").unwrap_err().kind(), ErrorKind::NoSuchKey);
    assert_eq!(get(&objects, "papers", "large").unwrap().len(), 3 << 20);
}

/// Passes all on between a client and a server, until it is told to end a connection in the place of an answer.
fn between(served: &Served) -> (std::path::PathBuf, Arc<AtomicBool>) {
    let (socket, to) = (served.socket.with_file_name("between.sock"), served.socket.clone());
    let listener = UnixListener::bind(&socket).unwrap();
    let cuts = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&cuts);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, UnixStream::connect(&to)) else { continue };
            let (mut requests, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ended = std::io::copy(&mut requests, &mut to_server);
                let _gone = to_server.shutdown(std::net::Shutdown::Both);
            });
            let cut = Arc::clone(&cut);
            std::thread::spawn(move || answers(server, client, &cut));
        }
    });
    (socket, cuts)
}

fn answers(mut server: UnixStream, mut client: UnixStream, cuts: &AtomicBool) {
    let mut buffer = [0; 64 << 10];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        if cuts.swap(false, Ordering::SeqCst) {
            break;
        }
        let _gone = std::io::Write::write_all(&mut client, &buffer[..count]);
    }
    let _gone = client.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_change_whose_answer_was_lost_is_asked_for_again_where_it_has_a_request_id() {
    let served = served();
    let (socket, cuts) = between(&served);
    let remote = RemoteObjects::connect_unix(&socket, None, Timeouts::default()).unwrap();
    remote.log_in(&password("ada", "ada's password")).unwrap();
    let objects = remote.objects();
    objects.create_bucket("papers").wait().unwrap();
    put_into(&objects, "papers", "one", b"body").unwrap();
    let (one, other) = (ObjectName::new("papers", "one"), ObjectName::new("papers", "other"));
    cuts.store(true, Ordering::SeqCst);
    let named = RenameOptions { request: Some(RequestId([3; 16])), ..RenameOptions::default() };
    assert_eq!(objects.rename(one, other, named).wait().unwrap().size, 4, "it was moved once, and told");
    cuts.store(true, Ordering::SeqCst);
    let named = EditOptions { request: Some(RequestId([4; 16])), ..EditOptions::default() };
    assert_eq!(objects.truncate(other, 2, named).wait().unwrap().size, 2);
    // Reads need none.
    cuts.store(true, Ordering::SeqCst);
    assert_eq!(objects.head("papers", "other").unwrap().size, 2);
    cuts.store(true, Ordering::SeqCst);
    assert_eq!(get(&objects, "papers", "other").unwrap(), b"bo");
    // Without an id it is not known, and said.
    remote.who().unwrap();
    cuts.store(true, Ordering::SeqCst);
    let error = objects.truncate(other, 1, EditOptions::default()).wait().unwrap_err();
    assert!(error.kind() == ErrorKind::Disconnected && error.message().contains("not known"), "{error}");
    assert_eq!(objects.head("papers", "other").unwrap().size, 1);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mute.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let timeouts = Timeouts { connect: Duration::from_millis(50), ..Timeouts::default() };
    let error = RemoteObjects::connect_unix(&socket, None, timeouts).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
}
