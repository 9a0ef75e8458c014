//! Groups, users, keys, tokens: made, used, taken back, deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{Batch, Durability, Kv, SpaceId, Ticket, pass_on};
use koine_object::{
    BucketQuery, Caller, CollectOptions, ErrorKind, GroupChange, KeyOptions, ListQuery, NameQuery, Objects, Secret,
    Token, UserChange, UserQuery, UserState,
};

use crate::support::{group_of, kind, over, put_into, store, user_of};

const HOUR: Duration = Duration::from_secs(3600);

fn buckets(objects: &Objects) -> Vec<String> {
    let page = objects.list_buckets(&BucketQuery::default()).unwrap();
    page.buckets.into_iter().map(|bucket| bucket.name).collect()
}

/// The example of S-321: the paper's two groups with two users each.
#[test]
fn members_of_a_group_share_its_buckets_and_nobody_else_gets_in() {
    let objects = store();
    group_of(&objects, "physics", &["ann", "bob"]);
    group_of(&objects, "biology", &["cleo", "dan"]);
    let [ann, bob, cleo, dan] = ["ann", "bob", "cleo", "dan"].map(|user| user_of(&objects, user));
    ann.create_bucket("physics").wait().unwrap();
    cleo.create_bucket("biology").wait().unwrap();
    assert_eq!(objects.identities().owner("physics").unwrap(), ("ann".into(), "physics".into()));
    for (own, other, member, stranger) in [("physics", "biology", &bob, &dan), ("biology", "physics", &dan, &bob)] {
        put_into(member, own, "shared", b"x").unwrap();
        assert_eq!(member.get(own, "shared").unwrap().bytes(0, 9).unwrap().as_ref(), b"x");
        assert_eq!(member.list(own, &ListQuery { limit: 9, ..ListQuery::default() }).unwrap().objects.len(), 1);
        assert_eq!(kind(stranger.get(own, "shared")), ErrorKind::AccessDenied);
        assert_eq!(kind(put_into(stranger, own, "shared", b"y")), ErrorKind::AccessDenied);
        assert_eq!(kind(stranger.list(own, &ListQuery::default())), ErrorKind::AccessDenied);
        assert_eq!(kind(member.head_bucket(other)), ErrorKind::AccessDenied);
        // What belongs to the bucket itself is its owner's.
        assert_eq!(kind(member.purge_bucket(own).wait()), ErrorKind::AccessDenied);
        assert_eq!(kind(member.delete_bucket(own).wait()), ErrorKind::AccessDenied);
    }
    assert_eq!(buckets(&bob), ["physics"]);
    assert_eq!(buckets(&dan), ["biology"]);
    assert_eq!(kind(dan.create_bucket("physics").wait()), ErrorKind::BucketAlreadyExists);
    assert_eq!(kind(ann.create_bucket("physics").wait()), ErrorKind::BucketAlreadyOwnedByYou);
    // A member of both sees both, as long as it is one.
    let identities = objects.identities();
    identities.add_member("biology", "bob", false).wait().unwrap();
    assert_eq!(buckets(&bob), ["biology", "physics"]);
    put_into(&bob, "biology", "from bob", b"x").unwrap();
    identities.remove_member("biology", "bob").wait().unwrap();
    assert_eq!(kind(bob.get("biology", "from bob")), ErrorKind::AccessDenied);
    assert_eq!(buckets(&bob), ["physics"]);
    assert_eq!(kind(identities.remove_member("physics", "bob").wait()), ErrorKind::InvalidRequest);
}

