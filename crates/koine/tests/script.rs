//! The script that drives every binding, by the library itself.
//!
//! `bindings/script/objects.json` has a call a step, and what it gives or how it fails. With `KOINE_SCRIPT_RECORD` set,
//! what is given is written into it, to be read by somebody before it is committed.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;

use koine::object::{
    AccessTimes, Asker, AttributeChange, BucketChange, BucketQuery, BucketUsage, ByteRange, CompleteOptions,
    ComposeOptions, ContentHeaders, CopyOptions, CopyPrefixOptions, DeleteOptions, EditOptions, Error, EtagKind,
    EtagMatch, ExchangeOptions, Expected, FileMode, GroupChange, GroupInfo, IndexInfo, Indexed, KeyOptions, ListQuery,
    MetadataChange, NameQuery, ObjectInfo, ObjectName, Objects, PartInfo, PartOptions, Pinned, PutCondition,
    PutOptions, ReadCondition, RenameOptions, SearchQuery, Segment, StageOptions, Token, Transaction, UploadId,
    UploadOptions, UploadQuery, UserChange, UserInfo, UserQuery, UserState, VersionId, VersionQuery, VersionSummary,
    Versioning, Wanted, Whose,
};
use koine::{OpenOptions, Session};
use serde_json::{Map, Value, json};

type Outcome = Result<Value, Error>;

/// A step and what earlier ones have left.
struct Step<'a> {
    of: &'a Map<String, Value>,
    objects: Objects,
    uploads: &'a HashMap<String, UploadId>,
    versions: &'a HashMap<String, VersionId>,
}

impl Step<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.of.get(name)
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn text_if(&self, name: &str) -> Option<String> {
        self.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn number(&self, name: &str) -> u64 {
        self.number_if(name).unwrap_or_default()
    }

    fn number_if(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::as_u64)
    }

    /// A limit: not given, given as none, or given.
    fn limit(&self, name: &str) -> Option<Option<u64>> {
        self.get(name).map(Value::as_u64)
    }

    fn object(&self) -> ObjectName<'_> {
        ObjectName::new(self.text("bucket"), self.text("key"))
    }

    fn target(&self) -> ObjectName<'_> {
        let bucket = self.get("to_bucket").and_then(Value::as_str).unwrap_or(self.text("bucket"));
        ObjectName::new(bucket, self.text("to"))
    }

    fn condition(&self) -> PutCondition {
        let present = (self.text("if") == "present").then_some(EtagMatch::Any);
        let if_match = self.text_if("if_match").map(|etag| EtagMatch::OneOf(vec![etag])).or(present);
        PutCondition { if_absent: self.text("if") == "absent", if_match, if_version: None }
    }

    fn put(&self) -> PutOptions {
        let headers = ContentHeaders { content_type: self.text_if("type"), ..ContentHeaders::default() };
        let metadata = self.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let metadata = metadata.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        let etag = if self.get("md5").is_some() { EtagKind::Md5 } else { EtagKind::Drawn };
        PutOptions { headers, metadata, etag, condition: self.condition(), ..PutOptions::default() }
    }

    fn edit(&self) -> EditOptions {
        let create = self.get("create").and_then(Value::as_bool).unwrap_or(true);
        EditOptions { create, condition: self.condition(), ..EditOptions::default() }
    }

    fn range(&self) -> Option<ByteRange> {
        let range = self.get("range")?;
        Some(ByteRange { offset: range[0].as_u64()?, length: range[1].as_u64()? })
    }

    fn entries(&self, name: &str) -> Option<MetadataChange> {
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for (name, value) in self.get(name)?.as_object()? {
            match value.as_str() {
                Some(value) => set.push((name.clone(), value.to_owned())),
                None => remove.push(name.clone()),
            }
        }
        Some(MetadataChange::Merge { set, remove })
    }

    fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn version(&self) -> Option<VersionId> {
        self.get("version").map(|name| self.versions[name.as_str().unwrap()])
    }

    /// What is searched for, or what an index is over.
    fn indexed(&self) -> Indexed {
        self.text_if("metadata").map_or_else(|| Indexed::Tag(self.text("tag").to_owned()), Indexed::Metadata)
    }

    fn upload(&self) -> UploadId {
        self.uploads[self.text("upload")]
    }
}

fn entries(all: &[(String, String)]) -> Value {
    Value::Object(all.iter().map(|(name, value)| (name.clone(), json!(value))).collect())
}

