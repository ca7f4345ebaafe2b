"""What the pages ask for, and what they do."""

import html
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

import pytest
from typing_extensions import override

from dashboards import (
    UNSPECIFIED,
    FakeCoordinator,
    FakeShard,
    FakeSources,
    FakeTenancy,
    Visitor,
    an_allocation,
    tenancy,
)  # fmt: skip
from mainstay.dashboard.access import Role
from mainstay.dashboard.app import build
from mainstay.dashboard.draw import grid
from mainstay.dashboard.draw_slots import Slot, slot_tree
from mainstay.dashboard.html import written_query
from mainstay.dashboard.pages.needs import PATIENCE_S
from mainstay.dashboard.pages.reasons import BEGINNINGS, funnel, part_of
from mainstay.dashboard.paging import ASKED, SIZE
from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.shard.answers import sentences, when
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.billing.standing import State as Standing

PATHS = (
    "/", "/shards", "/clusters", "/needs", "/whatif", "/machines", "/racks", "/nodes",
    "/allocations", "/money", "/quotas", "/moves", "/audit", "/controls",
)  # fmt: skip

ALC_1 = "/allocations/alc_1"


@pytest.mark.parametrize("path", PATHS)
def test_no_page_makes_a_shard_send_more_than_a_page_of_rows(path: str) -> None:
    shard = FakeShard("shard-a", count=500_000, needs_count=5_000, actions_count=2_000,
                      racks_count=31_250)  # fmt: skip
    assert Visitor(shard).sign_in().get(path).status_code == 200
    limits = [query.limit for query in shard.asked if hasattr(query, "limit")]
    assert all(0 < limit <= 200 for limit in limits)
    assert shard.sent <= 2 * 200


@pytest.mark.parametrize(("path", "lives"), [("/", True), ("/whatif", False), ("/none", False)])
def test_only_a_page_with_something_live_asks_again(path: str, lives: bool) -> None:
    text = Visitor(FakeShard("shard-a")).sign_in().get(path).text
    assert ("/static/live.js" in text, 'id="live-toggle"' in text) == (lives, lives)


def test_who_looks_at_an_explanation_does_not_wait_for_every_change_to_be_tried() -> None:
    shard = FakeShard("shard-a")
    Visitor(shard).sign_in().get("/needs/explain?cluster=shard-a&need=f")
    assert [asked.patience_s for asked in shard.asked] == [PATIENCE_S]
    assert 0 < PATIENCE_S <= 0.8


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
    pages = through(visitor, "/machines", r">([ab]-000\d\d)<")
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


def test_needs_are_filtered_by_reason_and_least_priority_in_the_address() -> None:
    shard = FakeShard("shard-a", needs_count=90)
    text = Visitor(shard).sign_in().get("/needs?reason=starved&priority=-5&unmet=1").text
    (query,) = [each for each in shard.asked if isinstance(each, v.NeedQuery)]
    assert (query.reason, query.least_priority, query.unmet) == ("starved", -5, True)
    assert '<option value="starved" selected>' in text
    assert 'name="priority" id="field-priority" value="-5"' in text
    assert "reason=starved&priority=-5&unmet=1&after=" in html.unescape(onward(text))


@pytest.mark.parametrize("wrong", ["high", "1.5", "9999999999", "²"])
def test_a_least_priority_that_is_none_is_told_and_not_asked_for(wrong: str) -> None:
    shard = FakeShard("shard-a")
    text = Visitor(shard).sign_in().get(f"/needs?priority={wrong}").text
    assert f"not a priority: {wrong}" in text
    assert not [each for each in shard.asked if isinstance(each, v.NeedQuery)]


@pytest.mark.parametrize("path", ["/", "/audit", "/clusters/shard-a", "/machines/shard-a-1"])
def test_an_action_says_when_it_was_and_leads_to_the_need_it_was_for(path: str) -> None:
    text = Visitor(FakeShard("shard-a", at_s=1_763_502_009.5)).sign_in().get(path).text
    assert ">2025-11-18 21:40:09<" in text
    assert 'href="/needs/explain?shard=shard-a&amp;cluster=shard-a&amp;need=shard-a"' in text


