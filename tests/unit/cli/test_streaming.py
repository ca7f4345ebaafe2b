"""Rows as they come in: the same as if they had come at once."""

import json
from collections.abc import Mapping

import pytest
import yaml

from mainstay.cli.output import Format
from mainstay.cli.streaming import Column, RowStream

Captured = pytest.CaptureFixture[str]
Row = tuple[str, object]

COLUMNS = (
    Column("id", lambda row: row[0]),
    Column("value", lambda row: row[1]),
    Column("length", lambda row: len(row[0]), wide=True),
)


def data(row: Row) -> Mapping[str, object]:
    return {"id": row[0], "value": row[1]}


def written(form: Format, *chunks: list[Row]) -> None:
    stream = RowStream(COLUMNS, form, lambda row: row[0])
    for chunk in chunks:
        stream.write(chunk, data)
    stream.close()


def test_a_table_has_one_header_and_is_as_wide_as_its_first_rows(capsys: Captured) -> None:
    written(Format.TABLE, [("aaaa", 1)], [("b", 2), ("cccccc", "")])

    assert capsys.readouterr().out == "ID     VALUE\naaaa   1\nb      2\ncccccc   -\n"


def test_a_wide_table_has_every_column(capsys: Captured) -> None:
    written(Format.WIDE, [("aa", True)])

    assert capsys.readouterr().out == "ID   VALUE   LENGTH\naa   yes     2\n"


@pytest.mark.parametrize("chunks", [[], [[("a", 1)]], [[("a", 1)], [], [("b", [2]), ("c", None)]]])
def test_json_in_chunks_is_one_document(chunks: list[list[Row]], capsys: Captured) -> None:
    written(Format.JSON, *chunks)

    rows = [dict(data(row)) for chunk in chunks for row in chunk]
    assert capsys.readouterr().out == json.dumps(rows, indent=2) + "\n"


@pytest.mark.parametrize("chunks", [[], [[("a", 1)], [("b", 2)]]])
def test_yaml_in_chunks_is_one_document(chunks: list[list[Row]], capsys: Captured) -> None:
    written(Format.YAML, *chunks)

    rows = [dict(data(row)) for chunk in chunks for row in chunk]
    assert yaml.safe_load(capsys.readouterr().out) == rows


def test_names_alone_are_one_a_line_and_none_is_nothing(capsys: Captured) -> None:
    written(Format.NAME, [("a", 1)], [("b", 2)])
    written(Format.NAME)

    assert capsys.readouterr().out == "a\nb\n"


def test_no_rows_are_said_to_be_none(capsys: Captured) -> None:
    written(Format.TABLE)

    assert capsys.readouterr().out == "(nothing)\n"


def test_what_a_cell_may_not_hold_does_not_reach_a_terminal(capsys: Captured) -> None:
    written(Format.TABLE, [("a\x1b[31m", "two\nlines")])

    assert capsys.readouterr().out.splitlines()[1] == "a?[31m   two lines"
