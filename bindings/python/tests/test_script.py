"""The script that drives every binding, by the Python package."""

import json
import re
from pathlib import Path

import koine

SCRIPT = Path(__file__).parents[2] / "script/objects.json"
CONDITIONS = {"absent": {"if_absent": True}, "present": {"if_present": True}}


def same_twice(etag):
    """An ETag that was drawn is not, nor is one of parts whose own were drawn."""
    if re.fullmatch("[0-9a-f]{16}-[0-9a-f]{16}", etag):
        return "drawn"
    return re.sub("^[0-9a-f]{32}-", "parts-", etag)


def about_object(info):
    told = {"key": info.key, "size": info.size, "etag": same_twice(info.etag), "type": info.content_type}
    return told | {"metadata": info.metadata, "tags": info.tags, "mode": info.mode}


def about_part(info):
    return {"number": info.number, "size": info.size}


def about_bucket(info):
    return {"name": info.name, "quota_bytes": info.quota_bytes, "quota_objects": info.quota_objects}


def about_settings(info):
    told = {"versioning": info.versioning, "access_times": info.access_times}
    return told | {"metadata": info.metadata, "tags": info.tags}


def about_usage(usage):
    return {"objects": usage["objects"], "bytes": usage["bytes"]}


def about_group(info):
    return {"name": info.name, "description": info.description}


def about_user(info):
    told = {"name": info.name, "group": info.group, "groups": info.groups}
    return told | {"disabled": info.disabled, "has_password": info.has_password}


