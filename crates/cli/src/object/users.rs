//! `koine user`: users of a store, their passwords, keys and tokens.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use koine::object::{
    BucketUsage, Identities, KeyOptions, Secret, Token, UserChange, UserInfo, UserQuery, UserState, Whose,
};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::secret::read_secret;
use crate::size::{self, Limit};
use crate::target::{TargetArgs, failed, rfc3339};

const EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  koine group add lab && koine user add ada --group lab
  koine user key add ada                        a key for S3: access key and secret, shown this once
  koine user passwd ada --password-file -       a password, from standard input
  koine user login ada --password-file -        a token, good for 12 hours
  koine user token ls ada                       her tokens by id; koine user token rm ada ID takes one back
  koine user set ada --disable                  lets her in no more; --enable does again
  koine user set ada --quota-bytes 10GiB        what her buckets may hold together; koine user info tells what they do";

/// How long a token is good for unless told otherwise, in hours.
const LIFE_HOURS: u64 = 12;

/// The options of `koine user`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand, Debug)]
enum UserCommand {
    /// Make a user in its home group.
    Add(UserAddArgs),
    /// Delete a user with its keys and tokens. Its buckets are given away first.
    Rm(UserName),
    /// List users, or those of a group.
    Ls(ListArgs),
    /// What is known of a user.
    Info(UserName),
    /// Change a user.
    Set(UserSetArgs),
    /// Set a user's password, and take its tokens back.
    Passwd(PasswdArgs),
    /// Access keys for S3: make, list, delete.
    Key(KeyArgs),
    /// Tokens: list, take back.
    Token(TokenArgs),
    /// Get a token for a name and a password.
    Login(LoginArgs),
    /// Take a token back.
    Logout(LogoutArgs),
}

#[derive(Args, Debug)]
struct UserName {
    /// The user.
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct UserAddArgs {
    #[command(flatten)]
    name: UserName,
    /// The group that takes it along when it is deleted.
    #[arg(long, value_name = "GROUP")]
    group: String,
    /// Where its password is; `-` is standard input. Without one it has keys alone.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Members of this group alone.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct UserSetArgs {
    #[command(flatten)]
    name: UserName,
    /// Another name.
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    /// Let it in.
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Let it in no more.
    #[arg(long)]
    disable: bool,
    /// Whether it is an administrator of the store.
    #[arg(long, value_name = "BOOL")]
    administrator: Option<bool>,
    /// The policies that it has, with commas between; empty takes all away.
    #[arg(long, value_name = "POLICIES")]
    policies: Option<String>,
    /// A user of this machine that it is.
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    #[command(flatten)]
    quota: QuotaArgs,
}

/// How much the buckets of a user or of a group may hold together.
#[derive(Args, Debug)]
pub(super) struct QuotaArgs {
    /// The most bytes that its buckets may hold together, such as 10GiB; `none` is no limit.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_limit)]
    quota_bytes: Option<Limit>,
    /// The most objects that its buckets may hold together; `none` is no limit.
    #[arg(long, value_name = "COUNT", value_parser = size::parse_limit)]
    quota_objects: Option<Limit>,
}

impl QuotaArgs {
    /// Bytes and objects as a change has them.
    pub fn change(&self) -> (Option<Option<u64>>, Option<Option<u64>>) {
        (self.quota_bytes.map(|limit| limit.0), self.quota_objects.map(|limit| limit.0))
    }
}

#[derive(Args, Debug)]
struct PasswordArgs {
    #[command(flatten)]
    name: UserName,
    /// Where the password is; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
}

#[derive(Args, Debug)]
struct PasswdArgs {
    #[command(flatten)]
    password: PasswordArgs,
    /// Where the old password is: needed by users who change their own.
    #[arg(long, value_name = "FILE")]
    old_password_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    /// List a user's tokens by their ids.
    Ls(UserName),
    /// Take a token back by its id.
    Rm(TokenRemoveArgs),
}

#[derive(Args, Debug)]
struct TokenRemoveArgs {
    #[command(flatten)]
    name: UserName,
    /// The id, as `koine user token ls` shows it.
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Args, Debug)]
struct LoginArgs {
    #[command(flatten)]
    password: PasswordArgs,
    /// How long the token is good for.
    #[arg(long, value_name = "HOURS", default_value_t = LIFE_HOURS)]
    hours: u64,
}

