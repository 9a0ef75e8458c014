"""What `help` says, and that stubs, documentation and the package say the same."""

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import koine
import koine.aio
import koine.arrow
import koine.fsspec
import koine.polars
from koine import _koine

DOCS = Path(__file__).parent.parent / "docs.py"


def members(owner):
    """What is public of a class, by its name."""
    return {f"{owner.__name__}.{name}": member for name, member in vars(owner).items() if not name.startswith("_")}


PUBLIC = [getattr(koine, name) for name in koine.__all__ if not name.startswith("__") and name != "errors"]
CLASSES = [each for each in PUBLIC if inspect.isclass(each)]
RUST = {name: member for kind in [*CLASSES, _koine.RawFile] for name, member in members(kind).items()}


def test_everything_has_a_docstring():
    assert len(RUST) > 158
    silent = [name for name, member in RUST.items() if not (inspect.getdoc(member) or "").strip()]
    silent += [each.__name__ for each in PUBLIC if not (inspect.getdoc(each) or "").strip()]
    for module in (koine, koine.aio, koine.arrow, koine.fsspec, koine.polars, koine.errors):
        silent += [] if (module.__doc__ or "").strip() else [module.__name__]
    silent += [name for name, kind in vars(koine.errors).items() if inspect.isclass(kind) and not kind.__doc__]
    assert silent == []


def test_everything_has_a_signature():
    calls = {name: member for name, member in RUST.items() if callable(member)}
    calls |= {each.__name__: each for each in PUBLIC if inspect.isroutine(each)}
    for name, call in calls.items():
        assert inspect.signature(call) is not None, name
    # And the types, with each keyword.
    said = inspect.getdoc(koine.Bucket.put).splitlines()[0]
    for part in ("key: str | PathLike", "data: Buffer", "if_absent: bool", "content_type: str | None", "-> ObjectInfo"):
        assert part in said, said
    assert inspect.getdoc(koine.ObjectInfo.size).startswith("size: int")
    assert str(inspect.signature(koine.connect)).startswith("(place, *, create=False, size=None")


def test_stubs_and_help_say_the_same():
    done = subprocess.run([sys.executable, DOCS, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", [koine, koine.fsspec, koine.errors], ids=lambda module: module.__name__)
def test_what_documentation_shows_is_so(module):
    assert doctest.testmod(module).failed == 0
    if module is koine:
        assert doctest.testmod(module).attempted > 1
