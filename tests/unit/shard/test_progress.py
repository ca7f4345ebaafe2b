"""How far the machines for needs are: they serve, come, or something holds them back."""

from dataclasses import replace
from typing import Any, Final

import pytest

from builders import a_machine, a_need
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId
from mainstay.model.progress import Progress
from mainstay.model.state import State
from mainstay.shard.answers.holds import Restraints
from mainstay.shard.answers.progress import Advance, in_all
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.restrictions import Stance

WEB, BLUE = ClusterId("web"), ClusterId("blue")
HERE: Final = Restraints(connected=frozenset({WEB, BLUE}))


def a_plan() -> Plan:
    """Web has one machine of three, and blue none of one."""
    inventory = Inventory()
    serving = replace(a_machine(State.CONFIGURED, id="m-0"), cluster=WEB)
    for machine in (serving, *(a_machine(State.IDLE, id=f"m-{n}") for n in (1, 2, 3))):
        inventory.add(machine, now=0.0, source="cloud")
    needs = (a_need(cluster=WEB, aggregate={"cpu": 24_000}), a_need(cluster=BLUE))
    demand = Demand(needs, frozenset({WEB, BLUE}))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 100.0)


PLAN: Final = a_plan()


def control(kind: ControlKind, cluster: ClusterId | None = None, value: float = 0.0) -> Control:
    return Control(
        kind=kind, cluster=cluster, value=value, reason="a look", by="ada", set_at_s=0.0,
        expires_at_s=90.0,
    )  # fmt: skip


def test_what_nothing_holds_back_is_coming() -> None:
    advance = Advance(PLAN, HERE).by_cluster()

    assert advance == {WEB: Progress(serving=1, coming=2), BLUE: Progress(coming=1)}
    assert in_all(advance.values()) == Progress(serving=1, coming=3)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"stance": Stance.PAUSE}, ("pause",)),
        ({"stance": Stance.SHADOW, "controls": (control(ControlKind.PAUSE),)}, ("shadow", "pause")),
        ({"controls": (control(ControlKind.PAUSE, WEB),)}, ("pause",)),
        ({"not_acting": "epoch 9 acts"}, ("fenced",)),
        ({"unlisted": "the list of cloud is awaited"}, ("unlisted",)),
        ({"backed_off_s": {WEB: 3.0}}, ("back_off",)),
        ({"connected": frozenset({BLUE})}, ("not_connected",)),
    ],
)
def test_what_is_not_begun_is_held_back_by_name(
    given: dict[str, Any], rules: tuple[str, ...]
) -> None:
    advance = Advance(PLAN, replace(HERE, **given))

    held = Progress(serving=1, held_back=2, held_by=rules)
    assert advance.by_cluster()[WEB] == advance.of_cluster(WEB) == held
    assert advance.of_need([need.cluster for need in PLAN.needs].index(WEB)) == held


@pytest.mark.parametrize(
    "given",
    [
        control(ControlKind.PAUSE, BLUE),
        control(ControlKind.ACTION_LIMIT, value=1),
        control(ControlKind.RECLAIM_CAP, value=0.01),
    ],
)
def test_what_holds_back_another_or_only_so_much_holds_nothing_back(given: Control) -> None:
    advance = Advance(PLAN, replace(HERE, controls=(given,)))

    assert advance.by_cluster()[WEB].held_back == 0


def test_what_a_cluster_waits_for_is_not_held_back_by_what_holds_another() -> None:
    paused = replace(HERE, controls=(control(ControlKind.PAUSE, BLUE),))
    told = in_all(Advance(PLAN, paused).by_cluster().values())

    assert told == Progress(serving=1, coming=2, held_back=1, held_by=("pause",))
