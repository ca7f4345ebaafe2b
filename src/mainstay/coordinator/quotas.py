"""Who may hold how much of an entitlement.

What the coordinator has granted is never less than what the shard holds: it is raised here before
the shard hears of it, and lowered at the shard before it is here. So the sum that shards hold never
exceeds the entitlement, whatever is lost on the way. A shard heeds only the answer to its newest
report.

What goes with machines is the recipient's from the change on that makes them its own to take, and
kept for it until it has taken them: only then is it told. What goes with machines that nobody has
waits with their domain, or where that is not known, anywhere: a shard that uses more than it was
granted has such machines, and draws on that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from mainstay.coordinator import keys
from mainstay.coordinator.fleet import Draft, Fleet
from mainstay.coordinator.records import QuotaRecord
from mainstay.model.coordination import (
    Domain,
    Grant,
    Handed,
    QuotaKind,
    QuotaLine,
    QuotaMoved,
    QuotaOf,
    ShardReport,
)
from mainstay.model.ids import ShardId

NameT = TypeVar("NameT", bound=str)

Lines: TypeAlias = dict[QuotaOf, dict[ShardId, QuotaLine]]
"""The newest line of each shard, in the leader's memory; a new leader knows none."""

DROPPED: Final = -1
"""There is no such entitlement: the shard is to forget its number."""

NOTHING_ASKED: Final = -1

ANYWHERE: Final = ""
"""Where machines lie of shards that were removed, or narrowed to their first domain."""


def hear(lines: Lines, report: ShardReport) -> None:
    """Remember what a report says of quotas, and forget what it no longer says."""
    said = {line.of: line for line in report.quota}
    for of in [of for of, known in lines.items() if report.shard in known and of not in said]:
        del lines[of][report.shard]
        if not lines[of]:
            del lines[of]
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
    record = _drawn(fleet, record, shard, has - record.granted.get(shard, 0))
    granted = {**record.granted, shard: has}
    free = max(record.entitled - spoken_for(replace(record, granted=granted)), 0)
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
        if going := _taken_from(draft, giver, of, count, still_held or {}):
            _give(draft, to, of, going)
            went.append(QuotaMoved(of, going))
    return tuple(went)


def follow(
    draft: Draft,
    few: Sequence[Handed],
    *,
    giver: ShardId,
    to: ShardId,
    still_held: Mapping[QuotaOf, int],
) -> tuple[QuotaMoved, ...]:
    """Let another shard have what goes with machines of which nobody said how much that is.

    One a machine at most, of each place of its provider: nobody knows in which of them it counts,
    and what is too much comes back with the next report. First what the giver holds less, then what
    waits with the domains of these machines.
    """
    went = []
    for of, count in _counts(draft, few):
        going = 0 if giver == to else _taken_from(draft, giver, of, count, still_held)
        for domain, there in sorted(_lying(few, of).items()):
            going += _no_longer_waiting(draft, of, domain, min(count - going, there))
        if going:
            _give(draft, to, of, going)
            went.append(QuotaMoved(of, going))
    return tuple(went)


def leave_waiting(
    draft: Draft,
    few: Sequence[Handed],
    *,
    giver: ShardId,
    still_held: Mapping[QuotaOf, int],
    moved: Iterable[QuotaMoved] | None = None,
) -> None:
    """The same, when nobody has the machines: it waits with their domains. `moved` is how much that
    is, where it is known.
    """
    amounts = _counts(draft, few) if moved is None else sorted(summed(moved).items())
    for of, count in amounts:
        left = count
        for domain, there in sorted(_lying(few, of).items()):
            going = _taken_from(draft, giver, of, min(left, there), still_held)
            _wait(draft, of, domain, going)
            left -= going


def wait_with(
    draft: Draft,
    moved: Iterable[QuotaMoved],
    domain: Domain | None,
    *,
    giver: ShardId,
    still_held: Mapping[QuotaOf, int],
) -> None:
    """What goes with a domain that nobody has waits with it; None: with whichever they lie in."""
    for of, count in sorted(summed(moved).items()):
        going = _taken_from(draft, giver, of, count, still_held)
        _wait(draft, of, ANYWHERE if domain is None else _shown(domain), going)


def everything_waits(
    draft: Draft, domain: Domain | None, *, giver: ShardId, still_held: Mapping[QuotaOf, int]
) -> None:
    """A shard has lost a domain, and nobody knows with how much: all that it holds less waits,
    except what is kept for machines that it has not taken yet. None: it has lost several.
    """
    places = [of for of in draft.fleet.quotas if of.kind is QuotaKind.PLACE and of in still_held]
    kept = reserved(draft.fleet, giver)
    has = {of: still_held[of] + kept.get(of, 0) for of in places}
    moved = [QuotaMoved(of, draft.fleet.quotas[of].granted.get(giver, 0)) for of in places]
    wait_with(draft, moved, domain, giver=giver, still_held=has)