/// An ETag that was drawn is not the same twice, nor is one of parts whose own were drawn.
fn etag(text: &str) -> String {
    match text.split_once('-') {
        Some((id, drawn)) if id.len() == 16 && drawn.len() == 16 => "drawn".to_owned(),
        Some((_, parts)) => format!("parts-{parts}"),
        None => text.to_owned(),
    }
}

fn object(info: ObjectInfo) -> Value {
    json!({
        "key": info.key, "size": info.size, "etag": etag(&info.etag.to_string()), "type": info.headers.content_type,
        "metadata": entries(&info.metadata), "tags": entries(&info.tags), "mode": info.mode,
    })
}

fn part(info: PartInfo) -> Value {
    json!({ "number": info.number, "size": info.size })
}

fn bucket(info: koine::object::BucketInfo) -> Value {
    json!({ "name": info.name, "quota_bytes": info.quota.bytes, "quota_objects": info.quota.objects })
}

fn settings(info: koine::object::BucketInfo) -> Value {
    let access_times = match info.access_times {
        AccessTimes::Off => "off",
        AccessTimes::Relative => "relative",
    };
    json!({
        "versioning": info.versioning.name(), "access_times": access_times, "metadata": entries(&info.metadata),
        "tags": entries(&info.tags),
    })
}

fn usage(usage: BucketUsage) -> Value {
    json!({ "objects": usage.objects, "bytes": usage.bytes })
}

fn index(index: IndexInfo) -> Value {
    let of = match index.of {
        Indexed::Metadata(_) => "metadata",
        Indexed::Tag(_) => "tag",
    };
    json!([of, index.of.name(), index.whole])
}

fn search(step: &Step<'_>) -> Outcome {
    let wanted = match (step.text_if("equal"), step.text_if("begins"), step.list("between")) {
        (Some(text), _, _) => Wanted::Equal(text),
        (None, Some(text), _) => Wanted::BeginsWith(text),
        (None, None, [first, last]) => {
            Wanted::Between(first.as_str().unwrap().to_owned(), last.as_str().unwrap().to_owned())
        }
        _ => Wanted::Any,
    };
    let limit = step.number_if("limit").unwrap_or(1000) as usize;
    let query =
        SearchQuery { wanted, prefix: step.text("prefix").to_owned(), limit, ..SearchQuery::new(step.indexed()) };
    let found = step.objects.search(step.text("bucket"), &query)?.found;
    Ok(found.into_iter().map(|(value, object)| json!([value, object.key])).collect())
}

/// What each is, and behind it the ids.
fn versions(step: &Step<'_>) -> Outcome {
    let query = VersionQuery { prefix: step.text("prefix").to_owned(), limit: 1000, ..VersionQuery::default() };
    let all = step.objects.list_versions(step.text("bucket"), &query)?.versions;
    let ids: Vec<String> = all.iter().map(|version| version.id.to_string()).collect();
    let told = |version: VersionSummary| json!([version.key, version.newest, version.object.map(|object| object.size)]);
    Ok(json!([all.into_iter().map(told).collect::<Vec<_>>(), ids]))
}

fn transaction(step: &Step<'_>) -> Outcome {
    let bucket = step.text("bucket");
    let stage = |data: &str| {
        let mut writer = step.objects.stage(StageOptions::default())?;
        writer.write(data.as_bytes())?;
        writer.finish(&Expected::none())
    };
    let body = |transaction: &mut Transaction<'_>| {
        let mut given = Vec::new();
        for each in step.list("steps") {
            let text = |at: usize| each[at].as_str().unwrap_or_default();
            let (name, other) = (ObjectName::new(bucket, text(1)), ObjectName::new(bucket, text(2)));
            given.push(match text(0) {
                "put" => done(transaction.put(name, &stage(text(2))?, &PutOptions::default())?),
                "append" => done(transaction.append(name, &stage(text(2))?, &EditOptions::default())?),
                "truncate" => done(transaction.truncate(name, text(2).parse().unwrap(), &EditOptions::default())?),
                "copy" => done(transaction.copy(name, other, &CopyOptions::default())?),
                "move" => done(transaction.rename(name, other, &RenameOptions::default())?),
                "exchange" => done(transaction.exchange(name, other)?),
                "delete" => json!(transaction.delete(name, &DeleteOptions::default())?.existed),
                "exists" => json!(transaction.head(name)?.is_some()),
                _ => {
                    let bytes = transaction.read(name, ByteRange { offset: 0, length: 1 << 20 })?;
                    json!(String::from_utf8(bytes.to_vec()).unwrap())
                }
            });
        }
        Ok(json!(given))
    };
    Ok(step.objects.transact(None, body)?.0)
}

