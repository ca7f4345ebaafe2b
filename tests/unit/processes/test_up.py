"""`mainstay up` shows the machine model at work."""

import subprocess
import sys

import pytest

from mainstay.model.state import EDGES, State, can_transition
from mainstay.processes import up
from mainstay.runtime.clock import StepClock


@pytest.fixture
def world() -> up.World:
    return up.build(machines=1000, seed=5, clock=StepClock())


def test_every_legal_edge_is_walked(world: up.World) -> None:
    up.walk_every_edge(world, StepClock())

    assert [edge for edge in EDGES if not world.walked[edge]] == []


def test_every_illegal_edge_is_tried_and_refused(world: up.World) -> None:
    up.walk_every_edge(world, StepClock())

    tried = {edge for edge, _ in up.try_every_illegal_edge(world, StepClock())}

    real = [state for state in State if state]
    pairs = {(old, new) for old in real for new in real if old != new}
    assert tried == {(old, new) for old, new in pairs if not can_transition(old, new)}


def test_no_machine_breaks_a_rule_after_the_walk(world: up.World) -> None:
    up.walk_every_edge(world, StepClock())

    assert up.faulty(world) == []


def test_the_same_seed_walks_the_same_way() -> None:
    walks = []
    for _ in range(2):
        world = up.build(machines=300, seed=9, clock=StepClock())
        up.walk(world, 500, StepClock())
        walks.append(dict(world.walked))

    assert walks[0] == walks[1]


def test_without_a_terminal_it_ends_by_itself() -> None:
    script = "from mainstay.cli.main import main; main(['up', '--machines', '200'])"

    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )

    assert ended.returncode == 0
    assert "200 machines checked, 0 broken rules" in ended.stdout
