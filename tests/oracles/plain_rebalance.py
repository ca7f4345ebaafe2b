"""The planner once more, slow and clear: nothing is remembered but a list of promises.

Every question is answered by going through all rows and all moves again.
"""

from collections.abc import Iterator
from typing import NamedTuple

from mainstay.coordinator.rebalance import Options, PastMove, Reason, ShardStanding, Standing, Tier
from mainstay.model.coordination import Missing
from mainstay.model.ids import ShardId
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY


class Row(NamedTuple):
    donor: ShardId
    tier: Tier
    provider: str
    instance_type: str
    zone: str
    priority: int
    bucket: int


class Promise(NamedTuple):
    """So many machines of a row are spoken for."""

    row: Row
    machines: int


class PlainMove(NamedTuple):
    donor: ShardId
    recipient: ShardId
    tier: Tier
    fingerprint: str
    instance_types: tuple[str, ...]
    machines: int


class PlainVerdict(NamedTuple):
    shard: ShardId
    fingerprint: str
    reason: Reason


class PlainPlanner:
    def __init__(self, standing: Standing, options: Options) -> None:
        self.now = standing.now_ns
        self.shards = standing.shards
        self.options = options
        self.past = [move for move in standing.moves if move.tier != Tier.RETURN]
        self.promises: list[Promise] = []
        self.moves: list[PlainMove] = []
        self.verdicts: list[PlainVerdict] = []

    def run(self) -> None:
        for move in sorted(self.past, key=lambda m: (
            m.donor, m.recipient, m.tier, m.fingerprint, m.instance_types, m.machines
        )):  # fmt: skip
            if move.open:
                rows = [row for row in self.rows() if row.donor == move.donor
                        and row.tier == move.tier
                        and row.instance_type in move.instance_types]  # fmt: skip
                self.promise(rows, move.machines)
        short = [
            (shard, missing) for shard in self.shards for missing in self.shards[shard].missing
        ]
        for shard, missing in sorted(short, key=lambda pair: (
            -pair[1].priority, -pair[1].age_cycles, pair[0], pair[1].fingerprint,
            repr((pair[1].requirements, sorted(pair[1].deficit.items()))),
        )):  # fmt: skip
            reason = self.serve(shard, missing)
            if reason is not None:
                self.verdicts.append(PlainVerdict(shard, missing.fingerprint, reason))

    # What there is.

    def rows(self) -> list[Row]:
        found: set[Row] = set()
        for shard, each in self.shards.items():
            for free in each.summary.free:
                for tier in (Tier.IDLE, Tier.SPECULATIVE):
                    found.add(Row(shard, tier, free.provider, free.instance_type, free.zone, 0, 0))
            for some in each.summary.serving:
                found.add(Row(
                    shard, Tier.PREEMPT, some.provider, some.instance_type, some.zone,
                    some.priority, some.interruption_penalty_bucket,
                ))  # fmt: skip
        return sorted(row for row in found if row.instance_type and self.has(row) > 0)

    def has(self, row: Row) -> int:
        summary = self.shards[row.donor].summary
        if row.tier == Tier.PREEMPT:
            return sum(some.machines for some in summary.serving if row[2:] == some[:5])
        same = [free for free in summary.free if row[2:5] == free[:3]]
        return sum(free.idle if row.tier == Tier.IDLE else free.speculative for free in same)

    def spare(self, row: Row) -> int:
        if row.tier == Tier.PREEMPT:
            return self.has(row)
        kept = self.options.margin_least
        while kept * 100 < self.has(row) * self.options.margin_percent:
            kept += 1
        return max(0, self.has(row) - kept)

    def left(self, row: Row) -> int:
        return self.spare(row) - sum(each.machines for each in self.promises if each.row == row)

    def promise(self, rows: list[Row], machines: int) -> None:
        for row in sorted(rows, key=lambda row: (-self.left(row), row)):
            some = min(machines, self.left(row))
            self.promises.append(Promise(row, some))
            machines -= some

    # Who may.

    def is_fit(self, shard: ShardStanding) -> bool:
        silence = self.now - shard.reported_at_ns
        longest = self.options.fresh_intervals * self.options.report_interval_ns
        able = shard.can_hand_over and not shard.takes_all and not shard.removing
        return able and silence <= longest

    def lately(self, move: PastMove, intervals: int) -> bool:
        since = self.now - move.settled_at_ns
        return not move.open and since < intervals * self.options.report_interval_ns

    def is_cooling(self, one: ShardId, other: ShardId, instance_type: str) -> bool:
        """`one` would give to `other`."""
        for move in self.past:
            between = {move.donor, move.recipient} == {one, other}
            brought = self.lately(move, self.options.cool_down_intervals) and move.machines > 0
            if between and instance_type in move.instance_types and (move.open or brought):
                return True
        return any(
            (move.donor, move.recipient) == (other, one) and instance_type in move.instance_types
            for move in self.moves
        )

    def has_refused(self, row: Row, recipient: ShardId, fingerprint: str) -> bool:
        return any(
            self.lately(move, self.options.refusal_intervals)
            and move.machines == 0
            and (move.donor, move.recipient) == (row.donor, recipient)
            and (move.tier, move.fingerprint) == (row.tier, fingerprint)
            for move in self.past
        )

    def usable(self, recipient: ShardId, missing: Missing, tier: Tier) -> Iterator[Row]:
        """Rows with something left for it, also those that cool down."""
        for row in self.rows():
            if (
                row.donor == recipient
                or row.tier != tier
                or not self.is_fit(self.shards[row.donor])
            ):
                continue
            if not would_do(missing, row) or row.provider not in self.shards[recipient].providers:
                continue
            if tier == Tier.PREEMPT and not (
                row.priority < missing.priority and row.bucket < missing.interruption_penalty_bucket
            ):
                continue
            own = [each for each in self.shards[row.donor].missing
                   if not each.quota and any(each.deficit.values())]  # fmt: skip
            if any(would_do(each, row) and asks_no_more(each, missing) for each in own):
                continue
            if self.has_refused(row, recipient, missing.fingerprint) or self.left(row) <= 0:
                continue
            yield row

    # What is done.

    def serve(self, recipient: ShardId, missing: Missing) -> Reason | None:
        for reason in self.why_not(recipient, missing):
            return reason
        waiting = False
        for tier in (Tier.IDLE, Tier.SPECULATIVE, Tier.PREEMPT):
            if tier == Tier.PREEMPT:
                if waiting:
                    return Reason.COOLING
                if missing.age_cycles <= self.options.patient_cycles:
                    return Reason.NO_SPARE
            rows = list(self.usable(recipient, missing, tier))
            ready = [row for row in rows
                     if not self.is_cooling(row.donor, recipient, row.instance_type)]  # fmt: skip
            if ready:
                self.move(recipient, missing, ready)
                return None
            waiting = waiting or bool(rows)
        return Reason.COOLING if waiting else Reason.NO_VICTIM

    def why_not(self, recipient: ShardId, missing: Missing) -> Iterator[Reason]:
        yield from self.unable(self.shards[recipient])
        if missing.topology:
            yield Reason.TOPOLOGY
        if missing.quota:
            yield Reason.QUOTA
        if all(amount <= 0 for amount in missing.deficit.values()):
            yield Reason.NOTHING
        if missing.age_cycles <= self.options.young_cycles:
            yield Reason.YOUNG
        yield from self.too_soon(recipient, missing.fingerprint)

    def unable(self, shard: ShardStanding) -> Iterator[Reason]:
        if shard.removing:
            yield Reason.REMOVING
        if not shard.can_hand_over:
            yield Reason.CANNOT_TAKE
        if shard.takes_all:
            yield Reason.TAKES_ALL
        if not self.is_fit(shard):
            yield Reason.SILENT

    def too_soon(self, recipient: ShardId, fingerprint: str) -> Iterator[Reason]:
        before = [move for move in self.past
                  if (move.recipient, move.fingerprint) == (recipient, fingerprint)]  # fmt: skip
        now = [(move.recipient, move.fingerprint) for move in self.moves]
        coming = [move for move in before if move.open and not move.called_off]
        if (recipient, fingerprint) in now or coming:
            yield Reason.MOVING
        for move in before:
            if self.lately(move, self.options.settle_intervals) and move.machines > 0:
                yield Reason.SETTLING
        if self.room() <= 0:
            yield Reason.FULL

    def room(self) -> int:
        under_way = len([move for move in self.past if move.open]) + len(self.moves)
        return self.options.open_moves_max - under_way

    def move(self, recipient: ShardId, missing: Missing, rows: list[Row]) -> None:
        offers = {row.donor: [each for each in rows if each.donor == row.donor] for row in rows}
        totals = {donor: sum(map(self.left, mine)) for donor, mine in offers.items()}
        needed = machines_for(missing)
        sure = needed is not None
        still = needed if needed is not None else self.options.machines_max
        most = min(self.options.donors_max, self.room()) if sure else 1
        for donor in sorted(totals, key=lambda donor: (-totals[donor], donor))[:most]:
            some = min(still, totals[donor], self.options.machines_max)
            if some == 0:
                return
            types = tuple(sorted({row.instance_type for row in offers[donor]}))
            self.moves.append(PlainMove(
                donor, recipient, rows[0].tier, missing.fingerprint, types, some
            ))  # fmt: skip
            self.promise(offers[donor], some)
            still -= some


def would_do(missing: Missing, row: Row) -> bool:
    """Whether its type and zone are what is asked for."""
    for requirement in missing.requirements:
        if requirement.key == INSTANCE_TYPE_KEY and not requirement.admits(row.instance_type):
            return False
        if requirement.key == ZONE_KEY and not requirement.admits(row.zone or None):
            return False
    return True


def asks_no_more(one: Missing, other: Missing) -> bool:
    """Whether every resource that `one` names, `other` names as well."""
    return asked(one) <= asked(other)


def asked(missing: Missing) -> set[str]:
    found = set()
    for amounts in (missing.deficit, missing.min_unit):
        found |= {name for name in amounts if amounts[name] > 0}
    return found


def machines_for(missing: Missing) -> int | None:
    """The fewest units that cover the deficit in every dimension that has a unit."""
    sized = [name for name, amount in missing.deficit.items()
             if amount > 0 and missing.min_unit.get(name, 0) > 0]  # fmt: skip
    if not sized:
        return None
    count = 1
    while any(count * missing.min_unit[name] < missing.deficit[name] for name in sized):
        count += 1
    return count
