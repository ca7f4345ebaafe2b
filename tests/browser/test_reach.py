"""Everybody can use it: by keyboard alone, by ear, in the dark, and on a small screen."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest

from looking import Fleet, Looking, allocate, go, picture, sign_in
from readable import unreadable
from running import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]

PATHS: Final = (
    "/", "/shards", "/shards/shard-a", "/clusters", "/clusters/blue", "/needs", "/whatif",
    "/whatif?zone=none", "/machines", "/racks", "/racks?by=zone", "/nodes", "/allocations",
    "/money", "/money?by=tenant", "/quotas", "/moves", "/audit", "/controls", "/find?q=shard",
)  # fmt: skip
SUPPOSED: Final = "/whatif?capacity=spot&factor=3&cluster=blue&cpu=640&zone="


@pytest.fixture(scope="module")
def named(fleet: Fleet, browser: "Browser") -> Iterator[Sequence[str]]:
    """Pages of what this fleet has, with its names; the allocation is given back at the end."""
    with Looking(browser) as page:
        sign_in(page, fleet, "admin")
        allocation = allocate(page, 1)
        yield (
            _first(page, fleet, "/needs?unmet=1", "a", has_text="Explain"),
            SUPPOSED + _zone(page, fleet),
            (machine := _first(page, fleet, "/machines?state=Configured", "tbody th a")),
            f"{machine}/retire",
            _first(page, fleet, "/racks", ".rack h2 a"),
            _first(page, fleet, "/nodes", ".rack h2 a"),
            allocation,
            f"{allocation}/release",
        )
        page.goto(f"{fleet.url}{allocation}/release")
        page.get_by_role("button", name="Release").click()
        page.get_by_text("It is being released.").wait_for()


def _first(page: "Page", fleet: Fleet, path: str, what: str, **narrowed: Any) -> str:
    """Where the first of some links on a page leads."""
    page.goto(fleet.url + path)
    return str(page.locator("main").locator(what, **narrowed).first.get_attribute("href"))


def _zone(page: "Page", fleet: Fleet) -> str:
    page.goto(f"{fleet.url}/whatif")
    page.get_by_label("Lose a zone").select_option(index=1)
    return page.get_by_label("Lose a zone").input_value()


def test_every_page_can_be_read_by_eye_and_by_ear(
    fleet: Fleet, browser: "Browser", named: Sequence[str]
) -> None:
    with Looking(browser) as page:
        page.goto(fleet.url)
        page.get_by_label("Token").wait_for()
        found = {"/sign-in": unreadable(page)}
        sign_in(page, fleet, "admin")
        for path in (*PATHS, *named):
            page.goto(fleet.url + path)
            page.locator("main h1").wait_for()
            found[path] = unreadable(page)
        assert {path: each for path, each in found.items() if each} == {}


def test_dark_is_what_the_system_says_until_a_person_says_otherwise(
    fleet: Fleet, browser: "Browser"
) -> None:
    with Looking(browser, color_scheme="dark") as page:
        sign_in(page, fleet, "admin")
        page.get_by_role("img", name="Machines by state").wait_for()
        dark = _ground(page)
        picture(page, "20-dark")
        page.get_by_role("button", name="Light theme").click()
        assert _ground(page) != dark
        page.reload()
        assert _ground(page) != dark


def _ground(page: "Page") -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def _sign_in_by_keys(page: "Page", fleet: Fleet) -> None:
    page.goto(fleet.url)
    _tab_to(page, "Token")
    page.keyboard.type(fleet.tokens["admin"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Overview").wait_for()


def test_the_way_into_a_machine_takes_no_mouse(fleet: Fleet, browser: "Browser") -> None:
    with Looking(browser) as page:
        _sign_in_by_keys(page, fleet)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        _tab_to(page, "Machines", back=True)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Machines", level=1).wait_for()
        _tab_to(page, "Cluster")
        page.keyboard.type("blue")
        page.keyboard.press("Enter")
        page.wait_for_url("**/machines?*cluster=blue*")
        machine = _tab_into(page, "tbody th a")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=f"Machine {machine}").wait_for()


def test_who_orders_needs_no_mouse(fleet: Fleet, browser: "Browser") -> None:
    with Looking(browser) as page:
        _sign_in_by_keys(page, fleet)
        _open(page, "Allocations")
        page.locator("summary", has_text="New allocation").wait_for()
        _press(page, "New allocation")
        _choose(page, "What", "1 GPU: H200 SXM, in slices")
        _press(page, "Create allocation")
        page.get_by_text("is asked for.").wait_for()
        page.locator(".steps li.now", has_text="active").wait_for()
        _press(page, "Release")
        page.get_by_text("1 GPU is given back").wait_for()
        _press(page, "Release")
        page.get_by_text("It is being released.").wait_for()
        page.locator(".steps li.now", has_text="released").wait_for()
        _open(page, "Controls")
        _choose(page, "What", "Limit: at most")
        _choose(page, "Shard", "shard-b")
        _fill(page, "Value (of limits)", "500")
        _fill(page, "Reason", "no mouse here")
        _fill(page, "For how many minutes", "5")
        page.keyboard.press("Enter")
        page.get_by_text("action limit of shard-b is set for 5 minutes.").wait_for()
        _press(page, "Lift action_limit of shard-b")
        page.get_by_text("action limit of shard-b is lifted.").wait_for()


def _open(page: "Page", name: str) -> None:
    """A page, by the navigation."""
    _press(page, name)
    page.get_by_role("heading", name=name, level=1).wait_for()


def _press(page: "Page", name: str) -> None:
    _tab_to(page, name)
    page.keyboard.press("Enter")


def _fill(page: "Page", name: str, text: str) -> None:
    """What one comes to by tabulator is selected, and typed over."""
    _tab_to(page, name)
    page.keyboard.type(text)


def _choose(page: "Page", name: str, beginning: str) -> None:
    """One of a few, by how it begins."""
    _tab_to(page, name)
    page.keyboard.type(beginning)
    chosen = page.evaluate("document.activeElement.selectedOptions[0].textContent")
    assert chosen.startswith(beginning), chosen


def _tab_to(page: "Page", name: str, *, back: bool = False) -> None:
    """Step by step; on every step it can be seen where one is."""
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        where, outline = page.evaluate("""() => {
          const e = document.activeElement;
          const style = getComputedStyle(e);
          const name = e.ariaLabel ?? e.labels?.[0]?.textContent ?? e.textContent;
          return [name.trim(), style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)];
        }""")
        assert outline >= 2 or page.evaluate("document.activeElement === document.body"), where
        if where == name:
            return
    raise AssertionError(f"the keyboard never came to {name}")


def _tab_into(page: "Page", selector: str) -> str:
    """To the first of these, and what it is called: in a living list that may change on the way."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("each => document.activeElement.matches(each)", selector):
            return str(page.evaluate("document.activeElement.textContent.trim()"))
    raise AssertionError(f"the keyboard never came to {selector}")


def test_focus_stays_where_it_is_while_the_page_lives(admin: "Page") -> None:
    go(admin, "Shards")
    held = admin.get_by_role("link", name="shard-a").first
    held.focus()
    admin.locator("#live-state", has_text="live").wait_for()
    part = admin.locator("#live-shards")
    before = part.inner_text()
    until(lambda: part.inner_text() != before)
    assert admin.evaluate("document.activeElement.textContent") == "shard-a"


def test_a_small_screen_shows_it_all_without_scrolling_sideways(
    fleet: Fleet, browser: "Browser", named: Sequence[str]
) -> None:
    with Looking(browser, viewport={"width": 390, "height": 800}) as page:
        sign_in(page, fleet, "readonly")
        for path in (*PATHS, *named):
            page.goto(fleet.url + path)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert (path, wide <= 390) == (path, True)
        page.goto(fleet.url)
        picture(page, "21-small")
