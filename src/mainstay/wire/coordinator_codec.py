"""Reports and their answers to and from the wire. Nothing but `Rejected` is raised.

A payload of a kind that nobody here knows is None: it is told as such to whoever sent it. One that
is known and wrong refuses the whole message: half an answer is not acted on.
"""

from collections.abc import Callable
from typing import Final, TypeVar, assert_never, cast

from google.protobuf.message import DecodeError, Message

from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    InstructAck,
    Instruction,
    Outcome,
    Payload,
    ProviderLine,
    ReassignSpeculative,
    ReportAck,
    ShardReport,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.errors import Rejected
from mainstay.model.ids import parse_cluster_id
from mainstay.wire import handover_codec as parts
from mainstay.wire.machines import sendable
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.pb.mainstay.v1 import handover_pb2 as our_pb

REPORT_BYTES_MAX: Final = 2 << 20
"""Of one report; the answer to a larger one is a refusal, and nobody has read it."""

ANSWER_BYTES_MAX: Final = 4 << 20
"""Of one answer to a report."""

MessageT = TypeVar("MessageT", bound=Message)

_OUTCOMES: Final = {int(each): each for each in Outcome}


def report_to_wire(report: ShardReport) -> bytes:
    """Write a report; `Rejected` when a number does not fit the wire, or all of it is too large."""
    data = written(lambda: _report_message(report))
    _check_size(len(data))
    return data


def report_from_wire(data: bytes) -> ShardReport:
    """Read a report."""
    _check_size(len(data))
    message = parsed(pb.ShardReport, data)
    return ShardReport(
        shard=parts.shard_from_wire(message.shard_id, "shard_id"),
        number=parts.counted(message.cycle, "cycle"),
        at_ns=message.timestamp_unix_nanos,
        epoch=parts.counted(message.shard_epoch, "shard_epoch"),
        summary=parts.summary_from_wire(message.summary),
        missing=tuple(map(parts.missing_from_wire, message.shortfalls)),
        acks=tuple(map(_ack_from_message, message.instruction_acks)),
        address=message.shard_address,
        can_hand_over=message.can_hand_over,
        term_seen=parts.counted(message.term_seen, "term_seen"),
        clusters=tuple(map(parse_cluster_id, message.clusters)),
        takes_all=message.takes_all,
        domains=tuple(parts.domain_from_wire(each.key, each.value) for each in message.domains),
        strays=tuple(map(parts.stray_from_wire, message.strays)),
        providers=tuple(ProviderLine(each.name, each.address) for each in message.providers),
        quota=tuple(map(parts.quota_line_from_wire, message.quota)),
        away=tuple(map(parts.handed_from_wire, message.away)),
    )


def _report_message(report: ShardReport) -> pb.ShardReport:
    return pb.ShardReport(
        shard_id=sendable(report.shard),
        cycle=report.number,
        timestamp_unix_nanos=report.at_ns,
        shard_epoch=report.epoch,
        summary=parts.summary_to_wire(report.summary),
        shortfalls=map(parts.missing_to_wire, report.missing),
        instruction_acks=map(_ack_message, report.acks),
        shard_address=sendable(report.address),
        can_hand_over=report.can_hand_over,
        term_seen=report.term_seen,
        clusters=map(sendable, report.clusters),
        takes_all=report.takes_all,
        domains=[cast("our_pb.Domain", parts.domain_to_wire(each)) for each in report.domains],
        strays=map(parts.stray_to_wire, report.strays),
        providers=[
            our_pb.KnownProvider(name=sendable(each.name), address=sendable(each.address))
            for each in report.providers
        ],
        quota=map(parts.quota_line_to_wire, report.quota),
        away=map(parts.handed_to_wire, report.away),
    )


def answer_to_wire(answer: ReportAck) -> bytes:
    """Write the answer to a report."""
    return written(
        lambda: pb.ReportAck(
            coordinator_term=answer.term,
            acknowledged=answer.acknowledged,
            instructions=map(_instruction_message, answer.instructions),
            grants=map(parts.grant_to_wire, answer.grants),
            remarks=map(sendable, answer.remarks),
        )
    )


ANSWER_ROWS_MAX: Final = {"instructions": 1_000, "grants": 100_000, "remarks": 10_000}
"""More of any of them no coordinator says; counted before anything of it is read."""


def answer_from_wire(data: bytes) -> ReportAck:
    """Read the answer to a report."""
    message = parsed(pb.ReportAck, data)
    for part, most in ANSWER_ROWS_MAX.items():
        if (found := len(getattr(message, part))) > most:
            raise Rejected(f"an answer with {found} {part}: at most {most}")
    return ReportAck(
        term=parts.counted(message.coordinator_term, "coordinator_term"),
        acknowledged=message.acknowledged,
        instructions=tuple(map(_instruction_from_message, message.instructions)),
        grants=tuple(map(parts.grant_from_wire, message.grants)),
        remarks=tuple(message.remarks),
    )


def _ack_message(ack: InstructAck) -> pb.InstructAck:
    return pb.InstructAck(
        instruction_id=sendable(ack.instruction),
        outcome=cast("pb.InstructAck.Outcome", int(ack.outcome)),
        reason=sendable(ack.reason),
        given=map(parts.handed_to_wire, ack.given),
        quota=map(parts.quota_moved_to_wire, ack.quota),
    )


def _ack_from_message(message: pb.InstructAck) -> InstructAck:
    """An outcome that nobody knows says nothing: the instruction stays."""
    return InstructAck(
        instruction=message.instruction_id,
        outcome=_OUTCOMES.get(message.outcome, Outcome.UNSPECIFIED),
        reason=message.reason,
        given=tuple(map(parts.handed_from_wire, message.given)),
        quota=tuple(map(parts.quota_moved_from_wire, message.quota)),
    )


