"""Roll-ups to and from the wire, as raw rows: `mainstay.model.rollup.accept` judges them."""

from dataclasses import dataclass
from typing import Final, cast

from google.protobuf.unknown_fields import UnknownFieldSet

from mainstay.model.errors import BadRow, InvalidRollup
from mainstay.model.rollup import RawNeed, RawRequirement, RawSpread
from mainstay.wire.machines import sendable, sendable_map
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as pb

_COUNT_FIELD: Final = 4
"""From when resources were per replica and this was their number."""

_SHOWN_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class RawRollup:
    """A cluster's demand as it came: nothing of it has been looked at."""

    cluster: str
    timestamp_nanos: int
    rows: tuple[RawNeed, ...]


def rollup_from_wire(message: pb.ClusterCapacityNeeds) -> RawRollup:
    """The rows of a roll-up; refused when they are of a time before totals.

    Such a row has the same fields with another meaning: read as a total, it would ask for one
    replica instead of all.
    """
    old = [position for position, need in enumerate(message.needs) if _has_count(need)]
    if old:
        what = "a count of replicas, as before BigFleet ADR-0027; send the total"
        bad = tuple(BadRow(position, what, f"field {_COUNT_FIELD}") for position in old)
        who = ascii(message.cluster_id[:_SHOWN_MAX])
        why = f"{len(old)} rows carry {what}; the first is row {old[0]}"
        raise InvalidRollup(f"roll-up of cluster {who} refused: {why}", bad=bad)
    rows = tuple(map(need_from_wire, message.needs))
    return RawRollup(message.cluster_id, message.timestamp_unix_nanos, rows)


def rollup_to_wire(rollup: RawRollup) -> pb.ClusterCapacityNeeds:
    """The message for a roll-up."""
    return pb.ClusterCapacityNeeds(
        cluster_id=sendable(rollup.cluster),
        timestamp_unix_nanos=rollup.timestamp_nanos,
        needs=map(need_to_wire, rollup.rows),
    )


def need_from_wire(message: pb.CapacityNeed) -> RawNeed:
    """One row; enums stay numbers, so that an unknown one is told and not guessed."""
    return RawNeed(
        requirements=tuple(map(requirement_from_wire, message.requirements)),
        aggregate_resources=dict(message.aggregate_resources),
        priority=message.priority,
        spread=tuple(
            RawSpread(one.topology_key, one.max_skew, int(one.when_unsatisfiable))
            for one in message.spread
        ),
        interruption_penalty_bucket=int(message.interruption_penalty_bucket),
        reclamation_penalty_bucket=int(message.reclamation_penalty_bucket),
        min_unit=dict(message.min_unit),
        group=message.group,
    )


def need_to_wire(row: RawNeed) -> pb.CapacityNeed:
    """The message for one row."""
    return pb.CapacityNeed(
        requirements=map(requirement_to_wire, row.requirements),
        aggregate_resources=sendable_map(row.aggregate_resources),
        priority=row.priority,
        spread=map(_spread_to_wire, row.spread),
        interruption_penalty_bucket=cast("pb.PenaltyBucket", row.interruption_penalty_bucket),
        reclamation_penalty_bucket=cast("pb.PenaltyBucket", row.reclamation_penalty_bucket),
        min_unit=sendable_map(row.min_unit),
        group=sendable(row.group),
    )


def requirement_from_wire(message: pb.NodeSelectorRequirement) -> RawRequirement:
    """One requirement."""
    return RawRequirement(message.key, int(message.operator), tuple(message.values))


def requirement_to_wire(requirement: RawRequirement) -> pb.NodeSelectorRequirement:
    """The message for one requirement."""
    return pb.NodeSelectorRequirement(
        key=sendable(requirement.key),
        operator=cast("pb.NodeSelectorRequirement.Operator", requirement.operator),
        values=map(sendable, requirement.values),
    )


def _spread_to_wire(spread: RawSpread) -> pb.TopologySpread:
    when = cast("pb.TopologySpread.WhenUnsatisfiable", spread.when_unsatisfiable)
    return pb.TopologySpread(
        topology_key=sendable(spread.topology_key),
        max_skew=spread.max_skew,
        when_unsatisfiable=when,
    )


def _has_count(need: pb.CapacityNeed) -> bool:
    unknown = UnknownFieldSet(need)
    return any(unknown[i].field_number == _COUNT_FIELD for i in range(len(unknown)))
