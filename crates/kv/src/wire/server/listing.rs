//! Pages of listings.

use bytes::Bytes;
use koine_engine::Result;

use crate::seam::{Cursor, Entry};
use crate::wire::reply::put_page;

/// The most entries of a page of a listing.
pub const PAGE_ENTRIES_MAX: u32 = 4096;
/// About the most bytes of one.
pub const PAGE_LEN_MAX: u32 = 1 << 20;

/// The next entries of a cursor.
pub fn page(cursor: &mut dyn Cursor, entries: u32, bytes: u32) -> Result<Vec<u8>> {
    let (mut page, mut length): (Vec<Entry>, usize) = (Vec::new(), 0);
    while page.len() < entries as usize && (length < bytes as usize || page.is_empty()) {
        let Some(entry) = cursor.next()? else { return Ok(put_page(&page, true)) };
        length += entry.key.len() + entry.value.as_ref().map_or(0, Bytes::len) + 24;
        page.push(entry);
    }
    Ok(put_page(&page, false))
}
