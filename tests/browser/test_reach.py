"""Everybody can use it: by keyboard alone, by ear, in the dark, and on a small screen."""

from typing import TYPE_CHECKING, Any, Final

import pytest

from looking import Fleet, Looking, go, picture, sign_in
from running import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]

PATHS: Final = (
    "/", "/shards", "/shards/shard-a", "/clusters", "/clusters/blue", "/needs", "/whatif?zone=none",
    "/machines", "/racks", "/nodes", "/allocations", "/money", "/quotas", "/moves", "/audit",
    "/controls", "/find?q=shard",
)  # fmt: skip

FAULTS: Final = """() => {
  const found = [];
  const all = (what) => [...document.querySelectorAll(what)];
  const named = (e) => (e.getAttribute("aria-label") || e.textContent || "").trim();
  const labelled = (e) => e.labels?.length || e.getAttribute("aria-label");
  for (const e of all("input:not([type=hidden]), select, textarea"))
    if (!labelled(e)) found.push(`no label: ${e.name}`);
  for (const e of all("a[href], button")) if (!named(e)) found.push(`no name: ${e.outerHTML}`);
  for (const e of all("table")) {
    if (!e.caption?.textContent.trim()) found.push("a table without a caption");
    if (!e.tHead?.querySelectorAll("th[scope=col]").length) found.push("a table without headings");
    for (const row of e.tBodies[0].rows)
      if (row.cells.length > 1 && !row.querySelector("th[scope=row]"))
        found.push(`a row without a heading: ${row.textContent}`);
  }
  for (const e of all("[role=img]")) if (!e.querySelector("title")) found.push("a picture unnamed");
  for (const what of ["main", "nav", "header", "footer", "h1"])
    if (all(what).filter((e) => what !== "nav" || e.ariaLabel === "Main").length !== 1
        && what !== "header") found.push(`not one ${what}`);
  if (!document.documentElement.lang) found.push("no language");
  const ids = all("[id]").map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`twice: #${id}`);
  let level = 0;
  for (const e of all("h1, h2, h3")) {
    const own = Number(e.tagName[1]);
    if (own > level + 1) found.push(`a heading too deep: ${e.textContent}`);
    level = own;
  }
  if (document.documentElement.scrollWidth > window.innerWidth) found.push("wider than the window");
  return [...new Set(found)];
}"""

PALE: Final = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b);
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const seen = parts(getComputedStyle(e).backgroundColor);
      if (seen.length === 3 || seen[3] > 0) return seen;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *:not(svg *, script, style)")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.offsetParent || e.closest(".skip")) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parts(style.color)), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05), large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${e.textContent.slice(0, 40)}`);
  }
  return [...new Set(found)];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_can_be_read_by_eye_and_by_ear(
    fleet: Fleet, browser: "Browser", theme: Any
) -> None:
    with Looking(browser, color_scheme=theme) as page:
        sign_in(page, fleet, "admin")
        for path in PATHS:
            page.goto(fleet.url + path)
            page.locator("main h1").wait_for()
            assert (path, page.evaluate(FAULTS)) == (path, [])
            assert (path, page.evaluate(PALE)) == (path, [])


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


def test_the_way_into_a_machine_takes_no_mouse(fleet: Fleet, browser: "Browser") -> None:
    with Looking(browser) as page:
        page.goto(fleet.url)
        _tab_to(page, "Token")
        page.keyboard.type(fleet.tokens["admin"])
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Overview").wait_for()
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
        machine = page.locator("tbody th a").first.inner_text()
        _tab_to(page, machine)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=f"Machine {machine}").wait_for()


def _tab_to(page: "Page", name: str, *, back: bool = False) -> None:
    """Step by step; on every step it can be seen where one is."""
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        where, outline = page.evaluate("""() => {
          const e = document.activeElement;
          const style = getComputedStyle(e);
          const name = e.labels?.[0]?.textContent ?? e.textContent;
          return [name.trim(), style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)];
        }""")
        assert outline >= 2 or page.evaluate("document.activeElement === document.body"), where
        if where == name:
            return
    raise AssertionError(f"the keyboard never came to {name}")


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
    fleet: Fleet, browser: "Browser"
) -> None:
    with Looking(browser, viewport={"width": 390, "height": 800}) as page:
        sign_in(page, fleet, "readonly")
        for path in PATHS:
            page.goto(fleet.url + path)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert (path, wide <= 390) == (path, True)
        page.goto(fleet.url)
        picture(page, "21-small")
