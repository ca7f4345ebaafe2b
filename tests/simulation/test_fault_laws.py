"""The loop of a shard while steps get lost, lists are old, clusters are silent, machines drift."""

from random import Random
from typing import Any, Final

import pytest

import outside
from mainstay.model.machine import Machine
from mainstay.sim.loop import start, step
from mainstay.sim.spec import LoopSpec, replay
from mainstay.sim.world import Loop, machines
from simulation.runs import OWNER, SETTLED, is_at_rest, moves, ran, serving, when

UNRELIABLE: Final[dict[str, Any]] = {"drop_per_mille": 300, "repeat_per_mille": 300}
LAGS: Final = (0, 1, 2)


def since(loop: Loop, cycle: int, name: str) -> int:
    """How many there were from this cycle on."""
    return sum(getattr(stats, name) for stats in loop.history[cycle:])


def facts(machine: Machine) -> tuple[object, ...]:
    """What only the provider knows of a machine."""
    return machine.state, machine.price_per_hour, machine.profile, machine.allocatable


def is_what_the_provider_has(loop: Loop) -> bool:
    ours = {machine.id: facts(machine) for machine in machines(loop.inventory)}
    return ours == {machine.id: facts(machine) for machine in loop.provider.machines()}


class TestLostAndRepeatedSteps:
    @pytest.mark.parametrize("scene", ["plain", "gang"])
    @pytest.mark.parametrize(("create", "configure"), [(0, 0), (0, 2), (3, 0), (3, 2)])
    def test_every_loss_is_made_good_by_one_acquisition(
        self, scene: str, create: int, configure: int
    ) -> None:
        """P3: what is lost is decided again, what comes twice counts once."""
        for lag in LAGS:
            loop = ran(
                scene=scene, cycles=60, losses=6, create_dwell=create, configure_dwell=configure,
                list_lag=lag, **UNRELIABLE,
            )  # fmt: skip

            assert moves(loop) == {"provisions": 6, "bootstraps": 6}, replay(loop.spec)
            assert loop.history[-1].unsatisfied == 0, replay(loop.spec)
            assert loop.total("dropped"), replay(loop.spec)

    @pytest.mark.parametrize("drain", [0, 2, 4])
    def test_a_deficit_takes_as_many_victims(self, drain: int) -> None:
        for lag in LAGS:
            loop = ran(
                scene="victims", cycles=40, drain_dwell=drain, configure_dwell=1, list_lag=lag,
                **UNRELIABLE,
            )  # fmt: skip

            assert moves(loop) == {"preempts": 4, "bootstraps": 4}, replay(loop.spec)

    def test_exactly_the_excess_is_reclaimed(self) -> None:
        for lag in LAGS:
            loop = ran("scale@31:web=50", drain_dwell=1, list_lag=lag, **UNRELIABLE)

            assert moves(loop) == {"reclaims": 5}, replay(loop.spec)

    def test_what_is_lost_every_time_is_decided_every_time(self) -> None:
        loop = ran("scale@5:web=50", cycles=10, drop_per_mille=1000)

        assert [stats.planned for stats in loop.history] == [0] * 5 + [5] * 5
        assert [stats.dropped for stats in loop.history] == [0] * 5 + [5] * 5
        assert moves(loop) == {}
        assert loop.quiet_cycles == 0  # wanting to is not resting

    def test_what_comes_twice_every_time_changes_nothing(self) -> None:
        once, twice = [
            ran("scale@31:web=50", scene="plain", losses=6, repeat_per_mille=repeat)
            for repeat in (0, 1000)
        ]

        assert moves(twice) == moves(once)
        assert serving(twice) == serving(once)


class TestOldLists:
    def test_a_list_undoes_nothing_that_was_begun_after_it_was_made(self) -> None:
        """Of a machine being configured, an old list says that it is Idle: a legal edge."""
        for lag in LAGS:
            loop = ran(scene="cold", create_dwell=2, configure_dwell=3, list_lag=lag)

            assert loop.total("bootstraps") == 14, replay(loop.spec)

    @pytest.mark.parametrize("scene", ["plain", "cold", "random"])
    def test_in_the_end_the_shard_has_what_the_provider_has(self, scene: str) -> None:
        for lag in LAGS:
            loop = ran(scene=scene, losses=6, create_dwell=1, list_lag=lag, cycles=70)

            assert is_what_the_provider_has(loop), replay(loop.spec)


