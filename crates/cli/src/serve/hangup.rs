//! SIGHUP: a running server takes what was added to its device.
//!
//! Invariant: the signal never ends the server, whatever becomes of growing.

use std::sync::Arc;

use koine::{GrowTo, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, Outcome};
use crate::size;

/// From now on SIGHUP makes the store grow; what came of it is told on the standard error.
pub fn grow_when_asked(store: &Arc<Store>) -> Outcome {
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| Failure::io("cannot listen for signals", &error))?;
    let store = Arc::clone(store);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let store = Arc::clone(&store);
            // It waits for the medium.
            let _ = tokio::task::spawn_blocking(move || tell(&store)).await;
        }
    });
    Ok(())
}

fn tell(store: &Store) {
    match store.grow(GrowTo::Device) {
        Ok(None) => eprintln!("koine: SIGHUP: a store in memory has nothing to grow into"),
        Ok(Some(grown)) if grown.before == grown.after => {
            eprintln!("koine: SIGHUP: the device is as long as the store, {}", size::show(grown.after));
        }
        Ok(Some(grown)) => {
            eprintln!(
                "koine: SIGHUP: the store has grown from {} to {}",
                size::show(grown.before),
                size::show(grown.after)
            );
        }
        Err(error) => eprintln!("koine: SIGHUP: the store has not grown: {error}"),
    }
}
