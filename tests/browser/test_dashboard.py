"""The ten things a person does on the dashboard, from start to end, in a real browser.

One fleet for all of them. Each leaves a picture in site/screenshots, for people to look at.
"""

import json
import os
import re
import signal
import subprocess
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

import outside
from looking import Fleet, Looking, allocate, are, documented, go, picture, sign_in
from mainstay.model.assignment import PRIORITY_MAX
from mainstay.runtime.clock import SystemClock
from readable import unreadable
from running import until
from tree import BIN

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


def _priorities(page: "Page") -> list[int]:
    """As the page of needs shows them."""
    cells = page.locator("#live-needs tbody tr td:nth-child(3)").all_inner_texts()
    return [int(each.replace(",", "")) for each in cells]


def test_3_an_unmet_need_is_found_and_explained(admin: "Page", pictured: bool) -> None:
    go(admin, "Needs")
    admin.get_by_label("Only those that miss something").check()
    admin.get_by_label("Cluster").fill("blue")
    admin.get_by_role("button", name="Filter").click()
    admin.wait_for_url("**/needs?cluster=blue&reason=&priority=&unmet=1")
    admin.get_by_role("link", name="Explain need").first.wait_for()
    picture(admin, "03-needs")
    why = admin.locator("#live-needs .mark-bad")
    reason, priorities = why.first.inner_text(), _priorities(admin)
    admin.get_by_label("Short because").select_option(reason)
    admin.get_by_label("Priority at least").fill(str(min(priorities)))
    admin.get_by_role("button", name="Filter").click()
    admin.wait_for_url(f"**/needs?cluster=blue&reason=*&priority={min(priorities)}&unmet=1")
    until(lambda: set(why.all_inner_texts()) == {reason})
    assert min(_priorities(admin)) >= min(priorities)
    admin.get_by_label("Priority at least").fill(str(PRIORITY_MAX))
    admin.get_by_role("button", name="Filter").click()
    admin.get_by_text("No need is like that.").wait_for()
    admin.go_back()
    admin.get_by_role("link", name="Explain need").first.click()
    told = admin.locator(".reasons")
    for part in ("What it asks", "Reason", "Blocker", "Nearest miss"):
        told.get_by_text(part, exact=True).wait_for()
    assert "It misses" in told.inner_text()
    filters = admin.get_by_role("table", name="Each filter").locator("tbody tr")
    until(lambda: filters.count() > 3)
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
    admin.get_by_role("table", name="Actions that are planned").first.wait_for()
    picture(admin, "05-what-if")
    admin.get_by_label("CPUs").fill("many")
    admin.get_by_role("button", name="What if?").click()
    admin.get_by_role("alert").wait_for()


def _card(page: "Page", name: str) -> float:
    """What one of the numbers at the top says."""
    shown = page.locator(".card").filter(has_text=name).locator("dd").first.inner_text()
    return float(shown.replace("$", "").replace(",", ""))


def _is_supposed(page: "Page") -> None:
    """Actions and dollars, and nothing done."""
    page.get_by_role("heading", name="What would happen").wait_for()
    page.get_by_text("Nothing was done.").first.wait_for()
    page.get_by_role("table", name="Actions that are planned").first.wait_for()
    for name in ("Per hour now", "Per hour then"):
        assert _card(page, name) > 0


def test_a_dearer_price_alone_is_told_in_dollars(admin: "Page") -> None:
    go(admin, "What if")
    admin.get_by_label("Of this class").select_option("spot")
    admin.get_by_label("Times").fill("3")
    admin.get_by_role("button", name="What if?").click()
    _is_supposed(admin)
    assert _card(admin, "Per hour then") > _card(admin, "Per hour now")


def test_more_demand_alone_is_told_in_actions(admin: "Page") -> None:
    go(admin, "What if")
    admin.get_by_label("Of cluster").select_option("blue")
    admin.get_by_label("CPUs").fill("640")
    admin.get_by_role("button", name="What if?").click()
    _is_supposed(admin)
    assert _card(admin, "Actions then") > _card(admin, "Actions now")


def test_5_a_machine_is_found_by_the_address_and_shows_its_life_and_history(
    admin: "Page", fleet: Fleet
) -> None:
    go(admin, "Machines")
    are(admin.locator("tbody tr"), 50)
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
    moment = done.locator("tbody time").first.get_attribute("datetime") or ""
    assert abs(datetime.fromisoformat(moment).timestamp() - SystemClock().now_s()) < 3_600
    picture(admin, "07-machine")