def come_with(draft: Draft, domain: Domain, to: ShardId) -> tuple[QuotaMoved, ...]:
    """Let the next owner of a domain have what waits with it."""
    came = []
    for of in [of for of in draft.fleet.quotas if of.kind is QuotaKind.PLACE]:
        record = draft.quota(of)
        there = 0 if record is None else record.waiting.get(_shown(domain), 0)
        if there:
            _give(draft, to, of, _no_longer_waiting(draft, of, _shown(domain), there))
            came.append(QuotaMoved(of, there))
    return tuple(sorted(came))


def leave(draft: Draft, of: QuotaOf, shard: ShardId, *, waits: bool) -> None:
    """Nothing is granted any more to a shard that is gone; for its machines it waits."""
    record = draft.quota(of)
    if record is not None:
        left = {name: count for name, count in record.granted.items() if name != shard}
        draft.put(keys.quota(of), replace(record, granted=left))
        _wait(draft, of, ANYWHERE, record.granted.get(shard, 0) if waits else 0)


def held_by(report: ShardReport) -> dict[QuotaOf, int]:
    """What a shard has of every quota, by its own word."""
    return {line.of: held(line) for line in report.quota}


def _counts(draft: Draft, few: Sequence[Handed]) -> list[tuple[QuotaOf, int]]:
    """The places that machines may count for, and how many at most."""
    machines = Counter(each.provider for each in few)
    return sorted(
        (of, machines[of.name])
        for of in draft.fleet.quotas
        if of.kind is QuotaKind.PLACE and of.name in machines
    )


def _lying(few: Sequence[Handed], of: QuotaOf) -> Counter[str]:
    """How many of these machines lie in which domain."""
    return Counter(
        _shown(each.domain) for each in few if each.provider == of.name and each.domain is not None
    )


def _taken_from(
    draft: Draft, giver: ShardId, of: QuotaOf, count: int, still_held: Mapping[QuotaOf, int]
) -> int:
    """How much of it was there to go: never what the giver still holds."""
    record = draft.quota(of)
    if record is None:
        return 0
    going = max(min(count, record.granted.get(giver, 0) - still_held.get(of, 0)), 0)
    if going:
        granted = {**record.granted, giver: record.granted[giver] - going}
        draft.put(keys.quota(of), replace(record, granted=_sorted(granted)))
    return going


def _give(draft: Draft, to: ShardId, of: QuotaOf, count: int) -> None:
    record = draft.quota(of)
    if record is not None:
        granted = {**record.granted, to: record.granted.get(to, 0) + count}
        draft.put(keys.quota(of), replace(record, granted=_sorted(granted)))


def _wait(draft: Draft, of: QuotaOf, domain: str, count: int) -> None:
    record = draft.quota(of)
    if record is not None and count > 0:
        waiting = {**record.waiting, domain: record.waiting.get(domain, 0) + count}
        draft.put(keys.quota(of), replace(record, waiting=_sorted(waiting)))


def _no_longer_waiting(draft: Draft, of: QuotaOf, domain: str, count: int) -> int:
    record = draft.quota(of)
    if record is None or (going := min(count, record.waiting.get(domain, 0))) <= 0:
        return 0
    draft.put(keys.quota(of), replace(record, waiting=_less(record.waiting, domain, going)))
    return going


def _drawn(fleet: Fleet, record: QuotaRecord, shard: ShardId, excess: int) -> QuotaRecord:
    """A shard that uses more than it was granted has machines that nobody had: what waits is for
    them.
    """
    if excess <= 0 or not record.waiting:
        return record
    waiting: Mapping[str, int] = record.waiting
    strays = (fleet.strays[each].domain for each in fleet.strays_of(shard))
    where = {_shown(each) for each in (*fleet.domains_of(shard), *strays) if each is not None}
    for domain in sorted((where | {ANYWHERE}) & waiting.keys(), reverse=True):
        drawn = min(excess, waiting[domain])
        waiting, excess = _less(waiting, domain, drawn), excess - drawn
    return replace(record, waiting=waiting)


def _less(waiting: Mapping[str, int], domain: str, count: int) -> dict[str, int]:
    left = {**waiting, domain: waiting[domain] - count}
    return {each: left[each] for each in sorted(left) if left[each]}


def _sorted(amounts: Mapping[NameT, int]) -> dict[NameT, int]:
    return {name: amounts[name] for name in sorted(amounts)}


def _shown(domain: Domain) -> str:
    return f"{domain.key}={domain.value}"


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
    return max(spoken_for(record) - record.entitled, 0)


def spoken_for(record: QuotaRecord) -> int:
    """What nobody else can be granted."""
    return sum(record.granted.values()) + sum(record.waiting.values())


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
    entitled = record.entitled - sum(record.waiting.values())
    level = _level(entitled, needs)
    shares = {shard: _clamp(level, needs[shard]) for shard in sorted(needs)}
    rest = entitled - sum(shares.values())
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
