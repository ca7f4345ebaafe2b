"""What ends something is asked twice, and says what goes with it."""

import json

import pytest

from dashboards import FakeShard, Visitor, tenancy, waited_for
from mainstay.dashboard.access import Role
from mainstay.model import questions as q

FAILED = json.dumps({"state": "Failed", "instance_type": "h200", "price_per_hour": 12.5})


def test_before_a_release_the_page_says_what_ends_and_nothing_has_ended() -> None:
    tenants = tenancy()
    visitor = Visitor(tenants=tenants).sign_in()
    first = visitor.get("/allocations/alc_1").text
    assert 'action="/allocations/alc_1/release"' not in first
    assert 'href="/allocations/alc_1/release"' in first
    text = visitor.get("/allocations/alc_1/release").text
    for part in ("Release alc_1?", "2 GPUs are given back", "$9.00 per hour", ">prj<", ">n<"):
        assert part in text
    assert 'href="/allocations/alc_1" id="back"' in text
    assert tenants.posted == []
    visitor.post("/allocations/alc_1/release", csrf=visitor.csrf, nonce="n")
    assert [path for path, _, _ in tenants.posted] == ["/allocations/alc_1/release"]


def test_what_has_ended_already_has_no_button_there() -> None:
    gone = Visitor(tenants=tenancy(status="released")).sign_in()
    placed = Visitor(tenants=waited_for(None, state="placed", allocation_id="alc_1")).sign_in()
    well = Visitor(FakeShard("shard-a", document='{"state": "Idle"}')).sign_in()
    for visitor, path in (
        (gone, "/allocations/alc_1/release"), (placed, "/allocations/cap_1/cancel"),
        (well, "/machines/shard-a-1/retire"),
    ):  # fmt: skip
        text = visitor.get(path).text
        assert ("There is nothing to do here" in text, 'id="confirm"' in text) == (True, False)


def test_before_somebody_stops_waiting_the_page_says_what_it_would_have_cost() -> None:
    tenants = waited_for(None)
    sku = {"sku": "s", "gpu_hourly_price_minor": 450, "currency": "USD"}
    tenants.answers = {**tenants.answers, "/catalog": {"skus": [sku]}}
    text = Visitor(tenants=tenants).sign_in().get("/allocations/cap_1/cancel").text
    assert ("$36.00" in text, "8 GPUs any more" in text) == (True, True)
    assert 'action="/allocations/cap_1/cancel"' in text
    assert tenants.posted == []


def test_a_failed_machine_is_retired_with_a_reason_by_who_may() -> None:
    shard = FakeShard("shard-a", document=FAILED)
    visitor = Visitor(shard).sign_in()
    assert 'href="/machines/shard-a-1/retire"' in visitor.get("/machines/shard-a-1").text
    text = visitor.get("/machines/shard-a-1/retire").text
    for part in ("Retire shard-a-1?", "h200", "$12.50", 'name="reason"', "required"):
        assert part in text
    done = visitor.post("/machines/shard-a-1/retire", csrf=visitor.csrf, shard="shard-a",
                        reason="the board is dead")  # fmt: skip
    assert done.headers["location"] == "/machines?state=Failed"
    wanted = q.RetireRequest(machine="shard-a-1", reason="the board is dead", by="alice")
    assert shard.told == [wanted]


@pytest.mark.parametrize("state", ["Idle", "Configured", "Draining"])
def test_a_machine_that_has_not_failed_has_no_such_button(state: str) -> None:
    visitor = Visitor(FakeShard("shard-a", document=json.dumps({"state": state}))).sign_in()
    assert "/retire" not in visitor.get("/machines/shard-a-1").text


def test_who_may_only_look_has_no_way_to_any_end() -> None:
    shard = FakeShard("shard-a", document=FAILED)
    reader = Visitor(shard, tenants=tenancy()).sign_in(Role.READONLY)
    for path in ("/machines/shard-a-1", "/allocations/alc_1"):
        assert 'class="button"' not in reader.get(path).text
        ending = "retire" if "machines" in path else "release"
        text = reader.get(f"{path}/{ending}").text
        assert ("may look and not change" in text, 'id="confirm"' in text) == (True, False)