fn group(info: GroupInfo) -> Value {
    json!({ "name": info.name, "description": info.description })
}

fn user(info: UserInfo) -> Value {
    json!({
        "name": info.name, "group": info.group, "groups": info.groups, "disabled": info.state != UserState::Live,
        "has_password": info.has_password,
    })
}

fn done<T>(_: T) -> Value {
    json!(true)
}

fn buckets(step: &Step<'_>) -> Outcome {
    let (objects, name, other) = (&step.objects, step.text("bucket"), step.text("name"));
    Ok(match step.text("do") {
        "create_bucket" => done(objects.create_bucket(name).wait()?),
        "delete_bucket" => done(objects.delete_bucket(name).wait()?),
        "purge" => done(objects.purge_bucket(name).wait()?),
        "bucket" => bucket(objects.head_bucket(name)?),
        "buckets" => {
            let (prefix, group) = (step.text("prefix").to_owned(), step.text_if("group"));
            let query = BucketQuery { prefix, group, ..BucketQuery::default() };
            objects.list_buckets(&query)?.buckets.into_iter().map(|bucket| json!(bucket.name)).collect()
        }
        "usage" => usage(objects.bucket_usage(name)?),
        "set_bucket" => {
            let (quota_bytes, quota_objects) = (step.limit("quota_bytes"), step.limit("quota_objects"));
            #[allow(clippy::needless_update)]
            let change = BucketChange { quota_bytes, quota_objects, ..BucketChange::default() };
            bucket(objects.set_bucket(name, change).wait()?)
        }
        "set_versioning" => {
            let versioning = match step.text("versioning") {
                "enabled" => Versioning::Enabled,
                _ => Versioning::Suspended,
            };
            done(objects.set_versioning(name, versioning).wait()?)
        }
        "settings" => settings(objects.head_bucket(name)?),
        "set_settings" => {
            let access_times = step.text_if("access_times").map(|kept| match kept.as_str() {
                "off" => AccessTimes::Off,
                _ => AccessTimes::Relative,
            });
            let (metadata, tags) = (step.entries("metadata"), step.entries("tags"));
            #[allow(clippy::needless_update)]
            let change = BucketChange { access_times, metadata, tags, ..BucketChange::default() };
            settings(objects.set_bucket(name, change).wait()?)
        }
        "add_index" => done(objects.add_index(name, step.indexed())?),
        "drop_index" => done(objects.drop_index(name, step.indexed()).wait()?),
        "indexes" => objects.indexes(name)?.into_iter().map(index).collect(),
        "search" => search(step)?,
        "transaction" => transaction(step)?,
        "delete_buckets" => json!(objects.delete_buckets_of(step.text("group"))?),
        "snapshot" => done(objects.snapshot_bucket(name, other).wait()?),
        "snapshots" => objects.list_snapshots(name)?.into_iter().map(|snapshot| json!(snapshot.name)).collect(),
        "delete_snapshot" => done(objects.delete_snapshot(name, other).wait()?),
        "restore" => done(objects.restore_bucket(name, other).wait()?),
        "branch" => done(objects.branch_bucket(name, step.text("to")).wait()?),
        _ => return whole_objects(step),
    })
}

