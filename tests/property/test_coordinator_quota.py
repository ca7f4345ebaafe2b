"""Shares of an entitlement, whatever is lost, late or repeated and whoever crashes: together shards
never hold more than there is, and once it is quiet everybody has what there is for it.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinating import Desk
from mainstay.coordinator import commands
from mainstay.model.coordination import (
    Grant,
    QuotaKind,
    QuotaLine,
    QuotaOf,
    ReportAck,
    ShardReport,
)
from mainstay.model.errors import Fenced, Rejected
from mainstay.model.ids import ClusterId, ShardId
from outside import examples

OF: Final = QuotaOf(QuotaKind.CLUSTER, "web")
NAMES: Final = tuple(map(ShardId, "abc"))


@dataclass(frozen=True, slots=True)
class Holding:
    """A shard: what it holds and uses is on its disk or at its provider, the rest is not."""

    name: ShardId
    held: int = 0
    used: int = 0
    wanted: int = 0
    epoch: int = 1
    number: int = 0

    def report(self) -> ShardReport:
        return ShardReport(
            shard=self.name,
            epoch=self.epoch,
            number=self.number,
            can_hand_over=True,
            quota=(QuotaLine(OF, max(self.held, self.used), self.used, self.wanted),),
        )

    def heard(self, answer: ReportAck) -> "Holding":
        return next((self._granted(grant) for grant in answer.grants if grant.of == OF), self)

    def _granted(self, grant: Grant) -> "Holding":
        asked = grant.granted if grant.target < 0 else min(grant.granted, grant.target)
        return replace(self, held=max(asked, self.used))


class Fleetwide:
    """Three shards, a leader, and reports that are still under way."""

    def __init__(self, entitled: int) -> None:
        self.desk = Desk()
        self.entitled = entitled
        self.shards = {name: Holding(name) for name in NAMES}
        self.late: list[ShardReport] = []
        self.desk.do(commands.set_quota(self.desk.fleet, OF, entitled))

    def call(self, name: ShardId, *, answered: bool = True, arrives: bool = True) -> None:
        shard = self.shards[name] = replace(self.shards[name], number=self.shards[name].number + 1)
        if arrives:
            answer = self.desk.hear(shard.report())
            if answered:
                self.shards[name] = shard.heard(answer)

    def report(self, name: ShardId, _: int) -> None:
        self.call(name)

    def answer_lost(self, name: ShardId, _: int) -> None:
        self.call(name, answered=False)

    def delayed(self, name: ShardId, _: int) -> None:
        self.call(name, arrives=False)
        self.late.append(self.shards[name].report())

    def repeated(self, name: ShardId, _: int) -> None:
        before = self.shards[name]
        self.call(name)
        self.late.append(replace(before, number=self.shards[name].number).report())

    def arrives(self, _: ShardId, at: int) -> None:
        """Nobody waits for the answer any more."""
        if self.late:
            with contextlib.suppress(Rejected, Fenced):
                self.desk.hear(self.late.pop(at % len(self.late)))

    def crashes(self, name: ShardId, _: int) -> None:
        self.shards[name] = replace(self.shards[name], epoch=self.shards[name].epoch + 1, number=0)

    def leader_crashes(self, _: ShardId, __: int) -> None:
        self.desk = self.desk.successor()

    def wants(self, name: ShardId, amount: int) -> None:
        self.shards[name] = replace(self.shards[name], wanted=amount)

    def uses(self, name: ShardId, amount: int) -> None:
        self.shards[name] = replace(self.shards[name], used=min(amount, self.shards[name].held))

    def returns(self, name: ShardId, amount: int) -> None:
        shard = self.shards[name]
        self.shards[name] = replace(shard, held=max(shard.used, shard.held - amount))

    def check(self) -> None:
        granted = self.desk.fleet.quotas[OF].granted
        assert sum(shard.held for shard in self.shards.values()) <= self.entitled
        assert sum(granted.values()) <= self.entitled
        for name, shard in self.shards.items():
            assert shard.held <= granted.get(name, 0)


F = Fleetwide
HAPPENINGS: Final = (
    F.report, F.report, F.report, F.answer_lost, F.delayed, F.repeated, F.arrives, F.arrives,
    F.crashes, F.leader_crashes, F.wants, F.wants, F.uses, F.returns,
)  # fmt: skip

Happening = tuple[Callable[[Fleetwide, ShardId, int], None], ShardId, int]

happenings = st.lists(
    st.tuples(st.sampled_from(HAPPENINGS), st.sampled_from(NAMES), st.integers(0, 12)), max_size=40
)


def fair(entitled: int, shards: list[Holding]) -> dict[ShardId, int]:
    """One by one, always to whom has least."""
    share = {shard.name: shard.used for shard in shards}
    most = {shard.name: max(shard.used, shard.wanted) for shard in shards}
    while sum(share.values()) < entitled:
        hungry = [name for name in share if share[name] < most[name]]
        if not hungry:
            break
        share[min(hungry, key=lambda name: (share[name], name))] += 1
    return share


@settings(max_examples=examples(150))
@given(st.integers(0, 12), happenings)
def test_together_they_never_hold_more_and_when_it_is_quiet_each_has_its_share(
    entitled: int, happened: list[Happening]
) -> None:
    fleet = Fleetwide(entitled)

    for happens, name, amount in happened:
        happens(fleet, name, amount)
        fleet.check()

    for _ in range(4):
        for name in NAMES:
            fleet.report(name, 0)
            fleet.check()
    shares = fair(entitled, [*fleet.shards.values()])
    for name, share in shares.items():
        assert fleet.shards[name].held >= share


def test_the_line_of_a_cluster_that_no_shard_has_concerns_nobody() -> None:
    fleet = Fleetwide(5)
    answer = fleet.desk.report(NAMES[0], clusters=(ClusterId("other"),))

    assert answer.grants == ()
