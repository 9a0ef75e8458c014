//! An open store: the engine (or another back end), and the objects in it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koine_engine::device::{Device, FileDevice, IoMode, OpenOptions as DeviceOptions, Process};
use koine_engine::{Engine, Options, Scrub, ScrubOptions, ScrubPosition};
use koine_env::{OsRandom, SystemClock};
use koine_kv::wire::{ClientOptions, Key, WireKv};
use koine_kv::{EngineKv, Kv, MemoryKv, MemoryOptions};
use koine_object::{LogIn, Objects, RemoteObjects};

use crate::error::{Error, Result};
use crate::format::{FormatOptions, check_block_size, format_open};
use crate::names::CATALOGUE;
use crate::place::Place;
use crate::probe::{Found, probe};
use crate::remote;
use crate::rocks;
use crate::sealing::{self, SealingKey};
use crate::socket::socket_of;

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Make the store when the file is missing or empty.
    pub create: bool,
    /// Up to how many bytes a file grows; `None` is no end of its own.
    pub size_max: Option<u64>,
    /// The block size of a store that is made: see [`FormatOptions`]. One that is there must have the same.
    pub block_size: Option<u64>,
    /// Memory for tables and caches, in bytes; `None` is 128 MiB.
    pub memory: Option<u64>,
    /// How the file or device is reached.
    pub io: IoMode,
    /// Give freed space back to the medium once it may be used again.
    pub discard: bool,
    /// Look only: not a byte of a store on a file or device is changed, also where it was not closed in order. One that never had
    /// buckets has none then, and reads are not noted as accesses.
    pub read_only: bool,
    /// Where another process holds the store, be its client.
    pub join: bool,
    /// What a server over TCP wants to see.
    pub key: Option<Key>,
    /// So long a server may take to let this one in; `None` is ten seconds.
    pub connect: Option<Duration>,
    /// Be a user of the store, and not its owner: its objects alone are reached then, through a server that listens for
    /// others.
    pub log_in: Option<LogIn>,
    /// Where the keys are that seal the secrets of access keys.
    pub sealing_key: SealingKey,
}

impl OpenOptions {
    /// As they concern a client of a server.
    pub(crate) fn client(&self) -> ClientOptions {
        let default = ClientOptions::default();
        ClientOptions { connect: self.connect.unwrap_or(default.connect), ..default }
    }
}

/// An open store. Dropped without `close`, it is recovered at the next start.
pub struct Store {
    process: Process,
    place: Place,
    owner: bool,
    kv: Arc<dyn Kv>,
    /// The same, where it is on a file or device.
    engine: Option<Arc<EngineKv>>,
    objects: Objects,
    warning: Option<String>,
    /// Where the objects are another process's, and this one is not its owner.
    remote: Option<RemoteObjects>,
}

/// Opens the store at a path or URL. With a log in, and where the store is another user's, its objects alone.
pub fn open(place: &str, options: &OpenOptions) -> Result<Store> {
    let place = Place::parse(place)?;
    let log_in = options.log_in.as_ref().or_else(|| match &place {
        Place::Unix(socket) if remote::is_for_others(socket) => Some(&LogIn::Later),
        Place::Path(path) if options.join && remote::serves_others(path) => Some(&LogIn::Later),
        _ => None,
    });
    if let Some(log_in) = log_in {
        return remote::open(place.clone(), log_in, options);
    }
    if !matches!(place, Place::Path(_)) && options.block_size.is_some() {
        return Err(Error::BadSize(format!("{place} has no blocks to choose: leave --block-size out")));
    }
    let client = options.client();
    let (mut engine, mut warning) = (None, None);
    let mut owner = !matches!(place, Place::Unix(_) | Place::Tcp(_));
    let kv: Arc<dyn Kv> = match &place {
        Place::Memory => {
            Arc::new(MemoryKv::new(MemoryOptions { capacity: options.size_max, ..MemoryOptions::default() }))
        }
        Place::Rocks(path) => match rocks::open(path, options) {
            Err(error) if options.join && error.is_held() => {
                owner = false;
                join(path, &client, error)?
            }
            opened => opened?,
        },
        Place::Unix(socket) => Arc::new(WireKv::connect_unix(socket, &client)?),
        Place::Tcp(address) => {
            let message = format!("{place} wants a key: see --wire-key of koine serve");
            let key = options.key.as_ref().ok_or(Error::BadPlace(message))?;
            Arc::new(WireKv::connect_tcp(address, key, &client)?)
        }
        Place::Path(path) => match open_engine(path, options) {
            Err(error) if options.join && error.is_held() => {
                owner = false;
                join(path, &client, error)?
            }
            opened => {
                let (opened, why) = opened?;
                let opened = Arc::new(EngineKv::new(opened));
                engine = Some(Arc::clone(&opened));
                warning = why;
                opened
            }
        },
    };
    let has_catalogue = || kv.view()?.has_space(CATALOGUE);
    let of = match options.read_only && engine.is_some() && !has_catalogue()? {
        // To make the catalogue would change the store; without one it has no buckets, as this.
        true => Arc::new(MemoryKv::new(MemoryOptions::default())),
        false => Arc::clone(&kv),
    };
    let objects = Objects::open(of, Arc::new(SystemClock::new()), Arc::new(OsRandom))?;
    let objects = objects.with_sealing_keys(sealing::keys_of(&place, &options.sealing_key));
    Ok(Store { process: Process::here(), place, owner, kv, engine, objects, warning, remote: None })
}