def test_of_an_action_whose_shard_does_not_say_when_no_time_is_made_up() -> None:
    text = Visitor(FakeShard("shard-a")).sign_in().get("/audit").text
    assert ("shard-a-1" in text, "1970" in text) == (True, False)


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


def test_of_several_shards_a_what_if_asks_each_for_what_is_there() -> None:
    one, two = FakeShard("shard-a", zone="z1"), FakeShard("shard-b", zone="z2")
    visitor = Visitor(one, two).sign_in()

    more = visitor.get("/whatif?cluster=shard-b&cpu=64").text
    assert [isinstance(each, q.WhatIfQuery) for each in one.asked].count(True) == 0
    assert "On the plan of cycle 7 of shard-b" in more
    assert "no shard that answers serves cluster none" in visitor.get(
        "/whatif?cluster=none&cpu=64"
    ).text  # fmt: skip

    both = visitor.get("/whatif?zone=z1&capacity=spot").text
    assert both.count("No machine of this shard has z1: that was left out.") == 1
    assert ("$20.00" in both, "$25.00" in both) == (True, True)
    alone = visitor.get("/whatif?zone=z1").text
    assert "Not in the sum: shard-b (no machine has z1)" in alone
    nowhere = visitor.get("/whatif?zone=z9&capacity=spot").text
    assert ("no machine has z9" in nowhere, "Per hour then" in nowhere) == (True, False)


def test_what_only_a_silent_shard_may_have_is_not_said_to_be_nowhere() -> None:
    silent = FakeShard("shard-b", zone="z2", silent=True)
    visitor = Visitor(FakeShard("shard-a", zone="z1"), silent).sign_in()

    text = visitor.get("/whatif?zone=z2&capacity=spot").text

    assert "Not in the sum: shard-b (shard shard-b does not answer)" in text
    assert "No machine of this shard has z2: that was left out." in text
    assert "Per hour then" in text


@dataclass(slots=True)
class Growing(FakeSources):
    """One more shard is found when it was looked so often."""

    looks: int = 0

    @override
    def shards(self) -> Mapping[str, FakeShard]:
        self.looks -= 1
        known = dict(self.found)
        return known if self.looks < 0 else {"shard-a": known["shard-a"]}


@pytest.mark.parametrize("looks", range(8))
def test_a_shard_that_appears_while_a_what_if_is_asked_does_not_spoil_it(looks: int) -> None:
    visitor = Visitor(FakeShard("shard-a")).sign_in()
    found = {name: FakeShard(name) for name in ("shard-a", "shard-b")}
    visitor.app = build(replace(visitor.parts, sources=Growing(found, looks=looks)))

    answer = visitor.get("/whatif?cluster=shard-b&cpu=64")

    known = "shard-b" if looks < 5 else "shard-a"
    assert f"On the plan of cycle 7 of {known}" in answer.text


def test_what_serves_nobody_is_told_among_the_money_and_leads_nowhere() -> None:
    text = Visitor(FakeShard("shard-a")).sign_in().get("/money?by=cluster").text

    assert 'href="/clusters/shard-a"' in text
    assert (">(nobody)<" in text, "/clusters/%28nobody" in text) == (True, False)


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
    assert [each.by for each in shard.asked if isinstance(each, m.MoneyQuery)] == [by]
    kinds = {each.kind for each in shard.asked if isinstance(each, v.ActionQuery)}
    assert ("$1.00" in text, kinds) == (True, {"reclaim", "preempt"})


