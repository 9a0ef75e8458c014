//! Who may what over the socket for others, and clients that are slow, wrong or gone.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use koine_env::{OsRandom, SystemClock};
use koine_kv::wire::{ClientOptions, Key, Server, ServerOptions, Timeouts, WireVerbs};
use koine_object::{
    AccessList, BucketQuery, Caller, DeleteOptions, EditOptions, ErrorKind, Expected, Grant, Grantee, GroupChange,
    KeyOptions, ListQuery, LogIn, NameQuery, ObjectName, ObjectVerbs, Objects, Password, PutOptions, RemoteObjects,
    Result, Token, UserChange, UserQuery,
};

use crate::backend::{kv, serve};
use crate::support::{bytes, group_of, kind, put_into};

/// A store with the users `ada` and `bob` in groups of their own, behind a socket.
pub struct Served {
    pub objects: Objects,
    pub server: Server,
    pub socket: PathBuf,
    _folder: tempfile::TempDir,
}

pub fn served() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.objects.sock");
    let objects = Objects::open(kv(), Arc::new(SystemClock::new()), Arc::new(OsRandom)).unwrap();
    group_of(&objects, "lab", &["ada"]);
    group_of(&objects, "office", &["bob"]);
    for user in ["ada", "bob"] {
        objects.identities().set_password(user, &format!("{user}'s password")).unwrap();
    }
    let server = serve(&objects, &socket);
    Served { objects, server, socket, _folder: folder }
}

impl Served {
    pub fn connect(&self) -> RemoteObjects {
        RemoteObjects::connect_unix(&self.socket, None, Timeouts::default()).unwrap()
    }

    pub fn by_password(&self, user: &str) -> (RemoteObjects, Token) {
        let remote = self.connect();
        let (name, login) = remote.log_in(&password(user, &format!("{user}'s password"))).unwrap();
        assert_eq!(name, user);
        (remote, login.unwrap().token)
    }
}

pub fn password(user: &str, text: &str) -> LogIn {
    LogIn::Password(user.to_owned(), Password::new(text), Duration::from_secs(60))
}

pub fn get(objects: &Objects, bucket: &str, key: &str) -> Result<Vec<u8>> {
    let reader = objects.get(bucket, key)?;
    Ok(reader.bytes(0, usize::try_from(reader.info().size).unwrap())?.to_vec())
}

#[test]
fn nobody_gets_further_than_the_log_in() {
    let served = served();
    served.objects.create_bucket("bucket").wait().unwrap();
    let remote = served.connect();
    assert_eq!(remote.who().unwrap(), None);
    let objects = remote.objects();
    for refused in [
        objects.list_buckets(&BucketQuery::default()).map(drop),
        objects.create_bucket("mine").wait().map(drop),
        objects.head("bucket", "key").map(drop),
        objects.get("bucket", "key").map(drop),
        objects.put("bucket", "key", PutOptions::default()).map(drop),
        objects.delete("bucket", "key", DeleteOptions::default()).wait().map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AccessDenied);
    }
    for wrong in [password("ada", "another password"), password("nobody", "x"), LogIn::Token(Token::new("kt1_x"))] {
        assert_eq!(kind(remote.log_in(&wrong).map(drop)), ErrorKind::LogInFailed);
    }
    assert_eq!(kind(remote.log_in(&LogIn::Peer).map(drop)), ErrorKind::LogInFailed, "no user of the store");
    assert_eq!(kind(objects.head("bucket", "key")), ErrorKind::AccessDenied);
    // What is said here of who asks changes nothing there.
    assert_eq!(kind(objects.as_caller(Caller::Owner).head("bucket", "key")), ErrorKind::AccessDenied);
    assert_eq!(kind(objects.root_key().map(drop)), ErrorKind::Unsupported);
}