#[test]
fn a_bucket_goes_to_another_owner_and_group() {
    let objects = store();
    group_of(&objects, "one", &["ann"]);
    group_of(&objects, "two", &["bob", "cleo"]);
    let [ann, bob, cleo] = ["ann", "bob", "cleo"].map(|user| user_of(&objects, user));
    ann.create_bucket("given").wait().unwrap();
    assert_eq!(kind(bob.identities().change_owner("given", "bob", None).wait()), ErrorKind::AccessDenied);
    // Nobody is given what it did not ask for, but by who administers it.
    assert_eq!(kind(ann.identities().change_owner("given", "bob", None).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().change_owner("given", "ann", Some("two")).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().change_owner("given", "root", None).wait()), ErrorKind::AccessDenied);
    ann.identities().change_owner("given", "ann", Some("one")).wait().unwrap();
    objects.identities().change_owner("given", "bob", None).wait().unwrap();
    assert_eq!(objects.identities().owner("given").unwrap(), ("bob".into(), "two".into()));
    assert_eq!(kind(ann.head_bucket("given")), ErrorKind::AccessDenied);
    assert!(cleo.head_bucket("given").is_ok());
    assert_eq!((buckets(&ann), buckets(&bob), buckets(&cleo)), (vec![], vec!["given".into()], vec!["given".into()]));
    bob.delete_bucket("given").wait().unwrap();
    assert_eq!(buckets(&cleo), Vec::<String>::new());
}

/// The example of S-322.
#[test]
fn a_right_that_was_taken_away_holds_for_every_put_after() {
    let objects = store();
    group_of(&objects, "home", &["ann"]);
    group_of(&objects, "lab", &["owner"]);
    user_of(&objects, "owner").create_bucket("shared").wait().unwrap();
    let identities = objects.identities();
    let ann = user_of(&objects, "ann");
    for round in 0..crate::backend::ROUNDS.min(5) {
        identities.add_member("lab", "ann", false).wait().unwrap();
        let (taken, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let put = || loop {
                let late = taken.load(Ordering::SeqCst);
                match put_into(&ann, "shared", &format!("{round}"), b"x") {
                    Ok(_) => {
                        assert!(!late, "a put that began after the removal was acknowledged");
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::AccessDenied);
                        return;
                    }
                }
            };
            let (a, b) = (scope.spawn(put), scope.spawn(put));
            while acknowledged.load(Ordering::SeqCst) < 3 {
                assert!(!a.is_finished() || !b.is_finished());
                thread::yield_now();
            }
            identities.remove_member("lab", "ann").wait().unwrap();
            let version = objects.kv().unwrap().view().unwrap().version();
            taken.store(true, Ordering::SeqCst);
            // Nothing that was on its way lands after it either.
            a.join().unwrap();
            b.join().unwrap();
            assert!(objects.head("shared", &format!("{round}")).unwrap().version <= version);
        });
    }
}

/// The example of S-326.
#[test]
fn all_buckets_that_one_user_makes_at_once_are_there() {
    let objects = store();
    group_of(&objects, "lab", &["ann", "bob"]);
    let [ann, bob] = ["ann", "bob"].map(|user| user_of(&objects, user));
    let names: Vec<String> = (0..64).map(|number| format!("bucket-{number:02}")).collect();
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| ann.create_bucket(name).wait().unwrap());
        }
    });
    assert_eq!(buckets(&ann), names);
    assert_eq!(buckets(&bob), names);
    let page = ann.list_buckets(&BucketQuery { limit: 10, ..BucketQuery::default() }).unwrap();
    assert_eq!((page.buckets.len(), page.next.as_deref()), (10, Some("bucket-09")));
}

