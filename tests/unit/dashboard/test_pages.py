"""What the pages ask for, and what they do."""

from typing import Any

import pytest

from dashboards import FakeShard, FakeTenancy, Visitor
from mainstay.dashboard.page import PAGES_MAX
from mainstay.model import questions as q
from mainstay.model import views as v

ALLOCATION: dict[str, Any] = {
    "allocation_id": "alc_1", "project_id": "prj", "status": "active", "sku": "s", "gpus": 2,
    "region": "r", "capacity_shape": "gpu_slice", "node_id": "n",
    "price": {"gpu_hour_minor": 450, "currency": "USD"}, "created_at": "2026-01-01T00:00:00Z",
    "provisioning_started_at": None, "active_at": None, "releasing_at": None, "released_at": None,
    "failed_at": None, "release_failed_at": None, "release_attempt": 1, "cancel_requested": False,
    "failure": None, "correlation_id": "c", "requested_by": "me", "connection": {},
    "ssh_key_ids": [], "claims": [], "proof": None,
}  # fmt: skip


def tenancy(**changes: Any) -> FakeTenancy:
    row = {**ALLOCATION, **changes}
    return FakeTenancy({
        "/admin/allocations/alc_1": row,
        "/admin/allocations": {"items": [row], "next_cursor": None},
        "/allocations/alc_1/timeline": {"moments": []},
    })  # fmt: skip


def test_no_page_ever_asks_for_all_machines() -> None:
    shard = FakeShard("shard-a", count=500_000)
    visitor = Visitor(shard).sign_in()
    for path in ("/", "/machines", "/machines?page=3", "/machines?page=999999", "/shards"):
        assert visitor.get(path).status_code == 200
        visitor.clock.advance(5)
    limits = [query.limit for query in shard.asked if isinstance(query, v.MachineQuery)]
    assert limits == [50, 150, PAGES_MAX * 50]


def test_pages_go_through_the_machines_of_all_shards_in_the_order_of_their_ids() -> None:
    shards = FakeShard("1", count=40, machine="b"), FakeShard("2", count=40, machine="a")
    visitor = Visitor(*shards).sign_in()
    first, second = visitor.get("/machines").text, visitor.get("/machines?page=2").text
    assert ("a-00039" in first, "b-00009" in first, "b-00010" in first) == (True, True, False)
    assert ("b-00010" in second, "b-00039" in second, 'rel="next"' in second) == (True, True, False)
    assert "80 machines" in first


def test_numbers_of_a_shard_that_stops_stay_and_say_since_when() -> None:
    shard, other = FakeShard("shard-a", count=12), FakeShard("shard-b", count=5)
    visitor = Visitor(shard, other).sign_in()
    assert "stale since" not in visitor.get("/").text
    shard.silent = True
    visitor.clock.advance(90)
    text = visitor.get("/").text
    assert "is stale since 00:16:40 UTC (2 min): shard shard-a does not answer" in text
    assert 'href="/machines">17<' in text


def test_a_shard_that_never_answered_is_told_as_such() -> None:
    text = Visitor(FakeShard("shard-a", silent=True)).sign_in().get("/shards").text
    assert "It has told nothing yet." in text


def test_a_control_is_set_with_its_reason_and_its_end_and_lifted() -> None:
    shard = FakeShard("shard-a")
    visitor = Visitor(shard).sign_in()
    done = visitor.post("/controls/set", csrf=visitor.csrf, shard="shard-a", kind="reclaim_cap",
                        value="0.1", cluster="blue", reason="why", minutes="5")  # fmt: skip
    assert (done.status_code, done.headers["location"]) == (303, "/controls")
    visitor.post("/controls/lift", csrf=visitor.csrf, shard="shard-a", kind="pause")
    assert shard.told == [
        q.SetControlRequest(kind="reclaim_cap", cluster="blue", value=0.1, reason="why",
                            for_s=300.0, by="dashboard"),
        q.LiftControlRequest(kind="pause", reason="lifted on the dashboard", by="dashboard"),
    ]  # fmt: skip


@pytest.mark.parametrize("fields", [{"shard": "none"}, {"shard": "shard-a", "minutes": "soon"}])
def test_what_is_refused_says_so_on_the_page(fields: dict[str, str]) -> None:
    visitor = Visitor(FakeShard("shard-a")).sign_in()
    done = visitor.post("/controls/set", csrf=visitor.csrf, kind="pause", **fields)
    visitor.cookies["mainstay_notice"] = done.cookies["mainstay_notice"]
    assert 'class="notice bad" role="alert"' in visitor.get("/controls").text


def test_an_allocation_is_asked_for_once_for_each_form() -> None:
    tenants = tenancy()
    visitor = Visitor(tenants=tenants).sign_in()
    for _ in range(2):
        visitor.post("/allocations/create", csrf=visitor.csrf, offer="s@r", gpus="2",
                     project="prj", nonce="n1")  # fmt: skip
    body = {"sku": "s", "gpus": 2, "region": "r"}
    assert tenants.posted == [("/allocations", body, "dashboard-n1")] * 2


@pytest.mark.parametrize(
    ("status", "buttons"),
    [
        ("requested", {"release"}), ("active", {"release"}), ("releasing", set()),
        ("released", set()), ("failed", {"retry"}), ("release_failed", {"retry"}),
    ],
)  # fmt: skip
def test_an_allocation_has_the_buttons_of_its_state(status: str, buttons: set[str]) -> None:
    text = Visitor(tenants=tenancy(status=status)).sign_in().get("/allocations/alc_1").text
    assert {name for name in ("release", "retry") if f'id="{name}"' in text} == buttons


@pytest.mark.parametrize(
    ("status", "path"),
    [("failed", "/allocations"), ("release_failed", "/admin/allocations/alc_1/force-release")],
)
def test_to_try_again_is_a_clean_up_or_a_new_order(status: str, path: str) -> None:
    tenants = tenancy(status=status)
    visitor = Visitor(tenants=tenants).sign_in()
    visitor.post("/allocations/alc_1/retry", csrf=visitor.csrf, nonce="n")
    assert [posted[0] for posted in tenants.posted] == [path]


def test_what_nobody_knows_is_a_page_that_says_so() -> None:
    visitor = Visitor(FakeShard("shard-a"), tenants=FakeTenancy({})).sign_in()
    assert visitor.get("/shards/none").status_code == 404
    assert visitor.get("/machines/unknown").status_code == 503
    assert "no such machine here" in visitor.get("/machines/unknown").text
    assert "nothing at" in visitor.get("/nodes/none").text


def test_a_fleet_of_nothing_is_shown_as_nothing() -> None:
    visitor = Visitor().sign_in()
    for path in ("/", "/shards", "/clusters", "/needs", "/machines", "/nodes", "/allocations",
                 "/audit", "/controls"):  # fmt: skip
        assert visitor.get(path).status_code == 200
    assert "no coordinator runs here" in visitor.get("/shards").text
    assert "no API of tenants runs here" in visitor.get("/allocations").text
