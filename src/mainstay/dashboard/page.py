"""What a page is, and the frame around all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mainstay import __version__
from mainstay.dashboard.access import Session
from mainstay.dashboard.asking import Asking, stale
from mainstay.dashboard.data import Data
from mainstay.dashboard.html import EMPTY, Child, Html, h, link, together
from mainstay.dashboard.live import BEAT_S
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
    """New for each page that is looked at, and the same in its live parts."""

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


def once(seen: Seen) -> Html:
    """The field that makes a form, sent twice, do its work once; one made later does it anew.

    The API keeps its answer to a key, a refusal too, so a form must never use that of another.
    """
    return h("input", type="hidden", name="nonce", value=seen.nonce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: what stands still, and what is brought up to date, by name."""

    title: str
    fixed: Html
    live: Mapping[str, Html]
    section: str
    """The entry of the navigation it belongs to."""

    status: int = 200
    gone: Html = EMPTY
    """Why there is nothing of it to show."""

    to: str = ""
    """Another page that is meant; empty: this one is."""

    data: Data | None = None
    """The rows of a list, for whoever wants them as data."""


def parts_of(page: Page, asking: Asking, now_s: float) -> dict[str, Html]:
    """The live parts, with what is to be said about the age of them."""
    return {"ages": _ages(asking, now_s), "gone": page.gone, **page.live}


def _ages(asking: Asking, now_s: float) -> Html:
    """Who is silent since when, to be read aloud once; how long that is stands beside it."""
    old = sorted(stale(asking.heard).items())
    rows = [
        h(
            "li",
            h("strong", source),
            f" is stale since {clock_time(told.since_s)} UTC: {told.error}.",
            None if told.value is not None else " It has told nothing yet.",
        )
        for source, told in old
    ]
    said = h("div", h("ul", *rows) if rows else None, role="status")
    ticking = ", ".join(f"{source} for {lasting(now_s - told.since_s)}" for source, told in old)
    lasts = h("p", f"Silent: {ticking}.", class_="note") if old else None
    return h("div", said, lasts, class_="ages" if rows else "ages-none")


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
    lives = bool(page.live)  # one that stands still costs nobody anything while it is looked at
    top = _top(seen, lives=lives)
    return document(page.title, top, _navigation(page.section), main, live=lives)


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


def _top(seen: Seen, *, lives: bool) -> Html:
    leave = order("/sign-out", seen.csrf, button="Sign out", class_="quiet")
    live = h("button", "Live updates: on", type="button", id="live-toggle", aria_pressed="true",
             class_="quiet")  # fmt: skip
    state = h("span", "connecting", id="live-state", class_="quiet", role="status",
              data_beat_s=BEAT_S)  # fmt: skip
    return h(
        "header",
        link("Mainstay", "/", class_="brand"),
        _finder(seen),
        *((state, live) if lives else ()),
        theme_button(),
        h("span", f"Signed in as {_who(seen.session)}", class_="quiet"),
        leave,
    )


def _finder(seen: Seen) -> Html:
    """One box for everything that has a name."""
    said = seen.asked("q") if seen.path == "/find" else ""
    box = h("input", type="search", name="q", id="find", value=said, aria_label="Find",
            placeholder="machine, cluster, need...", autocomplete="off")  # fmt: skip
    return h("form", box, h("button", "Find", type="submit", class_="quiet"), method="get",
             action="/find", class_="find", role="search", aria_label="Find")  # fmt: skip


def _who(session: Session) -> str:
    """The name, with the role where that says more."""
    is_role = session.name == session.role
    return session.name if is_role else f"{session.name} ({session.role})"


def theme_button() -> Html:
    """From light to dark and back; kept in the browser."""
    return h("button", "Theme", type="button", id="theme-toggle", class_="quiet")


def _navigation(present: str) -> Html:
    items = [
        h("li", link(name, to, aria_current="page" if to == present else None))
        for to, name in NAVIGATION
    ]
    return h("nav", h("ul", *items), aria_label="Main", class_="main-nav")
