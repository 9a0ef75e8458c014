//! `x-amz-expected-bucket-owner`: a request is for buckets of one owner, or is refused, whoever makes it.

use koine_object::{Caller, KeyOptions, Objects};

use crate::support::{ACCESS, Call, SECRET, Server, sha256_hex};

const OF_BUCKET: &str = "x-amz-expected-bucket-owner";
const OF_SOURCE: &str = "x-amz-source-expected-bucket-owner";

/// Who makes calls: an access key and its secret.
struct Who {
    access: String,
    secret: String,
    /// As S3 tells it.
    id: String,
}

impl Who {
    fn root() -> Self {
        let id = "6b6f696e652d726f6f742d6f776e65722d6f662d74686973732d73746f72652d31".to_owned();
        Who { access: ACCESS.to_owned(), secret: SECRET.to_owned(), id }
    }

    /// A new user with a group and a bucket of that name.
    fn new(objects: &Objects, name: &str) -> Self {
        let identities = objects.identities();
        identities.create_group(name, "").wait().unwrap();
        identities.create_user(name, name, None).unwrap();
        let (access, secret) = identities.create_key(name, KeyOptions::default()).wait().unwrap();
        let user = objects.as_caller(identities.by_access_key(&access).unwrap().0);
        assert!(matches!(user.caller(), Caller::User(_)));
        user.create_bucket(name).wait().unwrap();
        let id = format!("{:064x}", identities.user(name).unwrap().id);
        Who { access, secret: secret.expose().to_owned(), id }
    }

    fn call(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Call {
        let mut call = Call::new(method, target);
        (call.access, call.secret) = (self.access.clone(), self.secret.clone());
        headers.iter().fold(call, |call, (name, value)| call.header(name, value))
    }
}

#[tokio::test]
async fn the_owner_that_is_expected_is_the_buckets() {
    let server = Server::start().await;
    let (root, ada, bob) = (Who::root(), Who::new(&server.objects, "ada"), Who::new(&server.objects, "bob"));
    let short = ada.id.trim_start_matches('0').to_owned();
    let short = format!("{short:0>16}");
    for who in [&ada, &root] {
        for (method, target) in [
            ("PUT", "/ada/key"),
            ("HEAD", "/ada"),
            ("GET", "/ada/key"),
            ("GET", "/ada?list-type=2"),
            ("GET", "/ada?versioning"),
            ("GET", "/ada?acl"),
            ("GET", "/ada?publicAccessBlock"),
            ("PUT", "/ada/key?acl"),
            ("DELETE", "/ada/key"),
        ] {
            let acl = if target.ends_with("key?acl") { vec![("x-amz-acl", "private")] } else { Vec::new() };
            let with = |owner: &str| who.call(method, target, &[acl.as_slice(), &[(OF_BUCKET, owner)]].concat());
            for owner in [&bob.id, &root.id, "123456789012", "nobody"] {
                let code = if method == "HEAD" { "" } else { "AccessDenied" };
                server.send(with(owner)).await.must_be(403, code);
            }
            for owner in [&ada.id, &short] {
                server.send(with(owner)).await.must_be_ok();
            }
        }
    }
    // A bucket that is not there is told as ever; one of root's is root's.
    server.send(ada.call("HEAD", "/absent", &[(OF_BUCKET, &ada.id)])).await.must_be(404, "");
    server.send(root.call("HEAD", "/bucket", &[(OF_BUCKET, &root.id)])).await.must_be_ok();
    server.send(root.call("HEAD", "/bucket", &[(OF_BUCKET, &ada.id)])).await.must_be(403, "");
    // Where no bucket is named there is nothing to compare.
    server.send(ada.call("GET", "/", &[(OF_BUCKET, &bob.id)])).await.must_be_ok();
}

#[tokio::test]
async fn what_is_copied_from_has_an_owner_of_its_own() {
    let server = Server::start().await;
    let (root, ada, bob) = (Who::root(), Who::new(&server.objects, "ada"), Who::new(&server.objects, "bob"));
    server.send(ada.call("PUT", "/ada/key", &[])).await.must_be_ok();
    let copy = |of_bucket: &str, of_source: &str| {
        let source = ("x-amz-copy-source", "/ada/k%65y");
        root.call("PUT", "/bob/copy", &[(OF_BUCKET, of_bucket), (OF_SOURCE, of_source), source])
    };
    for (of_bucket, of_source) in [(&bob, &bob), (&ada, &ada), (&root, &ada), (&bob, &root)] {
        server.send(copy(&of_bucket.id, &of_source.id)).await.must_be(403, "AccessDenied");
    }
    server.send(root.call("HEAD", "/bob/copy", &[])).await.must_be(404, "");
    server.send(copy(&bob.id, &ada.id)).await.must_be_ok();
    // The same in a presigned address.
    let presigned = |owner: &str| root.call("GET", &format!("/bob/copy?{OF_BUCKET}={owner}"), &[]);
    for (owner, status) in [(&ada.id, 403), (&bob.id, 200)] {
        let mut client = server.connect().await;
        client.send(&presigned(owner).presigned_bytes()).await;
        assert_eq!(client.answer("GET").await.status, status);
    }
}

/// The bucket is another's by the time the body has come.
#[tokio::test]
async fn a_body_that_comes_late_is_not_stored_with_another_owner() {
    let server = Server::start().await;
    let (root, ada) = (Who::root(), Who::new(&server.objects, "ada"));
    server.objects.identities().create_user("ada", "eve", None).unwrap();
    let body = b"for ada alone".to_vec();
    let mut call = root.call("PUT", "/ada/key", &[(OF_BUCKET, &ada.id)]).payload(&sha256_hex(&body));
    call.content_length = Some(body.len() as u64);
    let mut client = server.connect().await;
    client.send(&call.bytes()).await;
    client.send(&body[..5]).await;
    // A request on another connection is answered after the first one was begun.
    server.send(root.call("HEAD", "/ada", &[])).await.must_be_ok();
    server.objects.identities().change_owner("ada", "eve", None).wait().unwrap();
    client.send(&body[5..]).await;
    client.answer("PUT").await.must_be(403, "AccessDenied");
    server.send(root.call("HEAD", "/ada/key", &[])).await.must_be(404, "");
}
