"""What a leader does by itself, and what it shows of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from coordinating import EAST, METAL, NOW, A, B, a_proposal
from mainstay.coordinator import commands, removal
from mainstay.coordinator.figures import figures
from mainstay.coordinator.plans import Planner, PlanOptions, overdue, standing_of
from mainstay.coordinator.records import Conflict, ConflictKind, MoveState
from mainstay.coordinator.standing import SECOND_NS, Options
from mainstay.coordinator.store import Deposed
from mainstay.coordinator.tiers import Tier
from mainstay.model.coordination import FreeRow, Missing, ProviderLine, Summary
from mainstay.model.errors import Unavailable
from mainstay.model.ids import ShardId
from reigns import Stage, a_report, on_stage, taking

AnswerT = TypeVar("AnswerT")

RULES = Options(report_interval_ns=30 * SECOND_NS)
HAS = Summary(free=(FreeRow(METAL, "m5.large", "z", 20, 0),))
LACKS = (
    Missing(deficit={"cpu": 8_000}, min_unit={"cpu": 2_000}, age_cycles=9, fingerprint="f" * 12),
)


async def at_once(work: Callable[[], AnswerT]) -> AnswerT:
    return work()


@dataclass(slots=True)
class Sleeps:
    """Time passes only here; after so many sleeps the loop ends."""

    stage: Stage
    left: int
    slept: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > self.left:
            raise asyncio.CancelledError
        self.stage.clock.advance(seconds)


def planner(stage: Stage, sleep: Callable[[float], Awaitable[None]], **options: Any) -> Planner:
    given = PlanOptions(rules=RULES, **options)
    return Planner(given, stage.clock, stage.metrics, aside=at_once, sleep=sleep)


async def heard(stage: Stage, shard: ShardId, **parts: Any) -> None:
    now_ns = int(stage.clock.now_s() * SECOND_NS)
    report = a_report(shard, providers=(ProviderLine(METAL, "h:1"),), **parts)
    await stage.reigning.carry_out(taking(report, now_ns))
    stage.reigning.memory.hear(report, (), now_ns)


async def two_shards(stage: Stage) -> None:
    await heard(stage, A, summary=HAS, domains=(EAST,))
    await heard(stage, B, missing=LACKS)


async def run(work: Awaitable[None]) -> None:
    try:
        await work
    except asyncio.CancelledError:
        return


def test_what_is_proposed_is_begun_once(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        sleeps = Sleeps(stage, left=2)

        await run(planner(stage, sleeps, interval_s=10.0).plan_for_ever(stage.reigning))

        ((name, move),) = stage.reigning.fleet.moves.items()
        assert (move.donor, move.recipient, move.tier) == (A, B, Tier.IDLE)
        assert name == f"{stage.reigning.term}-1"
        assert move.state is MoveState.ASKED
        assert sleeps.slept == [10.0, 10.0, 10.0]
        assert stage.value("moves_begun_total", tier="1") == 1
        assert stage.value("plans_total", outcome="nothing") == 2

    on_stage(tmp_path, scenario)


def test_who_does_not_act_only_says_what_it_would_do(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        quiet = planner(stage, Sleeps(stage, left=5), acts=False)

        await quiet.plan_for_ever(stage.reigning)
        planned = await quiet.planned(stage.reigning, int(stage.clock.now_s() * SECOND_NS))

        assert len(planned.proposals) == 1
        assert dict(stage.reigning.fleet.moves) == {}

    on_stage(tmp_path, scenario)


def test_a_new_leader_waits_for_every_shard_and_for_none_of_them_for_ever(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        stage.reigning.memory.heard.clear()
        sleeps = Sleeps(stage, left=200)

        await run(planner(stage, sleeps, interval_s=500.0).plan_for_ever(stage.reigning))

        waited_s = sum(sleeps.slept[: sleeps.slept.index(500.0)])
        assert 60 <= waited_s < 62

    on_stage(tmp_path, scenario)


def test_a_store_that_does_not_answer_ends_no_reign(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        stage.will_fail(Unavailable("no answer"))

        often = planner(stage, Sleeps(stage, left=1), interval_s=10.0)
        await run(often.plan_for_ever(stage.reigning))

        assert len(stage.reigning.fleet.moves) == 1
        assert not stage.reigning.over.is_set()

    on_stage(tmp_path, scenario)


def test_who_was_deposed_begins_nothing_more(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        stage.will_fail(Deposed("term 1 is over"))

        await run(planner(stage, Sleeps(stage, left=0)).plan_for_ever(stage.reigning))

        assert stage.reigning.over.is_set()

    on_stage(tmp_path, scenario)


def test_a_move_that_nobody_answers_is_called_off_and_a_settled_one_is_forgotten(
    tmp_path: Path,
) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        began_ns = int(stage.clock.now_s() * SECOND_NS)
        await stage.reigning.one(
            lambda fleet: commands.begin_move(fleet, a_proposal(), "m", began_ns)
        )
        keeper = planner(stage, Sleeps(stage, left=0), move_open_max_s=60.0)

        await run(keeper.keep_for_ever(stage.reigning))
        young = stage.reigning.fleet.moves["m"].state
        stage.clock.advance(61)
        await run(planner(stage, Sleeps(stage, left=0), move_open_max_s=60.0)
                  .keep_for_ever(stage.reigning))  # fmt: skip

        assert young is MoveState.ASKED
        assert stage.reigning.fleet.moves["m"].state is MoveState.WITHDRAWN
        assert overdue(stage.reigning.fleet, began_ns + 10**18) == []

    on_stage(tmp_path, scenario)


def test_a_removal_that_another_leader_began_is_finished(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        await stage.reigning.one(lambda fleet: next(removal.remove_shard(fleet, A, NOW)))
        assert stage.reigning.fleet.shards[A].removing
        later = await stage.next_reign()

        await run(planner(stage, Sleeps(stage, left=0)).keep_for_ever(later))

        assert later.fleet.shards.keys() == {B}
        assert dict(later.fleet.domains) == {}

    on_stage(tmp_path, scenario)


def test_figures_count_everything_by_a_word(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        now_ns = int(stage.clock.now_s() * SECOND_NS)
        await stage.reigning.one(
            lambda fleet: commands.begin_move(fleet, a_proposal(), "m", now_ns - 5 * SECOND_NS)
        )
        memory = stage.reigning.memory
        del memory.heard[A]
        memory.hear(
            memory.heard[B].report,
            [Conflict(ConflictKind.CLUSTER, "web", (A, B), "both say so")],
            now_ns,
        )

        seen = figures(stage.reigning.fleet, memory, now_ns, RULES)

        assert seen.shards == {"reporting": 1, "silent": 1}
        assert (seen.domains, seen.moves) == ({"held": 1}, {"asked": 1})
        assert seen.pending_instructions == {"TransferOwnership": 1}
        assert seen.oldest_instruction_seconds == 5
        assert (seen.shortfalls, seen.conflicts) == (1, {"cluster": 1})

    on_stage(tmp_path, scenario)


def test_the_planner_knows_only_shards_that_this_leader_has_heard(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await two_shards(stage)
        stage.reigning.memory.heard.pop(A)

        standing = standing_of(stage.reigning.fleet, stage.reigning.memory, NOW)

        assert standing.shards.keys() == {B}
        assert standing.shards[B].providers == {METAL}

    on_stage(tmp_path, scenario)


def test_the_planner_knows_a_move_that_brings_nothing_any_more(tmp_path: Path) -> None:
    """Its donor may yet give, and gets it back: the shortfall must not wait for that."""

    async def test(stage: Stage) -> None:
        await heard(stage, A, summary=HAS)
        await heard(stage, B, missing=LACKS)
        begun = a_proposal()
        await stage.reigning.one(lambda fleet: commands.begin_move(fleet, begun, "m-1", NOW))
        fleet = stage.reigning.fleet
        (before,) = standing_of(fleet, stage.reigning.memory, NOW).moves
        await stage.reigning.one(lambda fleet: commands.cancel_move(fleet, "m-1"))
        (after,) = standing_of(fleet, stage.reigning.memory, NOW).moves

        assert (before.open, before.called_off) == (True, False)
        assert (after.open, after.called_off) == (True, True)

    on_stage(tmp_path, test)
