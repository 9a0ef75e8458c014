//! `koine alias`: short names of S3 servers, kept with their keys in a file of the user's own.
//!
//! Invariants:
//! - The file has mode 0600 from its first byte; one that others may read is refused.
//! - A secret comes from the environment or a file, never from an argument, and is told by no command.
//! - The file is written beside the old one and renamed: it is whole at any moment.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use koine::object::read_private_file;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::{Client, Endpoint, Keys};
use crate::failure::{Failure, Outcome};
use crate::location::AliasName;
use crate::output::{Output, printable};
use crate::remote;
use crate::secret::read_secret;

/// The longest file of aliases, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "Examples:
  koine alias set backup http://10.0.0.7:9000                     with the keys of the environment
  koine alias set lab http://lab:9000 --access-key ada --secret-file ada.secret
  koine cp -r koine://photos backup://photos                      an alias stands where s3 does: NAME://BUCKET/KEY
  koine sync backup://photos lab://photos                         from one server to another
  koine alias ls
  koine alias rm lab

Aliases are kept in the file aliases.json, which only its owner may read (mode 0600), in the folder KOINE_CONFIG,
XDG_CONFIG_HOME/koine or ~/.config/koine, whichever is set first.";

/// The options of `koine alias`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct AliasArgs {
    #[command(subcommand)]
    verb: AliasCommand,
}

#[derive(Subcommand, Debug)]
enum AliasCommand {
    /// Give a server a name, or change what the name means.
    Set(AliasSetArgs),
    /// List aliases, without their secrets.
    Ls,
    /// Remove aliases.
    Rm {
        /// The aliases.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct AliasSetArgs {
    /// The alias: objects are NAME://BUCKET/KEY then.
    #[arg(value_name = "NAME")]
    name: String,
    /// The server, as http://HOST:PORT.
    #[arg(value_name = "URL")]
    url: String,
    /// The region that requests are signed for.
    #[arg(long, value_name = "NAME", env = "AWS_REGION", default_value = "us-east-1")]
    region: String,
    /// The access key; its secret is in --secret-file. Without both: the keys of the environment.
    #[arg(long, value_name = "KEY", requires = "secret_file")]
    access_key: Option<String>,
    /// A file with the secret in its first line; `-` is the standard input.
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_file: Option<PathBuf>,
}

/// What an alias means.
#[derive(Clone, Deserialize, Serialize)]
struct Alias {
    url: String,
    region: String,
    access_key: String,
    secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_token: Option<String>,
}

/// All aliases, by name.
type Aliases = BTreeMap<String, Alias>;

/// Runs `koine alias`.
pub fn run(args: &AliasArgs, output: Output) -> Outcome {
    let file = file()?;
    let mut aliases = read(&file)?;
    match &args.verb {
        AliasCommand::Set(set) => {
            let name = AliasName::parse(&set.name)?;
            // Checked now: a URL that cannot be used is told here and not at the first copy.
            Endpoint::parse(&set.url, &set.region)?;
            let keys = keys_of(set)?;
            let alias = Alias {
                url: set.url.clone(),
                region: set.region.clone(),
                access_key: keys.access_key,
                secret: keys.secret,
                session_token: keys.session_token,
            };
            let before = aliases.insert(name.as_str().to_owned(), alias);
            write(&file, &aliases)?;
            let word = if before.is_some() { "changed" } else { "set" };
            output.people(format!("{word} {name}:// to {}", printable(&set.url)))?;
            output.json(&json!({ "type": word, "alias": name.as_str(), "url": set.url }))
        }
        AliasCommand::Ls => aliases.iter().try_for_each(|(name, alias)| {
            output.people(format!("{:<20} {} ({})", format!("{name}://"), alias.url, printable(&alias.access_key)))?;
            output.json(&json!({ "type": "alias", "alias": name, "url": alias.url, "region": alias.region,
                                 "access_key": alias.access_key }))
        }),
        AliasCommand::Rm { names } => {
            if let Some(missing) = names.iter().find(|name| !aliases.contains_key(*name)) {
                return Err(Failure::missing(format!("there is no alias {missing}; nothing was removed")));
            }
            names.iter().for_each(|name| drop(aliases.remove(name)));
            write(&file, &aliases)?;
            names.iter().try_for_each(|name| {
                output.people(format!("removed {name}://"))?;
                output.json(&json!({ "type": "removed", "alias": name }))
            })
        }
    }
}

fn keys_of(set: &AliasSetArgs) -> Outcome<Keys> {
    match (&set.access_key, &set.secret_file) {
        (Some(access_key), Some(file)) => {
            let secret = read_secret(file)?;
            if secret.is_empty() {
                return Err(Failure::usage(format!(
                    "{}: its first line is empty; it holds the secret",
                    file.display()
                )));
            }
            Ok(Keys { access_key: access_key.clone(), secret, session_token: None })
        }
        _ => remote::keys_of_environment(),
    }
}

/// A client of the server that an alias means.
pub fn client(name: &AliasName) -> Outcome<Client> {
    let mut aliases = read(&file()?)?;
    let alias = aliases.remove(name.as_str()).ok_or_else(|| {
        let known = aliases.keys().cloned().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "there are none yet".to_owned() } else { format!("there are {known}") };
        Failure::missing(format!(
            "{name}:// is not a known alias ({known}): koine alias set {name} http://HOST:PORT makes one; for a local path write ./{name}:…"
        ))
    })?;
    let endpoint = Endpoint::parse(&alias.url, &alias.region)?.named(format!("{name}://"));
    let keys = Keys { access_key: alias.access_key, secret: alias.secret, session_token: alias.session_token };
    Ok(Client::new(endpoint, keys))
}

