"""Make `.venv` from nothing but a python3: called by the Makefile, standard library only.

usage: python3 tools/install.py {runtime|dev}

Kept readable for Python 3.6, so that an old interpreter gets a clear line instead of a traceback:
annotations that it could not evaluate are quoted.
"""

import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

STDERR = 2  # talk of the steps goes there: stdout is for data
OLDEST = (3, 11)
NEWEST_TESTED = (3, 13)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCKS = {"runtime": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}


def main() -> None:
    """Bring `.venv` up to date; nothing is done when it already is."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "runtime"
    if kind not in LOCKS:
        fail("usage: python3 tools/install.py {runtime|dev}")
    use_supported_python()
    if any(is_current(have) for have in satisfying(kind)):
        return
    make_venv()
    install_uv(LOCKS[kind])
    sync(LOCKS[kind])
    run([str(VENV / "bin/mainstay"), "warm"])
    for stamp in VENV.glob("stamp-*"):
        stamp.unlink()
    stamp_path(kind).write_text(fingerprint(kind))
    say("installed into .venv (" + kind + ")")


def use_supported_python() -> None:
    """Go on under a supported interpreter, or end with one line that says what to do."""
    if OLDEST <= sys.version_info[:2] <= NEWEST_TESTED:
        return
    for minor in (13, 12, 11):
        other = shutil.which("python3." + str(minor))
        if other and runs(other):
            os.execv(other, [other, *sys.argv])
    if sys.version_info[:2] < OLDEST:
        found = ".".join(map(str, sys.version_info[:2]))
        fail(
            "Mainstay needs Python 3.11 or later, this is "
            + found
            + ": install one, or name it: make PYTHON=/path/to/python3"
        )
    say("this Python is newer than any Mainstay was tested with (3.13); going on")


def runs(python: str) -> bool:
    """A version manager's shim may exist on PATH and still refuse to run."""
    quiet = subprocess.DEVNULL
    tried = subprocess.run([python, "-c", ""], stdout=quiet, stderr=quiet, check=False)
    return tried.returncode == 0


def satisfying(kind: str) -> "list[str]":
    """The dev set holds everything the runtime set does, so it serves both."""
    return ["dev"] if kind == "dev" else ["runtime", "dev"]


def is_current(kind: str) -> bool:
    """Whether the set was installed from what is here now."""
    stamp = stamp_path(kind)
    return stamp.exists() and stamp.read_text() == fingerprint(kind)


def stamp_path(kind: str) -> Path:
    """Where the fingerprint of the last installation is kept."""
    return VENV / ("stamp-" + kind)


def fingerprint(kind: str) -> str:
    """What an installation depends on; where it stands too, since scripts in it name the path."""
    digest = hashlib.sha256((sys.version + str(ROOT)).encode())
    for path in (LOCKS[kind], ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def make_venv() -> None:
    """Begin with an empty environment, whatever was there."""
    require_venv_module()
    say("making .venv with Python " + sys.version.split()[0])
    run([sys.executable, "-m", "venv", "--clear", str(VENV)])


def require_venv_module() -> None:
    """Debian ships python3 without venv; install it where this user may."""
    try:
        import ensurepip  # noqa: F401, PLC0415 - presence is the question
        import venv  # noqa: F401, PLC0415
    except ImportError:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            fail("this python3 has no venv module (Debian: apt-get install python3-venv)")
        say("installing python3-venv")
        apt = ["apt-get", "-qq", "-y", "--no-install-recommends"]
        run([*apt, "update"])
        run([*apt, "install", "python3-venv"])


def install_uv(lock: Path) -> None:
    """Install the locked uv with the lock's own hashes, so there is one place that pins it."""
    pinned = re.search(r"^uv==.*\n(?:    .*\n)+", lock.read_text(), re.MULTILINE)
    if pinned is None:
        fail("no uv in " + lock.name + ": run make lock")
        return
    only_uv = VENV / "uv.lock.txt"
    only_uv.write_text(pinned.group())
    pip = [str(VENV / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--no-deps", "--require-hashes", "-r", str(only_uv)])


def sync(lock: Path) -> None:
    """Install exactly what the lock names, then ourselves."""
    uv = [str(VENV / "bin/uv"), "pip"]
    python = ["--python", str(VENV / "bin/python"), "--quiet", *certificates()]
    run([*uv, "sync", *python, "--compile-bytecode", "--require-hashes", str(lock)])
    run([*uv, "install", *python, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])


def certificates() -> "list[str]":
    """Trust what this machine trusts, if it says so: a mirror may have its own certificate."""
    paths = ssl.get_default_verify_paths()
    return ["--system-certs"] if paths.cafile or paths.capath else []


def run(command: "list[str]") -> None:
    """Run a step of the set-up; the first that fails ends it."""
    done = subprocess.run(command, cwd=str(ROOT), stdout=STDERR, check=False)
    if done.returncode != 0:
        fail("set-up stopped, this failed: " + " ".join(command))


def say(text: str) -> None:
    """One line on stderr."""
    print("mainstay set-up: " + text, file=sys.stderr, flush=True)


def fail(text: str) -> None:
    """One line on stderr, and the end."""
    say(text)
    sys.exit(1)


if __name__ == "__main__":
    main()
