"""The ten things a person does on the dashboard, from start to end, in a real browser.

One fleet for all of them. Each leaves a picture in site/screenshots, for people to look at.
"""

import json
import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from looking import Fleet, Looking, documented, go, picture, sign_in
from running import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]


def test_1_signing_in_takes_a_token_that_is_known(fleet: Fleet, browser: "Browser") -> None:
    looking = Looking(browser)
    with looking as page:
        page.goto(f"{fleet.url}/machines?state=Idle")
        page.get_by_label("Token").fill("guessed")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").wait_for()
        looking.wrong.clear()  # the browser tells of the refusal
        picture(page, "01-sign-in")
        page.get_by_label("Token").fill(fleet.tokens["admin"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/machines?state=Idle")
        cookie = next(c for c in page.context.cookies() if c["name"] == "mainstay_dashboard")
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()


def test_2_the_fleet_is_seen_at_a_glance_and_comes_alive(admin: "Page", pictured: bool) -> None:
    drawn = admin.get_by_role("img", name="Machines by state")
    drawn.wait_for()
    until(lambda: re.search(r"Configured \d\d", drawn.text_content() or ""))
    admin.locator("#live-state", has_text="live").wait_for()
    before = admin.locator("#live-decisions").inner_text()
    until(lambda: admin.locator("#live-decisions").inner_text() != before)
    picture(admin, "02-overview")
    if pictured:
        documented(admin, "overview")


def test_3_an_unmet_need_is_found_and_explained(admin: "Page", pictured: bool) -> None:
    go(admin, "Needs")
    admin.get_by_label("Only those that miss something").check()
    admin.get_by_label("Cluster").fill("blue")
    admin.get_by_role("button", name="Filter").click()
    admin.wait_for_url("**/needs?cluster=blue&unmet=1")
    admin.get_by_role("link", name="Explain need").first.wait_for()
    picture(admin, "03-needs")
    admin.get_by_role("link", name="Explain need").first.click()
    told = admin.locator(".reasons")
    for part in ("What it asks", "Reason", "Blocker", "Nearest miss"):
        told.get_by_text(part, exact=True).wait_for()
    assert "It misses" in told.inner_text()
    assert admin.get_by_role("table", name="Each filter").locator("tbody tr").count() > 3
    admin.get_by_text("blocks it", exact=True).wait_for()
    picture(admin, "04-explanation")
    if pictured:
        documented(admin, "need")


def test_4_what_if_tells_actions_and_dollars_and_does_nothing(admin: "Page") -> None:
    go(admin, "What if")
    zones = admin.get_by_label("Lose a zone")
    zones.select_option(index=1)
    admin.get_by_label("Of this class").select_option("spot")
    admin.get_by_label("Times").fill("3")
    admin.get_by_label("Of cluster").select_option("blue")
    admin.get_by_label("CPUs").fill("640")
    admin.get_by_role("button", name="What if?").click()
    admin.wait_for_url("**/whatif?zone=*")
    admin.get_by_role("heading", name="What would happen").wait_for()
    admin.get_by_text("Per hour then").wait_for()
    admin.get_by_text("Nothing was done.").first.wait_for()
    assert admin.get_by_role("table", name="Actions that are planned").count() > 0
    picture(admin, "05-what-if")
    admin.get_by_label("CPUs").fill("many")
    admin.get_by_role("button", name="What if?").click()
    admin.get_by_role("alert").wait_for()


def test_5_a_machine_is_found_by_the_address_and_shows_its_life_and_history(
    admin: "Page", fleet: Fleet
) -> None:
    go(admin, "Machines")
    assert admin.locator("tbody tr").count() == 50
    first = admin.locator("tbody th").first.inner_text()
    admin.get_by_role("link", name="Next page").click()
    admin.wait_for_url("**/machines?after=*")
    assert admin.locator("tbody th").first.inner_text() > first
    admin.get_by_role("link", name="First page").click()
    admin.get_by_label("State").select_option("Configured")
    admin.get_by_label("Cluster").fill("blue")
    admin.get_by_role("button", name="Filter").click()
    admin.wait_for_url("**/machines?state=Configured&cluster=blue**")
    admin.goto(f"{fleet.url}/machines?state=Configured&cluster=blue")
    assert admin.get_by_label("Cluster").input_value() == "blue"
    rows = admin.locator("tbody tr")
    rows.first.wait_for()
    assert {"blue" in row and "Configured" in row for row in rows.all_inner_texts()} == {True}
    picture(admin, "06-machines")
    admin.locator("tbody tr a").first.click()
    admin.get_by_role("img", name="The life of a machine; this one is Configured.").wait_for()
    admin.get_by_role("heading", name="Why").wait_for()
    admin.get_by_role("heading", name="Recent actions").wait_for()
    done = admin.get_by_role("table", name="What was done with it")
    done.get_by_text("bootstrap").first.wait_for()
    picture(admin, "07-machine")


def _allocate(page: "Page", gpus: int) -> None:
    """From the form to the page of an active allocation."""
    go(page, "Allocations")
    page.get_by_text("New allocation").click()
    page.get_by_label("What").select_option("h200-sxm-slice@region-1")
    page.get_by_label("GPUs").select_option(str(gpus))
    page.get_by_role("button", name="Create allocation").click()
    page.get_by_text("is asked for.").wait_for()
    page.locator(".steps li.now", has_text="active").wait_for()


def test_6_an_allocation_is_created_and_its_timeline_grows(admin: "Page", pictured: bool) -> None:
    _allocate(admin, 2)
    assert admin.locator("#timeline li").count() > 2
    picture(admin, "08-allocation")
    if pictured:
        admin.reload()  # without the word that it is asked for
        documented(admin, "allocation")
    go(admin, "Nodes and slots")
    drawn = admin.get_by_role("img", name="in use").first
    drawn.wait_for()
    assert "a block of" in (drawn.text_content() or "")
    assert admin.locator(".slot-held").count() >= 2
    picture(admin, "09-nodes")
    admin.locator(".rack h2 a").first.click()
    admin.get_by_role("table", name="Each slot").wait_for()


def test_7_it_is_released_and_its_proof_and_its_bill_are_seen(admin: "Page") -> None:
    _allocate(admin, 1)
    admin.get_by_role("button", name="Release").click()
    admin.get_by_text("It is being released.").wait_for()
    admin.locator(".steps li.now", has_text="released").wait_for()
    assert admin.get_by_role("button", name="Release").count() == 0
    admin.get_by_role("heading", name="Proof of clean-up").wait_for()
    bill = admin.get_by_role("table", name="What it has cost this month")
    bill.get_by_text("USD").first.wait_for()
    picture(admin, "10-released")
    go(admin, "Audit")
    admin.get_by_role("heading", name="What people did with tenants").wait_for()
    picture(admin, "11-audit")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("pause", ""), ("shadow", ""), ("action_limit", "3"), ("reclaim_cap", "0.02")],
)
def test_8_a_shard_is_held_back_with_a_reason_and_an_end_and_let_go(
    admin: "Page", kind: str, value: str
) -> None:
    name = kind.replace("_", " ")
    go(admin, "Controls")
    admin.get_by_label("What", exact=True).select_option(kind)
    admin.get_by_label("Shard", exact=True).select_option("shard-a")
    admin.get_by_label("Value (of limits)").fill(value)
    admin.get_by_role("button", name="Set control").click()  # the browser asks for a reason
    assert admin.url.endswith("/controls")
    admin.get_by_label("Reason").fill("looking at <b>something</b>")
    admin.get_by_label("For how many minutes").fill("5")
    admin.get_by_role("button", name="Set control").click()
    admin.get_by_text(f"{name} of shard-a is set for 5 minutes.").wait_for()
    row = admin.get_by_role("row").filter(has_text="looking at <b>something</b>")
    assert re.search(r"in [45] min", row.inner_text())
    if not value:
        admin.get_by_text("does not act").wait_for()
        picture(admin, f"12-{kind}")
    admin.get_by_role("button", name=f"Lift {kind} of shard-a").click()
    admin.get_by_text(f"{name} of shard-a is lifted.").wait_for()
    admin.get_by_text("Nothing holds any shard back.").wait_for()


