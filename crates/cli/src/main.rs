//! The program `koine`.

mod alias;
mod allocator;
mod bench;
mod byte_range;
mod check;
mod client;
mod collect;
mod copy;
mod cp;
mod defrag;
mod du;
mod failure;
mod find;
mod format;
mod grow;
mod kv;
mod location;
mod ls;
mod man;
mod moment;
mod node;
mod object;
mod output;
mod pattern;
mod remote;
mod resume;
mod salvage;
mod scrub;
mod secret;
mod serve;
mod share;
mod size;
mod spaces;
mod stat;
mod store_path;
mod stream;
mod sync;
mod target;
mod targets;
mod trim;
mod upgrade;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{EXIT_CODES, Outcome};
use output::Output;

/// One store that speaks S3, in one file or on one device.
#[derive(Parser, Debug)]
#[command(name = "koine", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Program {
    /// Results as JSON, one value a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve a store over S3.
    Serve(serve::ServeArgs),
    /// Serve one part of a store that spans machines.
    Node(node::NodeArgs),
    /// Make a store on a file or a device.
    Format(format::FormatArgs),
    /// Use space that was added to a device, or change the limit up to which a file may grow.
    Grow(grow::GrowArgs),
    /// Upgrade a store of an older format to the format of this program.
    Upgrade(upgrade::UpgradeArgs),
    /// Rewrite scattered values in a few large pieces.
    Defrag(defrag::DefragArgs),
    /// Give free space back to the device or the file system.
    Trim(trim::TrimArgs),
    /// List spaces; make and drop snapshots and clones of them.
    Spaces(spaces::SpacesArgs),
    /// Write all of a store, or some of its spaces, as a stream: one version of everything.
    Export(stream::ExportArgs),
    /// Write a bucket as a stream, whole or against an older snapshot of it.
    Send(stream::SendArgs),
    /// Read a stream back into a store.
    Receive(stream::ReceiveArgs),
    /// Read and verify everything a store holds.
    Check(check::CheckArgs),
    /// Verify the checksums of a store at a limited rate; goes on where it was stopped.
    Scrub(scrub::ScrubArgs),
    /// Copy what can be proven out of a damaged store into a new one.
    Salvage(salvage::SalvageArgs),
    /// Remove what no name leads to any more, and say what it was.
    Collect(collect::CollectArgs),
    /// Show what a store is and how full it is.
    Stat(stat::StatArgs),
    /// Keys and values: get, put, del, scan, copy, rename, batch, stat.
    Kv(kv::KvArgs),
    /// Copy a whole store to another, wherever the two are.
    Copy(copy::StoreCopyArgs),
    /// Names for S3 servers: set, list and remove them.
    Alias(alias::AliasArgs),
    /// List buckets, objects, or a local folder.
    Ls(ls::LsArgs),
    /// Copy between local files, stores and S3 servers.
    Cp(cp::CpArgs),
    /// Make a folder, a bucket or a part of one like another; between folders, stores and servers.
    #[command(visible_alias = "mirror")]
    Sync(sync::SyncArgs),
    /// Show what koine sync would find different.
    Diff(sync::diff::DiffArgs),
    /// Move or rename objects.
    Mv(object::mv::MvArgs),
    /// Swap two objects.
    Exchange(object::mv::ExchangeArgs),
    /// Append to an object.
    Append(object::edit::AppendArgs),
    /// Make an object shorter or longer.
    Truncate(object::edit::TruncateArgs),
    /// Make one object of several, without copying their bytes.
    Compose(object::set::ComposeArgs),
    /// Set metadata, tags, type, permission bits or time of an object.
    Set(object::set::SetArgs),
    /// Snapshots of buckets: create, list, restore and remove them.
    Snapshot(object::snapshot::SnapshotArgs),
    /// Make a bucket that begins as a copy of another, without copying its bytes.
    Branch(object::snapshot::BranchArgs),
    /// Make buckets.
    Mb(object::bucket::BucketMakeArgs),
    /// Remove buckets.
    Rb(object::bucket::BucketRemoveArgs),
    /// Delete objects.
    Rm(object::rm::RmArgs),
    /// Uploads in parts: begin, fill, complete, abort, list.
    Multipart(object::multipart::MultipartArgs),
    /// Users: make, change and delete; passwords, keys and tokens.
    User(object::users::UserArgs),
    /// Groups of users: make, change and delete.
    Group(object::groups::GroupArgs),
    /// Owner, policy, versioning, settings and indexes of buckets.
    Bucket(object::groups::BucketArgs),
    /// Policies, public access, the keys that seal secrets, and a way back for root.
    Identity(object::identity::IdentityArgs),
    /// Show how many bytes and objects are in buckets, prefixes and folders.
    Du(du::DuArgs),
    /// List objects and files by name, size and time.
    Find(find::FindArgs),
    /// Make an address by which an object can be read or written without keys, for a while.
    Share(share::ShareArgs),
    /// Find objects by their metadata or tags.
    Search(object::search::SearchArgs),
    /// Write the bytes of objects to standard output.
    Cat(object::cat::CatArgs),
    /// Show what is known about a bucket or an object.
    Info(object::info::InfoArgs),
    /// Measure Koine beside other servers and stores.
    Bench(bench::BenchArgs),
    /// Write the manual pages of this program.
    Man(man::ManArgs),
}

