//! `koine group` and `koine bucket`: who is together, and whose buckets are.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use koine::object::{BucketPage, BucketQuery, GroupChange, GroupInfo, NameQuery, Whose};
use serde_json::json;

use super::users::{QuotaArgs, identities, names, read_text, show_usage};
use super::versions::{VersioningCommand, versioning};
use super::{ObjectUrl, explain, in_store, look_in_store, settings};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::target::{TargetArgs, failed, rfc3339};

const GROUP_EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  koine group add lab --description 'who works with the microscope'
  koine group join lab grace                    grace is a member too; her home group stays
  koine group set lab --quota-bytes 1TiB        what its buckets may hold together; koine group info tells what they do
  koine group rm lab                            with its users, its buckets and all that they hold";

const BUCKET_EXAMPLES: &str = "Examples:
  koine bucket owner set koine://photos ada     ada owns it, and her home group has it
  koine bucket policy set koine://photos policy.json
  koine bucket policy rm koine://photos
  koine bucket explain koine://photos/a.jpg s3:GetObject --user ada    whether she may, and what decides
  koine bucket set koine://photos --tag team=lab --quota-bytes 10GiB --access-times off
  koine bucket index add koine://photos --metadata camera    see koine search
  koine bucket versioning set koine://photos enabled    what is put over or deleted stays readable: koine ls --versions";

/// The options of `koine group`.
#[derive(Args, Debug)]
#[command(after_help = GROUP_EXAMPLES)]
pub struct GroupArgs {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Subcommand, Debug)]
enum GroupCommand {
    /// Make a group.
    Add(GroupAddArgs),
    /// Delete a group with its users, its buckets and all that they hold.
    Rm(GroupRemoveArgs),
    /// List groups.
    Ls(IdentityTargetArgs),
    /// What is known of a group, and what its buckets hold.
    Info(GroupName),
    /// Change a group.
    Set(GroupSetArgs),
    /// Make a user a member of one more group.
    Join(MemberArgs),
    /// Take a user out of a group that is not its home.
    Leave(MemberArgs),
}

#[derive(Args, Debug)]
pub(super) struct IdentityTargetArgs {
    #[command(flatten)]
    pub(super) reach: TargetArgs,
}

#[derive(Args, Debug)]
struct GroupRemoveArgs {
    #[command(flatten)]
    name: GroupName,
    /// Do not ask: its buckets go with all that they hold.
    #[arg(long)]
    yes: bool,
}

