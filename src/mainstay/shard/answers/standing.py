"""When a machine is where it is on its way to, by how it stands in a plan. Pure."""

from collections.abc import Mapping
from typing import Final

from mainstay.engine.explain import MachineReport, Standing
from mainstay.engine.lookup import row_of
from mainstay.engine.plan import Plan
from mainstay.model.questions import Expected, When
from mainstay.model.state import State
from mainstay.shard.answers.when import (
    HOW,
    Outlook,
    bars_expected,
    machine_expected,
    step_expected,
)
from mainstay.shard.latency import DURING, Step

NOTHING_TO_COME: Final[Mapping[Standing, str]] = {
    Standing.KEPT: "nothing is to happen with it until somebody needs it",
    Standing.SLOT: "nothing is to happen with it until somebody asks for it",
}

NOT_BY_ITSELF: Final[Mapping[Standing, str]] = {
    Standing.ASIDE: "it waits for the rest of its gang: ask about the gang",
    Standing.SILENT: "it stays until its cluster tells its demand",
    Standing.FAILED: "it stays Failed until somebody retires it",
}

STEPS: Final[Mapping[Standing, Step]] = {
    Standing.PREEMPTED: Step.DRAIN,
    Standing.EXCESS: Step.DRAIN,
    Standing.DELETED: Step.DELETE,
}
"""Of what the plan does with it."""


def standing_expected(plan: Plan, told: MachineReport, outlook: Outlook) -> Expected:
    """When it serves, is drained, is given back or may be had."""
    row, standing = row_of(plan.snapshot, told.machine), told.standing
    if standing in NOTHING_TO_COME:
        return Expected(when=When.NOW, because=(NOTHING_TO_COME[standing],))
    if standing in NOT_BY_ITSELF:
        return Expected(when=When.NEVER, because=(NOT_BY_ITSELF[standing],))
    if standing in STEPS:
        return step_expected(plan, row, outlook, STEPS[standing])
    if standing is Standing.BARRED:
        return bars_expected(plan, row, outlook)
    if standing is Standing.HELD:
        return _given_back(told, outlook)
    return _on_its_way(plan, row, told.state, outlook)


def _given_back(told: MachineReport, outlook: Outlook) -> Expected:
    left_s = 0.0 if told.hold_until is None else max(0.0, told.hold_until - outlook.steady_s)
    why = "it is kept until then in case somebody needs it, and then given back"
    return Expected(when=When.NOT_BEFORE, seconds=left_s, because=(why,))


def _on_its_way(plan: Plan, row: int, state: State, outlook: Outlook) -> Expected:
    """Of one that serves, or that is to serve: by the rest of its way."""
    if state is State.CONFIGURED:
        return Expected(when=When.NOW, because=("it serves",))
    if plan.owner.item(row) >= 0 and state in HOW:
        return machine_expected(plan, row, outlook, HOW[state])
    return step_expected(plan, row, outlook, DURING[state])
