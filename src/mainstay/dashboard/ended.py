"""Sessions that somebody has ended, kept over a restart until their own time would be over."""

import os
import secrets
from pathlib import Path
from typing import Final

from mainstay.model.errors import Unavailable
from mainstay.tenancy.private_files import read_private

PRIVATE: Final = 0o600


class Ended:
    """Ids of sessions. Only who was signed in can add one, so there are no more than sign-ins."""

    def __init__(self, path: Path | None) -> None:
        """`path`: where they are kept; None: in memory alone."""
        self._path = path
        self._ends_s = _read(path) if path is not None and path.exists() else {}

    def __contains__(self, identity: str) -> bool:
        return identity in self._ends_s

    def add(self, identity: str, ends_s: float, now_s: float) -> None:
        """It counts from here on, written down or not; Unavailable: it is not written down."""
        kept = {name: at_s for name, at_s in self._ends_s.items() if at_s > now_s}
        self._ends_s = {**kept, identity: ends_s}
        if self._path is None:
            return
        try:
            _write(self._path, self._ends_s)
        except OSError as error:
            said = f"cannot write {self._path}: {error.strerror}"
            raise Unavailable(f"{said}; the session is ended until the next start") from error


def _read(path: Path) -> dict[str, float]:
    """A line that cannot be read is of no session that could be known again."""
    rows = (line.split() for line in read_private(path).decode(errors="replace").splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _write(path: Path, ends_s: dict[str, float]) -> None:
    """Whole or not at all."""
    text = "".join(f"{name} {int(at_s)}\n" for name, at_s in ends_s.items())
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
