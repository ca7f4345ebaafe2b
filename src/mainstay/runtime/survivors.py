"""Processes that may outlive whoever started them: written down, so that the next start ends them.

A number alone is nobody's name, since the system gives it out again: when it began goes with it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

STOP_S: Final = 20.0
"""How long one may take to end when it is told to, and then when it is made to."""

LOOK_S: Final = 0.02

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Survivor:
    """One process, whatever became of it."""

    name: str
    pid: int
    began: str
    """As `began` said then."""

    def is_alive(self) -> bool:
        """Whether it, and no other of the same number, still runs."""
        return bool(self.began) and began(self.pid) == self.began


def began(pid: int) -> str:
    """When the process of this number began, in the words of this system; empty: there is none."""
    if not sys.platform.startswith("linux"):
        asked = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *_ = after = fields.rpartition(")")[2].split()
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return ""
    if state in {"Z", "X"} and threads <= 1:  # with more, those still hold its ports
        return ""
    return f"{_BOOT.read_text(encoding='ascii').strip()} {after[19]}"


def note(path: Path, name: str, pid: int) -> None:
    """Write one down beside the others."""
    with path.open("a", encoding="utf-8") as written:
        written.write(json.dumps(asdict(Survivor(name, pid, began(pid)))) + "\n")


def noted(path: Path) -> list[Survivor]:
    """Those that were written down, in the order in which they began."""
    found = []
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, TypeError):  # the last one may be cut off
                found.append(Survivor(**json.loads(line)))
    return found


def end(survivors: Sequence[Survivor], patience_s: float = STOP_S) -> list[Survivor]:
    """End those that still live, the last one first; who lives all the same."""
    return [each for each in reversed(survivors) if not _ended(each, patience_s)]


def _ended(survivor: Survivor, patience_s: float) -> bool:
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        if not survivor.is_alive():
            break
        with suppress(ProcessLookupError, PermissionError):
            os.kill(survivor.pid, signal_)
        until_s = time.monotonic() + patience_s
        while survivor.is_alive() and time.monotonic() < until_s:
            time.sleep(LOOK_S)
    return not survivor.is_alive()
