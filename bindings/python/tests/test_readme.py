"""What README shows is run."""

import contextlib
import os
import re
from pathlib import Path

import fsspec
import pandas
import pyarrow
import pyarrow.dataset
import pytest
import zarr

import koine

README = Path(__file__).parent.parent / "README.md"


def test_what_readme_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    with pytest.raises(FileExistsError):
        exec(first, {})
    frame = pandas.DataFrame({"n": [1, 2]})
    with koine.connect("store.koine"):
        fs = fsspec.filesystem("koine", store="store.koine")
        pyarrow.dataset.write_dataset(pyarrow.table({"n": [1]}), "first/set", filesystem=fs, format="parquet")
        exec(second, {"frame": frame, "zarr": zarr, "pyarrow": pyarrow, "fsspec": fsspec})
        assert fs.exists("first/frame.parquet") and fs.exists("first/group.zarr")
        fs.clear_instance_cache()
    with contextlib.suppress(FileNotFoundError):
        os.remove("store.koine")