#[test]
fn who_never_logs_in_is_cut_off_and_who_has_stays() {
    let served = served();
    let socket = served.socket.with_file_name("short.sock");
    let options = ServerOptions { log_in: Duration::from_millis(300), ..ObjectVerbs::server_options() };
    let server = Server::of_verbs(Arc::new(ObjectVerbs::new(served.objects.clone())), options);
    server.listen_unix(&socket).unwrap();
    let known = RemoteObjects::connect_unix(&socket, None, Timeouts::default()).unwrap();
    known.log_in(&password("ada", "ada's password")).unwrap();
    known.objects().create_bucket("papers").wait().unwrap();
    let strangers: Vec<_> =
        (0..10).map(|_| RemoteObjects::connect_unix(&socket, None, Timeouts::default()).unwrap()).collect();
    assert!(strangers.iter().any(|stranger| stranger.who().is_ok()));
    let gone = || server.connections() == 1;
    assert!((0..6000).any(|_| gone() || {
        std::thread::sleep(Duration::from_millis(10));
        false
    }));
    known.objects().head_bucket("papers").unwrap();
    // Who logs out is a stranger again.
    known.log_out().unwrap();
    assert!((0..6000).any(|_| server.connections() == 0 || {
        std::thread::sleep(Duration::from_millis(10));
        false
    }));
}

#[test]
fn wrong_passwords_of_a_peer_delay_that_peer_alone() {
    let served = served();
    let remote = served.connect();
    let guesses = (0..17).map(|guess| kind(remote.log_in(&password("ada", &format!("guess {guess}"))).map(drop)));
    let guesses: Vec<_> = guesses.collect();
    assert!(guesses[..10].iter().all(|kind| *kind == ErrorKind::LogInFailed), "{guesses:?}");
    assert!(guesses.contains(&ErrorKind::Busy), "{guesses:?}");
    // Whoever she is elsewhere gets in.
    served.objects.identities().log_in("ada", "ada's password", Duration::from_secs(60)).unwrap();
}

#[test]
fn names_that_nobody_can_have_are_not_remembered() {
    let served = served();
    let remote = served.connect();
    for length in [65, 1 << 10, 1 << 20] {
        // More often than a peer may be wrong: a name that was looked at would be delayed.
        for _ in 0..20 {
            let refused = remote.log_in(&password(&"x".repeat(length), "a long password")).map(drop);
            assert_eq!(kind(refused), ErrorKind::LogInFailed);
        }
    }
    served.by_password("ada");
}

#[test]
fn users_have_their_own_and_no_more() {
    let served = served();
    let ((ada, _), (bob, _)) = (served.by_password("ada"), served.by_password("bob"));
    let (ada, bob) = (ada.objects(), bob.objects());
    ada.create_bucket("papers").wait().unwrap();
    put_into(&ada, "papers", "draft", b"hers").unwrap();
    assert_eq!(get(&ada, "papers", "draft").unwrap(), b"hers");
    let draft = ObjectName::new("papers", "draft");
    for refused in [
        get(&bob, "papers", "draft").map(drop),
        bob.head("papers", "draft").map(drop),
        bob.list("papers", &ListQuery { limit: 10, ..ListQuery::default() }).map(drop),
        bob.put("papers", "other", PutOptions::default()).map(drop),
        bob.append(draft, EditOptions::default()).map(drop),
        bob.truncate(draft, 0, EditOptions::default()).wait().map(drop),
        bob.copy(draft, ObjectName::new("papers", "copy"), Default::default()).wait().map(drop),
        bob.delete("papers", "draft", DeleteOptions::default()).wait().map(drop),
        bob.purge_bucket("papers").wait(),
        bob.snapshot_bucket("papers", "s").wait().map(drop),
        bob.delete_bucket("papers").wait(),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AccessDenied);
    }
    assert_eq!(get(&ada, "papers", "draft").unwrap(), b"hers");
    assert!(bob.list_buckets(&BucketQuery::default()).unwrap().buckets.is_empty());
    // The same words as in the store itself.
    let here = served.objects.head("papers", "absent").unwrap_err();
    let there = ada.head("papers", "absent").unwrap_err();
    assert_eq!((here.kind(), here.message()), (there.kind(), there.message()));
}

#[test]
fn a_right_that_is_taken_away_is_gone_at_once() {
    let served = served();
    let (ada, token) = served.by_password("ada");
    ada.objects().create_bucket("papers").wait().unwrap();
    let another = served.connect();
    assert_eq!(another.log_in(&LogIn::Token(token.clone())).unwrap().0, "ada");
    let mut writer = another.objects().put("papers", "begun", PutOptions::default()).unwrap();
    writer.write(b"begun").unwrap();
    ada.log_out().unwrap();
    assert_eq!(ada.who().unwrap(), None);
    assert_eq!(kind(ada.objects().head_bucket("papers")), ErrorKind::AccessDenied);
    assert_eq!(kind(another.objects().head_bucket("papers")), ErrorKind::AccessDenied, "its token was taken back");
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(served.connect().log_in(&LogIn::Token(token)).map(drop)), ErrorKind::LogInFailed);
    let (ada, _) = served.by_password("ada");
    let disabled = UserChange { state: Some(koine_object::UserState::Disabled), ..UserChange::default() };
    served.objects.identities().set_user("ada", disabled).wait().unwrap();
    assert_eq!(kind(ada.objects().head_bucket("papers")), ErrorKind::AccessDenied);
    assert!(served.connect().log_in(&password("ada", "ada's password")).is_err());
}

