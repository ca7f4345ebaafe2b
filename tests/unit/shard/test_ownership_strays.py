"""What a shard has outside its domains: noticed, counted, told, and let go of in that order."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainstay.model.coordination import AssignDomain, Domain, Instruction, Outcome
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.shard.controls import ControlKind
from mainstay.shard.events import Event
from mainstay.shard.ownership import report, strays
from mainstay.uplink.side import LiveSide
from talking import at_once
from two_shards import three_zones, zone
from virtual_loop import LoopClock, run
from whole_shard import Cluster, Whole, running, sims

TWO_ZONES = (f"{ZONE_KEY}=zone-a", f"{ZONE_KEY}=zone-b")
ZONE_A, ZONE_C, ZONE_D = zone("zone-a"), zone("zone-c"), zone("zone-d")
Scenario = Callable[[Whole, Cluster], Awaitable[None]]


def play(folder: Path, scenario: Scenario, *, machines: int = 0, idle: int = 2) -> None:
    """With a shard of two zones, and a cluster that asks for so many machines."""

    async def story() -> None:
        async with (
            sims(three_zones(idle=idle, slots=0)) as providers,
            running(folder, providers, shard_id="a", domains=TWO_ZONES) as whole,
            whole.cluster() as web,
        ):
            web.ask_for(machines)
            await asyncio.sleep(40)
            assert len(whole.machines(State.CONFIGURED)) == machines
            await scenario(whole, web)

    run(story())


def put(whole: Whole, machine: Machine) -> None:
    inventory = whole.assembled.live.inventory
    inventory.remove(machine.id)
    inventory.add(machine, now=0.0, source="sim")


def relabelled(whole: Whole, zone_name: str, *names: str) -> None:
    """What its provider says of some machines, or of all."""
    for machine in whole.machines():
        if not names or machine.id in names:
            profile = dataclasses.replace(machine.profile, zone=zone_name)
            put(whole, dataclasses.replace(machine, profile=profile))


def here(whole: Whole) -> dict[MachineId, Domain | None]:
    return {name: each.domain for name, each in whole.assembled.holder.owned.here.items()}


def first(whole: Whole, *states: State) -> MachineId:
    return min(each.id for each in whole.machines(*states))


class TestWhatIsNoticed:
    def test_which_shapes_lie_outside_is_worked_out_once_while_none_is_new(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worked = []
        outside = strays._outside

        def counted(*given: object) -> object:
            worked.append(given)
            return outside(*given)  # type: ignore[arg-type]

        async def scenario(whole: Whole, web: Cluster) -> None:
            relabelled(whole, "zone-c", first(whole))
            await whole.assembled.holder.sweep(told=frozenset())
            before, seen = len(worked), set()
            for machines in (1, 2, 3):
                web.ask_for(machines)
                await asyncio.sleep(20)
                await whole.assembled.holder.sweep(told=frozenset())
                seen.add(whole.assembled.live.inventory.snapshot().revision)
            assert (before, len(worked), len(seen)) == (1, 1, 3)

        monkeypatch.setattr(strays, "_outside", counted)
        play(tmp_path, scenario)

    @pytest.mark.parametrize("limit", ["NAMED_MAX", "NAMED_BYTES_MAX"])
    def test_of_more_than_can_be_reported_the_first_stray_and_that_is_told_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder = whole.assembled.holder
            names = sorted(each.id for each in whole.machines())
            size = sum(len(name) + len("sim") + 16 + len(ZONE_KEY) + 6 for name in names[:3])
            monkeypatch.setattr(report, limit, 3 if limit == "NAMED_MAX" else size)
            relabelled(whole, "zone-c")
            for _again in range(3):
                await holder.sweep(told=frozenset())
                put(whole, whole.machine(names[-1]))
            assert here(whole) == dict.fromkeys(names[:3], ZONE_C)
            assert len(whole.journal.of(Event.STRAYS_NOT_TOLD)) == 1
            assert whole.metric("mainstay_shard_strays_not_told_total") == len(names) - 3

        play(tmp_path, scenario, idle=4)

    def test_the_others_follow_as_room_appears(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder = whole.assembled.holder
            names = sorted(each.id for each in whole.machines())
            monkeypatch.setattr(report, "NAMED_MAX", 1)
            relabelled(whole, "zone-c")
            went: list[str] = []
            for _name in names:
                await holder.sweep(told=frozenset())
                went += here(whole)
                await holder.sweep(told=frozenset(here(whole).items()))
            assert went == names
            assert whole.machines() == []
            assert len(whole.journal.of(Event.STRAYS_NOT_TOLD)) == 1

        play(tmp_path, scenario)


class TestWhatWasTold:
    def test_a_stray_that_moves_again_stays_until_somebody_hears_where_it_lies(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder, name = whole.assembled.holder, first(whole)
            relabelled(whole, "zone-c", name)
            await holder.sweep(told=frozenset())
            relabelled(whole, "zone-d", name)
            await holder.sweep(told=frozenset({(name, ZONE_C)}))
            assert here(whole) == {name: ZONE_D}
            await holder.sweep(told=frozenset({(name, ZONE_D)}))
            assert here(whole) == {}

        play(tmp_path, scenario)

    def test_what_a_report_named_is_told_with_where_it_lay(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            side = LiveSide(
                live=whole.assembled.live,
                holder=whole.assembled.holder,
                quota=whole.assembled.quota,
                address="a:1",
                providers={"sim": "there:1"},
                clock=LoopClock(),
                aside=at_once,
            )
            name = first(whole)
            relabelled(whole, "zone-c", name)
            await side.sweep()
            side.report(await side.measured())
            await side.hear_grants(())
            relabelled(whole, "zone-d", name)
            await side.sweep()
            assert here(whole) == {name: ZONE_D}
            side.report(await side.measured())
            await side.hear_grants(())
            await side.sweep()
            assert here(whole) == {}

        play(tmp_path, scenario)


class TestWhoseItServes:
    """Another shard has a machine of our domain: whom it serves says whether it goes at once."""

    async def away(self, whole: Whole, name: MachineId) -> None:
        """Its domain is assigned once more, with the machine that another shard has."""
        payload = AssignDomain(domain=zone(whole.machine(name).profile.zone), away=(name,))
        told = Instruction(term=1, sequence=1, id="again", payload=payload)
        ack = await whole.assembled.holder.carry_out(told)
        assert ack is not None
        assert ack.outcome is Outcome.ACCEPTED
        published = whole.assembled.live.published
        assert published is not None

    def test_one_of_a_cluster_that_asks_for_nothing_now_stays(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            await whole.assembled.live.set_control(
                ControlKind.PAUSE, cluster=None, value=0, reason="a test", by="me", lasts_s=900
            )
            web.ask_for(0)
            await asyncio.sleep(60)
            name = first(whole, State.CONFIGURED)
            await self.away(whole, name)
            assert name in here(whole)
            assert whole.machine(name).cluster == "web"

        play(tmp_path, scenario, machines=1)

    def test_one_of_a_cluster_that_has_not_come_back_after_a_restart_stays(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(three_zones(idle=2, slots=0)) as providers:
                settings = {"shard_id": "a", "domains": TWO_ZONES}
                async with running(tmp_path, providers, **settings) as whole:
                    async with whole.cluster() as web:
                        web.ask_for(1)
                        await asyncio.sleep(40)
                async with running(tmp_path, providers, **settings) as whole:
                    await asyncio.sleep(20)
                    await whole.assembled.holder.sweep()
                    name = first(whole, State.CONFIGURED)
                    await self.away(whole, name)
                    assert name in here(whole)

        run(scenario())

    def test_one_of_a_cluster_that_nobody_here_knows_goes(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await whole.assembled.holder.sweep()
            name = first(whole, State.CONFIGURED)
            put(whole, dataclasses.replace(whole.machine(name), cluster=ClusterId("theirs")))
            await self.away(whole, name)
            assert here(whole) == {}
            assert name not in whole.assembled.live.inventory

        play(tmp_path, scenario, machines=1)

    def test_to_know_it_no_need_is_made_on_the_event_loop(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await whole.assembled.holder.sweep()
            published = whole.assembled.live.published
            assert published is not None
            vars(published.plan).pop("needs", None)
            await self.away(whole, first(whole, State.CONFIGURED))
            assert "needs" not in vars(published.plan)

        play(tmp_path, scenario, machines=1)
