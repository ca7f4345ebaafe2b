"""The audit log on the disk: files in a row, one chain over all of them, and where it last stood.

`audit-<n>.jsonl` holds the lines from number n on. `head.json` says where the chain stood when a
file was last closed: only against it can it be seen that lines are missing at the very end. What a
crash left half written is set aside in `*.torn-<k>`, never thrown away. Blocking; one at a time.
"""

import fcntl
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.shard.audit.chain import GENESIS, START, Link, read, sealed

HEAD: Final = "head.json"
_LOCK: Final = "lock"
_PATTERN: Final = "audit-*.jsonl"

Write = Callable[[int, memoryview], int]


@dataclass(frozen=True, slots=True)
class Head:
    """What `head.json` says."""

    last: Link
    first_n: int = 1
    """Of the oldest line that is kept."""

    first_prev: str = GENESIS


@dataclass(frozen=True, slots=True)
class Found:
    """What a start found that a clean stop does not leave."""

    torn: tuple[tuple[Path, int], ...] = ()
    """Where half-written lines were set aside, and how many bytes of them."""

    broken: str = ""
    """Why the chain cannot be whole; it goes on all the same, and a check names the place."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """When a file is full, and how many are kept."""

    file_bytes: int = 64 << 20
    files_max: int = 0
    """0 keeps all."""


class AuditFiles:
    """One writer at a time, over all processes: the directory is locked."""

    def __init__(self, directory: Path, sizes: Sizes, *, write: Write = os.write) -> None:
        """Go on where the chain ends. Rejected when the directory cannot be used."""
        self._directory, self._sizes, self._write = directory, sizes, write
        self._file: int | None = None
        self._lock: int | None = None
        self._path: Path | None = None
        self._size = 0
        self._last = START
        self._head = Head(START)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(directory)
            self.found = self._start()
        except OSError as error:
            why = f"cannot use the audit log in {directory}: {error.strerror}"
            raise Rejected(f"{why} (set shard.audit_dir)") from error

    @property
    def last(self) -> Link:
        """Where the chain stands."""
        return self._last

    def append(self, contents: Iterable[Mapping[str, object]]) -> int:
        """Write these as lines, all of them or none, and have them on the disk. Raises OSError."""
        lines, last = [], self._last
        for content in contents:
            line, last = sealed(content, last)
            lines.append(line)
        if not lines:
            return 0
        if self._path is not None and self._size >= self._sizes.file_bytes:
            self._rotate()
        file = self._open_file()
        written = b"".join(lines)
        try:
            _write_all(self._write, file, written)
            os.fdatasync(file)
        except OSError:
            with suppress(OSError):  # the next attempt cuts it off before it writes
                os.ftruncate(file, self._size)
            raise
        self._last = last
        self._size += len(written)
        return len(lines)

    def close(self) -> None:
        """Say where the chain stands, and let go of the directory. Raises OSError."""
        if self._lock is None:
            return
        try:
            self._close_file()
            self._write_head(self._head.first_n, self._head.first_prev)
        finally:
            os.close(self._lock)
            self._lock = None

    def _start(self) -> Found:
        head, broken = _believed_head(self._directory)
        files, last = files_of(self._directory), START
        torn: list[tuple[Path, int]] = []
        for path in reversed(files):
            end = _recovered(path)
            torn += end.torn
            broken = broken or end.broken
            if end.last is not None:
                last = end.last
                break
        self._head = head or self._head
        self._path = files[-1] if files else None
        self._size = files[-1].stat().st_size if files else 0
        self._last = last
        if last.n < self._head.last.n:  # never begin again below what was once written
            broken = f"lines {last.n + 1} to {self._head.last.n} are missing"
            self._last, self._path = self._head.last, None
        return Found(tuple(torn), broken)

    def _open_file(self) -> int:
        if self._file is None:
            path = self._path or self._directory / _file_name(self._last.n + 1)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            self._path, self._size = path, os.fstat(self._file).st_size
            _sync_directory(self._directory)
        if os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)
        return self._file

    def _rotate(self) -> None:
        """The head first, then the deletions: a crash between leaves too much, never too little."""
        files = files_of(self._directory)
        kept = files[max(0, len(files) - self._sizes.files_max + 1) :]
        if not self._sizes.files_max or kept == files:
            self._write_head(self._head.first_n, self._head.first_prev)
        else:
            self._write_head(*_first_of(kept, self._last))
            for path in files[: len(files) - len(kept)]:
                path.unlink()
        self._close_file()
        self._path = None

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write_head(self, first_n: int, first_prev: str) -> None:
        self._head = Head(self._last, first_n, first_prev)
        _replace(self._directory / HEAD, _head_line(self._head))


def files_of(directory: Path) -> list[Path]:
    """The files of a log, oldest first."""
    return sorted(directory.glob(_PATTERN))


def number_of(path: Path) -> int:
    """The number of the first line of a file, from its name; -1 when that names none."""
    digits = path.stem.removeprefix("audit-")
    return int(digits) if digits.isdecimal() and path.name == _file_name(int(digits)) else -1


def read_head(directory: Path) -> Head | None:
    """What the head says; None without one. Rejected when it is not as it was written."""
    try:
        content = read((directory / HEAD).read_bytes()).content
        last = Link(int(str(content["last_n"])), str(content["last_hash"]))
        return Head(last, int(str(content["first_n"])), str(content["first_prev"]))
    except FileNotFoundError:
        return None
    except (Rejected, ValueError, KeyError) as error:
        raise Rejected(f"{HEAD} is not as it was written") from error


def _head_line(head: Head) -> bytes:
    content = {
        "last_n": head.last.n,
        "last_hash": head.last.hash,
        "first_n": head.first_n,
        "first_prev": head.first_prev,
    }
    return sealed(content, START)[0]


def _believed_head(directory: Path) -> tuple[Head | None, str]:
    try:
        return read_head(directory), ""
    except Rejected as error:
        return None, error.message


def _file_name(n: int) -> str:
    return f"audit-{n:012}.jsonl"


def _first_of(kept: Sequence[Path], last: Link) -> tuple[int, str]:
    """The number of the oldest line that is kept, and the hash before it."""
    if not kept:
        return last.n + 1, last.hash
    try:
        with kept[0].open("rb") as stream:
            first = read(stream.readline())
    except Rejected:  # altered: a check will say so, and writing goes on
        return number_of(kept[0]), ""
    return first.link.n, first.prev


@dataclass(frozen=True, slots=True)
class _End:
    """How a file ends."""

    last: Link | None
    """Its last line that is as it was written."""

    torn: tuple[tuple[Path, int], ...]
    broken: str


def _recovered(path: Path) -> _End:
    """Set aside what stands after the last newline: a write that did not come to its end."""
    written = path.read_bytes()
    whole = written.rfind(b"\n") + 1
    torn: tuple[tuple[Path, int], ...] = ()
    if whole < len(written):
        beside = _set_aside(path, written[whole:])
        os.truncate(path, whole)
        torn = ((beside, len(written) - whole),)
    broken, end = "", whole
    while end:
        begin = written.rfind(b"\n", 0, end - 1) + 1
        try:
            return _End(read(written[begin:end]).link, torn, broken)
        except Rejected:
            broken, end = f"the last line of {path.name} was altered", begin
    return _End(None, torn, broken)


def _set_aside(path: Path, torn: bytes) -> Path:
    for count in itertools.count(1):
        beside = path.with_name(f"{path.stem}.torn-{count}")
        with suppress(FileExistsError), beside.open("xb") as stream:
            stream.write(torn)
            stream.flush()
            os.fsync(stream.fileno())
            return beside
    raise AssertionError("unreachable")


def _write_all(write: Write, file: int, content: bytes) -> None:
    """The system may take less than it was given."""
    rest = memoryview(content)
    while rest:
        rest = rest[write(file, rest) :]


def _replace(path: Path, content: bytes) -> None:
    """A reader sees the old or the new, and so does whoever comes after a crash."""
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _locked(directory: Path) -> int:
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Rejected(f"another process writes the audit log in {directory}") from None
    return lock