#[test]
fn a_user_of_the_machine_is_known_by_its_socket() {
    let served = served();
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&served.socket).unwrap());
    let change = UserChange { uid: Some(uid), ..UserChange::default() };
    served.objects.identities().set_user("bob", change).wait().unwrap();
    let remote = served.connect();
    assert_eq!(remote.log_in(&LogIn::Peer).unwrap().0, "bob");
    remote.objects().create_bucket("his").wait().unwrap();
    assert_eq!(served.objects.identities().owner("his").unwrap().0, "bob");
    // A log in counts more.
    assert_eq!(remote.log_in(&password("ada", "ada's password")).unwrap().0, "ada");
    assert_eq!(kind(remote.objects().head_bucket("his")), ErrorKind::AccessDenied);
}

#[test]
fn large_bodies_go_both_ways_in_pieces() {
    let served = served();
    let (ada, _) = served.by_password("ada");
    let objects = ada.objects();
    objects.create_bucket("papers").wait().unwrap();
    let body = bytes(9_500_001, 3);
    let mut writer = objects.put("papers", "large", PutOptions::default()).unwrap();
    for piece in body.chunks(700_001) {
        writer.write(piece).unwrap();
    }
    let info = writer.finish(&Expected::none()).wait().unwrap();
    assert_eq!(info.size, body.len() as u64);
    let here = served.objects.head("papers", "large").unwrap();
    assert_eq!(here, info);
    let reader = objects.get("papers", "large").unwrap();
    assert!(reader.bytes(0, body.len()).unwrap() == body);
    let mut part = vec![0; 5_000_000];
    assert_eq!(reader.read(1_000_003, &mut part).unwrap(), part.len());
    assert!(part == body[1_000_003..6_000_003]);
    assert_eq!(reader.read(9_500_000, &mut part).unwrap(), 1);
    assert_eq!(reader.bytes(9_500_001, 7).unwrap().len(), 0);
    objects.delete("papers", "large", DeleteOptions::default()).wait().unwrap();
    assert!(reader.bytes(4_000_000, 100).unwrap() == body[4_000_000..4_000_100], "it reads one version");
    // Empty, and of one frame.
    for length in [0, 1, 65_536, 65_537, 1 << 20] {
        put_into(&objects, "papers", "short", &body[..length]).unwrap();
        assert!(get(&objects, "papers", "short").unwrap() == body[..length]);
    }
}

#[test]
fn bodies_that_do_not_keep_their_promises_fail_as_they_do_here() {
    let served = served();
    let (ada, _) = served.by_password("ada");
    ada.objects().create_bucket("papers").wait().unwrap();
    let promised = |length| PutOptions { length: Some(length), ..PutOptions::default() };
    let outcome = |objects: &Objects, length: u64, given: usize, md5: Option<[u8; 16]>| {
        let mut writer = objects.put("papers", "body", promised(length))?;
        writer.write(&vec![1; given])?;
        writer.finish(&Expected { md5, ..Expected::none() }).wait().map(drop)
    };
    for (length, given, md5) in
        [(10, 9, None), (10, 11, None), (10, 10, Some([0; 16])), (3 << 20, 2 << 20, None), (6 << 30, 1, None)]
    {
        let here = outcome(&served.objects, length, given, md5).unwrap_err();
        let there = outcome(&ada.objects(), length, given, md5).unwrap_err();
        assert_eq!((here.kind(), here.message()), (there.kind(), there.message()));
    }
    assert_eq!(kind(ada.objects().head("papers", "body")), ErrorKind::NoSuchKey, "nothing is left");
}

