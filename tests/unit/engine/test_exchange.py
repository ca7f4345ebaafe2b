"""Who takes part in an exchange, and where it ends."""

from typing import Any

import pytest

from mainstay.engine import exchange
from mainstay.model.action import ActionKind
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from oracles.fleets import World, world_of
from oracles.scenes import (
    CONFIGURED,
    CREATING,
    SAME_ZONE,
    SPECULATIVE,
    Decide,
    done,
    machine,
    need,
    plainly,
    really,
    spread,
)

BOUGHT = [(ActionKind.PROVISION, "slot")]


def only(*types: str) -> tuple[Requirement, ...]:
    return (Requirement(INSTANCE_TYPE_KEY, Operator.IN, types),)


def a_chain(**easy: Any) -> World:
    """The first holds what the second had, the second what the third had; one is in flight."""
    first = need(**{"priority": 100, **easy})
    second = need(priority=50, requires=only("medium", "large"))
    third = need(priority=10, requires=only("large"))
    machines = [
        serving("mid", second, type="medium", price=0.5),
        serving("big", third, type="large"),
        machine("own", CREATING, type="small", ref=first.ref),
        machine("slot", SPECULATIVE, type="large", price=9.0),
    ]
    return world_of(machines, [first, second, third])


def serving(name: str, whom: Need, **given: Any) -> Machine:
    return machine(name, CONFIGURED, ref=whom.ref, **given)


@pytest.mark.parametrize("decide", [plainly, really])
def test_a_machine_in_flight_is_passed_on_along_a_chain(decide: Decide) -> None:
    plan = decide(a_chain())

    assert done(plan) == []
    assert plan.claimed_ids() == ["big", "mid", "own"]


@pytest.mark.parametrize("decide", [plainly, really])
def test_a_need_with_a_strict_spread_neither_gives_nor_takes(decide: Decide) -> None:
    assert done(decide(a_chain(spread=spread(ZONE_KEY, 1)))) == BOUGHT


@pytest.mark.parametrize("decide", [plainly, really])
def test_what_a_gang_holds_is_not_asked_for(decide: Decide) -> None:
    gang = need(16, priority=100, requires=SAME_ZONE, group="g")
    fussy = need(priority=10, requires=only("large"))
    machines = [
        machine("big", CONFIGURED, type="large"),
        serving("mid", gang, type="small"),
        machine("other", CONFIGURED, type="small", price=2.0),
        machine("slot", SPECULATIVE, type="large", price=9.0),
    ]

    plan = decide(world_of(machines, [gang, fussy]))

    assert done(plan) == [*BOUGHT, (ActionKind.RECLAIM, "other")]


def test_a_chain_is_no_longer_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "CHAIN_MAX", 3)
    assert done(really(a_chain())) == []

    monkeypatch.setattr(exchange, "CHAIN_MAX", 2)
    assert done(really(a_chain())) == BOUGHT


def test_after_so_many_requests_who_is_short_buys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "REQUESTS_MAX", 2)
    assert done(really(a_chain())) == []

    monkeypatch.setattr(exchange, "REQUESTS_MAX", 1)
    assert done(really(a_chain())) == BOUGHT