def test_money_by_tenant_adds_up_to_what_the_cluster_of_tenants_costs() -> None:
    machine, made = "shard-a-00000", "1970-01-01T00:00:00Z"
    node = {"id": f"{machine}.1", "machine": machine, "gpus_total": 8, "status": "active",
            "created_at": made, "last_seen_at": None, "retired_at": None,
            "outages": []}  # fmt: skip
    row = {**an_allocation("alc_1"), "node_id": f"{machine}.1", "created_at": made,
           "active_at": made}  # fmt: skip
    tenants = FakeTenancy({
        "/admin/nodes": {"items": [node]}, "/admin/allocations": {"items": [row], "next_cursor": ""}
    })  # fmt: skip
    visitor = Visitor(FakeShard("shard-a", price=0.8), tenants=tenants).sign_in()
    text = visitor.get("/money?by=tenant").text
    cells = {
        found[0]: found[1:]
        for line in re.findall(r"<tr>(.*?)</tr>", text)
        if (
            found := [
                re.sub("<[^>]+>", "", each) for each in re.findall(r"<t[hd].*?</t[hd]>", line)
            ]
        )
    }
    assert [cells[name][1] for name in ("prj", "(unclaimed)", "(all)")] == [
        "$0.20", "$0.80", "$1.00",
    ]  # fmt: skip
    assert [cells[name][3] for name in ("prj", "(unclaimed)", "(all)")] == [
        "$0.00", "$0.10", "$0.10",
    ]  # fmt: skip
    assert [cells[name][5] for name in ("prj", "(unclaimed)", "(all)")] == [
        "$0.05", "$0.25", "$0.30",
    ]  # fmt: skip
    assert "all of the waste is at (unclaimed)" in text
    assert [cells[name][7] for name in ("prj", "(unclaimed)", "(all)")] == ["$9.00", "", "$9.00"]
    assert [cells[name][9] for name in ("prj", "(unclaimed)", "(all)")] == [
        "$8.80", "-$0.80", "$8.00",
    ]  # fmt: skip
    assert "$1.00" in cells["(all)"]
    assert ">$1.00<" in visitor.get("/money?by=cluster").text


class ManyNodes(FakeTenancy):
    """Nodes in pages, as the API tells them."""

    @override
    async def get(self, path: str, **query: Any) -> Any:
        told = await super().get(path, **query)
        if path != "/admin/nodes":
            return told
        sent = parse_qs(written_query(query)[1:])
        found = [
            {**each, "outages": [] if "outages" in sent else None} for each in told["items"]
            if each["id"] > sent.get("after", [""])[0]
            and (each["status"] == "retired") == ("retired_only" in sent)
        ]  # fmt: skip
        return {"items": found[: int(sent["limit"][0])]}


@pytest.mark.parametrize(("over", "said"), [(5_000, False), (5_001, True)])
def test_money_by_tenant_knows_each_node_in_use_behind_any_number_of_retired_ones(
    over: int, said: bool
) -> None:
    machine, made = "shard-a-00000", "1970-01-01T00:00:00Z"
    node = {"id": "z-1", "machine": machine, "gpus_total": 8, "status": "active",
            "created_at": made, "last_seen_at": None, "retired_at": None,
            "outages": []}  # fmt: skip
    lives = [
        {**node, "id": f"m-{n:05}", "machine": f"m-{n:05}", "status": "retired", "retired_at": made}
        for n in range(over)
    ]
    row = {**an_allocation("alc_1"), "node_id": "z-1", "created_at": made, "active_at": made}
    tenants = ManyNodes({
        "/admin/nodes": {"items": [*lives, node]},
        "/admin/allocations": {"items": [row], "next_cursor": None},
    })  # fmt: skip
    visitor = Visitor(FakeShard("shard-a", price=0.8), tenants=tenants).sign_in()
    text = visitor.get("/money?by=tenant").text
    [line] = [each for each in re.findall(r"<tr>(.*?)</tr>", text) if "?project=prj" in each]
    shown = [re.sub("<[^>]+>", "", each) for each in re.findall(r"<t[hd].*?</t[hd]>", line)]

    assert shown[2] == "$0.20"
    assert ("Only the first 5,000 retired nodes were looked at" in text) is said
    assert "allocations were looked at" not in text


class Draining(FakeShard):
    """One drain of each kind that is asked for."""

    @override
    async def actions(self, query: v.ActionQuery) -> v.ActionRows:
        row = v.ActionRow(
            cycle=3, decided=3, kind=query.kind, machine="m-1", cluster="web",
            disposition="executed", saved_per_hour=2.5, at_risk_dollars=32.0,
        )  # fmt: skip
        return v.ActionRows(stamp=v.Stamp(shard=self.name, cycle=3), matched=1, rows=(row,))


