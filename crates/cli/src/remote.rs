//! The options by which commands reach a server, and the client made from them.

use clap::Args;

use crate::client::{Client, Endpoint, Keys};
use crate::failure::{Failure, Outcome};

/// Where the server is and who asks.
#[derive(Args, Clone, Debug)]
pub struct Remote {
    /// The server, for s3:// locations.
    #[arg(long, value_name = "URL", env = "KOINE_ENDPOINT", default_value = "http://127.0.0.1:9000")]
    endpoint: String,
    /// The region that requests are signed for.
    #[arg(long, value_name = "NAME", env = "AWS_REGION", default_value = "us-east-1")]
    region: String,
}

impl Remote {
    /// A client with the keys of the environment.
    pub fn client(&self) -> Outcome<Client> {
        let endpoint = Endpoint::parse(&self.endpoint, &self.region)?;
        Ok(Client::new(endpoint, keys_of_environment()?))
    }
}

/// The keys that the environment has.
pub fn keys_of_environment() -> Outcome<Keys> {
    keys(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Keys from the environment: Koine's own names first, then those of AWS.
fn keys(variable: impl Fn(&str) -> Option<String>) -> Outcome<Keys> {
    if let (Some(access_key), Some(secret)) = (variable("KOINE_ROOT_USER"), variable("KOINE_ROOT_PASSWORD")) {
        return Ok(Keys { access_key, secret, session_token: None });
    }
    if let (Some(access_key), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        return Ok(Keys { access_key, secret, session_token: variable("AWS_SESSION_TOKEN") });
    }
    Err(Failure::usage(
        "no keys: set KOINE_ROOT_USER and KOINE_ROOT_PASSWORD, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
         to what the server showed at its first start (or wrote to STORE.credentials)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_variables_win_and_half_a_pair_is_none() {
        let check = |set: &[(&str, &str)], access_key: Option<&str>| {
            let lookup = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(keys(lookup).ok().map(|keys| keys.access_key).as_deref(), access_key, "{set:?}");
        };
        let aws = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        check(&aws, Some("a"));
        check(&[("KOINE_ROOT_USER", "k"), ("KOINE_ROOT_PASSWORD", "p"), aws[0], aws[1]], Some("k"));
        check(&[("KOINE_ROOT_USER", "k"), aws[0], aws[1]], Some("a"));
        check(&[aws[0]], None);
    }
}
