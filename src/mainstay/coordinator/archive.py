"""A snapshot as files: what the state says, and beside it what the state must be.

The layout is BigFleet's, so that its tools and ours read each other's: a folder or a tar with
`meta.json` and `state`. Ours has a checksum in its meta; without one, only the size is checked.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from mainstay.model.errors import Rejected

META: Final = "meta.json"
STATE: Final = "state"
LATEST: Final = "latest"

STATE_BYTES_MAX: Final = 1 << 30
META_BYTES_MAX: Final = 1 << 20


class Archive(NamedTuple):
    """Both parts as they are stored."""

    meta: bytes
    state: bytes


@dataclass(frozen=True, slots=True)
class Meta:
    """What is said about a state."""

    id: str
    index: int
    """The revision of the store that it was read at; never 0."""

    term: int


def packed(meta: Meta, state: bytes) -> Archive:
    """A state with what is said about it."""
    told = {
        "Version": 1,
        "ID": meta.id,
        "Index": meta.index,
        "Term": meta.term,
        "Size": len(state),
        "sha256": hashlib.sha256(state).hexdigest(),
    }
    return Archive(json.dumps(told, indent=1).encode() + b"\n", state)


def checked(archive: Archive) -> Meta:
    """What is said about a state, once the state is what it says. Rejected otherwise."""
    told = _object(archive.meta, META)
    index, term = _number(told, "Index"), _number(told, "Term")
    if index == 0:
        raise Rejected("the snapshot has index 0: it was taken of nothing; take another")
    size = _number(told, "Size", default=len(archive.state))
    if size != len(archive.state):
        raise Rejected(
            f"the snapshot is damaged: {len(archive.state)} bytes of state, {META} says {size}"
        )
    wanted = told.get("sha256")
    found = hashlib.sha256(archive.state).hexdigest()
    if wanted is not None and wanted != found:
        raise Rejected(f"the snapshot is damaged: sha256 {found}, {META} says {str(wanted)[:80]}")
    return Meta(str(told.get("ID", ""))[:200], index, term)


def read_object(data: bytes, what: str) -> Mapping[str, Any]:
    """A JSON object, or Rejected in one line."""
    return _object(data, what)


def read(path: Path) -> Archive:
    """From a folder or from a tar, whichever it is."""
    try:
        if path.is_dir():
            return Archive((path / META).read_bytes(), (path / STATE).read_bytes())
        return unpacked(path.read_bytes(), str(path))
    except OSError as error:
        raise Rejected(f"cannot read a snapshot from {path}: {error.strerror}") from error


def unpacked(data: bytes, name: str) -> Archive:
    """From the bytes of a tar. Nothing is ever written where a name in it says."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return Archive(_member(tar, META, META_BYTES_MAX), _member(tar, STATE, STATE_BYTES_MAX))
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise Rejected(f"not a snapshot: {name} is no tar with {META} and {STATE}") from error


def tarred(archive: Archive) -> bytes:
    """As one file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in ((META, archive.meta), (STATE, archive.state)):
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return stream.getvalue()


def written(archive: Archive, path: Path) -> None:
    """Write a tar; a reader sees all of it or nothing."""
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.write_bytes(tarred(archive))
        unfinished.replace(path)
    except OSError as error:
        raise Rejected(f"cannot write {path}: {error.strerror}") from error


def exported(archive: Archive, folder: Path, name: str, *, kept: int) -> Path:
    """Write a folder of its own below `folder`, point `latest` at it, delete the oldest.

    Whoever follows `latest` finds a whole snapshot at every instant. Raises OSError.
    """
    place = folder / name
    unfinished = folder / f".{name}.unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    (unfinished / META).write_bytes(archive.meta)
    (unfinished / STATE).write_bytes(archive.state)
    unfinished.replace(place)
    pointer = folder / f".{LATEST}.unfinished"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(name)
    pointer.replace(folder / LATEST)
    _prune(folder, kept)
    return place


def _prune(folder: Path, kept: int) -> None:
    """Only what looks like ours: a folder with both files and nothing else."""
    found = [
        each
        for each in folder.iterdir()
        if not each.is_symlink()
        and each.is_dir()
        and {inside.name for inside in each.iterdir()} == {META, STATE}
    ]
    for old in sorted(found, key=lambda each: each.name)[:-kept]:
        (old / STATE).unlink()
        (old / META).unlink()
        old.rmdir()


def _member(tar: tarfile.TarFile, name: str, most: int) -> bytes:
    about = tar.getmember(name)
    if not about.isfile() or about.size > most:
        raise Rejected(f"not a snapshot: {name} is {about.size} bytes, at most {most}")
    stream = tar.extractfile(about)
    if stream is None:
        raise Rejected(f"not a snapshot: {name} is no file")
    with stream:
        return stream.read()


def _object(data: bytes, what: str) -> Mapping[str, Any]:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"the snapshot is damaged: {what} is not JSON") from error
    if not isinstance(told, dict):
        raise Rejected(f"the snapshot is damaged: {what} is not a JSON object")
    return told


def _number(told: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = told.get(name, default)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Rejected(f"the snapshot is damaged: {name} in {META}: {str(value)[:80]}")
    return value
