//! The verifier against the published examples of SigV4, with its clock where they were made.

use koine_env::{SimulatedClock, Timestamp};

use super::*;

/// 2013-05-24T00:00:00Z, the date of the examples.
const THEN: Timestamp = Timestamp(1_369_353_600_000_000_000);
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn verifier(region: Option<&str>) -> Verifier {
    let credentials = Credentials {
        access: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    };
    Verifier::new(credentials, users(), region.map(str::to_owned), Arc::new(SimulatedClock::new(THEN)))
}

/// Of an empty store.
fn users() -> Identities {
    let (clock, random) = (SimulatedClock::new(THEN), koine_env::SeededRandom::new(3));
    let store = std::sync::Arc::new(koine_kv::MemoryKv::default());
    koine_object::Objects::open(store, Arc::new(clock), Arc::new(random)).unwrap().identities()
}

fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn verify(verifier: &Verifier, parts: &Parts) -> Result<Verified, S3Error> {
    verifier.verify(parts, &Query::parse(parts.uri.query()).unwrap())
}

fn get_object() -> Parts {
    let authorization = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
        SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
        Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
    parts(
        "GET",
        "/test.txt",
        &[
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", EMPTY),
            ("x-amz-date", "20130524T000000Z"),
            ("authorization", authorization),
        ],
    )
}

#[test]
fn the_published_get() {
    let verified = verify(&verifier(Some("us-east-1")), &get_object()).unwrap();
    assert!(matches!(verified.payload, Payload::Whole(_)) && !verified.presigned);
}

#[test]
fn the_published_presigned_url() {
    let target = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F\
        us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&\
        X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let parts = parts("GET", target, &[("host", "examplebucket.s3.amazonaws.com")]);
    assert!(verify(&verifier(None), &parts).unwrap().presigned);
}

#[test]
fn another_region_is_refused_when_one_is_set() {
    let error = verify(&verifier(Some("eu-west-1")), &get_object()).unwrap_err();
    assert_eq!(error.code(), &S3ErrorCode::AuthorizationHeaderMalformed);
}

#[test]
fn every_changed_header_is_noticed() {
    for (name, value) in [
        ("host", "examplebucket.s3.amazonaws.co"),
        ("range", "bytes=0-8"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ("x-amz-date", "20130524T000001Z"),
    ] {
        let mut parts = get_object();
        parts.headers.insert(name, value.parse().unwrap());
        let error = verify(&verifier(None), &parts).unwrap_err();
        assert_eq!(error.code(), &S3ErrorCode::SignatureDoesNotMatch, "{name}");
    }
}

#[test]
fn the_day_of_the_scope_is_the_day_of_the_request() {
    let mut parts = get_object();
    let text = parts.headers["authorization"].to_str().unwrap().replace("20130524", "20130523");
    parts.headers.insert("authorization", text.parse().unwrap());
    assert_eq!(verify(&verifier(None), &parts).unwrap_err().code(), &S3ErrorCode::SignatureDoesNotMatch);
}
