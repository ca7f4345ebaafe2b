"""What the pages ask for, and what they do."""

import html
import inspect
import json
import re
from typing import Any

import pytest

from dashboards import FakeCoordinator, FakeShard, FakeTenancy, Visitor
from mainstay.dashboard.access import Role
from mainstay.dashboard.draw import grid
from mainstay.dashboard.draw_slots import Slot, slot_tree
from mainstay.dashboard.pages.reasons import BEGINNINGS, funnel, part_of
from mainstay.dashboard.paging import ASKED, SIZE
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.shard.answers import sentences, when

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


PATHS = (
    "/", "/shards", "/clusters", "/needs", "/whatif", "/machines", "/racks", "/nodes",
    "/allocations", "/money", "/quotas", "/moves", "/audit", "/controls",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_page_makes_a_shard_send_more_than_a_page_of_rows(path: str) -> None:
    shard = FakeShard("shard-a", count=500_000, needs_count=5_000, actions_count=2_000,
                      racks_count=31_250)  # fmt: skip
    assert Visitor(shard).sign_in().get(path).status_code == 200
    limits = [query.limit for query in shard.asked if hasattr(query, "limit")]
    assert all(0 < limit <= 200 for limit in limits)
    assert shard.sent <= 2 * 200


def onward(text: str) -> str:
    """Where the link to the next page leads; nowhere on the last one."""
    found = re.search(r'<a href="([^"]+)" rel="next"', text)
    return html.unescape(found[1]) if found else ""


def through(visitor: Visitor, path: str, name: str) -> list[list[str]]:
    """What each page shows of rows that are called like that, from the first to the last."""
    pages = []
    while path:
        text = visitor.get(path).text
        pages.append(list(dict.fromkeys(re.findall(name, text))))
        path = onward(text)
        assert len(pages) < 20
    return pages


def test_pages_go_through_the_machines_of_all_shards_in_the_order_of_their_ids() -> None:
    shards = FakeShard("1", count=60, machine="b"), FakeShard("2", count=60, machine="a")
    visitor = Visitor(*shards).sign_in()
    pages = through(visitor, "/machines", r"[ab]-000\d\d")
    every = [f"{name}-{place:05}" for name in "ab" for place in range(60)]
    assert [name for page in pages for name in page] == every
    assert [len(page) for page in pages] == [SIZE, SIZE, 20]
    assert "120 machines" in visitor.get("/machines").text
    assert {query.limit for shard in shards for query in shard.asked} == {ASKED}


@pytest.mark.parametrize(
    ("path", "name"), [("/needs", r"\w/(\w-\d+)"), ("/audit", r"/machines/(\w-\d+)")]
)
def test_pages_over_shards_show_every_row_once(path: str, name: str) -> None:
    shards = [
        FakeShard("x", needs_count=70, actions_count=70),
        FakeShard("y", needs_count=9, actions_count=9),
        FakeShard("z", needs_count=130, actions_count=130),
    ]
    pages = through(Visitor(*shards).sign_in(), path, name)
    shown = [row for page in pages for row in page]
    every = {f"{s.name}-{place}" for s in shards for place in range(1, s.needs_count + 1)}
    assert (len(shown), set(shown)) == (len(every), every)
    assert max(len(page) for page in pages) == SIZE


def test_racks_are_drawn_from_counts_and_one_that_two_shards_have_is_one() -> None:
    shards = FakeShard("1", machine="z", racks_count=60), FakeShard("2", machine="z", racks_count=1)
    visitor = Visitor(*shards).sign_in()
    text = visitor.get("/racks").text
    assert "rack z-r00000: Configured 6, Idle 4" in text
    assert "rack z-r00001: Configured 3, Idle 2" in text
    assert text.count('class="cell ') == 10 + 47 * 5
    assert [len(page) for page in through(visitor, "/racks", r">z-r\d+<")] == [48, 12]
    one = visitor.get("/racks/one?value=z-r00000").text
    assert "rack z-r00000: Configured 6, Idle 4" in one
    assert "/whatif?rack=z-r00000" in one
    assert visitor.get("/racks/one?value=none").status_code == 404


def test_a_box_of_a_large_rack_stands_for_several_machines() -> None:
    drawn = grid("rack r", {"Configured": 900, "Failed": 1}, 48).text
    assert (drawn.count("fill-configured"), drawn.count("fill-failed")) == (48, 1)
    assert "a box stands for 19" in drawn


def test_what_if_asks_for_what_the_form_says_and_tells_actions_and_dollars() -> None:
    shard = FakeShard("shard-a")
    visitor = Visitor(shard).sign_in(Role.READONLY)
    text = visitor.get("/whatif?zone=z1&rack=r7&capacity=spot&factor=1.5&cluster=c&cpu=64").text
    (query,) = [each for each in shard.asked if isinstance(each, q.WhatIfQuery)]
    assert query.lost_zones == ("z1",)
    assert query.lost[0].matches == (q.Match(key="topology.bigfleet/rack", values=("r7",)),)
    assert query.prices == (
        q.PriceChange(selection=q.Selection(capacity_types=("spot",)), factor=1.5),
    )
    assert (query.additions[0].cluster, query.additions[0].need.aggregate_resources) == (
        "c", {"cpu": "64"},
    )  # fmt: skip
    assert ("+$2.50 per hour" in text, ">+3<" in text, "Nothing was done" in text) == (True,) * 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("capacity=spot&factor=twice", "not a factor for a price: twice"),
        ("cluster=c", "how much more?"),
        ("cluster=c&cpu=1&priority=high", "not a priority: high"),
    ],
)
def test_a_what_if_that_cannot_be_asked_says_why(asked: str, said: str) -> None:
    shard = FakeShard("shard-a")
    text = Visitor(shard).sign_in().get(f"/whatif?{asked}").text
    assert said in text
    assert not [each for each in shard.asked if isinstance(each, q.WhatIfQuery)]


