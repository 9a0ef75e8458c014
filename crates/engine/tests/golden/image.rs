//! How an image of a store is kept: only blocks that are not zero, each packed.
//!
//! A file is `KOINEIMG`, the length of the store in bytes (u64, little-endian as all numbers), then for every block
//! that has a byte other than zero, in order: its number (u32), the form (u8), the number of packed bytes (u16), and
//! those. Packed are runs: a u16, then, when its highest bit is set, one byte that is repeated so many times as the
//! other bits say, else so many bytes as they are. What no run covers is zeros. In form 1 each byte is then added to
//! the one 256 before it in the block (modulo 256; the first 256 stay): what the scenes write differs by that only.

use std::path::Path;

use koine_engine::device::{BLOCK_LEN, Image};

const MAGIC: &[u8; 8] = b"KOINEIMG";
const REPEATED: u16 = 0x8000;
/// In form 1 a byte tells how it differs from the one so many before it.
const ROW: usize = 256;

/// Writes an image where none is yet: images are kept for ever.
pub fn keep(path: &Path, image: &Image) {
    assert!(!path.exists(), "{} is there: golden images are never made anew", path.display());
    let mut out = MAGIC.to_vec();
    out.extend((image.len() as u64).to_le_bytes());
    let mut block = vec![0; BLOCK_LEN];
    for number in 0..image.len() / BLOCK_LEN {
        image.read(number * BLOCK_LEN, &mut block);
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut rows = block.clone();
        (ROW..BLOCK_LEN).for_each(|at| rows[at] = block[at].wrapping_sub(block[at - ROW]));
        let forms = [pack(&block), pack(&rows)];
        let form = usize::from(forms[1].len() < forms[0].len());
        out.extend((number as u32).to_le_bytes());
        out.push(form as u8);
        out.extend((forms[form].len() as u16).to_le_bytes());
        out.extend(&forms[form]);
    }
    std::fs::write(path, out).expect("the image can be written");
}

/// Reads a kept image.
pub fn kept(path: &Path) -> Image {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_else(|| panic!("{} is no image", path.display()));
    let mut image = Image::zeros(u64::from_le_bytes(take(&mut rest)) as usize);
    while !rest.is_empty() {
        let number = u32::from_le_bytes(take(&mut rest));
        let [form] = take(&mut rest);
        let count = usize::from(u16::from_le_bytes(take(&mut rest)));
        let mut block = unpack(&rest[..count]);
        rest = &rest[count..];
        if form == 1 {
            (ROW..BLOCK_LEN).for_each(|at| block[at] = block[at].wrapping_add(block[at - ROW]));
        }
        image.write(number as usize * BLOCK_LEN, &block);
    }
    image
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (head, tail) = rest.split_first_chunk().expect("the image ends within a block");
    *rest = tail;
    *head
}

fn pack(block: &[u8]) -> Vec<u8> {
    let used = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let (mut out, mut at, mut plain) = (Vec::new(), 0, 0);
    let flush = |out: &mut Vec<u8>, from: usize, to: usize| {
        if from < to {
            out.extend(((to - from) as u16).to_le_bytes());
            out.extend(&block[from..to]);
        }
    };
    while at < used {
        let same = block[at..used].iter().take_while(|byte| **byte == block[at]).count();
        if same > 5 {
            flush(&mut out, plain, at);
            out.extend((same as u16 | REPEATED).to_le_bytes());
            out.push(block[at]);
            plain = at + same;
        }
        at += same;
    }
    flush(&mut out, plain, used);
    out
}

fn unpack(mut rest: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_LEN);
    while !rest.is_empty() {
        let run = u16::from_le_bytes(take(&mut rest));
        let count = usize::from(run & !REPEATED);
        if run & REPEATED != 0 {
            let [byte] = take(&mut rest);
            block.resize(block.len() + count, byte);
        } else {
            block.extend(&rest[..count]);
            rest = &rest[count..];
        }
    }
    block.resize(BLOCK_LEN, 0);
    block
}
