"""One box finds everything that has a name, and lists are told as data too."""

import csv
import html
import io
from typing import Any

import pytest

from dashboards import REQUEST, FakeShard, FakeTenancy, Visitor
from mainstay.dashboard.access import Role
from mainstay.dashboard.data import Data, written


def visitor() -> Visitor:
    tenants = FakeTenancy({
        "/admin/allocations/alc_1": {"project_id": "prj"},
        "/admin/capacity-requests/cap_1": REQUEST,
        "/admin/nodes/node-a": {"id": "node-a", "region": "r"},
        "/admin/nodes": {"items": [{"id": "node-b", "region": "r"}]},
    })  # fmt: skip
    first = FakeShard("east", count=3, machine="m", needs_count=2)
    return Visitor(first, FakeShard("west", count=2, machine="w"), tenants=tenants)


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("m-00002", "/machines/m-00002"),
        ("w-r00001", "/racks/one?value=w-r00001"),
        ("east-2", "/needs/explain?shard=east&cluster=east&need=east&group=east-2"),
        ("node-a", "/nodes/node-a"), ("node-b", "/nodes/node-b"),
        ("alc_1", "/allocations/alc_1"), ("cap_1", "/allocations/cap_1"),
    ],
)  # fmt: skip
def test_what_only_one_is_called_leads_there(text: str, to: str) -> None:
    answer = visitor().sign_in(Role.READONLY).get(f"/find?q={text}")
    assert (answer.status_code, answer.headers.get("location")) == (303, to)


def test_what_several_are_called_is_listed_with_what_each_is() -> None:
    text = html.unescape(visitor().sign_in().get("/find?q=m-").text)
    for name in ("m-00000", "m-00001", "m-00002", "m-r00000"):
        assert f">{name}</a>" in text
    assert ("w-00000" in text, "5 things called m-, or beginning so" in text) == (False, True)
    both = html.unescape(visitor().sign_in().get("/find?q=east").text)
    for to in ("/shards/east", "/clusters/east", "/needs/explain?shard=east"):
        assert f'href="{to}' in both


@pytest.mark.parametrize(
    ("text", "said"),
    [("nothing", "Nothing is called like that"), ("", "Write how something is called"),
     ("<b>x", "&lt;b&gt;x")],
)  # fmt: skip
def test_what_nobody_is_called_is_said(text: str, said: str) -> None:
    answer = visitor().sign_in().get(f"/find?q={text}")
    assert (answer.status_code, said in answer.text) == (200, True)


def test_to_find_never_asks_for_more_than_a_page() -> None:
    shard = FakeShard("east", count=500_000, needs_count=5_000, racks_count=30_000)
    assert Visitor(shard).sign_in().get("/find?q=e").status_code == 200
    limits = [query.limit for query in shard.asked if hasattr(query, "limit")]
    assert all(0 < limit <= 60 for limit in limits)
    assert shard.sent <= 200


def test_the_box_is_on_every_page_and_works_without_script() -> None:
    text = Visitor(FakeShard("east")).sign_in(Role.READONLY).get("/machines").text
    assert '<form method="get" action="/find"' in text


@pytest.mark.parametrize("path", ["/machines", "/needs", "/audit"])
def test_a_list_is_told_as_data_with_the_rows_of_its_page(path: str) -> None:
    seen = Visitor(FakeShard("x", count=70, needs_count=70, actions_count=70)).sign_in()
    link = f'href="{path}?as=json"'
    assert link in seen.get(path).text
    first = seen.get(f"{path}?as=json")
    assert first.headers["content-type"].startswith("application/json")
    assert (len(first.json()["rows"]), "x" in first.json()["stale"]) == (50, False)
    after = first.json()["after"]
    rest = seen.get(f"{path}?as=json&after={after.replace('=', '%3D')}").json()
    assert (len(rest["rows"]), rest["after"]) == (20, "")
    table = list(csv.DictReader(io.StringIO(seen.get(f"{path}?as=csv").text)))
    assert [row["shard"] for row in table] == ["x"] * 50
    assert set(table[0]) == set(first.json()["rows"][0])


def test_data_is_for_whoever_may_see_the_page_and_says_what_is_stale() -> None:
    shard = FakeShard("x")
    assert Visitor(shard).get("/machines?as=json").status_code == 303
    seen = Visitor(shard).sign_in(Role.READONLY)
    seen.get("/machines")
    shard.silent = True
    seen.clock.advance(60)
    told = seen.get("/machines?as=json").json()
    assert (len(told["rows"]), "does not answer" in told["stale"]["x"]) == (3, True)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x"])
def test_a_name_is_no_formula_in_a_spreadsheet(text: str) -> None:
    row: dict[str, Any] = {"name": text, "price": -1.5, "asked": {"cpu": "1"}}
    found = list(csv.reader(io.StringIO(written(Data(rows=[row]), "csv", {}))))
    assert found[1] == [f"'{text}", "-1.5", '{"cpu": "1"}']


def test_the_page_of_a_cluster_shows_what_was_done_last_for_it() -> None:
    shard = FakeShard("x", actions_count=40)
    text = Visitor(shard).sign_in().get("/clusters/x").text
    assert text.count('href="/machines/x-') == 15
    assert 'href="/audit?cluster=x"' in text
