"""Records to JSON and back, by their own field types. Reading is strict: nothing is guessed.

A dataclass is an object with its fields, a named tuple a list of exactly its length. One of several
dataclasses carries its name under `is`. A field that has a default may be absent: whoever wrote the
record did not know it yet. One that is unknown is refused: it was written by a later version.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Any, Final, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    ReassignSpeculative,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.errors import Rejected

T = TypeVar("T")

Reader = Callable[[object], Any]

NAMED: Final = frozenset(
    {AssignDomain, CrossShardDrain, ReassignSpeculative, TransferOwnership, UnassignDomain}
)
"""Dataclasses that say which one they are."""


class _Unreadable(Exception):
    """What is wrong with a value; `decode` says where."""


def encode(record: object) -> bytes:
    """The same record gives the same bytes."""
    return json.dumps(_plain(record), sort_keys=True, separators=(",", ":")).encode()


def decode(kind: type[T], value: bytes, *, key: str) -> T:
    """A record from its bytes. Rejected names the key and what is wrong under it."""
    hint: Any = kind
    try:
        read: T = _read(hint, value)
    except (ValueError, RecursionError, _Unreadable) as error:
        raise Rejected(f"cannot read what stands under {key!r}: {error}") from error
    return read


@lru_cache(maxsize=4096)
def _read(kind: Any, value: bytes) -> Any:
    """Most domains of a shard have the same record; records are never written to."""
    return _reader(kind)(json.loads(value))


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"is": type(value).__name__, **plain} if type(value) in NAMED else plain
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


@cache
def _reader(hint: Any) -> Reader:
    if isinstance(hint, NewType):
        return _reader(hint.__supertype__)
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return _union(get_args(hint))
    if origin is tuple:
        return _many(_reader(get_args(hint)[0]))
    if origin is not None:
        return _mapping(_reader(get_args(hint)[1]))
    return _class_reader(hint)


def _class_reader(kind: Any) -> Reader:
    if is_dataclass(kind):
        return _record(kind)
    if issubclass(kind, Enum):
        return _member(kind)
    if issubclass(kind, tuple):
        return _row(kind)
    return _simple(kind)


def _simple(kind: type) -> Reader:
    def read(value: object) -> object:
        if type(value) is not kind:
            raise _Unreadable(f"expected {kind.__name__}, found {_shown(value)}")
        return value

    return read


def _member(kind: type[Enum]) -> Reader:
    members = {(type(member.value), member.value): member for member in kind}

    def read(value: object) -> Enum:
        if not isinstance(value, str | int) or (type(value), value) not in members:
            raise _Unreadable(f"not a {kind.__name__}: {_shown(value)}")
        return members[type(value), value]

    return read


def _record(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    required = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }

    def read(value: object) -> object:
        given = _of_type(dict, value)
        if odd := (required - given.keys()) | (given.keys() - readers.keys()):
            named = ", ".join(sorted(odd))
            raise _Unreadable(f"missing or unknown in {kind.__name__}: {named}")
        return kind(**{name: readers[name](part) for name, part in given.items()})

    return read


def _row(kind: Any) -> Reader:
    readers = [_reader(hint) for hint in get_type_hints(kind).values()]

    def read(value: object) -> object:
        given = _of_type(list, value)
        if len(given) != len(readers):
            raise _Unreadable(f"{kind.__name__} has {len(readers)} parts, found {_shown(value)}")
        return kind(*(reader(part) for reader, part in zip(readers, given, strict=True)))

    return read


def _many(part: Reader) -> Reader:
    return lambda value: tuple(part(one) for one in _of_type(list, value))


def _mapping(part: Reader) -> Reader:
    return lambda value: {name: part(one) for name, one in _of_type(dict, value).items()}


def _union(kinds: tuple[Any, ...]) -> Reader:
    named = {kind.__name__: _reader(kind) for kind in kinds if kind in NAMED}
    alone = [_reader(kind) for kind in kinds if kind not in NAMED and kind is not NoneType]

    def read(value: object) -> object:
        if value is None and NoneType in kinds:
            return None
        if not named:
            return alone[0](value)
        given = dict(_of_type(dict, value))
        name = given.pop("is", None)
        if not isinstance(name, str) or name not in named:
            raise _Unreadable(f"not of a known kind: {_shown(name)}")
        return named[name](given)

    return read


def _of_type(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise _Unreadable(f"expected {kind.__name__}, found {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return repr(value)[:80]
