"""The six calls to and from the wire: requests, acknowledgements, lists."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from google.protobuf.message import DecodeError, Message

from mainstay.model.calls import (
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    Cursor,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    Listing,
    ListRequest,
    Mutation,
)
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import MachineId, is_id
from mainstay.model.machine import Machine
from mainstay.model.profile import CapacityType
from mainstay.model.state import State, state_of
from mainstay.wire.machines import (
    machine_bytes,
    machine_from_wire,
    machine_to_wire,
    sendable,
    sendable_map,
)
from mainstay.wire.notices import notice_bytes
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as capacity_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from mainstay.wire.pb.mainstay.v1 import provider_pb2 as our_pb

_MACHINE_TAG: Final = b"\x0a"
"""Of `MachineList.machines`: field 1, by length."""

SERVICE: Final = "bigfleet.v1alpha1.CapacityProvider"

Request = Mutation | GetRequest | ListRequest
FencedMessage = pb.CreateRequest | pb.ConfigureRequest | pb.DrainRequest | pb.DeleteRequest


def request_from_wire(call: Call, data: bytes) -> Request:
    """Read the request of a call; `Rejected` when these bytes are none."""
    try:
        return _DECODERS[call](data)
    except DecodeError as error:
        raise Rejected(f"not a request of {call}: {len(data)} bytes that cannot be read") from error


def request_to_wire(request: Request) -> bytes:
    """Write a request; `Rejected` when a number in it does not fit the wire."""
    try:
        return _message(request).SerializeToString()
    except ValueError as error:
        raise Rejected(f"a number in the request does not fit the wire: {error}") from error


def _create_from_wire(data: bytes) -> CreateRequest:
    message = pb.CreateRequest.FromString(data)
    attribution = dict(message.attribution)
    return CreateRequest(message.machine_id, _fence(message), attribution)


def _configure_from_wire(data: bytes) -> ConfigureRequest:
    message = pb.ConfigureRequest.FromString(data)
    return ConfigureRequest(
        message.machine_id,
        message.cluster_id,
        blob=message.bootstrap_blob,
        metadata=dict(message.shard_metadata),
        fence=_fence(message),
    )


def _drain_from_wire(data: bytes) -> DrainRequest:
    message = pb.DrainRequest.FromString(data)
    return DrainRequest(
        message.machine_id,
        grace_s=message.grace_period_seconds,
        fence=_fence(message),
        attribution=dict(message.attribution),
    )


def _delete_from_wire(data: bytes) -> DeleteRequest:
    message = pb.DeleteRequest.FromString(data)
    return DeleteRequest(message.machine_id, fence=_fence(message))


def _get_from_wire(data: bytes) -> GetRequest:
    return GetRequest(pb.MachineRef.FromString(data).id)


def _list_from_wire(data: bytes) -> ListRequest:
    """A state that is none of ours is refused: to leave it out would widen the filter."""
    message = pb.ListFilter.FromString(data)
    states = set()
    for number in message.states:
        state = state_of(number)
        if state is None:
            raise Rejected(f"unknown state in a filter: {number} (0 to {int(max(State))})")
        states.add(state)
    return ListRequest(
        states=frozenset(states), since=message.since_revision, results_max=message.max_results
    )


def _message(request: Request) -> Message:
    match request:
        case GetRequest():
            return pb.MachineRef(id=sendable(request.machine))
        case ListRequest():
            return pb.ListFilter(
                states=[cast("pb.MachineState", int(state)) for state in sorted(request.states)],
                max_results=request.results_max,
                since_revision=request.since,
            )
        case _:
            return _fenced_message(request)


def _fenced_message(request: Mutation) -> FencedMessage:
    message: FencedMessage
    match request:
        case CreateRequest():
            message = pb.CreateRequest(attribution=sendable_map(request.attribution))
        case ConfigureRequest():
            message = pb.ConfigureRequest(
                cluster_id=sendable(request.cluster),
                bootstrap_blob=request.blob,
                shard_metadata=sendable_map(request.metadata),
            )
        case DrainRequest():
            message = pb.DrainRequest(
                grace_period_seconds=request.grace_s,
                attribution=sendable_map(request.attribution),
            )
        case DeleteRequest():
            message = pb.DeleteRequest()
    message.machine_id = sendable(request.machine)
    message.shard_id = sendable(request.fence.shard)
    message.shard_epoch = request.fence.epoch
    message.sequence_number = request.fence.sequence
    return message


def _fence(message: FencedMessage) -> Fence:
    return Fence(message.shard_id, message.shard_epoch, message.sequence_number)


METHODS: Final[Mapping[Call, str]] = MappingProxyType(
    {call: f"/{SERVICE}/{call.capitalize()}" for call in Call}
)
"""The path of each call."""

_DECODERS: Final[Mapping[Call, Callable[[bytes], Request]]] = MappingProxyType({
    Call.CREATE: _create_from_wire,
    Call.CONFIGURE: _configure_from_wire,
    Call.DRAIN: _drain_from_wire,
    Call.DELETE: _delete_from_wire,
    Call.GET: _get_from_wire,
    Call.LIST: _list_from_wire,
})  # fmt: skip


def ack_to_wire(ack: Ack) -> bytes:
    """Write an acknowledgement."""
    message = pb.TransitionAck(
        operation_id=sendable(ack.operation), machine=machine_to_wire(ack.machine)
    )
    return message.SerializeToString()


def ack_from_wire(data: bytes) -> Ack:
    """Read an acknowledgement; a machine in it that cannot exist is refused."""
    message = pb.TransitionAck()
    _parse(message, data)
    return Ack(message.operation_id, machine_from_wire(message.machine))


def get_answer_to_wire(machine: Machine) -> bytes:
    """Write the answer to Get."""
    return machine_bytes(machine)


def get_answer_from_wire(data: bytes) -> Machine:
    """Read the answer to Get."""
    message = pb.Machine()
    _parse(message, data)
    return machine_from_wire(message)


def listing_to_wire(listing: Listing, capabilities: Capabilities) -> bytes:
    """Write one answer to List."""
    envelope = our_pb.ListEnvelope(
        revision=listing.cursor,
        deleted_ids=listing.tombstones,
        more=listing.more,
        incremental=not listing.full,
        capabilities=capabilities_to_wire(capabilities),
    )
    parts = [envelope.SerializeToString()]
    for machine in listing.machines:
        data = machine_bytes(machine) + notice_bytes(listing.notices.get(machine.id))
        parts += (_MACHINE_TAG, _varint(len(data)), data)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    """A length as protobuf writes it."""
    low = bytearray()
    while number > 0x7F:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    low.append(number)
    return bytes(low)


class Page(NamedTuple):
    """What an answer to List says beside its machines."""

    cursor: Cursor
    tombstones: tuple[MachineId, ...]
    more: bool
    incremental: bool
    capabilities: Capabilities | None
    """None: a provider that declares nothing, such as any of BigFleet's."""


