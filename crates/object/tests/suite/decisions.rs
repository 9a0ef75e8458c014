//! Why a call is allowed or refused.

use koine_object::{Action, Asker, ErrorKind, KeyOptions, Rule, UserChange, UserState};

use crate::support::{group_of, kind, put_into, store, user_of};

const NARROW: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::*"}]}"#;
const DENY: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Sid": "never", "Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::papers/*"}]}"#;

#[test]
fn each_asker_is_told_of_by_the_rule_that_decides() {
    let objects = store();
    group_of(&objects, "lab", &["ann", "bob"]);
    group_of(&objects, "office", &["eve"]);
    let ann = user_of(&objects, "ann");
    ann.create_bucket("papers").wait().unwrap();
    put_into(&ann, "papers", "draft", b"hers").unwrap();
    let identities = objects.identities();
    let options = KeyOptions { policy: Some(NARROW.to_owned()), ..KeyOptions::default() };
    let (narrowed, _) = identities.create_key("ann", options).wait().unwrap();
    let why = |asker: &Asker, action, key| {
        let decision = identities.explain(asker, action, "papers", key).unwrap();
        (decision.allowed, decision.rule)
    };
    let user = |name: &str| Asker::User(name.to_owned());
    let (draft, policy) = (Some("draft"), |policy: &str, statement: Option<&str>| Rule::Policy {
        policy: policy.to_owned(),
        statement: statement.map(str::to_owned),
    });
    assert_eq!(why(&user("root"), Action::DeleteBucket, None), (true, Rule::Root));
    assert_eq!(why(&user("ann"), Action::GetObject, draft), (true, Rule::Owner));
    assert_eq!(why(&user("bob"), Action::PutObject, draft), (true, Rule::Member));
    assert_eq!(why(&user("eve"), Action::GetObject, draft), (false, Rule::Nothing));
    assert_eq!(why(&Asker::Everyone, Action::GetObject, draft), (false, Rule::Nothing));
    assert_eq!(why(&Asker::AccessKey(narrowed.clone()), Action::GetObject, draft), (true, Rule::Owner));
    assert_eq!(why(&Asker::AccessKey(narrowed), Action::PutObject, draft), (false, Rule::Narrowed));
    identities.set_policy("careful", Some(DENY)).wait().unwrap();
    let change = UserChange { policies: Some(vec!["careful".into()]), ..UserChange::default() };
    identities.set_user("ann", change).wait().unwrap();
    assert_eq!(why(&user("ann"), Action::DeleteObject, draft), (false, policy("careful", Some("never"))));
    assert_eq!(policy("careful", Some("never")).to_string(), "policy careful, statement never");
    let disabled = UserChange { state: Some(UserState::Disabled), ..UserChange::default() };
    identities.set_user("eve", disabled).wait().unwrap();
    assert!(matches!(why(&user("eve"), Action::GetObject, draft), (false, Rule::Out(_))));
    // Of askers and actions that are not there.
    assert_eq!(kind(identities.explain(&user("nobody"), Action::GetObject, "papers", draft)), ErrorKind::NoSuchUser);
    let key = Asker::AccessKey("AKIANONE".to_owned());
    assert_eq!(kind(identities.explain(&key, Action::GetObject, "papers", draft)), ErrorKind::NoSuchAccessKey);
    assert_eq!(kind("s3:Nothing".parse::<Action>()), ErrorKind::InvalidArgument);
    assert!(Action::ALL.iter().all(|action| action.name().parse::<Action>().ok() == Some(*action)));
    // It is for administrators.
    let refused = ann.identities().explain(&user("bob"), Action::GetObject, "papers", draft);
    assert_eq!(kind(refused), ErrorKind::AccessDenied);
}
