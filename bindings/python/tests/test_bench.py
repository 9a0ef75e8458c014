"""`koine bench object python`: this package beside the library in Rust, in one run."""

import json
import os
import subprocess
import tempfile

import pytest

program = os.environ.get("KOINE_PROGRAM")


@pytest.mark.skipif(not program, reason="KOINE_PROGRAM is not set")
def test_the_package_stands_beside_rust():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        command = [program, "bench", "object", "python", "--quick", "--json", "--dir", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        # 1: it ran, and a claim is missed; in a build for tests that says nothing.
        assert done.returncode in (0, 1) and done.stdout, done.stderr
        assert os.listdir(folder) == [], "stores were left behind"
    rows = {row["case"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {"Python PUT 1 MiB", "Python GET 1 MiB"}
    for row in rows.values():
        assert row["ours"] > 0 and row["references"]["rust"] > 0 and row["goal"] == 0.8
