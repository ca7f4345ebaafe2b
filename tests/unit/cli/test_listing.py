"""Lists: their order, and what of a watched one is told to a pipe."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
import typer
import yaml

from mainstay.cli import exits, listing
from mainstay.cli.listing import Changes, Listing, Printer, order
from mainstay.cli.output import Format
from mainstay.cli.streaming import Column
from mainstay.model.errors import Unavailable

Captured = pytest.CaptureFixture[str]
Row = tuple[str, object]


def data(row: Row) -> Mapping[str, object]:
    return {"id": row[0], "is": row[1], "age": id(row)}


LISTING: Final = Listing(
    (Column("id", lambda row: row[0]), Column("is $/hour", lambda row: row[1])),
    lambda row: row[0],
    data,
)


def values(said: str, *cells: object) -> Sequence[object]:
    by = order(LISTING, said)
    assert by is not None
    return [row[1] for row in by.sorted([(str(at), cell) for at, cell in enumerate(cells)])]


class TestOrder:
    @pytest.mark.parametrize(
        ("cells", "smallest_first"),
        [
            (["9.00", "1,200.50", "-3"], ["-3", "9.00", "1,200.50"]),
            (["2h", "90s", "1d", "3m"], ["90s", "3m", "2h", "1d"]),
            (["$4.50", "$0.10"], ["$0.10", "$4.50"]),
            (["b", "a", "a b"], ["a", "a b", "b"]),
        ],
    )
    def test_numbers_and_times_go_by_size_and_all_else_as_text(
        self, cells: list[str], smallest_first: list[str]
    ) -> None:
        assert values("is-$/hour", *cells) == smallest_first
        assert values("-is-$/hour", *cells) == smallest_first[::-1]

    @pytest.mark.parametrize("said", ["IS_$/HOUR", "-is $/hour"])
    def test_nothing_comes_last_however_it_is_sorted(self, said: str) -> None:
        assert values(said, "", "2", None) == ["2", "", None]

    def test_a_column_that_there_is_not_is_wrong_usage_and_names_those_there_are(self) -> None:
        with pytest.raises(typer.BadParameter, match=r"no such column: x \(one of id, is-\$/hour"):
            order(LISTING, "x")


class TestPrinter:
    def test_who_sorts_gets_the_first_of_all_and_is_told_of_the_rest(
        self, capsys: Captured
    ) -> None:
        printer = Printer(LISTING, Format.NAME, sort_by="-is-$/hour", limit=2)
        for start in range(0, 100, 10):
            printer.write([(f"r{n}", n) for n in range(start, start + 10)])
        printer.close()

        shown = capsys.readouterr()
        assert shown.out == "r99\nr98\n"
        assert shown.err == "98 more of 100 are not shown; raise --limit, 0 shows all.\n"


class TestOutages:
    """What a look raises is an outage; False: one of two did not answer; True: all is well."""

    LOOKS: Final = (
        True, Unavailable("s-1 is away"), Unavailable("s-1 is away still"), True, False, False,
        Unavailable("nobody answers"), True, Unavailable("s-1 is away again"),
    )  # fmt: skip

    def watched(self, looks: Sequence[bool | Unavailable], printer: Printer) -> int:
        left = list(looks)

        def once() -> int:
            if not left:
                raise KeyboardInterrupt
            printer.write([("a", 1)])
            if isinstance(look := left.pop(0), Unavailable):
                raise look
            printer.close()
            return printer.answered(() if look else (Unavailable("s-2 is away"),))

        return printer.repeat(once)

    def test_each_is_told_once_in_a_pipe_and_nothing_is_gone(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setattr(listing, "WATCH_S", 0.0)

        code = self.watched(self.LOOKS, Printer(LISTING, Format.NAME, watch=True))

        shown = capsys.readouterr()
        assert (code, shown.out) == (exits.DONE, "a\n")
        assert [line.split(": ")[1] for line in shown.err.splitlines()] == [
            "s-1 is away", "s-2 is away", "nobody answers", "s-1 is away again",
        ]  # fmt: skip

    def test_the_first_look_fails_as_without_watching(self) -> None:
        with pytest.raises(Unavailable, match="is away"):
            self.watched([Unavailable("s-1 is away")], Printer(LISTING, Format.NAME, watch=True))


class TestChanges:
    LOOKS: Final[tuple[list[Row], ...]] = (
        [("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("b", 3), ("c", 4)],
    )  # fmt: skip

    def told(self, form: Format) -> None:
        changes = Changes(LISTING, form)
        for look in self.LOOKS:
            changes.write(look)

    def test_a_table_goes_on_with_what_is_new_changed_or_gone(self, capsys: Captured) -> None:
        self.told(Format.TABLE)

        assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
            ["ID", "IS", "$/HOUR", "CHANGE"], ["a", "1", "-"], ["b", "2", "-"],
            ["b", "3", "changed"], ["c", "4", "new"], ["a", "1", "gone"],
        ]  # fmt: skip

    def test_json_is_an_object_a_line(self, capsys: Captured) -> None:
        self.told(Format.JSON)

        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(line["id"], line["change"]) for line in lines] == [
            ("a", ""), ("b", ""), ("b", "changed"), ("c", "new"), ("a", "gone"),
        ]  # fmt: skip

    def test_yaml_is_a_document_each(self, capsys: Captured) -> None:
        self.told(Format.YAML)

        found = list(yaml.safe_load_all(capsys.readouterr().out))
        assert [each["change"] for each in found] == ["", "", "changed", "new", "gone"]
