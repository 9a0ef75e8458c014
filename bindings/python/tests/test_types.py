"""The stubs say what the package has, and a program is checked against them."""

import subprocess
import sys
from pathlib import Path

import koine

CONFIG = Path(__file__).with_name("mypy.ini")

PROGRAM = '''
import koine

with koine.connect("memory:", create=True) as session:
    bucket = session.create_bucket("bucket")
    info = bucket.put("key", memoryview(b"bytes"), if_absent=True, metadata={"a": "b"})
    reveal_type(info.modified)
    reveal_type(bucket.get("key"))
    reveal_type([each.size for each in bucket.list("prefix/")])
    reveal_type(bucket.open("key"))
    reveal_type(bucket.open("key", "w", encoding="utf-8"))
    reveal_type(koine.open("koine://bucket/key", "rb"))
    try:
        bucket.head("key")
    except koine.errors.NoSuchKey as error:
        reveal_type(error.errno)
    bucket.put("key", "text")
    bucket.put("key", b"", colour="blue")
    for each in bucket.list(delimiter="/"):
        print(each.size)
'''


def mypy(*arguments, folder):
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


def test_the_stubs_are_of_this_package(tmp_path):
    allowed = tmp_path / "allowed"
    # The metaclasses of fsspec and Arrow are not known to mypy; the reflection of a slot is Python's own.
    allowed.write_text("\n".join([
        "koine.fsspec.KoineFileSystem", "koine.fsspec.AsyncKoineFileSystem", "koine.fsspec._Ranges", "koine.arrow.KoineHandler",
        "koine._koine.Bucket.__rtruediv__"]))
    done = mypy("mypy.stubtest", "koine", "--mypy-config-file", CONFIG, "--allowlist", allowed, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_checked(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = mypy("mypy", "--config-file", CONFIG, "program.py", folder=tmp_path)
    revealed = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line]
    assert revealed == [
        "datetime.datetime", "bytes", "list[int]", "koine._files.File", "koine._files.Text", "koine._files.File",
        "int | None"], done.stdout
    errors = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    wrong = [str(n) for n, line in enumerate(PROGRAM.splitlines(), 1)
             if '"text")' in line or "colour" in line or "each.size)" in line]
    assert errors == wrong, done.stdout


def test_all_that_is_public_is_told():
    assert all(hasattr(koine, name) for name in koine.__all__)
