"""The hardware is looked at: what is new, what changed, what vanished, what is refused."""

import asyncio
import dataclasses

import pytest
from typing_extensions import override

from hardware import ON_DEMAND, Hardware, a_slot, configured, ids, serving, state_of
from mainstay.model.calls import CreateRequest, GetRequest, ListRequest
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.profile import CapacityType, Profile
from mainstay.model.state import State
from mainstay.providers.kit.backend import Job, Slot
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from virtual_loop import run


def test_a_new_slot_is_taken_in() -> None:
    hardware = Hardware(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            hardware.there["m-2"] = a_slot("m-2", host="h-2")
            await asyncio.sleep(31)
            assert await state_of(server, "m-2") is State.IDLE

    run(scenario())


def test_declared_facts_are_refreshed_and_states_are_not() -> None:
    hardware = Hardware(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            await configured(server)
            before = await server.list(ListRequest())
            there = hardware.there["m-1"]
            hardware.there["m-1"] = dataclasses.replace(there, price_per_hour=9.0)
            await server.reconcile()
            delta = await server.list(ListRequest(since=before.cursor))
            assert [(m.price_per_hour, m.state) for m in delta.machines] == [
                (9.0, State.CONFIGURED)
            ]

    run(scenario())


@pytest.mark.parametrize("bound", [False, True])
def test_a_machine_whose_host_vanished_is_removed_and_its_slot_comes_back_under_a_new_id(
    bound: bool,
) -> None:
    hardware = Hardware(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            if bound:
                await configured(server)
            else:
                await server.create(CreateRequest("m-1"))
                await asyncio.sleep(2)
            before = await server.list(ListRequest())
            hardware.there["m-1"] = a_slot()
            hardware.changed()
            await asyncio.sleep(0.1)
            delta = await server.list(ListRequest(since=before.cursor))
            assert delta.tombstones == ("m-1",)
            assert [(m.id, m.state) for m in delta.machines] == [("m-1+1", State.SPECULATIVE)]
            await configured(server, "m-1+1")

    run(scenario())


def test_a_partial_list_loses_nothing() -> None:
    hardware = Hardware(a_slot("m-1"), a_slot("m-2"))

    async def scenario() -> None:
        async with serving(hardware) as server:
            hardware.hidden = {"m-1"}
            report = await server.reconcile()
            assert (report.lost, await ids(server)) == ([], ["m-1", "m-2"])

    run(scenario())


def test_what_cannot_be_told_is_not_taken_for_a_loss() -> None:
    class Mute(Hardware):
        @override
        async def describe(self, job: Job) -> bool:
            raise Unavailable("no answer")

    hardware = Mute(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            hardware.there.clear()
            assert (await server.reconcile()).lost == []

    run(scenario())


def test_a_machine_that_changed_while_the_hardware_was_read_is_left_for_the_next_look() -> None:
    class Slow(Hardware):
        asked = 0

        @override
        async def slots(self) -> list[Slot]:
            told = [*await super().slots()]
            await asyncio.sleep(5)
            return told

        @override
        async def describe(self, job: Job) -> bool:
            self.asked += 1
            return await super().describe(job)

    hardware = Slow(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            await server.create(CreateRequest("m-1"))
            report = await server.reconcile()
            assert (report.lost, hardware.asked) == ([], 0)
            assert await state_of(server) is State.IDLE

    run(scenario())


def test_a_machine_at_work_is_not_found_missing() -> None:
    hardware = Hardware(a_slot(), delay_s=100)

    async def scenario() -> None:
        async with serving(hardware) as server:
            await server.create(CreateRequest("m-1"))
            hardware.there.clear()
            assert (await server.reconcile()).lost == []

    run(scenario())


BAD = [
    (a_slot(""), "not a machine id"),
    (a_slot(profile=Profile("", "z", CapacityType.ON_DEMAND)), "no instance type"),
    (a_slot(profile=Profile("t", "z")), "no capacity type"),
    (a_slot(profile=Profile("t", "", CapacityType.ON_DEMAND)), "no zone"),
    (a_slot(profile=dataclasses.replace(ON_DEMAND, capacity_type=CapacityType.SPOT)), "above 0"),
    (a_slot(profile=dataclasses.replace(ON_DEMAND, labels=(("zone", "z"),))), "label 'zone'"),
    (a_slot(price_per_hour=float("nan")), "price_per_hour"),
    (a_slot(interruption_probability=1.5), "interruption_probability"),
]


@pytest.mark.parametrize(("slot", "why"), BAD)
def test_a_slot_that_breaks_a_rule_stops_the_start_and_is_skipped_later(
    slot: Slot, why: str
) -> None:
    async def at_start() -> None:
        async with serving(Hardware(slot)):
            pass

    async def later() -> None:
        hardware = Hardware(a_slot("good"))
        async with serving(hardware) as server:
            hardware.there[slot.name] = slot
            report = await server.reconcile()
            assert len(report.refused) == 1
            assert await ids(server) == ["good"]

    with pytest.raises(Rejected, match=why):
        run(at_start())
    run(later())


def test_a_bad_record_of_a_known_machine_is_no_absence() -> None:
    hardware = Hardware(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            hardware.there["m-1"] = a_slot(price_per_hour=-1.0)
            report = await server.reconcile()
            assert (len(report.refused), report.lost) == (1, [])
            assert (await server.get(GetRequest("m-1"))).price_per_hour == 0.2

    run(scenario())


class Flaky(Hardware):
    """Cannot be seen `blind` times."""

    blind = 0

    @override
    async def slots(self) -> list[Slot]:
        if self.blind > 0:
            self.blind -= 1
            raise Unavailable("the cloud's API is down")
        return [*await super().slots()]


class TestHealth:
    def test_hardware_that_cannot_be_seen_shows_in_health_and_calls_go_on(self) -> None:
        hardware = Flaky(a_slot())

        async def scenario() -> None:
            async with serving(hardware) as server:
                assert server.health.ready
                hardware.blind = 1
                await asyncio.sleep(31)
                assert "the cloud's API is down" in server.health.why
                await server.create(CreateRequest("m-1"))
                await asyncio.sleep(31)
                assert server.health.ready

        run(scenario())

    def test_a_start_waits_for_hardware_that_is_away_for_a_moment(self) -> None:
        hardware = Flaky(a_slot())
        hardware.blind = 3

        async def scenario() -> None:
            async with serving(hardware) as server:
                assert await ids(server) == ["m-1"]

        run(scenario())

    def test_a_start_gives_up_in_the_end_and_says_why(self) -> None:
        hardware = Flaky(a_slot())
        hardware.blind = 1000

        async def scenario() -> None:
            async with serving(hardware, options=Options(start_timeout_s=10.0)):
                pass

        with pytest.raises(Unavailable, match=r"cannot start: .*API is down.*within 10 s"):
            run(scenario())

    def test_a_stopped_provider_answers_nothing(self) -> None:
        async def scenario() -> ProviderServer:
            async with serving(Hardware(a_slot())) as server:
                pass
            with pytest.raises(Unavailable, match="not running"):
                await server.create(CreateRequest("m-1"))
            return server

        assert not run(scenario()).health.ready
