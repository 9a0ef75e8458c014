//! Copies into, out of and within a store: on threads, through the object library.
//!
//! Invariants:
//! - A file that changes while it is read is not put.
//! - With `--resume` an upload or a file that was begun stays for the next run; every byte of what is taken over is compared first.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};

use indicatif::ProgressBar;
use koine::object::{
    Checksum, ChecksumAlgorithm, CompleteOptions, CompletedPart, CopyOptions, ETag, Expected, ObjectInfo, ObjectName,
    Objects, PartInfo, PartOptions, PutOptions, UploadId, UploadOptions, UploadQuery,
};

use super::checksum;
use super::context::{TransferOptions, parts};
use super::part_file::PartFile;
use super::plan::Job;
use super::summary::{Summary, Verified};
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::Output;
use crate::target::failed;

/// How much is read and written at once.
const PIECE_LEN: u64 = 1 << 20;
/// Longer files go in parts, which can be gone on with.
const WHOLE_LEN_MAX: u64 = 1 << 30;
/// The most parts of an upload that are asked for at once.
const PARTS_MAX: usize = 10_000;

/// What the threads of one command share.
struct StoreCopier<'a> {
    options: &'a TransferOptions,
    objects: &'a Objects,
    bar: &'a ProgressBar,
}

/// Runs the jobs on `--parallel` threads; one that fails does not stop the others.
pub fn run_all(
    options: &TransferOptions,
    objects: &Objects,
    bar: &ProgressBar,
    (jobs, single): (impl Iterator<Item = Job> + Send, bool),
    output: Output,
) -> Outcome<Summary> {
    let shared = StoreCopier { options, objects, bar };
    let threads = if single { 1 } else { options.parallel };
    let waiting = Mutex::new(jobs);
    let mut summary = Summary::default();
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::sync_channel(threads);
        for _ in 0..threads {
            let (tell, waiting, shared) = (tell.clone(), &waiting, &shared);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = next else { return };
                    let result = shared.run(&job);
                    if tell.send((job, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        told.iter().try_for_each(|(job, result)| summary.note(&job, result, single, bar, output))
    })?;
    Ok(summary)
}

impl StoreCopier<'_> {
    fn run(&self, job: &Job) -> Outcome<Verified> {
        match (&job.from, &job.to) {
            (Location::Local(path), Location::Object { bucket, key, .. }) => {
                self.upload(path, ObjectName::new(bucket, key))
            }
            (Location::Object { bucket, key, .. }, Location::Local(path)) => {
                self.download(ObjectName::new(bucket, key), path)
            }
            (Location::Object { bucket, key, .. }, Location::Object { bucket: to, key: to_key, .. }) => {
                let options = CopyOptions { condition: self.options.condition(), ..CopyOptions::default() };
                let copied = self.objects.copy(ObjectName::new(bucket, key), ObjectName::new(to, to_key), options);
                self.bar.inc(copied.wait().map_err(failed)?.size);
                Ok(Verified::Yes)
            }
            (Location::Local(_), Location::Local(_)) => Err(Failure::usage("one side must be an object")),
        }
    }

    fn upload(&self, path: &Path, name: ObjectName<'_>) -> Outcome<Verified> {
        let cannot = |error| Failure::io(path.display(), &error);
        let file = File::open(path).map_err(cannot)?;
        let before = file.metadata().map_err(cannot)?;
        if self.options.resume && self.has_same(name, &file, path, before.len())? {
            self.bar.inc(before.len());
            return Ok(Verified::There);
        }
        let in_parts = before.len() > WHOLE_LEN_MAX || (self.options.resume && before.len() > self.options.part_len);
        if in_parts {
            return self.upload_in_parts(&file, path, &before, name);
        }
        let options = PutOptions {
            length: Some(before.len()),
            condition: self.options.condition(),
            etag: self.options.etag(),
            ..PutOptions::default()
        };
        let mut writer = self.objects.put(name.bucket, name.key, options).map_err(failed)?;
        each_piece(&file, path, (0, before.len()), |piece| {
            writer.write(piece).map_err(failed)?;
            self.bar.inc(piece.len() as u64);
            Ok(())
        })?;
        unchanged(&file, &before)?;
        writer.finish(&Expected::none()).wait().map_err(failed)?;
        Ok(Verified::Yes)
    }

    /// Whether the target is there and has the file's bytes.
    fn has_same(&self, name: ObjectName<'_>, file: &File, path: &Path, size: u64) -> Outcome<bool> {
        let Ok(info) = self.objects.head(name.bucket, name.key) else { return Ok(false) };
        if info.size != size {
            return Ok(false);
        }
        let Some(stored) = crc_in(&info.checksums) else { return Ok(false) };
        Ok(crc_of_range(file, path, (0, size))? == stored)
    }

    fn upload_in_parts(&self, file: &File, path: &Path, before: &Metadata, name: ObjectName<'_>) -> Outcome<Verified> {
        let begun = if self.options.resume { self.begun(name)? } else { None };
        let (upload, there) = match begun {
            Some(found) => found,
            None => {
                let options = UploadOptions { etag: self.options.etag(), ..UploadOptions::default() };
                let upload = self.objects.create_upload(name.bucket, name.key, options);
                (upload.wait().map_err(failed)?, HashMap::new())
            }
        };
        let sent = self.send_parts(file, path, before, (name, upload), &there);
        if let Err(failure) = sent {
            if self.options.resume {
                let more = "; what was sent is kept: the same command goes on there";
                return Err(Failure { message: format!("{failure}{more}"), ..failure });
            }
            // Its space comes back; when this fails too the first failure is the one to tell.
            let _ = self.objects.abort_upload(name, upload).wait();
            return Err(failure);
        }
        Ok(Verified::Yes)
    }

    fn send_parts(
        &self,
        file: &File,
        path: &Path,
        before: &Metadata,
        (name, upload): (ObjectName<'_>, UploadId),
        there: &HashMap<u32, PartInfo>,
    ) -> Outcome {
        let mut completed = Vec::new();
        for (number, range) in (1..).zip(parts(before.len(), self.options.part_len)) {
            let part = match there.get(&number) {
                Some(part)
                    if part.size == range.1 && crc_in(&part.checksums) == Some(crc_of_range(file, path, range)?) =>
                {
                    self.bar.inc(range.1);
                    part.clone()
                }
                _ => {
                    let options = PartOptions { length: Some(range.1), ..PartOptions::default() };
                    let mut writer = self.objects.put_part(name, upload, number, options).map_err(failed)?;
                    each_piece(file, path, range, |piece| {
                        writer.write(piece).map_err(failed)?;
                        self.bar.inc(piece.len() as u64);
                        Ok(())
                    })?;
                    writer.finish(&Expected::none()).wait().map_err(failed)?
                }
            };
            completed.push(CompletedPart { number, etag: part.etag.to_string(), checksums: Vec::new() });
        }
        unchanged(file, before)?;
        let options = CompleteOptions {
            parts: completed,
            condition: self.options.condition(),
            size: Some(before.len()),
            ..CompleteOptions::default()
        };
        self.objects.complete_upload(name, upload, options).wait().map(drop).map_err(failed)
    }

    /// The newest upload of exactly this name, with its parts.
    fn begun(&self, name: ObjectName<'_>) -> Outcome<Option<(UploadId, HashMap<u32, PartInfo>)>> {
        let query = UploadQuery { prefix: name.key.to_owned(), limit: 1000, ..UploadQuery::default() };
        let page = self.objects.list_uploads(name.bucket, &query).map_err(failed)?;
        let Some(upload) = page.uploads.into_iter().rfind(|upload| upload.key == name.key) else { return Ok(None) };
        let parts = self.objects.list_parts(name, upload.id, 0, PARTS_MAX).map_err(failed)?.parts;
        Ok(Some((upload.id, parts.into_iter().map(|part| (part.number, part)).collect())))
    }

    fn download(&self, name: ObjectName<'_>, target: &Path) -> Outcome<Verified> {
        let reader = self.objects.get(name.bucket, name.key).map_err(failed)?;
        let info = reader.info();
        let cannot = |error| Failure::io(target.display(), &error);
        if self.options.if_absent && target.exists() {
            return Err(Failure::failed(format!("{} already exists", target.display())));
        }
        if self.options.resume && crc_in(&info.checksums).is_some_and(|sum| is_same(target, info.size, sum)) {
            self.bar.inc(info.size);
            return Ok(Verified::There);
        }
        if let Some(folder) = target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder.display(), &error))?;
        }
        let part = match self.options.resume {
            true => PartFile::kept(target, &format!("{}-{}", info.id, info.version.0)),
            false => PartFile::of(target),
        };
        let at_part = |error| Failure::io(part.path.display(), &error);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(!self.options.resume).open(&part.path);
        let file = file.map_err(at_part)?;
        let begun = file.metadata().map_err(at_part)?.len().min(info.size);
        let mut sums = Vec::new();
        each_piece(&file, &part.path, (0, begun), |piece| {
            sums.push((checksum::of(piece), piece.len() as u64));
            Ok(())
        })?;
        self.bar.inc(begun);
        let mut offset = begun;
        while offset < info.size {
            let piece = reader.bytes(offset, usize::try_from(PIECE_LEN).unwrap_or(usize::MAX)).map_err(failed)?;
            file.write_all_at(&piece, offset).map_err(at_part)?;
            sums.push((checksum::of(&piece), piece.len() as u64));
            offset += piece.len() as u64;
            self.bar.inc(piece.len() as u64);
        }
        file.set_len(info.size).map_err(at_part)?;
        let verified = verify(info, checksum::join(sums), &part.path).inspect_err(|_| {
            // What is wrong is not gone on with.
            let _ = std::fs::remove_file(&part.path);
        })?;
        std::fs::rename(&part.path, target).map_err(cannot)?;
        Ok(verified)
    }
}

