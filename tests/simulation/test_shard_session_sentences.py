"""Sessions of a whole shard: who is told what of its machines, and which hints, and when."""

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from mainstay.model.frames import Acknowledged, CapacityHint, NodeState
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import State
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.spec import SimSpec
from mainstay.shard.events import Event
from shard_over_sim import OFFER
from virtual_loop import run
from whole_shard import Cluster, a_provider, needs, running, sims

TICK_S: Final = 10.0


def an_instant_provider(*, idle: int) -> SimSpec:
    return dataclasses.replace(a_provider(slots=0, idle=idle), latencies=INSTANT)


def states_of(cluster: Cluster, machine: str) -> list[State]:
    """All that a cluster was told of a machine, in order."""
    return [each.state for each in cluster.line.heard(NodeState) if each.machine == machine]


class TestNodeStates:
    def test_the_last_update_of_a_drained_machine_reaches_the_cluster_it_left(
        self, tmp_path: Path
    ) -> None:
        """The drain is finished by a list, when the machine is nobody's any more."""

        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=2)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(2)
                    await asyncio.sleep(100)
                    web.ask_for(1)
                    await asyncio.sleep(100)
                    (left,) = whole.machines(State.IDLE)
                    assert left.cluster is None
                    assert states_of(web, left.id)[-2:] == [State.DRAINING, State.IDLE]
                    said = [each for each in web.line.heard(NodeState) if each.machine == left.id]
                    assert said[-1].cluster == "web"

        run(scenario())

    def test_who_gets_the_machine_next_is_told_the_rest_and_nobody_else(
        self, tmp_path: Path
    ) -> None:
        """Taken from one for another: the one's last word is Idle."""

        async def scenario() -> None:
            async with (
                sims(a_provider(slots=0, idle=1)) as providers,
                running(tmp_path, providers) as whole,
                whole.cluster() as web,
                whole.cluster("train") as train,
            ):
                web.ask_for(1, priority=10)
                await asyncio.sleep(100)
                train.ask_for(1, priority=1000)
                await asyncio.sleep(100)
                (machine,) = whole.machines(State.CONFIGURED)
                assert machine.cluster == "train"
                mine = [State.CONFIGURING, State.CONFIGURED]
                assert states_of(web, machine.id) == [*mine, State.DRAINING, State.IDLE]
                assert states_of(train, machine.id) == mine

        run(scenario())

    def test_a_machine_is_told_with_its_identity_and_what_may_be_scheduled_on_it(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(1)
                    await asyncio.sleep(30)
                    (machine,) = whole.machines(State.CONFIGURED)
                    told = web.line.heard(NodeState)[-1]
                    assert machine.host is not None
                    assert told.provider_id == f"{machine.host.provider}://{machine.host.ref}"
                    place = {INSTANCE_TYPE_KEY: OFFER.instance_type, ZONE_KEY: OFFER.zone}
                    assert told.labels == {**dict(machine.profile.labels), **place}
                    assert told.allocatable == machine.effective_allocatable
                    assert told.allocatable.as_dict()["cpu"] == "2"

        run(scenario())

    def test_who_connects_is_acknowledged_first_and_told_of_its_own_machines(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=5)) as providers:
                async with running(tmp_path, providers) as whole:
                    async with whole.cluster() as web, whole.cluster("batch") as batch:
                        web.ask_for(3)
                        batch.ask_for(2)
                        await asyncio.sleep(30)
                async with running(tmp_path, providers) as whole:
                    await asyncio.sleep(TICK_S + 1)
                    async with whole.cluster() as web:
                        await asyncio.sleep(1)
                        assert web.line.said[0] == Acknowledged("hello", shard_epoch=2)
                        mine = [m.id for m in whole.machines(State.CONFIGURED) if m.cluster]
                        bound = [m.id for m in whole.machines() if m.cluster == "web"]
                        assert (len(mine), len(bound)) == (5, 3)
                        assert web.states() == dict.fromkeys(bound, State.CONFIGURED)
                        assert len(web.line.said) == 1 + 3

        run(scenario())