def test_what_a_preempt_saves_is_not_said_to_be_paid_no_more() -> None:
    """Its machine goes on costing, for somebody else."""
    text = Visitor(Draining("shard-a")).sign_in().get("/money").text
    [reclaim, preempt] = [
        re.sub("<[^>]+>", " ", line)
        for line in re.findall(r"<tr>(.*?)</tr>", text) if "m-1" in line
    ]  # fmt: skip
    assert ("reclaim" in reclaim, "$2.50" in reclaim, "not bought" in reclaim) == (
        True, True, False,
    )  # fmt: skip
    assert ("preempt" in preempt, "$2.50 not bought" in preempt, "$32.00" in preempt) == (True,) * 3


@pytest.mark.parametrize("state", Standing)
def test_how_an_account_stands_is_said_in_words_and_colour(state: Standing) -> None:
    tenants = FakeTenancy({
        "/projects": {"items": [{"id": "prj", "name": "blue"}]},
        "/billing/balance": {"account": "acc", "state": str(state), "balance": "$5.00",
                             "currency": "USD", "hour_minor": 100},
    })  # fmt: skip
    text = Visitor(FakeShard("shard-a"), tenants=tenants).sign_in().get("/money").text
    kind = {"healthy": "good", "low_balance": "warn"}.get(str(state), "bad")
    assert f'<span class="mark mark-{kind}">{state.replace("_", " ")}</span>' in text
    assert ">$5.00</td>" in text


def test_money_by_tenant_says_when_the_api_of_tenants_is_silent() -> None:
    tenants = tenancy()
    tenants.silent = True
    text = Visitor(FakeShard("shard-a"), tenants=tenants).sign_in().get("/money?by=tenant").text
    assert "no answer from the API of tenants" in text


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


def test_an_allocation_shows_its_proof_and_its_bill_of_every_month() -> None:
    tenants = tenancy(proof={"scrubbed": True})
    assert "Nothing was charged for it yet" in Visitor(tenants=tenants).sign_in().get(ALC_1).text
    line = {
        "start": "2026-11-30T23:00:00Z", "end": "2026-12-01T00:00:00Z",
        "seconds": 3600, "gpus": 2, "price_minor": 450, "amount_minor": 900,
    }  # fmt: skip
    bill = {
        **tenants.answers[f"{ALC_1}/bill"], "amount_minor": 1_000, "amount": "$10.00",
        "lines": [line, {**line, "amount_minor": 100}], "charged_to": "2026-12-01T01:00:00Z",
    }  # fmt: skip
    for is_whole, said in ((False, "$10.00 so far, charged up to"), (True, "$10.00 in all")):
        told = {**bill, "is_whole": is_whole}
        tenants.answers = {**tenants.answers, f"{ALC_1}/bill": told}
        text = Visitor(tenants=tenants).sign_in().get(ALC_1).text
        for each in ("$9.00", "$1.00", said, "scrubbed"):
            assert each in text


@pytest.mark.parametrize(
    ("currency", "amounts"),
    [("USD", ("$9.00", "$1.00")), ("JPY", ("900 JPY", "100 JPY")),
     ("KWD", ("0.900 KWD", "0.100 KWD"))],
)  # fmt: skip
def test_the_lines_of_a_bill_add_up_to_the_total_that_is_shown(
    currency: str, amounts: tuple[str, str]
) -> None:
    tenants = tenancy(price={"gpu_hour_minor": 450, "currency": currency})
    line = {"start": "2026-11-30T23:00:00Z", "end": "2026-12-01T00:00:00Z",
            "seconds": 3600, "gpus": 2, "price_minor": 450}  # fmt: skip
    lines = [{**line, "amount_minor": each} for each in (900, 100)]
    bill = {
        **tenants.answers[f"{ALC_1}/bill"], "currency": currency, "amount_minor": 1_000,
        "amount": formatted(1_000, currency), "lines": lines, "is_whole": True,
    }  # fmt: skip
    tenants.answers = {**tenants.answers, f"{ALC_1}/bill": bill}
    text = Visitor(tenants=tenants).sign_in().get(ALC_1).text
    shown = re.findall(r">([^<>]+)</td></tr>", text[text.index("What it has cost") :])

    assert tuple(shown[:2]) == amounts
    total = re.findall(r">([^<>]+) in all", text)
    assert sum(_digits(each) for each in shown[:2]) == _digits(total[0]) == 1_000
    assert f"<dd>{formatted(900, currency)}</dd>" in text