/// Compares what arrived with what is stored.
fn verify(info: &ObjectInfo, sum: u64, path: &Path) -> Outcome<Verified> {
    let wrong = |what: String| {
        Failure::failed(format!(
            "{}: the data received differs from what is stored ({what}); nothing was kept",
            info.key
        ))
    };
    match (crc_in(&info.checksums), &info.etag) {
        (Some(stored), _) if stored == sum => Ok(Verified::Yes),
        (Some(stored), _) => Err(wrong(format!("CRC-64/NVME {sum:016x}, stored {stored:016x}"))),
        (None, ETag::Md5(stored)) => {
            let found = checksum::md5_of(path).map_err(|error| Failure::io(path.display(), &error))?;
            let stored = hex::encode(stored);
            if found == stored { Ok(Verified::Yes) } else { Err(wrong(format!("MD5 {found}, stored {stored}"))) }
        }
        (None, _) => Ok(Verified::NothingToCompare),
    }
}

/// The CRC-64/NVME of all bytes of an object or part, where it is stored.
pub fn crc_in(checksums: &[Checksum]) -> Option<u64> {
    let of_all = |sum: &&Checksum| sum.algorithm == ChecksumAlgorithm::Crc64Nvme && sum.composite_parts.is_none();
    let stored = checksums.iter().find(of_all)?;
    <[u8; 8]>::try_from(stored.value.as_slice()).ok().map(u64::from_be_bytes)
}