#[test]
fn a_client_that_is_gone_leaves_nothing() {
    let served = served();
    let (ada, token) = served.by_password("ada");
    ada.objects().create_bucket("papers").wait().unwrap();
    let another = served.connect();
    another.log_in(&LogIn::Token(token)).unwrap();
    put_into(&another.objects(), "papers", "there", &bytes(200_000, 1)).unwrap();
    let reader = another.objects().get("papers", "there").unwrap();
    let mut writer = another.objects().put("papers", "begun", PutOptions::default()).unwrap();
    writer.write(&bytes(3 << 20, 2)).unwrap();
    another.close();
    assert_eq!(kind(reader.bytes(100_000, 10)), ErrorKind::Stopped);
    assert_eq!(kind(writer.finish(&Expected::none()).wait()), ErrorKind::Stopped);
    let left = || served.server.connections();
    for _ in 0..1000 {
        if left() == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left(), 1);
    assert_eq!(kind(ada.objects().head("papers", "begun")), ErrorKind::NoSuchKey);
}

#[test]
fn handles_are_bounded_and_errors_of_a_writer_stay() {
    let served = served();
    let (ada, _) = served.by_password("ada");
    let objects = ada.objects();
    objects.create_bucket("papers").wait().unwrap();
    put_into(&objects, "papers", "long", &bytes(100_000, 1)).unwrap();
    let mut readers = Vec::new();
    let error = loop {
        match objects.get("papers", "long") {
            Ok(reader) => readers.push(reader),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), readers.len()), (ErrorKind::Busy, 256));
    readers.truncate(10);
    objects.get("papers", "long").unwrap();
    let mut writers = Vec::new();
    let error = loop {
        match objects.put("papers", "new", PutOptions::default()) {
            Ok(writer) => writers.push(writer),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), writers.len()), (ErrorKind::Busy, 256));
    // 64 MiB of bodies on their way are enough for one connection.
    let piece = vec![1; 1 << 20];
    let failed = writers.iter_mut().map(|writer| writer.write(&piece).is_err()).filter(|failed| *failed).count();
    assert_eq!(failed, 0, "they are on their way");
    let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.finish(&Expected::none()).wait()).collect();
    let refused = outcomes.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert!(refused.len() >= 256 - 64 - 1, "{}", refused.len());
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::Busy));
    put_into(&objects, "papers", "new", b"then it goes on").unwrap();
}

#[test]
fn pinned_versions_are_bounded_are_only_read_and_end_with_the_log_in() {
    let served = served();
    let (ada, token) = served.by_password("ada");
    let objects = ada.objects();
    objects.create_bucket("papers").wait().unwrap();
    put_into(&objects, "papers", "long", &bytes(100_000, 1)).unwrap();
    let mut pins = Vec::new();
    let error = loop {
        match objects.pin() {
            Ok(pin) => pins.push(pin),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), pins.len()), (ErrorKind::Busy, 64));
    // A reader keeps the version that it was opened at.
    let reader = pins.last().unwrap().get("papers", "long").unwrap();
    pins.truncate(10);
    objects.delete("papers", "long", DeleteOptions::default()).wait().unwrap();
    let pinned = objects.pin().unwrap();
    assert!(!pinned.exists("papers", "long").unwrap() && pins[0].exists("papers", "long").unwrap());
    assert!(reader.bytes(50_000, 10).unwrap() == bytes(100_000, 1)[50_000..50_010]);
    // Others of the store see no more of it than they may.
    let (bob, _) = served.by_password("bob");
    assert_eq!(kind(bob.objects().pin().unwrap().head("papers", "long")), ErrorKind::AccessDenied);
    // What was pinned is gone with who pinned it.
    ada.log_in(&LogIn::Token(token.clone())).unwrap();
    assert_eq!(kind(pinned.head("papers", "long")), ErrorKind::InvalidArgument);
    // What is no reading is refused, also where it says that it is at a pinned version.
    let verbs = WireVerbs::connect_unix(&served.socket, None, &ClientOptions::default(), None).unwrap();
    let mut login = vec![1];
    login.extend((token.expose().len() as u32).to_le_bytes());
    login.extend(token.expose().as_bytes());
    verbs.ask(0x8002, &login, b"").unwrap().wait().unwrap();
    verbs.ask(0x8090, &5u64.to_le_bytes(), b"").unwrap().wait().unwrap();
    let at_pin = |verb: u16, message: &[u8]| {
        let within = [&5u64.to_le_bytes()[..], &verb.to_le_bytes(), message].concat();
        verbs.ask(0x8092, &within, b"").unwrap().wait()
    };
    let bucket = [&6u32.to_le_bytes()[..], b"papers"].concat();
    at_pin(0x8011, &bucket).unwrap();
    for verb in [0x8002u16, 0x8013, 0x8016, 0x8040, 0x8061, 0x8077, 0x8090, 0x8092] {
        let error = at_pin(verb, &bucket).unwrap_err();
        assert!(error.message().starts_with("ReadOnly: "), "{verb:#x}: {}", error.message());
    }
}