def test_6_an_allocation_is_created_and_its_timeline_grows(admin: "Page", pictured: bool) -> None:
    allocate(admin, 2)
    until(lambda: admin.locator("#timeline li").count() > 2)
    picture(admin, "08-allocation")
    if pictured:
        admin.reload()  # without the word that it is asked for
        documented(admin, "allocation")
    go(admin, "Nodes and slots")
    drawn = admin.get_by_role("img", name="in use").first
    drawn.wait_for()
    assert "a block of" in (drawn.text_content() or "")
    until(lambda: admin.locator(".slot-held").count() >= 2)
    picture(admin, "09-nodes")
    admin.locator(".rack h2 a").first.click()
    admin.get_by_role("table", name="Each slot").wait_for()


def test_7_it_is_released_and_its_proof_and_its_bill_are_seen(admin: "Page") -> None:
    allocate(admin, 1)
    kept = admin.url
    admin.get_by_role("link", name="Release", exact=True).click()
    admin.get_by_text("1 GPU is given back").wait_for()
    assert re.search(r"Per hour\s+\$4\.50", admin.locator(".facts").inner_text())
    picture(admin, "10-release")
    admin.get_by_role("link", name="No, go back").click()
    admin.wait_for_url(kept)
    admin.locator(".steps li.now", has_text="active").wait_for()
    admin.get_by_role("link", name="Release", exact=True).click()
    admin.get_by_role("button", name="Release").click()
    admin.get_by_text("It is being released.").wait_for()
    admin.locator(".steps li.now", has_text="released").wait_for()
    are(admin.get_by_role("link", name="Release", exact=True), 0)
    admin.get_by_role("heading", name="Proof of clean-up").wait_for()
    bill = admin.get_by_role("table", name="What it has cost, by month")
    bill.get_by_text("$").first.wait_for()
    picture(admin, "10-released")
    go(admin, "Audit")
    admin.get_by_role("heading", name="What people did with tenants").wait_for()
    picture(admin, "11-audit")


def _mainstay(fleet: Fleet, *words: str) -> "subprocess.CompletedProcess[str]":
    env = outside.environment(MAINSTAY_HOME=str(fleet.home))
    return outside.run([BIN / "mainstay", *words], env=env)


