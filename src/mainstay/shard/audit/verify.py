"""Whether an audit log is as it was written: `mainstay audit verify`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mainstay.model.errors import Rejected
from mainstay.shard.audit.chain import Link, Read, read
from mainstay.shard.audit.files import HEAD, Head, files_of, number_of, read_head


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, counted from 1; 0: the file itself."""

    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check saw."""

    lines: int
    files: int
    first_n: int = 0
    last_n: int = 0
    torn: int = 0
    """Files of half-written lines that starts have set aside."""

    broken: str = ""
    """What is wrong at the first place where something is; empty: nothing."""

    at: Place | None = None


class _Broken(Exception):
    """Something is wrong at a place."""

    def __init__(self, why: str, at: Place) -> None:
        super().__init__(why)
        self.at = at


def has_log(directory: Path) -> bool:
    """Whether there is one, or was."""
    return bool(files_of(directory)) or (directory / HEAD).exists()


def verify(directory: Path) -> Verified:
    """Read a whole log and stop at the first thing that is wrong. Rejected when there is none."""
    files = files_of(directory)
    if not has_log(directory):
        raise Rejected(f"no audit log in {directory}")
    check = _Check(directory)
    torn = len([*directory.glob("audit-*.torn-*")])
    try:
        check.all(files)
    except _Broken as broken:
        return check.seen(len(files), torn, str(broken), broken.at)
    return check.seen(len(files), torn)


class _Check:
    """A chain as far as it has been read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._head: Head | None = None
        self._first: Read | None = None
        self._last: Link | None = None
        self._lines = 0

    def seen(self, files: int, torn: int, broken: str = "", at: Place | None = None) -> Verified:
        return Verified(
            lines=self._lines,
            files=files,
            first_n=self._first.link.n if self._first else 0,
            last_n=self._last.n if self._last else 0,
            torn=torn,
            broken=broken,
            at=at,
        )

    def all(self, files: list[Path]) -> None:
        at_head = Place(self._directory / HEAD, 0)
        try:
            self._head = read_head(self._directory)
        except Rejected as error:
            raise _Broken(error.message, at_head) from error
        for path in files:
            for place, line in _lines(path):
                self._take(place, line)
        known = self._head.last.n if self._head else 0
        last = self._last.n if self._last else 0
        if last < known:
            raise _Broken(f"lines {last + 1} to {known} are missing at the end", at_head)

    def _take(self, place: Place, line: bytes) -> None:
        try:
            found = read(line)
        except Rejected as error:
            raise _Broken(error.message, place) from error
        if self._last is None:
            self._begin(place, found)
        elif found.link.n != self._last.n + 1:
            after = f"line {self._last.n} is followed by line {found.link.n}"
            raise _Broken(f"the chain is broken: {after}", place)
        elif found.prev != self._last.hash:
            raise _Broken(f"line {self._last.n} was made anew before this one", place)
        if place.line == 1 and number_of(place.path) != found.link.n:
            raise _Broken(f"the file begins with line {found.link.n}", place)
        self._meet_head(place, found)
        self._last = found.link
        self._lines += 1

    def _begin(self, place: Place, found: Read) -> None:
        expected = self._head.first_n if self._head else 1
        if found.link.n > expected:
            why = f"lines {expected} to {found.link.n - 1} are missing at the beginning"
            raise _Broken(why, place)
        self._first = found

    def _meet_head(self, place: Place, found: Read) -> None:
        """A chain that was made anew is whole in itself; the head knows the one there was."""
        head = self._head or Head(Link(0, ""))
        begins_otherwise = found.link.n == head.first_n and found.prev != head.first_prev
        ends_otherwise = found.link.n == head.last.n and found.link != head.last
        if begins_otherwise or ends_otherwise:
            raise _Broken(f"{HEAD} knows another line {found.link.n}", place)


def _lines(path: Path) -> Iterator[tuple[Place, bytes]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):  # of bytes: only a newline ends a line
            yield Place(path, number), line
