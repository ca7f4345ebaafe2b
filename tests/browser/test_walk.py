"""The README on the page: one walk from signing in to a bill, then the same pages by who may only
look.

What the README sets in italics is what is clicked or filled in here; a word of it that the page
does not have fails, and so does one that nobody needed.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import outside
import pages
from looking import Fleet, Looking, are, picture, sign_in
from mainstay.runtime.clock import SystemClock
from running import until
from together import SHOWN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]

README: Final = (outside.ROOT / "README.md").read_text()
FIVE_MINUTES: Final = README.partition("## Five minutes")[2].partition("\n## ")[0]
PRINTED: Final = re.compile(
    r"The page: (?P<url>http://\S+) \(sign in with a token from\s+(?P<tokens>\S+)\)"
)
ANSWER: Final = [
    line.removeprefix("When: ").lower()
    for block in pages.blocks(FIVE_MINUTES)
    if block.info == SHOWN
    for line in block.text.splitlines()
]
"""What the README shows of the answer, without the word that the page has beside it."""

AMOUNT: Final = re.compile(r"\$(\d+\.\d\d)")
KEPT_S: Final = 2.0
"""As long as it takes to cost more than a cent."""

DOLLARS: Final = re.compile(r"-?\$[\d,]+\.\d\d")


def told_words() -> set[str]:
    """What the README tells to look for on the page."""
    found = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", pages.prose(FIVE_MINUTES))
    return {" ".join(each.split()) for each in found}


class Walk:
    """Somebody at the page, who uses the words of the README and remembers which."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.used: set[str] = set()

    def go(self, name: str) -> None:
        """To a page, by the navigation."""
        menu = self.page.get_by_role("navigation", name="Main")
        menu.get_by_role("link", name=self.word(name), exact=True).click()
        self.page.get_by_role("heading", name=name, level=1).wait_for()

    def press(self, name: str) -> None:
        """A button."""
        self.page.get_by_role("button", name=self.word(name), exact=True).click()

    def open(self, name: str) -> None:
        """Something that is folded, or a link."""
        self.page.get_by_text(self.word(name), exact=True).first.click()

    def choose(self, name: str, label: str) -> None:
        """One of a few."""
        self.page.get_by_label(self.word(name), exact=True).select_option(label)

    def choose_what_begins(self, name: str, beginning: str) -> None:
        """One of a few, of which the README tells how it begins."""
        field = self.page.get_by_label(self.word(name), exact=True)
        begins = re.compile(f"^{re.escape(self.word(beginning))}")
        field.select_option(label=field.locator("option").filter(has_text=begins).inner_text())

    def check(self, name: str) -> None:
        """Yes."""
        self.page.get_by_label(self.word(name), exact=True).check()

    def headed(self, name: str) -> str:
        """What stands under a heading."""
        part = self.page.locator("section").filter(
            has=self.page.get_by_role("heading", name=self.word(name), exact=True)
        )
        part.first.wait_for()
        return part.first.inner_text()

    def word(self, name: str) -> str:
        """A word that the README has, too."""
        assert name in told_words(), f"the README does not tell of {name!r}"
        self.used.add(name)
        return name


def test_who_has_only_the_readme_comes_from_the_first_node_to_a_bill(
    fleet: Fleet, browser: "Browser"
) -> None:
    printed = PRINTED.search(fleet.said)
    assert printed is not None
    assert printed["url"] == fleet.url
    assert Path(printed["tokens"]).relative_to(fleet.home) == Path("dashboard/tokens")
    assert "`.mainstay/dashboard/tokens`" in FIVE_MINUTES
    with Looking(browser) as page:
        walk = Walk(page)
        sign_in(page, fleet, "admin")
        _first_nodes(walk)
        _pending_need(walk)
        _what_if(walk)
        allocation = _allocation(walk)
        assert told_words() - walk.used == set()
    with Looking(browser) as page:
        sign_in(page, fleet, "readonly")
        for _ in _everywhere(page, allocation):
            are(page.locator("main form[method=post]"), 0)
            shown = page.locator("main button").all_inner_texts()
            assert [text for text in shown if text not in {"Filter", "What if?", "Show"}] == []


