"""`koine serve` itself: first and second start, credentials, a held store, and what it never formats."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
import time

import pytest

from harness import clients
from harness.expect import refused
from harness.server import SECRET, Server, clean_environment, die_with_parent, koine, program, root_environment


def test_a_first_start_makes_store_and_credentials_and_a_second_finds_both(tmp_path):
    store = tmp_path / "store.koine"
    with Server(store, env={}) as server:
        file = tmp_path / "store.koine.credentials"
        assert server.banner["credentials_file"] == str(file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        text = file.read_text()
        access = re.search(r"^KOINE_ROOT_USER=(\w{20})$", text, re.M)[1]
        secret = re.search(r"^KOINE_ROOT_PASSWORD=(\w{40})$", text, re.M)[1]
        s3 = clients.s3(server.url, access, secret)
        s3.create_bucket(Bucket="kept")
        s3.put_object(Bucket="kept", Key="k", Body=b"still here")
        assert secret not in server.log_path.read_text()
        assert server.stop() == 0
    file.unlink()
    with Server(store, env={}) as server:
        assert server.banner["credentials_file"] is None and not file.exists()
        s3 = clients.s3(server.url, access, secret)
        assert s3.get_object(Bucket="kept", Key="k")["Body"].read() == b"still here"
        assert server.stop() == 0
    koine("check", store)


def test_credentials_of_the_environment_win_and_are_not_kept(tmp_path):
    store = tmp_path / "store.koine"
    with Server(store, env={}) as server:
        made = dict(
            line.split("=") for line in (tmp_path / "store.koine.credentials").read_text().splitlines() if "=" in line
        )
        server.stop()
    with Server(store, env={"KOINE_ROOT_USER": "other-root", "KOINE_ROOT_PASSWORD": "other-password"}) as server:
        clients.s3(server.url, "other-root", "other-password").list_buckets()
        with pytest.raises(Exception, match="InvalidAccessKeyId"):
            clients.s3(server.url, made["KOINE_ROOT_USER"], made["KOINE_ROOT_PASSWORD"]).list_buckets()
        server.stop()
    assert b"other-password" not in store.read_bytes()
    with Server(store, env={}) as server:
        clients.s3(server.url, made["KOINE_ROOT_USER"], made["KOINE_ROOT_PASSWORD"]).list_buckets()


def test_credentials_go_to_the_file_that_is_named(tmp_path):
    with Server(tmp_path / "store.koine", "--credentials", tmp_path / "root.key", env={}) as server:
        assert server.banner["credentials_file"] == str(tmp_path / "root.key")
    assert "KOINE_ROOT_PASSWORD=" in (tmp_path / "root.key").read_text()
    assert not (tmp_path / "store.koine.credentials").exists()


def test_on_a_terminal_the_credentials_are_shown_once(tmp_path):
    def start_on_a_terminal():
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [program(), "serve", str(tmp_path / "store.koine"), "--s3", "127.0.0.1:0"],
            env=clean_environment(TERM="xterm"),
            stdin=follower,
            stdout=follower,
            stderr=follower,
            preexec_fn=die_with_parent,
        )
        os.close(follower)
        text, ends = "", time.monotonic() + 60
        while "Ctrl-C" not in text and time.monotonic() < ends:
            text += os.read(leader, 4096).decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        os.close(leader)
        return text

    first = start_on_a_terminal()
    access = re.search(r"AWS_ACCESS_KEY_ID=(\w+)", first)[1]
    secret = re.search(r"AWS_SECRET_ACCESS_KEY=(\w+)", first)[1]
    assert "http://127.0.0.1:" in first and "aws --endpoint-url" in first
    second = start_on_a_terminal()
    assert access in second and secret not in second
    assert not (tmp_path / "store.koine.credentials").exists()


def test_half_a_pair_of_credentials_is_wrong_usage(tmp_path):
    done = koine("serve", tmp_path / "s", env={"KOINE_ROOT_USER": "root"}, check=False)
    assert done.returncode == 2 and "KOINE_ROOT_PASSWORD" in done.stderr


@pytest.mark.parametrize("command", ["serve", "check", "stat", "format"])
def test_a_held_store_is_refused_with_the_owners_pid(tmp_path, command):
    store = tmp_path / "store.koine"
    with Server(store) as server:
        arguments = {"serve": ["--s3", "127.0.0.1:0"], "format": ["--force"]}.get(command, [])
        done = koine(command, store, *arguments, check=False)
        assert done.returncode == 3, done
        assert str(server.pid) in done.stderr
        clients.s3(server.url).list_buckets()
        assert server.stop() == 0
    koine("check", store)


def test_a_taken_address_is_told_and_shows_no_credentials(tmp_path):
    with Server(tmp_path / "one.koine") as server:
        done = koine("serve", tmp_path / "two.koine", "--s3", f"127.0.0.1:{server.port}", env={}, check=False)
        assert done.returncode == 1
        assert "--s3" in done.stderr
        assert not (tmp_path / "two.koine.credentials").exists()


def test_serve_never_formats_what_has_content(tmp_path):
    file = tmp_path / "letters.txt"
    file.write_text("dear friend,\n" * 1000)
    done = koine("serve", file, "--s3", "127.0.0.1:0", check=False)
    assert done.returncode == 1
    assert "text, not a Koine store" in done.stderr and "koine format" not in done.stderr, "nothing that loses the letters is advised"
    assert file.read_text() == "dear friend,\n" * 1000
    done = koine("serve", tmp_path, "--s3", "127.0.0.1:0", check=False)
    assert done.returncode == 1 and "a folder" in done.stderr


def test_serve_makes_an_empty_file_into_a_store(tmp_path):
    store = tmp_path / "store.koine"
    store.touch()
    with Server(store) as server:
        clients.s3(server.url).create_bucket(Bucket="made")
        assert server.stop() == 0
    koine("check", store)


def test_a_graceful_stop_finishes_what_is_under_way(tmp_path):
    import http.client

    from test_signatures import signed

    with Server(tmp_path / "store.koine") as server:
        s3 = clients.s3(server.url)
        s3.create_bucket(Bucket="late")
        body = b"x" * 1_000_000
        headers = signed(server, "PUT", "/late/k", body)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.putrequest("PUT", "/late/k")
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            connection.putheader(name, value)
        connection.endheaders(body[:1000])
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connection.send(body[1000:])
        assert connection.getresponse().status == 200
        connection.close()
        assert server.process.wait(60) == 0
    with Server(tmp_path / "store.koine") as server:
        assert clients.s3(server.url).head_object(Bucket="late", Key="k")["ContentLength"] == len(body)


def test_stat_tells_people_and_scripts(tmp_path):
    store = tmp_path / "store.koine"
    koine("format", store, "--size", "64MiB")
    told = json.loads(koine("--json", "stat", store).stdout)
    assert told["store"] == str(store) and told["total"] >= 60 << 20
    assert "64 MiB" in koine("stat", store).stdout


@pytest.mark.parametrize("level", ["info", "trace,s3s=trace"])
def test_the_log_tells_refusals_and_deletions_and_nothing_that_users_gave(tmp_path, level):
    store = tmp_path / "store.koine"
    with Server(store, env=root_environment() | {"KOINE_LOG": level}) as server:
        root = clients.s3(server.url)
        run = lambda *args: koine("--json", *args, "--store", store)
        run("group", "add", "lab")
        run("user", "add", "bob", "--group", "lab")
        key = json.loads(run("user", "key", "add", "bob").stdout.splitlines()[-1])
        bob = clients.s3(server.url, access=key["access_key"], secret=key["secret"])
        root.create_bucket(Bucket="closed")
        root.put_object(Bucket="closed", Key="k", Body=b"canary", Metadata={"colour": "canary"}, Tagging="team=canary", ContentType="text/canary")
        root.put_object_tagging(Bucket="closed", Key="k", Tagging={"TagSet": [{"Key": "canary", "Value": "canary"}]})
        assert root.head_object(Bucket="closed", Key="k")["Metadata"] == {"colour": "canary"}
        assert root.get_object_tagging(Bucket="closed", Key="k")["TagSet"][0]["Key"] == "canary"
        upload = root.create_multipart_upload(Bucket="closed", Key="u", Metadata={"colour": "canary"})["UploadId"]
        root.abort_multipart_upload(Bucket="closed", Key="u", UploadId=upload)
        with refused("AccessDenied", 403):
            bob.get_object(Bucket="closed", Key="k")
        root.delete_objects(Bucket="closed", Delete={"Objects": [{"Key": "k"}]})
        root.delete_bucket(Bucket="closed")
        log = server.log_path.read_text()
        assert re.search(r'refused action="s3:GetObject" on="closed/k" by="bob \(\w{16}\) from 127.0.0.1" rule="nothing allows it"', log), log
        for what in ("the object closed/k", "an upload of closed/u under way", "the bucket closed"):
            assert f'deleted what="{what}"' in log, log
        assert "canary" not in log and SECRET not in log and key["secret"] not in log
        assert server.stop() == 0
