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
    allocation_rows,
    leader_line,
    machine_query,
    machine_rows,
    move_rows,
    need_rows,
    numbers_of,
)
from mainstay.model import coordinator_views as cv
from mainstay.model import views as v
from mainstay.model.questions import About, Question
from mainstay.model.state import State

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


def typed(sight: Sight, keys: str) -> Sight:
    assert all(sight.press(key, HEIGHT) for key in split_keys(keys))
    return sight


class TestFilter:
    def test_only_rows_with_what_is_typed_are_shown_whatever_their_case(self) -> None:
        sight = typed(Sight(key="n", page=Page(rows(30))), "/WEB/1\n")

        lines = "\n".join(drawn(sight))

        assert len(sight.rows) == 11
        assert "web/19" not in lines  # behind the last line
        assert "web/10" in lines
        assert "web/2" not in lines
        assert "only with 'WEB/1'" in lines

    def test_keys_of_views_and_of_quitting_are_letters_in_it(self) -> None:
        sight = typed(Sight(key="n", page=Page(rows(3))), "/qcx\x7f")

        assert (sight.key, sight.wanted) == ("n", "qc")
        assert "/qc_" in drawn(sight)[1]
        assert not sight.press("\x03", HEIGHT)

    def test_escape_shows_all_again(self) -> None:
        while_typing = typed(Sight(key="n", page=Page(rows(3))), "/1\x1b")
        later = typed(Sight(key="n", page=Page(rows(3))), "/1\n\x1b")

        assert len(while_typing.rows) == len(later.rows) == 3
        assert not while_typing.typing

    def test_of_machines_the_shard_is_asked_for_those_that_have_it(self) -> None:
        sight = typed(Sight(key="m"), "/x-29")

        assert machine_query(sight.wanted) == v.MachineQuery(limit=LISTED_MAX, text="x-29")

    def test_a_text_has_none(self) -> None:
        assert not typed(Sight(), "/").typing


class TestPane:
    def test_enter_asks_about_the_row_that_is_selected_and_escape_closes(self) -> None:
        sight = Sight(key="n", page=Page(rows(20)))
        drawn(sight)
        typed(sight, "\x1b[B" * 9 + "\n")
        sight.answer = ("It misses 8 of 8.",)

        lines = drawn(sight)

        assert sight.question == Question(about=About.NEED, name="web", fingerprint="9", quick=True)
        assert any("need web/9" in line for line in lines)
        assert any("It misses 8 of 8." in line for line in lines)
        assert any(line.startswith("web/9") for line in lines)
        assert typed(sight, "\x1b").question is None

    def test_of_filtered_rows_the_one_that_is_shown_is_meant(self) -> None:
        sight = typed(Sight(key="n", page=Page(rows(20))), "/web/17\n\n")

        assert sight.question == Question(
            about=About.NEED, name="web", fingerprint="17", quick=True
        )

    def test_a_machine_is_asked_about_by_its_name(self) -> None:
        page = Page(tuple(machine_rows([v.MachineRow(id="x-1", state=State.IDLE)])))

        assert typed(Sight(key="m", page=page), "\n").question == Question(
            about=About.MACHINE, name="x-1"
        )

    @pytest.mark.parametrize("key", [OVERVIEW, "c", "t"])
    def test_what_nothing_explains_opens_none(self, key: str) -> None:
        assert typed(Sight(key=key, page=Page(rows(2))), "\n").question is None

    @pytest.mark.parametrize("height", [5, 6, 9, 12, 40])
    def test_it_never_leaves_the_screen(self, height: int) -> None:
        sight = typed(Sight(key="n", page=Page(rows(100))), "\n")
        sight.answer = ("a sentence that is longer than a line " * 4,) * 30

        assert len(drawn(sight, height=height)) <= height

    def test_no_pane_of_one_view_is_left_in_another(self) -> None:
        assert typed(Sight(key="n", page=Page(rows(2))), "\nm").question is None


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

    def test_an_allocation_of_a_tenant_has_its_node_and_its_age(self) -> None:
        told = {
            "allocation_id": "alc_1", "status": "active", "project_id": "prj_1", "sku": "h200",
            "gpus": 8, "node_id": None, "created_at": "1970-01-01T00:00:00Z",
        }  # fmt: skip

        [row] = allocation_rows([told], 7200.0)

        assert (row["allocation"], row["node"], row["age"]) == ("alc_1", "", "2h")

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