class TestHints:
    def test_news_of_one_kind_of_need_comes_at_most_every_five_seconds(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with (
                sims(an_instant_provider(idle=60)) as providers,
                running(tmp_path, providers, cycle_interval_s=1.0) as whole,
                whole.cluster() as web,
                whole.cluster("batch") as batch,
            ):
                web.roll_up([*needs(1), *needs(1, priority=7)])
                await asyncio.sleep(20.5)
                heard = len(web.line.heard(CapacityHint))
                begin_s, at_s = asyncio.get_running_loop().time(), list[float]()
                for machines in range(1, 31):  # each second one less is left
                    batch.ask_for(machines)
                    await asyncio.sleep(1)
                    hints = web.line.heard(CapacityHint)[heard:]
                    heard += len(hints)
                    assert len(hints) in {0, 2}  # both kinds, or none
                    if hints:
                        at_s.append(round(asyncio.get_running_loop().time() - begin_s))
                        assert {hint.count for hint in hints} == {58 - machines}
                assert at_s == [at_s[0] + 5 * number for number in range(6)]

        run(scenario())

    def test_a_reconnect_gets_fresh_hints_while_others_see_no_repeat(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=9)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster("batch") as batch:
                    async with whole.cluster() as web:
                        web.ask_for(2)
                        batch.ask_for(3)
                        await asyncio.sleep(5 * TICK_S)
                        last = web.line.heard(CapacityHint)[-1]
                        assert last.count == 4
                    seen = len(batch.line.heard(CapacityHint))
                    async with whole.cluster() as web:
                        await asyncio.sleep(5 * TICK_S)
                        assert web.line.heard(CapacityHint) == [last]
                    assert len(batch.line.heard(CapacityHint)) == seen > 0

        run(scenario())

    def test_only_what_a_cluster_asks_for_is_hinted_to_it(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=9)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster("batch") as batch:
                    async with whole.cluster() as web, whole.cluster("idle") as idle:
                        web.ask_for(1, priority=5)
                        batch.ask_for(1, priority=6)
                        idle.ask_for(0)
                        await asyncio.sleep(5 * TICK_S)
                        mine = needs(1, priority=5)[0].profile.fingerprint
                        assert {h.fingerprint for h in web.line.heard(CapacityHint)} == {mine}
                        assert not idle.line.heard(CapacityHint)

        run(scenario())


class TestStreams:
    def test_a_replaced_sessions_late_clean_up_leaves_its_successor_alone(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=3)) as providers:
                async with running(tmp_path, providers) as whole, AsyncExitStack() as late:
                    older = await late.enter_async_context(whole.cluster())
                    await asyncio.sleep(1)
                    async with whole.cluster() as newer:
                        await asyncio.sleep(1)
                        assert "has connected again" in str(older.line.why)
                        await late.aclose()
                        newer.ask_for(2)
                        await asyncio.sleep(3 * TICK_S)
                        assert list(newer.states().values()) == [State.CONFIGURED] * 2
                        assert whole.metric("mainstay_shard_sessions_active") == 1
                        assert whole.metric("mainstay_shard_sessions_replaced_total") == 1
                        assert whole.metric("mainstay_shard_sessions_closed_total") == 0

        run(scenario())

    def test_who_does_not_read_is_cut_off_and_keeps_machines_and_demand(
        self, tmp_path: Path
    ) -> None:
        """And holds up nobody meanwhile."""

        async def scenario() -> None:
            async with (
                sims(an_instant_provider(idle=6)) as providers,
                running(tmp_path, providers) as whole,
                whole.cluster() as web,
                whole.cluster("batch") as batch,
            ):
                web.ask_for(2)
                await asyncio.sleep(2 * TICK_S + 1)
                web.line.stop_reading()
                web.ask_for(3)  # it is asked for a bootstrap, and does not read that
                batch.ask_for(2)
                await asyncio.sleep(5)
                assert len(batch.states()) == 2
                assert web.line.why is None
                await asyncio.sleep(30)
                assert "nothing was read for 30 s" in str(web.line.why)
                assert whole.journal.of(Event.SESSION_CUT) == ["slow"]
                assert whole.metric("mainstay_shard_sessions_cut_total", reason="slow") == 1
                await asyncio.sleep(60)
                served = [m for m in whole.machines(State.CONFIGURED) if m.cluster == "web"]
                assert len(served) == 2
                async with whole.cluster() as again:  # its demand of three is still known
                    await asyncio.sleep(2 * TICK_S)
                    assert len(again.states()) == 3

        run(scenario())
