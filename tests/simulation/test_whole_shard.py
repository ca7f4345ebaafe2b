"""A whole shard on simulated providers: what a cycle does, and what it never does."""

import asyncio
from pathlib import Path

import pytest

from mainstay.model.action import ActionKind
from mainstay.model.calls import CreateRequest
from mainstay.model.ids import ClusterId
from mainstay.model.state import State
from mainstay.processes.shard_pages import not_ready
from mainstay.shard.controls import ControlKind
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Disposition
from virtual_loop import run
from whole_shard import WEB, Whole, a_provider, needs, running, sims

HOUR_S = 3_600.0


def agrees(whole: Whole) -> bool:
    """Whether every full pass came to the same plan, and no cycle or worker failed."""
    bad = {Event.AUDIT_DIFFERED, Event.CYCLE_FAILED, Event.WORKER_FAILED}
    return not [event for event, _ in whole.journal.events if event in bad]


def test_demand_becomes_machines_that_serve(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=8)) as providers, running(tmp_path, providers) as whole:
            async with whole.cluster() as web:
                web.ask_for(3)
                await asyncio.sleep(600)

                serving = whole.machines(State.CONFIGURED)
                assert [machine.cluster for machine in serving] == [WEB] * 3
                assert {machine.assignment.priority for machine in serving} == {100}
                told = web.states()
                assert sorted(told) == sorted(machine.id for machine in serving)
                assert set(told.values()) == {State.CONFIGURED}
        assert agrees(whole)

    run(scenario())


def test_one_machine_is_bought_for_one_that_is_missing_however_long_it_takes(
    tmp_path: Path,
) -> None:
    """Seed 003: what is on its way counts, in every cycle."""

    async def scenario() -> None:
        async with sims(a_provider(slots=30)) as providers, running(tmp_path, providers) as whole:
            async with whole.cluster() as web:
                web.ask_for(5)
                await asyncio.sleep(HOUR_S)
                creates = [r for r in whole.links["sim"].sent if isinstance(r, CreateRequest)]
                assert len({request.machine for request in creates}) == 5
                await whole.links["sim"].sim.lose(whole.machines(State.CONFIGURED)[0].id)
                await asyncio.sleep(HOUR_S)
                creates = [r for r in whole.links["sim"].sent if isinstance(r, CreateRequest)]
                assert len({request.machine for request in creates}) == 6
        assert agrees(whole)

    run(scenario())


