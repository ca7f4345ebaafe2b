"""Run tests that have failed once more, with nothing beside them: called by `make test`.

usage: python tools/once_more.py FILE

FILE names them, a line each. Only tests that start real processes get a second chance, and only a
few of them: what decides nothing but by its input fails the same each time. Whatever passes now is
named at the end, since it is a defect of ours or of the test (ADR-0054).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Run = Callable[[Sequence[str]], int]

ROOT = Path(__file__).resolve().parent.parent
REAL = ("tests/integration/", "tests/browser/")
"""Where tests start real processes, which share two cores with whatever runs beside them."""

MOST = 5
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis")


def main(words: Sequence[str], run: Run) -> int:
    """The exit code of all: 0 when everything passes by itself."""
    (name,) = words
    failed = read(Path(name))
    if why := refusal(failed):
        print(f"not run once more: {why}")
        return 1
    print(f"once more, with nothing beside it: {len(failed)} that failed", flush=True)
    code = run([*PYTEST, *failed])
    if code == 0:
        print("These failed beside others and passed alone; find out why:", *failed, sep="\n  ")
    return code


def read(path: Path) -> list[str]:
    """The tests that are named; none where nothing was written."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def refusal(failed: Sequence[str]) -> str:
    """Why these get no second chance; empty when they do."""
    if not failed:
        return "the tests did not come to their end"
    if len(failed) > MOST:
        return f"{len(failed)} tests failed, more than {MOST}"
    others = [test for test in failed if not test.startswith(REAL)]
    return f"no real processes, so it would fail again: {others[0]}" if others else ""


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _run))