#[test]
fn garbage_harms_nobody() {
    let served = served();
    let (ada, token) = served.by_password("ada");
    ada.objects().create_bucket("papers").wait().unwrap();
    // Bytes that are no frames.
    let mut stream = UnixStream::connect(&served.socket).unwrap();
    stream.write_all(&bytes(4096, 9)).ok();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    // Verbs with messages that are none, before and behind the log in.
    let verbs = WireVerbs::connect_unix(&served.socket, None, &ClientOptions::default(), None).unwrap();
    let mut login = vec![1];
    login.extend((token.expose().len() as u32).to_le_bytes());
    login.extend(token.expose().as_bytes());
    for is_in in [false, true] {
        if is_in {
            verbs.ask(0x8002, &login, b"").unwrap().wait().unwrap();
        }
        for verb in 0x8000..0x8100u16 {
            for length in [0, 1, 4, 5, 9, 100, 5000] {
                let message = bytes(length, u64::from(verb));
                // Log out takes no message, and is one.
                let _refused = verbs.ask(verb, &message, &message).unwrap().wait();
                if verb == 0x8003 && is_in {
                    let _again = verbs.ask(0x8002, &login, b"").unwrap().wait();
                }
            }
        }
        assert!(verbs.ask(0x8000, &1u32.to_le_bytes(), b"").unwrap().wait().is_ok());
    }
    // A body that is named by nobody, twice, and after its end.
    for verb in [0x8025u16, 0x8026, 0x8027, 0x8031, 0x8032, 0x8033] {
        let _refused = verbs.ask(verb, &7u64.to_le_bytes(), b"piece").unwrap().wait();
    }
    let (bob, _) = served.by_password("bob");
    bob.objects().create_bucket("his").wait().unwrap();
}