#[derive(Args, Debug)]
struct LogoutArgs {
    /// Where the token is; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand, Debug)]
enum KeyCommand {
    /// Make a key; its secret is shown this once.
    Add(KeyAddArgs),
    /// List a user's keys.
    Ls(UserName),
    /// Delete a key.
    Rm(KeyRemoveArgs),
}

#[derive(Args, Debug)]
struct KeyAddArgs {
    #[command(flatten)]
    name: UserName,
    /// A key of one's own choice; its secret is in --secret-file.
    #[arg(long, value_name = "KEY", requires = "secret_file")]
    access_key: Option<String>,
    /// Where the secret of --access-key is; `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_file: Option<PathBuf>,
    /// For so many hours; without it until it is deleted.
    #[arg(long, value_name = "HOURS")]
    hours: Option<u64>,
    /// A policy in JSON that narrows what it may be used for.
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

#[derive(Args, Debug)]
struct KeyRemoveArgs {
    #[command(flatten)]
    name: UserName,
    /// The access key.
    #[arg(value_name = "KEY")]
    access_key: String,
}

/// Runs `koine user`.
pub fn run(args: &UserArgs, output: Output) -> Outcome {
    match &args.command {
        UserCommand::Add(args) => add(args, output),
        UserCommand::Rm(args) => identities(&args.reach, |identities| {
            identities.delete_user(&args.user).map_err(failed)?;
            let text = format!("removed the user {}", printable(&args.user));
            output.done(text, &json!({ "type": "removed", "user": args.user }))
        }),
        UserCommand::Ls(args) => list(args, output),
        UserCommand::Info(args) => {
            let (info, usage) = identities(&args.reach, |identities| {
                let usage = identities.usage(Whose::User(&args.user)).map_err(failed)?;
                Ok((identities.user(&args.user).map_err(failed)?, usage))
            })?;
            show(&info, output)?;
            show_usage(&info.name, &usage, (info.quota_bytes, info.quota_objects), output)
        }
        UserCommand::Set(args) => set(args, output),
        UserCommand::Passwd(args) => set_password(args, output),
        UserCommand::Token(args) => token(args, output),
        UserCommand::Key(args) => key(args, output),
        UserCommand::Login(args) => log_in(args, output),
        UserCommand::Logout(args) => {
            let token = Token::new(read_secret(&args.token_file)?);
            identities(&args.reach, |identities| identities.log_out(&token).wait().map_err(failed))?;
            output.done("took the token back", &json!({ "type": "removed", "token": null }))
        }
    }
}

/// Does something with the identities of a store.
pub(super) fn identities<T>(reach: &TargetArgs, act: impl FnOnce(&Identities) -> Outcome<T>) -> Outcome<T> {
    let store = reach.store()?;
    let done = act(&store.objects().identities());
    store.close()?;
    done
}

/// All of a file, as text.
pub(super) fn read_text(file: &Path) -> Outcome<String> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => io::stdin().lock().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| Failure::io(format!("cannot read {}", file.display()), &error))?;
    Ok(text)
}

/// Names with commas between.
pub(super) fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours.saturating_mul(3600))
}

fn add(args: &UserAddArgs, output: Output) -> Outcome {
    let password = args.password_file.as_deref().map(read_secret).transpose()?;
    let made = identities(&args.name.reach, |identities| {
        identities.create_user(&args.group, &args.name.user, password.as_deref()).map_err(failed)
    })?;
    show(&made, output)
}

fn list(args: &ListArgs, output: Output) -> Outcome {
    identities(&args.reach, |identities| {
        let mut query = UserQuery { group: args.group.clone(), ..UserQuery::default() };
        loop {
            let page = identities.users(&query).map_err(failed)?;
            page.users.iter().try_for_each(|user| show(user, output))?;
            match page.next {
                Some(next) => query.names.after = Some(next),
                None => return Ok(()),
            }
        }
    })
}

fn set(args: &UserSetArgs, output: Output) -> Outcome {
    let state = match (args.enable, args.disable) {
        (true, _) => Some(UserState::Live),
        (_, true) => Some(UserState::Disabled),
        _ => None,
    };
    let (quota_bytes, quota_objects) = args.quota.change();
    let change = UserChange {
        quota_bytes,
        quota_objects,
        name: args.rename.clone(),
        state,
        administrator: args.administrator,
        policies: args.policies.as_deref().map(names),
        uid: args.uid,
        ..UserChange::default()
    };
    if change == UserChange::default() {
        return Err(Failure::usage("nothing to change; see koine user set --help"));
    }
    let info =
        identities(&args.name.reach, |identities| identities.set_user(&args.name.user, change).wait().map_err(failed))?;
    show(&info, output)
}

fn show(user: &UserInfo, output: Output) -> Outcome {
    let state = match user.state {
        UserState::Live => "live",
        UserState::Disabled => "disabled",
        _ => "being deleted",
    };
    let mut groups = vec![user.group.clone()];
    groups.extend(user.groups.iter().cloned());
    let role = if user.administrator { ", administrator of the store" } else { "" };
    output.people(format!("{:24} {state}{role}  {}", printable(&user.name), printable(&groups.join(" "))))?;
    output.json(&json!({
        "type": "user", "name": user.name, "id": format!("{:016x}", user.id), "state": state, "group": user.group,
        "groups": groups, "policies": user.policies, "administrator": user.administrator,
        "has_password": user.has_password, "created": rfc3339(user.created), "quota_bytes": user.quota_bytes,
        "quota_objects": user.quota_objects,
    }))
}