fn is_same(path: &Path, size: u64, sum: u64) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == size) {
        return false;
    }
    crc_of_range(&file, path, (0, size)).is_ok_and(|found| found == sum)
}

fn crc_of_range(file: &File, path: &Path, range: (u64, u64)) -> Outcome<u64> {
    let mut sums = Vec::new();
    each_piece(file, path, range, |piece| {
        sums.push((checksum::of(piece), piece.len() as u64));
        Ok(())
    })?;
    Ok(checksum::join(sums))
}

/// Reads a range of a file in pieces.
fn each_piece(
    file: &File,
    path: &Path,
    (offset, length): (u64, u64),
    mut act: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    let mut buffer = vec![0; usize::try_from(PIECE_LEN.min(length)).unwrap_or(0)];
    let (mut offset, end) = (offset, offset + length);
    while offset < end {
        let wanted = usize::try_from(PIECE_LEN.min(end - offset)).unwrap_or(0);
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        file.read_exact_at(piece, offset).map_err(|error| Failure::io(path.display(), &error))?;
        act(piece)?;
        offset += wanted as u64;
    }
    Ok(())
}

fn unchanged(file: &File, before: &Metadata) -> Outcome {
    match (file.metadata().and_then(|now| Ok((now.len(), now.modified()?))), before.modified()) {
        (Ok((length, modified)), Ok(then)) if length == before.len() && modified == then => Ok(()),
        _ => Err(Failure::failed("the file changed while it was read; copy it again")),
    }
}
