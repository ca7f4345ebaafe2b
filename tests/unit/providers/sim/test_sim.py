"""The simulated provider: latencies, faults and money, all by seed and all changeable."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import generate_latest

from hardware import ids
from mainstay.model.calls import (
    Ack,
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
    Status,
    status_of,
)
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.model.notice import InterruptionNotice, Notices, known_notices
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.store import SqliteStore
from mainstay.providers.sim.bill import Bill, read_bill
from mainstay.providers.sim.faults import Faults
from mainstay.providers.sim.latency import CLOUD, INSTANT, Latency
from mainstay.providers.sim.offers import choose, small_catalog
from mainstay.providers.sim.provider import Sim, simulated
from mainstay.providers.sim.spec import Pool, SimSpec, spread
from mainstay.providers.sim.trace import Trace
from virtual_loop import LoopClock, run

TYPE: Final = "m5.large"
OFFERS: Final = choose(small_catalog(), [TYPE])
ZONE: Final = OFFERS[0].zone
HOUR: Final = 3600.0

Scenario = Callable[[Sim], Awaitable[None]]


def spec(capacity: CapacityType = CapacityType.ON_DEMAND, slots: int = 4) -> SimSpec:
    """One pool of m5.large in one zone; steps take no time."""
    return SimSpec(pools=(Pool(OFFERS[0], capacity, slots),), latencies=INSTANT)


def with_sim(made: SimSpec, scenario: Scenario, *, look_s: float = 30.0, **settings: str) -> None:
    async def whole() -> None:
        options = Options(reconcile_interval_s=look_s)
        async with simulated(made, LoopClock(), options=options) as sim:
            sim.change(settings)
            await scenario(sim)

    run(whole())


def name(number: int = 0, kind: str = "od") -> str:
    return f"{TYPE}.{ZONE}.{kind}.{number:05d}"


async def created(sim: Sim, number: int = 0, kind: str = "od") -> Ack:
    ack = await sim.calls.create(CreateRequest(name(number, kind)))
    await asyncio.sleep(0.001)
    return ack


def struck(sim: Sim, fault: str) -> int:
    told = sim.server.metrics.registry.get_sample_value(
        "mainstay_provider_faults_total", {"fault": fault}
    )
    return int(told or 0)


class TestLife:
    def test_a_slot_is_created_joined_emptied_and_given_back(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            await sim.provider.configure(ConfigureRequest(name(), "web"))
            await asyncio.sleep(1)
            await sim.provider.drain(DrainRequest(name()))
            await asyncio.sleep(1)
            await sim.provider.delete(DeleteRequest(name()))
            await asyncio.sleep(1)
            assert (await sim.provider.get(GetRequest(name()))).state is State.SPECULATIVE

        with_sim(spec(), scenario)

    @pytest.mark.parametrize(("cluster", "held"), [("tenants", True), ("web", False)])
    def test_a_drain_takes_all_of_its_grace_for_those_who_use_it(
        self, cluster: str, held: bool
    ) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            await sim.provider.configure(ConfigureRequest(name(), cluster))
            await asyncio.sleep(1)
            await sim.provider.drain(DrainRequest(name(), 10))
            await asyncio.sleep(9)
            now = (await sim.provider.get(GetRequest(name()))).state
            assert now is (State.DRAINING if held else State.IDLE)
            await asyncio.sleep(2)
            assert (await sim.provider.get(GetRequest(name()))).state is State.IDLE

        made = dataclasses.replace(spec(), holds_grace_of=frozenset({"tenants"}))
        with_sim(made, scenario)

    @pytest.mark.parametrize(
        ("capacity", "state"),
        [
            (CapacityType.BARE_METAL, State.IDLE),
            (CapacityType.RESERVED, State.IDLE),
            (CapacityType.ON_DEMAND, State.SPECULATIVE),
            (CapacityType.SPOT, State.SPECULATIVE),
        ],
    )
    def test_what_is_held_has_its_hardware_from_the_start(
        self, capacity: CapacityType, state: State
    ) -> None:
        async def scenario(sim: Sim) -> None:
            listing = await sim.calls.list(ListRequest())
            assert {machine.state for machine in listing.machines} == {state}

        with_sim(spec(capacity), scenario)

    def test_slots_are_dealt_out_evenly(self) -> None:
        pools = spread(small_catalog(), 100, [CapacityType.ON_DEMAND, CapacityType.SPOT])

        assert sum(pool.slots for pool in pools) == 100
        assert {pool.slots for pool in pools} == {1, 2}

    def test_a_cloud_of_nothing_is_refused(self) -> None:
        with pytest.raises(Rejected, match="0 slots"):
            spread(small_catalog(), 0, [CapacityType.SPOT])

    def test_a_restarted_provider_still_has_its_hosts(self, tmp_path: Path) -> None:
        async def life() -> list[tuple[str, State]]:
            store, bill = SqliteStore(tmp_path / "sim.db"), read_bill(tmp_path / "bill")
            try:
                async with simulated(spec(), LoopClock(), store=store, bill=bill) as sim:
                    await sim.calls.create(CreateRequest(name()))
                    await asyncio.sleep(0.05)
                    await sim.server.reconcile()
                    machines = (await sim.calls.list(ListRequest())).machines
                    return sorted((machine.id, machine.state) for machine in machines)
            finally:
                store.close()

        first, second = asyncio.run(life()), asyncio.run(life())

        assert first == second
        assert first[0] == (name(), State.IDLE)
        assert len(read_bill(tmp_path / "bill").lines) == 1

    def test_what_the_bill_cannot_note_is_tried_again_and_is_billed_once(self) -> None:
        """As on a full disk: neither a host that nobody pays for nor one that never ends."""
        bill, noted = Bill(), list[str]()
        refused = iter([True, True, False, True, False])

        def journal(line: str) -> None:
            if next(refused):
                raise Unavailable("no space left")
            noted.append(line)

        async def life() -> tuple[State, State]:
            async with simulated(spec(), LoopClock(), bill=bill) as sim:
                await sim.calls.create(CreateRequest(name()))
                await asyncio.sleep(600)
                made = await sim.calls.get(GetRequest(name()))
                await sim.calls.delete(DeleteRequest(name()))
                await asyncio.sleep(600)
                return made.state, (await sim.calls.get(GetRequest(name()))).state

        bill.journal = journal
        assert run(life()) == (State.IDLE, State.SPECULATIVE)
        assert [line.split('"')[1] for line in noted] == ["open", "close"]
        assert len(bill.marks) == 2

    def test_held_hardware_that_was_lost_is_not_back_after_a_restart(self, tmp_path: Path) -> None:
        machine = name(0, "metal")

        async def life(*, lose: bool) -> State:
            store, bill = SqliteStore(tmp_path / "sim.db"), read_bill(tmp_path / "bill")
            try:
                made = spec(CapacityType.BARE_METAL)
                async with simulated(made, LoopClock(), store=store, bill=bill) as sim:
                    if lose:
                        await sim.lose(machine)
                    else:
                        await sim.calls.create(CreateRequest(f"{machine}+1"))
                        await asyncio.sleep(0.05)
                    return (await sim.calls.get(GetRequest(f"{machine}+1"))).state
            finally:
                store.close()

        assert asyncio.run(life(lose=True)) is State.SPECULATIVE
        assert asyncio.run(life(lose=False)) is State.IDLE


class TestSeed:
    @staticmethod
    def history(seed: int) -> list[tuple[float, str, str]]:
        """When each of forty machines came to its end, under many faults at once."""
        made = SimSpec(
            pools=spread(small_catalog(), 40, [CapacityType.SPOT]), latencies=CLOUD, seed=seed
        )
        told: list[tuple[float, str, str]] = []

        async def scenario(sim: Sim) -> None:
            sim.change({
                "failures": "create=0.2", "interruptions": "50", "price_drift": "0.3",
                "partial_lists": "0.1", "late_acks_s": "3",
            })  # fmt: skip
            for machine in await ids(sim.server):
                await sim.calls.create(CreateRequest(machine))
            for _ in range(60):
                await asyncio.sleep(30)
                machines = (await sim.calls.list(ListRequest())).machines
                told.extend((each.price_per_hour, each.id, str(each.state)) for each in machines)

        with_sim(made, scenario)
        return told

    def test_the_same_seed_gives_the_same_history(self) -> None:
        assert self.history(3) == self.history(3)

    def test_another_seed_gives_another_history(self) -> None:
        assert self.history(3) != self.history(4)

    def test_steps_take_about_as_long_as_they_do_in_a_cloud(self) -> None:
        made = dataclasses.replace(spec(slots=200), latencies=CLOUD)

        async def scenario(sim: Sim) -> None:
            for machine in await ids(sim.server):
                await sim.calls.create(CreateRequest(machine))
            await asyncio.sleep(CLOUD[next(iter(CLOUD))].median_s)
            states = Counter(m.state for m in (await sim.calls.list(ListRequest())).machines)
            assert 80 <= states[State.IDLE] <= 120
            await asyncio.sleep(250)
            assert len(await ids(sim.server, states=frozenset({State.IDLE}))) == 200

        with_sim(made, scenario)

    def test_reading_calls_take_their_time_too(self) -> None:
        slow = {**INSTANT, Call.GET: Latency(3.0, 0.0), Call.LIST: Latency(7.0, 0.0)}

        async def scenario(sim: Sim) -> None:
            began = LoopClock().now_s()
            await sim.provider.get(GetRequest(name()))
            await sim.provider.list(ListRequest())
            assert LoopClock().now_s() - began == pytest.approx(10.0)

        with_sim(dataclasses.replace(spec(), latencies=slow), scenario)

    def test_faults_may_be_there_from_the_start(self) -> None:
        made = dataclasses.replace(spec(), faults=Faults(stock_outs=frozenset({("*", "*")})))

        async def scenario(sim: Sim) -> None:
            with pytest.raises(NoCapacity):
                await created(sim)

        with_sim(made, scenario)

    def test_a_slow_day_makes_every_step_slow(self) -> None:
        made = dataclasses.replace(spec(slots=50), latencies=CLOUD)

        async def scenario(sim: Sim) -> None:
            for machine in await ids(sim.server):
                await sim.calls.create(CreateRequest(machine))
            await asyncio.sleep(45)
            assert await ids(sim.server, states=frozenset({State.IDLE})) == []

        with_sim(made, scenario, slowness="4")


class TestRefusals:
    @pytest.mark.parametrize("which", [f"{TYPE}/{ZONE}", f"*/{ZONE}", f"{TYPE}/*", "*/*"])
    def test_a_type_that_is_out_of_stock_in_a_zone_is_refused_until_it_is_back(
        self, which: str
    ) -> None:
        async def scenario(sim: Sim) -> None:
            with pytest.raises(NoCapacity, match=f"out of stock: {TYPE} in {ZONE}") as refusal:
                await created(sim)
            assert status_of(refusal.value) is Status.RESOURCE_EXHAUSTED
            assert (await sim.calls.get(GetRequest(name()))).state is State.SPECULATIVE
            sim.change({"stock_outs": ""})
            await created(sim)
            assert struck(sim, "stock_out") == 1

        with_sim(spec(), scenario, stock_outs=which)

    def test_another_zone_or_type_is_not_out_of_stock(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)

        with_sim(spec(), scenario, stock_outs=f"p5.48xlarge/{ZONE}, {TYPE}/elsewhere")

    @pytest.mark.parametrize("quota", [f"{TYPE}=2", "*=2"])
    def test_a_quota_is_reached_and_freed(self, quota: str) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim, 0)
            await created(sim, 1)
            with pytest.raises(NoCapacity, match="quota reached: 2 hosts"):
                await created(sim, 2)
            await sim.calls.delete(DeleteRequest(name(0)))
            await asyncio.sleep(1)
            await created(sim, 2)

        with_sim(spec(), scenario, quotas=quota)

    def test_too_many_calls_are_turned_away_for_a_while(self) -> None:
        async def scenario(sim: Sim) -> None:
            for number in range(3):
                await sim.calls.create(CreateRequest(name(number)))
            for number in range(3, 10):
                with pytest.raises(Unavailable, match="more than 3 calls a second"):
                    await sim.calls.create(CreateRequest(name(number)))
            await asyncio.sleep(1)
            await sim.calls.create(CreateRequest(name(9)))

        with_sim(spec(slots=10), scenario, calls_per_s="3")


class TestLosses:
    def test_a_step_fails_as_often_as_it_is_told_to(self) -> None:
        async def scenario(sim: Sim) -> None:
            for machine in await ids(sim.server):
                await sim.calls.create(CreateRequest(machine))
            await asyncio.sleep(1)
            failed = await ids(sim.server, states=frozenset({State.FAILED}))
            assert 30 <= len(failed) <= 70
            one = await sim.calls.get(GetRequest(failed[0]))
            assert one.last_error == f"create: simulated fault: create of {failed[0]} failed"

        with_sim(spec(slots=200), scenario, failures="create=0.25")

    @pytest.mark.parametrize(
        ("times", "least", "most"), [("1", 8, 36), ("10", 120, 200), ("0", 0, 0)]
    )
    def test_spot_is_interrupted_at_the_rate_it_declares_and_on_demand_never(
        self, times: str, least: int, most: int
    ) -> None:
        """Five in a hundred an hour are declared; ten times that rate takes four in ten."""
        both = (
            Pool(OFFERS[0], CapacityType.SPOT, 400),
            Pool(OFFERS[0], CapacityType.ON_DEMAND, 50),
        )

        async def scenario(sim: Sim) -> None:
            for machine in await ids(sim.server):
                await sim.calls.create(CreateRequest(machine))
            start = (await sim.calls.list(ListRequest())).cursor
            await asyncio.sleep(HOUR)
            gone = (await sim.calls.list(ListRequest(since=start))).tombstones
            assert least <= len(gone) <= most
            assert all(".spot." in machine for machine in gone)

        with_sim(
            SimSpec(pools=both, latencies=INSTANT),
            scenario,
            interruptions=times,
            losses_per_hour="1e-9",
        )

    def test_a_lost_machine_leaves_a_tombstone_and_a_slot_with_a_new_id(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            start = (await sim.calls.list(ListRequest())).cursor
            await sim.lose(name())
            delta = await sim.calls.list(ListRequest(since=start))
            assert delta.tombstones == (name(),)
            assert [machine.id for machine in delta.machines] == [f"{name()}+1"]
            assert struck(sim, "loss") == 1

        with_sim(spec(), scenario)

    def test_any_host_may_be_lost_at_a_rate(self) -> None:
        async def scenario(sim: Sim) -> None:
            start = (await sim.calls.list(ListRequest())).cursor
            await asyncio.sleep(HOUR)
            gone = (await sim.calls.list(ListRequest(since=start))).tombstones
            assert 20 <= len(gone) <= 62

        with_sim(spec(CapacityType.BARE_METAL, 100), scenario, losses_per_hour="0.5")

    def test_a_recording_takes_the_youngest_and_refuses_new_ones(self) -> None:
        trace = Trace(600.0, (4, 2, 0, 4))
        made = dataclasses.replace(spec(CapacityType.SPOT), traces={ZONE: trace})

        async def scenario(sim: Sim) -> None:
            for number in range(4):
                await created(sim, number, "spot")
                await asyncio.sleep(1)
            counts = []
            for _ in range(3):
                await asyncio.sleep(600)
                idle = await ids(sim.server, states=frozenset({State.IDLE}))
                counts.append(len(idle))
                if len(counts) == 1:
                    assert idle == [name(0, "spot"), name(1, "spot")]
                    with pytest.raises(NoCapacity, match=f"no spot capacity in zone {ZONE}"):
                        await sim.calls.create(CreateRequest(f"{name(3, 'spot')}+1"))
            assert counts == [2, 0, 0]
            await sim.calls.create(CreateRequest(f"{name(3, 'spot')}+1"))

        with_sim(made, scenario)

    def test_a_host_that_goes_while_it_is_joined_fails_the_machine(self) -> None:
        made = dataclasses.replace(spec(), latencies=CLOUD)

        async def scenario(sim: Sim) -> None:
            await sim.calls.create(CreateRequest(name()))
            await asyncio.sleep(200)
            ack = await sim.calls.configure(ConfigureRequest(name(), "web"))
            assert ack.machine.host is not None
            sim.cloud.lose(ack.machine.host.ref)
            await asyncio.sleep(200)
            machine = await sim.calls.get(GetRequest(name()))
            assert machine.state is State.FAILED
            assert "is gone" in machine.last_error

        with_sim(made, scenario)


class Watch:
    """Lists every ten seconds, as somebody who waits for notices does."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self.told: dict[str, list[tuple[float, InterruptionNotice | None]]] = {}
        """By machine: when its notice became another."""

        self.gone: dict[str, float] = {}
        self._notices: Notices = {}
        self._cursor = b""

    async def until(self, end_s: float) -> None:
        while LoopClock().now_s() < end_s:
            await asyncio.sleep(10)
            now_s = LoopClock().now_s()
            batch = await self._sim.provider.list(ListRequest(since=self._cursor))
            before, self._notices = self._notices, known_notices(self._notices, batch)
            self._cursor = batch.cursor
            self.gone |= dict.fromkeys(batch.tombstones, now_s)
            for machine in {*before, *self._notices} - {*batch.tombstones}:
                notice = self._notices.get(machine)
                if before.get(machine) != notice:
                    self.told.setdefault(machine, []).append((now_s, notice))


