//! `koine salvage`: copies out of a damaged store what can be proven.

mod folder;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use koine::{LostObject, Origin, SalvageOptions, SalvageProgress, SalvageReport, Salvaged};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine salvage damaged.koine --to new.koine         then: koine check new.koine; koine serve new.koine
  koine salvage damaged.koine --to files/            the objects as files, a folder for each bucket
  koine salvage /dev/sdx1 --to /mnt/new.koine --json > report.json

The damaged store is only read; the new store is made and must not hold anything. What goes into it matched its checksums.
Everything that is missing is told: keys of which bytes are lost (left out, unless --partial is given), keys of which
nothing is known, commits that the log has lost. When both superblocks are lost, the index is found by looking at
every block. A folder gets objects only (no metadata, nothing but buckets) and needs room for them twice. Exit code 0: nothing is missing, 1: something is, or nothing could be done.";

/// So many of each kind are told to people; --json tells all.
const TOLD_MAX: usize = 50;

/// The options of `koine salvage`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SalvageArgs {
    /// The damaged store: a file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// The new store: a file that is not there yet, or an empty device. Or a folder, new or empty: with a slash at its end.
    #[arg(long, value_name = "NEW_STORE_OR_FOLDER/")]
    to: PathBuf,
    /// Keep values of which bytes are lost, with zeros in their place.
    #[arg(long)]
    partial: bool,
    /// Up to what the new store may grow, where it is a file [default: as far as the disk allows].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// The block size of the new store: see `koine format` [default: 4KiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block_size: Option<u64>,
}

/// Runs `koine salvage`.
pub fn run(args: &SalvageArgs, output: Output) -> Outcome {
    if !folder::is_folder(&args.to) {
        let salvaged = copy(args, &args.to, output)?;
        return tell_all(args, &salvaged, &[], output);
    }
    let between = folder::begin(&args.to)?;
    let salvaged = copy(args, &between, output)?;
    let problems = folder::finish(&args.to, &salvaged, args.partial)?;
    tell_all(args, &salvaged, &problems, output)
}

/// Into a new store, with a bar.
fn copy(args: &SalvageArgs, to: &Path, output: Output) -> Outcome<Salvaged> {
    let options = SalvageOptions { keep_partial: args.partial, size_max: args.size, block_size: args.block_size };
    let bar = output.bytes_bar(0, "reading the index");
    bar.enable_steady_tick(Duration::from_millis(200));
    let salvaged = koine::salvage(&args.store, to, &options, &mut |progress| match progress {
        SalvageProgress::Looking(done, total) => {
            bar.set_message("looking for index nodes");
            bar.set_length(total);
            bar.set_position(done);
        }
        SalvageProgress::Copying(keys, bytes) => {
            if keys.is_multiple_of(64) {
                bar.set_message(format!("copying, {keys} keys"));
            }
            bar.set_length(bytes);
            bar.set_position(bytes);
        }
    });
    bar.finish_and_clear();
    Ok(salvaged?)
}

/// Tells what came of it; `problems` are objects that could not be written as files.
fn tell_all(args: &SalvageArgs, salvaged: &Salvaged, problems: &[String], output: Output) -> Outcome {
    let mut value = as_json(args, salvaged);
    if let Some(object) = value.as_object_mut() {
        object.insert("not_written".to_owned(), json!(problems));
    }
    output.json(&value)?;
    output.people(tell(args, salvaged))?;
    let mut lines = Vec::new();
    several(&mut lines, problems, |problem| format!("  not written: {problem}"));
    if !lines.is_empty() {
        output.people(printable_lines(&lines))?;
    }
    if salvaged.report.is_whole() && problems.is_empty() {
        let next = if folder::is_folder(&args.to) {
            String::new()
        } else {
            format!("; next: koine check {}", args.to.display())
        };
        return output.people(format!("nothing is missing{next}"));
    }
    Err(Failure::failed(format!("{} has what could be proven; something is missing (see above)", args.to.display())))
}