fn main() -> ExitCode {
    allocator::set_up();
    let program = Program::parse();
    let output = Output::new(program.json);
    match run(&program.command, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::Serve(args) => serve::run(args, output),
        Command::Node(args) => node::run(args, output),
        Command::Format(args) => format::run(args, output),
        Command::Grow(args) => grow::run(args, output),
        Command::Upgrade(args) => upgrade::run(args, output),
        Command::Defrag(args) => defrag::run(args, output),
        Command::Trim(args) => trim::run(args, output),
        Command::Spaces(args) => spaces::run(args, output),
        Command::Export(args) => stream::export(args, output),
        Command::Send(args) => stream::send(args, output),
        Command::Receive(args) => stream::receive(args, output),
        Command::Check(args) => check::run(args, output),
        Command::Scrub(args) => scrub::run(args, output),
        Command::Salvage(args) => salvage::run(args, output),
        Command::Collect(args) => collect::run(args, output),
        Command::Stat(args) => stat::run(args, output),
        Command::Kv(args) => kv::run(args, output),
        Command::Copy(args) => copy::run(args, output),
        Command::Alias(args) => alias::run(args, output),
        Command::Ls(args) => ls::run(args, output),
        Command::Cp(args) => cp::run(args, output),
        Command::Sync(args) => sync::run(args, output),
        Command::Diff(args) => sync::diff::run(args, output),
        Command::Mv(args) => object::mv::run(args, output),
        Command::Exchange(args) => object::mv::exchange(args, output),
        Command::Append(args) => object::edit::append(args, output),
        Command::Truncate(args) => object::edit::truncate(args, output),
        Command::Compose(args) => object::set::compose(args, output),
        Command::Set(args) => object::set::set(args, output),
        Command::Snapshot(args) => object::snapshot::run(args, output),
        Command::Branch(args) => object::snapshot::branch(args, output),
        Command::Mb(args) => object::bucket::make(args, output),
        Command::Rb(args) => object::bucket::remove(args, output),
        Command::Rm(args) => object::rm::run(args, output),
        Command::Multipart(args) => object::multipart::run(args, output),
        Command::User(args) => object::users::run(args, output),
        Command::Group(args) => object::groups::run(args, output),
        Command::Bucket(args) => object::groups::bucket(args, output),
        Command::Identity(args) => object::identity::run(args, output),
        Command::Du(args) => du::run(args, output),
        Command::Find(args) => find::run(args, output),
        Command::Share(args) => share::run(args, output),
        Command::Search(args) => object::search::run(args, output),
        Command::Cat(args) => object::cat::run(args, output),
        Command::Info(args) => object::info::run(args, output),
        Command::Man(args) => man::run(args, <Program as clap::CommandFactory>::command(), output),
        Command::Bench(args) => bench::run(args, output.is_json()),
    }
}