class TestNotices:
    def test_a_host_is_told_so_long_before_it_is_taken(self) -> None:
        async def scenario(sim: Sim) -> None:
            for number in range(40):
                await created(sim, number, "spot")
            watch = Watch(sim)
            await watch.until(2 * HOUR)
            assert len(watch.gone) > 10
            for machine, gone_s in watch.gone.items():
                ((told_s, notice),) = watch.told[machine]
                assert notice is not None
                assert 105.0 <= notice.at_s - told_s <= 120.0
                assert 0.0 <= gone_s - notice.at_s <= 15.0

        with_sim(
            spec(CapacityType.SPOT, 40), scenario, look_s=5.0, interruptions="10", notice_s="120"
        )

    def test_without_a_notice_a_host_is_taken_without_a_word(self) -> None:
        async def scenario(sim: Sim) -> None:
            for number in range(40):
                await created(sim, number, "spot")
            watch = Watch(sim)
            await watch.until(HOUR)
            assert len(watch.gone) > 10
            assert watch.told == {}

        with_sim(spec(CapacityType.SPOT, 40), scenario, look_s=5.0, interruptions="10")

    def test_who_was_told_is_taken_also_when_interruptions_are_switched_off(self) -> None:
        async def scenario(sim: Sim) -> None:
            for number in range(40):
                await created(sim, number, "spot")
            watch = Watch(sim)
            await watch.until(HOUR)
            sim.change({"interruptions": "0"})
            await watch.until(HOUR + 20)
            told = {*watch.told}
            await watch.until(2 * HOUR)
            assert {*watch.gone} == told != set()

        with_sim(
            spec(CapacityType.SPOT, 40), scenario, look_s=5.0, interruptions="10", notice_s="600"
        )

    def test_a_recording_is_known_beforehand(self) -> None:
        trace = Trace(600.0, (4, 2, 4, 0))
        made = dataclasses.replace(spec(CapacityType.SPOT), traces={ZONE: trace})

        async def scenario(sim: Sim) -> None:
            for number in range(4):
                await created(sim, number, "spot")
                await asyncio.sleep(1)
            watch = Watch(sim)
            await watch.until(2300)
            youngest, oldest = name(3, "spot"), name(0, "spot")
            assert watch.told[youngest][0][1] == InterruptionNotice(
                600.0, "spot capacity is taken back"
            )
            assert 480 <= watch.told[youngest][0][0] <= 500
            assert 600 <= watch.gone[youngest] <= 620
            assert [notice.at_s for _, notice in watch.told[oldest] if notice] == [1800.0]
            assert 1800 <= watch.gone[oldest] <= 1820

        with_sim(made, scenario, look_s=5.0, notice_s="120")

    def test_a_word_is_withdrawn_when_another_host_makes_room(self) -> None:
        trace = Trace(600.0, (4, 3))
        made = dataclasses.replace(spec(CapacityType.SPOT), traces={ZONE: trace})

        async def scenario(sim: Sim) -> None:
            for number in range(4):
                await created(sim, number, "spot")
                await asyncio.sleep(1)
            watch = Watch(sim)
            await watch.until(500)
            await sim.calls.delete(DeleteRequest(name(0, "spot")))
            await watch.until(700)
            told = watch.told[name(3, "spot")]
            assert [notice.at_s if notice else None for _, notice in told] == [600.0, None]
            assert watch.gone == {}

        with_sim(made, scenario, look_s=5.0, notice_s="120")

    def test_the_cloud_keeps_its_word_when_a_younger_host_comes(self) -> None:
        trace = Trace(600.0, (4, 2))
        made = dataclasses.replace(spec(CapacityType.SPOT), traces={ZONE: trace})

        async def scenario(sim: Sim) -> None:
            for number in range(3):
                await created(sim, number, "spot")
                await asyncio.sleep(1)
            watch = Watch(sim)
            await watch.until(500)
            await created(sim, 3, "spot")
            await sim.calls.delete(DeleteRequest(name(0, "spot")))
            await watch.until(700)
            assert {*watch.told} == {*watch.gone} == {name(2, "spot")}
            assert len(watch.told[name(2, "spot")]) == 1

        with_sim(made, scenario, look_s=5.0, notice_s="120")

    def test_the_next_host_of_a_slot_is_not_the_one_that_was_told(self) -> None:
        async def scenario(sim: Sim) -> None:
            for number in range(40):
                await created(sim, number, "spot")
            await asyncio.sleep(HOUR)
            told = min((await sim.calls.list(ListRequest())).notices)
            await sim.calls.delete(DeleteRequest(told))
            await asyncio.sleep(1)
            await sim.calls.create(CreateRequest(told))
            await asyncio.sleep(1)
            await sim.server.reconcile()
            assert (await sim.calls.get(GetRequest(told))).state is State.IDLE
            assert told not in (await sim.calls.list(ListRequest())).notices

        with_sim(spec(CapacityType.SPOT, 40), scenario, interruptions="20", notice_s="7200")

    def test_a_long_notice_sees_no_further_than_one_round_of_the_recording(self) -> None:
        trace = Trace(600.0, (4, 2, 4, 0))

        assert list(trace.ticks(100.0, 1200.0)) == [600.0, 1200.0]
        assert list(trace.ticks(600.0, 1e12)) == [1200.0, 1800.0, 2400.0, 3000.0]

    def test_a_hole_in_a_list_holds_no_notice(self) -> None:
        async def scenario(sim: Sim) -> None:
            for number in range(40):
                await created(sim, number, "spot")
            await asyncio.sleep(HOUR)
            whole = await sim.server.list(ListRequest())
            holed = await sim.calls.list(ListRequest())
            assert len(holed.machines) < len(whole.machines)
            assert holed.notices.keys() < whole.notices.keys()
            assert holed.notices.keys() <= {machine.id for machine in holed.machines}

        with_sim(
            spec(CapacityType.SPOT, 40), scenario,
            interruptions="20", notice_s="7200", partial_lists="0.5",
        )  # fmt: skip

    def test_it_declares_that_it_gives_notice(self) -> None:
        async def scenario(sim: Sim) -> None:
            assert sim.calls.capabilities.notices

        with_sim(spec(), scenario)


