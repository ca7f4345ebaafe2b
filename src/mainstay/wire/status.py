"""Our errors as gRPC statuses and back: one table, with no reading of message texts.

A status says less than an error. Between two of us the error's code travels in the trailing
metadata; a peer that does not know it goes by the status, and so do we where the two disagree.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import grpc

from mainstay.model.calls import Call, Status, error_of, status_of
from mainstay.model.errors import (
    Fenced,
    IllegalTransition,
    MainstayError,
    NoCapacity,
    NotLeading,
    NotSupported,
    Rejected,
    Taken,
    Unavailable,
    Unknown,
    UnknownMachine,
)

CODE_KEY: Final = "mainstay-code"
"""The key of the trailing metadata that carries an error's code."""

FENCED_EPOCH_KEY: Final = "mainstay-fenced-epoch"
"""The key of the newest epoch that a provider has seen of the shard it refuses."""

LEADER_KEY: Final = "mainstay-leader"
"""The key of the address of the coordinator that leads, beside the refusal of one that does not."""

READS: Final = frozenset({Call.GET, Call.LIST})


class NotAllowed(Rejected):
    """The certificate is none of ours, or not one for this call."""

    code = "not_allowed"
    what_to_do = "use a certificate that may make this call"


_EPOCH_MAX: Final = 2**63 - 1
_EPOCH_DIGITS_MAX: Final = len(str(_EPOCH_MAX))

_ADDRESS_LENGTH_MAX: Final = 300

# Beyond the contract of providers, which `mainstay.model.calls.STATUS_OF` has.
_OUR_CODES: Final[Mapping[type[MainstayError], grpc.StatusCode]] = MappingProxyType({
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    Unknown:    grpc.StatusCode.NOT_FOUND,
    Taken:      grpc.StatusCode.ALREADY_EXISTS,
    NotLeading: grpc.StatusCode.FAILED_PRECONDITION,
})  # fmt: skip

_BY_NUMBER: Final[Mapping[int, grpc.StatusCode]] = MappingProxyType(
    {code.value[0]: code for code in grpc.StatusCode}
)

# Statuses that no contract names, by what a caller should do about them.
_OTHERS: Final[Mapping[grpc.StatusCode, type[MainstayError]]] = MappingProxyType({
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
    grpc.StatusCode.ALREADY_EXISTS: Rejected,
    grpc.StatusCode.OUT_OF_RANGE: Rejected,
})  # fmt: skip

# A read is not fenced and takes no capacity: a peer that says so means itself.
_READ_AS_UNAVAILABLE: Final = frozenset({
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED,
})  # fmt: skip

_BY_CODE: Final[Mapping[str, type[MainstayError]]] = MappingProxyType({
    kind.code: kind
    for kind in (
        Fenced, IllegalTransition, NoCapacity, NotLeading, NotSupported, Rejected, Taken,
        Unavailable, Unknown, UnknownMachine,
    )
})  # fmt: skip

Metadata = Iterable[tuple[str, str | bytes]]


def grpc_code(error: MainstayError) -> grpc.StatusCode:
    """The status that a server answers with."""
    for kind, code in _OUR_CODES.items():
        if isinstance(error, kind):
            return code
    return _BY_NUMBER[status_of(error).value]


def trailer(error: MainstayError) -> tuple[tuple[str, str], ...]:
    """What goes beside the status, for one of us."""
    code = (CODE_KEY, error.code)
    if isinstance(error, Fenced) and error.epoch is not None:
        return code, (FENCED_EPOCH_KEY, str(error.epoch))
    if isinstance(error, NotLeading) and _is_address(error.leader):
        return code, (LEADER_KEY, error.leader)
    return (code,)


def error_from(
    code: grpc.StatusCode, details: str, *, call: Call | None = None, metadata: Metadata = ()
) -> MainstayError:
    """The error that an answer stands for; always one of ours, whatever the peer sent."""
    if call in READS and code in _READ_AS_UNAVAILABLE:
        return Unavailable(f"{call}: {details}")
    told = tuple(metadata)
    error = _error(code, details, _only(told, CODE_KEY))
    if isinstance(error, Fenced):
        return Fenced(details, epoch=_epoch(_only(told, FENCED_EPOCH_KEY)))
    if isinstance(error, NotLeading):
        return NotLeading(details, leader=leader_of(told))
    return error


def leader_of(metadata: Metadata) -> str:
    """Where the leader is, as one that does not lead tells it; empty when it does not say."""
    told = _only(metadata, LEADER_KEY)
    return told if _is_address(told) else ""


def _is_address(text: str) -> bool:
    """Whether it can be dialled: a host and a port, with nothing around them."""
    host, colon, port = text.rpartition(":")
    printable = text.isascii() and text.isprintable() and " " not in text
    is_port = port.isdecimal() and 0 < int(port[:6]) < 1 << 16
    return printable and len(text) <= _ADDRESS_LENGTH_MAX and bool(host and colon) and is_port


def _error(code: grpc.StatusCode, details: str, told: str) -> MainstayError:
    kind = _BY_CODE.get(told)
    if kind is not None and grpc_code(kind("")) is code:
        return kind(details)
    if code in _OTHERS:
        return _OTHERS[code](details)
    status = _contract_status(code)
    return Unavailable(f"{code.name}: {details}") if status is None else error_of(status, details)


def _only(metadata: Metadata, wanted: str) -> str:
    """The text under a key; two are as good as none."""
    values = [value for key, value in metadata if key == wanted]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""


def _epoch(text: str) -> int | None:
    """An epoch that a fence can have; anything else is not said."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _EPOCH_DIGITS_MAX):
        return None
    epoch = int(text)
    return epoch if epoch <= _EPOCH_MAX else None


def _contract_status(code: grpc.StatusCode) -> Status | None:
    number = code.value[0]
    return Status(number) if number in {status.value for status in Status} else None