def _instruction_message(instruction: Instruction) -> pb.CoordinatorInstruction:
    message = pb.CoordinatorInstruction(
        coordinator_term=instruction.term,
        sequence_number=instruction.sequence,
        instruction_id=sendable(instruction.id),
    )
    match instruction.payload:
        case None:
            pass
        case AssignDomain() as given:
            message.assign_domain.CopyFrom(_assign_message(given))
        case UnassignDomain() as given:
            key, value = map(sendable, given.domain)
            message.unassign_domain.CopyFrom(
                pb.UnassignDomain(topology_key=key, topology_value=value)
            )
        case TransferOwnership() as given:
            message.transfer_ownership.CopyFrom(_transfer_message(given))
        case ReassignSpeculative() as given:
            message.reassign_speculative.CopyFrom(_reassign_message(given))
        case CrossShardDrain() as given:
            message.cross_shard_drain.CopyFrom(_drain_message(given))
        case _:
            assert_never(instruction.payload)
    return message


def _assign_message(given: AssignDomain) -> pb.AssignDomain:
    key, value = map(sendable, given.domain)
    return pb.AssignDomain(topology_key=key, topology_value=value, away=map(sendable, given.away))


def _transfer_message(given: TransferOwnership) -> pb.TransferOwnership:
    return pb.TransferOwnership(
        machine_ids=parts.ids_of(given.machines),
        from_shard_id=sendable(given.from_shard),
        to_shard_id=sendable(given.to_shard),
        machines=map(parts.handed_to_wire, given.machines),
        wanted=parts.wanted_to_wire(given.wanted),
    )


def _reassign_message(given: ReassignSpeculative) -> pb.ReassignSpeculative:
    return pb.ReassignSpeculative(
        machine_ids=parts.ids_of(given.machines),
        from_shard_id=sendable(given.from_shard),
        to_shard_id=sendable(given.to_shard),
        machines=map(parts.handed_to_wire, given.machines),
        wanted=parts.wanted_to_wire(given.wanted),
    )


def _drain_message(given: CrossShardDrain) -> pb.CrossShardDrain:
    return pb.CrossShardDrain(
        preemptor_priority=given.preemptor_priority,
        to_shard_id=sendable(given.to_shard),
        wanted=parts.wanted_to_wire(given.wanted),
    )


def _instruction_from_message(message: pb.CoordinatorInstruction) -> Instruction:
    read = _PAYLOADS.get(message.WhichOneof("payload") or "")
    return Instruction(
        term=parts.counted(message.coordinator_term, "coordinator_term of an instruction"),
        sequence=parts.counted(message.sequence_number, "sequence_number of an instruction"),
        id=message.instruction_id,
        payload=None if read is None else read(message),
    )


def _assign(message: pb.CoordinatorInstruction) -> AssignDomain:
    given = message.assign_domain
    domain = parts.domain_from_wire(given.topology_key, given.topology_value)
    return AssignDomain(domain=domain, away=parts.away_from_wire(given.away))


def _unassign(message: pb.CoordinatorInstruction) -> UnassignDomain:
    given = message.unassign_domain
    return UnassignDomain(domain=parts.domain_from_wire(given.topology_key, given.topology_value))


def _transfer(message: pb.CoordinatorInstruction) -> TransferOwnership:
    given = message.transfer_ownership
    return TransferOwnership(
        from_shard=parts.maybe_shard(given.from_shard_id, "from_shard_id"),
        to_shard=parts.maybe_shard(given.to_shard_id, "to_shard_id"),
        machines=parts.machines_from_wire(given.machine_ids, given.machines),
        wanted=parts.wanted_from_wire(given.wanted) if given.HasField("wanted") else None,
    )


def _reassign(message: pb.CoordinatorInstruction) -> ReassignSpeculative:
    given = message.reassign_speculative
    return ReassignSpeculative(
        from_shard=parts.maybe_shard(given.from_shard_id, "from_shard_id"),
        to_shard=parts.maybe_shard(given.to_shard_id, "to_shard_id"),
        machines=parts.machines_from_wire(given.machine_ids, given.machines),
        wanted=parts.wanted_from_wire(given.wanted) if given.HasField("wanted") else None,
    )


def _drain(message: pb.CoordinatorInstruction) -> CrossShardDrain | None:
    """BigFleet's names machines, and says nothing of who is to have them: not one that we know."""
    given = message.cross_shard_drain
    if not given.HasField("wanted"):
        return None
    return CrossShardDrain(
        to_shard=parts.maybe_shard(given.to_shard_id, "to_shard_id"),
        wanted=parts.wanted_from_wire(given.wanted),
        preemptor_priority=given.preemptor_priority,
    )


_PAYLOADS: Final[dict[str, Callable[[pb.CoordinatorInstruction], Payload | None]]] = {
    "assign_domain": _assign,
    "unassign_domain": _unassign,
    "transfer_ownership": _transfer,
    "reassign_speculative": _reassign,
    "cross_shard_drain": _drain,
}


def written(message: Callable[[], Message]) -> bytes:
    """The bytes of a message, which is made here, because a number may not fit."""
    try:
        return message().SerializeToString()
    except ValueError as error:
        raise Rejected(f"a number does not fit the wire: {error}") from error


def parsed(kind: type[MessageT], data: bytes) -> MessageT:
    """The message that bytes hold."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        name = kind.DESCRIPTOR.name
        raise Rejected(f"not a {name}: {len(data)} bytes that cannot be read") from error


def _check_size(size: int) -> None:
    if size > REPORT_BYTES_MAX:
        raise Rejected(f"report too large: {size} bytes (at most {REPORT_BYTES_MAX})")
