"""A process that is ready says so in a file, so that others on this machine find it."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstay.model.errors import Rejected


@contextmanager
def announced(home: Path, process: str, identity: str, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Write `run/<process>-<id>.json` below `home`, and remove it when the block is left."""
    path = home / "run" / f"{process}-{identity}.json"
    told = {"process": process, "id": identity, "pid": os.getpid(), **facts}
    unfinished = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)  # a reader sees all of it or nothing
    except OSError as error:
        raise Rejected(f"cannot write {path}: {error.strerror} (set MAINSTAY_HOME)") from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