def test_demand_is_decided_at_once_and_not_at_the_next_tick(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(idle=4, slots=0)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(33)
                at_s = asyncio.get_running_loop().time()
                web.ask_for(1)
                await asyncio.sleep(1)

                decided = [when for when, cycled in whole.cycles if cycled.thought.plan.actions]
                assert decided[0] - at_s < 0.1

    run(scenario())


def test_many_roll_ups_at_once_are_one_cycle(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(idle=4, slots=0)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(25)
                before = len(whole.cycles)
                for machines in (1, 2, 3, 2, 1):
                    web.ask_for(machines)
                await asyncio.sleep(0.5)

                assert len(whole.cycles) - before == 1

    run(scenario())


def test_cycles_go_on_while_a_provider_hangs(tmp_path: Path) -> None:
    """The demand is met from the other one; what the silent one has stays as it was."""

    async def scenario() -> None:
        specs = (
            a_provider(slots=4, idle=2, name="east"),
            a_provider(slots=4, idle=0, name="west", seed=2, zone="west-1"),
        )
        async with sims(*specs) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(300)
                assert len(whole.machines(State.CONFIGURED)) == 2
                east = whole.links["east"]
                east.hangs = True
                sent, cycles = len(east.sent), len(whole.cycles)
                web.ask_for(4)
                await asyncio.sleep(600)

                assert len(whole.machines(State.CONFIGURED)) == 4
                assert len(east.sent) == sent
                assert len(whole.cycles) - cycles >= 60
                assert whole.assembled.live.reconciler.heard.unreachable == {"east"}
                assert len([m for m in whole.machines() if m.id in east_names(whole)]) == 6
        assert agrees(whole)

    run(scenario())


def east_names(whole: Whole) -> set[str]:
    inventory = whole.assembled.live.inventory
    return {name for name in inventory.ids() if inventory.source(name) == "east"}


@pytest.mark.parametrize(
    ("settings", "disposition"),
    [
        ({"actuation_paused": True}, Disposition.SUPPRESSED),
        ({"dry_run": True}, Disposition.SHADOWED),
        ({"actuation_paused": True, "dry_run": True}, Disposition.SUPPRESSED),
    ],
)
def test_under_pause_and_shadow_everything_is_decided_and_nothing_is_called(
    tmp_path: Path, settings: dict[str, bool], disposition: Disposition
) -> None:
    """S67: with both, pause wins the counting. Nothing spins."""

    async def scenario() -> None:
        async with sims(a_provider(slots=4, idle=2)) as providers:
            async with running(tmp_path, providers, **settings) as whole, whole.cluster() as web:
                web.ask_for(4)
                await asyncio.sleep(100)

                assert whole.sent() == 0
                assert {record.disposition for record in whole.journal.records()} == {disposition}
                assert (
                    whole.metric(
                        "mainstay_shard_actions_total", disposition=disposition, kind="bootstrap"
                    )
                    >= 2 * 10
                )
                assert 10 <= len(whole.cycles) <= 14
                plan = whole.cycles[-1][1].thought.plan
                assert len(plan.actions) == 4

    run(scenario())


def test_a_live_control_restricts_one_cluster_and_ends_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            sims(a_provider(slots=0, idle=8)) as providers,
            running(tmp_path, providers) as whole,
            whole.cluster() as web,
            whole.cluster("batch") as batch,
        ):
            await whole.assembled.live.set_control(
                ControlKind.PAUSE, cluster=WEB, value=0, reason="a test", by="me", lasts_s=1000
            )
            web.ask_for(2)
            batch.ask_for(2)
            await asyncio.sleep(900)
            assert {m.cluster for m in whole.machines(State.CONFIGURED)} == {"batch"}

            await asyncio.sleep(600)
            assert len(whole.machines(State.CONFIGURED)) == 4

    run(scenario())


def test_the_cap_is_on_what_a_tick_may_take_however_often_the_loop_wakes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=40)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(40)
                await asyncio.sleep(200)
                assert len(whole.machines(State.CONFIGURED)) == 40
                await asyncio.sleep(1)
                for machines in range(20, 10, -1):
                    web.ask_for(machines)
                    await asyncio.sleep(0.5)

                assert len(web.reclaims) <= 2 * 2  # two ticks at most, 5 % of 40 each

    run(scenario())


def test_after_a_restart_assignments_come_back_and_nothing_is_reclaimed_unheard(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=6)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(4)
                await asyncio.sleep(600)
                before = {m.id: (m.cluster, m.assignment) for m in whole.machines(State.CONFIGURED)}
            assert len(before) == 4

            async with running(tmp_path, providers) as whole:
                await asyncio.sleep(600)
                after = {m.id: (m.cluster, m.assignment) for m in whole.machines(State.CONFIGURED)}
                assert after == before
                assert whole.sent() == 0
                assert whole.data.epoch == 2

                async with whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(600)
                    assert len(whole.machines(State.CONFIGURED)) == 3
                    assert len(web.reclaims) == 1

    run(scenario())


def test_a_shard_that_dies_in_the_middle_buys_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=20)) as providers:
            for after_s in (0.05, 5.0, 33.0, 70.0):
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(5)
                    await asyncio.sleep(after_s)
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(5)
                await asyncio.sleep(HOUR_S)
                assert len(whole.machines(State.CONFIGURED)) == 5
                assert not whole.machines(State.IDLE, State.CREATING, State.FAILED)

    run(scenario())


def test_a_shard_whose_successor_acts_stops_acting_and_goes_on_looking(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=6)) as providers:
            async with running(tmp_path / "old", providers) as old:
                async with old.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(60)
                (tmp_path / "new").mkdir()
                (tmp_path / "new" / "epoch").write_text("6\n")
                async with running(tmp_path / "new", providers) as new, new.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(60)
                    assert len(new.machines(State.CONFIGURED)) == 2
                async with old.cluster() as web:
                    web.ask_for(4)
                    await asyncio.sleep(60)

                assert "epoch 7" in not_ready(old.assembled.live)
                assert old.journal.of(Event.SHARD_FENCED)
                assert len(old.machines(State.CONFIGURED)) == 2
                cycles = len(old.cycles)
                await asyncio.sleep(100)
                assert len(old.cycles) - cycles >= 10

    run(scenario())