fn whole_objects(step: &Step<'_>) -> Outcome {
    let (objects, ObjectName { bucket, key }) = (&step.objects, step.object());
    Ok(match step.text("do") {
        "put" => {
            let mut writer = objects.put(bucket, key, step.put())?;
            writer.write(step.text("data").as_bytes())?;
            object(writer.finish(&Expected::none()).wait()?)
        }
        "get" | "get_version" => {
            let reader = match step.version() {
                Some(version) => objects.get_version(step.object(), version)?,
                None => objects.get(bucket, key)?,
            };
            let size = reader.info().size;
            let mut buffer = vec![0; step.number_if("length").unwrap_or(size).min(size).min(1 << 20) as usize];
            let count = reader.read(step.number("offset"), &mut buffer)?;
            json!(String::from_utf8(buffer[..count].to_vec()).unwrap())
        }
        "head" => object(objects.head(bucket, key)?),
        "head_version" => object(objects.head_version(step.object(), step.version().unwrap())?),
        "delete_version" => json!(objects.delete_version(step.object(), step.version().unwrap()).wait()?.existed),
        "versions" => versions(step)?,
        "exists" => json!(objects.exists(bucket, key)?),
        "delete" => {
            let options = DeleteOptions { condition: step.condition() };
            json!(objects.delete(bucket, key, options).wait()?.existed)
        }
        "delete_many" => {
            let keys: Vec<String> = step.list("keys").iter().map(|key| key.as_str().unwrap().to_owned()).collect();
            let gone: Result<Vec<_>, _> = objects.delete_many(bucket, &keys).wait()?.into_iter().collect();
            json!(gone?.into_iter().filter(|gone| gone.existed).count())
        }
        "list" => {
            let query = ListQuery {
                prefix: step.text("prefix").to_owned(),
                delimiter: step.text("delimiter").to_owned(),
                after: step.text_if("after"),
                limit: step.number_if("limit").unwrap_or(1000) as usize,
            };
            let page = objects.list(bucket, &query)?;
            let found: Vec<Value> = page.objects.into_iter().map(|found| json!([found.key, found.size])).collect();
            json!({ "objects": found, "prefixes": page.common_prefixes, "next": page.next })
        }
        "set" => {
            let (metadata, tags) = (step.entries("metadata"), step.entries("tags"));
            let mode = step.number_if("mode").map(|mode| mode as u32);
            let change = AttributeChange { metadata, tags, mode, ..AttributeChange::default() };
            object(objects.set_attributes(step.object(), change, EditOptions::default()).wait()?)
        }
        "file" => file(step)?,
        _ => return names_and_edits(step),
    })
}

fn names_and_edits(step: &Step<'_>) -> Outcome {
    let (objects, name) = (&step.objects, step.object());
    let prefix = ObjectName::new(name.bucket, step.text("prefix"));
    let condition = step.condition();
    Ok(match step.text("do") {
        "copy" => {
            let options = CopyOptions { condition, source_version: step.version(), ..CopyOptions::default() };
            object(objects.copy(name, step.target(), options).wait()?)
        }
        "move" => {
            let options = RenameOptions { condition, ..RenameOptions::default() };
            object(objects.rename(name, step.target(), options).wait()?)
        }
        "exchange" => {
            let (one, other) = objects.exchange(name, step.target(), ExchangeOptions::default()).wait()?;
            json!([object(one), object(other)])
        }
        "copy_prefix" => json!(objects.copy_prefix(prefix, step.target(), CopyPrefixOptions::default())?.objects),
        "move_prefix" => done(objects.rename_prefix(name.bucket, prefix.key, step.text("to")).wait()?),
        "write_at" | "append" => {
            let mut writer = match step.text("do") {
                "append" => objects.append(name, step.edit())?,
                _ => objects.write_at(name, step.number("offset"), step.edit())?,
            };
            writer.write(step.text("data").as_bytes())?;
            object(writer.finish(&Expected::none()).wait()?)
        }
        "truncate" => object(objects.truncate(name, step.number("size"), step.edit()).wait()?),
        "write_copy" => {
            let (range, offset) = (step.range().unwrap(), step.number("offset"));
            object(objects.write_copy(name, range, step.target(), offset, step.edit()).wait()?)
        }
        "compose" => {
            let mut sources = Vec::new();
            for source in step.list("sources") {
                let name = ObjectName::new(name.bucket, source[0].as_str().unwrap());
                sources.push(match source[1].as_u64() {
                    Some(offset) => Segment::range(name, offset, source[2].as_u64().unwrap()),
                    None => Segment::whole(name),
                });
            }
            let options = ComposeOptions { put: step.put(), source_metadata: false };
            object(objects.compose(&sources, step.target(), options).wait()?)
        }
        _ => return uploads(step),
    })
}

fn of_file(error: std::io::Error) -> Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner.cloned().unwrap_or_else(|| panic!("{error}"))
}