#[test]
fn names_of_users_and_groups_are_unique_and_may_change() {
    let objects = store();
    group_of(&objects, "Lab", &["Ann"]);
    let identities = objects.identities();
    assert_eq!(kind(identities.create_group("lab", "").wait()), ErrorKind::AlreadyExists);
    assert_eq!(kind(identities.create_user("lab", "ANN", None)), ErrorKind::AlreadyExists);
    assert_eq!(kind(identities.create_user("nobody", "bob", None)), ErrorKind::NoSuchGroup);
    for wrong in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
        assert_eq!(kind(identities.create_group(wrong, "").wait()), ErrorKind::InvalidArgument, "{wrong}");
    }
    for taken in ["root", "ROOT"] {
        assert_eq!(kind(identities.create_user("lab", taken, None)), ErrorKind::AlreadyExists);
    }
    let ann = user_of(&objects, "ann");
    ann.create_bucket("hers").wait().unwrap();
    let renamed = UserChange { name: Some("eve".into()), ..UserChange::default() };
    assert_eq!(identities.set_user("ann", renamed).wait().unwrap().name, "eve");
    assert_eq!(kind(identities.user("ann")), ErrorKind::NoSuchUser);
    // What is hers stays hers, and who takes the old name gets none of it.
    assert_eq!(buckets(&ann), ["hers"]);
    identities.create_group("others", "").wait().unwrap();
    identities.create_user("others", "ann", None).unwrap();
    assert_eq!(kind(user_of(&objects, "ann").head_bucket("hers")), ErrorKind::AccessDenied);
    let change = GroupChange { name: Some("LAB".into()), description: Some("x".into()), ..GroupChange::default() };
    let group = identities.set_group("lab", change).wait().unwrap();
    assert_eq!((group.name.as_str(), group.description.as_str()), ("LAB", "x"));
    let groups = identities.groups(&NameQuery::default()).unwrap().groups;
    assert_eq!(groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["LAB", "others"]);
}

#[test]
fn users_are_told_by_name_and_by_group_in_pages() {
    let objects = store();
    group_of(&objects, "a", &["u1", "u3"]);
    group_of(&objects, "b", &["u2"]);
    let identities = objects.identities();
    identities.add_member("b", "u1", true).wait().unwrap();
    let names = |query: &UserQuery| {
        let page = identities.users(query).unwrap();
        (page.users.into_iter().map(|user| user.name).collect::<Vec<_>>(), page.next)
    };
    let query = |group: Option<&str>, after: Option<&str>, limit| UserQuery {
        group: group.map(str::to_owned),
        names: NameQuery { after: after.map(str::to_owned), limit, ..NameQuery::default() },
    };
    assert_eq!(names(&query(None, None, 2)), (vec!["u1".into(), "u2".into()], Some("u2".into())));
    assert_eq!(names(&query(None, Some("u2"), 2)), (vec!["u3".into()], None));
    let (mut of_b, _) = names(&query(Some("b"), None, 0));
    of_b.sort();
    assert_eq!(of_b, ["u1", "u2"]);
    assert_eq!(identities.user("u1").unwrap().groups, ["b"]);
    // An administrator of a group sees and makes its users, and nobody else's.
    let u1 = user_of(&objects, "u1").identities();
    assert!(u1.users(&query(Some("b"), None, 0)).is_ok());
    assert_eq!(kind(u1.users(&query(Some("a"), None, 0))), ErrorKind::AccessDenied);
    assert_eq!(kind(u1.users(&query(None, None, 0))), ErrorKind::AccessDenied);
    u1.create_user("b", "u4", None).unwrap();
    assert_eq!(kind(u1.create_user("a", "u5", None)), ErrorKind::AccessDenied);
    assert_eq!(kind(u1.create_group("c", "").wait()), ErrorKind::AccessDenied);
    u1.delete_user("u4").unwrap();
    assert_eq!(kind(u1.delete_user("u3")), ErrorKind::AccessDenied);
}

