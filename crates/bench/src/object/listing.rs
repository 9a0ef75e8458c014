//! Pages of a listing: what one costs at the beginning of a large bucket, and at its end.

use super::ObjectArguments;
use super::ours::LocalObjects;
use crate::figures::Figures;
use crate::report::{OURS, Report};
use crate::statistics::Better;
use crate::{Error, say};
use koine::object::ListQuery;
use std::time::Instant;

const FIRST: &str = "first page";
/// A page, as S3 has it.
const PAGE_LEN: usize = 1000;
/// Keys under one common prefix.
const GROUP_LEN: u64 = 10;
/// Of every run.
#[cfg(test)]
pub const ROWS: usize = 2;
const SECTION: &str = "Listing (reference: the first page of the same bucket)";

/// Measures and adds the rows.
pub fn measure(arguments: &ObjectArguments, report: &mut Report) -> Result<(), Error> {
    let cases = [
        format!("page of 1000 keys behind {}", arguments.keys),
        format!("page of 1000 prefixes behind {}", arguments.keys),
    ];
    if !cases.iter().any(|case| arguments.names(case)) {
        return Ok(());
    }
    let ours = LocalObjects::start(&arguments.dir)?;
    say(&format!("storing {} objects", arguments.keys));
    ours.fill((0..arguments.keys).map(key))?;
    let mut figures = [Figures::default(), Figures::default()];
    for _ in 0..arguments.rounds() {
        for (figures, delimiter) in figures.iter_mut().zip(["", "/"]) {
            // A whole page is left behind it.
            let left = PAGE_LEN as u64 * if delimiter.is_empty() { 1 } else { GROUP_LEN };
            let from = arguments.keys.saturating_sub(left + 1);
            let last = ListQuery { after: Some(key(from)), ..query(delimiter) };
            figures.push(FIRST, Some(rate(&ours, &query(delimiter), arguments.duration)?));
            figures.push(OURS, Some(rate(&ours, &last, arguments.duration)?));
        }
    }
    for (case, figures) in cases.iter().zip(&figures).filter(|(case, _)| arguments.names(case)) {
        let row = figures.row(case, "pages/s", Better::Higher, 1.0, &[FIRST.to_owned()]);
        report.rows.push(row.in_section(SECTION));
    }
    Ok(())
}

fn query(delimiter: &str) -> ListQuery {
    ListQuery { delimiter: delimiter.to_owned(), limit: PAGE_LEN, ..ListQuery::default() }
}

fn key(number: u64) -> String {
    format!("{:08}/{}", number / GROUP_LEN, number % GROUP_LEN)
}

fn rate(ours: &LocalObjects, query: &ListQuery, seconds: f64) -> Result<f64, Error> {
    // Once, so that all is in memory.
    let page = ours.list(query)?;
    if page.objects.len() + page.common_prefixes.len() < PAGE_LEN {
        return Err(Error::Worker("a page is too short to be measured".into()));
    }
    let (begun, mut pages) = (Instant::now(), 0_u64);
    while pages == 0 || begun.elapsed().as_secs_f64() < seconds {
        ours.list(query)?;
        pages += 1;
    }
    Ok(pages as f64 / begun.elapsed().as_secs_f64())
}
