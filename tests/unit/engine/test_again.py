"""The columns of a demand that is nearly one we know mean what columns made anew mean."""

import dataclasses
from collections.abc import Sequence

import pytest

from builders import a_need, a_need_profile
from mainstay.engine.again import STALE_MAX, STRANGE_MAX, ask_again
from mainstay.engine.asked import Asked, ask
from mainstay.model.need import Need


def some(count: int, *, cpu: int = 1000, first_priority: int = 0) -> list[Need]:
    return [
        a_need(
            cluster=f"c{number % 3}",
            profile=a_need_profile(priority=first_priority + number),
            aggregate={"cpu": cpu * (1 + number)},
        )
        for number in range(count)
    ]


def meaning(asked: Asked) -> list[tuple[object, ...]]:
    """What the codes of each need stand for."""
    profiles = asked.profiles
    return [
        (
            one,
            profiles.values[profile],
            profiles.requirements[profiles.requirement_set[profile]],
            int(profiles.priority[profile]),
            bool(profiles.is_gang[profile]),
            profiles.values[profiles.without_same[profile]],
            asked.clusters[cluster],
            asked.amounts[aggregate],
            asked.amounts[unit],
        )
        for one, profile, cluster, aggregate, unit in zip(
            asked.needs, asked.profile.tolist(), asked.cluster.tolist(),
            asked.aggregate.tolist(), asked.min_unit.tolist(), strict=True,
        )
    ]  # fmt: skip


def again(needs: Sequence[Need], last: Asked) -> Asked:
    found = ask_again(tuple(needs), last)
    assert found is not None
    return found


def test_the_same_needs_have_the_same_columns() -> None:
    asked = ask(some(4))

    assert ask_again(asked.needs, asked) is asked


def test_a_need_that_asks_for_more_goes_on_from_the_codes_of_before() -> None:
    needs = some(6)
    last = ask(needs)
    needs[2] = dataclasses.replace(needs[2], aggregate={"cpu": 77_000})

    asked = again(needs, last)

    assert asked.goes_on_from(last)
    assert asked.amounts[: len(last.amounts)] == last.amounts
    assert meaning(asked) == meaning(ask(needs))


def test_what_came_and_what_went_is_told_as_if_it_were_new() -> None:
    needs = some(8)
    last = ask(needs)
    others = [
        *needs[3:],
        *some(2, first_priority=50),
        a_need(cluster="new", aggregate={"nvidia.com/gpu": 1}),
    ]

    asked = again(others, last)

    assert meaning(asked) == meaning(ask(others))
    assert asked.names >= ask(others).names
    assert asked.clusters == ask(others).clusters


def test_where_most_is_new_nothing_is_gone_on_from() -> None:
    last = ask(some(4))

    assert ask_again(tuple(some(4, first_priority=90)), last) is None


def test_many_new_profiles_are_made_into_columns_together() -> None:
    needs = some(4 * STRANGE_MAX)
    last = ask(needs)

    assert ask_again((*needs, *some(STRANGE_MAX + 1, first_priority=10_000)), last) is None
    assert ask_again((*needs, *some(STRANGE_MAX, first_priority=10_000)), last) is not None


def test_amounts_that_nobody_asks_for_any_more_are_forgotten_before_they_are_many() -> None:
    needs, asked = some(4), ask(some(4))
    forgotten = False
    for turn in range(2 * STALE_MAX):
        needs[0] = dataclasses.replace(needs[0], aggregate={"cpu": 1_000_000 + turn})
        found = ask_again(tuple(needs), asked)
        forgotten = forgotten or found is None
        asked = ask(needs) if found is None else found
        assert len(asked.amounts) <= 2 * 8 + STALE_MAX + 1

    assert forgotten


@pytest.mark.parametrize("change", ["amounts", "profiles"])
def test_a_demand_with_other_codes_does_not_go_on(change: str) -> None:
    first, second = ask(some(3)), ask(some(3, cpu=999))
    if change == "profiles":
        second = ask(some(3, first_priority=9))

    assert not second.goes_on_from(first)
