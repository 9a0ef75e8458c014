"""The script that drives every binding, by the program `koine`: a command a step, each opening the store anew.

A step that the program has no command for is passed over, and named here why. Where it changes something that later steps
see, another command does that instead.
"""

import json
import re
from pathlib import Path

import pytest

from harness.server import koine

SCRIPT = Path(__file__).parents[1] / "bindings/script/objects.json"

# The program tells errors to people: each kind by what its message says.
KINDS = {
    "NoSuchBucket": "there is no bucket",
    "NoSuchKey": "there is no object",
    "NoSuchSnapshot": "no snapshot",
    "NoSuchUpload": "there is no upload",
    "NoSuchGroup": "there is no group",
    "NoSuchUser": "there is no user",
    "NoSuchVersion": "has no version|no version",
    "NoSuchIndex": "no index",
    "BucketAlreadyOwnedByYou": "exists already",
    "AlreadyExists": "exists already|has a snapshot|already",
    "PreconditionFailed": "already|exists",
    "InvalidBucketName": "is no name for a bucket",
    "InvalidArgument": "between 1 and|1 to 10|at least one byte|number|is no action",
    "InvalidRequest": "overlap|itself|delete marker",
    "InvalidRange": "range",
    "KeyTooLong": "1024 are allowed",
    "BucketNotEmpty": "not empty|still holds|has . snapshots",
    "ReadOnly": "snapshot|only be read|read only",
    "EntityTooSmall": "smaller|5 MiB|5242880",
    "LogInFailed": "name or password are wrong",
    "NotEmpty": "owns|holds",
}


class Passed(Exception):
    """No command does this."""


class Refused(Exception):
    """A command failed."""


def same_twice(etag):
    """An ETag that was drawn is not, nor is one of parts whose own were drawn."""
    if re.fullmatch("[0-9a-f]{16}-[0-9a-f]{16}", etag):
        return "drawn"
    return re.sub("^[0-9a-f]{32}-", "parts-", etag)


def about_object(told):
    return {name: told[name] for name in ("key", "size", "metadata", "tags", "mode")} | {
        "etag": same_twice(told["etag"]),
        "type": told["headers"].get("Content-Type"),
    }


def about_part(told):
    return {"number": told["number"], "size": told["size"]}


