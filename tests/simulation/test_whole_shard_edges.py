"""A whole shard where two things happen at once, and where what should not fail does."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mainstay.engine.quota import Quota
from mainstay.model.coordination import AssignDomain, Domain, Instruction
from mainstay.model.frames import BootstrapAnswer, BootstrapAsked
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.shard.controls import ControlKind
from mainstay.shard.events import Event
from mainstay.shard.executor import ExecutorOptions
from mainstay.shard.lists.intake import IntakeOptions
from mainstay.shard.lists.looked import Looked
from mainstay.shard.outcomes import Disposition, Outcome
from mainstay.shard.thought import Thought
from virtual_loop import LoopClock, run
from whole_shard import WEB, Cluster, Whole, a_provider, running, sims

CONTROLS = pytest.mark.parametrize(
    ("kind", "disposition"),
    [(ControlKind.PAUSE, Disposition.SUPPRESSED), (ControlKind.SHADOW, Disposition.SHADOWED)],
)


async def hold_back(whole: Whole, kind: ControlKind) -> None:
    await whole.assembled.live.set_control(
        kind, cluster=None, value=0, reason="a test", by="me", lasts_s=1000
    )


def answer_all(web: Cluster) -> None:
    """What it was asked for while it did not answer."""
    web.line.answers = True
    for asked in web.line.heard(BootstrapAsked):
        web.line.session.heard(BootstrapAnswer(asked.request, b"join"))


async def keep_busy(web: Cluster, *, machines: int = 1) -> None:
    """Have machines on their way to a cluster that does not answer."""
    await asyncio.sleep(12)
    web.line.answers = False
    web.ask_for(machines)
    await asyncio.sleep(1.5)


@CONTROLS
def test_what_waits_when_a_control_comes_is_not_begun(
    tmp_path: Path, kind: ControlKind, disposition: Disposition
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=8)) as providers:
            async with running(tmp_path, providers, workers=1) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                providers["sim"].change({"late_acks_s": "5"})
                web.ask_for(3)
                await asyncio.sleep(0.1)
                assert len(whole.machines(State.CREATING)) == 1
                waiting = sum(whole.assembled.live.executor.depth.values())
                assert waiting == 2

                await hold_back(whole, kind)
                await asyncio.sleep(7)

                assert whole.sent() == 1
                held = [e for e in whole.journal.records() if e.disposition is disposition]
                assert len({each.order.action.machine for each in held}) == waiting

    run(scenario())


@CONTROLS
def test_what_waits_for_its_cluster_when_a_control_comes_goes_no_further(
    tmp_path: Path, kind: ControlKind, disposition: Disposition
) -> None:
    """No provider is asked for what has begun, and no cycle comes to help."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=8)) as providers:
            async with running(tmp_path, providers, workers=2) as whole, whole.cluster() as web:
                await keep_busy(web, machines=6)
                assert len(whole.machines(State.CONFIGURING)) == 6

                await hold_back(whole, kind)
                answer_all(web)
                await asyncio.sleep(0.01)

                assert whole.sent() == 0
                assert len(whole.machines(State.IDLE)) == 8
                told = [each.outcome for each in whole.journal.records()]
                assert told.count(Outcome.ROLLED_BACK) == 6
                assert disposition not in {each.disposition for each in whole.journal.records()}

    run(scenario())


def test_a_control_that_comes_while_a_plan_is_made_holds_that_plan_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=4, idle=4)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                parts = whole.assembled.shard._parts

                async def paused_meanwhile(work: Callable[[], Thought]) -> Thought:
                    await hold_back(whole, ControlKind.PAUSE)
                    return work()

                object.__setattr__(parts, "aside", paused_meanwhile)
                web.ask_for(6)
                await asyncio.sleep(0.1)

                assert whole.cycles[-1][1].thought.plan.actions
                assert whole.sent() == 0

    run(scenario())


def test_a_cluster_that_gets_very_many_machines_at_once_is_told_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(3)
                await asyncio.sleep(300)
                assert len(whole.machines(State.CONFIGURED)) == 3
            few = partial(IntakeOptions, told_max=1)
            monkeypatch.setattr("mainstay.processes.shard_parts.IntakeOptions", few)
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(30)
                assert list(web.states().values()) == [State.CONFIGURED] * 3

    run(scenario())


