//! `koine multipart`: uploads in parts, call by call.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use koine::object::{
    ByteRange, CompleteOptions, ObjectName, Objects, PartInfo, PartOptions, PutCondition, ReadCondition, UploadId,
    UploadOptions, UploadQuery,
};
use serde_json::{Value, json};

use super::{ObjectUrl, in_store, info};
use crate::byte_range::RangeArg;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size;
use crate::target::{TargetArgs, failed, rfc3339};

const EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  id=$(koine multipart create koine://photos/big)
  koine multipart put koine://photos/big $id 1 first.part
  koine multipart copy koine://photos/big $id 2 koine://photos/old --range 0-99999999
  koine multipart complete koine://photos/big $id          all parts, in order
  koine multipart ls koine://photos                         uploads that are neither completed nor aborted";

/// How much of a file is read at once.
const PIECE_LEN: usize = 1 << 20;
/// How many uploads or parts are asked for at once.
const PAGE_LEN: usize = 1000;

/// The options of `koine multipart`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct MultipartArgs {
    #[command(subcommand)]
    command: MultipartCommand,
}

#[derive(Subcommand, Debug)]
enum MultipartCommand {
    /// Begin an upload; tells its id.
    Create(ObjectArgs),
    /// Put a part from a file, or from standard input.
    Put(PartPutArgs),
    /// Make a part from an object, without copying its bytes.
    Copy(PartCopyArgs),
    /// List the parts of an upload.
    Parts(UploadArgs),
    /// Make the object of all parts, in the order of their numbers.
    Complete(CompleteArgs),
    /// Drop an upload and its parts.
    Abort(UploadArgs),
    /// List uploads of a bucket.
    Ls(ObjectArgs),
}

