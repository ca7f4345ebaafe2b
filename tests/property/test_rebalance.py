"""A plan keeps every promise of docs/explanation/rebalancing.md, whatever the fleet looks like."""

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.coordinator.rebalance import (
    Options,
    PastMove,
    Planned,
    ShardStanding,
    Standing,
    Tier,
    plan,
    render,
)
from mainstay.model.coordination import FreeRow, Missing, ServingRow, Summary
from mainstay.model.ids import ShardId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.resources import covers, scale
from oracles.plain_rebalance import PlainMove, PlainPlanner, PlainVerdict
from outside import examples
from rebalancing import INTERVAL, NOW

SHARDS: Final = tuple(map(ShardId, "abcd"))
PROVIDERS: Final = ("metal", "cloud")
TYPES: Final = ("m5", "c6")
ZONES: Final = ("za", "zb", "")

shards = st.sampled_from(SHARDS)
few = st.sampled_from([0, 1, 2, 5, 10, 11, 40])
places = (st.sampled_from(PROVIDERS), st.sampled_from(TYPES), st.sampled_from(ZONES))
free_rows = st.builds(FreeRow, *places, idle=few, speculative=few)
serving_rows = st.builds(
    ServingRow, *places,
    priority=st.integers(0, 3), interruption_penalty_bucket=st.integers(0, 3), machines=few,
)  # fmt: skip
requirements = st.builds(
    Requirement,
    key=st.sampled_from([INSTANCE_TYPE_KEY, ZONE_KEY, "rack"]),
    operator=st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS]),
    values=st.lists(st.sampled_from([*TYPES, "za", "zb"]), unique=True, max_size=2).map(tuple),
)
units = st.sampled_from([{"cpu": 4}, {"cpu": 4, "gpu": 1}, {"gpu": 1}, {}])
shortfalls = st.builds(
    Missing,
    requirements=st.lists(requirements, max_size=2).map(tuple),
    deficit=st.builds(scale, st.sampled_from([{"cpu": 3}, {"cpu": 4, "gpu": 1}, {}]), few),
    priority=st.integers(0, 3),
    age_cycles=st.sampled_from([5, 6, 12, 13]),
    interruption_penalty_bucket=st.integers(0, 3),
    min_unit=units,
    topology=st.sampled_from([False, False, False, True]),
    quota=st.sampled_from([False, False, False, True]),
    fingerprint=st.sampled_from(["x", "y", "z"]),
)
stances = st.builds(
    ShardStanding,
    summary=st.builds(
        Summary,
        free=st.lists(free_rows, max_size=4).map(tuple),
        serving=st.lists(serving_rows, max_size=3).map(tuple),
    ),
    missing=st.lists(shortfalls, max_size=3).map(tuple),
    providers=st.sampled_from([frozenset(PROVIDERS), frozenset({"metal"}), frozenset({"cloud"})]),
    reported_at_ns=st.sampled_from([0, 3, 3, 4]).map(lambda ago: NOW - ago * INTERVAL),
    can_hand_over=st.sampled_from([True, True, True, False]),
    removing=st.sampled_from([False, False, False, True]),
    takes_all=st.sampled_from([False, False, False, True]),
)
pairs = st.sampled_from([pair for pair in product(SHARDS, SHARDS) if pair[0] != pair[1]])
past_moves = st.builds(
    lambda pair, **rest: PastMove(donor=pair[0], recipient=pair[1], **rest),
    pairs,
    tier=st.sampled_from(Tier),
    fingerprint=st.sampled_from(["x", "y", "other"]),
    instance_types=st.sampled_from([("m5",), ("c6",), ("c6", "m5"), ()]),
    machines=st.sampled_from([0, 1, 4, 30]),
    open=st.booleans(),
    called_off=st.sampled_from([False, False, True]),
    settled_at_ns=st.sampled_from([1, 2, 7, 8, 39, 40]).map(lambda ago: NOW - ago * INTERVAL),
)
standings = st.builds(
    Standing,
    now_ns=st.just(NOW),
    shards=st.dictionaries(shards, stances, min_size=2),
    moves=st.lists(past_moves, max_size=3).map(tuple),
)
all_options = st.builds(
    Options,
    machines_max=st.sampled_from([1, 4, 50]),
    margin_percent=st.sampled_from([0, 10, 100]),
    margin_least=st.sampled_from([0, 1, 3]),
    donors_max=st.integers(1, 3),
    open_moves_max=st.sampled_from([0, 2, 3, 200]),
)


def after(standing: Standing, planned: Planned) -> Standing:
    """The same fleet when what was planned has begun."""
    begun = tuple(
        PastMove(
            donor=each.donor, recipient=each.recipient, tier=each.tier,
            fingerprint=each.fingerprint, instance_types=each.instance_types,
            machines=each.wanted.machines_max,
        )
        for each in planned.proposals
    )  # fmt: skip
    return replace(standing, moves=(*standing.moves, *begun))


