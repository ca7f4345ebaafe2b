"""The uplink of a whole shard: what it reports, what reaches the shard, what survives a kill."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Grant,
    Handed,
    Instruction,
    Outcome,
    Payload,
    ProviderLine,
    QuotaKind,
    QuotaMoved,
    QuotaOf,
    ReportAck,
    ShardReport,
    TransferOwnership,
    UnassignDomain,
    Wanted,
)
from mainstay.model.ids import MachineId, ShardId
from mainstay.model.state import State
from mainstay.providers.sim.provider import Sim
from mainstay.runtime import log
from mainstay.uplink.metrics import UplinkMetrics
from mainstay.uplink.side import LiveSide
from mainstay.uplink.telling import Telling
from mainstay.uplink.uplink import Uplink
from talking import at_once
from uplinking import Fleet, never
from virtual_loop import LoopClock, run
from whole_shard import Whole, a_provider, running, sims

ZONE_KEY: Final = "topology.kubernetes.io/zone"
ONE: Final = ShardId("one")
HERE: Final = Domain(ZONE_KEY, "use1-az2")


def instruction(name: str, payload: Payload, sequence: int = 1) -> Instruction:
    return Instruction(term=1, sequence=sequence, id=name, payload=payload)


@asynccontextmanager
async def led(
    folder: Path, providers: dict[str, Sim], fleet: Fleet, *, hangs: bool = False
) -> AsyncIterator[Whole]:
    """A whole shard with an uplink, until the block is left as by a kill."""
    async with running(folder, providers, shard_id="one", cycle_interval_s=1.0) as whole:
        for link in whole.links.values():
            link.hangs = hangs
        side = LiveSide(
            live=whole.assembled.live,
            holder=whole.assembled.holder,
            quota=whole.assembled.quota,
            address="here:7780",
            providers={"sim": "there:9000"},
            clock=LoopClock(),
            aside=at_once,
        )
        telling = Telling(
            UplinkMetrics(CollectorRegistry(), LoopClock()), log.logger(), LoopClock()
        )
        uplink = Uplink(side, fleet, clock=LoopClock(), random=Random(3), telling=telling)
        task = whole.tasks.create_task(uplink.run())
        yield whole
        assert not task.done()
        task.cancel()


def test_a_report_says_who_it_is_of_and_what_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = Fleet()
        async with sims(a_provider(slots=4, idle=3)) as providers:
            async with led(tmp_path, providers, fleet) as whole, whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(70)
                report = fleet.heard[-1][1]

                assert (report.shard, report.address, report.epoch) == ("one", "here:7780", 1)
                assert (report.can_hand_over, report.takes_all) == (True, True)
                assert (report.domains, report.strays) == ((), ())
                assert report.clusters == ("web",)
                assert report.providers == (ProviderLine("sim", "there:9000"),)
                assert report.summary.total_machines == 7
                assert report.summary.free_machines == 5
                assert report.missing == ()
                assert report.at_ns == int(LoopClock().now_s() // 30 * 30 * 1e9)

                web.ask_for(20)
                await asyncio.sleep(60)
                assert [row.priority for row in fleet.heard[-1][1].missing] == [100]

    run(scenario())


def test_a_shard_that_recovers_reports_no_shortfall_any_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = Fleet()
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with led(tmp_path, providers, fleet) as whole, whole.cluster() as web:
                web.ask_for(5)
                await asyncio.sleep(40)
                assert fleet.heard[-1][1].missing

                web.ask_for(3)
                await asyncio.sleep(40)
                assert fleet.heard[-1][1].missing == ()

    run(scenario())


def test_a_domain_that_was_assigned_is_owned_and_reported_also_after_a_kill(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = Fleet(instruction("a", AssignDomain(domain=HERE)))
        async with sims(a_provider(slots=2, idle=2)) as providers:
            async with led(tmp_path, providers, fleet):
                await asyncio.sleep(40)
                assert not fleet.pending
                report = fleet.heard[-1][1]
                assert (report.takes_all, report.domains, report.term_seen) == (False, (HERE,), 1)

            fleet.heard.clear()
            fleet.pending["a"] = instruction("a", AssignDomain(domain=HERE))
            async with led(tmp_path, providers, fleet) as whole:
                await asyncio.sleep(0.3)
                report = fleet.heard[0][1]
                assert (report.domains, report.term_seen, report.epoch) == ((HERE,), 1, 2)
                assert fleet.acks(0) == {"a": Outcome.ACCEPTED}
                assert not fleet.pending
                await asyncio.sleep(10)
                assert len(whole.machines()) == 4

    run(scenario())


def test_a_domain_is_not_let_go_of_before_it_is_known_what_serves_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = Fleet(instruction("a", AssignDomain(domain=HERE)))
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with led(tmp_path, providers, fleet) as whole, whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(40)
                serving = {machine.id for machine in whole.machines(State.CONFIGURED)}
                assert len(serving) == 2

            fleet.pending["u"] = instruction("u", UnassignDomain(domain=HERE), sequence=2)
            async with led(tmp_path, providers, fleet, hangs=True) as whole:
                await asyncio.sleep(100)
                assert list(fleet.pending) == ["u"]
                assert fleet.heard[-1][1].domains == (HERE,)

                for link in whole.links.values():
                    link.hangs = False
                await asyncio.sleep(200)
                assert not fleet.pending
                report = fleet.heard[-1][1]
                assert report.domains == ()
                assert {stray.machine for stray in report.strays} == serving

    run(scenario())


def test_a_stray_is_not_let_go_of_before_a_report_that_named_it_was_answered(
    tmp_path: Path,
) -> None:
    """Its quota would be anybody's before its next owner has it."""

    async def scenario() -> None:
        fleet = Fleet(instruction("a", AssignDomain(domain=HERE)))
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with led(tmp_path, providers, fleet) as whole, whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(40)
                fleet.pending["u"] = instruction("u", UnassignDomain(domain=HERE), sequence=2)
                await until(lambda: not whole.assembled.holder.owned.domains)
                kept = set(whole.assembled.holder.owned.here)
                assert len(kept) == 2
                fleet.answers = never
                web.ask_for(0)
                await asyncio.sleep(500)
                assert whole.machines(State.CONFIGURED) == []
                assert set(whole.assembled.holder.owned.here) == kept

                fleet.answers = None
                await asyncio.sleep(120)
                assert whole.assembled.holder.owned.here == {}
                named = [{each.machine for each in said.strays} for _, said in fleet.heard]
                assert kept in named

    async def until(done: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if done():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("never")

    run(scenario())


def test_quota_that_was_granted_is_held_by_the_next_cycle(tmp_path: Path) -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.grants = (Grant(QuotaOf(QuotaKind.CLUSTER, "web"), granted=1, target=-1),)
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with led(tmp_path, providers, fleet) as whole, whole.cluster() as web:
                await asyncio.sleep(5)
                web.ask_for(3)
                await asyncio.sleep(40)

                assert len(whole.machines(State.CONFIGURED)) == 1
                assert [row.quota for row in fleet.heard[-1][1].missing] == [True]
                held = {line.of.name: line.held for line in fleet.heard[-1][1].quota}
                assert held["web"] == 1

    run(scenario())


def test_a_coordinator_that_never_answers_changes_no_cycle(tmp_path: Path) -> None:
    async def demand_met(fleet: Fleet, folder: Path) -> list[float]:
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with led(folder, providers, fleet) as whole, whole.cluster() as web:
                web.ask_for(3)
                await asyncio.sleep(60)
                assert len(whole.machines(State.CONFIGURED)) == 3
                return [at_s for at_s, _ in whole.cycles]

    answering, silent = Fleet(), Fleet()
    silent.answers = never
    both = [
        run(demand_met(fleet, tmp_path / name)) for name, fleet in (("a", answering), ("s", silent))
    ]
    assert both[0] == both[1]
    assert len(both[0]) >= 50


def test_what_others_have_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        name = MachineId("m5.large.use1-az2.reserved.00000")
        fleet = Fleet(instruction("a", AssignDomain(domain=HERE, away=(name,))))
        async with sims(a_provider(slots=2, idle=2)) as providers:
            async with led(tmp_path, providers, fleet):
                await asyncio.sleep(40)
                assert fleet.heard[-1][1].away == (Handed(name, "", HERE),)
                asked = Wanted(deficit={"cpu": 2000}, machines_max=1, providers=("sim",))
                give = TransferOwnership(from_shard=ONE, to_shard=ShardId("b"), wanted=asked)
                fleet.pending["g"] = instruction("g", give, sequence=2)
                await asyncio.sleep(40)
                [given] = [ack.given for _, each in fleet.heard for ack in each.acks if ack.given]
                told = {each.machine: each for each in fleet.heard[-1][1].away}
                assert told == {name: Handed(name, "", HERE), given[0].machine: given[0]}

    run(scenario())


def test_quota_that_went_with_machines_does_not_come_back_with_the_same_answer(
    tmp_path: Path,
) -> None:
    """Whoever grants it does not know yet that it went."""

    async def scenario() -> None:
        of = QuotaOf(QuotaKind.PLACE, "sim")
        fleet = Fleet()
        fleet.grants = (Grant(of, granted=6, target=-1),)
        async with sims(a_provider(slots=2, idle=3)) as providers:
            async with led(tmp_path, providers, fleet) as whole:
                await asyncio.sleep(40)
                asked = Wanted(deficit={"cpu": 4000}, machines_max=2, providers=("sim",))
                give = TransferOwnership(from_shard=ONE, to_shard=ShardId("b"), wanted=asked)
                fleet.pending["g"] = instruction("g", give, sequence=2)
                truth = fleet.truth

                async def knows(report: ShardReport) -> ReportAck:
                    for ack in report.acks:
                        gone = sum(moved.amount for moved in ack.quota)
                        fleet.grants = (Grant(of, 6 - gone, -1),) if gone else fleet.grants
                    return truth(report)

                fleet.answers = knows
                while fleet.pending:
                    await asyncio.sleep(0.1)
                    assert whole.assembled.quota.held().slots["sim", ""] in {4, 6}
                told = {line.of: line.held for line in fleet.heard[-1][1].quota}
                assert told[of] == 4
                assert fleet.heard[-1][1].acks[0].quota == (QuotaMoved(of, 2),)
                await asyncio.sleep(100)
                assert whole.assembled.quota.held().slots["sim", ""] == 4

    run(scenario())
