"""The closed-loop scenarios of the reference that can be told without pods: S76, S79 to S87."""

from typing import Final

import pytest

from mainstay.model.resources import Units
from mainstay.model.state import State
from mainstay.sim.loop import start, step
from mainstay.sim.reference import REFERENCE_SCENES
from mainstay.sim.spec import LoopSpec, replay
from mainstay.sim.world import Loop, machines
from simulation.runs import moves, ran, when

FIELDS: Final = [name for name in REFERENCE_SCENES if name.startswith("s86-")]


def held(loop: Loop) -> dict[str, int]:
    """How many machines serve each gang."""
    counts: dict[str, int] = {}
    for machine in machines(loop.inventory):
        if machine.state is State.CONFIGURED and machine.assignment.group:
            counts[machine.assignment.group] = counts.get(machine.assignment.group, 0) + 1
    return counts


def shortfalls(spec: LoopSpec, *, last: int) -> list[list[Units]]:
    """What was missing in each of the last cycles of a run without any action in them."""
    loop = start(spec)
    told = []
    for _ in range(spec.cycles):
        stats = step(loop)
        plan = loop.memory.last
        assert plan is not None
        if stats.cycle >= spec.cycles - last:
            assert stats.planned == 0, replay(spec)
            told.append([shortfall.deficit for shortfall in plan.shortfalls])
    assert loop.broken == [], replay(spec)
    assert (loop.total("reclaims"), loop.total("preempts")) == (0, 0), replay(spec)
    return told


def test_s76_two_clusters_of_mixed_demand_settle_on_what_they_ask_for() -> None:
    loop = ran(scene="s76", cycles=300)

    assert loop.quiet_cycles >= 100, replay(loop.spec)
    assert loop.history[-1].configured == 2 * (20 + 5 + 12), replay(loop.spec)
    assert (loop.history[-1].unsatisfied, loop.history[-1].shortfalls) == (0, 0)
    assert moves(loop) == {"bootstraps": 2, "reclaims": 4}, replay(loop.spec)


def test_s79_gangs_that_no_rack_can_hold_are_left_where_they_are() -> None:
    spec = LoopSpec(seed=3, cycles=110, scene="s79")

    told = shortfalls(spec, last=100)

    assert told[0]
    assert told == [told[0]] * 100, replay(spec)


def test_s80_a_gang_too_large_for_any_rack_keeps_what_it_has_and_others_are_served() -> None:
    """The reference fills it up to four; here it is left with the four it has (ADR-0013)."""
    loop = ran(scene="s80", cycles=60)

    assert held(loop) == {"train-0": 4, "train-1": 4, "train-2": 4}, replay(loop.spec)
    assert moves(loop) == {"bootstraps": 8}, replay(loop.spec)
    assert loop.quiet_cycles == 59, replay(loop.spec)
    assert loop.history[-1].unsatisfied == 1, replay(loop.spec)


def test_s81_gangs_that_fit_one_machine_share_it() -> None:
    loop = ran(scene="s81", cycles=60)

    assert moves(loop) == {"bootstraps": 12}, replay(loop.spec)
    assert loop.quiet_cycles == 59, replay(loop.spec)
    assert (loop.history[-1].unsatisfied, loop.history[-1].shortfalls) == (0, 0)


@pytest.mark.parametrize(("scene", "missing"), [("s82-idle", 6 * 12), ("s82-serving", 18 * 8)])
def test_s82_gangs_that_cannot_be_held_move_nothing(scene: str, missing: int) -> None:
    spec = LoopSpec(seed=3, cycles=60, scene=scene)

    told = shortfalls(spec, last=60)

    assert told == [[{"cpu": missing * 8_000}]] * 60, replay(spec)


class TestS83:
    def test_what_is_bound_counts_although_some_pods_wait(self) -> None:
        loop = ran(scene="s83", cycles=60)

        assert moves(loop) == {}, replay(loop.spec)
        assert loop.history[-1].shortfalls == 0, replay(loop.spec)

    def test_half_the_demand_gives_back_half_of_the_machines_once(self) -> None:
        """90 of 180 fillers go, 20 cores of larger ones stay: 55 of a hundred."""
        loop = ran("scale@31:web=55", "scale@31:batch=55", scene="s83", cycles=60)

        assert moves(loop) == {"reclaims": 2 * 9}, replay(loop.spec)
        assert when(loop, "reclaims") == [31], replay(loop.spec)
        assert loop.history[-1].configured == 2 * 11, replay(loop.spec)


class TestS84:
    @pytest.mark.parametrize("create", [0, 1, 2, 3, 5])
    def test_one_loss_is_one_acquisition(self, create: int) -> None:
        loop = ran("lose@30:train=1", scene="gang", cycles=60, create_dwell=create)

        assert moves(loop) == {"provisions": 1, "bootstraps": 1}, replay(loop.spec)
        assert loop.history[-1].shortfalls == 0, replay(loop.spec)

    @pytest.mark.parametrize("create", [0, 2, 4, 6])
    def test_a_burst_is_as_many(self, create: int) -> None:
        loop = ran("lose@30:train=4", scene="gang", cycles=60, create_dwell=create)

        assert moves(loop) == {"provisions": 4, "bootstraps": 4}, replay(loop.spec)

    @pytest.mark.parametrize("create", [0, 3])
    def test_a_loss_in_every_cycle_drains_nothing(self, create: int) -> None:
        losses = [f"lose@{cycle}:train=1" for cycle in range(1, 161)]
        loop = ran(*losses, scene="gang", cycles=180, create_dwell=create)

        assert loop.total("lost") > 100, replay(loop.spec)
        assert loop.total("provisions") == loop.total("lost"), replay(loop.spec)
        assert (loop.total("reclaims"), loop.total("preempts")) == (0, 0), replay(loop.spec)


def test_s85_gangs_that_have_their_racks_stay_there_while_configuring_takes_time() -> None:
    loop = ran(scene="s85", cycles=120, configure_dwell=2)

    assert moves(loop) == {}, replay(loop.spec)


@pytest.mark.parametrize("scene", FIELDS)
def test_s86_two_sorts_of_gangs_come_to_rest_while_their_roll_ups_race(scene: str) -> None:
    loop = ran(scene=scene, cycles=75, racing=True, configure_dwell=1, create_dwell=2)

    assert loop.quiet_cycles >= 60, replay(loop.spec)
    assert (loop.total("reclaims"), loop.total("preempts")) == (0, 0), replay(loop.spec)


class TestS87:
    def test_what_was_bought_for_a_peak_is_given_back(self) -> None:
        loop = ran("scale@10:web=60", scene="s87", cycles=130)

        assert moves(loop) == {
            "bootstraps": 3 + 5, "provisions": 5, "reclaims": 8, "deletes": 5,
        }, replay(loop.spec)  # fmt: skip
        assert when(loop, "reclaims") == [10], replay(loop.spec)
        assert min(when(loop, "deletes")) > 10, replay(loop.spec)
        assert loop.quiet_cycles >= 40, replay(loop.spec)
        assert {m.profile.capacity_type.name for m in machines(loop.inventory)
                if m.state is State.IDLE} == {"BARE_METAL"}  # fmt: skip

    def test_what_nobody_asks_for_is_given_back_and_nothing_is_bought(self) -> None:
        loop = ran(scene="surplus", cycles=120)

        assert moves(loop) == {"deletes": 6}, replay(loop.spec)
