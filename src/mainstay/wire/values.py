"""Values to and from the wire by one rule: a value and its message have the same fields.

What a field is in the value says how it travels. Kinds that go their own way are given beside.
"""

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from google.protobuf.message import DecodeError, Message

from mainstay.model.errors import Rejected
from mainstay.wire.machines import sendable

ValueT = TypeVar("ValueT")

Convert = Callable[[Any], Any]


class OwnWay(NamedTuple):
    """How a kind travels that has no message of the same fields."""

    encode: Convert
    decode: Convert


class Way(NamedTuple):
    """How one field travels, there and back; None: as it is."""

    name: str
    encode: Convert | None
    decode: Convert | None
    may_be_absent: bool


class ValueCodec:
    """The rule over a table of kinds and their messages."""

    def __init__(
        self,
        messages: Mapping[type[Any], type[Message]],
        own_ways: Mapping[type[Any], OwnWay] | None = None,
    ) -> None:
        self._messages = messages
        self._own_ways = own_ways or {}
        self._fields = cache(self._fields_of)

    def to_bytes(self, value: object) -> bytes:
        """A value as bytes of its message."""
        try:
            return self._to_message(value).SerializeToString()
        except ValueError as error:
            what = type(value).__name__
            raise Rejected(f"a number in {what} does not fit the wire: {error}") from error

    def from_bytes(self, kind: type[ValueT], data: bytes) -> ValueT:
        """The value that bytes hold; refused when they are none of that message."""
        try:
            message = self._messages[kind].FromString(data)
        except DecodeError as error:
            raise Rejected(f"{len(data)} bytes that are no {kind.__name__}") from error
        return self._from_message(kind, message)

    def _to_message(self, value: object) -> Message:
        kind: Any = type(value)
        given = {}
        for each in self._fields(kind):
            held = getattr(value, each.name)
            if held is not None:
                given[each.name] = held if each.encode is None else each.encode(held)
        return self._messages[kind](**given)

    def _from_message(self, kind: type[ValueT], message: Any) -> ValueT:
        given: dict[str, Any] = {}
        for each in self._fields(cast("Any", kind)):
            held = getattr(message, each.name)
            if each.may_be_absent and not message.HasField(each.name):
                given[each.name] = None
            else:
                given[each.name] = held if each.decode is None else each.decode(held)
        return kind(**given)

    def _fields_of(self, kind: type[Any]) -> tuple[Way, ...]:
        hints = get_type_hints(kind)
        return tuple(
            Way(each.name, *self._way(hints[each.name]), type(None) in get_args(hints[each.name]))
            for each in dataclasses.fields(kind)
        )

    def _way(self, hint: Any) -> tuple[Convert | None, Convert | None]:
        origin, inside = get_origin(hint), get_args(hint)
        if origin in {Union, types.UnionType}:
            return self._way(next(each for each in inside if each is not type(None)))
        if origin is tuple:
            encode, decode = self._way(inside[0])
            return _each_of(encode, list), _each_of(decode, tuple)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            encode, decode = self._way(inside[1])
            return _each_value(encode, sendable), _each_value(decode, str)
        if hint in self._own_ways:
            return self._own_ways[hint]
        if dataclasses.is_dataclass(hint):
            kind = cast("type[Any]", hint)
            return self._to_message, lambda held: self._from_message(kind, held)
        if issubclass(hint, IntEnum):
            return None, _member_of(hint)
        return (sendable, None) if hint is str else (None, None)


def _each_of(convert: Convert | None, into: Callable[[Iterable[Any]], Any]) -> Convert:
    if convert is None:
        return into
    return lambda held: into(map(convert, held))


def _each_value(convert: Convert | None, key: Convert) -> Convert:
    def converted(held: Mapping[str, Any]) -> dict[str, Any]:
        if convert is None:
            return {key(name): each for name, each in held.items()}
        return {key(name): convert(each) for name, each in held.items()}

    return converted


def _member_of(kind: type[IntEnum]) -> Convert:
    """A number of the wire; one that nobody knows reads as nothing said."""
    members = {int(each): each for each in kind}
    return lambda number: members.get(number, members[0])
