//! Which call each verb is.
//!
//! Invariant: every call is made of `objects`, whose caller is who has logged in.

use koine_kv::Bytes;

use super::held::Held;
use super::transactions::forward;
use super::{Request, identities};
use crate::copy::Name;
use crate::error::{Error, ErrorKind};
use crate::objects::Objects;
use crate::remote::ENTRIES_MAX;
use crate::remote::calls::{
    AbortUpload, AddIndex, AtPin, BeginTransaction, BranchBucket, BucketUsage, CloseReader, CompleteUpload, Compose,
    Copy, CopyPart, CopyPartOfVersion, CopyPrefix, CreateBucket, CreateUpload, Delete, DeleteBucket, DeleteMany,
    DeleteSnapshot, DeleteVersion, DropIndex, DropWriter, EndTransaction, Exchange, FinishObject, Head, HeadBucket,
    HeadVersion, Indexes, List, ListBuckets, ListParts, ListSnapshots, ListUploads, ListVersions, OpenReader,
    OpenVersion, OpenWriter, Pin, PurgeBucket, Read, ReaderParts, Rename, RenamePrefix, RestoreBucket, Search,
    SetAttributes, SetBucket, SetVersioning, SnapshotBucket, Source, StepInTransaction, Truncate, Unpin, WriteCopy,
    WritePiece,
};
use crate::remote::calls::{Call, reads};
use crate::remote::field::{Rest, whole};
use crate::request::{ListQuery, ObjectName, UploadQuery};
use crate::search::SearchQuery;
use crate::version::VersionQuery;

/// Runs a verb.
pub(super) fn run(objects: &Objects, held: &mut Held, request: Request) {
    let rest = match request.verb & 0xfff0 {
        0x8010 => buckets(objects, request),
        0x8020 => reading(objects, held, request),
        0x8030 => writing(objects, held, request),
        0x8040 => changes(objects, request),
        0x8050 => uploads(objects, request),
        0x8060 => transactions(objects, held, request),
        0x8070 | 0x8080 | 0x80a0 => identities::run(objects, request),
        0x8090 => pins(objects, held, request),
        _ => Some(request),
    };
    if let Some(request) = rest {
        let message = format!("this server does not know verb {:#06x}: it may be older", request.verb);
        request.refuse(&Error::new(ErrorKind::Unsupported, message));
    }
}

pub(super) fn of(name: &Name) -> ObjectName<'_> {
    ObjectName::new(&name.bucket, &name.key)
}

/// What is not one of these is given back.
fn buckets(objects: &Objects, request: Request) -> Option<Request> {
    match request.verb {
        ListBuckets::VERB => request.now::<ListBuckets>(|mut query| {
            query.limit = if query.limit == 0 { ENTRIES_MAX } else { query.limit.min(ENTRIES_MAX) };
            objects.list_buckets(&query)
        }),
        HeadBucket::VERB => request.now::<HeadBucket>(|bucket| objects.head_bucket(&bucket)),
        BucketUsage::VERB => request.now::<BucketUsage>(|bucket| objects.bucket_usage(&bucket)),
        CreateBucket::VERB => request.soon::<CreateBucket>(|bucket| objects.create_bucket(&bucket)),
        DeleteBucket::VERB => request.soon::<DeleteBucket>(|(bucket, snapshots)| {
            if snapshots { objects.delete_bucket_and_snapshots(&bucket) } else { objects.delete_bucket(&bucket) }
        }),
        SetBucket::VERB => request.soon::<SetBucket>(|(bucket, change)| objects.set_bucket(&bucket, change)),
        PurgeBucket::VERB => request.soon::<PurgeBucket>(|bucket| objects.purge_bucket(&bucket)),
        SnapshotBucket::VERB => {
            request.soon::<SnapshotBucket>(|(bucket, snapshot)| objects.snapshot_bucket(&bucket, &snapshot));
        }
        ListSnapshots::VERB => request.now::<ListSnapshots>(|bucket| objects.list_snapshots(&bucket)),
        DeleteSnapshot::VERB => {
            request.soon::<DeleteSnapshot>(|(bucket, snapshot)| objects.delete_snapshot(&bucket, &snapshot));
        }
        RestoreBucket::VERB => {
            request.soon::<RestoreBucket>(|(bucket, snapshot)| objects.restore_bucket(&bucket, &snapshot));
        }
        SetVersioning::VERB => {
            request.soon::<SetVersioning>(|(bucket, versioning)| objects.set_versioning(&bucket, versioning));
        }
        Indexes::VERB => request.now::<Indexes>(|bucket| objects.indexes(&bucket)),
        AddIndex::VERB => request.now::<AddIndex>(|(bucket, of)| objects.add_index(&bucket, of)),
        DropIndex::VERB => request.soon::<DropIndex>(|(bucket, of)| objects.drop_index(&bucket, of)),
        BranchBucket::VERB => request.soon::<BranchBucket>(|(from, to)| objects.branch_bucket(&from, &to)),
        _ => return Some(request),
    }
    None
}

