//! Callers who wait no longer, beside a server that does not answer for a while.

use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use koine_env::patience::Patience;
use parking_lot::{Condvar, Mutex};

use super::*;

/// What lies between a client and a server, and hands on nothing of the answers while it is shut.
struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
    socket: PathBuf,
}

impl Gate {
    fn before(served: &Served) -> Gate {
        let socket = served.socket.with_extension("gate");
        let listener = UnixListener::bind(&socket).unwrap();
        let open = Arc::new((Mutex::new(true), Condvar::new()));
        let (gate, server) = (Arc::clone(&open), served.socket.clone());
        std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = UnixStream::connect(server).unwrap();
            let (mut asked, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut asked, &mut to));
            let (mut told, mut client, mut bytes) = (server, client, vec![0; 1 << 16]);
            loop {
                let count = told.read(&mut bytes).unwrap_or(0);
                let mut is_open = gate.0.lock();
                while !*is_open {
                    gate.1.wait(&mut is_open);
                }
                if count == 0 || client.write_all(&bytes[..count]).is_err() {
                    return;
                }
            }
        });
        Gate { open, socket }
    }

    fn set(&self, open: bool) {
        *self.open.0.lock() = open;
        self.open.1.notify_all();
    }

    fn connect(&self) -> WireKv {
        let options = ClientOptions { shared_len: 0, ..ClientOptions::default() };
        WireKv::connect_unix(&self.socket, &options).unwrap()
    }
}

fn hasty() -> Patience {
    Patience { until: Some(Instant::now() + Duration::from_millis(100)), ask: None }
}

#[test]
fn who_waits_no_longer_holds_up_nobody_and_loses_nothing() {
    let served = served(ServerOptions::default());
    let gate = Gate::before(&served);
    let kv = gate.connect();
    kv.commit(Batch::new().put(SPACE, "k", vec![7; 100_000]), Durability::Sync).unwrap();
    gate.set(false);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| kv.get(SPACE, b"k"))).collect();
        for _ in 0..3 {
            assert_eq!(hasty().lasting(|| kv.get(SPACE, b"k")).unwrap_err().kind(), ErrorKind::Interrupted);
            let view = kv.view().unwrap();
            let looked = hasty().lasting(|| view.stat(SPACE, b"k"));
            assert_eq!(looked.unwrap_err().kind(), ErrorKind::Interrupted);
        }
        let ticket = kv.submit(Batch::new().put(SPACE, "sent", "1"), Durability::Sync, Wait::Never);
        assert_eq!(hasty().lasting(|| ticket.wait()).unwrap_err().kind(), ErrorKind::Interrupted);
        gate.set(true);
        for each in waiting {
            assert_eq!(each.join().unwrap().unwrap().unwrap().len(), 100_000);
        }
    });
    assert_eq!(kv.get(SPACE, b"k").unwrap().unwrap().len(), 100_000);
    // What was sent before may happen all the same.
    eventually("it is there", || served.kv.get(SPACE, b"sent").unwrap().is_some());
}

/// What the handler calls, and how often it did.
static CALLED: Mutex<Option<Arc<WireKv>>> = Mutex::new(None);
static HANDLED: AtomicUsize = AtomicUsize::new(0);

fn handler_that_calls() -> bool {
    let kv = CALLED.lock().clone().unwrap();
    let told = Patience::default().lasting(|| kv.get(SPACE, b"k"));
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Disconnected);
    HANDLED.fetch_add(1, Ordering::SeqCst);
    false
}

#[test]
fn a_handler_that_calls_while_its_thread_connects_again_is_told() {
    let served = served(ServerOptions::default());
    let timeouts = Timeouts { reconnect: Duration::from_millis(300), ..Timeouts::default() };
    let options = ClientOptions { timeouts, shared_len: 0, ..ClientOptions::default() };
    let kv = Arc::new(WireKv::connect_unix(&served.socket, &options).unwrap());
    *CALLED.lock() = Some(Arc::clone(&kv));
    served.server.close();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let patience = Patience { until: None, ask: Some(handler_that_calls) };
        done.send(patience.lasting(|| kv.get(SPACE, b"k")).unwrap_err().kind()).unwrap();
    });
    // Without an end it would wait for itself.
    let told = ended.recv_timeout(Duration::from_secs(60)).expect("it waits for itself");
    assert_eq!(told, ErrorKind::Disconnected);
    assert!(HANDLED.load(Ordering::SeqCst) > 0);
    *CALLED.lock() = None;
}