/// The store of a path through its owner, where that listens; else it is held.
fn join(path: &Path, client: &ClientOptions, held: Error) -> Result<Arc<dyn Kv>> {
    use koine_kv::ErrorKind::{Busy, Interrupted, Stopped};
    let Some(socket) = socket_of(path) else { return Err(held) };
    match WireKv::connect_unix(&socket, client) {
        Ok(kv) => Ok(Arc::new(kv)),
        // It listens, and something else is wrong.
        Err(error) if matches!(error.kind(), Busy | Interrupted | Stopped) => Err(error.into()),
        Err(_) => Err(held),
    }
}

/// Opens the engine on a file or device; makes the store first when that is asked for and nothing is lost by it.
fn open_engine(path: &Path, options: &OpenOptions) -> Result<(Engine, Option<String>)> {
    check_block_size(options.block_size)?;
    let found = probe(path)?;
    let make = match found {
        Found::Store => false,
        Found::Missing | Found::Empty if options.create && !options.read_only => true,
        Found::Missing => return Err(Error::Missing(path.to_owned())),
        Found::Empty => {
            return Err(Error::Blank { path: path.to_owned(), found: "nothing (an empty file)" });
        }
        Found::Zeros => return Err(Error::Blank { path: path.to_owned(), found: "zeros" }),
        Found::Other(found) => return Err(Error::NotAStore { path: path.to_owned(), found }),
    };
    let device = FileDevice::open_with(
        path,
        DeviceOptions { create: make && !options.read_only, read_only: options.read_only },
        options.io,
    )
    .map_err(Error::at(path))?;
    let warning = device.fallback().map(|why| format!("{}: {why}", path.display()));
    if make {
        // Looked at again under the lock: somebody may have been faster.
        let length =
            device.len().map_err(|source| Error::Io { what: "find the size of", path: path.to_owned(), source })?;
        if length == 0 {
            let (size_max, block_size) = (options.size_max, options.block_size);
            format_open(path, &device, &FormatOptions { size_max, block_size, force: false })?;
        }
    }
    let memory_len = options.memory.unwrap_or(Options::default().memory_len);
    let (discard, read_only) = (options.discard, options.read_only);
    let engine = Engine::open(Arc::new(device), Options { memory_len, discard, read_only, ..Options::default() })
        .map_err(Error::at(path))?;
    let block_size = engine.info().block_len;
    if let Some(asked) = options.block_size.filter(|asked| *asked != block_size) {
        return Err(Error::BadSize(format!(
            "{} was made with blocks of {block_size} bytes, which cannot be changed to {asked}; leave --block-size out to go on with those",
            path.display()
        )));
    }
    match (options.size_max, engine.usage().limit) {
        (Some(asked), limit) if limit != Some(asked / 4096 * 4096) => {
            let limit = limit.map_or_else(|| "none".to_owned(), |limit| format!("{limit} bytes"));
            Err(Error::BadSize(format!(
                "{} was made with another limit of its size ({limit}); leave --size out to go on with that",
                path.display()
            )))
        }
        _ => Ok((engine, warning)),
    }
}

impl Store {
    /// One that another user's process has.
    pub(crate) fn elsewhere(place: Place, kv: Arc<dyn Kv>, remote: RemoteObjects) -> Store {
        let objects = remote.objects();
        Store {
            process: Process::here(),
            place,
            owner: false,
            kv,
            engine: None,
            objects,
            warning: None,
            remote: Some(remote),
        }
    }

    /// The connection, where the objects are another process's and this one has logged in to them.
    pub fn remote(&self) -> Option<&RemoteObjects> {
        self.remote.as_ref()
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether this process holds it, and not another that is asked.
    pub fn is_owner(&self) -> bool {
        self.owner
    }

    /// What its owner should know of how it was opened.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Its keys and values.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// Its buckets and objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The engine, where it is on a file or device.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref().map(|kv| kv.engine())
    }

    /// Begins to read and verify the store from the medium while it is in use; `None` for one in memory.
    pub fn scrub(&self, options: ScrubOptions, from: ScrubPosition) -> Option<Scrub> {
        let engine = self.engine.as_ref()?;
        Some(engine.engine().scrub(options, Arc::new(SystemClock::new()), from))
    }

    /// Finishes what is under way, makes it durable and gives the medium back.
    ///
    /// A forked copy lets go of nothing: the store is its parent's, and is opened again to be used.
    pub fn close(&self) -> Result<()> {
        if !self.process.is_here() {
            return Ok(());
        }
        // Times that cannot be written are lost, as in a crash.
        drop(self.objects.write_access_times());
        if let Some(remote) = &self.remote {
            remote.close();
        }
        Ok(self.kv.close()?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.process.leave(|| (Arc::clone(&self.kv), self.objects.clone(), self.remote.clone()));
    }
}
