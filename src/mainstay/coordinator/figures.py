"""A fleet in a few numbers, for metrics."""

from collections import Counter
from enum import StrEnum

from mainstay.coordinator import quotas
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.memory import Memory
from mainstay.coordinator.metrics import FleetFigures
from mainstay.coordinator.rebalance import Options
from mainstay.model.ids import ShardId

SECOND_NS = 1_000_000_000


class ShardWord(StrEnum):
    """How a shard stands."""

    REPORTING = "reporting"
    SILENT = "silent"
    """Not heard for longer than a shard may be and still give or get machines."""

    REMOVING = "removing"


def figures(fleet: Fleet, memory: Memory, now_ns: int, rules: Options) -> FleetFigures:
    """How it stands now."""
    pending = [each for told in fleet.instructions.values() for each in told.values()]
    oldest_ns = min((each.created_at_ns for each in pending), default=now_ns)
    return FleetFigures(
        shards=Counter(_word(fleet, memory, name, now_ns, rules) for name in fleet.shards),
        clusters=len(fleet.clusters),
        domains=Counter(each.state.value for each in fleet.domains.values()),
        strays=Counter(each.state.value for each in fleet.strays.values()),
        pending_instructions=Counter(type(each.payload).__name__ for each in pending),
        oldest_instruction_seconds=max(0, now_ns - oldest_ns) / SECOND_NS,
        moves=Counter(each.state.value for each in fleet.moves.values()),
        shortfalls=sum(len(each.report.missing) for each in memory.heard.values()),
        conflicts=Counter(each.conflict.kind.value for each in memory.disputes.values()),
        quotas=len(fleet.quotas),
        quotas_overcommitted=sum(quotas.over_committed(each) > 0 for each in fleet.quotas.values()),
    )


def _word(fleet: Fleet, memory: Memory, name: ShardId, now_ns: int, rules: Options) -> str:
    if fleet.shards[name].removing:
        return ShardWord.REMOVING.value
    heard = memory.heard.get(name)
    if heard is None or not rules.is_within(rules.fresh_intervals, now_ns - heard.at_ns):
        return ShardWord.SILENT.value
    return ShardWord.REPORTING.value
