"""What a check expects of answers; whatever is otherwise is told in one sentence."""

from collections.abc import Iterable, Mapping
from typing import Final

from mainstay.conformance.check import Broken
from mainstay.model.state import State, state_name
from mainstay.wire.raw_calls import Record, Reply

FENCED: Final = "FAILED_PRECONDITION"
INVALID: Final = "INVALID_ARGUMENT"
NOT_FOUND: Final = "NOT_FOUND"
UNIMPLEMENTED: Final = "UNIMPLEMENTED"
EXHAUSTED: Final = "RESOURCE_EXHAUSTED"


def that(holds: bool, otherwise: str) -> None:
    """The one way a check fails by its own judgement."""
    if not holds:
        raise Broken(otherwise)


def ok(reply: Reply) -> Reply:
    """It was accepted."""
    that(reply.ok, f"{reply.asked}: expected OK, got {_shown(reply)}")
    return reply


def acked(reply: Reply) -> Reply:
    """It was accepted, and the ack has an operation and a machine."""
    ok(reply)
    that(bool(reply.operation), f"{reply.asked}: the ack has no operation id")
    that(reply.machine is not None, f"{reply.asked}: the ack has no machine")
    return reply


def refused(reply: Reply, *statuses: str) -> Reply:
    """It was refused, by one of these statuses if any are named."""
    wanted = " or ".join(statuses) or "a refusal"
    fits = reply.status in statuses if statuses else not reply.ok
    that(fits, f"{reply.asked}: expected {wanted}, got {_shown(reply)}")
    return reply


def rejected(reply: Reply) -> Reply:
    """It was refused, and not as if by a fence."""
    unfenced(reply)
    return refused(reply)


def fenced(reply: Reply) -> Reply:
    """It was refused by the fence."""
    return refused(reply, FENCED)


def unfenced(reply: Reply) -> Reply:
    """It was not refused by the fence, whatever else came of it."""
    that(reply.status != FENCED, f"{reply.asked}: {FENCED} is for fences only ({reply.details})")
    return reply


def same_operation(replies: Iterable[Reply]) -> str:
    """All of them were accepted as one operation."""
    replies = [acked(reply) for reply in replies]
    operations = sorted({reply.operation for reply in replies})
    that(
        len(operations) == 1, f"{replies[0].asked}: one step, several operations: {operations[:4]}"
    )
    return operations[0]


def state(record: Record, *states: State) -> Record:
    """The machine is in one of these."""
    wanted = " or ".join(map(str, states))
    that(
        record.state in states,
        f"machine {record.id} is {state_name(record.state)}, expected {wanted}",
    )
    return record


def bound(record: Record, cluster: str, metadata: Mapping[str, str] | None = None) -> None:
    """The machine is bound to the cluster, and echoes the metadata byte for byte."""
    that(
        record.cluster == cluster,
        f"machine {record.id} says cluster {record.cluster!r}, expected {cluster!r}",
    )
    if metadata is not None:
        that(
            record.metadata == metadata,
            f"machine {record.id} echoes {_difference(record.metadata, metadata)}",
        )


def free(record: Record) -> None:
    """Nothing of a binding is left."""
    that(not record.cluster, f"machine {record.id} still says cluster {record.cluster!r}")
    that(not record.metadata, f"machine {record.id} still echoes {len(record.metadata)} keys")


def untouched(before: Record, after: Record) -> None:
    """State, host and binding are as they were."""
    for part in ("state", "host", "cluster", "metadata", "last_error"):
        was, now = getattr(before, part), getattr(after, part)
        that(was == now, f"machine {before.id}: {part} changed from {was!r} to {now!r}")


def trace(records: Iterable[Record], *way: State) -> None:
    """Only these states were seen, each after the one before it."""
    reached = 0
    for record in records:
        seen = state_name(record.state)
        that(
            record.state in way,
            f"machine {record.id} was seen {seen} on the way from {way[0]} to {way[-1]}",
        )
        place = way.index(State(record.state))
        that(place >= reached, f"machine {record.id} went back from {way[reached]} to {seen}")
        reached = place


def _difference(seen: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    lost = [key for key in wanted if seen.get(key) != wanted[key]]
    more = [key for key in seen if key not in wanted]
    return (
        f"{len(seen)} keys of {len(wanted)}: lost or changed {lost[:3]!a}, never sent {more[:3]!a}"
    )


def _shown(reply: Reply) -> str:
    return f"{reply.status} ({reply.details[:200]})" if reply.details else reply.status