def _first_nodes(walk: Walk) -> None:
    """Machines that serve a cluster, and the page of one of them."""
    walk.go("Machines")
    walk.choose("State", "Configured")
    walk.press("Filter")
    walk.page.wait_for_url("**/machines?state=Configured*")
    rows = walk.page.locator("tbody tr")
    rows.first.wait_for()
    assert {"Configured" in row for row in rows.all_inner_texts()} == {True}
    walk.page.get_by_role("link", name="blue").first.wait_for()


def _pending_need(walk: Walk) -> None:
    """Cause, blocker, nearest miss, the smallest change, when."""
    page = walk.page
    walk.go("Needs")
    walk.check("Only those that miss something")
    walk.press("Filter")
    page.wait_for_url("**/needs?*unmet=1*")
    row = page.get_by_role("row").filter(has_text="ensemble")
    row.wait_for()
    assert "impossible" in row.inner_text()
    row.get_by_text(walk.word("Explain"), exact=True).click()
    told = page.locator(".reasons")
    told.wait_for()
    page.wait_for_load_state()
    parts = dict(
        zip(told.locator("dt").all_inner_texts(), told.locator("dd").all_inner_texts(), strict=True)
    )
    said = [line for each in parts.values() for line in each.splitlines()]
    assert pages.unseen(ANSWER, "\n".join(said).lower()) == []
    assert parts.keys() >= {"What it asks", "Nearest miss", "Smallest change", "When"}
    picture(page, "30-walk-need")


def _what_if(walk: Walk) -> None:
    """Actions and dollars, and nothing done."""
    page = walk.page
    walk.go("What if")
    walk.choose("Lose a zone", "use1-az2")
    walk.press("What if?")
    page.wait_for_url("**/whatif?*zone=use1-az2*")
    page.get_by_role("heading", name="What would happen").wait_for()
    page.get_by_text("Nothing was done.").first.wait_for()
    said = page.locator("main").inner_text()
    assert "Per hour then" in said
    assert len(DOLLARS.findall(said)) >= 2
    planned = page.get_by_role("table", name="Actions that are planned").first
    planned.locator("tbody tr").first.wait_for()
    picture(page, "31-walk-what-if")


def _allocation(walk: Walk) -> str:
    """Asked for, active, given back, paid; its name."""
    page = walk.page
    walk.go("Allocations")
    walk.open("New allocation")
    walk.choose_what_begins("What", "8 GPUs: H200 SXM, in slices")
    walk.press("Create allocation")
    page.get_by_text("is asked for.").wait_for()
    page.locator(".steps li.now", has_text="active").wait_for()
    assert "node task completed" in walk.headed("Timeline")
    assert "when it is given back" in walk.headed("Bill")
    kept_since_s = SystemClock().now_s()
    until(lambda: SystemClock().now_s() > kept_since_s + KEPT_S)
    page.get_by_role("link", name=walk.word("Release"), exact=True).click()
    walk.press("Release")
    page.locator(".steps li.now", has_text="released").wait_for()
    until(lambda: _billed(walk) > 0)
    assert "released" in walk.headed("Timeline")
    picture(page, "32-walk-bill")
    return page.url.rpartition("/")[2]


def _billed(walk: Walk) -> float:
    """The amounts of its bill, in whole units."""
    walk.headed("Bill")
    bill = walk.page.get_by_role("table", name="What it has cost, by month")
    amounts = bill.locator("tbody tr td:last-child").all_inner_texts()
    return sum(float(found[1]) for text in amounts if (found := AMOUNT.fullmatch(text)))


def _everywhere(page: "Page", allocation: str) -> Iterator[None]:
    """Each page of the walk, and the one of the allocation."""
    menu = page.get_by_role("navigation", name="Main")
    for name in ("Machines", "Needs", "What if", "Allocations", "Controls"):
        menu.get_by_role("link", name=name, exact=True).click()
        page.get_by_role("heading", name=name, level=1).wait_for()
        page.wait_for_load_state()
        yield
    page.get_by_role("heading", name="Controls", level=1).wait_for()
    menu.get_by_role("link", name="Allocations", exact=True).click()
    page.get_by_role("link", name=allocation).click()
    page.get_by_role("heading", name=f"Allocation {allocation}").wait_for()
    page.wait_for_load_state()
    yield
