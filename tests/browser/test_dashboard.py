"""The ten things a person does on the dashboard, from start to end, in a real browser.

One fleet for all of them. Each leaves a picture in site/screenshots, for people to look at.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import outside
from running import Home, Process, until
from tree import BIN

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]

PICTURES: Final = outside.ROOT / "site" / "screenshots"
PATIENCE_S: Final = 240.0
FLAGS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that runs, and the page over it."""

    home: Path
    url: str
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """`mainstay up`, one cluster that asks for more than there is, and the dashboard."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-browser-"))
    folder.chmod(0o755)  # an embedded database may run as somebody else
    home = Home(folder / "home")
    home.path.mkdir()
    log, env = folder / "up.log", outside.environment(MAINSTAY_HOME=str(home.path), NO_COLOR="1")
    with log.open("wb") as written:
        up = subprocess.Popen(
            [str(BIN / "mainstay"), "up", "--free-ports", "--fleet", "120"],
            env=env, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
        )  # fmt: skip
    try:
        until(lambda: "Ctrl-C stops everything." in log.read_text() or _ended(up, log),
              patience_s=PATIENCE_S)  # fmt: skip
        facts = (
            _announced(home.path)
            or home.start(
                "dashboard", "dashboard", "--listen", "127.0.0.1:0", "--refresh", "0.5"
            ).facts
        )
        _greedy(home)
        tokens = dict(line.split() for line in Path(facts["tokens"]).read_text().splitlines())
        yield Fleet(home.path, facts["addresses"]["page"], tokens)
    finally:
        home.close()
        up.kill()  # what it has started ends with it
        up.wait()
        until(lambda: _is_gone(folder))


def _ended(up: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert up.poll() is None, log.read_text()
    return False


def _announced(home: Path) -> dict[str, Any]:
    """The dashboard of `mainstay up`, where it has one."""
    for path in (home / "run").glob("dashboard-*.json"):
        return dict(json.loads(path.read_text()))
    return {}


def _greedy(home: Home) -> None:
    """A cluster whose demand no fleet of this size can meet."""
    issued = home.run("certs", "issue", "cluster", "greedy")
    assert issued.returncode == 0, issued.stderr
    shard = json.loads((home.path / "run" / "shard-shard-b.json").read_text())
    pki = home.path / "pki"
    log = home.path / "greedy.log"
    with log.open("wb") as written:
        words = [
            "cluster", "sim", "--name", "greedy", "--machines", "90", "--steady", "--every", "1",
            "--server", shard["addresses"]["grpc"],
            "--tls-cert", str(pki / "cluster-greedy.crt"),
            "--tls-key", str(pki / "cluster-greedy.key"), "--tls-ca", str(pki / "ca.crt"),
        ]  # fmt: skip
        popen = subprocess.Popen(
            [str(BIN / "mainstay"), *words], stdin=subprocess.DEVNULL, stdout=written,
            stderr=written, env=outside.environment(MAINSTAY_HOME=str(home.path)),
        )  # fmt: skip
    home.started.append(Process(popen, {}, log))


def _is_gone(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def admin(fleet: Fleet, browser: "Browser") -> "Iterator[Page]":
    """Somebody who is signed in; at the end nothing must have been said to the console."""
    with Looking(browser) as page:
        _sign_in(page, fleet, "admin")
        yield page


class Looking:
    """A page of its own, that fails if anything went wrong in it."""

    def __init__(self, browser: "Browser", **options: Any) -> None:
        self._context = browser.new_context(viewport={"width": 1360, "height": 900}, **options)
        self.wrong: list[str] = []

    def __enter__(self) -> "Page":
        page = self._context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda told: self._heard(told.type, told.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("requestfailed", lambda asked: self._failed(asked.url, str(asked.failure)))
        return page

    def __exit__(self, *_: object) -> None:
        self._context.close()
        assert self.wrong == []

    def _heard(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.wrong.append(f"{kind}: {text}")

    def _failed(self, url: str, why: str) -> None:
        if "ERR_ABORTED" not in why:  # what is under way ends when its page is left
            self.wrong.append(f"{url}: {why}")


def _sign_in(page: "Page", fleet: Fleet, role: str) -> None:
    page.goto(fleet.url)
    page.get_by_label("Token").fill(fleet.tokens[role])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()


def _picture(page: "Page", name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def _go(page: "Page", name: str) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()
    page.get_by_role("heading", name=name, level=1).wait_for()


def test_1_signing_in_takes_a_token_that_is_known(fleet: Fleet, browser: "Browser") -> None:
    looking = Looking(browser)
    with looking as page:
        page.goto(f"{fleet.url}/machines?state=Idle")
        page.get_by_label("Token").fill("guessed")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").wait_for()
        looking.wrong.clear()  # the browser tells of the refusal
        _picture(page, "01-sign-in")
        page.get_by_label("Token").fill(fleet.tokens["admin"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/machines?state=Idle")
        cookie = next(c for c in page.context.cookies() if c["name"] == "mainstay_dashboard")
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_2_the_fleet_is_seen_at_a_glance_and_moves(admin: "Page") -> None:
    _go(admin, "Overview")
    drawn = admin.get_by_role("img", name="Machines by state")
    drawn.wait_for()
    assert re.search(r"Configured \d+", drawn.get_by_text("Machines by state").text_content() or "")
    admin.locator("#live-state", has_text="live").wait_for()
    before = admin.locator("#live-decisions").inner_text()
    until(lambda: admin.locator("#live-decisions").inner_text() != before)
    _picture(admin, "02-overview")


def test_3_an_unmet_need_is_found_and_explained(admin: "Page") -> None:
    _go(admin, "Needs")
    admin.get_by_label("Only those that miss something").check()
    admin.get_by_label("Cluster").fill("greedy")
    admin.get_by_role("button", name="Filter").click()
    admin.wait_for_url("**/needs?cluster=greedy&unmet=1")
    admin.get_by_role("link", name="Explain need").first.wait_for()
    _picture(admin, "03-needs")
    admin.get_by_role("link", name="Explain need").first.click()
    admin.get_by_text("It misses").first.wait_for()
    _picture(admin, "04-explanation")


def test_4_machines_are_filtered_and_the_address_says_how(admin: "Page", fleet: Fleet) -> None:
    _go(admin, "Machines")
    assert admin.locator("tbody tr").count() == 50
    admin.get_by_role("link", name="Next").click()
    admin.wait_for_url("**/machines?page=2")
    admin.get_by_label("State").select_option("Configured")
    admin.get_by_label("Cluster").fill("blue")
    admin.get_by_role("button", name="Filter").click()
    admin.wait_for_url("**/machines?state=Configured&cluster=blue**")
    admin.reload()
    assert admin.get_by_label("Cluster").input_value() == "blue"
    rows = admin.locator("tbody tr")
    rows.first.wait_for()
    assert {"blue" in row and "Configured" in row for row in rows.all_inner_texts()} == {True}
    _picture(admin, "05-machines")


def test_5_one_machine_shows_its_life_and_why(admin: "Page") -> None:
    admin.locator("tbody tr a").first.click()
    admin.get_by_role("img", name="The life of a machine; this one is Configured.").wait_for()
    admin.get_by_role("heading", name="Why").wait_for()
    admin.get_by_role("heading", name="Recent actions").wait_for()
    _picture(admin, "06-machine")


def test_6_a_shard_is_paused_with_a_reason_and_let_go(admin: "Page") -> None:
    _go(admin, "Controls")
    admin.get_by_label("Shard", exact=True).select_option("shard-a")
    admin.get_by_label("Reason").fill("looking at <b>something</b>")
    admin.get_by_label("For how many minutes").fill("5")
    admin.get_by_role("button", name="Set control").click()
    admin.get_by_text("pause of shard-a is set for 5 minutes.").wait_for()
    admin.get_by_text("looking at <b>something</b>").wait_for()
    admin.get_by_text("does not act").wait_for()
    _picture(admin, "07-paused")
    admin.get_by_role("button", name="Lift pause of shard-a").click()
    admin.get_by_text("pause of shard-a is lifted.").wait_for()
    admin.get_by_text("Nothing holds any shard back.").wait_for()


def test_7_shards_and_domains_are_seen_side_by_side(admin: "Page") -> None:
    _go(admin, "Shards")
    domains = admin.get_by_role("table", name="Who has which machines")
    assert domains.locator("tbody tr").count() == 3
    _picture(admin, "08-shards")
    admin.get_by_role("link", name="shard-a").first.click()
    admin.get_by_role("img", name="Machines of shard-a").wait_for()
    _picture(admin, "09-shard")


def test_8_an_allocation_is_created_and_its_timeline_grows(admin: "Page") -> None:
    _go(admin, "Allocations")
    admin.get_by_text("New allocation").click()
    admin.get_by_label("What").select_option("h200-sxm-slice@region-1")
    admin.get_by_label("GPUs").select_option("2")
    admin.get_by_role("button", name="Create allocation").click()
    admin.get_by_text("is asked for.").wait_for()
    admin.locator(".steps li.now", has_text="active").wait_for()
    assert admin.locator("#timeline li").count() > 2
    _picture(admin, "10-allocation")
    here = admin.url
    _go(admin, "Nodes and slots")
    admin.get_by_role("img", name="in_use").first.wait_for()
    _picture(admin, "11-nodes")
    admin.goto(here)


def test_9_it_is_released_and_its_clean_up_is_proved(admin: "Page") -> None:
    admin.get_by_role("button", name="Release").click()
    admin.get_by_text("It is being released.").wait_for()
    admin.locator(".steps li.now", has_text="released").wait_for()
    assert admin.get_by_role("button", name="Release").count() == 0
    _picture(admin, "12-released")
    _go(admin, "Audit")
    admin.get_by_role("heading", name="What people did with tenants").wait_for()
    _picture(admin, "13-audit")


def test_a_dark_is_what_the_system_says_until_a_person_says_otherwise(
    fleet: Fleet, browser: "Browser"
) -> None:
    with Looking(browser, color_scheme="dark") as page:
        _sign_in(page, fleet, "admin")
        page.get_by_role("img", name="Machines by state").wait_for()
        dark = _ground(page)
        _picture(page, "14-dark")
        page.get_by_role("button", name="Light theme").click()
        assert _ground(page) != dark
        page.reload()
        assert _ground(page) != dark


def _ground(page: "Page") -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_b_who_may_only_look_sees_no_buttons_and_is_refused(
    fleet: Fleet, browser: "Browser"
) -> None:
    with Looking(browser) as page:
        _sign_in(page, fleet, "readonly")
        _go(page, "Controls")
        assert page.locator("main form").count() == 0
        _go(page, "Allocations")
        assert page.locator("main form[method=post]").count() == 0
        answer = page.request.post(f"{fleet.url}/controls/set", form={"shard": "shard-a"})
        assert answer.status == 403


def test_c_everything_can_be_reached_by_keyboard(admin: "Page") -> None:
    _go(admin, "Overview")
    admin.evaluate("document.activeElement.blur()")
    admin.keyboard.press("Tab")
    assert admin.evaluate("document.activeElement.textContent") == "Skip to the content"
    admin.keyboard.press("Enter")
    assert admin.evaluate("document.activeElement.id") == "main"
    tables, named = admin.locator("table"), admin.locator("table > caption")
    assert tables.count() == named.count() > 0


def test_d_numbers_of_a_shard_that_stops_grow_old_and_say_so(fleet: Fleet, admin: "Page") -> None:
    _go(admin, "Shards")
    pid = json.loads((fleet.home / "run" / "shard-shard-b.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        admin.get_by_role("status").filter(has_text="shard-b is stale since").wait_for()
        row = admin.locator("tbody tr").filter(has_text="shard-b").first
        assert "stale since" in row.inner_text()
        assert "live" in admin.locator("tbody tr").filter(has_text="shard-a").first.inner_text()
        _picture(admin, "15-stale")
    finally:
        os.kill(pid, signal.SIGCONT)
    admin.locator(".ages").wait_for(state="detached")
