"""Who may hold how much of an entitlement.

What the coordinator has granted is never less than what the shard holds: it is raised here before
the shard hears of it, and lowered at the shard before it is here. So the sum that shards hold never
exceeds the entitlement, whatever is lost on the way. A shard heeds only the answer to its newest
report.

What goes with machines is the recipient's from the change on that makes them its own to take, and
kept for it until it has taken them: only then is it told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from mainstay.coordinator import keys
from mainstay.coordinator.fleet import Draft, Fleet
from mainstay.coordinator.records import QuotaRecord
from mainstay.model.coordination import (
    Grant,
    QuotaKind,
    QuotaLine,
    QuotaMoved,
    QuotaOf,
    ShardReport,
)
from mainstay.model.ids import ShardId

Lines: TypeAlias = dict[QuotaOf, dict[ShardId, QuotaLine]]
"""The newest line of each shard, in the leader's memory; a new leader knows none."""

DROPPED: Final = -1
"""There is no such entitlement: the shard is to forget its number."""

NOTHING_ASKED: Final = -1


def hear(lines: Lines, report: ShardReport) -> None:
    """Remember what a report says of quotas, and forget what it no longer says."""
    said = {line.of: line for line in report.quota}
    for of in [of for of, known in lines.items() if report.shard in known and of not in said]:
        del lines[of][report.shard]
    for of, line in said.items():
        lines.setdefault(of, {})[report.shard] = line


def held(line: QuotaLine) -> int:
    """How much a shard has, by its own word: what it uses it has in any case."""
    return max(line.held, line.used, 0)


def reserved(fleet: Fleet, shard: ShardId) -> dict[QuotaOf, int]:
    """What was granted to a shard with machines that it has not taken yet."""
    return summed(moved for _, told in fleet.pending(shard) for moved in told.quota)


def summed(moved: Iterable[QuotaMoved]) -> dict[QuotaOf, int]:
    """How much of each."""
    sums: dict[QuotaOf, int] = {}
    for of, count in moved:
        sums[of] = sums.get(of, 0) + count
    return sums


def settle(
    fleet: Fleet, shard: ShardId, line: QuotaLine, lines: Lines, kept: int = 0
) -> QuotaRecord | None:
    """An entitlement after a shard's report: what it gave back is free, what it wants it gets as
    far as its fair share goes. None when there is no such entitlement.

    So much of what it does not hold is `kept`: it goes with machines, and was not given back.
    """
    record = fleet.quotas.get(line.of)
    if record is None:
        return None
    has = held(line)
    has = max(has, min(record.granted.get(shard, 0), has + kept))
    granted = {**record.granted, shard: has}
    free = max(record.entitled - sum(granted.values()), 0)
    share = _shares(fleet, line.of, lines | {line.of: {**lines.get(line.of, {}), shard: line}})
    more = max(min(free, line.wanted - has, share[shard] - has), 0)
    granted[shard] = has + more
    return replace(record, granted=_sorted(granted))


def hand_over(
    draft: Draft,
    moved: Iterable[QuotaMoved],
    *,
    giver: ShardId,
    to: ShardId,
    still_held: Mapping[QuotaOf, int] | None = None,
) -> tuple[QuotaMoved, ...]:
    """Let what goes with machines be the other shard's; how much of it was there to go.

    Never what the giver says it still holds, so that nothing is held twice.
    """
    went = []
    for of, count in sorted(summed(moved).items()):
        record = draft.fleet.quotas.get(of)
        if record is None:
            continue
        spare = record.granted.get(giver, 0) - (still_held or {}).get(of, 0)
        if (going := min(count, spare)) <= 0:
            continue
        granted = dict(record.granted)
        granted[giver] -= going
        granted[to] = granted.get(to, 0) + going
        draft.put(keys.quota(of), replace(record, granted=_sorted(granted)))
        went.append(QuotaMoved(of, going))
    return tuple(went)


def _sorted(granted: Mapping[ShardId, int]) -> dict[ShardId, int]:
    return {name: granted[name] for name in sorted(granted)}


def grants(fleet: Fleet, shard: ShardId, lines: Lines) -> tuple[Grant, ...]:
    """The coordinator's word about every number that concerns a shard."""
    waiting = reserved(fleet, shard)
    told = [
        Grant(
            of,
            max(record.granted.get(shard, 0) - waiting.get(of, 0), 0),
            _target(fleet, shard, of, lines),
        )
        for of, record in fleet.quotas.items()
        if _concerns(fleet, shard, of, record)
    ]
    gone = [
        Grant(of, DROPPED, NOTHING_ASKED)
        for of, known in lines.items()
        if of not in fleet.quotas and shard in known and known[shard].held >= 0
    ]
    return tuple(sorted(told + gone))


def over_committed(record: QuotaRecord) -> int:
    """How much more shards hold than there is: state was lost, or the entitlement lowered."""
    return max(sum(record.granted.values()) - record.entitled, 0)


def _concerns(fleet: Fleet, shard: ShardId, of: QuotaOf, record: QuotaRecord) -> bool:
    if shard in record.granted:
        return True
    if of.kind is QuotaKind.CLUSTER:
        return of.name in fleet.clusters_of(shard)
    known = fleet.shards.get(shard)
    return known is not None and of.name in known.providers


def _target(fleet: Fleet, shard: ShardId, of: QuotaOf, lines: Lines) -> int:
    """What a shard is asked to come down to: only where somebody goes without, or all hold more
    than there is.
    """
    record = fleet.quotas[of]
    line = lines.get(of, {}).get(shard)
    if line is None or held(line) <= line.used:
        return NOTHING_ASKED
    shares = _shares(fleet, of, lines)
    short = any(record.granted.get(other, 0) < share for other, share in shares.items())
    if not short and not over_committed(record):
        return NOTHING_ASKED
    target = max(shares[shard], line.used)
    return target if target < record.granted.get(shard, 0) else NOTHING_ASKED


def _shares(fleet: Fleet, of: QuotaOf, lines: Lines) -> Mapping[ShardId, int]:
    """The fair share of each shard: the smallest gets as much as can be, and nobody less than it
    uses or more than it wants. Of a shard that has not said, what it was granted counts as used.
    """
    record = fleet.quotas[of]
    needs: dict[ShardId, tuple[int, int]] = {
        shard: (granted, granted) for shard, granted in record.granted.items()
    }
    for shard, line in lines.get(of, {}).items():
        if shard in fleet.shards:
            needs[shard] = (line.used, max(line.used, line.wanted))
    level = _level(record.entitled, needs)
    shares = {shard: _clamp(level, needs[shard]) for shard in sorted(needs)}
    rest = record.entitled - sum(shares.values())
    for shard, share in shares.items():
        if rest > 0 and share == level and share < needs[shard][1]:
            shares[shard] += 1
            rest -= 1
    return shares


def _level(entitled: int, needs: Mapping[ShardId, tuple[int, int]]) -> int:
    """The greatest amount for everybody that does not add up to more than there is."""
    low, high = 0, max((most for _, most in needs.values()), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_clamp(middle, need) for need in needs.values()) <= entitled:
            low = middle
        else:
            high = middle - 1
    return low


def _clamp(level: int, need: tuple[int, int]) -> int:
    return min(max(level, need[0]), need[1])