#[test]
fn logging_in_gives_a_token_until_it_expires_or_is_taken_back() {
    let clock = Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000)));
    let objects = Objects::open(crate::backend::kv(), clock.clone(), Arc::new(SeededRandom::new(7))).unwrap();
    group_of(&objects, "lab", &["ann"]);
    let identities = objects.identities();
    assert_eq!(kind(identities.log_in("ann", "correct horse", HOUR)), ErrorKind::LogInFailed);
    identities.set_password("ann", "correct horse").unwrap();
    for (name, password) in [("ann", "correct horsf"), ("ann", ""), ("nobody", "correct horse"), ("root", "x")] {
        assert_eq!(kind(identities.log_in(name, password, HOUR)), ErrorKind::LogInFailed);
    }
    let everyone = objects.as_caller(Caller::Everyone).identities();
    let login = everyone.log_in("ANN", "correct horse", HOUR).unwrap();
    assert_eq!(login.user, "ann");
    assert!(login.token.expose().starts_with("kt1_") && login.token.expose().len() == 47);
    let ann = objects.as_caller(identities.by_token(&login.token).unwrap());
    ann.create_bucket("by-token").wait().unwrap();
    everyone.log_out(&login.token).wait().unwrap();
    everyone.log_out(&login.token).wait().unwrap();
    assert_eq!(kind(identities.by_token(&login.token)), ErrorKind::LogInFailed);
    assert_eq!(kind(ann.head_bucket("by-token")), ErrorKind::AccessDenied);
    let login = identities.log_in("ann", "correct horse", HOUR).unwrap();
    let ann = objects.as_caller(identities.by_token(&login.token).unwrap());
    assert!(ann.head_bucket("by-token").is_ok());
    clock.advance(HOUR);
    assert_eq!(kind(identities.by_token(&login.token)), ErrorKind::LogInFailed);
    assert_eq!(kind(ann.head_bucket("by-token")), ErrorKind::AccessDenied);
    assert_eq!(kind(identities.log_in("ann", "correct horse", 721 * HOUR)), ErrorKind::InvalidArgument);
    assert_eq!(kind(identities.by_token(&Token::new("kt1_short"))), ErrorKind::LogInFailed);
    // A user sets its own password, and who is disabled gets in by none.
    let login = identities.log_in("ann", "correct horse", HOUR).unwrap();
    let own = objects.as_caller(identities.by_token(&login.token).unwrap());
    let other = identities.log_in("ann", "correct horse", HOUR).unwrap();
    assert_eq!(own.identities().tokens_of("ann").unwrap().len(), 2);
    assert_eq!(kind(own.identities().set_password("ann", "battery staple")), ErrorKind::AccessDenied);
    let wrong = own.identities().change_password("ann", "wrong horse", "battery staple");
    assert_eq!(kind(wrong), ErrorKind::LogInFailed);
    own.identities().change_password("ann", "correct horse", "battery staple").unwrap();
    // All tokens are taken back, but the one by which it was changed.
    assert_eq!(kind(identities.by_token(&other.token)), ErrorKind::LogInFailed);
    assert!(own.head_bucket("by-token").is_ok());
    let kept = own.identities().tokens_of("ann").unwrap();
    assert_eq!(kept.len(), 1);
    assert!(other.token.expose() != kept[0].id && kept[0].expires == login.expires);
    assert_eq!(kind(identities.log_in("ann", "correct horse", HOUR)), ErrorKind::LogInFailed);
    let disabled = UserChange { state: Some(UserState::Disabled), ..UserChange::default() };
    identities.set_user("ann", disabled).wait().unwrap();
    assert_eq!(kind(identities.log_in("ann", "battery staple", HOUR)), ErrorKind::LogInFailed);
    let enabled = UserChange { state: Some(UserState::Live), ..UserChange::default() };
    identities.set_user("ann", enabled).wait().unwrap();
    assert!(own.head_bucket("by-token").is_ok());
    assert_eq!(kind(own.identities().delete_token("ann", "0000").wait()), ErrorKind::NoSuchAccessKey);
    own.identities().delete_token("ann", &kept[0].id).wait().unwrap();
    assert_eq!(kind(own.head_bucket("by-token")), ErrorKind::AccessDenied);
    // A user has a thousand tokens at most; an administrator's new password takes all back.
    let login = identities.log_in("ann", "battery staple", HOUR).unwrap();
    let own = objects.as_caller(identities.by_token(&login.token).unwrap());
    identities.set_password("ann", "correct horse").unwrap();
    assert_eq!(kind(own.head_bucket("by-token")), ErrorKind::AccessDenied);
}

