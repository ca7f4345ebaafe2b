"""A machine is taken while the bridge or the shard is killed -9: the tenant is told why all the
same, and what is left of the grace is the tenant's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridging import Stage, staged
from mainstay.bridge.steps import Name
from mainstay.tenancy.database.embedded import Server
from postgres import server  # noqa: F401 - a fixture
from running import PATIENCE_S, until

NOTICE = """
    select envelope -> 'payload' as told from outbox
    where event_type = 'provisioning.reclaim_notice'
      and envelope -> 'payload' ->> 'allocation_id' = %s
"""
TAKER = 2_000
"""Not so far above the tenants that the grace is a short one."""

HURRIED = 1_000_000
"""So far above them that it ends within a test."""


@pytest.fixture
def stage(tmp_path: Path, server: Server) -> Iterator[Stage]:  # noqa: F811
    with staged(tmp_path / "home", server, slots=3, holds_grace=True) as stage:
        yield stage


def draining(stage: Stage) -> list[str]:
    """Machines that are leaving, by the shard."""
    return [name for name, (state, _) in stage.machines().items() if state == "Draining"]


def told_of(stage: Stage, life: dict[str, Any]) -> dict[str, Any]:
    """What the tenant on it was told, which must be once."""
    (row,) = stage.rows("select id from allocations where node_id = %s", life["node_id"])
    until(lambda: stage.rows(NOTICE, row["id"]))
    (notice,) = stage.rows(NOTICE, row["id"])
    return dict(notice["told"])


def taken(stage: Stage, machines: int) -> list[str]:
    """A cluster wants so many; the machines that leave for it."""
    stage.rival(machines, TAKER)
    until(lambda: len(draining(stage)) == machines)
    return draining(stage)


def life_of(stage: Stage, machine: str) -> dict[str, Any]:
    """The life of a machine, once it is closed."""
    statement = """select *, extract(epoch from grace_ends_at - closed_at)::float8 as grace_s
                   from bridge_nodes where machine = %s and closed_at is not null"""
    until(lambda: stage.rows(statement, machine))
    (life,) = stage.rows(statement, machine)
    return life


def test_the_reason_outlives_the_bridge_and_as_far_as_it_can_the_shard(stage: Stage) -> None:
    dying = stage.dying_bridge(f"before {Name.CLOSE}")
    for request in [stage.ordered() for _ in range(3)]:
        stage.placed(request)

    (first,) = taken(stage, 1)
    assert dying.wait(PATIENCE_S) != 0
    assert stage.rows("select node_id from bridge_nodes where closed_at is not null") == []
    bridge = stage.bridge()

    life = life_of(stage, first)
    assert life["preemptor_priority"] == TAKER
    assert life["reason"].startswith(f"taken by demand of priority {TAKER}, with ")
    assert 500 < life["grace_s"] <= 600
    assert told_of(stage, life)["preemptor_priority"] == TAKER

    bridge.kill()
    (second,) = set(taken(stage, 2)) - {first}
    bridge = stage.bridge()

    life = life_of(stage, second)
    assert life["preemptor_priority"] == TAKER
    assert 0 < life["grace_s"] <= 30
    assert told_of(stage, life)["reason"] == life["reason"]

    bridge.kill()
    (third,) = set(taken(stage, 3)) - {first, second}
    stage.restart_shard()
    until(lambda: len(draining(stage)) == 3)
    stage.bridge()

    life = life_of(stage, third)
    assert life["reason"] == "the shard drains the machine and does not say for whom"
    assert (life["preemptor_priority"], life["grace_ends_at"]) == (None, None)
    assert told_of(stage, life)["reason"] == life["reason"]
    before = [life_of(stage, machine)["preemptor_priority"] for machine in (first, second)]
    assert before == [TAKER, TAKER]
    (row,) = stage.rows("select id from allocations where node_id = %s", life["node_id"])
    until(lambda: stage.status(row["id"]) == "released")
    assert stage.faults() == {}


@pytest.mark.parametrize("when", ["told", "releasing"])
def test_a_shard_that_dies_while_it_takes_a_machine_owes_the_tenant_the_word_and_the_grace(
    stage: Stage, when: str
) -> None:
    bridge = stage.bridge()
    allocation = stage.placed(stage.ordered())
    (machine,) = stage.serving("tenants")

    stage.rival(3, HURRIED)
    until(lambda: machine in draining(stage))
    if when == "releasing":
        until(lambda: stage.status(allocation) != "active")
    stage.restart_shard()

    until(lambda: len(stage.serving("rival")) == 3)
    (ended,) = stage.rows(
        "select clock_timestamp() >= grace_ends_at as so from bridge_nodes where machine = %s",
        machine,
    )
    assert ended["so"]
    life = life_of(stage, machine)
    assert life["reason"] == f"taken by demand of priority {HURRIED}, with 10 s of grace"
    told = told_of(stage, life)
    assert (told["preemptor_priority"], told["reason"]) == (HURRIED, life["reason"])
    until(lambda: stage.status(allocation) == "released")
    until(lambda: not stage.lives("draining"))
    assert set(stage.machines().values()) == {("Configured", "rival")}
    assert stage.faults() == {}
    assert bridge.popen.poll() is None