#[derive(Args, Debug)]
struct ObjectArgs {
    /// koine://BUCKET/KEY.
    #[arg(value_name = "OBJECT")]
    object: String,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct UploadArgs {
    #[command(flatten)]
    of: ObjectArgs,
    /// What `create` told.
    #[arg(value_name = "UPLOAD")]
    upload: UploadId,
}

#[derive(Args, Debug)]
struct PartPutArgs {
    #[command(flatten)]
    of: UploadArgs,
    /// 1 to 10,000.
    #[arg(value_name = "NUMBER")]
    number: u32,
    /// Where the bytes are; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args, Debug)]
struct PartCopyArgs {
    #[command(flatten)]
    of: UploadArgs,
    /// 1 to 10,000.
    #[arg(value_name = "NUMBER")]
    number: u32,
    /// koine://BUCKET/KEY.
    #[arg(value_name = "FROM")]
    from: String,
    /// FIRST-LAST, FIRST- or -COUNT, in bytes.
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    range: Option<RangeArg>,
}

#[derive(Args, Debug)]
struct CompleteArgs {
    #[command(flatten)]
    of: UploadArgs,
    /// Only where no object has the name.
    #[arg(long)]
    if_absent: bool,
}

/// Runs `koine multipart`.
pub fn run(args: &MultipartArgs, output: Output) -> Outcome {
    match &args.command {
        MultipartCommand::Create(args) => create(args, output),
        MultipartCommand::Put(args) => put(args, output),
        MultipartCommand::Copy(args) => copy(args, output),
        MultipartCommand::Parts(args) => {
            on_upload(args, |objects, name, upload| each_part(objects, name, upload, |part| show_part(part, output)))
        }
        MultipartCommand::Complete(args) => complete(args, output),
        MultipartCommand::Abort(args) => on_upload(args, |objects, name, upload| {
            objects.abort_upload(name, upload).wait().map_err(failed)?;
            let upload = upload.to_string();
            output.done(format!("aborted the upload {upload}"), &json!({ "type": "aborted", "upload": upload }))
        }),
        MultipartCommand::Ls(args) => list(args, output),
    }
}

/// Does something with an upload of a store.
fn on_upload<T>(args: &UploadArgs, act: impl FnOnce(&Objects, ObjectName<'_>, UploadId) -> Outcome<T>) -> Outcome<T> {
    let named = ObjectUrl::object(&args.of.object)?;
    let name = ObjectName::new(&named.bucket, &named.key);
    in_store(&args.of.reach, &[&named], |store| act(store.objects(), name, args.upload))
}

fn create(args: &ObjectArgs, output: Output) -> Outcome {
    let named = ObjectUrl::object(&args.object)?;
    let upload = in_store(&args.reach, &[&named], |store| {
        store.objects().create_upload(&named.bucket, &named.key, UploadOptions::default()).wait().map_err(failed)
    })?;
    output.people(upload.to_string())?;
    output.json(&json!({ "type": "upload", "bucket": named.bucket, "key": named.key, "upload": upload.to_string() }))
}

fn put(args: &PartPutArgs, output: Output) -> Outcome {
    let cannot = |error: io::Error| Failure::io(format!("cannot read {}", args.file.display()), &error);
    let mut from: Box<dyn Read> = match args.file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(&args.file).map_err(cannot)?),
    };
    let part = on_upload(&args.of, |objects, name, upload| {
        let mut writer = objects.put_part(name, upload, args.number, PartOptions::default()).map_err(failed)?;
        let mut buffer = vec![0; PIECE_LEN];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => writer.write(buffer.get(..count).unwrap_or_default()).map_err(failed)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        writer.finish(&koine::object::Expected::none()).wait().map_err(failed)
    })?;
    show_part(&part, output)
}

fn copy(args: &PartCopyArgs, output: Output) -> Outcome {
    let from = ObjectUrl::object(&args.from)?;
    let source = ObjectName::new(&from.bucket, &from.key);
    let part = on_upload(&args.of, |objects, name, upload| {
        let range = match args.range {
            None => None,
            Some(range) => {
                let size = objects.head(source.bucket, source.key).map_err(failed)?.size;
                let (offset, length) = range.within(size);
                Some(ByteRange { offset, length })
            }
        };
        let condition = ReadCondition::default();
        objects.copy_part(source, range, &condition, name, upload, args.number).wait().map_err(failed)
    })?;
    show_part(&part, output)
}

fn complete(args: &CompleteArgs, output: Output) -> Outcome {
    let info = on_upload(&args.of, |objects, name, upload| {
        let condition = if args.if_absent { PutCondition::absent() } else { PutCondition::none() };
        let options = CompleteOptions { all_parts: true, condition, ..CompleteOptions::default() };
        objects.complete_upload(name, upload, options).wait().map_err(failed)
    })?;
    let named = ObjectUrl::object(&args.of.of.object)?;
    output.people(format!(
        "completed {}, {} in {} parts",
        printable(&named.to_string()),
        size::show(info.size),
        info.part_count.unwrap_or(0)
    ))?;
    output.json(&info::object(&named.bucket, &info))
}

fn list(args: &ObjectArgs, output: Output) -> Outcome {
    let named = ObjectUrl::parse(&args.object)?;
    in_store(&args.reach, &[&named], |store| {
        let mut query = UploadQuery { prefix: named.key.clone(), limit: PAGE_LEN, ..UploadQuery::default() };
        loop {
            let page = store.objects().list_uploads(&named.bucket, &query).map_err(failed)?;
            for upload in page.uploads {
                let created = rfc3339(upload.created);
                output.people(format!("{}  {created}  {}", upload.id, printable(&upload.key)))?;
                output.json(&json!({ "type": "upload", "bucket": named.bucket, "key": upload.key,
                                     "upload": upload.id.to_string(), "created": created }))?;
            }
            let Some((key, upload)) = page.next else { return Ok(()) };
            (query.key_after, query.upload_after) = (Some(key), upload);
        }
    })
}

fn each_part(
    objects: &Objects,
    name: ObjectName<'_>,
    upload: UploadId,
    mut act: impl FnMut(&PartInfo) -> Outcome,
) -> Outcome {
    let mut after = 0;
    loop {
        let page = objects.list_parts(name, upload, after, PAGE_LEN).map_err(failed)?;
        page.parts.iter().try_for_each(&mut act)?;
        match page.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

fn show_part(part: &PartInfo, output: Output) -> Outcome {
    output.people(format!(
        "{:>5}  {:>10}  {}  {}",
        part.number,
        size::show(part.size),
        rfc3339(part.modified),
        part.etag
    ))?;
    let value: Value = json!({ "type": "part", "number": part.number, "size": part.size, "etag": part.etag.to_string(),
                               "modified": rfc3339(part.modified) });
    output.json(&value)
}
