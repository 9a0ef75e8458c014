//! Listening, connections, and a stop that lets requests under way finish.
//!
//! Invariants:
//! - A connection costs a task, never a thread.
//! - Idle connections make room for others ([`Connections`]).
//! - After the shutdown future is ready no connection is accepted and no request begun; those under way have
//!   `stop_time_max` to finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use koine_env::{Clock, SystemClock};
use koine_object::Objects;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::S3ServiceBuilder;
use s3s::{Body, StdError};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::auth::{Credentials, Verifier};
use crate::connections::{ActiveRequest, AdmittedConnection, Connections};
use crate::http_service::HttpService;
use crate::limits::{HEADER_COUNT_MAX, Limits};
use crate::s3::S3Api;
use crate::transport::{BUSY_ANSWER, Transport};

/// Where a gateway is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Takes connections and requests.
    Running,
    /// Finishes what is under way.
    Stopping,
    /// Has waited long enough.
    Cut,
}

/// Ready when the gateway has come to `phase`, or is gone.
async fn reached(mut phases: watch::Receiver<Phase>, phase: Phase) {
    let _ = phases.wait_for(|now| *now >= phase).await.is_ok();
}

/// How a gateway listens.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Where it listens; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// What requests may cost.
    pub limits: Limits,
    /// The region that signatures must name; `None` takes every one.
    pub region: Option<String>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl GatewayOptions {
    /// Listens at one address, with the limits that are usual.
    pub fn new(address: SocketAddr) -> Self {
        GatewayOptions {
            addresses: vec![address],
            limits: Limits::default(),
            region: None,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// An S3 server that listens.
#[derive(Debug)]
pub struct Gateway {
    listeners: Vec<TcpListener>,
    service: Arc<HttpService>,
}

impl Gateway {
    /// Takes the addresses. Connections wait until `serve`.
    pub async fn bind(objects: Objects, credentials: Credentials, options: GatewayOptions) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for address in &options.addresses {
            let failed =
                |error: io::Error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"));
            listeners.push(listen(*address).map_err(failed)?);
        }
        let limits = options.limits;
        let users = objects.identities();
        let api = S3Api::new(objects.clone(), &credentials.access, options.region.as_deref(), &limits);
        let mut config = S3Config::default();
        config.xml_max_body_size = limits.xml_len_max;
        let mut builder = S3ServiceBuilder::new(api);
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        let verifier = Verifier::new(credentials, users, options.region, options.clock);
        Ok(Gateway { listeners, service: Arc::new(HttpService::new(objects, verifier, builder.build(), limits)) })
    }

    /// Where it listens, first address first.
    pub fn local_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Where it listens first.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "the gateway has no address");
        self.listeners.first().ok_or_else(none)?.local_addr()
    }

    /// Serves until `shutdown` is ready, then finishes what is under way. Gives the number of connections that
    /// had to be cut.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> usize {
        let (stop, phases) = watch::channel(Phase::Running);
        let connections = Connections::new(self.service.limits().connections_max);
        // Each connection holds a sender: the channel closes when the last one is done.
        let (alive, mut done) = mpsc::channel::<()>(1);
        let mut accepting = JoinSet::new();
        for listener in self.listeners {
            let acceptor = Acceptor {
                service: self.service.clone(),
                connections: connections.clone(),
                phases: phases.clone(),
                alive: alive.clone(),
            };
            accepting.spawn(acceptor.run(listener));
        }
        drop(alive);
        shutdown.await;
        // This function holds a receiver, so there is one.
        let _ = stop.send(Phase::Stopping);
        while accepting.join_next().await.is_some() {}
        let limit = self.service.limits().stop_time_max;
        if tokio::time::timeout(limit, done.recv()).await.is_ok() {
            return 0;
        }
        let cut = connections.count();
        tracing::warn!(connections = cut, "stopped before all requests were done");
        let _ = stop.send(Phase::Cut);
        done.recv().await;
        cut
    }
}

/// So many connections may wait to be taken, where the system allows it (`net.core.somaxconn`). Where more come at once the
/// system drops them, and their clients try again after a second.
const WAITING_MAX: u32 = 4096;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The address may be taken again as soon as the process before has ended.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

