from typing import Final

import pytest

from builders import a_need, a_need_profile
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.needs import NeedsTable, replaced

WEB: Final = ClusterId("web")
BATCH: Final = ClusterId("batch")
LARGE: Final = {"cpu": 64_000}


def of(cluster: str, *, priority: int = 100, arrival_nanos: int = 0, group: str = "") -> Need:
    return a_need(
        cluster=cluster, profile=a_need_profile(priority=priority), arrival_nanos=arrival_nanos,
        group=group,
    )  # fmt: skip


def a_table(*needs: Need) -> NeedsTable:
    table = NeedsTable()
    for cluster in dict.fromkeys(need.cluster for need in needs):
        table.replace(cluster, [need for need in needs if need.cluster == cluster])
    return table


def test_at_first_nobody_asks_for_anything() -> None:
    table = NeedsTable()

    assert table.snapshot() == ()
    assert table.of_cluster(WEB) == ()
    assert len(table) == 0
    assert table.revision == 0
    assert dict(table.revisions) == {}


def test_a_roll_up_replaces_all_that_the_cluster_asked_for() -> None:
    table = a_table(of("web", group="gang-1"), of("web", group="gang-2"))

    table.replace(WEB, [of("web", group="gang-3")])

    assert table.of_cluster(WEB) == (of("web", group="gang-3"),)


def test_a_roll_up_leaves_the_other_clusters_alone() -> None:
    table = a_table(of("web"), of("batch"))

    table.replace(WEB, [a_need(aggregate=LARGE)])

    assert table.of_cluster(BATCH) == (of("batch"),)


def test_the_same_roll_up_again_changes_nothing() -> None:
    table = a_table(of("web"))
    before = table.snapshot()

    changed = table.replace(WEB, [of("web")])

    assert not changed
    assert table.revision == 1
    assert table.snapshot() is before


def test_an_empty_roll_up_withdraws_everything() -> None:
    table = a_table(of("web"), of("batch"))

    changed = table.replace(WEB, [])

    assert changed
    assert table.of_cluster(WEB) == ()
    assert table.snapshot() == (of("batch"),)
    assert len(table) == 1


def test_withdrawing_is_a_change_that_is_remembered() -> None:
    table = a_table(of("web"), of("batch"))

    table.replace(WEB, [])

    assert dict(table.revisions) == {WEB: 3, BATCH: 2}


def test_withdrawing_what_was_never_asked_for_changes_nothing() -> None:
    table = NeedsTable()

    assert not table.replace(WEB, [])
    assert table.revision == 0
    assert dict(table.revisions) == {}


def test_every_change_gets_the_next_revision() -> None:
    table = a_table(of("web"))

    table.replace(BATCH, [of("batch")])
    table.replace(WEB, [a_need(aggregate=LARGE)])

    assert table.revision == 3
    assert dict(table.revisions) == {WEB: 3, BATCH: 2}


def test_a_row_of_another_cluster_refuses_the_whole_roll_up() -> None:
    """Last known good demand stays."""
    table = a_table(of("web"))

    with pytest.raises(Rejected, match="row 1 of cluster web names cluster batch"):
        table.replace(WEB, [a_need(aggregate=LARGE), of("batch")])

    assert table.of_cluster(WEB) == (of("web"),)
    assert table.revision == 1


def test_rows_that_are_read_only_once_are_all_taken() -> None:
    table = NeedsTable()

    table.replace(WEB, (of("web", group=group) for group in ("gang-1", "gang-2")))

    assert len(table) == 2


def test_higher_priority_comes_first() -> None:
    table = a_table(of("web", priority=1), of("web", priority=-5), of("web", priority=9))

    assert [need.profile.priority for need in table.snapshot()] == [9, 1, -5]


def test_among_equal_priorities_the_earlier_comes_first() -> None:
    table = a_table(of("batch", arrival_nanos=7), of("web", arrival_nanos=3))

    assert [need.arrival_nanos for need in table.snapshot()] == [3, 7]


def test_among_equal_arrivals_clusters_are_in_order() -> None:
    table = a_table(of("web"), of("batch"), of("train"))

    assert [need.cluster for need in table.snapshot()] == ["batch", "train", "web"]


def test_among_equals_the_rows_of_a_cluster_stay_as_they_were_sent() -> None:
    table = a_table(of("web", group="z"), of("web", group="a"), of("web", group="m"))

    assert [need.group for need in table.snapshot()] == ["z", "a", "m"]


def test_the_snapshot_is_the_same_object_until_something_changes() -> None:
    table = a_table(of("web"))
    first = table.snapshot()

    assert table.snapshot() is first

    table.replace(BATCH, [of("batch")])

    assert table.snapshot() is not first
    assert first == (of("web"),)


def test_nobody_can_change_the_revisions_from_outside() -> None:
    assert not hasattr(a_table(of("web")).revisions, "__setitem__")


def test_demand_that_is_told_again_keeps_its_first_arrival_and_changes_nothing() -> None:
    """Or every roll-up would be a change, and equal rivals would take turns (scenario S96)."""
    table = NeedsTable()
    table.replace(ClusterId("web"), [a_need(cluster="web", arrival_nanos=10)])

    changed = table.replace(ClusterId("web"), [a_need(cluster="web", arrival_nanos=20)])

    assert not changed
    assert [need.arrival_nanos for need in table.snapshot()] == [10]
    assert table.revision == 1


def test_what_a_roll_up_makes_of_the_rows_is_known_before_they_are_swapped() -> None:
    table = a_table(of("web", arrival_nanos=10))
    before = table.of_cluster(WEB)

    rows = replaced(WEB, before, [of("web", arrival_nanos=20), of("web", group="gang-1")])

    assert table.of_cluster(WEB) is before
    assert table.swap(WEB, rows)
    assert table.of_cluster(WEB) is rows
    assert [need.arrival_nanos for need in rows] == [10, 0]
    assert replaced(WEB, rows, list(rows)) is rows
    assert not table.swap(WEB, rows)