class TestLine:
    def test_a_partial_list_has_holes_and_nothing_is_lost(self) -> None:
        async def scenario(sim: Sim) -> None:
            seen = len((await sim.calls.list(ListRequest())).machines)
            assert 30 <= seen <= 70
            sim.change({"partial_lists": "0"})
            assert len((await sim.calls.list(ListRequest())).machines) == 100

        with_sim(spec(slots=100), scenario, partial_lists="0.5")

    def test_a_stale_list_shows_an_earlier_time(self) -> None:
        async def scenario(sim: Sim) -> None:
            before = await sim.calls.list(ListRequest())
            await created(sim)
            assert await sim.calls.list(ListRequest()) == before
            delta = await sim.calls.list(ListRequest(since=before.cursor))
            assert (delta.machines, delta.cursor) == ([], before.cursor)
            sim.change({"stale_lists": "0"})
            assert len((await sim.calls.list(ListRequest(since=before.cursor))).machines) == 1

        with_sim(spec(), scenario, stale_lists="1")

    def test_a_duplicate_ack_is_the_one_before(self) -> None:
        async def scenario(sim: Sim) -> None:
            first = await created(sim)
            again = await sim.calls.configure(ConfigureRequest(name(), "web"))
            assert again == first
            assert (await sim.calls.get(GetRequest(name()))).state is not State.IDLE

        with_sim(spec(), scenario, duplicate_acks="1")

    def test_late_acks_overtake_each_other(self) -> None:
        order: list[int] = []

        async def call(sim: Sim, number: int) -> None:
            await sim.calls.create(CreateRequest(name(number)))
            order.append(number)

        async def scenario(sim: Sim) -> None:
            async with asyncio.TaskGroup() as tasks:
                for number in range(10):
                    tasks.create_task(call(sim, number))

        with_sim(spec(slots=10), scenario, late_acks_s="5")

        assert sorted(order) == [*range(10)]
        assert order != sorted(order)

    def test_a_lost_ack_was_carried_out(self) -> None:
        async def scenario(sim: Sim) -> None:
            with pytest.raises(Unavailable, match="no answer"):
                await sim.calls.create(CreateRequest(name()))
            assert (await sim.calls.get(GetRequest(name()))).state is not State.SPECULATIVE

        with_sim(spec(), scenario, lost_acks="1")

    def test_a_state_no_step_leads_to_is_only_shown_in_the_name_of_a_fault(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            await sim.calls.configure(ConfigureRequest(name(), "web"))
            await asyncio.sleep(1)
            machine = await sim.invent(name(), State.FAILED, why="pulled the plug")
            assert (machine.state, machine.last_error) == (State.FAILED, "pulled the plug")
            assert struck(sim, "invented_state") == 1

        with_sim(spec(), scenario)

    def test_a_step_that_was_overtaken_by_a_fault_changes_nothing_when_it_ends(self) -> None:
        made = dataclasses.replace(spec(), latencies=CLOUD)

        async def scenario(sim: Sim) -> None:
            await sim.calls.create(CreateRequest(name()))
            await asyncio.sleep(1)
            failed = await sim.invent(name(), State.FAILED, why="pulled the plug")
            await asyncio.sleep(250)
            assert await sim.calls.get(GetRequest(name())) == failed
            ended = sim.server.metrics.registry.get_sample_value(
                "mainstay_provider_steps_total", {"call": "create", "end": "overtaken"}
            )
            assert ended == 1.0

        with_sim(made, scenario)


class TestFaultSettings:
    @pytest.mark.parametrize(
        ("setting", "text", "why"),
        [
            ("earthquakes", "1", "no such fault: earthquakes"),
            ("partial_lists", "1.5", "partial_lists must be within 0 and 1: 1.5"),
            ("slowness", "inf", "slowness must be within"),
            ("calls_per_s", "many", "'many'"),
            ("stock_outs", "m5.large", "such as g5.xlarge/use1-az2"),
            ("quotas", "m5.large=-1", "zero or more: -1"),
            ("quotas", "m5.large=x", "such as p5"),
            ("failures", "get=0.5", "such as create=0.1"),
            ("failures", "create=2", "failures of create must be"),
        ],
    )
    def test_a_wrong_setting_is_refused_by_name_and_changes_nothing(
        self, setting: str, text: str, why: str
    ) -> None:
        async def scenario(sim: Sim) -> None:
            before = sim.cloud.faults
            with pytest.raises(MainstayError, match=why):
                sim.change({"lost_acks": "1", setting: text})
            assert sim.cloud.faults == before

        with_sim(spec(), scenario)


class TestSelectors:
    """Clusters named for a fault, as the conformance suite of BigFleet asks for them."""

    @pytest.mark.parametrize(
        ("cluster", "error"),
        [
            ("fault-error", "configure: simulated fault: fault-error"),
            ("fault-timeout", "configure: timed out after 2 s"),
            ("fault-slow-ok", "configure: timed out after 2 s"),
            ("fault-readiness-block", "configure: timed out after 2 s"),
        ],
    )
    def test_a_cluster_gets_the_fault_it_is_named_for(self, cluster: str, error: str) -> None:
        made = dataclasses.replace(spec(), selectors=True)

        async def scenario() -> None:
            limits = dict.fromkeys(CLOUD, 2.0)
            options = Options(step_timeouts_s=limits)
            async with simulated(made, LoopClock(), options=options) as sim:
                await created(sim)
                await sim.calls.configure(ConfigureRequest(name(), cluster))
                await asyncio.sleep(60)
                machine = await sim.calls.get(GetRequest(name()))
                assert (machine.state, machine.last_error) == (State.FAILED, error)

        run(scenario())

    def test_without_selectors_it_is_a_name_like_any_other(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            await sim.calls.configure(ConfigureRequest(name(), "fault-error"))
            await asyncio.sleep(1)
            assert (await sim.calls.get(GetRequest(name()))).state is State.CONFIGURED

        with_sim(spec(), scenario)


class TestMoney:
    def test_the_bill_is_right_to_the_cent(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            await asyncio.sleep(10 * HOUR)
            assert sim.cloud.bill.total_cents(now_s=LoopClock().now_s()) == 96
            await sim.calls.delete(DeleteRequest(name()))
            await asyncio.sleep(10 * HOUR)
            assert sim.cloud.bill.total_cents(now_s=LoopClock().now_s()) == 96

        with_sim(spec(), scenario)

    def test_whoever_looks_sees_what_all_hosts_have_cost(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim)
            await asyncio.sleep(10 * HOUR)
            text = generate_latest(sim.server.metrics.registry).decode()
            assert "mainstay_provider_billed_dollars 0.96" in text

        with_sim(spec(), scenario)

    def test_an_end_that_only_the_bill_knows_of_has_been_one_after_a_restart(
        self, tmp_path: Path
    ) -> None:
        async def life(*, lose: bool) -> State:
            store, bill = SqliteStore(tmp_path / "sim.db"), read_bill(tmp_path / "bill")
            try:
                async with simulated(spec(), LoopClock(), store=store, bill=bill) as sim:
                    if lose:
                        await created(sim)
                        sim.cloud.lose(next(iter(bill.lines)))
                        return State.IDLE  # nothing has looked at the hardware since
                    return (await sim.calls.get(GetRequest(f"{name()}+1"))).state
            finally:
                store.close()

        assert asyncio.run(life(lose=True)) is State.IDLE
        assert asyncio.run(life(lose=False)) is State.SPECULATIVE
        (line,) = read_bill(tmp_path / "bill").lines.values()
        assert line.until_s is not None

    def test_a_host_whose_slot_is_no_longer_there_is_no_longer_paid_for(
        self, tmp_path: Path
    ) -> None:
        async def life(slots: int) -> list[str]:
            store, bill = SqliteStore(tmp_path / "sim.db"), read_bill(tmp_path / "bill")
            made = spec(CapacityType.BARE_METAL, slots)
            try:
                async with simulated(made, LoopClock(), store=store, bill=bill):
                    running = [each for each in bill.lines.values() if each.until_s is None]
                    return [each.machine for each in running]
            finally:
                store.close()

        assert len(asyncio.run(life(4))) == 4
        assert asyncio.run(life(2)) == [name(0, "metal"), name(1, "metal")]

    def test_spot_prices_drift_and_show_and_the_bill_follows(self) -> None:
        async def scenario(sim: Sim) -> None:
            await created(sim, 0, "spot")
            start = (await sim.calls.list(ListRequest())).cursor
            await asyncio.sleep(100 * HOUR)
            changed = (await sim.calls.list(ListRequest(since=start))).machines
            prices = {machine.price_per_hour for machine in changed}
            assert len(changed) == 4
            assert len(prices) == 1
            assert prices != {0.043}
            flat = round(0.043 * 100 * 100)
            assert sim.cloud.bill.total_cents(now_s=LoopClock().now_s()) != flat

        with_sim(spec(CapacityType.SPOT), scenario, price_drift="0.2", look_s=600.0)

    def test_on_demand_prices_stand(self) -> None:
        async def scenario(sim: Sim) -> None:
            start = (await sim.calls.list(ListRequest())).cursor
            await asyncio.sleep(10 * HOUR)
            assert (await sim.calls.list(ListRequest(since=start))).machines == []

        with_sim(spec(), scenario, price_drift="0.2")


def test_what_happened_is_counted() -> None:
    async def scenario(sim: Sim) -> None:
        await created(sim)
        with pytest.raises(MainstayError):
            await sim.calls.get(GetRequest("ghost"))
        await asyncio.sleep(1)
        shown = generate_latest(sim.server.metrics.registry).decode()
        for line in (
            'mainstay_provider_calls_total{call="create",status="OK"} 1.0',
            'mainstay_provider_calls_total{call="get",status="NOT_FOUND"} 1.0',
            'mainstay_provider_steps_total{call="create",end="done"} 1.0',
            'mainstay_provider_machines_count{state="Idle"} 1.0',
            'mainstay_provider_machines_count{state="Speculative"} 3.0',
            'mainstay_provider_reconcile_total{found="added"} 4.0',
        ):
            assert line in shown

    with_sim(spec(), scenario)
