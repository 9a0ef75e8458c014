//! The reference servers: how each is found, started on an empty folder and given a key.
//!
//! They are asked for the durability that Koine gives (an acknowledged PUT survives power loss) where they can be.

use super::server::{Server, ServerStart};
use super::sign::Credentials;
use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every reference that is known; one that is not on PATH is reported as missing.
pub const NAMES: [&str; 3] = ["minio", "garage", "versitygw"];

/// The reference's program, if it is on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// Starts a reference below `disk`.
pub fn start(name: &str, program: &Path, disk: &Path) -> Result<Server, Error> {
    Server::start(name, disk, |start| match name {
        "minio" => minio(program, start),
        "garage" => garage(program, start),
        "versitygw" => versitygw(program, start),
        _ => Err(Error::Argument(format!("no reference is called {name}"))),
    })
}

/// What is left to do when the server answers: Garage makes no layout and no key by itself.
pub fn prepare(server: &mut Server) -> Result<(), Error> {
    match (server.name.as_str(), server.folder(), find("garage")) {
        ("garage", Some(folder), Some(program)) => garage_layout(&program, &folder, &server.client.credentials),
        _ => Ok(()),
    }
}

fn data_folder(start: &ServerStart<'_>, name: &str) -> Result<PathBuf, Error> {
    let folder = start.folder.join(name);
    fs::create_dir(&folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    Ok(folder)
}

/// MinIO syncs each PUT by itself.
fn minio(program: &Path, start: &mut ServerStart<'_>) -> Result<Command, Error> {
    let mut command = Command::new(program);
    command.arg("server").arg(data_folder(start, "data")?).arg("--quiet");
    command.arg("--address").arg(format!("127.0.0.1:{}", start.ports[0]));
    command.arg("--console-address").arg(format!("127.0.0.1:{}", start.ports[1]));
    command.env("MINIO_ROOT_USER", &start.credentials.access_key);
    command.env("MINIO_ROOT_PASSWORD", &start.credentials.secret_key);
    command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off").env("HOME", start.folder);
    Ok(command)
}

/// versitygw writes through a POSIX file system and has no switch for syncing.
fn versitygw(program: &Path, start: &mut ServerStart<'_>) -> Result<Command, Error> {
    let mut command = Command::new(program);
    command.args(["--access", &start.credentials.access_key, "--secret", &start.credentials.secret_key]);
    command.arg("--port").arg(format!("127.0.0.1:{}", start.ports[0])).arg("--quiet");
    command.arg("posix").arg(data_folder(start, "data")?);
    Ok(command)
}

fn garage(program: &Path, start: &mut ServerStart<'_>) -> Result<Command, Error> {
    // Garage takes only keys of its own form.
    let number = super::server::nonce();
    start.credentials = Credentials {
        access_key: format!("GK{:024x}", number & ((1 << 96) - 1)),
        secret_key: format!("{number:064x}"),
        region: "us-east-1".into(),
    };
    let [api, rpc, admin] = start.ports;
    let configuration = format!(
        "metadata_dir = {metadata:?}\ndata_dir = {data:?}\ndb_engine = \"lmdb\"\nmetadata_fsync = true\n\
         data_fsync = true\nreplication_factor = 1\nrpc_bind_addr = \"127.0.0.1:{rpc}\"\n\
         rpc_public_addr = \"127.0.0.1:{rpc}\"\nrpc_secret = \"{number:064x}\"\n\
         [s3_api]\ns3_region = \"us-east-1\"\napi_bind_addr = \"127.0.0.1:{api}\"\n\
         [admin]\napi_bind_addr = \"127.0.0.1:{admin}\"\n",
        metadata = data_folder(start, "metadata")?,
        data = data_folder(start, "data")?,
    );
    let file = start.folder.join("garage.toml");
    fs::write(&file, configuration).map_err(Error::io(format!("cannot write {}", file.display())))?;
    let mut command = Command::new(program);
    command.arg("-c").arg(file).arg("server").env("RUST_LOG", "garage=warn");
    Ok(command)
}

fn garage_layout(program: &Path, folder: &Path, credentials: &Credentials) -> Result<(), Error> {
    let run = |arguments: &[&str]| -> Result<String, Error> {
        let output = Command::new(program)
            .arg("-c")
            .arg(folder.join("garage.toml"))
            .args(arguments)
            .output()
            .map_err(Error::io("cannot run garage"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Answer(format!("garage {}: {refusal}", arguments.first().copied().unwrap_or_default())))
    };
    let node = run(&["node", "id", "-q"])?;
    let node = node.trim().split('@').next().unwrap_or_default().to_owned();
    run(&["layout", "assign", "-z", "here", "-c", "100G", &node])?;
    run(&["layout", "apply", "--version", "1"])?;
    run(&["key", "import", "--yes", "-n", "bench", &credentials.access_key, &credentials.secret_key])?;
    run(&["key", "allow", "--create-bucket", &credentials.access_key])?;
    Ok(())
}
