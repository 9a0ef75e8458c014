//! `koine cp --range`, `--offset` and `--version`: a part of an object, a place within one, an older version.
//!
//! Invariant: what an object has elsewhere is left as it is, in one commit with what is written.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use koine::object::{
    ByteRange, ComposeOptions, CopyOptions, Expected, ObjectInfo, ObjectName, Objects, PutOptions, Segment,
};
use serde_json::json;

use super::CpArgs;
use crate::byte_range::RangeArg;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::size;
use crate::target::failed;

/// How much is read and written at once.
const PIECE_LEN: usize = 1 << 20;

/// Runs `koine cp` with a range, an offset, a version.
pub fn run(args: &CpArgs, objects: &Objects, from: &[Location], to: &Location, output: Output) -> Outcome {
    let [from] = from else {
        return Err(Failure::usage("--range, --offset and --version take exactly one FROM"));
    };
    if args.recursive || args.resume || (args.if_absent && args.offset.is_some()) {
        return Err(Failure::usage(
            "--range, --offset and --version cannot be combined with --recursive or --resume, nor --offset with --if-absent",
        ));
    }
    if args.version.is_some() && (args.offset.is_some() || matches!(from, Location::Local(_))) {
        return Err(Failure::usage(
            "--version applies to the object that is read, and cannot be combined with --offset",
        ));
    }
    let bytes = match (from, to) {
        (Location::Local(path), Location::Object { bucket, key, .. }) => {
            let (None, Some(offset)) = (args.range, args.offset) else {
                return Err(Failure::usage("--range applies to objects: a file is written whole, at --offset"));
            };
            write(args, objects, path, ObjectName::new(bucket, key), offset)?
        }
        (Location::Object { bucket, key, .. }, Location::Local(path)) if args.offset.is_none() => {
            read(args, objects, ObjectName::new(bucket, key), path)?
        }
        (Location::Object { bucket, key, .. }, Location::Object { bucket: to, key: to_key, .. }) => {
            let source = ObjectName::new(bucket, key);
            let size = match args.version {
                Some(version) => objects.head_version(source, version).map_err(failed)?.size,
                None => objects.head(source.bucket, source.key).map_err(failed)?.size,
            };
            let (first, length) = args.range.unwrap_or(RangeArg::From(0, None)).within(size);
            let range = ByteRange { offset: first, length };
            let target = ObjectName::new(to, to_key);
            match args.offset {
                Some(offset) => objects.write_copy(source, range, target, offset, args.options().edit()).wait(),
                None if args.range.is_none() => copy(args, objects, source, target),
                None => compose(args, objects, source, range, target),
            }
            .map_err(failed)?;
            length
        }
        _ => return Err(Failure::usage("--offset applies to objects; a file is always written whole")),
    };
    output.people(format!("{} written to {}", size::show(bytes), printable(&to.to_string())))?;
    output.json(&json!({ "type": "copied", "from": from.to_string(), "to": to.to_string(), "bytes": bytes }))
}

/// A version, whole.
fn copy(
    args: &CpArgs,
    objects: &Objects,
    source: ObjectName<'_>,
    target: ObjectName<'_>,
) -> koine::object::Result<ObjectInfo> {
    let options =
        CopyOptions { source_version: args.version, condition: args.options().condition(), ..CopyOptions::default() };
    objects.copy(source, target, options).wait()
}

/// The range is all that the target has.
fn compose(
    args: &CpArgs,
    objects: &Objects,
    source: ObjectName<'_>,
    range: ByteRange,
    target: ObjectName<'_>,
) -> koine::object::Result<ObjectInfo> {
    let put = PutOptions { condition: args.options().condition(), ..PutOptions::default() };
    let options = ComposeOptions { put, ..ComposeOptions::default() };
    let segment = Segment { version: args.version, ..Segment::range(source, range.offset, range.length) };
    objects.compose(&[segment], target, options).wait()
}

fn write(args: &CpArgs, objects: &Objects, path: &Path, name: ObjectName<'_>, offset: u64) -> Outcome<u64> {
    let cannot = |error| Failure::io(path.display(), &error);
    let mut file = File::open(path).map_err(cannot)?;
    let mut writer = objects.write_at(name, offset, args.options().edit()).map_err(failed)?;
    let (mut buffer, mut written) = (vec![0; PIECE_LEN], 0);
    loop {
        let count = file.read(&mut buffer).map_err(cannot)?;
        if count == 0 {
            break;
        }
        writer.write(buffer.get(..count).unwrap_or_default()).map_err(failed)?;
        written += count as u64;
    }
    writer.finish(&Expected::none()).wait().map_err(failed)?;
    Ok(written)
}

fn read(args: &CpArgs, objects: &Objects, name: ObjectName<'_>, path: &Path) -> Outcome<u64> {
    if args.if_absent && path.exists() {
        return Err(Failure::failed(format!("{} already exists", path.display())));
    }
    let range = args.range.unwrap_or(RangeArg::From(0, None));
    let reader = match args.version {
        Some(version) => objects.get_version(name, version),
        None => objects.get(name.bucket, name.key),
    };
    let reader = reader.map_err(failed)?;
    let (mut offset, length) = range.within(reader.info().size);
    let end = offset + length;
    let cannot = |error| Failure::io(path.display(), &error);
    let part = super::part_file::PartFile::of(path);
    let mut file = File::create(&part.path).map_err(cannot)?;
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(PIECE_LEN).min(PIECE_LEN);
        let piece = reader.bytes(offset, wanted).map_err(failed)?;
        file.write_all(&piece).map_err(cannot)?;
        offset += piece.len() as u64;
    }
    std::fs::rename(&part.path, path).map_err(cannot)?;
    Ok(length)
}
