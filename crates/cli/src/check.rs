//! `koine check`: reads and verifies everything a store holds.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use koine::Report;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::scrub;
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine check store.koine           exit code 0: sound, 1: unsound (what and where is told)
  koine check --json /dev/sdx1 | jq .sound
  koine check store.koine --repair  make the free list and the reference counts anew, if those alone are wrong

Every index node and every byte of data is read past the page cache and compared with its checksum;
keys with their order, values with their pieces, reference counts and free space with what names
them. Nothing is changed, and no server may hold the store (exit code 3 and its pid). With --repair a free list or a table of
reference counts that is damaged or wrong is made anew from what the index names, after everything else was found sound; nothing
else is mended.";

const BLOCK_LEN: u64 = 4096;

/// The options of `koine check`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Make the free list and the reference counts anew where those alone are wrong.
    #[arg(long)]
    repair: bool,
}

/// Runs `koine check`.
pub fn run(args: &CheckArgs, output: Output) -> Outcome {
    if args.repair {
        return repair(args, output);
    }
    let began = Instant::now();
    let store = koine::inspect(&args.store)?;
    let (recovered, block_len) = (store.info().recovered, store.info().block_len);
    let bar = output.bytes_bar(store.usage().used, &args.store.display().to_string());
    let report = store.check(&mut |progress| {
        bar.set_length(progress.blocks_total.max(progress.blocks_done) * BLOCK_LEN);
        bar.set_position(progress.blocks_done * BLOCK_LEN);
    });
    bar.finish_and_clear();
    let mut report = report?;
    let damaged = if report.is_sound() { Vec::new() } else { store.damage()? };
    let whose = store.whose(&damaged);
    let names = store.names();
    report.findings.iter_mut().for_each(|finding| *finding = names.beside_ids(finding));
    let told: Vec<serde_json::Value> =
        damaged.iter().zip(&whose).map(|(finding, whose)| scrub::finding_json(finding, whose.as_ref())).collect();
    output.json(&json!({
        "type": "checked", "store": args.store.display().to_string(), "sound": report.is_sound(),
        "block_size": block_len,
        "spaces": report.spaces, "keys": report.keys, "nodes": report.nodes, "pieces": report.pieces,
        "data_bytes": report.data_len, "blocks_shared": report.blocks_shared, "blocks_free": report.blocks_free,
        "log_commits": recovered.commits, "closed_in_order": recovered.clean, "findings": report.findings, "damaged": told,
    }))?;
    output.people(tell(&report, began.elapsed().as_secs_f64()))?;
    for (finding, whose) in damaged.iter().zip(&whose).filter(|(_, whose)| whose.is_some()) {
        output.people(format!("  whose it is: {}", scrub::tell(finding, whose.as_ref())))?;
    }
    if !recovered.clean {
        output.people(format!(
            "it was not closed in order: {} commits of the log were read with it, the next start keeps them",
            recovered.commits
        ))?;
    }
    if report.is_sound() {
        output.people(format!("{} is sound", args.store.display()))
    } else {
        Err(Failure::failed(format!(
            "{} is unsound: {} findings; what is damaged is refused when it is read, the rest can be copied out",
            args.store.display(),
            report.findings.len()
        )))
    }
}

fn repair(args: &CheckArgs, output: Output) -> Outcome {
    let began = Instant::now();
    let name = args.store.display().to_string();
    let bar = output.bytes_bar(0, &name);
    let repaired = koine::repair(&args.store, &mut |progress| {
        bar.set_length(progress.blocks_total.max(progress.blocks_done) * BLOCK_LEN);
        bar.set_position(progress.blocks_done * BLOCK_LEN);
    });
    bar.finish_and_clear();
    let repaired = repaired?;
    let sound = repaired.report.is_sound();
    output.json(&json!({
        "type": "repaired", "store": name, "sound": sound, "free_list": repaired.free_list,
        "references": repaired.references, "changed": repaired.has_changed(), "blocks_free": repaired.report.blocks_free,
        "findings": repaired.report.findings,
    }))?;
    output.people(tell(&repaired.report, began.elapsed().as_secs_f64()))?;
    if !sound {
        return Err(Failure::failed(format!(
            "{name}: more than the free list and the reference counts is wrong, nothing was changed; `koine salvage` copies out what can be proven"
        )));
    }
    for (what, wrong) in
        [("the free list was", &repaired.free_list), ("the reference counts were", &repaired.references)]
    {
        if let Some(wrong) = wrong {
            output.people(format!("{what} made anew ({wrong})"))?;
        }
    }
    let changed = if repaired.has_changed() { "is sound now" } else { "is sound; nothing was changed" };
    output.people(format!("{name} {changed}"))
}

fn tell(report: &Report, seconds: f64) -> String {
    let mut text = format!(
        "verified {} keys in {} spaces, {} index nodes, {} pieces of values, {} of data, in {seconds:.1} s",
        report.keys,
        report.spaces,
        report.nodes,
        report.pieces,
        size::show(report.data_len),
    );
    for finding in &report.findings {
        text += "\n  damaged: ";
        text += finding;
    }
    text
}
