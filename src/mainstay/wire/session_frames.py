"""The frames of a session to and from the wire, and what kind a frame is by its first bytes.

A roll-up can be huge, and whoever receives frames must not stop to read it: `kind_of` looks at the
tag alone. Of what a peer sends beyond what we know, nothing is an error: it is None.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, cast

from google.protobuf.message import DecodeError

from mainstay.model.errors import InvalidRollup, Rejected
from mainstay.model.frames import (
    Acknowledged,
    BootstrapAnswer,
    BootstrapAsked,
    CapacityHint,
    ClusterFrame,
    Drain,
    Hello,
    HintConfidence,
    NodeState,
    ReclaimAck,
    ReclaimTold,
    ShardFrame,
)
from mainstay.model.ids import ClusterId, MachineId, is_id
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.resources import Resources
from mainstay.model.rollup import RawRequirement, raw_of
from mainstay.model.state import State, state_of
from mainstay.wire.machines import sendable, sendable_map
from mainstay.wire.needs import (
    RawRollup,
    requirement_from_wire,
    requirement_to_wire,
    rollup_from_wire,
    rollup_to_wire,
)
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as capacity_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as provider_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import shard_pb2 as pb

SERVICE: Final = "bigfleet.v1alpha1.Shard"
METHOD: Final = "Session"

_INT32_MAX: Final = 2**31 - 1
_HINT_PREFIX: Final = "available:"
_OPERATORS: Final = {int(operator): operator for operator in Operator}
_CONFIDENCES: Final = {int(confidence): confidence for confidence in HintConfidence}


class Kind(Enum):
    """What a frame of a cluster is, as far as its first bytes tell."""

    ROLLUP = auto()
    TALK = auto()
    """Short: to be read where it is received."""

    UNKNOWN = auto()
    """None of ours."""


_KINDS: Final[Mapping[int, Kind]] = {
    field.number << 3 | 2: Kind.ROLLUP if name == "rollup" else Kind.TALK
    for name, field in pb.OperatorMessage.DESCRIPTOR.fields_by_name.items()
}
"""By the tag of the payload: its number, and that its length follows."""


def kind_of(data: bytes) -> Kind:
    """Look at the tag of the payload; nothing is parsed."""
    return _KINDS.get(data[0], Kind.UNKNOWN) if data else Kind.UNKNOWN


def rollup_of(data: bytes) -> RawRollup:
    """The roll-up in a frame of that kind; `InvalidRollup` when it cannot be read."""
    try:
        message = pb.OperatorMessage.FromString(data)
    except DecodeError as error:
        what = f"{len(data)} bytes that cannot be read"
        raise InvalidRollup(f"roll-up refused: {what}; send it again") from error
    return rollup_from_wire(message.rollup)


def cluster_frame_from_wire(data: bytes) -> ClusterFrame | None:
    """What a cluster says besides roll-ups; None when these bytes are nothing of that."""
    try:
        message = pb.OperatorMessage.FromString(data)
    except DecodeError:
        return None
    match message.WhichOneof("payload"):
        case "hello":
            return Hello(message.hello.cluster_id, message.hello.protocol_version)
        case "bootstrap_response":
            answer = message.bootstrap_response
            return BootstrapAnswer(
                answer.request_id, answer.user_data, answer.ttl_seconds, answer.error
            )
        case "reclaim_ack":
            ack = message.reclaim_ack
            return ReclaimAck(ack.instruction_id, ack.nodes_started)
        case _:
            return None


def cluster_frame_to_wire(frame: ClusterFrame) -> bytes:
    """Write what a cluster says; `Rejected` when a number in it does not fit the wire."""
    try:
        return _operator_message(frame).SerializeToString()
    except ValueError as error:
        raise Rejected(f"a number in the frame does not fit the wire: {error}") from error


def _operator_message(frame: ClusterFrame) -> pb.OperatorMessage:
    match frame:
        case Hello():
            hello = pb.Hello(
                cluster_id=sendable(frame.cluster),
                protocol_version=sendable(frame.protocol_version),
            )
            return pb.OperatorMessage(hello=hello)
        case BootstrapAnswer():
            answer = pb.BootstrapBlobResponse(
                request_id=sendable(frame.request),
                user_data=frame.blob,
                ttl_seconds=frame.ttl_s,
                error=sendable(frame.error),
            )
            return pb.OperatorMessage(bootstrap_response=answer)
        case ReclaimAck():
            ack = pb.ReclaimAck(
                instruction_id=sendable(frame.instruction), nodes_started=frame.nodes_started
            )
            return pb.OperatorMessage(reclaim_ack=ack)


def rollup_frame(cluster: ClusterId, needs: Iterable[Need], *, timestamp_nanos: int) -> bytes:
    """A roll-up as a frame. Slow for a huge one."""
    rows = tuple(map(raw_of, needs))
    rollup = rollup_to_wire(RawRollup(cluster, timestamp_nanos, rows))
    return pb.OperatorMessage(rollup=rollup).SerializeToString()


def shard_frame_to_wire(frame: ShardFrame) -> bytes:
    """Write what a shard says."""
    return _shard_message(frame).SerializeToString()


def _shard_message(frame: ShardFrame) -> pb.ShardMessage:
    match frame:
        case Acknowledged():
            ack = pb.Acknowledgement(
                echo=frame.echo,
                coordinator_term=frame.coordinator_term,
                shard_epoch=frame.shard_epoch,
            )
            return pb.ShardMessage(ack=ack)
        case BootstrapAsked():
            asked = pb.BootstrapRequest(
                request_id=frame.request,
                requirements=_requirements_to_wire(frame.requirements),
                cluster_id=sendable(frame.cluster),
                machine_id=sendable(frame.machine),
            )
            return pb.ShardMessage(bootstrap_request=asked)
        case ReclaimTold():
            told = pb.ReclaimInstruction(
                instruction_id=frame.instruction,
                nodes=map(sendable, frame.nodes),
                grace_period_seconds=frame.grace_s,
                preemptor_priority=frame.preemptor_priority,
            )
            return pb.ShardMessage(reclaim_instruction=told)
        case NodeState():
            return pb.ShardMessage(node_state_update=_node_state_to_wire(frame))
        case CapacityHint():
            return pb.ShardMessage(available_capacity=_hint_to_wire(frame))


def _node_state_to_wire(frame: NodeState) -> pb.NodeStateUpdate:
    message = pb.NodeStateUpdate(
        supersedes_key=frame.key,
        machine_id=frame.machine,
        cluster_id=sendable(frame.cluster),
        state=cast("provider_pb.MachineState", int(frame.state)),
        provider_id=sendable(frame.provider_id),
        last_error=sendable(frame.last_error),
        labels=sendable_map(frame.labels),
        price_per_hour=frame.price_per_hour,
        reclamation_penalty_dollars=frame.reclamation_penalty_dollars,
    )
    if frame.drain is not None:
        message.drain_grace_left_seconds = frame.drain.grace_left_s
        if frame.drain.preemptor_priority is not None:
            message.drain_preemptor_priority = frame.drain.preemptor_priority
    if frame.allocatable:
        message.resources.resources.update(sendable_map(frame.allocatable.as_dict()))
    return message


def _hint_to_wire(frame: CapacityHint) -> pb.AvailableCapacityUpdate:
    return pb.AvailableCapacityUpdate(
        supersedes_key=frame.key,
        requirements=_requirements_to_wire(frame.requirements),
        available_count=min(frame.count, _INT32_MAX),
        confidence=cast("pb.AvailableCapacityUpdate.Confidence", int(frame.confidence)),
        cost_per_hour=frame.cost_per_hour,
    )


def shard_frame_from_wire(data: bytes) -> ShardFrame | None:
    """What a shard says; None when it is nothing we know, or names no machine or no need."""
    try:
        message = pb.ShardMessage.FromString(data)
    except DecodeError:
        return None
    match message.WhichOneof("payload"):
        case "ack":
            ack = message.ack
            return Acknowledged(ack.echo, ack.coordinator_term, ack.shard_epoch)
        case "bootstrap_request":
            asked = message.bootstrap_request
            cluster = ClusterId(asked.cluster_id)
            return BootstrapAsked(
                asked.request_id, cluster, _requirements(asked.requirements), asked.machine_id
            )
        case "reclaim_instruction":
            told = message.reclaim_instruction
            nodes = tuple(told.nodes)
            return ReclaimTold(
                told.instruction_id, nodes, told.grace_period_seconds, told.preemptor_priority
            )
        case "node_state_update":
            return _node_state(message.node_state_update)
        case "available_capacity":
            return _hint(message.available_capacity)
        case _:
            return None


def _node_state(message: pb.NodeStateUpdate) -> NodeState | None:
    state = state_of(message.state)
    if state is None or state is State.UNSPECIFIED or not is_id(message.machine_id):
        return None
    return NodeState(
        machine=MachineId(message.machine_id),
        cluster=ClusterId(message.cluster_id),
        state=state,
        provider_id=message.provider_id,
        last_error=message.last_error,
        labels=dict(message.labels),
        allocatable=_readable(message.resources.resources),
        price_per_hour=message.price_per_hour if message.HasField("price_per_hour") else None,
        reclamation_penalty_dollars=message.reclamation_penalty_dollars,
        drain=_drain(message),
    )


def _drain(message: pb.NodeStateUpdate) -> Drain | None:
    """What is said of a drain; a grace that is no length of time says nothing."""
    left_s = message.drain_grace_left_seconds
    if not message.HasField("drain_grace_left_seconds") or not 0.0 <= left_s < math.inf:
        return None
    taken = message.HasField("drain_preemptor_priority")
    return Drain(left_s, message.drain_preemptor_priority if taken else None)


def _readable(texts: Mapping[str, str]) -> Resources:
    """What of these can be read: one bad amount spoils no other."""
    good: dict[str, str] = {}
    for name, text in texts.items():
        try:
            Resources({name: text})
        except Rejected:
            continue
        good[name] = text
    return Resources(good)


def _hint(message: pb.AvailableCapacityUpdate) -> CapacityHint | None:
    fingerprint = message.supersedes_key.removeprefix(_HINT_PREFIX)
    if not fingerprint:
        return None
    return CapacityHint(
        fingerprint=fingerprint,
        requirements=_requirements(message.requirements),
        count=message.available_count,
        confidence=_CONFIDENCES.get(message.confidence, HintConfidence.NONE),
        cost_per_hour=message.cost_per_hour,
    )


def _requirements_to_wire(
    requirements: Sequence[Requirement],
) -> list[capacity_pb.NodeSelectorRequirement]:
    return [
        requirement_to_wire(RawRequirement(one.key, int(one.operator), one.values))
        for one in requirements
    ]


def _requirements(
    messages: Iterable[capacity_pb.NodeSelectorRequirement],
) -> tuple[Requirement, ...]:
    """An operator that we do not know admits nothing."""
    raw = map(requirement_from_wire, messages)
    return tuple(
        Requirement(one.key, _OPERATORS.get(one.operator, Operator.UNSPECIFIED), one.values)
        for one in raw
    )