fn file(step: &Step<'_>) -> Outcome {
    let mode = match step.text("mode") {
        "r" => FileMode::Read,
        "r+" => FileMode::ReadWrite,
        "w" => FileMode::Create,
        "x" => FileMode::CreateNew,
        _ => FileMode::Append,
    };
    let mut file = step.objects.open_file(step.object(), mode, PutOptions::default())?;
    let mut given = Vec::new();
    for each in step.list("steps") {
        let number = |at: usize| each[at].as_i64().unwrap_or_default();
        given.push(match each[0].as_str().unwrap() {
            "write" => {
                let data = each[1].as_str().unwrap().as_bytes();
                file.write_all(data).map_err(of_file)?;
                json!(data.len())
            }
            "read" => {
                let mut text = String::new();
                (&mut file).take(number(1) as u64).read_to_string(&mut text).map_err(of_file)?;
                json!(text)
            }
            "seek" => {
                let to = match number(2) {
                    0 => SeekFrom::Start(number(1) as u64),
                    1 => SeekFrom::Current(number(1)),
                    _ => SeekFrom::End(number(1)),
                };
                json!(file.seek(to).map_err(of_file)?)
            }
            "truncate" => done(file.truncate(number(1) as u64)?),
            "flush" => done(file.flush().map_err(of_file)?),
            _ => json!(file.size()),
        });
    }
    file.close()?;
    Ok(json!(given))
}

fn uploads(step: &Step<'_>) -> Outcome {
    let (objects, name) = (&step.objects, step.object());
    Ok(match step.text("do") {
        "upload" => {
            let options = UploadOptions { metadata: step.put().metadata, ..UploadOptions::default() };
            json!(objects.create_upload(name.bucket, name.key, options).wait()?.to_string())
        }
        "part" => {
            let number = step.number("number") as u32;
            let mut writer = objects.put_part(name, step.upload(), number, PartOptions::default())?;
            match step.number_if("fill") {
                Some(length) => writer.write(&vec![b'x'; length as usize])?,
                None => writer.write(step.text("data").as_bytes())?,
            }
            part(writer.finish(&Expected::none()).wait()?)
        }
        "part_copy" => {
            let (from, number) = (ObjectName::new(name.bucket, step.text("source")), step.number("number") as u32);
            let condition = ReadCondition::default();
            part(objects.copy_part(from, step.range(), &condition, name, step.upload(), number).wait()?)
        }
        "parts" => objects.list_parts(name, step.upload(), 0, 1000)?.parts.into_iter().map(part).collect(),
        "complete" => {
            let condition = step.condition();
            let options = CompleteOptions { all_parts: true, condition, ..CompleteOptions::default() };
            object(objects.complete_upload(name, step.upload(), options).wait()?)
        }
        "abort" => done(objects.abort_upload(name, step.upload()).wait()?),
        "uploads" => {
            let page = objects.list_uploads(name.bucket, &UploadQuery { limit: 1000, ..UploadQuery::default() })?;
            page.uploads.into_iter().map(|upload| json!(upload.key)).collect()
        }
        _ => return identities(step),
    })
}

fn identities(step: &Step<'_>) -> Outcome {
    let (identities, group_name, user_name) = (step.objects.identities(), step.text("group"), step.text("user"));
    let password = step.text("password");
    Ok(match step.text("do") {
        "create_group" => group(identities.create_group(group_name, step.text("description")).wait()?),
        "delete_group" => {
            let gone = identities.delete_group(group_name)?;
            json!({ "users": gone.users, "buckets": gone.buckets })
        }
        "set_group" => {
            let (name, description) = (step.text_if("rename"), step.text_if("description"));
            let change = GroupChange { name, description, ..GroupChange::default() };
            group(identities.set_group(group_name, change).wait()?)
        }
        "groups" => {
            let query = NameQuery { prefix: step.text("prefix").to_owned(), ..NameQuery::default() };
            identities.groups(&query)?.groups.into_iter().map(|group| json!(group.name)).collect()
        }
        "user_usage" => usage(identities.usage(Whose::User(user_name))?),
        "group_usage" => usage(identities.usage(Whose::Group(group_name))?),
        "explain" => {
            let asker = step.text_if("user").map_or(Asker::Everyone, Asker::User);
            let (action, key) = (step.text("action").parse()?, step.text_if("key"));
            let decision = identities.explain(&asker, action, step.text("bucket"), key.as_deref())?;
            json!({ "allowed": decision.allowed, "rule": decision.rule.to_string() })
        }
        "create_user" => user(identities.create_user(group_name, user_name, step.text_if("password").as_deref())?),
        "delete_user" => done(identities.delete_user(user_name)?),
        "user" => user(identities.user(user_name)?),
        "users" => {
            let query = UserQuery { group: Some(group_name.to_owned()), names: NameQuery::default() };
            let mut names: Vec<_> = identities.users(&query)?.users.into_iter().map(|user| user.name).collect();
            names.sort();
            json!(names)
        }
        "set_user" => {
            let disabled = step.get("disabled").and_then(Value::as_bool);
            let state = disabled.map(|yes| if yes { UserState::Disabled } else { UserState::Live });
            user(identities.set_user(user_name, UserChange { state, ..UserChange::default() }).wait()?)
        }
        "set_password" => done(identities.set_password(user_name, password)?),
        "add_member" => done(identities.add_member(group_name, user_name, false).wait()?),
        "remove_member" => done(identities.remove_member(group_name, user_name).wait()?),
        "create_key" => done(identities.create_key(user_name, KeyOptions::default()).wait()?),
        "keys" => json!(identities.keys_of(user_name)?.len()),
        "log_in" => {
            let login = identities.log_in(user_name, password, Duration::from_secs(60))?;
            json!([login.user, login.token.expose()])
        }
        "log_out" => done(identities.log_out(&Token::new(step.text("token"))).wait()?),
        other => panic!("{other} is no call of the script"),
    })
}