def test_a_cluster_that_does_not_answer_holds_up_nobody(tmp_path: Path) -> None:
    """Not with its first questions, and not with the one after each pause."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=40)) as providers:
            async with running(tmp_path, providers, workers=2) as whole:
                async with whole.cluster("hung") as hung, whole.cluster() as web:
                    await asyncio.sleep(12)
                    hung.line.answers = False
                    hung.ask_for(20, priority=200)
                    await asyncio.sleep(1)
                    web.ask_for(8)
                    await asyncio.sleep(1)
                    asked = [each.cluster for each in web.line.heard(BootstrapAsked)]
                    assert len(asked) == 8
                    await asyncio.sleep(40)  # an action has 30 s, a tick comes every 10
                    in_flight = whole.assembled.live.executor.in_flight
                    assert sum(in_flight.values()) <= 1
                    web.ask_for(16)
                    await asyncio.sleep(1)
                    assert len(web.line.heard(BootstrapAsked)) == 16

    run(scenario())


def test_a_cluster_that_connects_again_need_not_wait_out_its_pause(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=4)) as providers:
            async with running(tmp_path, providers, action_deadline_s=2) as whole:
                async with whole.cluster() as web:
                    web.line.answers = False
                    web.ask_for(2)
                    await asyncio.sleep(300)
                    backoff = whole.assembled.shard._parts.backoff
                    for _ in range(100):  # until a long pause has just begun
                        await asyncio.sleep(1)
                        if backoff.left_s(LoopClock().elapsed_s()).get(WEB, 0.0) > 50:
                            break
                    assert WEB in backoff.backed_off(LoopClock().elapsed_s() + 40)
                async with whole.cluster() as web:
                    await asyncio.sleep(1)
                    assert len(web.line.heard(BootstrapAsked)) == 1  # it shows that it is there
                    await asyncio.sleep(12)
                    assert len(web.line.heard(BootstrapAsked)) == 2

    run(scenario())


def test_a_drain_gets_through_a_queue_that_is_always_full_of_acquisitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=200, idle=2)) as providers:
            async with running(tmp_path, providers, workers=1) as whole:
                async with whole.cluster("batch") as batch, whole.cluster() as web:
                    batch.ask_for(2)
                    await asyncio.sleep(60)
                    providers["sim"].change({"late_acks_s": "9"})
                    web.ask_for(200)
                    await asyncio.sleep(15)
                    batch.ask_for(1)
                    await asyncio.sleep(60)
                    assert len(batch.reclaims) == 1
                    assert whole.assembled.live.executor.depth["sim"] >= 2  # and still full

    run(scenario())


def test_of_a_plan_only_what_a_queue_can_take_is_looked_at_and_all_of_it_is_done(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=60)) as providers:
            async with running(tmp_path, providers, workers=2) as whole, whole.cluster() as web:
                await asyncio.sleep(12)
                web.ask_for(60)
                await asyncio.sleep(0.1)
                admitted = [cycled.thought.admitted for _, cycled in whole.cycles]
                assert max(len(each.orders) for each in admitted) == 2 * whole_queue(2)
                dropped = {"disposition": "dropped", "kind": "bootstrap"}
                assert whole.metric("mainstay_shard_actions_total", **dropped) >= 50
                await asyncio.sleep(600)
                assert len(whole.machines(State.CONFIGURED)) == 60

    run(scenario())


def whole_queue(workers: int) -> int:
    return ExecutorOptions(workers=workers).queue_length_max


def test_demand_does_not_wait_for_a_provider_that_hangs(tmp_path: Path) -> None:
    """Not even while a tick waits for its list."""

    async def scenario() -> None:
        sound, other = a_provider(slots=0, idle=4), a_provider(idle=4, name="other", seed=2)
        async with sims(sound, other) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await asyncio.sleep(35)
                whole.links["other"].hangs = True
                await asyncio.sleep(whole.cycles[-1][0] + 10.2 - LoopClock().elapsed_s())
                cycles, at_s = len(whole.cycles), LoopClock().elapsed_s()
                assert whole.cycles[-1][0] < at_s - 10  # the tick is there, and waits
                web.ask_for(1)
                await asyncio.sleep(1)
                decided = [w for w, c in whole.cycles[cycles:] if c.thought.plan.actions]
                assert decided[0] - at_s < 0.1

    run(scenario())


def test_a_wake_up_just_before_a_peek_is_no_tick(tmp_path: Path) -> None:
    """Else ticks would be used up ahead of time, and none would come for long afterwards."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=9)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await keep_busy(web)
                whole.assembled.shard.wake()
                await asyncio.sleep(0.02 + 0.99)  # it settles, and nearly a second passes
                for _ in range(60):
                    whole.assembled.shard.wake()
                    await asyncio.sleep(1)
                web.ask_for(0)
                await asyncio.sleep(100)
                before = len(whole.cycles)
                await asyncio.sleep(100)
                assert len(whole.cycles) - before >= 9

    run(scenario())


def test_domains_that_were_assigned_hold_after_a_restart(tmp_path: Path) -> None:
    """With nobody there to assign them again, a shard widens by nothing."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with running(tmp_path, providers) as whole:
                await asyncio.sleep(1)
                assigned = AssignDomain(domain=Domain(ZONE_KEY, "elsewhere"))
                told = Instruction(term=1, sequence=1, id="i-1", payload=assigned)
                assert await whole.assembled.holder.carry_out(told) is not None
            async with running(tmp_path, providers) as whole:
                await asyncio.sleep(60)
                assert whole.assembled.live.reconciler.heard.ready
                assert whole.machines() == []

    run(scenario())


def test_the_quota_that_was_held_holds_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sims(a_provider(slots=8)) as providers:
            async with running(tmp_path, providers) as whole:
                whole.data.quota.keep(Quota({WEB: 2}, {}))
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                web.ask_for(4)
                await asyncio.sleep(600)
                assert len(whole.machines(State.CONFIGURED)) == 2

    run(scenario())


@pytest.mark.parametrize("where", ["look", "observe", "audit"])
def test_a_defect_beside_a_cycle_does_not_end_the_loop(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it looks without deciding, while it is observed, while it is checked."""

    async def scenario() -> None:
        async with sims(a_provider(slots=0, idle=3)) as providers:
            async with running(tmp_path, providers) as whole, whole.cluster() as web:
                await keep_busy(web)
                with monkeypatch.context() as patched:
                    match where:
                        case "look":
                            patched.setattr(whole.assembled.live.reconciler, "look", fails)
                        case "observe":
                            patched.setattr(whole.metrics, "observe_figures", breaks)
                        case _:
                            patched.setattr("mainstay.shard.selfcheck.differences", breaks)
                    await asyncio.sleep(12)
                told = Event.AUDIT_DIFFERED if where == "audit" else Event.CYCLE_FAILED
                assert whole.journal.of(told)
                answer_all(web)
                await asyncio.sleep(600)
                assert len(whole.machines(State.CONFIGURED)) == 1

    run(scenario())


def breaks(*_: object, **__: object) -> None:
    raise RuntimeError("on purpose")


async def fails(**_: object) -> Looked:
    raise RuntimeError("on purpose")