def test_9_numbers_of_a_shard_that_stops_grow_old_and_say_so(fleet: Fleet, admin: "Page") -> None:
    go(admin, "Shards")
    domains = admin.get_by_role("table", name="Who has which machines")
    assert domains.locator("tbody tr").count() == 3
    pid = json.loads((fleet.home / "run" / "shard-shard-b.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        admin.get_by_role("status").filter(has_text="shard-b is stale since").wait_for()
        row = admin.locator("tbody tr").filter(has_text="shard-b").first
        assert "stale since" in row.inner_text()
        assert "live" in admin.locator("tbody tr").filter(has_text="shard-a").first.inner_text()
        picture(admin, "13-stale")
    finally:
        os.kill(pid, signal.SIGCONT)
    admin.locator(".ages").wait_for(state="detached")


def test_10_who_may_only_look_sees_no_buttons_and_is_refused(
    fleet: Fleet, browser: "Browser"
) -> None:
    with Looking(browser) as page:
        sign_in(page, fleet, "readonly")
        for name in ("Controls", "Allocations", "Machines", "Needs", "Quotas", "Moves"):
            go(page, name)
            assert page.locator("main form[method=post]").count() == 0
        go(page, "Controls")
        assert page.locator("main button").count() == 0
        answer = page.request.post(f"{fleet.url}/controls/set", form={"shard": "shard-a"})
        assert answer.status == 403


def test_racks_are_drawn_and_one_leads_to_its_machines(admin: "Page", pictured: bool) -> None:
    go(admin, "Racks")
    drawn = admin.locator("svg.grid")
    until(lambda: drawn.count() >= 3)
    picture(admin, "14-racks")
    if pictured:
        documented(admin, "racks")
    admin.locator(".rack h2 a").first.click()
    admin.get_by_role("heading", name="Drawn by state").wait_for()
    counted = int(admin.locator("caption").inner_text().split()[0])
    assert admin.locator("svg.grid .cell").count() == counted
    assert admin.locator("tbody tr").count() == min(counted, 50)
    picture(admin, "15-rack")
    admin.get_by_role("link", name="What if it were drained?").click()
    admin.get_by_role("heading", name="What would happen").wait_for()
    go(admin, "Racks")
    admin.get_by_label("Grouped by").select_option("zone")
    admin.get_by_role("button", name="Show").click()
    admin.get_by_role("heading", name="Machines by zone").wait_for()
    assert admin.locator("svg.grid").count() == 3


def test_money_is_told_by_cluster_type_and_class(admin: "Page") -> None:
    go(admin, "Money")
    for name in ("By cluster", "By instance type", "By class of capacity"):
        admin.get_by_role("navigation", name="Money by").get_by_role("link", name=name).click()
        admin.get_by_role("heading", name=name).wait_for()
        assert admin.get_by_role("table", name="the dearest first").locator("tbody tr").count()
    admin.get_by_role("table", name="The last machines that were taken back").wait_for()
    picture(admin, "16-money")


def test_quotas_and_moves_are_those_of_the_coordinator(admin: "Page") -> None:
    go(admin, "Quotas")
    admin.get_by_role("heading", name="Entitlements").wait_for()
    picture(admin, "17-quotas")
    go(admin, "Moves")
    admin.get_by_role("heading", name="Instructions").wait_for()
    picture(admin, "18-moves")