class Runner:
    """One method a call of the script; its arguments are those of the step."""

    def __init__(self, session):
        self.owner = self.session = session
        self.uploads = {}
        self.logins = {}
        self.pins = {}
        self.ids = {}

    def run(self, step):
        arguments = {name: value for name, value in step.items() if name not in ("do", "gives", "fails", "as", "pinned")}
        self.session = self.logins[step["as"]] if "as" in step else self.owner
        if "pinned" in step:
            self.session = self.pins[step["pinned"]]
        if "version" in arguments:
            arguments["version"] = self.ids[arguments["version"]]
        if "bucket" in arguments:
            self.bucket = self.session.bucket(arguments.pop("bucket"))
        try:
            given = getattr(self, step["do"])(**arguments)
            return {"gives": True if given is None else given}
        except koine.Error as error:
            # `put(if_absent=True)` raises what Python has for that.
            is_new = step.get("if") == "absent" or step.get("mode") == "x"
            return {"fails": "PreconditionFailed" if is_new and error.kind == "AlreadyExists" else error.kind}

    def options(self, given):
        made = CONDITIONS.get(given.get("if"), {}).copy()
        names = {"if_match": "if_match", "metadata": "metadata", "type": "content_type", "create": "create", "md5": "md5"}
        return made | {names[name]: value for name, value in given.items() if name in names}

    def create_bucket(self):
        self.session.create_bucket(self.bucket.name)

    def delete_bucket(self):
        self.session.delete_bucket(self.bucket.name)

    def purge(self):
        self.bucket.purge()

    def buckets(self, prefix="", group=None):
        return [info.name for info in self.session.buckets(prefix, group=group)]

    def _bucket(self):
        return about_bucket(self.bucket.info())

    def usage(self):
        return about_usage(self.bucket.usage())

    def set_bucket(self, **quotas):
        return about_bucket(self.bucket.set(**quotas))

    def put(self, key, data, **options):
        return about_object(self.bucket.put(key, data.encode(), **self.options(options)))

    def get(self, key, **part):
        return self.bucket.get(key, **part).decode()

    def head(self, key):
        return about_object(self.bucket.head(key))

    def exists(self, key):
        return key in self.bucket

    def delete(self, key, **condition):
        return self.bucket.delete(key, **condition)

    def get_version(self, key, **part):
        return self.get(key, **part)

    def head_version(self, key, version):
        return about_object(self.bucket.head(key, version=version))

    def delete_version(self, key, version):
        return self.bucket.delete(key, version=version)

    def set_versioning(self, versioning):
        self.bucket.set_versioning(versioning)

    def versions(self, save, prefix=""):
        all_of_them = list(self.bucket.versions(prefix))
        self.ids |= {f"{save}.{at}": version.version_id for at, version in enumerate(all_of_them)}
        return [[version.key, version.newest, version.size] for version in all_of_them]

    def search(self, between=None, **query):
        found = self.bucket.search(between=between and tuple(between), **query)
        return [[value, each.key] for value, each in found]

    def add_index(self, **of):
        self.bucket.add_index(**of)

    def drop_index(self, **of):
        self.bucket.drop_index(**of)

    def indexes(self):
        return [[index.of, index.name, index.whole] for index in self.bucket.indexes()]

    def settings(self):
        return about_settings(self.bucket.info())

    def set_settings(self, **change):
        return about_settings(self.bucket.set(**change))

    def transaction(self, steps):
        def body(transaction):
            inside, given = transaction.bucket(self.bucket.name), []
            for what, key, *more in steps:
                if what == "exists":
                    given.append(key in inside)
                    continue
                more = [int(part) if what == "truncate" else part.encode() if what in ("put", "append") else part
                        for part in more]
                gave = getattr(inside, what)(key, *more)
                given.append(True if gave is None else gave.decode() if isinstance(gave, bytes) else gave)
            return given

        return self.session.transact(body)

    def pin(self, save):
        self.pins[save] = self.session.pin()

    def unpin(self, of):
        self.pins.pop(of).close()

    def delete_buckets(self, group):
        return self.session.delete_buckets(group)

    def user_usage(self, user):
        return about_usage(self.session.user_usage(user))

    def group_usage(self, group):
        return about_usage(self.session.group_usage(group))

    def explain(self, action, key=None, user=None):
        decision = self.session.explain(action, self.bucket.name, key, user=user)
        return {"allowed": decision.allowed, "rule": decision.rule}

    def delete_many(self, keys):
        return self.bucket.delete_many(keys)

    def list(self, **query):
        page = self.bucket.list_page(**query)
        return {"objects": [[found.key, found.size] for found in page.objects], "prefixes": page.prefixes, "next": page.next}

    def copy(self, key, to, to_bucket=None, version=None, **options):
        return about_object(self.bucket.copy(key, to, bucket=to_bucket, version=version, **self.options(options)))

    def move(self, key, to, to_bucket=None, **options):
        return about_object(self.bucket.move(key, to, bucket=to_bucket, **self.options(options)))

    def exchange(self, key, to):
        return [about_object(info) for info in self.bucket.exchange(key, to)]

    def copy_prefix(self, prefix, to, to_bucket=None):
        return self.bucket.copy_prefix(prefix, to, bucket=to_bucket)

    def move_prefix(self, prefix, to):
        self.bucket.move_prefix(prefix, to)

    def write_at(self, key, offset, data, **options):
        return about_object(self.bucket.write_at(key, offset, data.encode(), **self.options(options)))

    def append(self, key, data, **options):
        return about_object(self.bucket.append(key, data.encode(), **self.options(options)))

    def truncate(self, key, size):
        return about_object(self.bucket.truncate(key, size))

    def write_copy(self, key, range, to, offset):
        return about_object(self.bucket.write_copy(key, to, range=tuple(range), offset=offset))

    def compose(self, sources, to, **options):
        sources = [source[0] if len(source) == 1 else tuple(source) for source in sources]
        return about_object(self.bucket.compose(sources, to, **self.options(options)))

    def set(self, key, **change):
        return about_object(self.bucket.set_attributes(key, **change))

    def file(self, key, mode, steps):
        given = []
        with self.bucket.open(key, mode + "b") as file:
            for what, *arguments in steps:
                if what == "write":
                    given.append(file.write(arguments[0].encode()))
                elif what == "read":
                    given.append(file.read(*arguments).decode())
                elif what == "size":
                    place = file.tell()
                    given.append(place if mode == "x" else file.seek(0, 2))
                    if mode != "x":
                        file.seek(place)
                elif what == "seek":
                    given.append(file.seek(*arguments))
                else:
                    getattr(file, what)(*arguments)
                    given.append(True)
        return given

    def upload(self, key, save, **options):
        self.uploads[save] = self.bucket.upload(key, **options)

    def part(self, key, upload, number, data="", fill=None):
        data = data.encode() if fill is None else b"x" * fill
        return about_part(self.uploads[upload].put(number, data))

    def part_copy(self, key, upload, number, source, range=None):
        offset, length = range or (0, None)
        return about_part(self.uploads[upload].copy(number, source, offset=offset, length=length))

    def parts(self, key, upload):
        return [about_part(part) for part in self.uploads[upload].parts()]

    def complete(self, key, upload):
        return about_object(self.uploads[upload].complete())

    def abort(self, key, upload):
        self.uploads[upload].abort()

    def _uploads(self):
        return [upload.key for upload in self.bucket.uploads()]

    def snapshot(self, name):
        self.bucket.snapshot(name)

    def snapshots(self):
        return [snapshot.name for snapshot in self.bucket.snapshots()]

    def delete_snapshot(self, name):
        self.bucket.delete_snapshot(name)

    def restore(self, name):
        self.bucket.restore(name)

    def branch(self, to):
        self.bucket.branch(to)

    def create_group(self, group, description=""):
        return about_group(self.session.create_group(group, description))

    def delete_group(self, group):
        users, buckets = self.session.delete_group(group)
        return {"users": users, "buckets": buckets}

    def set_group(self, group, **change):
        return about_group(self.session.set_group(group, **change))

    def groups(self, prefix):
        return [group.name for group in self.session.groups(prefix)]

    def create_user(self, group, user, password=None):
        return about_user(self.session.create_user(group, user, password))

    def delete_user(self, user):
        self.session.delete_user(user)

    def user(self, user):
        return about_user(self.session.user_info(user))

    def users(self, group):
        return sorted(user.name for user in self.session.users(group))

    def set_user(self, user, **change):
        return about_user(self.session.set_user(user, **change))

    def set_password(self, user, password):
        self.session.set_password(user, password)

    def add_member(self, group, user):
        self.session.add_member(group, user)

    def remove_member(self, group, user):
        self.session.remove_member(group, user)

    def create_key(self, user):
        access_key, secret = self.session.create_key(user)
        assert access_key and secret

    def keys(self, user):
        return len(self.session.keys(user))

    def log_in(self, user, password, save):
        self.logins[save] = self.session.log_in(user, password, seconds=60)
        return self.logins[save].user

    def log_out(self, of):
        self.session.log_out(self.logins[of].token)


def test_every_step_gives_what_the_script_says(session):
    runner = Runner(session)
    different = []
    for at, step in enumerate(json.loads(SCRIPT.read_text())):
        of = dict(step, do={"bucket": "_bucket", "uploads": "_uploads"}.get(step["do"], step["do"]))
        given = runner.run(of)
        if given != {name: step[name] for name in ("gives", "fails") if name in step}:
            different.append(f"step {at}: {step}: {given}")
    assert not different, "\n".join(different)