#[test]
fn over_tcp_nobody_gets_in_without_the_key_and_a_log_in() {
    let served = served();
    let verbs = Arc::new(ObjectVerbs::new(served.objects.clone()));
    let options = ServerOptions { handler: Some(verbs), ..ServerOptions::default() };
    let server = Server::new(Arc::clone(served.objects.kv().unwrap()), options);
    let key = Key::new([7; 32]).unwrap();
    let address = server.listen_tcp("127.0.0.1:0".parse().unwrap(), key.clone()).unwrap().to_string();
    assert!(RemoteObjects::connect_tcp(&address, &Key::new([8; 32]).unwrap(), Timeouts::default()).is_err());
    let remote = RemoteObjects::connect_tcp(&address, &key, Timeouts::default()).unwrap();
    assert_eq!(kind(remote.objects().create_bucket("mine").wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(remote.log_in(&LogIn::Peer).map(drop)), ErrorKind::LogInFailed);
    remote.log_in(&password("bob", "bob's password")).unwrap();
    remote.objects().create_bucket("mine").wait().unwrap();
    put_into(&remote.objects(), "mine", "key", &bytes(3_000_000, 4)).unwrap();
    assert!(get(&remote.objects(), "mine", "key").unwrap() == bytes(3_000_000, 4));
}

#[test]
fn who_administers_does_so_from_elsewhere_and_nobody_else_does() {
    let served = served();
    served.objects.identities().set_password("root", "root's password").unwrap();
    let ((root, _), (ada, _)) = (served.by_password("root"), served.by_password("ada"));
    let (there, here) = (root.objects().identities(), served.objects.identities());
    there.create_group("field", "who is out").wait().unwrap();
    there.create_user("field", "eve", Some("eve's password")).unwrap();
    assert_eq!(there.group("field").unwrap(), here.group("field").unwrap());
    assert_eq!(there.user("eve").unwrap(), here.user("eve").unwrap());
    there.add_member("lab", "eve", true).wait().unwrap();
    let members = UserQuery { group: Some("lab".to_owned()), ..UserQuery::default() };
    assert_eq!(there.users(&members).unwrap(), here.users(&members).unwrap());
    assert_eq!(there.groups(&NameQuery::default()).unwrap(), here.groups(&NameQuery::default()).unwrap());
    let (key, secret) = there.create_key("eve", KeyOptions::default()).wait().unwrap();
    assert!(here.by_access_key(&key).unwrap().1 == secret);
    assert_eq!(there.keys_of("eve").unwrap(), here.keys_of("eve").unwrap());
    there.delete_key("eve", &key).wait().unwrap();
    there
        .set_group("field", GroupChange { description: Some("away".into()), ..GroupChange::default() })
        .wait()
        .unwrap();
    let document =
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}"#;
    there.set_policy("readers", Some(document)).wait().unwrap();
    assert_eq!(there.policy("readers").unwrap(), document);
    // One's own, and what is no member's to change.
    let (eve, _) = served.by_password("eve");
    let hers = eve.objects().identities();
    for refused in [
        ada.objects().identities().create_group("mine", "").wait().map(drop),
        ada.objects().identities().set_password("eve", "ada's choice"),
        ada.objects().identities().delete_user("eve"),
        ada.objects().identities().set_public_access(true).wait(),
        ada.objects().identities().policy("readers").map(drop),
        ada.objects().identities().users(&UserQuery::default()).map(drop),
        hers.delete_group("lab").map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AccessDenied);
    }
    // Owners, policies and lists of what is somebody's.
    let (ada, ids) = (ada.objects(), ada.objects().identities());
    ada.create_bucket("papers").wait().unwrap();
    put_into(&ada, "papers", "draft", b"draft").unwrap();
    let (bob, _) = served.by_password("bob");
    let bob = bob.objects();
    assert_eq!(kind(get(&bob, "papers", "draft")), ErrorKind::AccessDenied);
    let bobs_id = there.user("bob").unwrap().id;
    let list = AccessList::new(vec![Grant { to: Grantee::User(bobs_id), rights: Grant::READ }]).unwrap();
    ids.set_object_access(ObjectName::new("papers", "draft"), list.clone()).wait().unwrap();
    assert_eq!(ids.object_access(ObjectName::new("papers", "draft")).unwrap(), list);
    assert_eq!(get(&bob, "papers", "draft").unwrap(), b"draft");
    ids.set_bucket_access("papers", list.clone()).wait().unwrap();
    assert_eq!(ids.bucket_access("papers").unwrap(), list);
    assert_eq!(kind(ids.bucket_policy("papers")), ErrorKind::NoSuchPolicy);
    assert_eq!(ids.owner("papers").unwrap(), ("ada".to_owned(), "lab".to_owned()));
    there.change_owner("papers", "bob", None).wait().unwrap();
    assert_eq!(here.owner("papers").unwrap().0, "bob");
    there.remove_member("lab", "eve").wait().unwrap();
    there.delete_user("eve").unwrap();
    assert_eq!(there.delete_group("office").unwrap(), koine_object::DeletedGroup { buckets: 1, users: 1 });
    // What a door asks, and what the owner alone may.
    assert_eq!(kind(there.by_uid(1).map(drop)), ErrorKind::Unsupported);
    assert_eq!(kind(there.reset_root().map(drop)), ErrorKind::Unsupported);
}

#[test]
fn passwords_and_tokens_are_changed_from_elsewhere() {
    let served = served();
    let here = served.objects.identities();
    let (eve, _) = served.by_password("ada");
    let hers = eve.objects().identities();
    assert_eq!(kind(hers.set_password("ada", "another password")), ErrorKind::AccessDenied);
    assert_eq!(hers.tokens_of("ada").unwrap(), here.tokens_of("ada").unwrap());
    hers.change_password("ada", "ada's password", "another password").unwrap();
    served.connect().log_in(&password("ada", "another password")).unwrap();
    let tokens = hers.tokens_of("ada").unwrap();
    assert_eq!(tokens.len(), 2);
    for token in &tokens {
        here.delete_token("ada", &token.id).wait().unwrap();
    }
    assert!(here.tokens_of("ada").unwrap().is_empty());
    assert_eq!(kind(hers.tokens_of("ada")), ErrorKind::AccessDenied);
}
