//! `koine identity`: policies that users and groups may have, public access, sealing keys, and how root comes back.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::groups::{IdentityTargetArgs, policy_changed, tell};
use super::sealing;
use super::users::{identities, read_text};
use crate::failure::Outcome;
use crate::output::{Output, printable};
use crate::target::{TargetArgs, failed};

const IDENTITY_EXAMPLES: &str = "Examples:
  koine identity root reset --store store.koine     a new key and password for root; all others of root's are taken back
  koine identity sealing-key rotate --store store.koine    a new key seals the secrets of all access keys
  koine identity sealing-key forget --store store.koine    STORE.sealing is lost: its access keys go, data and users stay
  koine identity public-access set on --store store.koine  what a policy or access list opens to everybody is open
  koine identity policy set readers policy.json     a policy that users and groups may have";

/// The options of `koine identity`.
#[derive(Args, Debug)]
#[command(after_help = IDENTITY_EXAMPLES)]
pub struct IdentityArgs {
    #[command(subcommand)]
    command: IdentityCommand,
}

#[derive(Subcommand, Debug)]
enum IdentityCommand {
    /// The way back for root: a new key and a new password.
    Root {
        #[command(subcommand)]
        command: RootCommand,
    },
    /// The keys that seal the secrets of access keys: make, rotate, forget.
    SealingKey {
        #[command(subcommand)]
        command: SealingCommand,
    },
    /// Whether policies and access lists may let those in who have no identity: show it, or switch it on or off.
    PublicAccess {
        #[command(subcommand)]
        command: PublicAccessCommand,
    },
    /// Policies that users and groups may have: show, set or remove one.
    Policy {
        #[command(subcommand)]
        command: NamedPolicyCommand,
    },
}

#[derive(Subcommand, Debug)]
enum RootCommand {
    /// Give root a new key and a new password, for whoever owns the store.
    Reset(IdentityTargetArgs),
}

#[derive(Subcommand, Debug)]
enum SealingCommand {
    /// Begin to seal the secrets of access keys, with a key in a file beside the store; the first secret does so by itself.
    Make(IdentityTargetArgs),
    /// Seal all secrets of access keys anew with a new key, also while the store is served; interrupted, it goes on.
    Rotate(IdentityTargetArgs),
    /// Remove the access keys whose secrets cannot be opened any more, because their sealing key is lost.
    Forget(IdentityTargetArgs),
}

#[derive(Subcommand, Debug)]
enum PublicAccessCommand {
    /// Show whether public access is on.
    Show(IdentityTargetArgs),
    /// Switch public access on or off.
    Set {
        /// What it is to be.
        #[arg(value_name = "STATE")]
        state: Switch,
        #[command(flatten)]
        reach: TargetArgs,
    },
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Subcommand, Debug)]
enum NamedPolicyCommand {
    /// Show a policy.
    Show(PolicyName),
    /// Make a policy, or change it.
    Set {
        #[command(flatten)]
        of: PolicyName,
        /// The policy in JSON; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove a policy.
    Rm(PolicyName),
}

#[derive(Args, Debug)]
struct PolicyName {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine identity`.
pub fn run(args: &IdentityArgs, output: Output) -> Outcome {
    match &args.command {
        IdentityCommand::Root { command: RootCommand::Reset(args) } => {
            let (access_key, secret, password) =
                identities(&args.reach, |identities| identities.reset_root().map_err(failed))?;
            output.people(format!(
                "access key  {access_key}\nsecret      {}\npassword    {}\nThey are not shown again; what root had before lets nobody in.",
                secret.expose(),
                password.expose()
            ))?;
            output.json(&json!({
                "type": "root", "access_key": access_key, "secret": secret.expose(), "password": password.expose(),
            }))
        }
        IdentityCommand::SealingKey { command } => match command {
            SealingCommand::Make(args) => sealing::make(&args.reach, output),
            SealingCommand::Rotate(args) => sealing::rotate(&args.reach, output),
            SealingCommand::Forget(args) => sealing::forget(&args.reach, output),
        },
        IdentityCommand::PublicAccess { command: PublicAccessCommand::Show(args) } => {
            public_access(&args.reach, None, output)
        }
        IdentityCommand::PublicAccess { command: PublicAccessCommand::Set { state, reach } } => {
            public_access(reach, Some(*state), output)
        }
        IdentityCommand::Policy { command: NamedPolicyCommand::Show(of) } => {
            identities(&of.reach, |identities| tell(&identities.policy(&of.name).map_err(failed)?, output))
        }
        IdentityCommand::Policy { command: NamedPolicyCommand::Set { of, file } } => {
            set_named_policy(of, Some(read_text(file)?), output)
        }
        IdentityCommand::Policy { command: NamedPolicyCommand::Rm(of) } => set_named_policy(of, None, output),
    }
}

fn public_access(reach: &TargetArgs, state: Option<Switch>, output: Output) -> Outcome {
    let is_on = identities(reach, |identities| {
        if let Some(state) = state {
            identities.set_public_access(state == Switch::On).wait().map_err(failed)?;
        }
        identities.public_access().map_err(failed)
    })?;
    output.people(format!("public access is {}", if is_on { "on" } else { "off" }))?;
    output.json(&json!({ "type": "public_access", "on": is_on }))
}

fn set_named_policy(of: &PolicyName, document: Option<String>, output: Output) -> Outcome {
    identities(&of.reach, |identities| identities.set_policy(&of.name, document.as_deref()).wait().map_err(failed))?;
    policy_changed(&format!("the policy {}", printable(&of.name)), document.is_none(), output)
}
