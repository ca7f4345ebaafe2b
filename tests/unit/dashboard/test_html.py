"""Whatever people call their things, none of it becomes markup."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from dashboards import FakeShard, Visitor
from mainstay.dashboard.html import address, h, is_own, link
from outside import examples

HOSTILE = (
    '<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "' onmouseover='x",
    "</title><script>", "javascript:alert(1)", "&lt;b&gt;", "a\x00b", "]]>", "//evil.example",
)  # fmt: skip

names = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(min_size=1, max_size=30, alphabet=st.characters(codec="utf-8")),
)


class Tags(HTMLParser):
    """What a browser makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))


def tags(text: str) -> list[tuple[str, tuple[str, ...]]]:
    parser = Tags()
    parser.feed(text)
    return parser.seen


@settings(max_examples=examples(200))
@given(names)
def test_text_and_attributes_never_become_markup(name: str) -> None:
    made = h("p", name, title=name, data_x=name, href=name)
    assert tags(made.text) == [("p", ("title", "data-x", "href"))]


@settings(max_examples=examples(100))
@given(names)
def test_no_address_leads_away_from_us(name: str) -> None:
    assert is_own(address(name, q=name))
    for shown in (link("x", name).text, link("x", address(name)).text):
        to = shown.split('href="')[1].split('"')[0]
        assert to == "#" or (to[0] in "/#" and not to.startswith("//"))


PAGES = (
    "/", "/shards", "/clusters", "/needs", "/machines", "/audit", "/controls", "/nodes",
    "/allocations", "/racks", "/money", "/quotas", "/moves",
)  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_full_of_hostile_names_has_the_same_tags_as_one_of_harmless_ones(
    path: str, name: str
) -> None:
    """The query is hostile too: filters show what was asked for."""
    harmless, hostile = Visitor(FakeShard("shard-a")), Visitor(FakeShard(name))
    query = f"?{address(q=name).partition('?')[2]}&cluster={address(name)[1:]}"
    told = hostile.sign_in().get(path + query)
    assert told.status_code == 200
    assert _plain(tags(told.text)) == _plain(tags(harmless.sign_in().get(path + query).text))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_what_if_about_hostile_names_has_the_same_tags(name: str) -> None:
    harmless, hostile = Visitor(FakeShard("shard-a")), Visitor(FakeShard(name))
    path = address("whatif", zone=name, rack=name)
    told = hostile.sign_in().get(path)
    assert _plain(tags(told.text)) == _plain(tags(harmless.sign_in().get(path).text))


def _plain(seen: list[tuple[str, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    """How many columns are kept short is a matter of length alone."""
    return [(tag, tuple(name for name in names if name != "class")) for tag, names in seen]


def test_what_is_left_out_and_what_has_no_value() -> None:
    assert h("input", required=True, disabled=False, value=None).text == "<input required>"
    assert h("p", None, "a", 1, ["b", None]).text == "<p>a1b</p>"