def _digits(shown: str) -> int:
    return int("".join(each for each in shown if each.isdigit()))


def test_an_allocation_on_its_way_says_when_and_one_that_stays_does_not() -> None:
    on_its_way = {"when": "about", "seconds": 6.0, "because": ["so it was"], "after": None}
    for told, said in ((on_its_way, True), (UNSPECIFIED, False)):
        tenants = tenancy(status="provisioning")
        tenants.answers = {**tenants.answers, "/allocations/alc_1/expected": told}
        text = Visitor(tenants=tenants).sign_in().get("/allocations/alc_1").text
        assert ("In about 6 s, because so it was." in text) is said
        assert ("<h2>When</h2>" in text) is said


def test_numbers_of_a_shard_that_stops_stay_and_say_since_when() -> None:
    shard, other = FakeShard("shard-a", count=12), FakeShard("shard-b", count=5)
    visitor = Visitor(shard, other).sign_in()
    for path in ("/", "/machines"):
        assert "stale since" not in visitor.get(path).text
    shard.silent = True
    visitor.clock.advance(90)
    text = visitor.get("/").text
    assert "is stale since 00:16:40 UTC: shard shard-a does not answer" in text
    spoken = text[text.index('<div role="status">') :].partition("</div>")[0]
    assert ("stale since" in spoken, "2 min" in spoken) == (True, False)  # it is read aloud once
    assert "Silent: shard-a for 2 min." in text
    assert 'href="/machines">17<' in text
    assert "of which 12 are old" in text
    assert "of which $1.00 are old" in text
    assert "17 machines, of which 12 are old" in visitor.get("/machines").text


def test_a_machine_that_was_handed_over_is_not_listed_twice() -> None:
    dead, alive = FakeShard("shard-a", machine="m"), FakeShard("shard-b", machine="m")
    visitor = Visitor(dead, alive).sign_in()
    assert visitor.get("/machines").text.count('href="/machines/m-00001"') == 2
    dead.silent = True
    visitor.clock.advance(60)
    assert visitor.get("/machines").text.count('href="/machines/m-00001"') == 1


@pytest.mark.parametrize(
    ("path", "source", "marks"),
    [
        ("/moves", "coordinator", 4), ("/quotas", "coordinator", 1), ("/shards", "coordinator", 1),
        ("/nodes", "tenancy", 1), ("/allocations", "tenancy", 1),
        ("/allocations/alc_1", "tenancy", 1),
    ],
)  # fmt: skip
def test_what_coordinator_and_api_told_says_of_when_it_is(
    path: str, source: str, marks: int
) -> None:
    tenants, coordinating = tenancy(), FakeCoordinator()
    tenants.answers = {**tenants.answers, "/admin/nodes": {"items": [NODE]}}
    visitor = Visitor(FakeShard("shard-a"), tenants=tenants, coordinating=coordinating).sign_in()
    now = f'As {source} tells it: <span class="mark mark-good">live</span>'
    then = f'As {source} tells it: <span class="mark mark-stale"'
    text = visitor.get(path).text
    assert (text.count(now), text.count(then)) == (marks, 0)
    tenants.silent = coordinating.silent = True
    visitor.clock.advance(60)
    text = visitor.get(path).text
    assert (text.count(now), text.count(then)) == (0, marks)
    assert f"<strong>{source}</strong> is stale since 00:16:40 UTC" in text


NODE: dict[str, Any] = {
    "id": "n-1", "status": "active", "sku": "s", "region": "r", "slots_available": 1, "slots": 8,
    "mode": "slices",
}  # fmt: skip


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
                            for_s=300.0, by="alice"),
        q.LiftControlRequest(kind="pause", reason="lifted on the dashboard", by="alice"),
    ]  # fmt: skip