/// What the system says when this process, or all together, have as many files and sockets as they may: `EMFILE`, `ENFILE`.
const OUT_OF_FILES: [i32; 2] = [24, 23];

/// So many idle connections end then: as many wait already to be let in.
const ENDED_AT_ONCE: usize = 16;

/// Takes connections of one listener.
struct Acceptor {
    service: Arc<HttpService>,
    connections: Arc<Connections>,
    phases: watch::Receiver<Phase>,
    alive: mpsc::Sender<()>,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = reached(self.phases.clone(), Phase::Stopping) => return,
            };
            let (tcp, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, or the client left already: neither ends the gateway.
                    tracing::warn!(%error, "cannot accept a connection");
                    let is_full = error.raw_os_error().is_some_and(|code| OUT_OF_FILES.contains(&code));
                    let makes_room = is_full && self.connections.make_room(ENDED_AT_ONCE) > 0;
                    // Those that make room need a moment to end; else somebody else has to.
                    tokio::time::sleep(Duration::from_millis(if makes_room { 1 } else { 20 })).await;
                    continue;
                }
            };
            let Some(admitted) = self.connections.admit(peer) else {
                tracing::warn!(%peer, "too many connections");
                // A best effort: the socket's empty buffer takes so few bytes at once.
                let _ = tcp.try_write(BUSY_ANSWER);
                continue;
            };
            let (service, phases, alive) = (self.service.clone(), self.phases.clone(), self.alive.clone());
            tokio::spawn(async move {
                let _alive = alive;
                serve_connection(tcp, admitted, service, phases).await;
            });
        }
    }
}

/// Passes the requests of one connection to the service.
struct ConnectionService {
    service: Arc<HttpService>,
    admitted: Arc<AdmittedConnection>,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response<ResponseBody>;
    type Error = s3s::HttpError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, s3s::HttpError>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (service, admitted) = (self.service.clone(), self.admitted.clone());
        let unasked = expects_without_body(&request);
        Box::pin(async move {
            // Without this it has made room for another one, and ends.
            let active = admitted.begin().ok_or_else(|| s3s::HttpError::new("the connection made room".into()))?;
            let connection = admitted.connection();
            let mut answer = service.answer(request, connection).await?;
            if unasked || connection.is_reserved() && !connection.is_proven() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(answer.map(|body| ResponseBody { body, _active: active }))
        })
    }
}

/// The body of a response; its connection is busy until the body has been sent.
struct ResponseBody {
    body: Body,
    _active: ActiveRequest,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether a client waits for `100 Continue` before a body of no bytes. The HTTP library answers such a request at
/// once, and botocore (1.43) misreads the next answer on a connection on which it got a final answer in place of
/// a 100: the connection ends with the answer.
fn expects_without_body(request: &Request<Incoming>) -> bool {
    request.headers().contains_key(header::EXPECT) && request.body().is_end_stream()
}

async fn serve_connection(
    tcp: TcpStream,
    admitted: AdmittedConnection,
    service: Arc<HttpService>,
    phases: watch::Receiver<Phase>,
) {
    let admitted = Arc::new(admitted);
    let peer = admitted.connection().peer();
    // Without this a small answer waits for the client's delayed acknowledgement.
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let limits = service.limits();
    let io = TokioIo::new(Transport::new(tcp, limits));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_time_max)
        .max_headers(HEADER_COUNT_MAX)
        .max_header_size(limits.head_len_hard_max())
        // An idle connection may keep its buffer.
        .max_buf_size(limits.head_len_hard_max().max(8 << 10));
    let service = ConnectionService { service: service.clone(), admitted: admitted.clone() };
    let connection = http.serve_connection(io, service);
    tokio::pin!(connection);
    let mut outcome = tokio::select! {
        outcome = connection.as_mut() => Some(outcome),
        () = reached(phases.clone(), Phase::Stopping) => None,
        () = admitted.connection().ended() => return,
    };
    if outcome.is_none() {
        connection.as_mut().graceful_shutdown();
        outcome = tokio::select! {
            outcome = connection => Some(outcome),
            () = reached(phases, Phase::Cut) => None,
        };
    }
    if let Some(Err(error)) = outcome {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
