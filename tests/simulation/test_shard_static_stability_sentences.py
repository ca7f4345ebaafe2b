"""What a whole shard keeps and never does while others are silent, gone or lying."""

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final

import pytest
from prometheus_client import CollectorRegistry

from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Instruction,
    Outcome,
    ReportAck,
    ShardReport,
    UnassignDomain,
)
from mainstay.model.errors import Fenced, Rejected, Unavailable
from mainstay.model.frames import NodeState
from mainstay.model.ids import ClusterId
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.model.views import ClusterQuery
from mainstay.processes.shard_pages import readiness
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.spec import SimSpec
from mainstay.runtime import log
from mainstay.shard.answers.view import ShardView
from mainstay.shard.datadir import DataDir
from mainstay.uplink.metrics import UplinkMetrics
from mainstay.uplink.side import LiveSide
from mainstay.uplink.telling import Telling
from mainstay.uplink.uplink import Uplink, UplinkOptions
from shard_over_sim import OFFER
from talking import at_once
from uplinking import always, an_instruction, never, raising
from virtual_loop import LoopClock, run
from whole_shard import WEB, Whole, a_provider, running, sims

TICK_S: Final = 10.0
HERE: Final = Domain(ZONE_KEY, OFFER.zone)


def an_instant_provider(*, idle: int) -> SimSpec:
    return dataclasses.replace(a_provider(slots=0, idle=idle), latencies=INSTANT)


async def heard(whole: Whole) -> dict[str, bool]:
    """Which clusters have told their demand, as people are told."""
    found = await ShardView(whole.assembled.live, at_once).clusters(ClusterQuery())
    return {row.cluster: row.heard for row in found.rows}


