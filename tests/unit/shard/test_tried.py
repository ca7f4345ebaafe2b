"""What an answer says of changes that were tried in vain, and of those that were not."""

from typing import Final

import pytest

from builders import a_machine, a_need, a_need_profile, a_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.questions import About, Question
from mainstay.model.views import Stamp
from mainstay.shard.answers.explain import CUT, Given, explain

WEB: Final = ClusterId("web")
IN_VAIN: Final = "No change helps of the 3 that were tried, each on its own."


@pytest.fixture
def plan() -> Plan:
    """A need with two requirements, each of which keeps a machine away; nothing helps."""
    inventory = Inventory()
    for name, profile in ("b", a_profile(zone="zone-b")), ("o", a_profile(instance_type="other")):
        inventory.add(a_machine(id=name, profile=profile), now=0.0, source="metal")
    requirements = (
        Requirement(ZONE_KEY, Operator.IN, ("zone-a",)),
        Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("other",)),
    )
    need = a_need(
        cluster=WEB,
        profile=a_need_profile(requirements=requirements),
        aggregate={"cpu": 80_000},
        min_unit={"cpu": 8_000},
    )
    demand = Demand((need,), frozenset({WEB}))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)


def said(plan: Plan, *, is_enough: bool) -> tuple[str, ...]:
    question = Question(about=About.NEED, name=WEB)
    stamp = Stamp(shard="s", cycle=1, at_s=0.0)
    return explain(plan, question, stamp, Given(enough=lambda: is_enough)).sentences


def test_where_all_were_tried_and_none_helps_that_is_said(plan: Plan) -> None:
    told = said(plan, is_enough=False)

    assert IN_VAIN in told
    assert not any(CUT in sentence for sentence in told)


def test_where_some_were_left_out_nothing_is_said_of_these_but_how_many(plan: Plan) -> None:
    told = said(plan, is_enough=True)

    assert "No change helps of the 1 that was tried." in told
    assert f"2 more ways to change it were {CUT}" in told
