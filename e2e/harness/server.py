"""Starts the built program as users do, on loopback, and ends it in the ways that a machine can."""

import ctypes
import json
import os
import select
import signal
import subprocess
from pathlib import Path

ACCESS = "e2e-root"
SECRET = "e2e-secret-0123456789"
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60


def program():
    path = os.environ.get("KOINE_PROGRAM")
    if not path or not Path(path).exists():
        raise RuntimeError("KOINE_PROGRAM must name the built program; run the tests by `./x test e2e`")
    return path


def clean_environment(**extra):
    """The environment without anything of the user's that a client or the server would take up."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "KOINE_", "RCLONE_", "MC_"))}
    return keep | {k: str(v) for k, v in extra.items()}


def root_environment():
    return {"KOINE_ROOT_USER": ACCESS, "KOINE_ROOT_PASSWORD": SECRET}


def die_with_parent():
    """The kernel ends the server when the test program ends, however it ends (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def koine(*args, env=None, check=True, timeout=300, stdin=None, wrap=()):
    """Runs one command of the program to its end; `wrap` is the command line that runs it."""
    done = subprocess.run(
        [*wrap, program(), *map(str, args)],
        env=clean_environment(**(root_environment() if env is None else env)),
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=stdin,
        preexec_fn=die_with_parent,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"koine {' '.join(map(str, args))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Server:
    """A running `koine serve`."""

    def __init__(self, store, *args, env=None, log=None, wrap=()):
        self.store = str(store)
        self.log_path = Path(log) if log else Path(f"{self.store}.log")
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [*wrap, program(), "--json", "serve", self.store, "--s3", "127.0.0.1:0", *map(str, args)],
            env=clean_environment(**(root_environment() if env is None else env)),
            stdout=subprocess.PIPE,
            stderr=self.log,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        try:
            self.banner = self._banner()
        except BaseException:
            self.kill()
            raise
        self.url = self.banner["s3"][0]
        self.port = int(self.url.rsplit(":", 1)[1])
        self.pid = self.banner["pid"]

    def _banner(self):
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS_MAX)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise AssertionError(f"koine serve did not start: exit {self.process.poll()}\n{self.log_path.read_text()}")
        banner = json.loads(line)
        if banner.get("type") != "serving":
            raise AssertionError(f"koine serve did not start: {line!r}\n{self.log_path.read_text()}")
        return banner

    def stop(self):
        """SIGTERM, and the end of a graceful stop; gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        finally:
            self.kill()
        return code

    def kill(self):
        """SIGKILL: the process is gone from one moment to the next."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
