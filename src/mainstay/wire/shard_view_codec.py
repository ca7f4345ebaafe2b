"""Values of mainstay.model.views and questions to and from the wire: one rule for all of them.

A value and its message have the same fields, so what a field is in the value says how it travels.
Rows of demand are BigFleet's and go their own way.
"""

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import (
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from google.protobuf.message import DecodeError, Message

from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import Rejected
from mainstay.model.rollup import RawNeed
from mainstay.wire.machines import sendable
from mainstay.wire.needs import need_from_wire, need_to_wire
from mainstay.wire.pb.mainstay.v1 import shard_pb2 as pb

ValueT = TypeVar("ValueT")

MESSAGES: Final[Mapping[type[Any], type[Message]]] = {
    v.Stamp: pb.Stamp,
    v.MachineQuery: pb.MachineQuery, v.MachineRow: pb.MachineRow, v.MachineRows: pb.MachineRows,
    v.NeedQuery: pb.NeedQuery, v.NeedRow: pb.NeedRow, v.NeedRows: pb.NeedRows,
    v.ClusterQuery: pb.ClusterQuery, v.ClusterRow: pb.ClusterRow, v.ClusterRows: pb.ClusterRows,
    v.ActionQuery: pb.ActionQuery, v.ActionRow: pb.ActionRow, v.ActionRows: pb.ActionRows,
    v.ShortfallQuery: pb.ShortfallQuery, v.ShortfallRow: pb.ShortfallRow,
    v.ShortfallRows: pb.ShortfallRows,
    v.ProviderQuery: pb.ProviderQuery, v.ProviderRow: pb.ProviderRow,
    v.ProviderRows: pb.ProviderRows,
    v.ControlQuery: pb.ControlQuery, v.ControlRow: pb.ControlRow, v.ControlRows: pb.ControlRows,
    v.SummaryQuery: pb.SummaryQuery, v.Summary: pb.SummaryAnswer,
    q.Question: pb.Question, q.Explanation: pb.Explanation,
    q.Selection: pb.Selection, q.Match: pb.Match, q.PriceChange: pb.PriceChange,
    q.Addition: pb.Addition, q.QuotaChange: pb.QuotaChange, q.WhatIfQuery: pb.WhatIfQuery,
    q.NeedChange: pb.NeedChange, q.WhatIfAnswer: pb.WhatIfAnswer,
    q.SetControlRequest: pb.SetControlRequest, q.LiftControlRequest: pb.LiftControlRequest,
    q.RetireRequest: pb.RetireRequest, q.Retired: pb.Retired,
}  # fmt: skip


def to_bytes(value: object) -> bytes:
    """A value as bytes of its message."""
    return to_message(value).SerializeToString()


def from_bytes(kind: type[ValueT], data: bytes) -> ValueT:
    """The value that bytes hold; refused when they are none of that message."""
    try:
        message = MESSAGES[kind].FromString(data)
    except DecodeError as error:
        raise Rejected(f"{len(data)} bytes that are no {kind.__name__}") from error
    return from_message(kind, message)


def to_message(value: object) -> Message:
    """A value as its message."""
    if isinstance(value, RawNeed):
        return need_to_wire(value)
    kind: Any = type(value)
    given = {}
    for each in _fields(kind):
        held = getattr(value, each.name)
        if held is not None:
            given[each.name] = held if each.encode is None else each.encode(held)
    return MESSAGES[kind](**given)


def from_message(kind: type[ValueT], message: Any) -> ValueT:
    """A message as its value."""
    if kind is RawNeed:
        return need_from_wire(message)  # type: ignore[return-value]  # which is one of `kind`
    given: dict[str, Any] = {}
    for each in _fields(cast("Any", kind)):
        held = getattr(message, each.name)
        if each.may_be_absent and not message.HasField(each.name):
            given[each.name] = None
        else:
            given[each.name] = held if each.decode is None else each.decode(held)
    return kind(**given)


Convert = Callable[[Any], Any]


class Way(NamedTuple):
    """How one field travels, there and back; None: as it is."""

    name: str
    encode: Convert | None
    decode: Convert | None
    may_be_absent: bool


@cache
def _fields(kind: type[Any]) -> tuple[Way, ...]:
    hints = get_type_hints(kind)
    return tuple(
        Way(each.name, *_way(hints[each.name]), type(None) in get_args(hints[each.name]))
        for each in dataclasses.fields(kind)
    )


def _way(hint: Any) -> tuple[Convert | None, Convert | None]:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _way(next(each for each in inside if each is not type(None)))
    if origin is tuple:
        encode, decode = _way(inside[0])
        return _each_of(encode, list), _each_of(decode, tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        encode, decode = _way(inside[1])
        return _each_value(encode, sendable), _each_value(decode, str)
    if dataclasses.is_dataclass(hint):
        kind = cast("type[Any]", hint)
        return to_message, lambda held: from_message(kind, held)
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
