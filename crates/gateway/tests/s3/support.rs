//! A server in this process, a signer that shares nothing with it, and a client that sends what it is given.

use std::net::SocketAddr;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use koine_env::{OsRandom, SystemClock};
use koine_gateway::{Credentials, Gateway, GatewayOptions, Limits, Secret};
use koine_kv::{MemoryKv, MemoryOptions};
use koine_object::{GroupChange, KeyOptions, Objects};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const ACCESS: &str = "test-access";
pub const SECRET: &str = "test-secret-never-to-be-logged";

/// A running gateway; it stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    pub objects: Objects,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<usize>,
}

impl Server {
    pub async fn start() -> Self {
        Server::with_limits(Limits::default()).await
    }

    pub async fn with_limits(limits: Limits) -> Self {
        Server::with(limits, None).await
    }

    /// One whose signatures must name a region.
    pub async fn in_region(region: &str) -> Self {
        Server::with(Limits::default(), Some(region.to_owned())).await
    }

    async fn with(limits: Limits, region: Option<String>) -> Self {
        let kv = Arc::new(MemoryKv::new(MemoryOptions::default()));
        let objects = Objects::open(kv, Arc::new(SystemClock::new()), Arc::new(OsRandom)).unwrap();
        objects.create_bucket("bucket").wait().unwrap();
        let credentials = Credentials { access: ACCESS.to_owned(), secret: Secret::new(SECRET) };
        let mut options = GatewayOptions::new("127.0.0.1:0".parse().unwrap());
        options.limits = limits;
        options.region = region;
        let gateway = Gateway::bind(objects.clone(), credentials, options).await.unwrap();
        let address = gateway.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(gateway.serve(async {
            let _ = stopped.await;
        }));
        Server { address, objects, stop: Some(stop), task }
    }

    /// Asks the gateway to stop, without waiting.
    pub fn begin_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits for the stop; gives the number of connections that were cut.
    pub async fn stopped(self) -> usize {
        self.task.await.unwrap()
    }

    pub async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), read: Vec::new() }
    }

    /// A connection from another address of this machine: 127.0.0.`last`.
    pub async fn connect_from(&self, last: u8) -> Client {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        Client { stream: socket.connect(self.address).await.unwrap(), read: Vec::new() }
    }

    /// Makes a user who may do everything with objects, with a key that is its name and [`SECRET`].
    pub fn user(&self, name: &str) {
        let identities = self.objects.identities();
        identities.create_group(name, "").wait().unwrap();
        identities.create_user(name, name, None).unwrap();
        let given = Some((name.to_owned(), koine_object::Secret::new(SECRET)));
        identities.create_key(name, KeyOptions { given, ..KeyOptions::default() }).wait().unwrap();
        let policy =
            r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}"#;
        identities.set_policy("objects", Some(policy)).wait().unwrap();
        let change = GroupChange { policies: Some(vec!["objects".to_owned()]), ..GroupChange::default() };
        identities.set_group(name, change).wait().unwrap();
    }

    /// Lets everybody do this with `bucket` and what is in it, without a signature.
    pub fn open_to_everybody(&self, actions: &str) {
        let identities = self.objects.identities();
        identities.set_public_access(true).wait().unwrap();
        let policy = format!(
            r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Principal": "*", "Action": {actions},
                "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]}}}}"#
        );
        identities.set_bucket_policy("bucket", Some(&policy)).wait().unwrap();
    }

    /// One call on a connection of its own.
    pub async fn send(&self, call: Call) -> Answer {
        let mut client = self.connect().await;
        client.send(&call.bytes()).await;
        client.answer(&call.method).await
    }

    /// What is stored under a key, if anything is.
    pub fn stored(&self, key: &str) -> Option<Vec<u8>> {
        let reader = self.objects.get("bucket", key).ok()?;
        Some(reader.bytes(0, reader.info().size as usize).unwrap().to_vec())
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    /// Sends bytes; a server that has closed already is not an error here.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Whether the other side has closed the connection, waiting until something is known.
    pub async fn is_closed(&mut self) -> bool {
        let mut byte = [0; 1];
        matches!(self.stream.read(&mut byte).await, Ok(0) | Err(_))
    }

    /// Waits until something has come.
    pub async fn some_bytes(&mut self) {
        assert!(self.more().await);
    }

    /// Whether nothing has come so far.
    pub fn nothing_yet(&self) -> bool {
        let mut byte = [0; 1];
        matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer).await {
            Ok(count) if count > 0 => {
                self.read.extend_from_slice(&buffer[..count]);
                true
            }
            _ => false,
        }
    }

    /// Reads the next answer. A body that ends early is marked.
    pub async fn answer(&mut self, method: &str) -> Answer {
        let head_len = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more().await {
                return Answer { status: 0, headers: Vec::new(), body: Vec::new(), whole: false };
            }
        };
        let head: Vec<u8> = self.read.drain(..head_len).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        if status == 100 {
            return Box::pin(self.answer(method)).await;
        }
        let length = headers.iter().find(|pair| pair.0 == "content-length").map(|pair| pair.1.parse().unwrap());
        let length: usize = if method == "HEAD" || status == 304 || status == 204 { 0 } else { length.unwrap_or(0) };
        while self.read.len() < length {
            if !self.more().await {
                return Answer { status, headers, body: std::mem::take(&mut self.read), whole: false };
            }
        }
        Answer { status, headers, body: self.read.drain(..length).collect(), whole: true }
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body had its announced length.
    pub whole: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// The text of an element of the body.
    pub fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
    }

    /// Status and code of an error.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.element("Code").unwrap_or_default())
    }

    #[track_caller]
    pub fn must_be(&self, status: u16, code: &str) {
        assert_eq!(self.refusal(), (status, code.to_owned()), "{}", self.text());
    }

    #[track_caller]
    pub fn must_be_ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self
    }
}

pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(message).finalize().into_bytes().to_vec()
}

/// A request under construction.
#[derive(Clone)]
pub struct Call {
    pub method: String,
    /// As it is sent: path, perhaps `?` and a query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    /// Sent, and not signed.
    pub loose_headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// `x-amz-content-sha256`; the hash of the body when it is `None`.
    pub payload: Option<String>,
    pub access: String,
    pub secret: String,
    /// Seconds that the signer's clock is ahead.
    pub clock_ahead: i64,
    /// Seconds of life of a presigned URL.
    pub life: i64,
    pub content_length: Option<u64>,
}

impl Call {
    pub fn new(method: &str, target: &str) -> Self {
        Call {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            loose_headers: Vec::new(),
            body: Vec::new(),
            payload: None,
            access: ACCESS.to_owned(),
            secret: SECRET.to_owned(),
            clock_ahead: 0,
            life: 600,
            content_length: None,
        }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn loose(mut self, name: &str, value: &str) -> Self {
        self.loose_headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn payload(mut self, payload: &str) -> Self {
        self.payload = Some(payload.to_owned());
        self
    }

    /// Signed by a user that [`Server::user`] has made.
    pub fn by(mut self, name: &str) -> Self {
        self.access = name.to_owned();
        self
    }

    pub fn secret(mut self, secret: &str) -> Self {
        self.secret = secret.to_owned();
        self
    }

    pub fn clock_ahead(mut self, seconds: i64) -> Self {
        self.clock_ahead = seconds;
        self
    }

    pub fn date(&self) -> String {
        let now = time::OffsetDateTime::now_utc() + time::Duration::seconds(self.clock_ahead);
        let format = time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
        now.format(format).unwrap()
    }

    pub fn scope(&self, date: &str) -> String {
        format!("{}/us-east-1/s3/aws4_request", &date[..8])
    }

    pub fn sign_string(&self, date: &str, string: &str) -> String {
        let key = hmac(format!("AWS4{}", self.secret).as_bytes(), &date.as_bytes()[..8]);
        let key = hmac(&hmac(&hmac(&key, b"us-east-1"), b"s3"), b"aws4_request");
        hex::encode(hmac(&key, string.as_bytes()))
    }

    fn canonical_query(query: &str) -> String {
        let mut pairs: Vec<String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
            .collect();
        pairs.sort();
        pairs.join("&")
    }

    fn signature(&self, date: &str, target: &str, headers: &[(String, String)], payload: &str) -> (String, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut sorted: Vec<_> =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.trim())).collect();
        sorted.sort();
        let names: Vec<&str> = sorted.iter().map(|pair| pair.0.as_str()).collect();
        let lines: String = sorted.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!(
            "{}\n{path}\n{}\n{lines}\n{}\n{payload}",
            self.method,
            Call::canonical_query(query),
            names.join(";")
        );
        let hash = sha256_hex(canonical.as_bytes());
        let string = format!("AWS4-HMAC-SHA256\n{date}\n{}\n{hash}", self.scope(date));
        (self.sign_string(date, &string), names.join(";"))
    }

