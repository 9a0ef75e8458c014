//! Policies: what is understood, what is refused, and what they say.

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

fn ask(policy: &str, action: Action, resource: &str, known: &[(&'static str, String)]) -> Says {
    ask_all(policy, action, resource, known, false)
}

fn ask_all(policy: &str, action: Action, resource: &str, known: &[(&'static str, String)], prefix: bool) -> Says {
    let policy = Policy::of_identity(policy).unwrap();
    policy.says(&Request { action, resource, prefix, known, is_principal: &|_| false, open: true }).0
}

fn policy(statement: &str) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": {{{statement}}}}}"#)
}

#[test]
fn actions_and_resources_match_by_pattern() {
    let text =
        policy(r#""Effect": "Allow", "Action": "s3:Get*", "Resource": ["arn:aws:s3:::b/x/*", "arn:aws:s3:::b?"]"#);
    assert_eq!(ask(&text, Action::GetObject, "b/x/y/z", &[]), Says::Allow);
    assert_eq!(ask(&text, Action::GetObject, "b/x", &[]), Says::Nothing);
    assert_eq!(ask(&text, Action::GetBucketPolicy, "bc", &[]), Says::Allow);
    assert_eq!(ask(&text, Action::PutObject, "b/x/y", &[]), Says::Nothing);
    let text = policy(r#""Effect": "Deny", "NotAction": ["s3:getobject"], "NotResource": "arn:aws:s3:::b/keep/*""#);
    assert_eq!(ask(&text, Action::GetObject, "b/x", &[]), Says::Nothing);
    assert_eq!(ask(&text, Action::PutObject, "b/x", &[]), Says::Deny);
    assert_eq!(ask(&text, Action::PutObject, "b/keep/x", &[]), Says::Nothing);
}

#[test]
fn a_denial_wins_wherever_it_stands() {
    let allow = r#"{"Effect": "Allow", "Action": "*", "Resource": "*"}"#;
    let deny = r#"{"Sid": "no", "Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"}"#;
    for order in [[allow, deny], [deny, allow]] {
        let text = format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, order.join(","));
        assert_eq!(ask(&text, Action::DeleteObject, "b/k", &[]), Says::Deny);
        assert_eq!(ask(&text, Action::GetObject, "b/k", &[]), Says::Allow);
    }
}

#[test]
fn all_names_under_a_prefix_are_allowed_together_or_not() {
    let allow =
        |resource: &str| policy(&format!(r#""Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::{resource}""#));
    let under = |text: &str| ask_all(text, Action::PutObject, "b/a/", &[], true);
    assert_eq!(under(&allow("b/*")), Says::Allow);
    assert_eq!(under(&allow("b/a/*")), Says::Allow);
    assert_eq!(under(&allow("b/a/x*")), Says::Nothing);
    assert_eq!(under(&allow("b/*x")), Says::Nothing);
    let deny =
        |resource: &str| policy(&format!(r#""Effect": "Deny", "Action": "*", "Resource": "arn:aws:s3:::{resource}""#));
    assert_eq!(under(&deny("b/a/secret")), Says::Deny);
    assert_eq!(under(&deny("b/*/secret")), Says::Deny);
    assert_eq!(under(&deny("b/c*")), Says::Nothing);
    assert_eq!(under(&deny("b/a")), Says::Nothing);
}

#[test]
fn conditions_hold_by_what_is_known() {
    let known = |key: &'static str, value: &str| vec![(key, value.to_owned())];
    let cases: &[(&str, &'static str, &str, bool)] = &[
        (r#""IpAddress": {"aws:SourceIp": "10.1.0.0/16"}"#, "aws:sourceip", "10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "10.1.0.0/16"}"#, "aws:sourceip", "::ffff:10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "10.1.0.0/16"}"#, "aws:sourceip", "10.2.2.3", false),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.0.0/112"}"#, "aws:sourceip", "10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.0.0/112"}"#, "aws:sourceip", "::ffff:10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.2.3"}"#, "aws:sourceip", "10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.0.0/112"}"#, "aws:sourceip", "10.2.2.3", false),
        (r#""IpAddress": {"aws:SourceIp": "::/0"}"#, "aws:sourceip", "2001:db8::1", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.2.3"}"#, "aws:sourceip", "10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.2.3"}"#, "aws:sourceip", "::ffff:10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.2.3"}"#, "aws:sourceip", "10.1.2.4", false),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.0.0/112"}"#, "aws:sourceip", "10.1.200.3", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:10.1.0.0/112"}"#, "aws:sourceip", "::ffff:10.2.0.3", false),
        (r#""NotIpAddress": {"aws:SourceIp": "::ffff:10.1.0.0/112"}"#, "aws:sourceip", "10.1.200.3", false),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:0:0/96"}"#, "aws:sourceip", "192.168.7.7", true),
        (r#""IpAddress": {"aws:SourceIp": "::ffff:0:0/96"}"#, "aws:sourceip", "2001:db8::1", false),
        (r#""IpAddress": {"aws:SourceIp": "2001:db8::/32"}"#, "aws:sourceip", "2001:db8::1", true),
        (r#""IpAddress": {"aws:SourceIp": "2001:db8::/32"}"#, "aws:sourceip", "2001:db9::1", false),
        (r#""IpAddress": {"aws:SourceIp": "::/0"}"#, "aws:sourceip", "2001:db9::1", true),
        (r#""IpAddress": {"aws:SourceIp": "::/0"}"#, "aws:sourceip", "10.1.2.3", false),
        (r#""IpAddress": {"aws:SourceIp": "0.0.0.0/0"}"#, "aws:sourceip", "::ffff:10.1.2.3", true),
        (r#""IpAddress": {"aws:SourceIp": "10.1.0.0/16"}"#, "aws:username", "x", false),
        (r#""NotIpAddress": {"aws:SourceIp": "10.1.0.0/16"}"#, "aws:username", "x", true),
        (r#""IpAddressIfExists": {"aws:SourceIp": "0.0.0.0/0"}"#, "aws:username", "x", true),
        (r#""StringEquals": {"aws:username": ["ann", "bob"]}"#, "aws:username", "bob", true),
        (r#""StringEquals": {"aws:username": "a*"}"#, "aws:username", "ann", false),
        (r#""StringLike": {"aws:username": "a*"}"#, "aws:username", "ann", true),
        (r#""StringNotLike": {"aws:username": "a*"}"#, "aws:username", "ann", false),
        (r#""StringEqualsIgnoreCase": {"aws:username": "ANN"}"#, "aws:username", "ann", true),
        (r#""StringLike": {"s3:prefix": "${aws:username}/*"}"#, "s3:prefix", "x/", false),
        (r#""Bool": {"aws:SecureTransport": "false"}"#, "aws:securetransport", "true", false),
        (r#""Bool": {"aws:SecureTransport": true}"#, "aws:securetransport", "true", true),
        (r#""NumericLessThanEquals": {"s3:max-keys": "10"}"#, "s3:max-keys", "10", true),
        (r#""NumericGreaterThan": {"s3:max-keys": 10}"#, "s3:max-keys", "10", false),
        (r#""DateLessThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}"#, "aws:currenttime", "1767225599", true),
        (r#""DateLessThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}"#, "aws:currenttime", "1767225600", false),
        (r#""Null": {"aws:SourceIp": "true"}"#, "aws:username", "x", true),
        (r#""Null": {"aws:SourceIp": "true"}"#, "aws:sourceip", "1.2.3.4", false),
    ];
    for (condition, key, value, holds) in cases {
        let text =
            policy(&format!(r#""Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {{{condition}}}"#));
        let says = if *holds { Says::Allow } else { Says::Nothing };
        assert_eq!(ask(&text, Action::GetObject, "b/k", &known(key, value)), says, "{condition} with {key} = {value}");
    }
}

#[test]
fn a_variable_is_what_is_known_of_the_caller() {
    let text = policy(r#""Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::homes/${aws:username}/*""#);
    let known = [("aws:username", "an*".to_owned())];
    assert_eq!(ask(&text, Action::GetObject, "homes/an*/x", &known), Says::Allow);
    assert_eq!(ask(&text, Action::GetObject, "homes/ann/x", &known), Says::Nothing);
    assert_eq!(ask(&text, Action::GetObject, "homes//x", &[]), Says::Nothing);
}

#[test]
fn what_is_not_understood_is_refused() {
    let good = r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "*""#;
    assert!(Policy::of_identity(&policy(good)).is_ok());
    assert_eq!(Policy::of_bucket(&policy(good)).unwrap_err().kind(), ErrorKind::MalformedPolicy);
    assert!(Policy::of_bucket(&policy(&format!(r#"{good}, "Principal": {{"AWS": ["*", "x"]}}"#))).is_ok());
    for bad in [
        "",
        "[]",
        "{}",
        "nonsense",
        r#"{"Version": "2008-10-18", "Statement": []}"#,
        r#"{"Version": 2012, "Statement": []}"#,
        &policy(&format!(r#"{good}, "Effect": "Deny""#)),
        &policy(&format!(
            r#"{good}, "Condition": {{"Bool": {{"aws:SecureTransport": true, "aws:SecureTransport": false}}}}"#
        )),
        &policy(&format!(r#"{good}, "Condition": {{"Bool": {{"aws:SecureTransport": true}}, "Bool": {{}}}}"#)),
        &policy(""),
        &policy(&format!(r#"{good}, "Principal": "*""#)),
        &policy(&format!(r#"{good}, "NotAction": "s3:GetObject""#)),
        &policy(&format!(r#"{good}, "Extra": 1"#)),
        &policy(&format!(r#"{good}, "Condition": {{"StringEquals": {{"aws:Colour": "red"}}}}"#)),
        &policy(&format!(r#"{good}, "Condition": {{"StringFits": {{"aws:username": "red"}}}}"#)),
        &policy(&format!(r#"{good}, "Condition": {{"IpAddress": {{"aws:SourceIp": "10.0.0.0/33"}}}}"#)),
        &policy(r#""Effect": "Maybe", "Action": "s3:GetObject", "Resource": "*""#),
        &policy(r#""Effect": "Allow", "Action": "iam:CreateUser", "Resource": "*""#),
        &policy(r#""Effect": "Allow", "Action": [], "Resource": "*""#),
        &policy(r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "bucket/*""#),
        &policy(r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::${colour}""#),
        &format!("{}{}", policy(good), " ".repeat(POLICY_LEN_MAX)),
    ] {
        assert_eq!(Policy::to_set(bad, false).unwrap_err().kind(), ErrorKind::MalformedPolicy, "{bad}");
    }
}

#[test]
fn a_name_that_is_there_twice_is_refused_when_a_policy_is_set_and_shuts_nobody_out_later() {
    let plain = policy(r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "*""#);
    assert!(Policy::to_set(&plain, false).is_ok());
    for twice in [
        plain.replace("\"Effect", r#""Effect": "Deny", "Effect"#),
        plain.replace("\"Effect", r#""\u0045ffect": "Deny", "Effect"#),
        plain.replacen('{', r#"{"Version": "2012-10-17", "#, 1),
        plain.replace("\"*\"", r#""*", "Condition": {"StringEquals": {"aws:username": "a", "aws:username": "b"}}"#),
    ] {
        let refused = Policy::to_set(&twice, false).unwrap_err();
        assert!(refused.message().contains("is there twice"), "{twice}: {refused}");
        // One that was set before names were looked at goes on as it was.
        assert!(Policy::of_identity(&twice).is_ok(), "{twice}");
    }
}

/// A policy with these resources.
fn with_resources(resources: &[String]) -> String {
    let resources = resources.iter().map(|name| format!("\"arn:aws:s3:::{name}\"")).collect::<Vec<_>>().join(",");
    policy(&format!(r#""Effect": "Allow", "Action": "*", "Resource": [{resources}]"#))
}

#[test]
fn patterns_that_begin_to_fit_everywhere_cost_what_they_are_long() {
    let name = format!("b/{}", "a".repeat(1022));
    for pattern in
        [format!("*{}b", "a".repeat(450)), format!("*{}b*", "a".repeat(450)), format!("*{}?b*", "a?".repeat(225))]
    {
        let text = with_resources(&vec![pattern; 41]);
        pattern::steps::take();
        assert_eq!(ask(&text, Action::DeleteObject, &name, &[]), Says::Nothing);
        // 450 characters are 8 words; going back and forth would be 41 times 450 times 1,024.
        let steps = pattern::steps::take();
        assert!(steps <= 41 * 8 * 1024, "{steps} steps");
    }
}

#[test]
fn a_policy_that_searches_too_much_is_not_set() {
    let resources = |count: usize| vec!["*a*b*".to_owned(); count];
    let fits = Policy::of_identity(&with_resources(&resources(POLICY_SEARCHES_MAX / 2))).unwrap();
    assert!(fits.check_cost().is_ok());
    let text = with_resources(&[resources(POLICY_SEARCHES_MAX / 2), vec!["b/*a*".to_owned()]].concat());
    let refused = Policy::of_identity(&text).unwrap().check_cost().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MalformedPolicy);
    assert!(refused.message().contains("257 texts between two `*`; 256 are allowed"), "{refused}");
    // What is there already goes on.
    assert_eq!(ask(&text, Action::GetObject, "b/xay", &[]), Says::Allow);
    // Beginnings and ends cost nothing.
    let plain = with_resources(&vec!["b*/x?".to_owned(); 200]);
    assert!(Policy::of_identity(&plain).unwrap().check_cost().is_ok());
}

/// The meaning of a pattern, as it is written down.
fn means(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some(('*', rest)), _) => (0..=text.len()).any(|skipped| means(rest, &text[skipped..])),
        (Some((wanted, rest)), Some((letter, left))) => (*wanted == '?' || wanted == letter) && means(rest, left),
        (Some(_), None) => false,
    }
}

#[test]
fn a_policy_without_a_version_is_of_2008_and_has_no_variables() {
    let statement = r#""Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/${aws:username}*",
        "Condition": {"StringLike": {"aws:UserAgent": "${aws:username}?"}}}"#;
    let known = [("aws:username", "ann".to_owned()), ("aws:useragent", "${aws:username}x".to_owned())];
    for version in ["", r#""Version": "2008-10-17", "#] {
        let text = format!("{{{version}{statement}}}");
        assert_eq!(ask(&text, Action::GetObject, "b/${aws:username}/x", &known), Says::Allow);
        assert_eq!(ask(&text, Action::GetObject, "b/ann/x", &known), Says::Nothing);
    }
    let text = format!(r#"{{"Version": "2012-10-17", {statement}}}"#);
    let known = [("aws:username", "ann".to_owned()), ("aws:useragent", "annx".to_owned())];
    assert_eq!(ask(&text, Action::GetObject, "b/ann/x", &known), Says::Allow);
}

#[test]
fn actions_that_nobody_has_are_refused_when_a_policy_is_set() {
    let checked = |action: &str| {
        Policy::of_identity(&policy(&format!(r#""Effect": "Deny", "Action": "{action}", "Resource": "*""#)))
            .and_then(|policy| policy.check_actions())
    };
    let ours = Action::ALL.iter().map(|action| action.name());
    for known in
        ours.chain(["*", "s3:*", "s3:Get*", "S3:getobject", "s3:PutObjectRetention", "koine:*", "s3:?etObject"])
    {
        assert!(checked(known).is_ok(), "{known}");
    }
    for unknown in ["s3:GetObjekt", "s3:GetObject ", "s3:Got*", "s3:GetObjects", "koine:Fly", "s3:"] {
        let error = checked(unknown).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MalformedPolicy, "{unknown}");
        assert!(error.to_string().contains(unknown), "{error}");
    }
}

proptest! {
    #[test]
    fn a_pattern_matches_what_it_means(pattern in "[abß*?]{0,9}", text in "[abß]{0,9}", times in 1_usize..40) {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let matches = |pattern: &str, text: &str| Pattern::parse(pattern).unwrap().matches(text, &[]);
        prop_assert_eq!(matches(&pattern, &text), means(&chars(&pattern), &chars(&text)));
        // Beyond a word: all of one text within another.
        let long = text.repeat(times);
        let (around, wanted) = (format!("{text}{long}b"), format!("*{long}*"));
        prop_assert!(matches(&wanted, &around));
        let (within, followed) = (format!("{text}b{long}"), format!("*{long}?*"));
        let (letters, wanted) = (chars(&within), chars(&long));
        let is_within = letters.windows(wanted.len() + 1).any(|window| window[..wanted.len()] == wanted[..]);
        prop_assert_eq!(matches(&followed, &within), is_within);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,60}", pattern in "[a*?${}:]{0,12}", name in "[a*?]{0,12}") {
        let _ = (Policy::of_identity(&text), Policy::of_bucket(&text));
        if let Ok(pattern) = Pattern::parse(&pattern) {
            let _ = pattern.matches_ignoring_case(&name);
            if pattern.matches_all_under(&name, &[]) {
                let whole = format!("{name}{text}");
                prop_assert!(pattern.matches(&whole, &[]));
            }
            if pattern.matches(&format!("{name}{text}"), &[]) {
                prop_assert!(pattern.may_match_under(&name, &[]));
            }
        }
    }
}
