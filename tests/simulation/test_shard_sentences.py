"""Sentences about a whole shard that no part of it can keep alone."""

import asyncio
import dataclasses
from pathlib import Path

from mainstay.model.calls import ConfigureRequest
from mainstay.model.frames import CapacityHint
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.processes.shard_pages import readiness
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.controls import ControlKind
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Disposition
from shard_over_sim import OFFER
from virtual_loop import run
from whole_shard import WEB, a_provider, running, sims


def other_hardware(*, idle: int) -> SimSpec:
    """Machines that share neither zone nor type with those of `a_provider`."""
    offer = dataclasses.replace(OFFER, zone="west-1", instance_type="other.large")
    return SimSpec(pools=(Pool(offer, CapacityType.RESERVED, idle),), seed=2, name="west")


def test_where_machines_fail_in_numbers_no_more_are_acquired_and_demand_is_met_elsewhere(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        east = a_provider(slots=0, idle=20, name="east")
        async with sims(east, other_hardware(idle=20)) as providers:
            async with running(tmp_path, providers, workers=1) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                providers["east"].change({"failures": "configure=1"})
                web.ask_for(6)
                for _ in range(200):
                    await asyncio.sleep(1)
                    if whole.journal.of(Event.BREAKER_OPENED):
                        break
                sent = whole.links["east"].sent
                tried = [each.machine for each in sent if isinstance(each, ConfigureRequest)]
                assert 5 <= len(tried) < 20
                web.ask_for(20)
                await asyncio.sleep(30)
                assert [e.machine for e in sent if isinstance(e, ConfigureRequest)] == tried
                inventory = whole.assembled.live.inventory
                coming = whole.machines(State.CONFIGURING, State.CONFIGURED)
                new = [machine.id for machine in coming if machine.id not in tried]
                assert len(coming) == 20
                assert {inventory.source(machine) for machine in new} == {"west"}

    run(scenario())


def test_a_machine_that_we_gave_up_comes_back_when_its_provider_reports_it_alive(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=1)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                machine = whole.machines()[0].id
                link = whole.links["sim"]
                link.hangs = True
                web.ask_for(1)
                await asyncio.sleep(45)
                assert whole.machine(machine).state is State.FAILED

                link.hangs = False
                await asyncio.sleep(300)
                assert whole.machine(machine).state is State.CONFIGURED

    run(scenario())


def test_readiness_does_not_go_back_when_a_provider_is_lost_and_does_when_we_are_replaced(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path / "old", providers, list_timeout_s=5.0) as old:
                assert readiness(old.assembled.live).status == 503
                await asyncio.sleep(12)
                assert readiness(old.assembled.live).status == 200
                old.links["sim"].hangs = True
                await asyncio.sleep(60)
                assert old.assembled.live.reconciler.heard.unreachable
                assert readiness(old.assembled.live).status == 200
                old.links["sim"].hangs = False
                await asyncio.sleep(60)

                (tmp_path / "new").mkdir()
                (tmp_path / "new" / "epoch").write_text("6\n")
                async with running(tmp_path / "new", providers) as new, new.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(60)
                async with old.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(60)
                page = readiness(old.assembled.live)
                assert page.status == 503
                assert "not acting: epoch 7 of this shard acts" in page.text

    run(scenario())


def test_a_live_control_holds_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers) as whole:
                await asyncio.sleep(12)
                await whole.assembled.live.set_control(
                    ControlKind.PAUSE, cluster=WEB, value=0, reason="a test", by="me", lasts_s=500
                )
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(400)
                assert whole.sent() == 0
                held = {each.disposition for each in whole.journal.records()}
                assert held == {Disposition.SUPPRESSED}
                await asyncio.sleep(200)
                assert len(whole.machines(State.CONFIGURED)) == 2

    run(scenario())


def test_who_preempts_is_told_with_a_drain_and_nobody_with_a_voluntary_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            sims(a_provider(slots=0, idle=3)) as providers,
            running(tmp_path, providers) as whole,
            whole.cluster("batch") as batch,
            whole.cluster() as web,
        ):
            batch.ask_for(3, priority=10)
            await asyncio.sleep(60)
            web.ask_for(1, priority=1000)
            await asyncio.sleep(300)
            batch.ask_for(1, priority=10)
            await asyncio.sleep(60)
            assert [told.preemptor_priority for told in batch.reclaims] == [1000, 0]

    run(scenario())


def test_a_limit_of_actions_does_not_starve_releases(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            sims(a_provider(slots=300, idle=3)) as providers,
            running(tmp_path, providers) as whole,
            whole.cluster("batch") as batch,
            whole.cluster() as web,
        ):
            batch.ask_for(3)
            await asyncio.sleep(60)
            await whole.assembled.live.set_control(
                ControlKind.ACTION_LIMIT, cluster=None, value=1, reason="slow", by="me", lasts_s=900
            )
            web.ask_for(300)
            await asyncio.sleep(0.5)
            batch.ask_for(2)
            await asyncio.sleep(0.5)
            assert len(batch.reclaims) == 1
            assert whole.cycles[-1][1].thought.admitted.again  # acquisitions still wait

    run(scenario())


def test_a_wait_for_a_machine_is_measured_and_what_else_could_be_had_is_hinted(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                web.ask_for(1)
                await asyncio.sleep(60)
                assert whole.metric("mainstay_shard_provisioning_seconds_count") == 1
                waited_s = whole.metric("mainstay_shard_provisioning_seconds_sum")
                assert 0 < waited_s < 60
                hints = web.line.heard(CapacityHint)
                assert hints
                assert {hint.count for hint in hints} >= {3}

    run(scenario())
