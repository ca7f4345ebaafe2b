"""The keys that `mainstay tenancy init` leaves in the home directory, for commands run there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.private_files import private_folder, read_private, write_once

FOLDER: Final = "tenancy"
FILE: Final = "credentials.json"


def folder_of(home: Path) -> Path:
    """Where tenancy keeps its secrets, readable by us alone; made if it is not there."""
    return private_folder(home / FOLDER)


def path_of(home: Path) -> Path:
    """The file."""
    return home / FOLDER / FILE


def keep(home: Path, keys: Mapping[str, str]) -> None:
    """Write them down, by role."""
    folder_of(home)
    write_once(path_of(home), json.dumps(dict(keys), indent=2).encode() + b"\n")


def kept(home: Path, role: str) -> str | None:
    """The key for a role; None if there is none."""
    path = path_of(home)
    if not path.exists():
        return None
    try:
        found = json.loads(read_private(path)).get(role)
    except (ValueError, AttributeError) as error:
        raise Rejected(f"not a file of keys: {path}") from error
    return found if isinstance(found, str) else None