class TestDrift:
    @pytest.mark.parametrize("scene", ["plain", "gang", "mixed", "s79", "s85"])
    @pytest.mark.parametrize("reorders", [False, True])
    def test_whoever_has_what_it_asks_for_is_left_in_peace(
        self, scene: str, reorders: bool
    ) -> None:
        loop = ran(scene=scene, cycles=30, drift_per_mille=200, drift_reorders=reorders)

        assert sum(stats.planned for stats in loop.history) == 0, replay(loop.spec)

    @pytest.mark.parametrize("reorders", [False, True])
    def test_it_is_taken_in_although_no_state_changed(self, reorders: bool) -> None:
        loop = ran(cycles=20, drift_per_mille=300, drift_reorders=reorders)

        pairs = [(m, loop.inventory.machine(m.id)) for m in loop.scene.machines]
        assert is_what_the_provider_has(loop), replay(loop.spec)
        assert all(before.state is after.state for before, after in pairs)
        assert any(before.price_per_hour != after.price_per_hour for before, after in pairs)
        assert any(before.profile.labels != after.profile.labels for before, after in pairs)
        assert any(before.allocatable != after.allocatable for before, after in pairs)

    @pytest.mark.parametrize("seed", range(outside.examples(3)))
    def test_drift_that_keeps_the_order_changes_no_decision(self, seed: int) -> None:
        """P2: the same machines serve in the end as without it."""
        quiet, drifting = [
            ran(scene="cold", seed=seed, cycles=55, create_dwell=2, drift_per_mille=drift)
            for drift in (0, 200)
        ]

        assert is_at_rest(drifting), replay(drifting.spec)
        assert serving(drifting) == serving(quiet), replay(drifting.spec)


class TestRacingRollUps:
    def winners(self, seed: int) -> set[str]:
        """Who was given the contested machine in each cycle; nobody ever gets it."""
        loop = start(LoopSpec(
            seed=seed, cycles=20, scene="contested", racing=True, drop_per_mille=1000
        ))  # fmt: skip
        won = set()
        for _ in range(20):
            step(loop)
            plan = loop.memory.last
            assert plan is not None
            won |= {str(action.cluster) for action in plan.actions}
        assert loop.broken == []
        return won

    def test_s96_the_winner_of_a_contested_machine_never_changes(self) -> None:
        won = [self.winners(seed) for seed in range(8)]

        assert all(len(winners) == 1 for winners in won), won
        assert len(set.union(*won)) == 2  # it is a race: not always the same one wins

    @pytest.mark.parametrize("seed", range(outside.examples(4)))
    def test_nobody_loses_a_machine_to_an_equal(self, seed: int) -> None:
        loop = ran(scene="contested", seed=seed, racing=True, cycles=30)

        assert moves(loop) == {"bootstraps": 1}, replay(loop.spec)

    def test_the_same_demand_comes_to_rest_however_it_is_told(self) -> None:
        for seed in range(4):
            loop = ran(scene="cold", seed=seed, create_dwell=2, racing=True)

            assert is_at_rest(loop), replay(loop.spec)
            assert loop.history[-1].configured == 14, replay(loop.spec)


class TestSilence:
    """A cluster that is not heard from asks for what it asked for last, not for nothing."""

    def test_it_costs_nothing(self) -> None:
        loop = ran("mute@10:web=30")

        assert sum(stats.planned for stats in loop.history) == 0, replay(loop.spec)

    def test_losses_are_made_good_once_meanwhile_and_join_afterwards(self) -> None:
        loop = ran("mute@10:web=10", "lose@12:web=3", create_dwell=1)

        assert moves(loop) == {"provisions": 3, "bootstraps": 3}, replay(loop.spec)
        assert (when(loop, "provisions"), when(loop, "bootstraps")) == ([12], [20])

    def test_others_are_served_meanwhile(self) -> None:
        loop = ran("mute@10:web=30", "lose@12:batch=2")

        assert (when(loop, "provisions"), when(loop, "bootstraps")) == ([12], [13])

    def test_what_it_no_longer_wants_is_reclaimed_when_it_says_so(self) -> None:
        loop = ran("mute@10:web=10", "scale@12:web=50")

        assert moves(loop) == {"reclaims": 5}, replay(loop.spec)
        assert when(loop, "reclaims") == [20], replay(loop.spec)

    @pytest.mark.parametrize("scene", ["plain", "gang"])
    def test_a_restart_meanwhile_takes_nothing_from_it(self, scene: str) -> None:
        owner = OWNER[scene]
        loop = ran(
            f"mute@10:{owner}=20", f"lose@9:{owner}=2",
            scene=scene, restart_at=15, create_dwell=4, configure_dwell=1,
        )  # fmt: skip

        assert moves(loop) == {"provisions": 2, "bootstraps": 2}, replay(loop.spec)
        assert when(loop, "bootstraps") == [30], replay(loop.spec)