def test_who_waits_for_room_sees_why_and_may_wait_no_longer(admin: "Page", fleet: Fleet) -> None:
    """A shard that is paused brings none; what fills the last room goes back at the end."""
    sold = ("--sku", "h200-sxm-baremetal-8g", "--gpus", "8", "--region", "region-1")
    held = []
    _mainstay(fleet, "pause", "--shard", "shard-a", "--reason", "a drill", "--for", "5m")
    try:
        while not (taken := _mainstay(fleet, "alloc", "create", *sold)).returncode:
            held.append(taken.stdout.strip())
        go(admin, "Allocations")
        admin.get_by_text("New allocation").click()
        admin.get_by_label("What", exact=True).select_option("h200-sxm-baremetal-8g@region-1@8")
        admin.get_by_label("Wait if there is no room").check()
        admin.get_by_role("button", name="Create allocation").click()
        admin.get_by_role("heading", name="Capacity request").wait_for()
        admin.get_by_text("pause by").first.wait_for()
        picture(admin, "10-waiting")
        assert unreadable(admin) == []
        admin.get_by_role("link", name="Wait no longer").click()
        admin.get_by_text("Nobody waits for 8 GPUs any more").wait_for()
        assert unreadable(admin) == []
        admin.get_by_role("button", name="Wait no longer").click()
        admin.get_by_text("It is waited for no longer.").wait_for()
        admin.locator(".facts").filter(has_text="cancelled").wait_for()
        are(admin.get_by_role("link", name="Wait no longer"), 0)
    finally:
        _mainstay(fleet, "resume", "--shard", "shard-a", "--reason", "it is over")
        for each in held:
            _mainstay(fleet, "alloc", "release", each)
    for each in held:
        _mainstay(fleet, "alloc", "watch", each, "--until", "released")


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
    are(domains.locator("tbody tr"), 3)
    pid = json.loads((fleet.home / "run" / "shard-shard-b.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        admin.get_by_role("status").filter(has_text="shard-b is stale since").wait_for()
        rows = admin.locator("tbody tr").filter(has_text="shard-b")
        rows.filter(has_text="stale since").first.wait_for()
        assert "live" in admin.locator("tbody tr").filter(has_text="shard-a").first.inner_text()
        picture(admin, "13-stale")
    finally:
        os.kill(pid, signal.SIGCONT)
    admin.locator(".ages").wait_for(state="detached")


@pytest.mark.parametrize(
    ("process", "source", "name"),
    [("coordinator", "coordinator", "Moves"), ("api", "tenancy", "Nodes and slots")],
)
def test_what_coordinator_and_api_told_grows_old_and_says_so(
    fleet: Fleet, admin: "Page", process: str, source: str, name: str
) -> None:
    go(admin, name)
    admin.get_by_text(f"As {source} tells it: live").first.wait_for()
    (announced,) = (fleet.home / "run").glob(f"{process}-*.json")
    pid = json.loads(announced.read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        admin.get_by_role("status").filter(has_text=f"{source} is stale since").wait_for()
        admin.get_by_text(f"As {source} tells it: stale since").first.wait_for()
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
            are(page.locator("main form[method=post]"), 0)
        go(page, "Controls")
        are(page.locator("main button"), 0)
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
    are(admin.locator("svg.grid .cell"), counted)
    are(admin.locator("tbody tr"), min(counted, 50))
    picture(admin, "15-rack")
    admin.get_by_role("link", name="What if it were drained?").click()
    _is_supposed(admin)
    go(admin, "Racks")
    admin.get_by_label("Grouped by").select_option("zone")
    admin.get_by_role("button", name="Show").click()
    admin.get_by_role("heading", name="Machines by zone").wait_for()
    are(admin.locator("svg.grid"), 3)


def _start(row: str) -> list[str]:
    """Who, how many GPUs, what they cost per hour."""
    return row.split("\t")[:3]


def _by_tenant(fleet: Fleet) -> list[list[str]]:
    """The same as the command line tells it."""
    words = [str(BIN / "mainstay"), "get", "money", "--by", "tenant", "-o", "json"]
    env = outside.environment(MAINSTAY_HOME=str(fleet.home))
    told = json.loads(subprocess.run(words, env=env, check=True, capture_output=True).stdout)
    return [
        [row["name"], f"{row['gpus']:,}", f"${row['spend_per_hour'] / 1e9:,.2f}"] for row in told
    ]


def test_money_is_told_by_cluster_type_class_and_tenant(admin: "Page", fleet: Fleet) -> None:
    go(admin, "Money")
    for name in ("By cluster", "By instance type", "By class of capacity"):
        admin.get_by_role("navigation", name="Money by").get_by_role("link", name=name).click()
        admin.get_by_role("heading", name=name).wait_for()
        dearest = admin.get_by_role("table", name="the dearest first").locator("tbody tr").first
        assert re.search(r"\$[\d,]*[1-9][\d,]*\.\d\d|\$0\.[0-9]*[1-9]", dearest.inner_text())
    taken = admin.get_by_role("table", name="The last machines that were taken back")
    first = taken.locator("tbody tr", has=admin.get_by_role("link")).first
    first.wait_for(timeout=120_000)  # demand moves, so sooner or later one is given back
    assert re.search(r"(reclaim|preempt)\s.*\$\d", first.inner_text(), re.DOTALL)
    picture(admin, "16-money")
    admin.get_by_role("navigation", name="Money by").get_by_role("link", name="By tenant").click()
    rows = admin.get_by_role("table", name="Tenants are cluster").locator("tbody tr")
    rows.filter(has_text="(all)").wait_for()
    until(lambda: [_start(each) for each in rows.all_inner_texts()] == _by_tenant(fleet))


def test_quotas_and_moves_are_those_of_the_coordinator(admin: "Page") -> None:
    go(admin, "Quotas")
    held = admin.get_by_role("table", name="What the first clusters have and may have")
    held.get_by_role("link", name="blue").first.wait_for()
    told = admin.locator("main").get_by_text("As coordinator tells it: live")
    are(told, 1)
    picture(admin, "17-quotas")
    go(admin, "Moves")
    admin.get_by_role("heading", name="Instructions").wait_for()
    are(told, 4)
    picture(admin, "18-moves")


def test_the_box_at_the_top_leads_to_what_has_the_name(admin: "Page", fleet: Fleet) -> None:
    admin.get_by_role("searchbox", name="Find").fill("blue")
    admin.keyboard.press("Enter")
    admin.wait_for_url("**/clusters/blue")
    admin.get_by_role("heading", name="What was done last for it").wait_for()
    admin.get_by_role("searchbox", name="Find").fill("shard-")
    admin.get_by_role("button", name="Find").click()
    found = admin.get_by_role("table", name="called shard-")
    are(found.locator("tbody tr"), 2)
    picture(admin, "19-find")
    go(admin, "Machines")
    machine = admin.locator("tbody th").first.inner_text()
    admin.get_by_role("searchbox", name="Find").fill(machine)
    admin.keyboard.press("Enter")
    admin.get_by_role("heading", name=f"Machine {machine}").wait_for()
    told = admin.request.get(f"{fleet.url}/machines?state=Configured&as=json").json()
    assert {row["state"] for row in told["rows"]} == {"Configured"}


def test_the_last_half_hour_is_drawn_with_its_numbers(admin: "Page") -> None:
    for path in ("Overview", "Shards"):
        go(admin, path)
        if path == "Shards":
            admin.get_by_role("link", name="shard-a").first.click()
        admin.get_by_role("img", name="Serving since").wait_for()
        admin.get_by_role("img", name="Cycle time since").wait_for()
        told = admin.locator("#live-history figure").first.inner_text()
        assert re.search(r"least \d+, most \d+", told)
