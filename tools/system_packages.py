"""Install the system packages that are missing, where this user may: called by `make test`.

Standard library only. As root, or with password-free sudo, missing packages are installed without
recommended ones and with services kept from starting. Otherwise it says what is missing and goes
on: the tests that need those packages are skipped, each with a line that names the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Run = Callable[[Sequence[str]], int]

LIST = Path(__file__).resolve().parent.parent / "system-packages.txt"
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = "#!/bin/sh\n# mainstay set-up: nothing installed now may start a service\nexit 101\n"


@dataclass(frozen=True)
class Package:
    """One line of system-packages.txt."""

    name: str
    probe: str
    reason: str


def read(text: str) -> list[Package]:
    """Parse the list; a line that is not three columns is an error, not a guess."""
    packages = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, probe, reason = line.split(maxsplit=2)
        packages.append(Package(name, probe, reason))
    return packages


def is_present(package: Package) -> bool:
    """Look for what the package provides, not for the package: any source of it will do."""
    kind, _, what = package.probe.partition(":")
    if kind == "command":
        return shutil.which(what) is not None
    if kind == "file":
        return Path(what).exists()
    raise ValueError("probe is command:NAME or file:PATH, not " + package.probe)


def privilege() -> list[str] | None:
    """The words before apt-get that make it work, or None when this user may not install."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and quiet(["sudo", "-n", "true"]) == 0:
        return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"]
    return None


def quiet(command: Sequence[str]) -> int:
    """Run a command for its exit code alone."""
    null = subprocess.DEVNULL
    return subprocess.run(command, stdout=null, stderr=null, check=False).returncode


def install(names: Sequence[str], before: Sequence[str], run: Run) -> int:
    """Install `names`; apt is asked for lists only when it does not know a package yet."""
    apt = [*before, "apt-get", "-qq", "-y", "--no-install-recommends"]
    if run([*apt, "install", *names]) == 0:
        return 0
    run([*apt, "update"])
    return run([*apt, "install", *names])


def without_services(before: Sequence[str], run: Run) -> Callable[[], None]:
    """Keep packages from starting services; returns the undo. A policy already there stays."""
    if POLICY.exists():
        return lambda: None
    write = 'printf %s "$1" >"$2" && chmod 755 "$2"'
    run([*before, "sh", "-c", write, "sh", POLICY_TEXT, str(POLICY)])
    return lambda: void(run([*before, "rm", "-f", str(POLICY)]))


def void(_: object) -> None:
    """Drop a value."""


def run_shown(command: Sequence[str]) -> int:
    """Run a command with its output on our stderr."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, stdout=sys.stderr, env=env, check=False).returncode


def main() -> None:
    """Install what is missing, or say why not; never stops the tests."""
    missing = [package for package in read(LIST.read_text()) if not is_present(package)]
    if not missing:
        return
    names = [package.name for package in missing]
    listed = " ".join(names)
    before = privilege()
    if before is None:
        say("missing, and this user may not install: " + listed + " (their tests are skipped)")
        return
    say("installing " + listed)
    undo = without_services(before, run_shown)
    try:
        failed = install(names, before, run_shown) != 0
    finally:
        undo()
    if failed:
        say("could not install all of: " + listed + " (their tests are skipped)")


def say(text: str) -> None:
    """One line on stderr."""
    print("mainstay set-up: " + text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