    fn head(&self, target: &str, headers: &[(String, String)]) -> String {
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method);
        for (name, value) in headers.iter().chain(&self.loose_headers) {
            head += &format!("{name}: {value}\r\n");
        }
        let length = self.content_length.unwrap_or(self.body.len() as u64);
        if !self.loose_headers.iter().any(|pair| pair.0 == "transfer-encoding") {
            head += &format!("content-length: {length}\r\n");
        }
        head + "\r\n"
    }

    /// The head of the request, signed in a header, and the signature.
    pub fn signed_head(&self, date: &str) -> (String, String) {
        let payload = self.payload.clone().unwrap_or_else(|| sha256_hex(&self.body));
        let mut headers = self.headers.clone();
        headers.push(("host".to_owned(), "localhost".to_owned()));
        headers.push(("x-amz-date".to_owned(), date.to_owned()));
        headers.push(("x-amz-content-sha256".to_owned(), payload.clone()));
        let (signature, names) = self.signature(date, &self.target, &headers, &payload);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            self.access,
            self.scope(date)
        );
        headers.push(("authorization".to_owned(), authorization));
        (self.head(&self.target, &headers), signature)
    }

    /// The whole request, signed in a header.
    pub fn bytes(&self) -> Vec<u8> {
        [self.signed_head(&self.date()).0.into_bytes(), self.body.clone()].concat()
    }

    /// The whole request, not signed at all.
    pub fn unsigned_bytes(&self) -> Vec<u8> {
        let mut headers = self.headers.clone();
        headers.push(("host".to_owned(), "localhost".to_owned()));
        [self.head(&self.target, &headers).into_bytes(), self.body.clone()].concat()
    }

    /// The target of a presigned URL.
    pub fn presigned_target(&self) -> String {
        let date = self.date();
        let mut headers = self.headers.clone();
        headers.push(("host".to_owned(), "localhost".to_owned()));
        let mut names: Vec<String> = headers.iter().map(|pair| pair.0.to_ascii_lowercase()).collect();
        names.sort();
        let joint = if self.target.contains('?') { '&' } else { '?' };
        let target = format!(
            "{}{joint}X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}%2F{}&X-Amz-Date={date}&X-Amz-Expires={}&X-Amz-SignedHeaders={}",
            self.target,
            self.access,
            self.scope(&date).replace('/', "%2F"),
            self.life,
            names.join("%3B")
        );
        let (signature, _) = self.signature(&date, &target, &headers, "UNSIGNED-PAYLOAD");
        format!("{target}&X-Amz-Signature={signature}")
    }

    /// The whole request of a presigned URL.
    pub fn presigned_bytes(&self) -> Vec<u8> {
        self.to_target(&self.presigned_target())
    }

    /// The whole request with another target, whatever it is signed for.
    pub fn to_target(&self, target: &str) -> Vec<u8> {
        let mut headers = self.headers.clone();
        headers.push(("host".to_owned(), "localhost".to_owned()));
        [self.head(target, &headers).into_bytes(), self.body.clone()].concat()
    }

    /// The whole request with its body in signed chunks, and trailers when there are any.
    pub fn chunked(mut self, chunks: &[&[u8]], trailers: &[(&str, &str)], damage: Damage) -> Vec<u8> {
        let with_trailers = !trailers.is_empty();
        let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        self.payload = Some(if with_trailers { format!("{mode}-TRAILER") } else { mode.to_owned() });
        let length: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        self = self.header("x-amz-decoded-content-length", &length.to_string());
        if let Some((name, _)) = trailers.first() {
            self = self.header("x-amz-trailer", name);
        }
        let date = self.date();
        let scope = self.scope(&date);
        let empty = sha256_hex(b"");
        let mut previous = self.signed_head(&date).1;
        let mut body = Vec::new();
        let last: &[u8] = b"";
        for (index, chunk) in chunks.iter().copied().chain([last]).enumerate() {
            if damage == Damage::NoLastChunk && chunk.is_empty() {
                break;
            }
            let hash = sha256_hex(chunk);
            let string = format!("AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope}\n{previous}\n{empty}\n{hash}");
            previous = self.sign_string(&date, &string);
            let shown = if damage == Damage::ChunkSignature(index) { "0".repeat(64) } else { previous.clone() };
            body.extend_from_slice(format!("{:x};chunk-signature={shown}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            if !chunk.is_empty() {
                body.extend_from_slice(b"\r\n");
            }
        }
        let canonical: String = trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        for (name, value) in trailers {
            body.extend_from_slice(format!("{name}:{value}\r\n").as_bytes());
        }
        if with_trailers {
            let hash = sha256_hex(canonical.as_bytes());
            let string = format!("AWS4-HMAC-SHA256-TRAILER\n{date}\n{scope}\n{previous}\n{hash}");
            let mut signature = self.sign_string(&date, &string);
            if damage == Damage::TrailerSignature {
                signature = "0".repeat(64);
            }
            body.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
        }
        body.extend_from_slice(b"\r\n");
        self.body = body;
        [self.signed_head(&date).0.into_bytes(), self.body.clone()].concat()
    }

    /// The call with its body in unsigned chunks with a trailer.
    pub fn unsigned_chunks(self, data: &[u8], trailer: (&str, &str)) -> Self {
        let mut body = Vec::new();
        if !data.is_empty() {
            body.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            body.extend_from_slice(data);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("0\r\n{}:{}\r\n\r\n", trailer.0, trailer.1).as_bytes());
        self.payload("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            .header("x-amz-decoded-content-length", &data.len().to_string())
            .header("x-amz-trailer", trailer.0)
            .header("content-encoding", "aws-chunked")
            .body(body)
    }
}

/// What is wrong with a body in signed chunks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    None,
    ChunkSignature(usize),
    TrailerSignature,
    NoLastChunk,
}