#[test]
fn who_administers_a_group_gains_nothing_by_speaking_for_its_members() {
    let objects = store();
    group_of(&objects, "lab", &["head", "ann", "wide", "elsewhere"]);
    group_of(&objects, "others", &["eve"]);
    let identities = objects.identities();
    identities.add_member("lab", "head", true).wait().unwrap();
    identities.add_member("others", "elsewhere", false).wait().unwrap();
    let all = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}"#;
    identities.set_policy("all", Some(all)).wait().unwrap();
    let wide = UserChange { policies: Some(vec!["all".into()]), ..UserChange::default() };
    identities.set_user("wide", wide).wait().unwrap();
    let head = user_of(&objects, "head").identities();
    for (user, may) in [("ann", true), ("wide", false), ("elsewhere", false), ("eve", false), ("root", false)] {
        let made = head.create_key(user, KeyOptions::default()).wait().map(drop);
        let set = head.set_password(user, "a long password");
        for (call, outcome) in [("key", made), ("password", set)] {
            assert_eq!(outcome.is_ok(), may, "{call} of {user}: {outcome:?}");
            assert!(may || kind(outcome) == ErrorKind::AccessDenied);
        }
    }
    // They are disabled and deleted all the same.
    let disabled = UserChange { state: Some(UserState::Disabled), ..UserChange::default() };
    head.set_user("wide", disabled).wait().unwrap();
    // Who is pulled into a group gets its denials: only who administers both may do that.
    assert_eq!(kind(head.add_member("lab", "eve", false).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(head.add_member("others", "ann", false).wait()), ErrorKind::AccessDenied);
    head.add_member("lab", "ann", true).wait().unwrap();
    // A member may leave.
    let elsewhere = user_of(&objects, "elsewhere").identities();
    assert_eq!(kind(elsewhere.remove_member("others", "eve").wait()), ErrorKind::AccessDenied);
    elsewhere.remove_member("others", "elsewhere").wait().unwrap();
    head.create_key("elsewhere", KeyOptions::default()).wait().unwrap();
}

#[test]
fn an_access_key_signs_until_it_is_taken_back_and_does_what_it_is_narrowed_to() {
    let objects = store();
    group_of(&objects, "lab", &["ann", "bob"]);
    let identities = objects.identities();
    let ann = user_of(&objects, "ann");
    ann.create_bucket("hers").wait().unwrap();
    put_into(&ann, "hers", "a", b"x").unwrap();
    let policy = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:Get*", "Resource": "*"}}"#;
    let given = Some(("AKIAEXAMPLE".to_owned(), Secret::new("a secret of my own")));
    let options = KeyOptions { given, policy: Some(policy.to_owned()), ..KeyOptions::default() };
    let (key, _) = ann.identities().create_key("ann", options.clone()).wait().unwrap();
    assert_eq!(kind(identities.create_key("bob", options).wait()), ErrorKind::AlreadyExists);
    let (caller, secret) = identities.by_access_key(&key).unwrap();
    assert_eq!(secret.expose(), "a secret of my own");
    assert_eq!(format!("{secret:?}"), "Secret(hidden)");
    let narrowed = objects.as_caller(caller);
    assert!(narrowed.get("hers", "a").is_ok());
    assert_eq!(kind(put_into(&narrowed, "hers", "b", b"x")), ErrorKind::AccessDenied);
    // What is narrowed makes no key that is not.
    assert_eq!(kind(narrowed.identities().create_key("ann", KeyOptions::default()).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().create_key("bob", KeyOptions::default()).wait()), ErrorKind::AccessDenied);
    assert_eq!(ann.identities().keys_of("ann").unwrap().len(), 2);
    assert_eq!(kind(identities.delete_key("bob", &key).wait()), ErrorKind::NoSuchAccessKey);
    ann.identities().delete_key("ann", &key).wait().unwrap();
    assert_eq!(kind(narrowed.get("hers", "a")), ErrorKind::AccessDenied);
    assert_eq!(kind(identities.by_access_key(&key)), ErrorKind::NoSuchAccessKey);
    let malformed = KeyOptions { policy: Some("{}".into()), ..KeyOptions::default() };
    assert_eq!(kind(identities.create_key("ann", malformed).wait()), ErrorKind::MalformedPolicy);
}

