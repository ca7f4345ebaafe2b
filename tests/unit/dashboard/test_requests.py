"""Capacity that is waited for, on the pages: what is said of it, and what may be done."""

import html
from typing import Any

import httpx
import pytest

from dashboards import REQUEST, FakeShard, Visitor, waited_for
from mainstay.dashboard.access import Role
from mainstay.model import questions as q

AFTER: dict[str, Any] = {
    "cluster": "shard-a", "need": "0123456789ab", "joining_s": 5.0, "age_s": 0.0, "left_s": 5.0,
}  # fmt: skip


def noticed(visitor: Visitor, answer: httpx.Response) -> str:
    """The next page after something was done."""
    visitor.cookies.update(answer.cookies)
    return visitor.get("/allocations").text


def test_what_waits_for_room_is_told_as_its_need_and_the_node_behind_it() -> None:
    shard = FakeShard("shard-a")
    visitor = Visitor(shard, tenants=waited_for(AFTER)).sign_in()
    shard.expected = q.Expected(when=q.When.ABOUT, seconds=40.0, because=("it is bought",))
    text = html.unescape(visitor.get("/allocations/cap_1").text)
    said = "In about 40 s, because it is bought; its node joins meanwhile: 5 s, as the last ones"
    assert said in text
    assert "/needs/explain?cluster=shard-a&need=0123456789ab" in text
    assert (shard.asked[-1].fingerprint, shard.asked[-1].quick) == ("0123456789ab", True)
    assert "/allocations/cap_1" in visitor.get("/allocations").text
    alone = Visitor(tenants=waited_for(AFTER)).sign_in().get("/allocations/cap_1").text
    assert "no shard that knows it can be asked from here" in alone


@pytest.mark.parametrize(
    ("path", "asks"),
    [("/allocations/cap_1", 2), ("/needs/explain?cluster=shard-a&need=0123456789ab", 1)],
)
def test_only_an_answer_that_was_dear_is_kept_for_long(path: str, asks: int) -> None:
    shard = FakeShard("shard-a")
    visitor = Visitor(shard, tenants=waited_for(AFTER)).sign_in()
    visitor.get(path)
    visitor.clock.advance(5)
    visitor.get(path)
    assert len([each for each in shard.asked if isinstance(each, q.Question)]) == asks


def test_what_waits_is_that_of_the_project_and_says_how_many_wait() -> None:
    for path, query in (("/allocations", {}), ("/allocations?project=prj", {"project_id": "prj"})):
        tenants = waited_for(None)
        text = Visitor(tenants=tenants).sign_in().get(path).text
        assert "1 of 137, the newest first" in text
        asked = [given for name, given in tenants.asked if name == "/admin/capacity-requests"]
        assert asked == [{"state": "waiting", "limit": 20, **query}]


def test_who_waits_may_stop_and_who_may_only_look_may_not() -> None:
    tenants = waited_for(None)
    visitor = Visitor(tenants=tenants).sign_in()
    assert 'id="cancel"' in visitor.get("/allocations/cap_1").text
    left = visitor.post("/allocations/cap_1/cancel", csrf=visitor.csrf, nonce="n")
    assert "It is waited for no longer." in noticed(visitor, left)
    assert tenants.posted == [("/capacity-requests/cap_1/cancel", {}, "dashboard-cancel-n")]
    looking = Visitor(tenants=tenants).sign_in(Role.READONLY)
    assert 'id="cancel"' not in looking.get("/allocations/cap_1").text
    placed = Visitor(tenants=waited_for(None, state="placed", allocation_id="alc_1")).sign_in()
    text = placed.get("/allocations/cap_1").text
    assert ('id="cancel"' in text, "/allocations/alc_1" in text) == (False, True)


@pytest.mark.parametrize(
    ("state", "became", "to", "said"),
    [
        ("placed", "alc_1", "/allocations/alc_1", "Too late: cap_1 had its room before."),
        ("expired", None, "/allocations/cap_1", "It is expired already."),
    ],
)
def test_who_stops_waiting_too_late_is_told_what_became_of_it(
    state: str, became: str | None, to: str, said: str
) -> None:
    tenants = waited_for(None)
    ended = {**REQUEST, "state": state, "allocation_id": became}
    tenants.done = {"/capacity-requests/cap_1/cancel": ended}
    visitor = Visitor(tenants=tenants).sign_in()
    answer = visitor.post("/allocations/cap_1/cancel", csrf=visitor.csrf, nonce="n")
    assert answer.headers["location"] == to
    assert said in noticed(visitor, answer)


def test_an_order_that_may_wait_is_a_request_for_capacity() -> None:
    tenants = waited_for(None)
    visitor = Visitor(tenants=tenants).sign_in()
    visitor.post("/allocations/create", csrf=visitor.csrf, offer="s@r@2", project="prj",
                 nonce="n1", wait="1")  # fmt: skip
    assert [path for path, _, _ in tenants.posted] == ["/capacity-requests"]


@pytest.mark.parametrize(
    ("became", "to", "said"),
    [
        (None, "/allocations/cap_1", "cap_1 waits for room."),
        ("alc_1", "/allocations/alc_1", "Allocation alc_1 is asked for."),
    ],
)
def test_an_order_that_may_wait_leads_to_what_became_of_it(
    became: str | None, to: str, said: str
) -> None:
    tenants = waited_for(None)
    tenants.done = {"/capacity-requests": {**REQUEST, "allocation_id": became}}
    visitor = Visitor(tenants=tenants).sign_in()
    answer = visitor.post("/allocations/create", csrf=visitor.csrf, offer="s@r@2", project="prj",
                          nonce="n1", wait="1")  # fmt: skip
    assert answer.headers["location"] == to
    assert said in noticed(visitor, answer)
