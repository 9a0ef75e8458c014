//! An S3 server over memory, for trying clients by hand: `cargo run --example memory -- 127.0.0.1:9000`.
//! The key is `koine`, the secret `koine-secret`. Nothing is kept.

use std::sync::Arc;

use koine_env::{OsRandom, SystemClock};
use koine_gateway::{Credentials, Gateway, GatewayOptions, Secret};
use koine_kv::{MemoryKv, MemoryOptions};
use koine_object::Objects;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".to_owned()).parse()?;
    let kv = Arc::new(MemoryKv::new(MemoryOptions::default()));
    let objects = Objects::open(kv, Arc::new(SystemClock::new()), Arc::new(OsRandom))?;
    let credentials = Credentials { access: "koine".to_owned(), secret: Secret::new("koine-secret") };
    let gateway = Gateway::bind(objects, credentials, GatewayOptions::new(address)).await?;
    println!("listening at http://{}", gateway.local_addr()?);
    let interrupted = async {
        // Without signals there is only the hard way to stop.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    gateway.serve(interrupted).await;
    Ok(())
}