/// What buckets hold together, and may hold.
pub(super) fn show_usage(
    name: &str,
    usage: &BucketUsage,
    (most_bytes, most_objects): (Option<u64>, Option<u64>),
    output: Output,
) -> Outcome {
    let bytes = usage.bytes + usage.older_bytes + usage.upload_bytes;
    let objects = usage.objects + usage.older;
    let of = |most: Option<String>| most.map_or_else(String::new, |most| format!(" of {most}"));
    output.people(format!(
        "its buckets hold {objects}{} objects, {}{}",
        of(most_objects.map(|most| most.to_string())),
        size::show(bytes),
        of(most_bytes.map(size::show))
    ))?;
    output.json(&json!({
        "type": "usage", "name": name, "objects": usage.objects, "bytes": usage.bytes, "older": usage.older,
        "older_bytes": usage.older_bytes, "upload_bytes": usage.upload_bytes, "quota_bytes": most_bytes,
        "quota_objects": most_objects,
    }))
}

fn key(args: &KeyArgs, output: Output) -> Outcome {
    match &args.command {
        KeyCommand::Add(args) => add_key(args, output),
        KeyCommand::Ls(args) => {
            let keys = identities(&args.reach, |identities| identities.keys_of(&args.user).map_err(failed))?;
            for key in keys {
                let until = key.expires.map(rfc3339);
                let shown = until.clone().unwrap_or_else(|| "until it is deleted".to_owned());
                let description = printable(key.description.as_deref().unwrap_or_default());
                output.people(format!("{}  {shown}  {description}", printable(&key.access_key)))?;
                output.json(&json!({
                    "type": "key", "user": args.user, "access_key": key.access_key, "created": rfc3339(key.created),
                    "expires": until, "disabled": key.disabled, "narrowed": key.narrowed,
                    "description": key.description,
                }))?;
            }
            Ok(())
        }
        KeyCommand::Rm(args) => identities(&args.name.reach, |identities| {
            identities.delete_key(&args.name.user, &args.access_key).wait().map_err(failed)?;
            let (user, key) = (&args.name.user, &args.access_key);
            let text = format!("removed the access key {} of {}", printable(key), printable(user));
            output.done(text, &json!({ "type": "removed", "user": user, "access_key": key }))
        }),
    }
}

fn set_password(args: &PasswdArgs, output: Output) -> Outcome {
    let PasswordArgs { name, password_file } = &args.password;
    let old = args.old_password_file.as_deref().map(read_secret).transpose()?;
    let password = read_secret(password_file)?;
    identities(&name.reach, |identities| {
        match &old {
            Some(old) => identities.change_password(&name.user, old, &password),
            None => identities.set_password(&name.user, &password),
        }
        .map_err(failed)?;
        let text = format!("changed the password of {}; its tokens were taken back", printable(&name.user));
        output.done(text, &json!({ "type": "changed", "user": name.user }))
    })
}

fn token(args: &TokenArgs, output: Output) -> Outcome {
    match &args.command {
        TokenCommand::Ls(args) => {
            for token in identities(&args.reach, |identities| identities.tokens_of(&args.user).map_err(failed))? {
                let (created, expires) = (rfc3339(token.created), rfc3339(token.expires));
                output.people(format!("{}  made {created}, good until {expires}", token.id))?;
                output.json(&json!({
                    "type": "token", "user": args.user, "id": token.id, "created": created, "expires": expires,
                }))?;
            }
            Ok(())
        }
        TokenCommand::Rm(args) => identities(&args.name.reach, |identities| {
            identities.delete_token(&args.name.user, &args.id).wait().map_err(failed)?;
            let text = format!("took the token {} of {} back", printable(&args.id), printable(&args.name.user));
            output.done(text, &json!({ "type": "removed", "user": args.name.user, "token": args.id }))
        }),
    }
}

fn add_key(args: &KeyAddArgs, output: Output) -> Outcome {
    let secret = args.secret_file.as_deref().map(read_secret).transpose()?;
    let options = KeyOptions {
        given: args.access_key.clone().zip(secret.map(Secret::new)),
        life: args.hours.map(hours),
        policy: args.policy_file.as_deref().map(read_text).transpose()?,
        description: args.description.clone(),
    };
    let (access_key, secret) = identities(&args.name.reach, |identities| {
        identities.create_key(&args.name.user, options).wait().map_err(failed)
    })?;
    output
        .people(format!("access key  {access_key}\nsecret      {}\nThe secret is not shown again.", secret.expose()))?;
    let value: Value =
        json!({ "type": "key", "user": args.name.user, "access_key": access_key, "secret": secret.expose() });
    output.json(&value)
}

fn log_in(args: &LoginArgs, output: Output) -> Outcome {
    let password = read_secret(&args.password.password_file)?;
    let login = identities(&args.password.name.reach, |identities| {
        identities.log_in(&args.password.name.user, &password, hours(args.hours)).map_err(failed)
    })?;
    output.people(login.token.expose())?;
    output.json(&json!({
        "type": "token", "user": login.user, "token": login.token.expose(), "expires": rfc3339(login.expires),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_commas_between() {
        assert_eq!(names(" a, b ,,c"), ["a", "b", "c"]);
        assert!(names("").is_empty());
    }
}