def page_from_wire(data: bytes) -> Page:
    """Read an answer to List without its machines; ids that are none are left out."""
    message = our_pb.ListEnvelope()
    _parse(message, data)
    declared = message.HasField("capabilities")
    return Page(
        cursor=message.revision,
        tombstones=tuple(MachineId(text) for text in message.deleted_ids if is_id(text)),
        more=message.more,
        incremental=message.incremental,
        capabilities=capabilities_from_wire(message.capabilities) if declared else None,
    )


def capabilities_to_wire(capabilities: Capabilities) -> our_pb.ProviderCapabilities:
    """What a provider declares, as it goes with every list."""
    kinds = sorted(capabilities.deletable)
    return our_pb.ProviderCapabilities(
        deletable=[cast("capacity_pb.CapacityType", int(kind)) for kind in kinds],
        incremental=capabilities.incremental,
        tombstones=capabilities.tombstones,
        paging=capabilities.paging,
        interruption_notices=capabilities.notices,
        attribution=capabilities.attribution,
        drain_attribution=capabilities.drain_attribution,
    )


def capabilities_from_wire(message: our_pb.ProviderCapabilities) -> Capabilities:
    """What a provider declares; a capacity type that is none of ours is left out."""
    known = {int(kind): kind for kind in CapacityType}
    return Capabilities(
        deletable=frozenset(known[kind] for kind in message.deletable if kind in known),
        incremental=message.incremental,
        tombstones=message.tombstones,
        paging=message.paging,
        notices=message.interruption_notices,
        attribution=message.attribution,
        drain_attribution=message.drain_attribution,
    )


def _parse(message: Message, data: bytes) -> None:
    """Fill an answer; a peer whose bytes cannot be read is not one to be believed now."""
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        what = type(message).__name__
        raise Unavailable(f"not a {what}: {len(data)} bytes that cannot be read") from error