fn tell(args: &SalvageArgs, salvaged: &Salvaged) -> String {
    let report = &salvaged.report;
    let found = match report.origin {
        Origin::NewestSuperblock => "by its newest superblock",
        Origin::OlderSuperblock => "by its older superblock, and the log since",
        Origin::LogAlone => "without a superblock and without an index, by the log since its first commit",
        Origin::RootFound => "without a superblock, by looking at every block, and by the log",
        Origin::SpacesFound => {
            "without a superblock or a tree of spaces: each space as it was at the newest checkpoint that was found of \
             it; dropped ones may be among them"
        }
    };
    let mut lines = vec![
        format!("the store {:016x} was read {found}", report.store_id),
        format!(
            "copied {} keys in {} spaces, {}, as they were after commit {} ({} commits came from the log)",
            report.keys_whole,
            report.spaces,
            size::show(report.data_len),
            report.version.0,
            report.commits_replayed
        ),
    ];
    if let Some((first, last)) = report.commits_lost {
        lines.push(format!("  lost: up to {} commits, {} to {}", last.0 - first.0 + 1, first.0, last.0));
    }
    if salvaged.objects_whole > 0 || !salvaged.objects_lost.is_empty() {
        lines.push(format!("in buckets: {} objects with all their bytes", salvaged.objects_whole));
    }
    several(&mut lines, &salvaged.objects_lost, |object| {
        let LostObject { bucket, key, size, lost } = object;
        match lost.as_slice() {
            lost if args.partial && !lost.is_empty() => {
                format!("  bytes lost, zeros in their place: {bucket}/{key} ({}): {}", size::show(*size), ranges(lost))
            }
            [] => format!("  lost but for its name: {bucket}/{key} ({})", size::show(*size)),
            lost => {
                format!("  left out but for its name: {bucket}/{key} ({}), lost: {}", size::show(*size), ranges(lost))
            }
        }
    });
    if salvaged.objects_lost.is_empty() {
        // Keys of the engine, for stores that hold no objects; --json tells them always.
        let fate = if args.partial { "zeros in their place" } else { "left out" };
        several(&mut lines, &report.partial, |partial| {
            let (at, size) = (&partial.at, size::show(partial.size));
            let lost = ranges(&partial.lost);
            format!("  bytes lost, {fate}: space {}, key {:?} ({size}): {lost}", at.space.0, at.key)
        });
    }
    several(&mut lines, &report.keys_unknown, |at| {
        format!("  lost: space {}, key {:?}, if it was still there", at.space.0, at.key)
    });
    several(&mut lines, &report.keys_lost, |lost| {
        let end = lost.end.as_ref().map_or_else(|| "the end".to_owned(), |end| format!("below {end:?}"));
        format!("  lost: space {}, keys from {:?} to {end}: {}", lost.space.0, lost.from, lost.reason)
    });
    if report.values_without_key > 0 {
        lines.push(format!("  among these keys are {} with large values", report.values_without_key));
    }
    several(&mut lines, &report.spaces_lost, |(from, end)| match end {
        Some(end) => format!("  lost: spaces with ids from {} to below {}, if there were any", from.0, end.0),
        None => format!("  lost: spaces with ids from {} on that are not among these, if there were any", from.0),
    });
    several(&mut lines, &report.complaints, |complaint| format!("  damaged: {complaint}"));
    printable_lines(&lines)
}

/// Where bytes are lost, as people read it.
fn ranges(lost: &[(u64, u64)]) -> String {
    let told: Vec<String> = lost.iter().take(4).map(|(from, to)| format!("bytes {from} to {to}")).collect();
    let more = if lost.len() > 4 { format!(" and {} more places", lost.len() - 4) } else { String::new() };
    told.join(", ") + &more
}

/// Each line made safe for a terminal.
fn printable_lines(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| printable(line)).collect();
    lines.join("\n")
}

fn several<T>(lines: &mut Vec<String>, items: &[T], tell: impl Fn(&T) -> String) {
    lines.extend(items.iter().take(TOLD_MAX).map(tell));
    if items.len() > TOLD_MAX {
        lines.push(format!("  … and {} more of these; --json tells all", items.len() - TOLD_MAX));
    }
}

fn as_json(args: &SalvageArgs, salvaged: &Salvaged) -> Value {
    let report: &SalvageReport = &salvaged.report;
    let objects_lost: Vec<Value> = salvaged
        .objects_lost
        .iter()
        .map(|lost| json!({ "bucket": lost.bucket, "key": lost.key, "size": lost.size, "lost": lost.lost }))
        .collect();
    let key = |key: &[u8]| String::from_utf8(key.to_vec()).ok();
    let place = |at: &koine::kv::Place| json!({ "space": at.space.0.to_string(), "key": key(&at.key), "key_hex": hex(&at.key) });
    let partial: Vec<Value> = report
        .partial
        .iter()
        .map(|value| json!({ "at": place(&value.at), "size": value.size, "lost": value.lost }))
        .collect();
    let keys_lost: Vec<Value> = report
        .keys_lost
        .iter()
        .map(|lost| {
            json!({
                "space": lost.space.0.to_string(), "from": key(&lost.from), "from_hex": hex(&lost.from),
                "end": lost.end.as_deref().and_then(key), "end_hex": lost.end.as_deref().map(hex),
                "reason": lost.reason,
            })
        })
        .collect();
    json!({
        "type": "salvaged", "store": args.store.display().to_string(), "to": args.to.display().to_string(),
        "whole": report.is_whole(), "id": format!("{:016x}", report.store_id),
        "origin": match report.origin {
            Origin::NewestSuperblock => "newest superblock",
            Origin::OlderSuperblock => "older superblock",
            Origin::LogAlone => "log alone",
            Origin::RootFound => "root found",
            Origin::SpacesFound => "spaces found",
        },
        "version": report.version.0, "log_commits": report.commits_replayed,
        "commits_lost": report.commits_lost.map(|(first, last)| [first.0, last.0]),
        "spaces": report.spaces, "keys_whole": report.keys_whole, "data_bytes": report.data_len,
        "objects_whole": salvaged.objects_whole, "objects_lost": objects_lost,
        "partial": partial, "partial_kept": args.partial,
        "keys_unknown": report.keys_unknown.iter().map(place).collect::<Vec<Value>>(),
        "keys_lost": keys_lost, "values_without_key": report.values_without_key,
        "spaces_lost": report.spaces_lost.iter().map(|(from, end)| json!([from.0.to_string(), end.map(|end| end.0.to_string())]))
            .collect::<Vec<Value>>(),
        "complaints": report.complaints,
    })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