class Runner:
    """One method a call of the script; its arguments are those of the step."""

    def __init__(self, store, folder):
        self.store, self.folder = store, folder
        self.uploads, self.described, self.tokens, self.ids = {}, {}, {}, {}

    def lines(self, *command, answers=(0,), **more):
        result = koine("--json", *command, "--store", self.store, check=False, **more)
        told = [json.loads(line) for line in result.stdout.splitlines()]
        if result.returncode not in answers:
            raise Refused(next((line["error"] for line in told if "error" in line), result.stderr))
        return told

    def one(self, *command, **more):
        return self.lines(*command, **more)[-1]

    def file(self, data):
        path = self.folder / "data"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(0o600)
        return path

    def info(self, bucket, key):
        return about_object(self.one("info", f"koine://{bucket}/{key}"))

    def create_bucket(self, bucket, **login):
        self.lines("mb", f"koine://{bucket}")
        if login:
            self.lines("bucket", "owner", "set", f"koine://{bucket}", login["as"])

    def delete_bucket(self, bucket):
        self.lines("rb", f"koine://{bucket}")

    def purge(self, bucket):
        self.lines("rm", "-r", f"koine://{bucket}")
        # What a bucket keeps of them goes one by one.
        for told in self.lines("ls", "--versions", f"koine://{bucket}"):
            self.lines("rm", "--exact", f"koine://{bucket}/{told['key']}", "--version", told["version_id"])

    def buckets(self, prefix="", group=None):
        of_group = ["--group", group] if group else []
        told = self.lines("ls", *of_group, "koine://")
        return [bucket["name"] for bucket in told if bucket["name"].startswith(prefix)]

    def put(self, bucket, key, data, metadata=None, type=None, md5=False, **condition):
        if not key or len(key) > 1024 or len(str(metadata)) > 2048:
            raise Passed("a name that ends with / is a folder; metadata are set apart")
        absent = ["--if-absent"] if condition.get("if") == "absent" else []
        name = f"koine://{bucket}/{key}"
        self.lines("cp", "--exact", *absent, *(["--md5"] if md5 else []), self.file(data), name)
        described = [part for entry in (metadata or {}).items() for part in ("--metadata", "=".join(entry))]
        described += ["--content-type", type] if type else []
        if described:
            self.lines("set", name, *described)
        return self.info(bucket, key)

    def get(self, bucket, key, offset=0, length=None, version=None):
        part = ["--version", version] if version else []
        if offset or length is not None:
            part += ["--range", f"{offset}-" if length is None else f"{offset}-{offset + length - 1}"]
        result = koine("cat", f"koine://{bucket}/{key}", *part, "--store", self.store, check=False)
        if result.returncode:
            raise Refused(result.stderr)
        return result.stdout

    def head(self, bucket, key):
        return self.info(bucket, key)

    def exists(self, bucket, key):
        try:
            self.info(bucket, key)
        except Refused as refused:
            if "there is no object" in str(refused):
                return False
            raise
        return True

    def delete(self, bucket, key):
        try:
            self.lines("rm", "--exact", f"koine://{bucket}/{key}")
        except Refused as refused:
            if "there is no object" in str(refused):
                return False
            raise
        return True

    def set_versioning(self, bucket, versioning):
        assert self.one("bucket", "versioning", "set", f"koine://{bucket}", versioning)["versioning"] == versioning

    def versions(self, bucket, save, prefix=""):
        try:
            told = self.lines("ls", "--exact", "--versions", f"koine://{bucket}/{prefix}")
        except Refused as refused:
            if "no version has this prefix" not in str(refused):
                raise
            told = []
        self.ids |= {f"{save}.{at}": line["version_id"] for at, line in enumerate(told)}
        return [[line["key"], line["newest"], line.get("size")] for line in told]

    def get_version(self, bucket, key, version, **part):
        return self.get(bucket, key, version=self.ids[version], **part)

    def head_version(self, bucket, key, version):
        return about_object(self.one("info", f"koine://{bucket}/{key}", "--version", self.ids[version]))

    def delete_version(self, bucket, key, version):
        self.lines("rm", "--exact", f"koine://{bucket}/{key}", "--version", self.ids[version])

    def of(self, metadata=None, tag=None, text=""):
        return ["--metadata", metadata + text] if metadata else ["--tag", tag + text]

    def search(self, bucket, metadata=None, tag=None, equal=None, begins=None, between=(), prefix="", limit=None):
        text = f"={equal}" if equal else f"^{begins}" if begins else ""
        more = ["--between", *between] if between else []
        more += [] if limit is None else ["--limit", str(limit)]
        told = self.lines("search", f"koine://{bucket}/{prefix}".rstrip("/"), *self.of(metadata, tag, text), *more)
        return [[line["value"], line["key"]] for line in told]

    def add_index(self, bucket, **of):
        self.lines("bucket", "index", "add", f"koine://{bucket}", *self.of(**of))

    def drop_index(self, bucket, **of):
        self.lines("bucket", "index", "rm", f"koine://{bucket}", *self.of(**of))

    def indexes(self, bucket):
        told = self.lines("bucket", "index", "ls", f"koine://{bucket}")
        return [[line["of"], line["name"], line["whole"]] for line in told]

    def about_settings(self, told):
        return {name: told[name] for name in ("versioning", "access_times", "metadata", "tags")}

    def settings(self, bucket):
        return self.about_settings(self.one("info", f"koine://{bucket}"))

    def set_settings(self, bucket, metadata=None, tags=None, access_times=None):
        flags = self.changes(metadata, tags)
        flags += [] if access_times is None else ["--access-times", access_times]
        return self.about_settings(self.one("bucket", "set", f"koine://{bucket}", *flags))

    def user_usage(self, user):
        told = self.lines("user", "info", user)[1]
        return {"objects": told["objects"], "bytes": told["bytes"]}

    def group_usage(self, group):
        told = self.lines("group", "info", group)[1]
        return {"objects": told["objects"], "bytes": told["bytes"]}

    def delete_buckets(self, group):
        return self.one("rb", "--force", "--group", group)["buckets"]

    def explain(self, bucket, action, key="", user=None):
        who = ["--user", user] if user else []
        # The exit code tells yes or no.
        told = self.lines("bucket", "explain", f"koine://{bucket}/{key}".rstrip("/"), action, *who, answers=(0, 5))[0]
        return {"allowed": told["allowed"], "rule": told["rule"]}

    def delete_many(self, bucket, keys):
        self.lines("rm", "--force", "--exact", *[f"koine://{bucket}/{key}" for key in keys])
        raise Passed("which of them were there is not told")

    def list(self, bucket, prefix="", delimiter=""):
        try:
            told = self.lines("ls", "--exact", *([] if delimiter else ["-r"]), f"koine://{bucket}/{prefix}")
        except Refused as refused:
            if "no key has this prefix" not in str(refused):
                raise
            told = []
        return {
            "objects": [[line["key"], line["size"]] for line in told if line["type"] == "object"],
            "prefixes": [line["prefix"] for line in told if line["type"] == "prefix"],
            "next": None,
        }

    def pair(self, verb, bucket, key, to, to_bucket, condition):
        absent = ["--if-absent"] if condition.get("if") == "absent" else []
        target = to_bucket or bucket
        self.lines(verb, "--exact", *absent, f"koine://{bucket}/{key}", f"koine://{target}/{to}")
        return self.info(target, to)

    def copy(self, bucket, key, to, to_bucket=None, version=None, **condition):
        if version:
            self.lines("cp", f"koine://{bucket}/{key}", f"koine://{bucket}/{to}", "--version", self.ids[version])
            return self.info(bucket, to)
        return self.pair("cp", bucket, key, to, to_bucket, condition)

    def move(self, bucket, key, to, to_bucket=None, **condition):
        return self.pair("mv", bucket, key, to, to_bucket, condition)

    def exchange(self, bucket, key, to):
        self.lines("exchange", f"koine://{bucket}/{key}", f"koine://{bucket}/{to}")
        return [self.info(bucket, key), self.info(bucket, to)]

    def copy_prefix(self, bucket, prefix, to, to_bucket=None):
        return self.one("cp", "-r", f"koine://{bucket}/{prefix}", f"koine://{to_bucket or bucket}/{to}")["copied"]

    def move_prefix(self, bucket, prefix, to):
        self.lines("mv", "-r", f"koine://{bucket}/{prefix}", f"koine://{bucket}/{to}")

    def write_at(self, bucket, key, offset, data):
        self.lines("cp", self.file(data), f"koine://{bucket}/{key}", "--offset", str(offset))
        return self.info(bucket, key)

    def append(self, bucket, key, data, create=True):
        create = [] if create else ["--no-create"]
        self.lines("append", f"koine://{bucket}/{key}", self.file(data), *create)
        return self.info(bucket, key)

    def truncate(self, bucket, key, size):
        self.lines("truncate", f"koine://{bucket}/{key}", str(size))
        return self.info(bucket, key)

    def segment(self, bucket, key, offset, length, to, *more):
        part = ["--range", f"{offset}-{offset + length - 1}", *more]
        self.lines("cp", f"koine://{bucket}/{key}", f"koine://{bucket}/{to}", *part)

    def write_copy(self, bucket, key, range, to, offset):
        self.segment(bucket, key, *range, to, "--offset", str(offset))
        return self.info(bucket, to)

    def compose(self, bucket, sources, to, **condition):
        absent = ["--if-absent"] if condition.get("if") == "absent" else []
        names, made = [], []
        for at, (key, *part) in enumerate(sources):
            if part:
                self.segment(bucket, key, *part, f".segment-{at}")
                made.append(f"koine://{bucket}/.segment-{at}")
            names.append(made[-1] if part else f"koine://{bucket}/{key}")
        try:
            self.lines("compose", *absent, *names, f"koine://{bucket}/{to}")
        finally:
            if made:
                self.lines("rm", *made)
        return self.info(bucket, to)

    def changes(self, metadata, tags):
        flags = []
        for entries, flag in ((metadata, "metadata"), (tags, "tag")):
            for name, value in (entries or {}).items():
                flags += [f"--remove-{flag}", name] if value is None else [f"--{flag}", f"{name}={value}"]
        return flags

    def set(self, bucket, key, metadata=None, tags=None, mode=None):
        flags = self.changes(metadata, tags)
        flags += [] if mode is None else ["--mode", f"{mode:o}"]
        return about_object(self.one("set", f"koine://{bucket}/{key}", *flags))

    def upload(self, bucket, key, save, metadata=None):
        self.described[save] = metadata
        self.uploads[save] = self.one("multipart", "create", f"koine://{bucket}/{key}")["upload"]

    def multipart(self, verb, bucket, key, upload, *more):
        return self.lines("multipart", verb, f"koine://{bucket}/{key}", self.uploads[upload], *more)

    def part(self, bucket, key, upload, number, data="", fill=None):
        path = self.file(data if fill is None else b"x" * fill)
        return about_part(self.multipart("put", bucket, key, upload, str(number), path)[-1])

    def part_copy(self, bucket, key, upload, number, source, range=None):
        part = ["--range", f"{range[0]}-{range[0] + range[1] - 1}"] if range else []
        return about_part(self.multipart("copy", bucket, key, upload, str(number), f"koine://{bucket}/{source}", *part)[-1])

    def parts(self, bucket, key, upload):
        return [about_part(told) for told in self.multipart("parts", bucket, key, upload)]

    def complete(self, bucket, key, upload):
        self.multipart("complete", bucket, key, upload)
        # An upload is described when it is complete.
        return self.set(bucket, key, self.described[upload]) if self.described[upload] else self.info(bucket, key)

    def abort(self, bucket, key, upload):
        self.multipart("abort", bucket, key, upload)

    def _uploads(self, bucket):
        return [told["key"] for told in self.lines("multipart", "ls", f"koine://{bucket}")]

    def snapshot(self, bucket, name):
        self.lines("snapshot", "create", f"koine://{bucket}@{name}")

    def snapshots(self, bucket):
        return [told["snapshot"] for told in self.lines("snapshot", "ls", f"koine://{bucket}")]

    def delete_snapshot(self, bucket, name):
        self.lines("snapshot", "rm", f"koine://{bucket}@{name}")

    def restore(self, bucket, name):
        self.lines("snapshot", "restore", f"koine://{bucket}@{name}")

    def branch(self, bucket, to):
        self.lines("branch", f"koine://{bucket}", f"koine://{to}")

    def about_group(self, told):
        return {"name": told["name"], "description": told["description"]}

    def create_group(self, group, description=""):
        self.lines("group", "add", group, *(["--description", description] if description else []))
        return {"name": group, "description": description}

    def delete_group(self, group):
        told = self.one("group", "rm", group, "--yes")
        return {"users": told["users"], "buckets": told["buckets"]}

    def set_group(self, group, rename, description):
        return self.about_group(self.one("group", "set", group, "--rename", rename, "--description", description))

    def groups(self, prefix):
        return [told["name"] for told in self.lines("group", "ls") if told["name"].startswith(prefix)]

    def about_user(self, told):
        others = [group for group in told["groups"] if group != told["group"]]
        about = {name: told[name] for name in ("name", "group", "has_password")}
        return about | {"groups": others, "disabled": told["state"] != "live"}

    def user(self, user):
        # What the user holds comes after it.
        return self.about_user(self.lines("user", "info", user)[0])

    def create_user(self, group, user, password=None):
        given = ["--password-file", self.file(password + "\n")] if password else []
        self.lines("user", "add", user, "--group", group, *given)
        return self.user(user)

    def delete_user(self, user):
        self.lines("user", "rm", user)

    def users(self, group):
        return sorted(told["name"] for told in self.lines("user", "ls", "--group", group))

    def set_user(self, user, disabled):
        self.lines("user", "set", user, "--disable" if disabled else "--enable")
        return self.user(user)

    def set_password(self, user, password):
        self.lines("user", "passwd", user, "--password-file", self.file(password + "\n"))

    def add_member(self, group, user):
        self.lines("group", "join", group, user)

    def remove_member(self, group, user):
        self.lines("group", "leave", group, user)

    def create_key(self, user):
        assert self.one("user", "key", "add", user)["secret"]

    def keys(self, user):
        return len(self.lines("user", "key", "ls", user))

    def log_in(self, user, password, save):
        told = self.one("user", "login", user, "--password-file", self.file(password + "\n"))
        self.tokens[save] = told["token"]
        return told["user"]

    def log_out(self, of):
        self.lines("user", "logout", "--token-file", self.file(self.tokens[of]))


