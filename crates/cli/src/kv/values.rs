//! `koine kv get` and `put`: values of any length, in pieces.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use koine::kv::{Batch, Condition, Operation, Payload, Refusal, STAGE_PIECE_LEN_MAX, StageHint};

use super::{Session, SpaceArgs, failed};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};

#[derive(Args, Debug)]
pub(super) struct GetArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    #[arg(value_name = "KEY")]
    key: String,
    /// Where it goes; `-` is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// From this byte on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// At most so many bytes [default: all].
    #[arg(long, value_name = "N")]
    length: Option<u64>,
    #[command(flatten)]
    target: SpaceArgs,
}

#[derive(Args, Debug)]
pub(super) struct KeyPutArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    #[arg(value_name = "KEY")]
    key: String,
    /// The value, as text.
    #[arg(value_name = "VALUE", required_unless_present = "file", conflicts_with = "file")]
    value: Option<String>,
    /// Where the value is; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only when the key is not there.
    #[arg(long, conflicts_with = "if_present")]
    if_absent: bool,
    /// Only when the key is there.
    #[arg(long)]
    if_present: bool,
    /// Write over the value from this byte on, and keep the rest.
    #[arg(long, value_name = "N", conflicts_with = "append")]
    offset: Option<u64>,
    /// Write at the value's end.
    #[arg(long)]
    append: bool,
    #[command(flatten)]
    target: SpaceArgs,
}

/// Runs `koine kv get`.
pub(super) fn get(args: &GetArgs, output: Output) -> Outcome {
    let session = Session::look(&args.store, &args.target)?;
    let at = session.place(&args.key)?;
    let view = session.kv().view().map_err(failed)?;
    let stat = view.stat(at.space, &at.key).map_err(failed)?;
    let stat = stat.ok_or_else(|| Failure::missing(format!("{} is not there", args.key)))?;
    let end = args.length.map_or(stat.size, |length| stat.size.min(args.offset.saturating_add(length)));
    let is_stdout = args.file == Path::new("-");
    if is_stdout && output.is_json() {
        return Err(Failure::usage("a value is bytes, not JSON: leave out --json, or write to a --file"));
    }
    let failed_to_write = |error: io::Error| Failure::io(format!("cannot write {}", args.file.display()), &error);
    let mut to: Box<dyn Write> = match is_stdout {
        true => Box::new(io::stdout().lock()),
        false => Box::new(File::create(&args.file).map_err(failed_to_write)?),
    };
    let mut offset = args.offset;
    while offset < end {
        let length = (end - offset).min(STAGE_PIECE_LEN_MAX as u64) as usize;
        let bytes = view.bytes(at.space, &at.key, offset, length).map_err(failed)?;
        if bytes.is_empty() {
            return Err(Failure::failed("the value is shorter than it was said to be"));
        }
        match to.write_all(&bytes) {
            Err(error) if is_stdout && error.kind() == io::ErrorKind::BrokenPipe => return session.close(),
            written => written.map_err(failed_to_write)?,
        }
        offset += bytes.len() as u64;
    }
    to.flush().map_err(failed_to_write)?;
    drop((to, view));
    session.close()
}

/// Runs `koine kv put`.
pub(super) fn put(args: &KeyPutArgs, output: Output) -> Outcome {
    let session = Session::open(&args.store, &args.target)?;
    let at = session.place(&args.key)?;
    session.make_space()?;
    let value = match (&args.value, &args.file) {
        (Some(value), _) => Payload::Bytes(value.clone().into_bytes().into()),
        (None, Some(file)) if file == Path::new("-") => staged(&session, &mut io::stdin().lock(), file)?,
        (None, Some(file)) => {
            let opened = File::open(file);
            let mut from = opened.map_err(|error| Failure::io(format!("cannot read {}", file.display()), &error))?;
            staged(&session, &mut from, file)?
        }
        (None, None) => return Err(Failure::usage("give a value, or --file")),
    };
    let (space, key) = (at.space, at.key.clone());
    let mut batch = Batch::new();
    if args.if_absent {
        batch = batch.when(Condition::Absent { space, key });
    } else if args.if_present {
        batch = batch.when(Condition::Present { space, key });
    }
    let batch = batch.then(match args.offset {
        Some(offset) => Operation::WriteAt { at, offset, data: value },
        None if args.append => Operation::Append { at, data: value },
        None => Operation::Put { at, value },
    });
    let did = if args.append {
        "appended to"
    } else if args.offset.is_some() {
        "wrote into"
    } else {
        "set"
    };
    session.commit(batch, output, &format!("{did} {}", printable(&args.key)), |refusal| match refusal {
        Refusal::Condition(_) if args.if_absent => format!("{} already exists", args.key),
        Refusal::Condition(_) => format!("{} is not there", args.key),
        Refusal::Operation(_) => format!("{} would become too long", args.key),
    })
}

/// Short values as they are, long ones through a stage.
fn staged(session: &Session, mut from: &mut dyn Read, name: &Path) -> Outcome<Payload> {
    let cannot = |error| Failure::io(format!("cannot read {}", name.display()), &error);
    let mut next = || -> Outcome<Vec<u8>> {
        let mut piece = Vec::new();
        (&mut from).take(STAGE_PIECE_LEN_MAX as u64).read_to_end(&mut piece).map_err(cannot)?;
        Ok(piece)
    };
    let mut piece = next()?;
    if piece.len() <= session.kv().profile().inline_len_best {
        return Ok(Payload::Bytes(piece.into()));
    }
    let mut stage = session.kv().stage(StageHint::default()).map_err(failed)?;
    while !piece.is_empty() {
        stage.write(&piece).map_err(failed)?;
        piece = next()?;
    }
    Ok(Payload::Stage(stage.finish().map_err(failed)?))
}
