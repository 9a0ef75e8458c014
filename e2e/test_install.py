"""`./x install`: what it puts where, and that a C program finds it by pkg-config."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*args, **more):
    return ended(*args, **more).stdout


def ended(*args, **more):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, timeout=1200, **more)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix") / "koine"
    done = ended(ROOT / "x", "install", "--dev", "--prefix", folder)
    # After `./x test` has built everything: with other features all of it would compile again.
    if os.environ.get("KOINE_TEST_BUILT") == "1":
        assert "Compiling" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def environment(prefix):
    return os.environ | {
        "PATH": f"{prefix}/bin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{prefix}/lib",
        "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig",
        "MANPATH": f"{prefix}/share/man",
    }


def test_everything_is_in_its_place(prefix, environment):
    there = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    for path in ["bin/koine", "lib/libkoine.so.0", "lib/libkoine.so", "lib/libkoine.a", "lib/pkgconfig/koine.pc",
                 "include/koine.h", "share/man/man1/koine.1", "share/man/man1/koine-format.1", "share/man/man3/koine.3",
                 "share/man/man3/koine-objects.3"]:
        assert path in there, f"{path} is not in {sorted(there)}"
    assert "libkoine.so.0" in run("readelf", "-d", prefix / "lib/libkoine.so.0")
    version = run("koine", "--version", env=environment).split()[1]
    assert run("pkg-config", "--modversion", "koine", env=environment).strip() == version
    assert version in (prefix / "share/man/man3/koine.3").read_text().splitlines()[0]
    assert "@" not in (prefix / "lib/pkgconfig/koine.pc").read_text()


def test_the_library_exports_its_own_calls_and_nothing_else(prefix):
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", prefix / "lib/libkoine.so.0").splitlines()]
    assert len(exported) > 130
    assert [name for name in exported if not name.startswith("koine_")] == []


@pytest.mark.parametrize("name", ["bin/koine", "lib/libkoine.so.0"])
def test_debug_lines_are_in_a_file_of_their_own(prefix, name):
    """The installed file has none; by its link they are found all the same."""
    installed, lines = prefix / name, (prefix / name).parent / ".debug" / f"{Path(name).name}.debug"
    sections = run("readelf", "--wide", "--sections", installed)
    assert ".debug_line" not in sections and ".gnu_debuglink" in sections
    assert ".debug_line" in run("readelf", "--wide", "--sections", lines)
    assert installed.stat().st_mode & 0o777 == 0o755 and lines.stat().st_mode & 0o777 == 0o644
    # A function of ours, by the symbols that stay: its file and line are told from the other file.
    symbols = run("nm", "--defined-only", installed).splitlines()
    address = next(line.split()[0] for line in symbols if " t " in line.lower() and "koine_engine" in line)
    assert ".rs:" in run("addr2line", "--exe", installed, f"0x{address}"), address


@pytest.mark.parametrize("linked", ["shared", "static"])
def test_a_program_is_built_against_it(prefix, environment, tmp_path, linked):
    flags = run("pkg-config", "--cflags", "koine", env=environment).split()
    if linked == "shared":
        libraries = run("pkg-config", "--libs", "koine", env=environment).split()
    else:
        needed = run("pkg-config", "--static", "--libs-only-l", "koine", env=environment).split()
        libraries = [f"{prefix}/lib/libkoine.a", *(flag for flag in needed if flag != "-lkoine")]
    program = tmp_path / "example"
    run("cc", "-Wall", "-Werror", *flags, ROOT / "bindings/c/examples/example.c", *libraries, "-o", program)
    told = run(program, tmp_path / "test.koine", env=environment if linked == "shared" else None)
    assert "read 1048576 bytes, all as written" in told
    # The program and the library open the same stores.
    assert "test.koine" in run("koine", "check", tmp_path / "test.koine", env=environment)


def test_a_limit_of_objects_is_fixed_by_format(environment, tmp_path):
    """`koine format --object-limit` is what `koine_store_create` with a limit is."""
    store = tmp_path / "store.koine"
    run("koine", "format", store, "--size", "32MiB", "--object-limit", "5", env=environment)
    source = tmp_path / "limit.c"
    source.write_text("""
        #include <koine.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            koine_error *error = NULL;
            koine_store_status status;
            koine_store *store = koine_store_open(argv[argc - 1], &error);
            uint64_t first;
            if (!koine_store_get_status(store, &status, &error)) { puts(koine_error_message(error)); return 1; }
            printf("%llu %d ", (unsigned long long)status.object_limit,
                   koine_store_create_many(store, 6, 0, KOINE_SYNC, &first, &error));
            puts(koine_error_message(error));
            return !koine_store_close(store, NULL);
        }""")
    flags = run("pkg-config", "--cflags", "--libs", "koine", env=environment).split()
    run("cc", "-Wall", "-Werror", source, *flags, "-o", tmp_path / "limit")
    told = run(tmp_path / "limit", store, env=environment)
    assert told.startswith("5 0 ") and "5 objects" in told


def commands(environment):
    listed = run("koine", "--help", env=environment).split("Commands:")[1].split("Options:")[0]
    names = re.findall(r"^  ([a-z]+)", listed, re.MULTILINE)
    return [name for name in names if name != "help"]


def plain(page):
    """A page without the escapes of roff."""
    return page.read_text().replace("\\-", "-").replace("\\fR", "").replace("\\fB", "").replace("\\fI", "")


def test_the_manual_has_what_help_has(prefix, environment):
    names = commands(environment)
    assert {"serve", "format", "check", "man"} <= set(names)
    pages = prefix / "share/man/man1"
    overview = plain(pages / "koine.1")
    for name in names:
        assert f"koine-{name}" in overview
        page = plain(pages / f"koine-{name}.1")
        flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", run("koine", name, "--help", env=environment)))
        assert "--help" in flags
        for flag in flags:
            assert flag in page, f"koine-{name}.1 does not tell of {flag}"


def test_the_pages_are_sound(prefix):
    for page in sorted((prefix / "share/man").rglob("koine*")):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout, page
        assert not done.stderr, f"{page}: {done.stderr}"
