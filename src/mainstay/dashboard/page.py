"""What a page is, and the frame around all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mainstay import __version__
from mainstay.dashboard.access import Session
from mainstay.dashboard.asking import Asking, stale
from mainstay.dashboard.html import Child, Html, h, link, together
from mainstay.dashboard.paging import Cursors, cursors_in
from mainstay.dashboard.parts import order
from mainstay.dashboard.words import clock_time, lasting

NAVIGATION: Final = (
    ("/", "Overview"),
    ("/shards", "Shards"),
    ("/clusters", "Clusters"),
    ("/needs", "Needs"),
    ("/whatif", "What if"),
    ("/machines", "Machines"),
    ("/racks", "Racks"),
    ("/nodes", "Nodes and slots"),
    ("/allocations", "Allocations"),
    ("/money", "Money"),
    ("/quotas", "Quotas"),
    ("/moves", "Moves"),
    ("/audit", "Audit"),
    ("/controls", "Controls"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a page is made for: who looks, at what, when."""

    session: Session
    path: str
    query: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    """Parts of the path that stand for something."""

    now_s: float
    nonce: str = ""
    """New for each page: a form that is sent twice does its work once."""

    @property
    def may_change(self) -> bool:
        """Whether there are buttons."""
        return self.session.may_change

    @property
    def csrf(self) -> str:
        """For forms."""
        return self.session.csrf

    def asked(self, name: str) -> str:
        """A field of the address, without what no name has."""
        return self.query.get(name, "").strip()[:200]

    @property
    def cursors(self) -> Cursors:
        """Where a list over shards goes on, by shard."""
        return cursors_in(self.query.get("after", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: what stands still, and what is brought up to date, by name."""

    title: str
    fixed: Html
    live: Mapping[str, Html]
    section: str
    """The entry of the navigation it belongs to."""

    status: int = 200


def parts_of(page: Page, asking: Asking, now_s: float) -> dict[str, Html]:
    """The live parts, with what is to be said about the age of them."""
    return {"ages": _ages(asking, now_s), **page.live}


def _ages(asking: Asking, now_s: float) -> Html:
    old = stale(asking.heard)
    rows = [
        h(
            "li",
            h("strong", source),
            f" is stale since {clock_time(told.since_s)} UTC"
            f" ({lasting(now_s - told.since_s)}): {told.error}.",
            None if told.value is not None else " It has told nothing yet.",
        )
        for source, told in sorted(old.items())
    ]
    return h("ul", *rows, class_="ages", role="status") if rows else h("div", class_="ages-none")


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of the last thing somebody did."""

    text: str
    good: bool = True


def framed(page: Page, seen: Seen, live: Mapping[str, Html], notice: Notice | None) -> Html:
    """The whole document."""
    parts = [h("div", made, id=f"live-{name}", data_live=name) for name, made in live.items()]
    said = None if notice is None else _said(notice)
    main = h("main", h("h1", page.title), said, page.fixed, *parts, id="main", tabindex=-1)
    return document(page.title, _top(seen), _navigation(page.section), main, live=True)


def _said(notice: Notice) -> Html:
    if notice.good:
        return h("p", notice.text, class_="notice good", role="status")
    return h("p", notice.text, class_="notice bad", role="alert")


def document(title: str, *children: Child, live: bool = False) -> Html:
    """Head and body."""
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("title", f"{title} · Mainstay"),
        h("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        h("link", rel="stylesheet", href="/static/style.css"),
        h("script", src="/static/theme.js"),
        h("script", src="/static/live.js", type="module") if live else None,
    )
    skip = h("a", "Skip to the content", href="#main", class_="skip")
    body = h("body", skip, *children, h("footer", f"Mainstay {__version__}"))
    return together(Html("<!doctype html>"), h("html", head, body, lang="en"))


def _top(seen: Seen) -> Html:
    leave = order("/sign-out", seen.csrf, button="Sign out", class_="quiet")
    live = h("button", "Live updates: on", type="button", id="live-toggle", aria_pressed="true",
             class_="quiet")  # fmt: skip
    return h(
        "header",
        link("Mainstay", "/", class_="brand"),
        h("span", "connecting", id="live-state", class_="quiet", role="status"),
        live,
        theme_button(),
        h("span", f"Signed in as {seen.session.role}", class_="quiet"),
        leave,
    )


def theme_button() -> Html:
    """From light to dark and back; kept in the browser."""
    return h("button", "Theme", type="button", id="theme-toggle", class_="quiet")


def _navigation(present: str) -> Html:
    items = [
        h("li", link(name, to, aria_current="page" if to == present else None))
        for to, name in NAVIGATION
    ]
    return h("nav", h("ul", *items), aria_label="Main", class_="main-nav")
