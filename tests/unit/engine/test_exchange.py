"""Who takes part in an exchange, and where it ends."""

from typing import Any

import pytest

from mainstay.engine import exchange, market
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
    X,
    Y,
    done,
    machine,
    need,
    numbered,
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
    monkeypatch.setattr(market, "CHAIN_MAX", 3)
    assert done(really(a_chain())) == []

    monkeypatch.setattr(market, "CHAIN_MAX", 2)
    assert done(really(a_chain())) == BOUGHT


def a_swap(count: int, *, own: int | None = None, cluster: str = X) -> list[Machine]:
    """So many serve the second need and are cheap; the first, that may have any, has its own."""
    first, second = the_two(count, cluster)
    cheap = numbered(count, f"{cluster}-big", CONFIGURED, cluster=cluster, type="large", price=0.5,
                     ref=second.ref)  # fmt: skip
    dear = numbered(count if own is None else own, f"{cluster}-own", CONFIGURED, cluster=cluster,
                    type="small", ref=first.ref)  # fmt: skip
    return [*cheap, *dear]


def the_two(count: int, cluster: str = X) -> list[Need]:
    first = need(8 * count, cluster, priority=100)
    return [first, need(8 * count, cluster, priority=10, requires=only("large"))]


def slots(count: int) -> list[Machine]:
    return numbered(count, "slot", SPECULATIVE, type="large", price=9.0)


def test_who_is_short_asks_the_rich_and_not_who_was_just_given_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(market, "CHAIN_MAX", 2)
    monkeypatch.setattr(exchange, "REFUSALS_MAX", 1)
    rich = need(8 * 30, priority=100)
    poor = [need(8, priority=n, requires=only("large")) for n in range(30)]
    held = numbered(30, "big", CONFIGURED, type="large", price=0.5)
    own = numbered(30, "own", CONFIGURED, type="small")

    assert done(really(world_of([*held, *own, *slots(30)], [rich, *poor]))) == []


def test_any_number_of_machines_is_exchanged() -> None:
    count = 1_500

    plan = really(world_of([*a_swap(count), *slots(count)], the_two(count)))

    assert done(plan) == []


@pytest.mark.parametrize("decide", [plainly, really])
def test_a_holder_gives_as_many_as_it_can_do_without_and_is_handed_back_the_rest(
    decide: Decide,
) -> None:
    plan = decide(world_of([*a_swap(5, own=3), *slots(5)], the_two(5)))

    assert done(plan) == [(ActionKind.PROVISION, "slot-000"), (ActionKind.PROVISION, "slot-001")]


def test_what_is_given_counts_towards_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "REFUSALS_MAX", 1)

    assert done(really(a_chain())) == []


def a_dead_end(cluster: str, proud: int) -> tuple[list[Machine], list[Need]]:
    """So many are asked first and can do without nothing; the last can."""
    kind = need(8, cluster, priority=80, requires=only("large", "small"))
    poor = need(8, cluster, priority=10, requires=(Requirement(INSTANCE_TYPE_KEY, Operator.EXISTS),
                Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("small",))))  # fmt: skip
    asked = [need(8, cluster, priority=90, requires=only(f"fine-{n}")) for n in range(proud)]
    held = [
        machine(f"{cluster}-{n}", CONFIGURED, cluster=cluster, type=f"fine-{n}", price=0.1)
        for n in range(proud)
    ]
    large = machine(f"{cluster}-large", CONFIGURED, cluster=cluster, type="large", price=0.2)
    small = machine(f"{cluster}-small", CONFIGURED, cluster=cluster, type="small", price=0.3)
    return [*held, large, small], [*asked, kind, poor]


@pytest.mark.parametrize(("refusals", "bought"), [(12, 0), (4, 1), (2, 2)])
def test_clusters_share_so_many_refusals_and_then_who_is_short_buys(
    monkeypatch: pytest.MonkeyPatch, refusals: int, bought: int
) -> None:
    monkeypatch.setattr(exchange, "REFUSALS_MAX", refusals)
    (here, needs), (there, others) = a_dead_end(X, 5), a_dead_end(Y, 1)

    plan = really(world_of([*here, *there, *slots(2)], [*needs, *others]))

    assert [kind for kind, _ in done(plan)].count(ActionKind.PROVISION) == bought
