"""Simulated clusters: who they are, what they remember, what they say they see."""

import asyncio

import pytest

from mainstay.model.errors import Rejected
from mainstay.model.frames import (
    BootstrapAsked,
    CapacityHint,
    HintConfidence,
    NodeState,
    ReclaimTold,
)
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.state import State
from mainstay.processes.cluster_sim import (
    ClustersSpec,
    Pace,
    Seen,
    SimulatedCluster,
    SimulatedClusters,
)
from mainstay.processes.soak_laws import units
from mainstay.session.client import ClientTools
from mainstay.wire.tls import MutualTls, Plaintext

A = ClusterId("a")


def told(machine: str, state: State) -> NodeState:
    return NodeState(machine=MachineId(machine), cluster=A, state=state)


def seen(*states: NodeState, session: int = 1) -> Seen:
    found = Seen(lambda: session)
    for each in states:
        asyncio.run(found.node_state(each))
    return found


class TestNames:
    def test_one_cluster_has_the_name_and_several_have_a_number_behind_it(self) -> None:
        assert [spec.cluster for spec in ClustersSpec(name="x").demand()] == ["x"]
        assert [spec.cluster for spec in ClustersSpec(name="x", clusters=2).demand()] == [
            "x-0", "x-1",
        ]  # fmt: skip

    def test_no_cluster_at_all_is_refused(self) -> None:
        with pytest.raises(Rejected, match="not 0"):
            ClustersSpec(clusters=0)

    def test_a_certificate_is_for_one_cluster(self) -> None:
        over = MutualTls.__new__(MutualTls)

        with pytest.raises(Rejected, match="--clusters 1"):
            SimulatedClusters(ClustersSpec(clusters=2), "127.0.0.1:1", over)


class TestMemory:
    def test_a_machine_that_is_configured_serves(self) -> None:
        assert seen(told("m", State.CONFIGURED)).serving() == {"m"}

    @pytest.mark.parametrize("state", [State.DRAINING, State.IDLE, State.FAILED])
    def test_a_machine_that_has_moved_on_serves_no_more(self, state: State) -> None:
        assert seen(told("m", State.CONFIGURED), told("m", state)).serving() == frozenset()

    def test_what_a_new_session_does_not_name_serves_no_more(self) -> None:
        session = 1
        found = Seen(lambda: session)
        asyncio.run(found.node_state(told("m", State.CONFIGURED)))
        asyncio.run(found.node_state(told("n", State.CONFIGURED)))

        session = 2
        asyncio.run(found.node_state(told("n", State.CONFIGURED)))

        assert found.serving() == {"n"}

    def test_bootstraps_reclaims_and_hints_are_counted(self) -> None:
        found = seen()
        hint = CapacityHint(
            fingerprint="f", requirements=(), count=7, confidence=HintConfidence.LOW,
            cost_per_hour=1.0,
        )  # fmt: skip

        blob = asyncio.run(found.bootstrap(BootstrapAsked("r", A)))
        begun = asyncio.run(found.reclaim(ReclaimTold("i", ("n-1", "n-2"), 30)))
        asyncio.run(found.hint(hint))

        assert (blob, begun) == (b"join a", 2)
        assert (found.bootstraps, found.reclaims, found.hints) == (1, 2, {"f": 7})


def test_every_unit_that_ever_went_away_is_counted() -> None:
    (spec,) = ClustersSpec(machines=100).demand()

    async def steps() -> tuple[int, int]:
        cluster = SimulatedCluster(spec, "127.0.0.1:1", Plaintext(), ClientTools())
        seen_away, before = 0, 0
        for _ in range(30):
            cluster.step()
            now = sum(map(units, cluster.asked))
            seen_away, before = seen_away + max(0, before - now), now
        return cluster.withdrawn.total(), seen_away

    withdrawn, seen_away = asyncio.run(steps())
    assert withdrawn >= seen_away > 0


def test_a_report_says_in_a_line_what_the_clusters_see() -> None:
    async def report() -> str:
        clusters = SimulatedClusters(ClustersSpec(steady=True), "127.0.0.1:1", Plaintext())
        clusters.step()
        await clusters.all[0].seen.node_state(told("m", State.CONFIGURED))
        return str(clusters.report(4))

    assert asyncio.run(report()) == (
        "step 4: 0 of 1 clusters connected, 98 units asked for, nodes: 1 Configured; "
        "0 joined, 0 reclaimed"
    )


@pytest.mark.parametrize("pace", [{"every_s": 0.0}, {"steps": -1}])
def test_a_pace_that_cannot_be_is_refused(pace: dict[str, float]) -> None:
    with pytest.raises(Rejected):
        Pace(**pace)  # type: ignore[arg-type]