def test_an_explanation_is_told_in_its_parts_with_the_funnel() -> None:
    """Which part is which is known by how sentences begin, so the beginnings must stay theirs."""
    source = inspect.getsource(sentences) + inspect.getsource(when)
    assert [start for start, _ in BEGINNINGS if start.removeprefix("It is ") not in source
            and start not in {"The need ", "The gang "}] == []  # fmt: skip
    assert part_of("It misses cpu 4 (starved): so.") == "Reason"
    assert part_of("Nobody knows this one.") == "More"
    steps = [{"filter": "fleet", "left": 10}, {"filter": "quota", "left": 2}]
    drawn = funnel(json.dumps({"funnel": steps, "blocking": 1})).text
    assert drawn.index("The whole fleet") < drawn.index("Within the quota") < drawn.index("blocks")


def test_quotas_moves_and_instructions_are_those_of_the_coordinator() -> None:
    visitor = Visitor(FakeShard("shard-a"), coordinating=FakeCoordinator()).sign_in()
    quotas, moves = visitor.get("/quotas").text, visitor.get("/moves").text
    assert "cluster blue: 60 of 100 granted" in quotas
    assert ("mv-1" in moves, "take 2 machines" in moves, "retry: busy" in moves) == (True,) * 3


@pytest.mark.parametrize("by", ["class", "cluster", "type"])
def test_money_is_told_by_class_cluster_and_type(by: str) -> None:
    shard = FakeShard("shard-a")
    text = Visitor(shard).sign_in().get(f"/money?by={by}").text
    assert [each.by for each in shard.asked if isinstance(each, v.MoneyQuery)] == [by]
    kinds = {each.kind for each in shard.asked if isinstance(each, v.ActionQuery)}
    assert ("$1.00" in text, kinds) == (True, {"reclaim", "preempt"})


def test_what_the_overview_says_is_spent_is_what_the_page_of_money_says() -> None:
    visitor = Visitor(FakeShard("shard-a"), FakeShard("shard-b")).sign_in()
    assert "<dd>$2.00</dd>" in visitor.get("/").text
    assert "per hour, $0.50 idle" in visitor.get("/").text


def slots_of(*status: str) -> str:
    found = (Slot(index, each, 0) for index, each in enumerate(status))
    return slot_tree("n", found).text


def test_a_block_of_slots_is_free_only_when_all_of_it_is() -> None:
    free, used = "available", "in_use"
    assert "a block of 8 can be given out" in slots_of(*[free] * 8)
    torn = slots_of(used, *[free] * 7)
    assert "a block of 4 can be given out" in torn
    looks = re.findall(r"slot slot-(\w+)", torn)
    assert looks[:7] == ["part", "part", "free", "part", "free", "free", "free"]
    assert looks[7:] == ["held", *["free"] * 7]
    assert "nothing is free" in slots_of("releasing", "cleanup_blocked", "disabled", "reserved")


def test_an_allocation_shows_its_bill_and_its_proof() -> None:
    tenants = tenancy(proof={"scrubbed": True})
    line = {
        "allocation": "alc_1", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z",
        "seconds": 3600, "gpus": 2, "price_minor": 450, "amount_minor": 900,
    }  # fmt: skip
    lines = [line, {**line, "allocation": "alc_2", "amount_minor": 77_777}]
    tenants.answers = {
        **tenants.answers, "/billing/statement": {"currency": "USD", "lines": lines}
    }  # fmt: skip
    text = Visitor(tenants=tenants).sign_in().get("/allocations/alc_1").text
    assert ("9.00 USD" in text, "777.77" in text, "scrubbed" in text) == (True, False, True)


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
    for path in PATHS:
        assert visitor.get(path).status_code == 200
    assert "no coordinator runs here" in visitor.get("/shards").text
    assert "no API of tenants runs here" in visitor.get("/allocations").text