def passed_over(step):
    """Why no command does this step; None where one does."""
    call = step["do"]
    if call in ("bucket", "usage", "set_bucket"):
        return "quotas and usage are not told by the program"
    if step.get("fails") == "QuotaExceeded":
        return "no quota was set"
    if "pinned" in step or call in ("pin", "unpin"):
        return "each command opens the store anew, and reads what is there then"
    if call == "transaction" or (step.get("bucket") == "together" and call in ("list", "exists")):
        return "a command is one call"
    if call == "file" or step.get("key") == "file":
        return "a command opens no file that later ones read from"
    if "as" in step and call not in ("create_bucket", "put"):
        return "commands are who owns the device"
    if "as" in step and "fails" in step:
        return "commands are who owns the device"
    if "if_match" in step or step.get("if") == "present":
        return None if call == "put" and "gives" in step else "the program has no such condition"
    if "limit" in step or "after" in step:
        return "a listing tells all"
    if call == "get" and (step.get("gives") == "" and "offset" in step):
        return "an empty range is not one of HTTP"
    if call == "move_prefix" and "fails" in step:
        return "`mv -r` moves one by one then"
    if step.get("fails") == "InvalidRange":
        return "a range that goes past the end is cut there, as in HTTP"
    return None


@pytest.fixture
def runner(tmp_path):
    koine("format", tmp_path / "store.koine", "--size", "256MiB")
    yield Runner(tmp_path / "store.koine", tmp_path)
    koine("check", tmp_path / "store.koine")


def test_every_step_gives_what_the_script_says(runner):
    different, done = [], 0
    for at, step in enumerate(json.loads(SCRIPT.read_text())):
        if passed_over(step):
            continue
        call = "_uploads" if step["do"] == "uploads" else step["do"]
        given = {name: value for name, value in step.items() if name not in ("do", "gives", "fails")}
        if "as" in given and call == "put":
            del given["as"]
        try:
            told = getattr(runner, call)(**given)
            if step.get("gives") != (True if told is None else told):
                different.append(f"step {at}: {step}: {told}")
        except Refused as refused:
            if not re.search(KINDS.get(step.get("fails"), "$^"), str(refused)):
                different.append(f"step {at}: {step}: {refused}")
        except Passed:
            pass
        done += 1
    assert not different, "\n".join(different)
    assert done > 270
