//! Where the space of a store goes, as `koine stat --space` shows it.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use koine::{BucketCount, Inspection, SpaceNames, SpaceReport, SpaceUse};
use serde_json::{Value, json};

use crate::failure::Outcome;
use crate::output::printable;
use crate::size;

/// In characters: what every terminal has.
const TABLE_WIDTH: u16 = 80;
/// A row of what is free.
const IN_WHOLE_BLOCKS: &str = "  in whole blocks";

/// Rows of what branches share.
const SHARED_INDEX: &str = "  of it in branches";
const SAVED_INDEX: &str = "  saved by them";

/// What the report of space shows.
pub struct Detail {
    report: SpaceReport,
    buckets: Vec<BucketCount>,
    names: SpaceNames,
}

impl Detail {
    /// Reads the index of a store.
    pub fn read(store: &Inspection) -> Outcome<Detail> {
        Ok(Detail { report: store.space_report()?, buckets: store.buckets()?, names: store.names() })
    }

    fn bucket_of(&self, used: &SpaceUse) -> Option<&BucketCount> {
        self.buckets.iter().find(|bucket| bucket.space == used.space)
    }

    /// The name that people know a space by.
    fn name_of(&self, used: &SpaceUse) -> String {
        match self.names.get(used.space) {
            Some(name) => printable(name),
            None if used.space.0 == 16 && !self.buckets.is_empty() => "(catalogue)".to_owned(),
            None => format!("(space {})", used.space.0),
        }
    }

    /// For people.
    pub fn tell(&self) -> String {
        let mut text = String::from("\n");
        text += &self.spaces();
        text += "\n\n";
        text += &self.whole();
        text += "\n\n";
        text += &self.fragments();
        for gap in &self.report.unreadable {
            let _ = write!(text, "\n  damaged: {gap}; what is below it is missing here");
        }
        text
    }

    fn spaces(&self) -> String {
        let mut rows: Vec<&SpaceUse> = self.report.spaces.iter().collect();
        rows.sort_by_key(|used| (std::cmp::Reverse(used.data_len + used.node_len), used.space));
        let mut table = table(["bucket or space", "objects", "their bytes", "keys", "data", "inline", "index"]);
        for used in rows {
            let bucket = self.bucket_of(used);
            table.add_row([
                self.name_of(used),
                bucket.map_or_else(String::new, |bucket| bucket.objects.to_string()),
                bucket.map_or_else(String::new, |bucket| size::show(bucket.object_len)),
                used.keys.to_string(),
                size::show(used.data_len),
                size::show(used.inline_len),
                size::show(used.node_len),
            ]);
        }
        right(table, 1)
    }

    fn whole(&self) -> String {
        let report = &self.report;
        let usage = report.usage;
        let rows = [
            ("data", report.data_len, "blocks of values, each counted once"),
            ("  of it shared", report.shared_len, "named more than once, or by several branches"),
            ("  saved by it", report.saved_len, "what it would take more without sharing"),
            ("index", report.node_len, "written nodes; newer ones are in the log"),
            (SHARED_INDEX, report.shared_node_len, "in several buckets, branches or snapshots"),
            (SAVED_INDEX, report.saved_node_len, "what they would take more without sharing"),
            ("log and frame", report.fixed_len, "log ring, superblocks and free list"),
            ("waiting", usage.waiting, "freed; reused when no reader needs it"),
            ("free", usage.free, "for new data"),
            (IN_WHOLE_BLOCKS, report.free_whole_len, "in aligned blocks of the store's block size"),
            ("kept back", report.reserve_len, "so that deleting always works"),
        ];
        let mut table = table(["where the space goes", "", ""]);
        let free: u64 = report.free_runs.iter().map(|class| class.length).sum();
        let tells = |name: &str, bytes: u64| match name {
            // Only an open server keeps space back; a store that is looked at has none.
            "kept back" => bytes > 0,
            // With blocks of 4 KiB all of it is.
            IN_WHOLE_BLOCKS => bytes < free,
            SHARED_INDEX | SAVED_INDEX => bytes > 0,
            _ => true,
        };
        for (name, bytes, what) in rows.into_iter().filter(|row| tells(row.0, row.1)) {
            table.add_row([name.to_owned(), size::show(bytes), what.to_owned()]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        trimmed(&table)
    }

    fn fragments(&self) -> String {
        let mut runs = table(["free runs of", "runs", "together"]);
        for class in &self.report.free_runs {
            let range = format!("{} to {}", size::show(class.from_len), size::show(class.from_len * 2));
            runs.add_row([range, class.runs.to_string(), size::show(class.length)]);
        }
        let mut pieces = table(["pieces", "values"]);
        let mut below = 0;
        for (most, values) in &self.report.pieces {
            let range = if *most <= below + 1 { most.to_string() } else { format!("{} to {most}", most / 2 + 1) };
            below = *most;
            pieces.add_row([range, values.to_string()]);
        }
        format!("{}\n\n{}", right(runs, 1), right(pieces, 1))
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let report = &self.report;
        let spaces: Vec<Value> = report.spaces.iter().map(|used| self.space_json(used)).collect();
        let runs: Vec<Value> = report
            .free_runs
            .iter()
            .map(|class| json!({ "from_bytes": class.from_len, "runs": class.runs, "bytes": class.length }))
            .collect();
        let pieces: Vec<Value> =
            report.pieces.iter().map(|(most, values)| json!({ "pieces_max": most, "values": values })).collect();
        json!({
            "objects": self.buckets.iter().map(|bucket| bucket.objects).sum::<u64>(),
            "buckets": self.buckets.len(),
            "data": report.data_len, "shared": report.shared_len, "saved": report.saved_len,
            "shared_index": report.shared_node_len, "saved_index": report.saved_node_len,
            "index": report.node_len, "frame": report.fixed_len, "reserve": report.reserve_len,
            "free_in_whole_blocks": report.free_whole_len,
            "spaces": spaces, "free_runs": runs, "pieces": pieces, "unreadable": report.unreadable,
        })
    }

    fn space_json(&self, used: &SpaceUse) -> Value {
        let bucket = self.bucket_of(used);
        json!({
            "space": used.space.0.to_string(), "bucket": bucket.map(|bucket| &bucket.name), "name": self.names.get(used.space),
            "objects": bucket.map(|bucket| bucket.objects), "object_bytes": bucket.map(|bucket| bucket.object_len),
            "keys": used.keys, "key_bytes": used.key_len, "value_bytes": used.value_len,
            "nodes": used.nodes, "node_bytes": used.node_len, "pieces": used.pieces,
            "data": used.data_len, "inline": used.inline_len,
        })
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    // Long names of buckets go on in the next line.
    table
        .load_preset(NOTHING)
        .set_header(header)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(TABLE_WIDTH);
    table
}

/// All columns from `first` on to the right, as numbers stand.
fn right(mut table: Table, first: usize) -> String {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    trimmed(&table)
}

fn trimmed(table: &Table) -> String {
    let lines: Vec<String> =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n")
}