#[test]
fn root_is_made_anew_by_who_owns_the_device_alone() {
    let objects = store();
    group_of(&objects, "lab", &["ann"]);
    let identities = objects.identities();
    let root = koine_object::RootKey { access_key: "ROOTKEY".into(), secret: "rootsecret".into() };
    objects.set_root_key_if_absent(&root).unwrap();
    let (caller, secret) = identities.by_access_key("ROOTKEY").unwrap();
    assert_eq!(secret.expose(), "rootsecret");
    let old = objects.as_caller(caller);
    old.create_bucket("of-root").wait().unwrap();
    let admin = UserChange { administrator: Some(true), ..UserChange::default() };
    old.identities().set_user("ann", admin.clone()).wait().unwrap();
    let ann = user_of(&objects, "ann");
    // An administrator manages everything but root.
    assert!(ann.head_bucket("of-root").is_ok());
    ann.identities().create_group("new", "").wait().unwrap();
    ann.identities().create_user("new", "bob", None).unwrap();
    assert_eq!(kind(ann.identities().set_user("bob", admin).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().create_key("root", KeyOptions::default()).wait()), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().set_password("root", "long enough")), ErrorKind::AccessDenied);
    assert_eq!(kind(ann.identities().reset_root()), ErrorKind::AccessDenied);
    assert_eq!(kind(old.identities().reset_root()), ErrorKind::AccessDenied);
    let (key, secret, password) = identities.reset_root().unwrap();
    assert_eq!(kind(old.head_bucket("of-root")), ErrorKind::AccessDenied);
    assert_eq!(kind(identities.by_access_key("ROOTKEY")), ErrorKind::NoSuchAccessKey);
    let (caller, told) = identities.by_access_key(&key).unwrap();
    assert_eq!(told, secret);
    assert!(objects.as_caller(caller).head_bucket("of-root").is_ok());
    let login = identities.log_in("root", password.expose(), HOUR).unwrap();
    let root = objects.as_caller(identities.by_token(&login.token).unwrap());
    root.identities().create_key("root", KeyOptions::default()).wait().unwrap();
    assert_eq!(identities.keys_of("root").unwrap().len(), 2);
    identities.reset_root().unwrap();
    assert_eq!(identities.keys_of("root").unwrap().len(), 1);
    assert_eq!(kind(root.head_bucket("of-root")), ErrorKind::AccessDenied);
}

#[test]
fn a_user_goes_with_its_keys_and_not_while_it_owns_buckets() {
    let objects = store();
    group_of(&objects, "lab", &["ann", "bob"]);
    let identities = objects.identities();
    identities.set_user("ann", UserChange { uid: Some(1000), ..UserChange::default() }).wait().unwrap();
    let by_uid = objects.as_caller(identities.by_uid(1000).unwrap().unwrap());
    let ann = user_of(&objects, "ann");
    by_uid.create_bucket("hers").wait().unwrap();
    assert_eq!(kind(identities.delete_user("ann")), ErrorKind::NotEmpty);
    identities.change_owner("hers", "bob", None).wait().unwrap();
    identities.delete_user("ann").unwrap();
    assert_eq!(kind(ann.head_bucket("hers")), ErrorKind::AccessDenied);
    assert_eq!(kind(by_uid.head_bucket("hers")), ErrorKind::AccessDenied);
    assert!(identities.by_uid(1000).unwrap().is_none());
    assert_eq!(kind(identities.delete_user("ann")), ErrorKind::NoSuchUser);
    // One of the same name is somebody else.
    identities.create_user("lab", "ann", None).unwrap();
    assert_eq!(kind(ann.head_bucket("hers")), ErrorKind::AccessDenied);
    assert!(identities.keys_of("ann").unwrap().is_empty());
}

/// A store whose commits fail after a number of them.
pub struct Interrupted {
    store: Arc<dyn Kv>,
    left: AtomicUsize,
}