#[derive(Args, Debug)]
struct GroupName {
    /// The group.
    #[arg(value_name = "GROUP")]
    group: String,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct GroupAddArgs {
    #[command(flatten)]
    name: GroupName,
    /// What it is for.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
}

#[derive(Args, Debug)]
struct GroupSetArgs {
    #[command(flatten)]
    name: GroupName,
    /// Another name.
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The policies of its members, with commas between; empty takes all away.
    #[arg(long, value_name = "POLICIES")]
    policies: Option<String>,
    #[command(flatten)]
    quota: QuotaArgs,
}

#[derive(Args, Debug)]
struct MemberArgs {
    #[command(flatten)]
    name: GroupName,
    /// The user.
    #[arg(value_name = "USER")]
    user: String,
    /// May make and remove the group's users, keys and buckets.
    #[arg(long)]
    administrator: bool,
}

/// The options of `koine bucket`.
#[derive(Args, Debug)]
#[command(after_help = BUCKET_EXAMPLES)]
pub struct BucketArgs {
    #[command(subcommand)]
    command: BucketCommand,
}

#[derive(Subcommand, Debug)]
enum BucketCommand {
    /// Who owns a bucket: show it, or give it to somebody.
    Owner {
        #[command(subcommand)]
        command: OwnerCommand,
    },
    /// A bucket's policy: show, set or remove it.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Whether somebody may do something to a bucket or an object, and what decides. For administrators.
    Explain(explain::ExplainArgs),
    /// Whether a bucket keeps every object that is put under a name: show or set it.
    Versioning {
        #[command(subcommand)]
        command: VersioningCommand,
    },
    /// Set metadata, tags, quotas, and whether access times are kept.
    Set(settings::BucketSetArgs),
    /// Indexes, by which objects are found by metadata and tags: add, list and take away.
    Index(settings::IndexArgs),
}

#[derive(Subcommand, Debug)]
enum OwnerCommand {
    /// Show who owns a bucket.
    Show(BucketNameArgs),
    /// Give a bucket to a user.
    Set {
        #[command(flatten)]
        of: BucketNameArgs,
        /// The new owner.
        #[arg(value_name = "USER")]
        owner: String,
        /// The new group, where it is not the owner's home.
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
enum PolicyCommand {
    /// Show the policy of a bucket.
    Show(BucketNameArgs),
    /// Set the policy of a bucket.
    Set {
        #[command(flatten)]
        of: BucketNameArgs,
        /// The policy in JSON; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove the policy of a bucket.
    Rm(BucketNameArgs),
}

#[derive(Args, Debug)]
pub(crate) struct BucketNameArgs {
    /// koine://BUCKET.
    #[arg(value_name = "BUCKET")]
    pub(crate) bucket: String,
    #[command(flatten)]
    pub(crate) reach: TargetArgs,
}

fn remove(GroupRemoveArgs { name, yes }: &GroupRemoveArgs, output: Output) -> Outcome {
    if !yes {
        let query = BucketQuery { group: Some(name.group.clone()), limit: 1000, ..BucketQuery::default() };
        let held = look_in_store(&name.reach, &[], |store| store.objects().list_buckets(&query).map_err(failed))?;
        confirm(&name.group, &held, output)?;
    }
    let gone = identities(&name.reach, |identities| identities.delete_group(&name.group).map_err(failed))?;
    let group = printable(&name.group);
    output.people(format!("removed the group {group} with {} buckets and {} users", gone.buckets, gone.users))?;
    output.json(&json!({ "type": "removed", "group": name.group, "buckets": gone.buckets, "users": gone.users }))
}

/// Asks before buckets go with a group; where nobody can be asked it is refused.
fn confirm(group: &str, held: &BucketPage, output: Output) -> Outcome {
    let Some(first) = held.buckets.first() else {
        return Ok(());
    };
    let more = if held.next.is_some() { " or more" } else { "" };
    let what = format!(
        "with the group {group:?} go {}{more} buckets and all that they hold, {:?} among them",
        held.buckets.len(),
        first.name
    );
    if !output.is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{what}; add --yes to confirm")));
    }
    eprint!("{what}. Delete them? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| Failure::io("standard input", &error))?;
    if answer.trim().eq_ignore_ascii_case("y") { Ok(()) } else { Err(Failure::failed("nothing was deleted")) }
}

/// Runs `koine group`.
pub fn run(args: &GroupArgs, output: Output) -> Outcome {
    match &args.command {
        GroupCommand::Add(GroupAddArgs { name, description }) => {
            let made = identities(&name.reach, |identities| {
                identities.create_group(&name.group, description).wait().map_err(failed)
            })?;
            show(&made, output)
        }
        GroupCommand::Rm(args) => remove(args, output),
        GroupCommand::Ls(args) => list(args, output),
        GroupCommand::Info(args) => {
            let (info, usage) = identities(&args.reach, |identities| {
                let usage = identities.usage(Whose::Group(&args.group)).map_err(failed)?;
                Ok((identities.group(&args.group).map_err(failed)?, usage))
            })?;
            show(&info, output)?;
            show_usage(&info.name, &usage, (info.quota_bytes, info.quota_objects), output)
        }
        GroupCommand::Set(args) => {
            let (quota_bytes, quota_objects) = args.quota.change();
            let change = GroupChange {
                quota_bytes,
                quota_objects,
                name: args.rename.clone(),
                description: args.description.clone(),
                policies: args.policies.as_deref().map(names),
            };
            if change == GroupChange::default() {
                return Err(Failure::usage("nothing to change; see koine group set --help"));
            }
            let info = identities(&args.name.reach, |identities| {
                identities.set_group(&args.name.group, change).wait().map_err(failed)
            })?;
            show(&info, output)
        }
        GroupCommand::Join(args) => identities(&args.name.reach, |identities| {
            identities.add_member(&args.name.group, &args.user, args.administrator).wait().map_err(failed)?;
            member("joined", "is a member of", args, output)
        }),
        GroupCommand::Leave(args) => identities(&args.name.reach, |identities| {
            identities.remove_member(&args.name.group, &args.user).wait().map_err(failed)?;
            member("left", "is no longer a member of", args, output)
        }),
    }
}

fn member(kind: &str, now: &str, args: &MemberArgs, output: Output) -> Outcome {
    let (group, user) = (&args.name.group, &args.user);
    let text = format!("{} {now} {}", printable(user), printable(group));
    output.done(text, &json!({ "type": kind, "group": group, "user": user }))
}

fn list(args: &IdentityTargetArgs, output: Output) -> Outcome {
    identities(&args.reach, |identities| {
        let mut query = NameQuery::default();
        loop {
            let page = identities.groups(&query).map_err(failed)?;
            page.groups.iter().try_for_each(|group| show(group, output))?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(()),
            }
        }
    })
}

fn show(group: &GroupInfo, output: Output) -> Outcome {
    output.people(format!("{:24} {}", printable(&group.name), printable(&group.description)))?;
    output.json(&json!({
        "type": "group", "name": group.name, "id": format!("{:016x}", group.id), "description": group.description,
        "policies": group.policies, "being_deleted": group.being_deleted, "created": rfc3339(group.created),
        "quota_bytes": group.quota_bytes, "quota_objects": group.quota_objects,
    }))
}

/// Runs `koine bucket`.
pub fn bucket(args: &BucketArgs, output: Output) -> Outcome {
    match &args.command {
        BucketCommand::Owner { command: OwnerCommand::Show(of) } => owner(of, None, output),
        BucketCommand::Owner { command: OwnerCommand::Set { of, owner: to, group } } => {
            owner(of, Some((to, group.as_deref())), output)
        }
        BucketCommand::Explain(args) => explain::run(args, output),
        BucketCommand::Versioning { command } => versioning(command, output),
        BucketCommand::Set(args) => settings::set(args, output),
        BucketCommand::Index(args) => settings::index(args, output),
        BucketCommand::Policy { command: PolicyCommand::Show(of) } => {
            let named = ObjectUrl::bucket(&of.bucket)?;
            in_store(&of.reach, &[&named], |store| {
                tell(&store.objects().identities().bucket_policy(&named.bucket).map_err(failed)?, output)
            })
        }
        BucketCommand::Policy { command: PolicyCommand::Set { of, file } } => {
            set_policy(of, Some(read_text(file)?), output)
        }
        BucketCommand::Policy { command: PolicyCommand::Rm(of) } => set_policy(of, None, output),
    }
}

fn owner(of: &BucketNameArgs, to: Option<(&String, Option<&str>)>, output: Output) -> Outcome {
    let named = ObjectUrl::bucket(&of.bucket)?;
    let (owner, group) = in_store(&of.reach, &[&named], |store| {
        let identities = store.objects().identities();
        if let Some((owner, group)) = to {
            identities.change_owner(&named.bucket, owner, group).wait().map_err(failed)?;
        }
        identities.owner(&named.bucket).map_err(failed)
    })?;
    output.people(format!("{}  owner {}, group {}", named.bucket, printable(&owner), printable(&group)))?;
    output.json(&json!({ "type": "bucket", "bucket": named.bucket, "owner": owner, "group": group }))
}

fn set_policy(of: &BucketNameArgs, document: Option<String>, output: Output) -> Outcome {
    let named = ObjectUrl::bucket(&of.bucket)?;
    in_store(&of.reach, &[&named], |store| {
        let set = store.objects().identities().set_bucket_policy(&named.bucket, document.as_deref());
        set.wait().map_err(failed)
    })?;
    policy_changed(&format!("the policy of koine://{}", named.bucket), document.is_none(), output)
}

pub(super) fn policy_changed(what: &str, removed: bool, output: Output) -> Outcome {
    let word = if removed { "removed" } else { "set" };
    output.done(format!("{word} {what}"), &json!({ "type": word, "what": what }))
}

/// A policy, as it is or as a value.
pub(super) fn tell(document: &str, output: Output) -> Outcome {
    output.people(document)?;
    output.json(&serde_json::from_str(document).unwrap_or_default())
}
