"""The rails agree with their plain form, and the limit of a cycle is shared fairly."""

from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.model.ids import ClusterId
from mainstay.shard.rails import admit, stance_of
from mainstay.shard.restrictions import NO_LIMITS, Limits, Restrictions, Stance
from mainstay.shard.sharing import GROUPS, shares
from oracles.plain_rails import reasons
from outside import examples
from plans import Doing, Drain, a_plan, acquire, delete, preempt, reclaim

CLUSTERS: Final = tuple(map(ClusterId, ("a", "b", "c")))
SOURCES: Final = ("metal", "ec2")

clusters = st.sampled_from(CLUSTERS)
sources = st.sampled_from(SOURCES)
acquisitions = st.builds(acquire, clusters, source=sources, new=st.booleans())
preempts = st.builds(preempt, clusters, clusters, source=sources)
takers = st.just("") | clusters
reclaims = st.builds(reclaim, clusters, wanted_by=takers, source=sources)
releases = reclaims | st.builds(delete, source=sources)

all_limits = st.builds(
    Limits,
    reclaim_fraction_max=st.sampled_from([0.0, 0.05, 0.25, 0.5, 1.0]),
    actions_per_cycle_max=st.sampled_from([0, 1, 2, 3, 4, 5, 8, 13]),
)
all_restrictions = st.builds(
    Restrictions,
    shard=st.sampled_from([Stance.ACT, Stance.ACT, Stance.ACT, *Stance]),
    clusters=st.dictionaries(clusters, st.sampled_from(Stance), max_size=2),
    limits=all_limits,
    cluster_limits=st.dictionaries(clusters, all_limits, max_size=2),
    backed_off=st.frozensets(clusters, max_size=1),
    unreachable=st.frozensets(sources, max_size=1),
    unlisted=st.sampled_from(["", "", "", "provider metal was not listed"]),
    unkept=st.frozensets(sources, max_size=1),
    room=st.sampled_from([0, 0, 1, 2, 3, 4, 9]),
    reclaimed=st.dictionaries(clusters, st.integers(0, 4), max_size=2),
    stopped=st.sampled_from(["", "", "", "", "fenced by epoch 2"]),
    silent_on_drains=st.frozensets(sources, max_size=2),
)
drains = st.lists(
    st.builds(Drain, sources, st.booleans(), st.sampled_from(["m5.2xlarge", "other"])), max_size=3
)


@st.composite
def plans_worth(draw: st.DrawFn) -> list[Doing]:
    """In the order of a plan: acquisitions, preempts, releases."""
    return [
        doing
        for some in (acquisitions, preempts, releases)
        for doing in draw(st.lists(some, max_size=12))
    ]


@settings(max_examples=examples(150))
@given(plans_worth(), all_restrictions, st.integers(0, 5), drains)
def test_every_action_is_held_back_by_the_rule_that_the_plain_form_names(
    doings: list[Doing], restrictions: Restrictions, cycle: int, draining: list[Drain]
) -> None:
    plan = a_plan(doings, draining=draining)

    answer = admit(plan, cycle=cycle, restrictions=restrictions)

    expected = dict(
        zip(
            [action.machine for action in plan.actions],
            reasons(plan, cycle, restrictions),
            strict=True,
        )
    )
    ran = [order.action.machine for order in answer.orders]
    held = {each.order.action.machine: each.reason for each in answer.held}
    assert ran == [machine for machine, why in expected.items() if not why]
    assert held == {machine: why for machine, why in expected.items() if why}
    assert answer.again == ("limit" in expected.values())
    assert sum(answer.held_counts.values()) == len(held)
    assert answer.counted_only() == {}


@settings(max_examples=examples(150))
@given(plans_worth(), all_restrictions)
def test_one_order_is_held_back_by_a_stance_where_a_plan_with_it_is(
    doings: list[Doing], restrictions: Restrictions
) -> None:
    """Else it would take a place first, and be let go when it begins."""
    plan, acts = a_plan(doings), replace(restrictions, stopped="")
    held = {
        each.order.action.machine: each.reason
        for each in admit(plan, cycle=0, restrictions=acts).held
    }

    for order in admit(plan, cycle=0, restrictions=Restrictions(limits=NO_LIMITS)).orders:
        reason = {Stance.SHADOW: "shadow", Stance.PAUSE: "pause"}.get(stance_of(order, acts))
        found = held.get(order.action.machine)
        assert reason == (found if found in {"shadow", "pause"} else None)


@settings(max_examples=examples(60))
@given(plans_worth(), all_restrictions, st.integers(0, 5))
def test_the_same_question_has_the_same_answer(
    doings: list[Doing], restrictions: Restrictions, cycle: int
) -> None:
    one, other = [admit(a_plan(doings), cycle=cycle, restrictions=restrictions) for _ in range(2)]

    assert one == other
    assert list(one.held_counts) == list(other.held_counts)


@settings(max_examples=examples(60))
@given(plans_worth(), all_restrictions, clusters, st.integers(1, 3))
def test_a_further_restriction_of_stance_never_lets_more_run(
    doings: list[Doing], restrictions: Restrictions, cluster: ClusterId, limit: int
) -> None:
    """Limits aside: what a pause holds back leaves its place under a limit to others."""
    plan = a_plan(doings)
    loose = replace(restrictions, limits=NO_LIMITS, cluster_limits={}, room=0)
    tight = replace(loose, clusters={**loose.clusters, cluster: Stance.PAUSE})

    before = admit(plan, cycle=0, restrictions=loose)
    after = admit(plan, cycle=0, restrictions=tight)

    assert {order.action.machine for order in after.orders} <= {
        order.action.machine for order in before.orders
    }


wants = st.tuples(*[st.integers(0, 40)] * len(GROUPS))


@settings(max_examples=examples(300))
@given(st.integers(1, 50), wants, st.integers(0, 10**9))
def test_a_limit_is_never_exceeded_and_never_left_unused(
    limit: int, wanted: tuple[int, ...], cycle: int
) -> None:
    kept = shares(limit, wanted, cycle)

    assert sum(kept) == min(limit, sum(wanted))
    assert all(0 <= run <= want for run, want in zip(kept, wanted, strict=True))


@settings(max_examples=examples(300))
@given(st.integers(3, 50), wants, st.integers(0, 10**9))
def test_each_group_has_its_sure_share_of_a_limit(
    limit: int, wanted: tuple[int, ...], cycle: int
) -> None:
    acquired, preempted, released = shares(limit, wanted, cycle)
    quarter = max(1, limit // 4)

    assert preempted >= min(wanted[1], quarter)
    assert released >= min(wanted[2], quarter)
    assert acquired >= min(wanted[0], limit - 2 * quarter)


@settings(max_examples=examples(200))
@given(st.integers(1, 50), st.lists(wants, min_size=3, max_size=3), st.integers(0, 10**9))
def test_in_three_cycles_in_a_row_no_group_starves(
    limit: int, wanted: list[tuple[int, ...]], first: int
) -> None:
    """Whatever the others want, and however that changes."""
    kept = [shares(limit, each, first + cycle) for cycle, each in enumerate(wanted)]

    for group in range(len(GROUPS)):
        if all(each[group] for each in wanted):
            assert any(run[group] for run in kept)
