"""A file that records every write, flush and discard of the program that uses it.

It is a FUSE export of qemu-storage-daemon over its blklogwrites driver; the log is in the format of the kernel's
dm-log-writes. The file takes O_DIRECT, fsync, locks and hole punching like one of a plain file system. It cannot grow.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PROGRAM = "qemu-storage-daemon"
SECTOR = 512


def missing():
    """What is not there and why that matters, or None."""
    if not shutil.which(PROGRAM):
        return f"{PROGRAM} is not installed (Debian: qemu-utils qemu-system-common fuse3)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be used here"
    return None


class Recorder:
    """Used as a context: `device` is there inside it; `log` and `base` stay after it.

    `rules` are errors that the device has, in the words of qemu's blkdebug.
    """

    def __init__(self, folder, size, rules=()):
        self.folder = Path(folder)
        self.size = size
        self.base = self.folder / "base"
        self.log = self.folder / "log"
        self.device = self.folder / "device"
        self.rules = rules
        self.process = None

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.base, "wb") as base:
            base.truncate(self.size)
        # Sparse: only what is written takes room.
        with open(self.log, "wb") as log:
            log.truncate(64 << 30)
        self.device.touch()
        files = [
            f"driver=file,node-name=base,filename={self.base}",
            f"driver=file,node-name=logfile,filename={self.log}",
            f"driver=blklogwrites,node-name=recorded,file=base,log=logfile,log-sector-size={SECTOR}",
        ]
        node = "recorded"
        if self.rules:
            node = "above"
            config = self.folder / "rules"
            config.write_text("\n".join(self.rules) + "\n")
            # The rules' events come from the driver above.
            files.append(f"driver=blkdebug,node-name=faulty,image=recorded,config={config}")
            files.append("driver=raw,node-name=above,file=faulty")
        command = [PROGRAM, *(part for file in files for part in ("--blockdev", file))]
        command += ["--export", f"type=fuse,id=export,node-name={node},mountpoint={self.device},writable=on"]
        with open(self.folder / "recorder.out", "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        for _ in range(200):
            if self.device.stat().st_size == self.size:
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        said = (self.folder / "recorder.out").read_text()
        self.__exit__()
        raise RuntimeError(f"{PROGRAM} exports nothing: {said}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        subprocess.run(["umount", "-l", self.device], stderr=subprocess.DEVNULL, check=False)


def failing_flush(nth, once):
    """Rules by which the `nth` flush fails, alone or with all after it."""
    rules = []
    for state in range(1, nth):
        rules += ["[set-state]", f'state = "{state}"', 'event = "flush_to_disk"', f'new_state = "{state + 1}"']
    rules += ["[inject-error]", f'state = "{nth}"', 'event = "flush_to_disk"', 'errno = "5"']
    return [*rules, f'once = "{"on" if once else "off"}"', 'immediately = "off"']