fn reading(objects: &Objects, held: &mut Held, request: Request) -> Option<Request> {
    match request.verb {
        Head::VERB => request.now::<Head>(|name| objects.head(&name.bucket, &name.key)),
        List::VERB => request.now::<List>(|(bucket, query)| {
            objects.list(&bucket, &ListQuery { limit: query.limit.min(ENTRIES_MAX), ..query })
        }),
        HeadVersion::VERB => {
            request.now::<HeadVersion>(|(name, version)| objects.head_version(of(&name), version));
        }
        ListVersions::VERB => request.now::<ListVersions>(|(bucket, query)| {
            objects.list_versions(&bucket, &VersionQuery { limit: query.limit.min(ENTRIES_MAX), ..query })
        }),
        Search::VERB => request.now::<Search>(|(bucket, query)| {
            objects.search(&bucket, &SearchQuery { limit: query.limit.min(ENTRIES_MAX), ..query })
        }),
        OpenReader::VERB => request.now_with_data::<OpenReader>(|(number, name, first), _| {
            held.open_reader(number, first, || objects.get(&name.bucket, &name.key))
        }),
        OpenVersion::VERB => request.now_with_data::<OpenVersion>(|(number, name, version, first), _| {
            held.open_reader(number, first, || objects.get_version(of(&name), version))
        }),
        Read::VERB => {
            request.now_with_data::<Read>(|(number, offset, length), _| Ok(((), held.read(number, offset, length)?)))
        }
        CloseReader::VERB => request.now::<CloseReader>(|number| {
            held.close_reader(number);
            Ok(())
        }),
        ReaderParts::VERB => request.now::<ReaderParts>(|number| held.reader(number)?.parts()),
        _ => return Some(request),
    }
    None
}

fn writing(objects: &Objects, held: &mut Held, request: Request) -> Option<Request> {
    match request.verb {
        OpenWriter::VERB => request.now::<OpenWriter>(|(number, writing)| held.open_writer(objects, number, writing)),
        WritePiece::VERB => request
            .now_with_data::<WritePiece>(|number, piece| held.write_piece(number, &piece).map(|()| ((), Bytes::new()))),
        // The kind of the writer says what is told.
        FinishObject::VERB => held.finish_writer(request),
        DropWriter::VERB => request.now::<DropWriter>(|number| {
            held.drop_writer(number);
            Ok(())
        }),
        _ => return Some(request),
    }
    None
}

