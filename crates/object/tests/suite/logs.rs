//! What the log says at `info`: who was refused what by which rule, and who deleted what.

use std::io;
use std::sync::{Arc, Mutex};

use koine_object::{
    BucketChange, Caller, Circumstances, DeleteOptions, Error, ErrorKind, ExpectedOwner, KeyOptions, ObjectName,
    Objects, UploadOptions, UserChange, Versioning,
};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{group_of, kind, put, put_into, store, user_of};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// The lines that are logged meanwhile, without time and place.
fn lines(during: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let builder = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    let subscriber = builder.with_writer(log.clone()).with_ansi(false).without_time().with_target(false).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    during();
    drop(guard);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Ann and Bob, who share nothing; Ann has a bucket of her name with an object in it.
fn peopled() -> (Objects, [Objects; 2]) {
    let objects = store();
    group_of(&objects, "lab", &["ann"]);
    group_of(&objects, "office", &["bob"]);
    let address = Some("10.1.2.3".parse().unwrap());
    let from = Circumstances { address, ..Circumstances::default() };
    let users = ["ann", "bob"].map(|user| user_of(&objects, user).under(from.clone()));
    users[0].create_bucket("hers").wait().unwrap();
    put_into(&users[0], "hers", "key", b"bytes").unwrap();
    (objects, users)
}

/// The example of S-339.
#[test]
fn a_refusal_tells_who_what_and_by_which_rule() {
    let (objects, [ann, bob]) = peopled();
    let identities = objects.identities();
    let id = format!("{:016x}", identities.user("bob").unwrap().id);
    let told = lines(|| assert_eq!(kind(bob.get("hers", "key")), ErrorKind::AccessDenied));
    let expected = format!(
        r#"INFO refused action="s3:GetObject" on="hers/key" by="bob ({id}) from 10.1.2.3" rule="nothing allows it""#
    );
    assert_eq!(told, [expected]);
    let hold = r#"{"Version": "2012-10-17", "Statement": {"Sid": "hold", "Effect": "Deny", "Action": "s3:DeleteObject",
        "Resource": "*"}}"#;
    identities.set_policy("still", Some(hold)).wait().unwrap();
    let change = UserChange { policies: Some(vec!["still".into()]), ..UserChange::default() };
    identities.set_user("ann", change).wait().unwrap();
    let told = lines(|| {
        assert_eq!(kind(ann.delete("hers", "key", DeleteOptions::default()).wait()), ErrorKind::AccessDenied);
    });
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(r#"rule="policy still, statement hold""#), "{told:?}");
    // Of many names each is judged by itself.
    let names = ["key".to_owned(), "absent".to_owned()];
    let told = lines(|| assert!(ann.delete_many("hers", &names).wait().unwrap().iter().all(Result::is_err)));
    assert_eq!(told.len(), 2, "{told:?}");
    let everyone = objects.as_caller(Caller::Everyone);
    let told = lines(|| assert_eq!(kind(everyone.get("hers", "key")), ErrorKind::AccessDenied));
    assert!(told[0].contains(r#"by="nobody""#), "{told:?}");
    let expected = ExpectedOwner { bucket: "hers".into(), owner: None };
    let other = objects.under(Circumstances { expected_owners: vec![expected], ..Circumstances::default() });
    let told = lines(|| assert_eq!(kind(other.get("hers", "key")), ErrorKind::AccessDenied));
    assert!(told[0].contains("another owner") && told[0].contains(r#"bucket="hers""#), "{told:?}");
    // What is allowed, and what is not there, is no line.
    assert_eq!(lines(|| drop((ann.get("hers", "key").unwrap(), ann.get("hers", "absent").unwrap_err()))), [""; 0]);
}

/// What users chose cannot pass for another line, and nothing else of what they gave is told.
#[test]
fn names_are_escaped_and_metadata_and_secrets_are_not_told() {
    let (objects, [ann, bob]) = peopled();
    let key = "a\nINFO deleted what=\"everything\"";
    let told = lines(|| assert_eq!(kind(bob.get("hers", key)), ErrorKind::AccessDenied));
    assert_eq!(told.len(), 1, "{told:?}");
    let pairs = |name: &str| [(name.to_owned(), "canary".to_owned())].into();
    let told = lines(|| {
        let (metadata, tags) = (pairs("colour"), pairs("team"));
        let options = koine_object::PutOptions { metadata, tags, ..koine_object::PutOptions::default() };
        let mut writer = ann.put("hers", key, options).unwrap();
        writer.write(b"canary").unwrap();
        writer.finish(&koine_object::Expected::none()).wait().unwrap();
        ann.set_bucket("hers", BucketChange::default()).wait().unwrap();
        assert_eq!(kind(bob.head("hers", key)), ErrorKind::AccessDenied);
        ann.delete("hers", key, DeleteOptions::default()).wait().unwrap();
        let (access_key, secret) = objects.identities().create_key("bob", KeyOptions::default()).wait().unwrap();
        assert!(!secret.expose().is_empty());
        objects.identities().delete_key("bob", &access_key).wait().unwrap();
    });
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told.iter().find(|line| line.contains("canary")), None);
    assert!(told[2].contains(r#"what="an access key of the user bob" by="the store's owner""#), "{told:?}");
}

#[test]
fn a_deletion_tells_who_what_and_by_which_rule_once_it_is_committed() {
    let (objects, [ann, _]) = peopled();
    let owner = r#"by="the store's owner" rule="the store's owner and root may do everything""#;
    let id = format!("{:016x}", objects.identities().user("ann").unwrap().id);
    let ann_did = format!(r#"by="ann ({id}) from 10.1.2.3" rule="owner of the bucket""#);
    let by_ann = |what: &str| format!("INFO deleted what={what:?} {ann_did}");
    let told = lines(|| {
        ann.delete("hers", "key", DeleteOptions::default()).wait().unwrap();
        // It is gone already.
        ann.delete("hers", "key", DeleteOptions::default()).wait().unwrap();
    });
    assert_eq!(told, [by_ann("the object hers/key")]);
    ["a", "b", "c"].iter().for_each(|key| drop(put_into(&ann, "hers", key, b"x").unwrap()));
    let names = ["a", "absent", "b"].map(str::to_owned);
    let told = lines(|| drop(ann.delete_many("hers", &names).wait().unwrap()));
    assert_eq!(told, ["a", "b"].map(|key| by_ann(&format!("the object hers/{key}"))));
    // A transaction that is given up deletes nothing.
    let name = ObjectName::new("hers", "c");
    let give_up = |_: ()| -> koine_object::Result<()> { Err(Error::new(ErrorKind::InvalidRequest, "given up")) };
    let told = lines(|| {
        let given_up = ann.transact(None, |txn| txn.delete(name, &DeleteOptions::default()).and_then(|_| give_up(())));
        assert!(given_up.is_err());
    });
    assert_eq!(told, [""; 0]);
    let told = lines(|| {
        ann.transact(None, |txn| txn.delete(name, &DeleteOptions::default())).unwrap();
    });
    assert_eq!(told, [by_ann("the object hers/c")]);
    // All else that goes.
    let upload = ann.create_upload("hers", "begun", UploadOptions::default()).wait().unwrap();
    ann.set_versioning("hers", Versioning::Enabled).wait().unwrap();
    let version = put_into(&ann, "hers", "kept", b"x").unwrap().version_id;
    ann.snapshot_bucket("hers", "then").wait().unwrap();
    let told = lines(|| {
        ann.abort_upload(ObjectName::new("hers", "begun"), upload).wait().unwrap();
        ann.delete_version(ObjectName::new("hers", "kept"), version).wait().unwrap();
        ann.purge_bucket("hers").wait().unwrap();
        ann.delete_snapshot("hers", "then").wait().unwrap();
        ann.delete_bucket("hers").wait().unwrap();
        objects.identities().delete_user("ann").unwrap();
        objects.identities().delete_group("lab").unwrap();
        put(&objects, "of-owner", b"x");
        objects.delete("bucket", "of-owner", DeleteOptions::default()).wait().unwrap();
    });
    let mut expected = vec![
        by_ann("an upload of hers/begun under way"),
        by_ann(&format!("the version {version} of the object hers/kept")),
        by_ann("all that the bucket hers held"),
        by_ann("the snapshot hers@then"),
        by_ann("the bucket hers"),
    ];
    let of_owner = ["the user ann, with its keys and tokens", "the group lab", "the object bucket/of-owner"];
    expected.extend(of_owner.map(|what| format!("INFO deleted what={what:?} {owner}")));
    assert_eq!(told, expected);
}
