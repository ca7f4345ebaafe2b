"""The picture of `mainstay top`: what a key does, and that it never leaves the screen."""

import io
from typing import Any, Final

import pytest
from rich.console import Console

from mainstay.cli.top_live import OVERVIEW, Sight, picture, split_keys
from mainstay.cli.top_views import (
    LISTED_MAX,
    LISTS,
    Fleet,
    Page,
    leader_line,
    move_rows,
    need_rows,
    numbers_of,
)
from mainstay.model import coordinator_views as cv
from mainstay.model import views as v

HEIGHT: Final = 12
NOBODY: Final = Fleet(())


def drawn(sight: Sight, *, width: int = 60, height: int = HEIGHT) -> list[str]:
    written = io.StringIO()
    console = Console(width=width, height=height, file=written)
    console.print(picture(sight, NOBODY, "12:00:00 UTC", height))
    return [line.rstrip() for line in written.getvalue().splitlines()]


def rows(count: int) -> tuple[dict[str, str], ...]:
    return tuple({"need": f"web/{n}", "why": "starved"} for n in range(count))


class TestKeys:
    @pytest.mark.parametrize("key", [OVERVIEW, *(view.key for view in LISTS)])
    def test_every_view_has_a_key(self, key: str) -> None:
        sight = Sight(key="x", scroll=5, page=Page(rows(3)))

        assert sight.press(key, HEIGHT)
        assert (sight.key, sight.scroll, sight.page) == (key, 0, Page())

    def test_no_two_views_have_the_same_key(self) -> None:
        keys = [OVERVIEW, *(view.key for view in LISTS), "f", "q", "+", "-", "b", "J", "K"]

        assert len(keys) == len(set(keys))

    @pytest.mark.parametrize("key", ["q", "\x03", "\x04"])
    def test_some_end_it(self, key: str) -> None:
        assert not Sight().press(key, HEIGHT)

    def test_the_pace_has_bounds(self) -> None:
        sight = Sight()
        for _ in range(20):
            sight.press("+", HEIGHT)
        fastest = sight.interval_s
        for _ in range(20):
            sight.press("-", HEIGHT)

        assert (fastest, sight.interval_s) == (0.5, 60.0)

    def test_an_arrow_is_one_key_among_others(self) -> None:
        assert split_keys("n\x1b[B\x1b[6~q") == ["n", "\x1b[B", "\x1b[6~", "q"]


class TestPicture:
    @pytest.mark.parametrize("height", [5, 12, 40])
    @pytest.mark.parametrize("key", [OVERVIEW, "n"])
    def test_it_fits_the_screen_however_much_there_is(self, key: str, height: int) -> None:
        sight = Sight(key=key, page=Page(rows(100)), text="\n".join(map(str, range(100))))

        lines = drawn(sight, height=height)

        assert 3 < len(lines) <= height
        assert all(len(line) <= 60 for line in lines)

    def test_scrolling_stops_at_the_end(self) -> None:
        sight = Sight(key="n", page=Page(rows(20)), scroll=999)

        lines = drawn(sight)

        assert any("web/19" in line for line in lines)
        assert sight.scroll == 12

    def test_who_did_not_answer_is_told_above_the_rows(self) -> None:
        lines = drawn(Sight(key="n", page=Page(rows(1), missing=("shard s-2 is down",))))

        assert lines.index("not reachable: shard s-2 is down") < next(
            at for at, line in enumerate(lines) if "web/0" in line
        )

    def test_what_cannot_be_printed_is_not(self) -> None:
        evil: Any = ({"need": "a\x1b[2Jb"},)

        assert "a?[2Jb" in "\n".join(drawn(Sight(key="n", page=Page(evil))))


class TestRows:
    def test_a_need_is_named_as_explain_takes_it(self) -> None:
        need = v.NeedRow(
            cluster="web", fingerprint="0123456789", group="g", reason="starved", parked=True
        )

        [row] = need_rows(v.NeedRows(stamp=v.Stamp(shard="s"), rows=(need,)))

        assert (row["need"], row["why"]) == ("web/01234567/g", "starved, parked")

    def test_moves_and_the_leader_are_told(self) -> None:
        move = cv.MoveRow(id="m-1", donor="a", recipient="b", machines=("x", "y"), state="done")
        told = cv.MoveRows(stamp=cv.CoordinatorStamp(coordinator="c-1"), rows=(move,))

        [row] = move_rows(told, 0.0)

        assert (row["from"], row["to"], row["machines"]) == ("a", "b", "2")
        assert leader_line(cv.StandingRow(id="c-1", leads=True, term=3, store="etcd")) == (
            "c-1 leads, term 3, etcd"
        )

    def test_a_cut_list_says_that_there_is_more(self) -> None:
        assert numbers_of(rows(LISTED_MAX)) == "200+"