def test_held_roll_ups_reclaim_nothing_until_they_are_confirmed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=20)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                rows = [row for level in range(12) for row in needs(1, priority=level)]
                web.roll_up(rows)
                await asyncio.sleep(200)
                assert len(whole.machines(State.CONFIGURED)) == 12

                for _ in range(2):
                    web.roll_up([])
                    await asyncio.sleep(60)
                assert not web.reclaims

                web.roll_up([])
                await asyncio.sleep(60)
                assert web.reclaims

    run(scenario())


def test_a_drain_without_a_session_runs_and_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with running(tmp_path, providers) as whole:
                async with whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(603)  # not at a tick
                    web.ask_for(1)
                    await asyncio.sleep(0.005)
                await asyncio.sleep(600)

                assert len(whole.machines(State.CONFIGURED)) == 1
                assert whole.journal.of(Event.EVICTION_SKIPPED) == [ActionKind.RECLAIM.value]

    run(scenario())


def test_a_defect_in_a_cycle_does_not_end_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(15)
                with monkeypatch.context() as patched:
                    patched.setattr("mainstay.shard.cycle.decide", broken)
                    web.ask_for(1)
                    await asyncio.sleep(15)
                    assert whole.journal.of(Event.CYCLE_FAILED)
                await asyncio.sleep(600)
                assert len(whole.machines(State.CONFIGURED)) == 1

    run(scenario())


def broken(*_: object) -> None:
    raise RuntimeError("on purpose")


def test_machines_outside_our_domains_are_never_adopted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=4)) as providers:
            domains = ("topology.kubernetes.io/zone=elsewhere",)
            async with running(tmp_path, providers, domains=domains) as whole:
                await asyncio.sleep(60)
                assert not whole.machines()

    run(scenario())


def test_a_cluster_that_is_gone_keeps_its_machines(tmp_path: Path) -> None:
    """Silence is not zero demand."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers) as whole:
                async with whole.cluster() as web:
                    web.ask_for(3)
                    await asyncio.sleep(60)
                await asyncio.sleep(HOUR_S)
                assert [m.cluster for m in whole.machines(State.CONFIGURED)] == [WEB] * 3

    run(scenario())


def test_a_lower_priority_gives_way_and_the_preemptor_gets_the_machine(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            sims(a_provider(slots=0, idle=3)) as providers,
            running(tmp_path, providers) as whole,
            whole.cluster("batch") as batch,
            whole.cluster() as web,
        ):
            batch.ask_for(3, priority=10)
            await asyncio.sleep(60)
            web.ask_for(2, priority=1000)
            await asyncio.sleep(600)

            held = sorted(str(m.cluster) for m in whole.machines(State.CONFIGURED))
            assert held == ["batch", "web", "web"]
            assert {told.preemptor_priority for told in batch.reclaims} == {1000}
            assert len(batch.reclaims) == 2

    run(scenario())


def test_provisioning_is_measured_from_the_first_roll_up_that_asks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(2)
                await asyncio.sleep(100)
                assert whole.metric("mainstay_shard_provisioning_seconds_count") == 1

    run(scenario())


def test_an_unknown_cluster_costs_nobody_else_anything(tmp_path: Path) -> None:
    """A cluster without a session backs off alone."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=6)) as providers:
            async with running(tmp_path, providers) as whole:
                async with whole.cluster("mute") as mute:
                    mute.line.answers = False
                    mute.ask_for(2, priority=1000)
                    async with whole.cluster() as web:
                        web.ask_for(3)
                        await asyncio.sleep(300)

                        serving = [m.cluster for m in whole.machines(State.CONFIGURED)]
                        assert serving == [ClusterId("web")] * 3
                        assert not whole.machines(State.FAILED)

    run(scenario())