def test_what_the_configuration_holds_back_is_told_and_nobody_can_lift_it() -> None:
    shard = FakeShard("shard-a", fixed="actuation_paused is set")
    text = Visitor(shard).sign_in().get("/controls").text

    assert "<b>shard-a</b> does not act: pause by its configuration" in text
    assert "actuation_paused is set" in text
    assert "with another configuration and a restart" in text
    assert "Lift pause of shard-a" not in text


def test_a_provider_that_refuses_its_shard_is_told_where_shards_are_held_back() -> None:
    visitor = Visitor(FakeShard("shard-a", fenced="not before a restart")).sign_in()

    told = "<b>shard-a</b> does not act through shard-a: not before a restart"
    assert told in visitor.get("/controls").text
    assert "acts, but not through shard-a" in visitor.get("/shards").text


def test_a_cluster_that_no_shard_knows_is_meant_where_somebody_says_so() -> None:
    shard = FakeShard("shard-a")
    visitor = Visitor(shard).sign_in()
    visitor.post("/controls/set", csrf=visitor.csrf, shard="shard-a", kind="pause", unknown="1",
                 cluster="later", reason="why", minutes="5")  # fmt: skip
    (request,) = shard.told

    assert isinstance(request, q.SetControlRequest)
    assert request.even_if_unknown


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
        visitor.post("/allocations/create", csrf=visitor.csrf, offer="s@r@2", project="prj",
                     nonce="n1")  # fmt: skip
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
    ("status", "path"), [("failed", ""), ("release_failed", ""), ("active", "/release")]
)
def test_each_look_at_an_allocation_has_forms_of_its_own(status: str, path: str) -> None:
    """The API keeps its answer to a key for a day: a refusal would be given again and again."""
    visitor = Visitor(tenants=tenancy(status=status)).sign_in()
    looks = [visitor.get(f"/allocations/alc_1{path}").text for _ in range(2)]
    found = [re.findall(r'name="nonce" value="(\w+)"', text) for text in looks]
    assert [len(each) for each in found] == [1, 1]
    assert found[0] != found[1]


def test_a_form_that_nothing_tells_from_others_is_refused() -> None:
    tenants = tenancy(status="failed")
    visitor = Visitor(tenants=tenants).sign_in()
    done = visitor.post("/allocations/alc_1/retry", csrf=visitor.csrf)
    visitor.cookies.update(done.cookies)
    assert "reload the page" in visitor.get("/allocations").text
    assert tenants.posted == []


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
    for path, said in (
        ("/machines/unknown", "no such machine here: check the name."),
        ("/nodes/none", "nothing at"),
        ("/allocations/alc_none", "nothing at"),
        ("/allocations/cap_none", "nothing at"),
    ):
        answer = visitor.get(path)
        assert (answer.status_code, said in answer.text) == (404, True)
        assert f'<a href="/{path.split("/")[1]}">To the list</a>' in answer.text


def test_what_a_silent_shard_may_know_is_not_said_to_be_nowhere() -> None:
    silent = FakeShard("other", silent=True)
    answer = Visitor(FakeShard("shard-a"), silent).sign_in().get("/machines/unknown")
    assert answer.status_code == 503
    assert "no such machine here; other does not answer" in answer.text


def test_of_two_shards_that_tell_of_a_machine_the_one_that_answers_now_is_believed() -> None:
    dead, alive = FakeShard("shard-a"), FakeShard("shard-b")
    visitor = Visitor(dead, alive).sign_in()
    assert '<a href="/shards/shard-a">' in visitor.get("/machines/sha-1").text
    dead.silent = True
    visitor.clock.advance(60)
    assert '<a href="/shards/shard-b">' in visitor.get("/machines/sha-1").text


def test_a_fleet_of_nothing_is_shown_as_nothing() -> None:
    visitor = Visitor().sign_in()
    for path in PATHS:
        assert visitor.get(path).status_code == 200
    assert "no coordinator runs here" in visitor.get("/shards").text
    assert "no API of tenants runs here" in visitor.get("/allocations").text
