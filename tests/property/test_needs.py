from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import strategies
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement, aggregate
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import Profile
from mainstay.model.resources import add, covers, largest
from outside import examples

ROLL_UPS: Final = {
    cluster: st.lists(strategies.needs(ClusterId(cluster)), max_size=3)
    for cluster in strategies.CLUSTERS
}


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[NeedProfile, NeedProfile]:
    """A profile, and the same one with everything in another order."""
    profile = draw(strategies.need_profiles())
    requirements = [
        Requirement(r.key, r.operator, tuple(draw(st.permutations(r.values))))
        for r in draw(st.permutations(profile.requirements))
    ]
    spread = draw(st.permutations(profile.spread))
    other = replace(profile, requirements=tuple(requirements), spread=tuple(spread))
    return profile, other


@given(shuffled())
def test_the_order_in_which_demand_is_told_does_not_matter(
    pair: tuple[NeedProfile, NeedProfile],
) -> None:
    profile, other = pair

    assert other == profile
    assert other.fingerprint == profile.fingerprint


@given(strategies.need_profiles(), strategies.need_profiles())
def test_fingerprints_are_equal_exactly_when_profiles_are(
    one: NeedProfile, other: NeedProfile
) -> None:
    assert (one.fingerprint == other.fingerprint) == (one == other)


free_requirements = st.builds(
    Requirement,
    key=st.text("a1:,r", max_size=3),
    operator=st.sampled_from(Operator),
    values=st.lists(st.text("a1:,r", max_size=3), max_size=3).map(tuple),
)


@given(st.lists(free_requirements, max_size=3), st.lists(free_requirements, max_size=3))
def test_no_choice_of_labels_can_imitate_another_profile(
    one: list[Requirement], other: list[Requirement]
) -> None:
    """Separators inside keys and values included."""
    first, second = NeedProfile(tuple(one)), NeedProfile(tuple(other))

    assert (first.fingerprint == second.fingerprint) == (first == second)


@given(strategies.need_profiles(), strategies.profiles())
def test_a_machine_matches_when_it_fulfils_each_requirement_alone(
    need: NeedProfile, profile: Profile
) -> None:
    alone = [NeedProfile(requirements=(r,)).matches(profile) for r in need.requirements]

    assert need.matches(profile) == all(alone)


@given(st.lists(strategies.needs(), max_size=6))
def test_aggregation_loses_nothing_and_names_each_need_once(rows: list[Need]) -> None:
    joined = aggregate(rows)

    assert [row.ref for row in joined] == list(dict.fromkeys(row.ref for row in rows))
    for row in joined:
        parts = [need for need in rows if need.ref == row.ref]
        total: dict[str, int] = {}
        unit: dict[str, int] = {}
        for part in parts:
            total, unit = add(total, part.aggregate), largest(unit, part.min_unit)
            assert covers(row.min_unit, part.min_unit)
        assert (row.aggregate, row.min_unit) == (total, unit)


@given(st.lists(strategies.needs(), max_size=6))
def test_aggregating_again_changes_nothing(rows: list[Need]) -> None:
    once = aggregate(rows)

    assert aggregate(once) == once


class NeedsTableAgainstDict(RuleBasedStateMachine):
    """The table behaves like a plain dict of lists in which every roll-up replaces its cluster."""

    rollups = Bundle("rollups")

    @initialize()
    def start(self) -> None:
        self.table = NeedsTable()
        self.model: dict[ClusterId, list[Need]] = {}
        self.changes: dict[ClusterId, int] = {}
        self.count = 0

    @rule(target=rollups, cluster=strategies.cluster_ids(), data=st.data())
    def a_cluster_sends(
        self, cluster: ClusterId, data: st.DataObject
    ) -> tuple[ClusterId, list[Need]]:
        rows = data.draw(ROLL_UPS[cluster])
        self._replace(cluster, rows)
        return cluster, rows

    @rule(rollup=rollups)
    def a_cluster_sends_again(self, rollup: tuple[ClusterId, list[Need]]) -> None:
        self._replace(*rollup)

    @rule(cluster=strategies.cluster_ids())
    def a_cluster_withdraws(self, cluster: ClusterId) -> None:
        self._replace(cluster, [])

    @rule(cluster=strategies.cluster_ids(), other=strategies.cluster_ids(), data=st.data())
    def a_cluster_speaks_for_another(
        self, cluster: ClusterId, other: ClusterId, data: st.DataObject
    ) -> None:
        if cluster == other:
            return
        rows = data.draw(ROLL_UPS[cluster])
        stranger = data.draw(strategies.needs(other))
        with pytest.raises(Rejected, match=f"row {len(rows)} "):
            self.table.replace(cluster, [*rows, stranger])

    def _replace(self, cluster: ClusterId, rows: list[Need]) -> None:
        changes = self.model.get(cluster, []) != rows
        if changes:
            self.count += 1
            self.changes[cluster] = self.count
            self.model[cluster] = rows

        assert self.table.replace(cluster, rows) == changes

    @invariant()
    def every_cluster_has_exactly_what_it_sent_last(self) -> None:
        for cluster, rows in self.model.items():
            assert list(self.table.of_cluster(cluster)) == rows
        assert len(self.table) == sum(map(len, self.model.values()))

    @invariant()
    def the_snapshot_is_all_of_it_in_order(self) -> None:
        rows = [
            (-need.profile.priority, need.arrival_nanos, cluster, position, need)
            for cluster, needs in self.model.items()
            for position, need in enumerate(needs)
        ]
        expected = [row[-1] for row in sorted(rows, key=lambda row: row[:-1])]

        assert list(self.table.snapshot()) == expected

    @invariant()
    def revisions_count_the_changes(self) -> None:
        assert self.table.revision == self.count
        assert dict(self.table.revisions) == self.changes


TestNeedsTableAgainstDict = NeedsTableAgainstDict.TestCase
TestNeedsTableAgainstDict.settings = settings(max_examples=examples(30), stateful_step_count=15)