fn changes(objects: &Objects, request: Request) -> Option<Request> {
    match request.verb {
        Truncate::VERB => {
            request.soon::<Truncate>(|(name, length, options)| objects.truncate(of(&name), length, options));
        }
        WriteCopy::VERB => request.soon::<WriteCopy>(|(from, range, to, offset, options)| {
            objects.write_copy(of(&from), range, of(&to), offset, options)
        }),
        Compose::VERB => request.soon::<Compose>(|(sources, to, options)| {
            let sources: Vec<_> = sources.iter().map(Source::segment).collect();
            objects.compose(&sources, of(&to), options)
        }),
        Copy::VERB => request.soon::<Copy>(|(from, to, options)| objects.copy(of(&from), of(&to), options)),
        Rename::VERB => request.soon::<Rename>(|(from, to, options)| objects.rename(of(&from), of(&to), options)),
        Exchange::VERB => {
            request.soon::<Exchange>(|(one, other, options)| objects.exchange(of(&one), of(&other), options));
        }
        Delete::VERB => {
            request.soon::<Delete>(|(name, options)| objects.delete(&name.bucket, &name.key, options));
        }
        DeleteMany::VERB => request.soon::<DeleteMany>(|(bucket, keys)| objects.delete_many(&bucket, &keys)),
        SetAttributes::VERB => {
            request.soon::<SetAttributes>(|(name, change, options)| objects.set_attributes(of(&name), change, options))
        }
        RenamePrefix::VERB => {
            request.soon::<RenamePrefix>(|(bucket, from, to)| objects.rename_prefix(&bucket, &from, &to));
        }
        CopyPrefix::VERB => {
            request.now::<CopyPrefix>(|(from, to, options)| objects.copy_prefix(of(&from), of(&to), options));
        }
        DeleteVersion::VERB => {
            request.soon::<DeleteVersion>(|(name, version)| objects.delete_version(of(&name), version));
        }
        _ => return Some(request),
    }
    None
}

fn pins(objects: &Objects, held: &mut Held, request: Request) -> Option<Request> {
    match request.verb {
        Pin::VERB => request.now::<Pin>(|number| held.pin(objects, number)),
        Unpin::VERB => request.now::<Unpin>(|number| {
            held.unpin(number);
            Ok(())
        }),
        AtPin::VERB => at_pin(held, request),
        _ => return Some(request),
    }
    None
}

/// Runs the verb within as the same one, at a pinned version.
fn at_pin(held: &mut Held, request: Request) {
    let asked = whole::<<AtPin as Call>::Asked>(&request.message).and_then(|(number, verb, Rest(message))| {
        if !reads(verb) {
            let message = format!("verb {verb:#06x} is none that reads, and what is pinned can only be read");
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        Ok((held.at_pin(number)?, verb, message))
    });
    match asked {
        Ok((objects, verb, message)) => run(&objects, held, Request { verb, message: Bytes::from(message), ..request }),
        Err(error) => request.refuse(&error),
    }
}

fn transactions(objects: &Objects, held: &mut Held, request: Request) -> Option<Request> {
    match request.verb {
        BeginTransaction::VERB => {
            request.now::<BeginTransaction>(|(number, name)| held.transactions.begin(objects, number, name))
        }
        StepInTransaction::VERB => forward(held, request),
        EndTransaction::VERB => held.transactions.end(request),
        _ => return Some(request),
    }
    None
}

fn uploads(objects: &Objects, request: Request) -> Option<Request> {
    match request.verb {
        CreateUpload::VERB => {
            request.soon::<CreateUpload>(|(name, options)| objects.create_upload(&name.bucket, &name.key, options));
        }
        ListUploads::VERB => request.now::<ListUploads>(|(bucket, query)| {
            objects.list_uploads(&bucket, &UploadQuery { limit: query.limit.min(ENTRIES_MAX), ..query })
        }),
        ListParts::VERB => request.now::<ListParts>(|(name, upload, after, limit)| {
            objects.list_parts(of(&name), upload, after, limit.min(ENTRIES_MAX))
        }),
        CopyPart::VERB => request.soon::<CopyPart>(|(from, range, condition, to, upload, number)| {
            objects.copy_part(of(&from), range, &condition, of(&to), upload, number)
        }),
        CopyPartOfVersion::VERB => {
            request.soon::<CopyPartOfVersion>(|((from, version), range, condition, to, upload, number)| {
                objects.copy_part_of_version((of(&from), version), range, &condition, of(&to), upload, number)
            });
        }
        CompleteUpload::VERB => {
            request
                .soon::<CompleteUpload>(|(name, upload, options)| objects.complete_upload(of(&name), upload, options));
        }
        AbortUpload::VERB => request.soon::<AbortUpload>(|(name, upload)| objects.abort_upload(of(&name), upload)),
        _ => return Some(request),
    }
    None
}