AT_REST: Final = 60


class TestRestart:
    """P8. Demand has not changed and the machines are at rest when the shard starts anew."""

    @pytest.mark.parametrize("scene", ["plain", "gang", "mixed", "s79", "s82-serving", "s85"])
    def test_with_the_echo_it_moves_nothing(self, scene: str) -> None:
        loop = ran(scene=scene, cycles=30, restart_at=7)

        assert sum(stats.planned for stats in loop.history) == 0, replay(loop.spec)

    @pytest.mark.parametrize("seed", range(outside.examples(8)))
    def test_with_the_echo_it_moves_nothing_in_any_scene(self, seed: int) -> None:
        loop = ran(scene="random", seed=seed, cycles=AT_REST + 30, losses=4, restart_at=AT_REST)

        assert since(loop, AT_REST - 1, "planned") == 0, replay(loop.spec)

    @pytest.mark.parametrize("seed", range(outside.examples(8)))
    def test_at_any_moment_it_drains_nothing_that_would_not_be_drained(self, seed: int) -> None:
        """Losses, Creates and Configures under way, a list that is old."""
        again = Random(seed).randint(1, 40)
        loop = ran(
            scene=("plain", "gang")[seed % 2], seed=seed, losses=8, restart_at=again,
            create_dwell=3, configure_dwell=2, list_lag=seed % 3, **UNRELIABLE,
        )  # fmt: skip

        assert moves(loop) == {"provisions": 8, "bootstraps": 8}, replay(loop.spec)

    @pytest.mark.parametrize("seed", [0, 1, 8])
    def test_without_any_echo_it_comes_to_rest_again(self, seed: int) -> None:
        loop = ran(scene="random", seed=seed, cycles=AT_REST + 60, restart_at=AT_REST, echo=False)

        assert loop.quiet_cycles >= SETTLED, replay(loop.spec)
        assert since(loop, AT_REST, "provisions") == 0, replay(loop.spec)

    def test_the_echo_is_what_keeps_every_machine_where_it_is(self) -> None:
        told, silent = [
            ran(scene="random", seed=8, cycles=AT_REST + 60, restart_at=AT_REST, echo=echo)
            for echo in (True, False)
        ]

        assert since(told, AT_REST, "reclaims") == 0
        assert since(silent, AT_REST, "reclaims") > 0


class TestReclaimCap:
    """P6: never more than the cap in a cycle (a law of every run), and all of it in the end."""

    @pytest.mark.parametrize("lag", LAGS)
    def test_every_excess_machine_is_reclaimed_in_the_end(self, lag: int) -> None:
        loop = ran(
            "scale@5:web=20", scene="s83", cycles=100, reclaim_cap=True, drain_dwell=2,
            list_lag=lag, **UNRELIABLE,
        )  # fmt: skip

        assert moves(loop) == {"reclaims": 16}, replay(loop.spec)
        assert max(stats.reclaims for stats in loop.history) == 1, replay(loop.spec)
        assert loop.quiet_cycles >= SETTLED, replay(loop.spec)


@pytest.mark.parametrize("seed", range(outside.examples(6)))
def test_any_scene_comes_to_rest_whatever_happens_at_once(seed: int) -> None:
    """P1 in every cycle, P2 in the end."""
    random = Random(seed)
    loop = ran(
        f"mute@{random.randint(1, 20)}:web=9",
        "fail@10=1",
        scene="random",
        seed=seed,
        cycles=100,
        losses=6,
        restart_at=random.randint(1, 40),
        create_dwell=random.randint(0, 3),
        configure_dwell=random.randint(0, 2),
        drain_dwell=random.randint(0, 3),
        list_lag=random.randint(0, 2),
        reclaim_cap=bool(seed % 2),
        racing=True,
        drift_per_mille=100,
        drift_reorders=bool(seed % 3),
        drop_per_mille=150,
        repeat_per_mille=150,
    )

    assert loop.quiet_cycles >= SETTLED // 2, replay(loop.spec)