/// Where aliases are kept.
fn file() -> Outcome<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = folder("KOINE_CONFIG")
        .or_else(|| folder("XDG_CONFIG_HOME").map(|folder| folder.join("koine")))
        .or_else(|| folder("HOME").map(|folder| folder.join(".config/koine")));
    let folder = folder.ok_or_else(|| Failure::usage("there is no folder for aliases: set KOINE_CONFIG or HOME"))?;
    Ok(folder.join("aliases.json"))
}

fn read(file: &Path) -> Outcome<Aliases> {
    let cannot = |error: &std::io::Error| Failure::io(format!("cannot read {}", file.display()), error);
    match read_private_file(file, FILE_LEN_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Aliases::new()),
        Err(error) => Err(cannot(&error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            // Position alone: what stands there may be a secret.
            let (line, column) = (error.line(), error.column());
            Failure::failed(format!("{}: cannot be read as aliases, at line {line}, column {column}", file.display()))
        }),
    }
}

fn write(file: &Path, aliases: &Aliases) -> Outcome {
    let cannot = |error: &std::io::Error| Failure::io(format!("cannot write {}", file.display()), error);
    let folder = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| cannot(&error))?;
    let text = serde_json::to_vec_pretty(aliases).map_err(|error| Failure::failed(error.to_string()))?;
    let fresh = file.with_extension(format!("{}.new", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut new| {
            new.write_all(&text)?;
            new.sync_all()
        })
        .and_then(|()| fs::rename(&fresh, file));
    written.map_err(|error| {
        let _ = fs::remove_file(&fresh);
        cannot(&error)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn alias(secret: &str) -> Alias {
        Alias {
            url: "http://127.0.0.1:9000".to_owned(),
            region: "us-east-1".to_owned(),
            access_key: "ada".to_owned(),
            secret: secret.to_owned(),
            session_token: None,
        }
    }

    #[test]
    fn the_file_is_its_owners_alone_and_broken_ones_tell_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("of/koine/aliases.json");
        assert!(read(&file).unwrap().is_empty());
        write(&file, &Aliases::from([("work".to_owned(), alias("hidden"))])).unwrap();
        write(&file, &Aliases::from([("work".to_owned(), alias("hidden too"))])).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&file).unwrap().remove("work").map(|alias| alias.secret).as_deref(), Some("hidden too"));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        fs::write(&file, br#"{"work": {"secret": "hidden" nonsense"#).unwrap();
        let broken = read(&file).map(drop).unwrap_err();
        assert!(!broken.message.contains("hidden"), "{broken}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&file).map(drop).unwrap_err().message.contains("chmod 600"));
    }
}
