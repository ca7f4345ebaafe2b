"""Whether a page can be read by eye and by ear: labels, names, headings, width, contrast."""

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Page

THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")

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
  const nav = document.querySelector("main.narrow") ? [] : ["nav[aria-label=Main]"];
  for (const what of ["main", "footer", "h1", ...nav])  // who is not signed in can go nowhere
    if (all(what).length !== 1) found.push(`not one ${what}`);
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
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((v, i) => a * v + (1 - a) * under[i]);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const seen = parts(getComputedStyle(e).backgroundColor);
      if (seen.length === 3 || seen[3] > 0) return seen;
    }
    return [255, 255, 255];
  };
  const seenThrough = (e) => {
    let all = 1;
    for (; e; e = e.parentElement) all *= Number(getComputedStyle(e).opacity);
    return all;
  };
  const drawn = (e) => {  // what is painted before a word of a picture, where its middle is
    const at = e.getBoundingClientRect(), svg = e.ownerSVGElement;
    const x = at.x + at.width / 2, y = at.y + at.height / 2;
    let seen = ground(svg);
    for (const shape of svg.querySelectorAll("rect, path, circle, polygon")) {
      if (e.compareDocumentPosition(shape) & Node.DOCUMENT_POSITION_FOLLOWING) break;
      const box = shape.getBoundingClientRect(), fill = getComputedStyle(shape).fill;
      const within = box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
      if (within && fill !== "none" && !shape.closest("marker")) seen = over(parts(fill), seen);
    }
    const style = getComputedStyle(e);  // the edge of a letter is what it is read against
    const edged = style.stroke !== "none" && style.paintOrder.startsWith("stroke");
    return edged ? over(parts(style.stroke), seen) : seen;
  };
  const found = [];
  for (const e of document.querySelectorAll("body *:not(title, script, style)")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest(".skip")) continue;
    const style = getComputedStyle(e), svg = e.ownerSVGElement;
    const behind = svg ? drawn(e) : ground(e);
    const [red, green, blue, a = 1] = parts(svg ? style.fill : style.color);
    const ink = over([red, green, blue, a * seenThrough(e)], behind);
    const [more, less] = [light(ink), light(behind)].sort((x, y) => y - x);
    const ratio = (more + .05) / (less + .05), large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${e.textContent.slice(0, 40)}`);
  }
  return [...new Set(found)];
}"""


def unreadable(page: "Page") -> list[str]:
    """What is wrong with the page as it is now, in either theme."""
    found = [str(each) for each in page.evaluate(FAULTS)]
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.locator(f"html[data-theme={theme}]").wait_for(state="attached")
        found += [f"pale when {theme}: {each}" for each in page.evaluate(PALE)]
    return found