class TestGate:
    def test_nothing_of_a_cluster_is_reclaimed_before_its_own_first_roll_up(
        self, tmp_path: Path
    ) -> None:
        """Not while it is connected and silent, and not because another one has spoken."""

        async def scenario() -> None:
            async with sims(an_instant_provider(idle=6)) as providers:
                async with running(tmp_path, providers) as whole:
                    async with whole.cluster() as web, whole.cluster("batch") as batch:
                        web.ask_for(3)
                        batch.ask_for(3)
                        await asyncio.sleep(3 * TICK_S)
                        assert len(whole.machines(State.CONFIGURED)) == 6
                async with running(tmp_path, providers) as whole:
                    async with whole.cluster() as web, whole.cluster("batch") as batch:
                        await asyncio.sleep(3 * TICK_S)
                        assert (whole.sent(), await heard(whole)) == (
                            0,
                            {"web": False, "batch": False},
                        )
                        batch.ask_for(0)
                        await asyncio.sleep(10 * TICK_S)
                        assert await heard(whole) == {"web": False, "batch": True}
                        assert (len(web.reclaims), len(batch.reclaims)) == (0, 3)
                        web.ask_for(0)
                        await asyncio.sleep(10 * TICK_S)
                        assert len(web.reclaims) == 3

        run(scenario())

    def test_one_that_never_comes_back_keeps_its_machines_from_those_that_matter_no_more(
        self, tmp_path: Path
    ) -> None:
        """What is unheard is not free for the taking by a need that is not more important."""

        async def scenario() -> None:
            async with sims(an_instant_provider(idle=3)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(3 * TICK_S)
                async with running(tmp_path, providers) as whole, whole.cluster("batch") as batch:
                    batch.ask_for(2)
                    await asyncio.sleep(20 * TICK_S)
                    assert whole.sent() == 0
                    serving = [m.cluster for m in whole.machines(State.CONFIGURED)]
                    assert serving == [ClusterId("web")] * 3

        run(scenario())


class TestDomains:
    def test_a_shard_that_was_assigned_a_domain_never_widens_whatever_its_settings_say(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            specs = (
                a_provider(slots=0, idle=2, name="east"),
                a_provider(slots=0, idle=3, name="west", zone="west-1"),
            )
            west = Domain(ZONE_KEY, "west-1")
            async with sims(*specs) as providers:
                async with running(tmp_path, providers) as whole:
                    await asyncio.sleep(TICK_S)
                    assert len(whole.machines()) == 5
                    assert await carried_out(whole, AssignDomain(domain=west))
                for settings in ({}, {"domains": (f"{ZONE_KEY}={OFFER.zone}",)}):
                    async with running(tmp_path, providers, **settings) as whole:
                        await asyncio.sleep(3 * TICK_S)
                        assert {m.profile.zone for m in whole.machines()} == {"west-1"}

        run(scenario())

    def test_a_shard_that_has_lost_its_last_domain_takes_nothing_after_a_restart(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=2)) as providers:
                async with running(tmp_path, providers) as whole:
                    await asyncio.sleep(TICK_S)
                    assert await carried_out(whole, AssignDomain(domain=HERE))
                    await asyncio.sleep(2 * TICK_S)
                    assert len(whole.machines()) == 2
                    assert await carried_out(whole, UnassignDomain(domain=HERE), number=2)
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(3 * TICK_S)
                    assert (whole.machines(), whole.sent()) == ([], 0)

        run(scenario())


async def carried_out(
    whole: Whole, payload: AssignDomain | UnassignDomain, *, number: int = 1
) -> bool:
    told = Instruction(term=1, sequence=number, id=f"i-{number}", payload=payload)
    for _ in range(20):
        ack = await whole.assembled.holder.carry_out(told)
        if ack is not None:
            return ack.outcome is Outcome.ACCEPTED
        await asyncio.sleep(1)
    return False


def test_an_epoch_that_cannot_be_read_begins_no_life_and_is_left_as_it_is(tmp_path: Path) -> None:
    """An older number would make this life the older one."""
    for text in ("seven\n", "", "-1\n", "1.5\n", "7 8\n", "99999999999999999999\n"):
        (tmp_path / "epoch").write_text(text)
        with pytest.raises(Rejected, match="epoch"):
            DataDir(tmp_path)
        assert (tmp_path / "epoch").read_text() == text


Answers = Callable[[ShardReport], Awaitable[ReportAck]]


class Coordinator:
    """Says what it is told to say, to every report."""

    def __init__(self, *answers: Answers) -> None:
        self._answers = itertools.cycle(answers)
        self.heard = 0

    async def report(self, report: ShardReport) -> ReportAck:
        self.heard += 1
        return await next(self._answers)(report)


def a_lie(**given: object) -> Answers:
    return always(ReportAck(**{"term": 1, **given}))  # type: ignore[arg-type]


LIES: Final = (
    a_lie(term=0),
    a_lie(term=5, instructions=(an_instruction("unknown", term=5, known=False),)),
    a_lie(term=3, instructions=(an_instruction("stale", term=3),)),
    a_lie(term=5, instructions=tuple(
        an_instruction(f"many-{number}", term=5, known=False) for number in range(2_000)
    )),
    raising(RuntimeError("a defect")),
    raising(Fenced("another one leads")),
    raising(Rejected("no such shard")),
)  # fmt: skip

COORDINATORS: Final[dict[str, tuple[Answers, ...]]] = {
    "dead": (raising(Unavailable("nobody is there")),),
    "hanging": (never,),
    "lying": LIES,
}

Timeline = tuple[float, tuple[float, ...], int]


async def timeline(folder: Path, coordinator: Coordinator | None) -> Timeline:
    """When a shard was ready, when it cycled, and how many machines serve in the end."""
    async with sims(a_provider(slots=4, idle=3)) as providers:
        async with running(folder, providers, decision_audit_every=0) as whole:
            uplink = None
            if coordinator is not None:
                uplink = whole.tasks.create_task(an_uplink(whole, coordinator).run())
            while readiness(whole.assembled.live).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            ready_s = asyncio.get_running_loop().time()
            async with whole.cluster() as web:
                await asyncio.sleep(TICK_S + 3)
                web.ask_for(5)
                await asyncio.sleep(150)
                web.ask_for(2)
                await asyncio.sleep(100)
                serving = len(whole.machines(State.CONFIGURED))
            if uplink is not None:
                assert not uplink.done()
                uplink.cancel()
            return ready_s, tuple(at_s for at_s, _ in whole.cycles), serving


def an_uplink(whole: Whole, coordinator: Coordinator) -> Uplink:
    side = LiveSide(
        live=whole.assembled.live,
        holder=whole.assembled.holder,
        quota=whole.assembled.quota,
        address="here.example:7780",
        providers={"sim": "there.example:9000"},
        clock=LoopClock(),
        aside=at_once,
    )
    telling = Telling(UplinkMetrics(CollectorRegistry(), LoopClock()), log.logger(), LoopClock())
    return Uplink(
        side,
        coordinator,
        clock=LoopClock(),
        random=Random(3),
        telling=telling,
        options=UplinkOptions(report_interval_s=5.0),
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    return run(timeline(tmp_path_factory.mktemp("alone"), None))


@pytest.mark.parametrize("kind", COORDINATORS)
def test_a_shard_is_ready_and_cycles_at_the_same_moments_whatever_the_coordinator_does(
    tmp_path: Path, alone: Timeline, kind: str
) -> None:
    coordinator = Coordinator(*COORDINATORS[kind])

    found = run(timeline(tmp_path, coordinator))

    assert alone[0] < 0.1
    assert (found[0], found[2]) == (alone[0], alone[2]) == (alone[0], 2)
    assert [round(at_s, 3) for at_s in found[1]] == [round(at_s, 3) for at_s in alone[1]]
    assert coordinator.heard >= len(COORDINATORS[kind])


class TestProviderGone:
    def test_a_call_that_nobody_answers_fails_its_machine_with_a_reason_that_its_cluster_hears(
        self, tmp_path: Path
    ) -> None:
        """And what is still missing comes from the others."""

        async def scenario() -> None:
            specs = (
                a_provider(slots=0, idle=1, name="east"),
                a_provider(slots=2, idle=0, name="west", zone="west-1"),
            )
            async with sims(*specs) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(TICK_S + 1)
                    (east,) = whole.machines(State.IDLE)
                    whole.links["east"].hangs = True
                    web.ask_for(1)
                    await asyncio.sleep(45)
                    record = whole.machine(east.id)
                    assert record.state is State.FAILED
                    assert record.last_error
                    told = [f for f in web.line.heard(NodeState) if f.machine == east.id][-1]
                    assert (told.state, told.last_error) == (State.FAILED, record.last_error)
                    await asyncio.sleep(200)
                    (serving,) = whole.machines(State.CONFIGURED)
                    assert (serving.cluster, serving.profile.zone) == (WEB, "west-1")

        run(scenario())

    def test_machines_that_serve_stay_as_they_are_while_their_provider_is_gone(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=3)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(3 * TICK_S)
                    before, sent = whole.machines(), whole.sent()
                    whole.links["sim"].hangs = True
                    await asyncio.sleep(600)
                    assert (whole.machines(), whole.sent()) == (before, sent)

        run(scenario())