impl Interrupted {
    /// Over a store, after so many commits.
    pub fn new(store: &Arc<dyn Kv>, commits: usize) -> Self {
        Interrupted { store: Arc::clone(store), left: AtomicUsize::new(commits) }
    }

    fn fail(&self) -> Option<koine_kv::Error> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Some(koine_kv::Error::new(koine_kv::ErrorKind::Stopped, "interrupted"));
        }
        self.left.store(left - 1, Ordering::SeqCst);
        None
    }
}

impl Kv for Interrupted {
    pass_on!(Kv, store: profile, view, get, glance, stage, watch, usage, sync, close);

    fn submit(&self, batch: Batch, durability: Durability) -> Ticket {
        match self.fail() {
            Some(error) => Ticket::ready(Err(error)),
            None => self.store.submit(batch, durability),
        }
    }

    fn commit(&self, batch: Batch, durability: Durability) -> koine_kv::Result<koine_kv::Commit> {
        self.submit(batch, durability).wait()
    }
}

#[test]
fn deleting_a_group_goes_on_wherever_it_was_interrupted() {
    for allowed in 0.. {
        let kv = crate::backend::kv();
        let objects = over(Arc::clone(&kv));
        group_of(&objects, "lab", &["ann", "bob"]);
        group_of(&objects, "rest", &["cleo"]);
        let identities = objects.identities();
        let [ann, cleo] = ["ann", "cleo"].map(|user| user_of(&objects, user));
        for name in ["first", "second"] {
            ann.create_bucket(name).wait().unwrap();
            put_into(&ann, name, "content", b"x").unwrap();
            objects.snapshot_bucket(name, "kept").wait().unwrap();
        }
        ann.create_bucket("hers").wait().unwrap();
        identities.change_owner("hers", "ann", Some("rest")).wait().unwrap();
        identities.add_member("lab", "cleo", false).wait().unwrap();
        cleo.create_bucket("stays").wait().unwrap();
        let spaces = kv.view().unwrap().spaces(SpaceId(0), 1000).unwrap().len();

        let interrupted = Interrupted::new(&kv, allowed);
        let clock = Arc::new(SimulatedClock::new(Timestamp(1)));
        let broken = Objects::open(Arc::new(interrupted), clock, Arc::new(SeededRandom::new(9))).unwrap();
        let first = broken.identities().delete_group("lab");
        if allowed > 0 {
            // Nobody of it gets in any more, and nothing is made in it.
            assert_eq!(kind(ann.head_bucket("second")), ErrorKind::AccessDenied);
            assert_eq!(kind(ann.create_bucket("another").wait()), ErrorKind::AccessDenied);
            assert_eq!(kind(identities.create_user("lab", "new", None)), ErrorKind::NoSuchGroup);
        }
        let done = first.is_ok();
        if !done {
            assert_eq!(kind(first), ErrorKind::Stopped);
            // Who began it goes on, or the collector.
            if allowed % 2 == 0 {
                identities.delete_group("lab").unwrap();
            } else {
                let collect =
                    |remove| objects.collect(&CollectOptions { remove, ..CollectOptions::default() }).unwrap();
                assert_eq!((collect(false).deletions, collect(true).removed, collect(true).found()), (1, 1, 0));
            }
        }
        assert_eq!(kind(identities.delete_group("lab")), ErrorKind::NoSuchGroup);
        assert_eq!(buckets(&objects), ["bucket", "hers", "stays"]);
        assert_eq!(kv.view().unwrap().spaces(SpaceId(0), 1000).unwrap().len(), spaces - 4);
        assert_eq!(objects.identities().owner("hers").unwrap(), ("root".into(), "rest".into()));
        assert_eq!(buckets(&cleo), ["hers", "stays"]);
        for gone in ["ann", "bob"] {
            assert_eq!(kind(identities.user(gone)), ErrorKind::NoSuchUser);
        }
        assert!(identities.user("cleo").unwrap().groups.is_empty());
        if done {
            assert!(allowed > 5);
            return;
        }
    }
}
