"""kill -9 of the bridge at every step of the table, and of the shard: everything ends right.

No slot is given twice, no allocation is lost without a word, no node is joining for ever.
"""

import signal
from collections.abc import Iterator

import pytest

import outside
from bridging import Stage, staged
from mainstay.bridge.steps import Name
from mainstay.tenancy.database.embedded import Server
from nursery import Born
from postgres import server  # noqa: F401 - a fixture
from running import PATIENCE_S, Process, until

SLOTS = 2
LIVING = "select state from bridge_nodes where state <> 'retired'"
NOBODY = "no agent has enrolled in time"
WHEN = ("before", "after") if outside.soak_factor() > 1 else ("after",)
"""Before a step is after the one before it, but for what is on its way: that is for a soak."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Stage]:  # noqa: F811
    with staged(tmp_path_factory.mktemp("plain") / "home", server, slots=SLOTS) as stage:
        yield stage


@pytest.fixture
def holding(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Stage]:  # noqa: F811
    """With a provider that holds machines until the grace ends: for one test only, since it holds
    them longer than the next one would wait.
    """
    folder = tmp_path_factory.mktemp("holding") / "home"
    with staged(folder, server, slots=SLOTS, holds_grace=True) as stage:
        yield stage


def successor(stage: Stage, dying: Born) -> Process:
    """The next bridge, once this one has killed itself as it was told."""
    assert dying.wait(PATIENCE_S) == -signal.SIGKILL
    return stage.bridge()


def settled(stage: Stage, bridge: Process) -> None:
    """Nothing is left: no life, no machine, no fault."""
    until(lambda: stage.rows(LIVING) == [])
    assert stage.faults() == {}
    bridge.kill()
    stage.rows("delete from bridges returning cluster")


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", [Name.ASK, Name.OPEN, Name.CLOSE, Name.RETIRE])
def test_a_bridge_that_dies_on_the_way_of_a_machine(stage: Stage, name: Name, when: str) -> None:
    dying = stage.dying_bridge(f"{when} {name}")
    request = stage.ordered()
    early = name in {Name.ASK, Name.OPEN}
    bridge = successor(stage, dying) if early else None
    allocation = stage.placed(request)
    stage.release(allocation)
    bridge = bridge or successor(stage, dying)

    until(lambda: stage.status(allocation) == "released")
    until(lambda: set(stage.machines().values()) == {("Speculative", "")})
    settled(stage, bridge)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", [Name.CLOSE, Name.WARN, Name.BURY, Name.RETIRE])
def test_a_bridge_that_dies_while_a_machine_is_taken(stage: Stage, name: Name, when: str) -> None:
    dying = stage.dying_bridge(f"{when} {name}")
    allocation = stage.placed(stage.ordered())

    stage.rival(SLOTS, 1_000_000)
    bridge = successor(stage, dying)

    until(lambda: stage.status(allocation) == "released")
    until(lambda: len(stage.serving("rival")) == SLOTS)
    withdrawn(stage)
    settled(stage, bridge)


@pytest.mark.parametrize("when", WHEN)
def test_a_bridge_that_dies_while_it_releases(holding: Stage, when: str) -> None:
    dying = holding.dying_bridge(f"{when} {Name.RELEASE}")
    allocation = holding.placed(holding.ordered())

    holding.rival(SLOTS, 1_000_000)
    bridge = successor(holding, dying)

    until(lambda: holding.status(allocation) == "released")
    until(lambda: len(holding.serving("rival")) == SLOTS)
    withdrawn(holding)
    settled(holding, bridge)


def withdrawn(stage: Stage) -> None:
    """The rival wants nothing any more, and says so."""
    stage.others[-1].kill()
    stage.others[-1].wait()
    stage.rival(0, 0)
    until(lambda: stage.serving("rival") == [])
    stage.others[-1].kill()
    stage.others[-1].wait()


@pytest.mark.parametrize("state", ["joining", "open", "draining"])
def test_a_shard_that_dies_when_a_machine_is(stage: Stage, state: str) -> None:
    bridge = stage.bridge()
    request = stage.ordered()
    if state == "joining":
        until(lambda: stage.lives("joining") or stage.lives("open"))
        stage.restart_shard()
    allocation = stage.placed(request)
    if state == "open":
        stage.restart_shard()
        until(lambda: len(stage.serving("tenants")) == 1)
        assert stage.status(allocation) == "active"
    stage.release(allocation)
    if state == "draining":
        until(lambda: stage.lives("draining") or stage.rows(LIVING) == [])
        stage.restart_shard()

    until(lambda: stage.status(allocation) == "released")
    until(lambda: set(stage.machines().values()) == {("Speculative", "")})
    settled(stage, bridge)


def test_api_and_worker_that_die_when_a_machine_joins_and_when_it_is_taken(stage: Stage) -> None:
    bridge = stage.bridge()
    request = stage.ordered()
    until(lambda: stage.lives("joining") or stage.lives("open"))
    stage.restart_api()
    allocation = stage.placed(request)

    stage.rival(SLOTS, 1_000_000)
    until(lambda: stage.rows("select node_id from bridge_nodes where closed_at is not null"))
    stage.restart_api()

    until(lambda: stage.status(allocation) == "released")
    until(lambda: len(stage.serving("rival")) == SLOTS)
    withdrawn(stage)
    settled(stage, bridge)


def without_agents(stage: Stage) -> Process:
    """A bridge on whose machines nobody ever enrols."""
    words = ["--shard", stage.shard.grpc, "--insecure", "--join", "2", "--http", "127.0.0.1:0"]
    return stage.home.start("bridge", "bridge", *words, "--database", stage.url)


def given_up(stage: Stage) -> set[str]:
    """Lives that ended since nobody enrolled."""
    over = [row for row in stage.lives("retired") if row["reason"] == NOBODY]
    return {row["node_id"] for row in over}


def test_a_machine_on_which_nobody_enrols_is_given_up(stage: Stage) -> None:
    """Another is asked for in its place; when nobody waits any more, it is given back."""
    before = given_up(stage)
    bridge = without_agents(stage)
    request = stage.ordered()

    until(lambda: bridge.metric("mainstay_bridge_unused_machines") >= 1)
    until(lambda: len(stage.serving("tenants")) == SLOTS)
    assert given_up(stage) > before

    stage.client().post(f"/capacity-requests/{request}/cancel")
    until(lambda: stage.serving("tenants") == [])
    settled(stage, bridge)


@pytest.mark.parametrize("when", WHEN)
def test_a_bridge_that_dies_while_it_gives_a_machine_up(stage: Stage, when: str) -> None:
    """It is given up once, by this one or the next, and another is asked for in its place."""
    before = given_up(stage)
    dying = stage.dying_bridge(f"{when} {Name.GIVE_UP}", simulate=False, join_s=2.0)
    request = stage.ordered()
    assert dying.wait(PATIENCE_S) == -signal.SIGKILL
    (life,) = stage.rows("select node_id, state from bridge_nodes where state <> 'retired'")
    assert life["state"] == ("joining" if when == "before" else "draining")

    bridge = without_agents(stage)

    until(lambda: len(given_up(stage) - before) == SLOTS)
    assert life["node_id"] in given_up(stage)
    assert len(stage.serving("tenants")) == SLOTS
    stage.client().post(f"/capacity-requests/{request}/cancel")
    until(lambda: stage.serving("tenants") == [])
    settled(stage, bridge)