@settings(max_examples=examples(100))
@given(standings, all_options)
def test_a_plan_is_what_the_plain_form_says(standing: Standing, options: Options) -> None:
    planned = plan(standing, options)
    plain = PlainPlanner(standing, options)
    plain.run()

    assert [
        PlainMove(
            each.donor, each.recipient, each.tier, each.fingerprint, each.instance_types,
            each.wanted.machines_max,
        )
        for each in planned.proposals
    ] == plain.moves  # fmt: skip
    assert [
        PlainVerdict(each.shard, each.fingerprint, each.what) for each in planned.verdicts
    ] == plain.verdicts


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_no_donor_gives_what_its_margin_keeps(standing: Standing, options: Options) -> None:
    """Over the rows that a plan may take from, together: the donor chooses among them."""
    planned = plan(standing, options)

    for donor, tier in product(standing.shards, (Tier.IDLE, Tier.SPECULATIVE)):
        mine = [p for p in planned.proposals if (p.donor, p.tier) == (donor, tier)]
        types = {name for proposal in mine for name in proposal.instance_types}
        rows: Counter[tuple[str, str, str]] = Counter()
        for row in standing.shards[donor].summary.free:
            if row.instance_type in types:
                rows[row[:3]] += row.idle if tier is Tier.IDLE else row.speculative
        spare = sum(map(options.spare, rows.values()))
        assert sum(proposal.wanted.machines_max for proposal in mine) <= spare


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_no_plan_exceeds_a_cap(standing: Standing, options: Options) -> None:
    proposals = plan(standing, options).proposals

    under_way = sum(move.open for move in standing.moves if move.tier is not Tier.RETURN)
    per_shortfall = Counter((each.recipient, each.fingerprint) for each in proposals)
    assert all(0 < each.wanted.machines_max <= options.machines_max for each in proposals)
    assert all(count <= options.donors_max for count in per_shortfall.values())
    assert not proposals or len(proposals) + under_way <= options.open_moves_max


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_machines_move_only_where_they_can_be_seen_and_handed_over(
    standing: Standing, options: Options
) -> None:
    for each in plan(standing, options).proposals:
        donor, recipient = standing.shards[each.donor], standing.shards[each.recipient]
        seen = {row.provider for row in donor.summary.free}
        seen |= {row.provider for row in donor.summary.serving}
        assert each.donor != each.recipient
        assert each.wanted.providers
        assert set(each.wanted.providers) <= recipient.providers
        assert set(each.wanted.providers) <= seen
        for shard in (donor, recipient):
            assert shard.can_hand_over
            assert not shard.removing
            assert not shard.takes_all
            assert NOW - shard.reported_at_ns <= 3 * INTERVAL


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_no_type_moves_between_two_shards_that_cool_down(
    standing: Standing, options: Options
) -> None:
    proposals = plan(standing, options).proposals

    cooling = {
        (frozenset({move.donor, move.recipient}), name)
        for move in standing.moves
        for name in move.instance_types
        if move.tier is not Tier.RETURN
        and (move.open or (move.machines and NOW - move.settled_at_ns < 8 * INTERVAL))
    }
    ways = {(p.donor, p.recipient, name) for p in proposals for name in p.instance_types}
    assert not cooling & {(frozenset({donor, to}), name) for donor, to, name in ways}
    assert not ways & {(to, donor, name) for donor, to, name in ways}


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_what_has_begun_is_not_planned_again(standing: Standing, options: Options) -> None:
    first = plan(standing, options)
    second = plan(after(standing, first), options)

    served = {(each.recipient, each.fingerprint) for each in first.proposals}
    assert not served & {(each.recipient, each.fingerprint) for each in second.proposals}


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_no_more_is_asked_for_than_is_missing(standing: Standing, options: Options) -> None:
    asked: dict[tuple[ShardId, str], Counter[str]] = {}
    for each in plan(standing, options).proposals:
        asked.setdefault((each.recipient, each.fingerprint), Counter()).update(each.wanted.deficit)

    for (shard, fingerprint), amounts in asked.items():
        missing = [m for m in standing.shards[shard].missing if m.fingerprint == fingerprint]
        assert any(covers(each.deficit, amounts) for each in missing)


@settings(max_examples=examples(40))
@given(standings, all_options, st.permutations(SHARDS))
def test_the_order_of_what_is_told_does_not_matter(
    standing: Standing, options: Options, order: list[ShardId]
) -> None:
    other = Standing(
        now_ns=NOW,
        shards={
            name: replace(standing.shards[name], missing=standing.shards[name].missing[::-1])
            for name in order
            if name in standing.shards
        },
        moves=standing.moves[::-1],
    )

    assert plan(other, options).proposals == plan(standing, options).proposals


@settings(max_examples=examples(40))
@given(standings, all_options)
def test_every_shortfall_is_answered_in_words(standing: Standing, options: Options) -> None:
    planned = plan(standing, options)

    served = {(each.recipient, each.fingerprint) for each in planned.proposals}
    missing = [m for each in standing.shards.values() for m in each.missing]
    told = render(planned)
    assert len(served) + len(planned.verdicts) == len(missing)
    assert len(told) == max(1, len(planned.proposals) + len(planned.verdicts))
    assert all(line.isprintable() and "{" not in line for line in told)
