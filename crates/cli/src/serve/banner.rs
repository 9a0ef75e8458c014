//! What a start tells: what listens where, the credentials once, and a first command to try.

use std::net::SocketAddr;

use koine::Store;
use serde_json::json;

use super::credentials::{Origin, Root, Shown};
use super::wire::Wire;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::size;

/// What there is to tell.
pub struct Banner<'a> {
    pub store: &'a Store,
    pub addresses: &'a [SocketAddr],
    pub wire: &'a Wire,
    pub root: &'a Root,
    pub shown: &'a Shown,
}

impl Banner<'_> {
    /// Tells it; one line of JSON is all that scripts get.
    pub fn print(&self, output: Output) -> Outcome {
        let urls: Vec<String> = self.addresses.iter().map(|address| format!("http://{address}")).collect();
        let file = match self.shown {
            Shown::File(file) => Some(file.to_string_lossy().into_owned()),
            _ => None,
        };
        output.json(&json!({
            "type": "serving", "store": self.store.place().to_string(), "s3": urls, "pid": std::process::id(),
            "access_key": self.root.key().access_key, "credentials_file": file,
            "socket": self.wire.socket.as_ref().map(|socket| socket.to_string_lossy()),
            "objects_socket": self.wire.objects_socket.as_ref().map(|socket| socket.to_string_lossy()),
            "wire": self.wire.addresses.iter().map(|address| format!("koine+tcp:{address}")).collect::<Vec<_>>(),
        }))?;
        output.people(self.text(&urls)?)
    }

    fn text(&self, urls: &[String]) -> Outcome<String> {
        let usage = self.store.kv().usage().map_err(|error| Failure::from(koine::Error::from(error)))?;
        let url = urls.first().map_or("", String::as_str);
        let mut text = format!(
            "Koine {} serves {} ({} used)\n\n  S3           {}\n",
            env!("CARGO_PKG_VERSION"),
            self.store.place(),
            size::show(usage.used),
            urls.join(", "),
        );
        if let Some(socket) = &self.wire.socket {
            text += &format!("  Processes    koine+unix:{}\n", socket.display());
        }
        if let Some(socket) = &self.wire.objects_socket {
            text += &format!("  Users        koine+unix:{} (objects, by log in)\n", socket.display());
        }
        for address in &self.wire.addresses {
            text += &format!("  Machines     koine+tcp:{address}\n");
        }
        text += &self.credentials();
        text += &format!("\n  Try          aws --endpoint-url {url} s3 mb s3://first\n  Stop         Ctrl-C\n");
        Ok(text)
    }

    fn credentials(&self) -> String {
        let key = self.root.key();
        match (self.shown, self.root.origin()) {
            (Shown::Terminal, _) => format!(
                "\n  Root credentials, made now and shown this once:\n\n  export AWS_ACCESS_KEY_ID={}\n  \
                 export AWS_SECRET_ACCESS_KEY={}\n  export AWS_DEFAULT_REGION=us-east-1\n",
                key.access_key, key.secret
            ),
            (Shown::File(file), _) => {
                format!("  Credentials  made now, in {} (for its owner only)\n", file.display())
            }
            (Shown::No, Origin::Environment) => {
                format!("  Access key   {} (KOINE_ROOT_USER)\n", key.access_key)
            }
            (Shown::No, _) => format!("  Access key   {} (the secret was shown at the first start)\n", key.access_key),
        }
    }
}
