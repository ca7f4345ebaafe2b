"""The loop of a shard at every dwell: safety while things go wrong, rest once they stop."""

import itertools
from random import Random
from typing import Final

import pytest

import outside
from mainstay.sim.loop import start, step
from mainstay.sim.spec import LoopSpec, replay
from mainstay.sim.world import machines
from simulation.runs import OWNER, SETTLED, is_at_rest, moves, ran, serving, when

DWELLS: Final = (0, 1, 3)
LAGS: Final = (0, 1, 2)


class TestRest:
    @pytest.mark.parametrize("create", DWELLS)
    @pytest.mark.parametrize("configure", DWELLS)
    def test_constant_demand_that_can_be_met_comes_to_rest(
        self, create: int, configure: int
    ) -> None:
        for drain, lag in itertools.product(DWELLS, LAGS):
            loop = ran(
                scene="cold",
                cycles=70,
                create_dwell=create,
                configure_dwell=configure,
                drain_dwell=drain,
                list_lag=lag,
            )

            assert is_at_rest(loop), replay(loop.spec)
            assert loop.history[-1].configured == 14, replay(loop.spec)

    @pytest.mark.parametrize("scene", ["plain", "gang"])
    def test_whoever_has_what_it_asks_for_is_left_in_peace(self, scene: str) -> None:
        loop = ran(scene=scene)

        assert moves(loop) == {}, replay(loop.spec)

    @pytest.mark.parametrize("seed", range(outside.examples(20)))
    def test_any_scene_comes_to_rest_once_losses_stop(self, seed: int) -> None:
        """Whether or not its demand can be met."""
        dwells = dict(zip(("create_dwell", "drain_dwell"), divmod(seed, 3), strict=True))
        dwells["create_dwell"] %= 4

        loop = ran(scene="random", seed=seed, cycles=120, losses=6, list_lag=seed % 3, **dwells)

        assert loop.quiet_cycles >= SETTLED, replay(loop.spec)

    def test_what_nobody_asks_for_is_given_back_once(self) -> None:
        loop = ran(scene="surplus", cycles=120)

        assert moves(loop) == {"deletes": 6}, replay(loop.spec)
        assert when(loop, "deletes") == [60], replay(loop.spec)  # six hundred seconds


@pytest.mark.parametrize("scene", ["plain", "gang"])
@pytest.mark.parametrize("create", [0, 3, 6])
class TestSeed003:
    """How long a Create takes must not change how many machines are bought."""

    def test_every_loss_is_made_good_by_one_acquisition(self, scene: str, create: int) -> None:
        for lag in LAGS:
            loop = ran(scene=scene, create_dwell=create, losses=10, list_lag=lag)

            assert loop.total("lost") == 10, replay(loop.spec)
            assert moves(loop) == {"provisions": 10, "bootstraps": 10}, replay(loop.spec)
            assert loop.history[-1].unsatisfied == 0, replay(loop.spec)

    def test_the_losses_are_those_of_the_seed(self, scene: str, create: int) -> None:
        lost = [stats.lost for stats in ran(scene=scene, create_dwell=create, losses=10).history]

        assert lost == [stats.lost for stats in ran(scene=scene, losses=10).history]

    def test_a_failed_create_is_made_good_as_soon_as_it_is_known(
        self, scene: str, create: int
    ) -> None:
        loop = ran(f"lose@5:{OWNER[scene]}=1", "fail@5=1", scene=scene, create_dwell=create)

        assert moves(loop) == {"provisions": 2, "bootstraps": 1}, replay(loop.spec)
        assert when(loop, "provisions") == [5, 5 + 1 + create], replay(loop.spec)
        assert when(loop, "failed") == [5 + 1 + create], replay(loop.spec)
        assert loop.history[-1].unsatisfied == 0, replay(loop.spec)

    def test_s84_a_burst_of_losses_is_made_good_one_by_one(self, scene: str, create: int) -> None:
        loop = ran(f"lose@30:{OWNER[scene]}=4", scene=scene, create_dwell=create)

        assert moves(loop) == {"provisions": 4, "bootstraps": 4}, replay(loop.spec)
        assert when(loop, "provisions") == [30], replay(loop.spec)


