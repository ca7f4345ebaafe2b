"""Answers in pages, and machines counted by an attribute: nobody has to be sent a whole fleet."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from typing_extensions import override

from live_shard import RACK, FakeShard, a_shard, a_view, fleet
from mainstay.model.errors import Rejected
from mainstay.model.group_views import GroupQuery, GroupRow, GroupRows
from mainstay.model.ids import MachineId
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.model.views import (
    ActionQuery,
    ActionRow,
    ClusterQuery,
    MachineQuery,
    MachineRow,
    MachineRows,
    NeedQuery,
    NeedRow,
    ShortfallQuery,
)
from mainstay.shard.orders import Told
from virtual_loop import run


def machines(query: MachineQuery) -> MachineRows:
    async def asked() -> MachineRows:
        (chunk,) = [chunk async for chunk in a_view(a_shard()).machines(query)]
        return chunk

    return run(asked())


def groups(query: GroupQuery) -> GroupRows:
    return run(a_view(a_shard()).groups(query))


class TestPages:
    @pytest.mark.parametrize("states", [(), (State.IDLE, State.FAILED)])
    def test_pages_of_machines_are_the_whole_list_and_each_says_how_many_there_are(
        self, states: tuple[State, ...]
    ) -> None:
        whole, after = machines(MachineQuery(states=states)), ""
        found: list[MachineRow] = []
        while rows := (page := machines(MachineQuery(states=states, limit=7, after=after))).rows:
            assert (page.matched, len(rows) <= 7) == (whole.matched, True)
            found += rows
            assert len(found) <= 300
            after = rows[-1].id
        assert tuple(found) == whole.rows

    def test_a_page_goes_on_behind_a_machine_that_is_gone(self) -> None:
        page = machines(MachineQuery(limit=2, after="c-0035"))
        assert [row.id for row in page.rows] == ["c-004", "c-005"]

    def test_machines_of_one_rack_may_be_asked_for(self) -> None:
        page = machines(MachineQuery(attribute=RACK, value="r3"))
        meant = sorted(m.id for m in fleet() if m.profile.attribute(RACK) == "r3")
        assert [row.id for row in page.rows] == meant

    def test_pages_of_needs_keep_the_order_in_which_they_are_served(self) -> None:
        view, after = a_view(a_shard()), 0
        found: list[NeedRow] = []
        while rows := run(view.needs(NeedQuery(limit=1, after=after))).rows:
            found += rows
            assert len(found) <= 300
            after = rows[-1].place
        assert [row.place for row in found] == [1, 2, 3]
        assert tuple(found) == run(view.needs(NeedQuery())).rows

    def test_a_page_of_unmet_needs_goes_on_behind_a_place_of_all_needs(self) -> None:
        view = a_view(a_shard())
        first, second = run(view.needs(NeedQuery(unmet=True))).rows
        assert run(view.needs(NeedQuery(unmet=True, after=first.place))).rows == (second,)

    def test_pages_of_clusters_and_the_first_shortfalls(self) -> None:
        view = a_view(a_shard())
        page = run(view.clusters(ClusterQuery(limit=1, after="batch")))
        assert (page.matched, [row.cluster for row in page.rows]) == (3, ["late"])
        short = run(view.shortfalls(ShortfallQuery(limit=1)))
        assert (short.matched, len(short.rows)) == (2, 1)

    def test_a_limit_below_zero_is_refused(self) -> None:
        view, limit = a_view(a_shard()), -1
        for asked in (
            view.clusters(ClusterQuery(limit=limit)),
            view.shortfalls(ShortfallQuery(limit=limit)),
            view.groups(GroupQuery(attribute=RACK, limit=limit)),
        ):
            with pytest.raises(Rejected, match="limit must not be negative: -1"):
                run(asked)


class Busy(FakeShard):
    """One that remembers forty actions."""

    @override
    def recent(self) -> Sequence[Told]:
        executed, capped = super().recent()
        return [self._other(capped if place % 4 else executed, place) for place in range(40)]

    def _other(self, told: Told, place: int) -> Told:
        record = told.disposed
        action = replace(record.order.action, machine=MachineId(f"m-{place}"))
        order = replace(record.order, action=action)
        return Told(told.at_s, replace(record, order=order, cycle=12 + place // 9))


class TestActions:
    def test_pages_of_actions_are_the_whole_list_newest_first(self) -> None:
        view, after = a_view(Busy()), ""
        found: list[ActionRow] = []
        while rows := run(view.actions(ActionQuery(limit=7, after=after))).rows:
            found += rows
            assert len(found) <= 300
            after = rows[-1].id
        assert [row.machine for row in found] == [f"m-{place}" for place in reversed(range(40))]

    def test_behind_an_action_that_is_forgotten_there_is_nothing(self) -> None:
        told = run(a_view(Busy()).actions(ActionQuery(after="1-1-reclaim-executed-m-x")))
        assert (told.matched, told.rows) == (40, ())

    def test_actions_of_one_kind_may_be_asked_for(self) -> None:
        told = run(a_view(Busy()).actions(ActionQuery(kind="bootstrap", limit=3)))
        assert (told.matched, {row.kind for row in told.rows}) == (10, {"bootstrap"})


class TestGroups:
    def test_racks_are_counted_by_state_and_add_up_to_the_fleet(self) -> None:
        told = groups(GroupQuery(attribute=RACK))
        assert [row.value for row in told.rows] == [f"r{number}" for number in range(10)]
        for row in told.rows:
            meant = [m for m in fleet() if m.profile.attribute(RACK) == row.value]
            assert row.machines == Counter(str(m.state) for m in meant)
            paid = (m.price_per_hour for m in meant if m.state is not State.SPECULATIVE)
            assert row.spend_per_hour == pytest.approx(sum(paid))

    def test_only_one_zone_or_one_value_may_be_asked_for(self) -> None:
        in_b = groups(GroupQuery(attribute=RACK, zone="zone-b"))
        assert sum(sum(row.machines.values()) for row in in_b.rows) == 76
        (zone,) = groups(GroupQuery(attribute=ZONE_KEY, value="zone-b")).rows
        assert sum(zone.machines.values()) == 76

    def test_pages_of_groups_are_the_whole_list(self) -> None:
        found: list[GroupRow] = []
        after = ""
        while rows := groups(GroupQuery(attribute=RACK, limit=3, after=after)).rows:
            found += rows
            assert len(found) <= 300
            after = rows[-1].value
        assert tuple(found) == groups(GroupQuery(attribute=RACK)).rows

    def test_machines_without_the_attribute_are_in_no_group(self) -> None:
        told = groups(GroupQuery(attribute="pool"))
        assert (told.matched, told.rows) == (0, ())

    def test_by_nothing_is_refused_and_before_the_first_cycle_there_is_nothing(self) -> None:
        with pytest.raises(Rejected, match="by which attribute"):
            groups(GroupQuery(attribute=""))
        assert run(a_view(FakeShard()).groups(GroupQuery(attribute=RACK))).rows == ()
