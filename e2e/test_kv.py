"""`koine kv`: keys and values of a file, of a store that a server holds, over its socket and over TCP."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import clients, seeds
from harness.server import Server, clean_environment, koine, program


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "wire.key"
    path.write_bytes(os.urandom(24).hex().encode() + b"\n")
    path.chmod(0o600)
    return path


@pytest.fixture(params=["file", "served", "socket", "tcp"])
def place(request, tmp_path, key_file):
    """A store in each of the ways it can be reached, and what its commands take beside."""
    store = tmp_path / "store.koine"
    koine("format", store)
    if request.param == "file":
        yield store, []
        koine("check", store)
        return
    with Server(store, "--wire", "127.0.0.1:0", "--wire-key", key_file) as server:
        yield {
            "served": (store, []),
            "socket": (f"koine+unix:{server.banner['socket']}", []),
            "tcp": (server.banner["wire"][0], ["--key-file", key_file]),
        }[request.param]
        assert server.stop() == 0
    koine("check", store)
    assert not Path(f"{store}.sock").exists()


def kv(place, command, *args, **more):
    store, beside = place
    return koine("kv", command, store, *args, *beside, **more)


def rows(place, *args):
    store, beside = place
    return [json.loads(line) for line in koine("--json", "kv", "scan", store, *args, *beside).stdout.splitlines()]


def piped(place, command, *args, given):
    store, beside = place
    return subprocess.run(
        [program(), "kv", command, *map(str, [store, *args, *beside])], input=given, capture_output=True, env=clean_environment(), timeout=120
    )


def test_every_command(place, tmp_path):
    assert kv(place, "scan", check=False).returncode == 4, "no space yet"
    for key in ["b", "a", "user/1", "user/2", "user/3"]:
        kv(place, "put", key, f"value of {key}")
    assert kv(place, "get", "a").stdout == "value of a"
    assert kv(place, "get", "a", "--offset", 6, "--length", 2).stdout == "of"
    assert [row["key"] for row in rows(place)] == ["a", "b", "user/1", "user/2", "user/3"]
    assert [row["key"] for row in rows(place, "--prefix", "user/", "--reverse", "--limit", 2)] == ["user/3", "user/2"]
    assert [row["value"] for row in rows(place, "--from", "b", "--to", "user/2", "--values")] == ["value of b", "value of user/1"]
    kv(place, "put", "a", "!", "--append")
    kv(place, "put", "a", "V", "--offset", 0)
    assert kv(place, "get", "a").stdout == "Value of a!"
    kv(place, "copy", "a", "c")
    kv(place, "rename", "b", "d")
    refused = kv(place, "copy", "a", "d", "--if-absent", check=False)
    assert refused.returncode == 1 and "d already exists; nothing was changed" in refused.stderr
    assert [kv(place, "get", key).stdout for key in "cd"] == ["Value of a!", "value of b"]
    stat = json.loads(koine("--json", "kv", "stat", place[0], "c", *place[1]).stdout)
    assert (stat["key"], stat["size"]) == ("c", 11)
    kv(place, "del", "c")
    for command in (["get", "c"], ["stat", "c"], ["del", "c"], ["rename", "c", "e"]):
        gone = kv(place, *command, check=False)
        assert gone.returncode in (1, 4) and "c is not there" in gone.stderr, command
    kv(place, "del", "user/", "--prefix")
    kv(place, "put", "--hex", "00ff", "ff")
    assert [row["key"] for row in rows(place)] == [{"hex": "00ff"} if i == 0 else key for i, key in enumerate(["", "a", "d"])]


def test_values_longer_than_memory_pieces(place, tmp_path):
    data = seeds.blob(4, "long", 5_000_123)
    (tmp_path / "in").write_bytes(data)
    kv(place, "put", "long", "--file", tmp_path / "in")
    kv(place, "get", "long", "--file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data
    assert piped(place, "put", "piped", "--file", "-", given=data[:300_000]).returncode == 0
    store, beside = place
    got = subprocess.run([program(), "kv", "get", store, "piped", *beside], capture_output=True, env=clean_environment())
    assert got.stdout == data[:300_000]
    kv(place, "put", "empty", "")
    assert kv(place, "get", "empty").stdout == ""


def test_a_batch_happens_whole_or_not_at_all(place):
    lines = [
        {"if_absent": "n"}, {"put": "a", "value": "1"}, {"put": "b", "value": "2"}, {"rename": "a", "to": "c"},
        {"add": "n", "delta": 5}, {"append": "b", "value": "3"}, {"copy": "b", "to": "d"}, {"truncate": "d", "length": 1},
    ]
    given = "\n".join(map(json.dumps, lines)).encode()
    assert piped(place, "batch", given=given).returncode == 0
    assert {row["key"]: row["value"] for row in rows(place, "--values")} == {"b": "23", "c": "1", "d": "2", "n": "\x05" + "\0" * 7}
    again = piped(place, "batch", given=given)
    assert again.returncode == 1 and b"line 1 does not hold; nothing was changed" in again.stderr
    missing = piped(place, "batch", given=b'{"put": "e", "value": ""}\n\n{"rename": "x", "to": "y"}\n')
    assert missing.returncode == 1 and b"line 3 cannot be done" in missing.stderr
    wrong = piped(place, "batch", given=b'{"put": "e", "value": ""}\n{"frobnicate": 1}\n')
    assert wrong.returncode == 2 and b"line 2" in wrong.stderr
    assert [row["key"] for row in rows(place)] == ["b", "c", "d", "n"]


def test_one_of_many_processes_creates_a_key(tmp_path):
    store = tmp_path / "store.koine"
    with Server(store) as server:
        def create(number):
            return koine("kv", "put", store, "lock", number, "--if-absent", check=False)
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(create, range(64)))
        won = [number for number, run in enumerate(done) if run.returncode == 0]
        assert len(won) == 1 and koine("kv", "get", store, "lock").stdout == str(won[0])
        assert all("lock already exists" in run.stderr for run in done if run.returncode)
        assert server.stop() == 0


def test_keys_lie_beside_objects(tmp_path):
    store = tmp_path / "store.koine"
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        s3.put_object(Bucket="data", Key="k", Body=b"object")
        koine("kv", "put", store, "k", "value")
        assert s3.get_object(Bucket="data", Key="k")["Body"].read() == b"object"
        assert koine("kv", "get", store, "k").stdout == "value"
        assert server.stop() == 0
    # What it was put while a server held it is there without one.
    assert koine("kv", "get", store, "k").stdout == "value"


def test_what_is_not_there_is_told_with_what_to_do(tmp_path, key_file):
    missing = koine("kv", "get", tmp_path / "none.koine", "k", check=False)
    assert missing.returncode == 4 and "koine format" in missing.stderr and not (tmp_path / "none.koine").exists()
    nobody = koine("kv", "get", f"koine+unix:{tmp_path}/none.sock", "k", check=False)
    assert nobody.returncode == 1 and "koine serve" in nobody.stderr
    unknown = koine("kv", "get", "redis://host", "k", check=False)
    assert unknown.returncode == 2 and "koine+tcp:HOST:PORT" in unknown.stderr
    store = tmp_path / "store.koine"
    with Server(store, "--wire", "127.0.0.1:0", "--wire-key", key_file) as server:
        url = server.banner["wire"][0]
        keyless = koine("kv", "get", url, "k", check=False)
        assert keyless.returncode == 2 and "--wire-key" in keyless.stderr
        other = tmp_path / "other.key"
        other.write_text("another key that is long enough")
        open_to_all = koine("kv", "get", url, "k", "--key-file", other, check=False)
        assert open_to_all.returncode == 1 and f"chmod 600 {other}" in open_to_all.stderr
        other.chmod(0o600)
        wrong = koine("kv", "get", url, "k", "--key-file", other, check=False)
        assert wrong.returncode != 0 and "key" in wrong.stderr
        assert server.stop() == 0
        gone = koine("kv", "get", url, "k", "--key-file", key_file, check=False)
        assert gone.returncode == 1 and "koine serve" in gone.stderr
    short = tmp_path / "short.key"
    short.write_text("short")
    open_to_all = koine("serve", store, "--wire", "127.0.0.1:0", "--wire-key", short, check=False)
    assert open_to_all.returncode == 1 and f"chmod 600 {short}" in open_to_all.stderr
    short.chmod(0o600)
    refused = koine("serve", store, "--wire", "127.0.0.1:0", "--wire-key", short, check=False)
    assert refused.returncode == 2 and "16" in refused.stderr
    open_door = koine("serve", store, "--wire", "127.0.0.1:0", check=False)
    assert open_door.returncode == 2 and "--wire-key" in open_door.stderr
    with Server(store, "--socket", "none") as server:
        assert server.banner["socket"] is None
        held = koine("kv", "get", store, "k", check=False)
        assert held.returncode == 3 and str(server.pid) in held.stderr
        assert server.stop() == 0


def test_a_killed_server_leaves_nothing_in_the_way(tmp_path):
    store = tmp_path / "store.koine"
    with Server(store) as server:
        koine("kv", "put", store, "k", "kept")
        server.kill()
    assert Path(f"{store}.sock").exists()
    assert koine("kv", "get", store, "k").stdout == "kept"
    with Server(store) as server:
        assert koine("kv", "get", store, "k").stdout == "kept"
        assert server.stop() == 0


def fill(store, *, large=3, small=200):
    """Keys of every size in two spaces, and an object in a bucket."""
    with Server(store) as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="data")
        s3.put_object(Bucket="data", Key="a/b", Body=b"object" * 1000)
        lines = [{"put": f"k{number:04}", "value": f"value {number} " * (number % 90)} for number in range(small)]
        given = "\n".join(map(json.dumps, lines)).encode()
        assert piped((store, []), "batch", given=given).returncode == 0
        for number in range(large):
            assert piped((store, []), "put", f"large{number}", "--file", "-", given=seeds.blob(7, f"large{number}", 20 << 20)).returncode == 0
        koine("kv", "put", store, "other", "in another space", "--space", 40)
        assert server.stop() == 0


def copied(*args, **more):
    return json.loads(koine("--json", "copy", *args, **more).stdout.splitlines()[-1])


def check_copy(tmp_path, store):
    """What `fill` put is there, by its doors."""
    for number in range(3):
        assert subprocess.run([program(), "kv", "get", store, f"large{number}"], capture_output=True, env=clean_environment()).stdout == seeds.blob(7, f"large{number}", 20 << 20)
    assert koine("kv", "get", store, "other", "--space", 40).stdout == "in another space"
    koine("check", store)
    with Server(store) as server:
        assert clients.s3(server.url).get_object(Bucket="data", Key="a/b")["Body"].read() == b"object" * 1000
        assert server.stop() == 0


def test_everything_of_a_store_is_copied(tmp_path, key_file):
    source, target = tmp_path / "a.koine", tmp_path / "b.koine"
    fill(source)
    missing = koine("copy", source, target, check=False)
    assert missing.returncode == 4 and "koine format" in missing.stderr and not target.exists()
    koine("format", target)
    first = copied(source, target)
    assert not first["resumed"] and first["kept"] == 0 and first["verified"] == first["keys"] > 200
    check_copy(tmp_path, target)
    # From a server to a server, what has changed since: two keys.
    koine("kv", "put", source, "k0001", "changed")
    koine("kv", "del", source, "k0002")
    with Server(source) as a, Server(target, "--wire", "127.0.0.1:0", "--wire-key", key_file) as b:
        second = copied(source, b.banner["wire"][0], "--to-key-file", key_file)
        # Who read the copy may have left a time of access there, which the source has not.
        assert second["resumed"] and second["removed"] in (1, 2) and 1 <= second["keys"] < 10
        assert koine("kv", "get", target, "k0001").stdout == "changed"
        assert a.stop() == 0 and b.stop() == 0
    other = tmp_path / "c.koine"
    koine("format", other)
    koine("kv", "put", other, "mine", "stays or goes")
    refused = koine("copy", source, other, check=False)
    assert refused.returncode == 1 and "holds something already (space 32)" in refused.stderr and "--force" in refused.stderr
    assert koine("kv", "get", other, "mine").stdout == "stays or goes"
    assert copied(source, other, "--space", 40, "--force")["keys"] == 1
    assert koine("kv", "get", other, "mine").stdout == "stays or goes"
    same = koine("copy", source, source, check=False)
    assert same.returncode == 2 and "one store" in same.stderr


def test_a_store_in_memory_behind_a_server_is_copied(tmp_path):
    """Nothing but a socket: the memory of one process into that of another, and back into a file."""
    sockets = [f"koine+unix:{tmp_path}/{name}" for name in "ab"]
    with Server("memory:", "--socket", tmp_path / "a", log=tmp_path / "a.log") as a, Server("memory:", "--socket", tmp_path / "b", log=tmp_path / "b.log") as b:
        for number in range(50):
            koine("kv", "put", sockets[0], f"k{number}", "v" * number * 100)
        assert copied(*sockets)["keys"] >= 50
        file = tmp_path / "c.koine"
        koine("format", file)
        assert copied(sockets[1], file)["keys"] >= 50
        assert koine("kv", "get", file, "k49").stdout == "v" * 4900
        a.kill()
        gone = koine("copy", *sockets, check=False)
        assert gone.returncode == 1 and "koine serve" in gone.stderr
        assert b.stop() == 0


def test_a_killed_copy_goes_on(tmp_path):
    source, target = tmp_path / "a.koine", tmp_path / "b.koine"
    fill(source)
    with Server(target) as server:
        run = subprocess.Popen([program(), "copy", source, target, "--rate", "30MiB"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        # Until the first large value has arrived; two more follow, a second each.
        while koine("kv", "stat", target, "k0199", check=False).returncode != 0:
            assert run.poll() is None, run.communicate()
        run.kill()
        run.wait()
        assert run.returncode == -9
        arrived = len(rows((target, [])))
        assert arrived >= 200 and koine("kv", "stat", target, "large2", check=False).returncode == 4
        assert koine("kv", "stat", target, "other", "--space", 40, check=False).returncode == 4
        # The server of the destination is killed too.
        server.kill()
    done = copied(source, target)
    assert done["resumed"] and done["verified"] > arrived
    assert done["keys"] + arrived <= done["verified"], "nothing that had arrived was brought again"
    check_copy(tmp_path, target)


def test_a_full_destination_is_grown_and_gone_on_with(tmp_path):
    source, target = tmp_path / "a.koine", tmp_path / "b.koine"
    fill(source)
    koine("format", target, "--size", "64MiB")
    full = koine("copy", source, target, check=False)
    assert full.returncode == 1 and "more room" in full.stderr and "large" in full.stderr, full.stderr
    koine("grow", target, "--size", "256MiB")
    done = copied(source, target)
    assert done["resumed"] and done["keys"] < 10
    check_copy(tmp_path, target)


def test_verification_finds_what_differs(tmp_path):
    source, target = tmp_path / "a.koine", tmp_path / "b.koine"
    fill(source)
    koine("format", target)
    copied(source, target)
    koine("kv", "put", target, "large1", "?", "--offset", 12_345_678)
    koine("kv", "del", target, "k0100")
    # A key that is not there is brought; of one that has not changed in the source nobody knows without a look.
    unseen = copied(source, target, "--verify=false")
    assert unseen["keys"] == 1 and unseen["verified"] is None
    found = koine("copy", source, target, check=False)
    assert found.returncode == 1
    assert 'differ in 1 place: key "large1" of space 32 differs at byte 12345678' in found.stderr, found.stderr
    mended = copied(source, target)
    assert mended["keys"] == 1
    check_copy(tmp_path, target)