class TestPreemption:
    def test_s57_victims_drain_and_then_serve_the_more_important(self) -> None:
        loop = ran(scene="inversion")

        assert moves(loop) == {"preempts": 4, "bootstraps": 4}, replay(loop.spec)
        assert when(loop, "preempts") == [0], replay(loop.spec)
        assert when(loop, "bootstraps") == [1], replay(loop.spec)
        assert {m.cluster for m in machines(loop.inventory)} == {"train"}
        assert loop.history[-1].unsatisfied == 1, replay(loop.spec)  # batch

    @pytest.mark.parametrize("drain", range(6))
    @pytest.mark.parametrize("missing", [1, 2, 4])
    def test_s90_a_deficit_takes_as_many_victims_however_long_they_drain(
        self, missing: int, drain: int
    ) -> None:
        for lag in LAGS:
            loop = ran(
                f"scale@0:train={25 * missing}",
                scene="victims",
                cycles=30,
                drain_dwell=drain,
                configure_dwell=1,
                list_lag=lag,
            )

            assert moves(loop) == {"preempts": missing, "bootstraps": missing}, replay(loop.spec)


class TestRelease:
    @pytest.mark.parametrize("drain", DWELLS)
    def test_s83_exactly_the_excess_is_reclaimed_and_only_once(self, drain: int) -> None:
        loop = ran("scale@31:web=50", drain_dwell=drain)

        assert moves(loop) == {"reclaims": 5}, replay(loop.spec)
        assert when(loop, "reclaims") == [31], replay(loop.spec)
        assert loop.history[-1].configured == 11, replay(loop.spec)

    @pytest.mark.parametrize("drain", DWELLS)
    def test_what_the_cap_defers_rolls_over_to_the_same_end(self, drain: int) -> None:
        capped = ran("scale@31:web=50", drain_dwell=drain, reclaim_cap=True)

        assert moves(capped) == {"reclaims": 5}, replay(capped.spec)
        assert when(capped, "reclaims") == [31, 32, 33, 34, 35], replay(capped.spec)
        assert [s.deferred for s in capped.history[31:36]] == [4, 3, 2, 1, 0], replay(capped.spec)
        assert serving(capped) == serving(ran("scale@31:web=50", drain_dwell=drain))

    def test_demand_that_comes_back_is_met_from_what_was_given_up(self) -> None:
        loop = ran("scale@10:web=50", "scale@20:web=100")

        assert moves(loop) == {"reclaims": 5, "bootstraps": 5}, replay(loop.spec)


@pytest.mark.parametrize("scene", ["plain", "gang"])
class TestRestart:
    @pytest.mark.parametrize("seed", range(outside.examples(8)))
    def test_with_the_echo_it_costs_nothing(self, scene: str, seed: int) -> None:
        again = Random(seed).randint(1, 40)

        loop = ran(
            scene=scene, seed=seed, losses=10, create_dwell=4, configure_dwell=1, restart_at=again
        )

        assert moves(loop) == {"provisions": 10, "bootstraps": 10}, replay(loop.spec)

    @pytest.mark.parametrize("seed", range(outside.examples(8)))
    def test_without_it_at_most_what_was_being_created_is_bought_again(
        self, scene: str, seed: int
    ) -> None:
        again = Random(seed).randint(1, 40)

        loop = ran(
            scene=scene, seed=seed, losses=10, create_dwell=4, restart_at=again, echo_create=False
        )

        creating = loop.history[again - 1].creating
        assert 10 <= loop.total("provisions") <= 10 + creating, replay(loop.spec)
        assert moves(loop).keys() == {"provisions", "bootstraps"}, replay(loop.spec)

    @pytest.mark.parametrize(("echo", "bought"), [(True, 3), (False, 6)])
    def test_the_echo_is_what_saves_it(self, scene: str, echo: bool, bought: int) -> None:
        loop = ran(
            f"lose@10:{OWNER[scene]}=3",
            scene=scene, create_dwell=6, restart_at=13, echo_create=echo,
        )  # fmt: skip

        assert moves(loop) == {"provisions": bought, "bootstraps": 3}, replay(loop.spec)

    def test_nothing_is_done_before_a_cluster_is_heard(self, scene: str) -> None:
        loop = start(LoopSpec(seed=3, cycles=4, scene=scene, restart_at=2))

        heard = [(step(loop).actions, bool(loop.demand.heard)) for _ in range(4)]

        assert heard == [(0, True), (0, True), (0, False), (0, True)], replay(loop.spec)


@pytest.mark.parametrize("again", range(1, 7))
def test_a_restart_while_victims_drain_takes_no_more_of_them(again: int) -> None:
    loop = ran(scene="victims", drain_dwell=3, configure_dwell=1, restart_at=again)

    assert moves(loop) == {"preempts": 4, "bootstraps": 4}, replay(loop.spec)


def test_a_gang_keeps_its_machines_when_a_plain_need_of_its_cluster_has_enough() -> None:
    loop = ran(scene="shared")

    assert loop.total("reclaims") == 0, replay(loop.spec)
    assert is_at_rest(loop), replay(loop.spec)