/// What each step gives.
fn run(session: &Session, steps: &[Value]) -> Vec<Value> {
    let (mut tokens, mut uploads) = (HashMap::<String, String>::new(), HashMap::new());
    let (mut versions, mut pins) = (HashMap::new(), HashMap::<String, Pinned>::new());
    let mut given = Vec::new();
    for step in steps {
        let mut of = step.as_object().unwrap().clone();
        if let Some(name) = step["of"].as_str().filter(|_| step["do"] == "log_out") {
            of.insert("token".to_owned(), json!(tokens[name]));
        }
        let objects = match step["as"].as_str() {
            Some(who) => session.as_caller(session.identities().by_token(&Token::new(tokens[who].as_str())).unwrap()),
            None => Objects::clone(session),
        };
        let objects = step["pinned"].as_str().map_or(objects, |name| pins[name].objects().clone());
        let save = step["save"].as_str().unwrap_or_default().to_owned();
        let outcome = match step["do"].as_str().unwrap() {
            "pin" => session.pin().map(|pinned| done(pins.insert(save.clone(), pinned))),
            "unpin" => Ok(json!(pins.remove(step["of"].as_str().unwrap()).is_some())),
            _ => buckets(&Step { of: &of, objects, uploads: &uploads, versions: &versions }),
        };
        let outcome = match (outcome, step["do"].as_str().unwrap()) {
            (Ok(id), "upload") => {
                uploads.insert(save, id.as_str().unwrap().parse().unwrap());
                Ok(json!(true))
            }
            (Ok(told), "versions") => {
                for (at, id) in told[1].as_array().unwrap().iter().enumerate() {
                    versions.insert(format!("{save}.{at}"), id.as_str().unwrap().parse().unwrap());
                }
                Ok(told[0].clone())
            }
            (Ok(login), "log_in") => {
                tokens.insert(save, login[1].as_str().unwrap().to_owned());
                Ok(login[0].clone())
            }
            (outcome, _) => outcome,
        };
        given.push(match outcome {
            Ok(value) => json!({ "gives": value }),
            Err(error) => json!({ "fails": format!("{:?}", error.kind()) }),
        });
    }
    given
}

#[test]
fn every_step_gives_what_the_script_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bindings/script/objects.json");
    let mut steps: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let session = Session::open("memory:", &OpenOptions::default()).unwrap();
    let given = run(&session, &steps);
    let record = std::env::var_os("KOINE_SCRIPT_RECORD").is_some();
    let mut different = Vec::new();
    for (at, (step, given)) in steps.iter_mut().zip(given).enumerate() {
        for told in ["gives", "fails"] {
            if step.get(told) != given.get(told) {
                different.push(format!("step {at}: {step}: {given}"));
            }
            if let (true, Some(given), None) = (record, given.get(told), step.get(told)) {
                step[told] = given.clone();
            }
        }
    }
    if record {
        let lines: Vec<String> = steps.iter().map(Value::to_string).collect();
        std::fs::write(&path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
