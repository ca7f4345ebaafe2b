"""The six calls as they are on the wire, for whoever examines a provider.

Nothing is checked and nothing is raised: a record is what was sent, also where no machine can be
so, and a refusal is an answer like any other.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import grpc
from google.protobuf.message import DecodeError

from mainstay.model.calls import Call, Capabilities, ListRequest
from mainstay.wire.calls import METHODS, Request, capabilities_from_wire, request_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import CHANNEL_OPTIONS, Over

OK: Final = "OK"
UNREADABLE: Final = "UNREADABLE"
"""No status of gRPC: the answer was there and its bytes were no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A machine as a provider sent it."""

    id: str
    state: int
    host: tuple[str, str] | None = None
    instance_type: str = ""
    zone: str = ""
    capacity_type: int = 0
    price_per_hour: float = 0.0
    interruption_probability: float = 0.0
    resources: Mapping[str, str] | None = None
    """None: not sent at all, which is not the same as sent empty."""

    allocatable: Mapping[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    last_error: str = ""
    cluster: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer to one call; only the parts that the call has are filled."""

    status: str
    """The name of the gRPC status."""

    details: str = ""
    operation: str = ""
    machine: Record | None = None
    machines: tuple[Record, ...] = ()
    cursor: bytes = b""
    tombstones: tuple[str, ...] = ()
    more: bool = False
    incremental: bool = False
    capabilities: Capabilities | None = None
    asked: str = ""
    """What was asked, for people."""

    @property
    def ok(self) -> bool:
        """Whether the call was accepted."""
        return self.status == OK


class Line(Protocol):
    """A connection to a provider."""

    async def send(self, call: Call, data: bytes) -> Reply:
        """Send these bytes as the request of a call; the answer, whatever it is."""


class GrpcLine:
    """A connection by gRPC."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._methods: dict[Call, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {
            call: channel.unary_unary(path) for call, path in METHODS.items()
        }

    async def send(self, call: Call, data: bytes) -> Reply:
        """Send these bytes as the request of a call."""
        try:
            answer: bytes = await self._methods[call](data, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            return Reply(status=error.code().name, details=error.details() or "")
        return read_reply(call, answer)


@asynccontextmanager
async def open_line(address: str, over: Over, *, timeout_s: float) -> AsyncIterator[GrpcLine]:
    """A connection of its own: gRPC shares one between channels unless told not to."""
    options = (
        *CHANNEL_OPTIONS,
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
    )
    if isinstance(over, Plaintext):
        channel = grpc.aio.insecure_channel(address, options=options)
    else:
        channel = grpc.aio.secure_channel(address, over.channel_credentials(), options=options)
    async with channel:
        yield GrpcLine(channel, timeout_s=timeout_s)


def raw_request(request: Request) -> bytes:
    """The bytes of a request."""
    return request_to_wire(request)


def raw_filter(request: ListRequest, states: Sequence[int]) -> bytes:
    """A List whose filter may name states that nobody knows."""
    message = pb.ListFilter(
        states=[cast("pb.MachineState", number) for number in states],
        max_results=request.results_max,
        since_revision=request.since,
    )
    return message.SerializeToString()


def read_reply(call: Call, data: bytes) -> Reply:
    """What these bytes say; an answer that cannot be read says so."""
    try:
        match call:
            case Call.GET:
                return Reply(status=OK, machine=_record(pb.Machine.FromString(data)))
            case Call.LIST:
                return _list_reply(pb.MachineList.FromString(data))
            case _:
                return _ack_reply(pb.TransitionAck.FromString(data))
    except DecodeError:
        return Reply(status=UNREADABLE, details=f"{len(data)} bytes that are no answer to {call}")


def _ack_reply(message: pb.TransitionAck) -> Reply:
    machine = _record(message.machine) if message.HasField("machine") else None
    return Reply(status=OK, operation=message.operation_id, machine=machine)


def _list_reply(message: pb.MachineList) -> Reply:
    declared = message.HasField("capabilities")
    return Reply(
        status=OK,
        machines=tuple(map(_record, message.machines)),
        cursor=message.revision,
        tombstones=tuple(message.deleted_ids),
        more=message.more,
        incremental=message.incremental,
        capabilities=capabilities_from_wire(message.capabilities) if declared else None,
    )


def _record(message: pb.Machine) -> Record:
    host = message.host
    return Record(
        id=message.id,
        state=message.state,
        host=(host.provider, host.ref) if message.HasField("host") else None,
        instance_type=message.instance_type,
        zone=message.zone,
        capacity_type=message.capacity_type,
        price_per_hour=message.price_per_hour,
        interruption_probability=message.interruption_probability,
        resources=dict(message.resources.resources) if message.HasField("resources") else None,
        allocatable=(
            dict(message.allocatable.resources) if message.HasField("allocatable") else None
        ),
        labels=dict(message.labels),
        last_error=message.last_error,
        cluster=message.cluster,
        metadata=dict(message.shard_metadata),
    )
