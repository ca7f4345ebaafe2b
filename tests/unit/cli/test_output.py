"""Rows on stdout, in each format."""

import json

import pytest
import typer
import yaml

from mainstay.cli import output

ROWS = [
    {"name": "m1", "idle_s": 3, "cluster": None, "ready": True},
    {"name": "machine-2", "idle_s": 12.5, "cluster": "", "ready": False},
]

Captured = pytest.CaptureFixture[str]


class TestTable:
    def test_columns_are_as_wide_as_their_widest_cell(self, capsys: Captured) -> None:
        output.write(ROWS, output.Format.TABLE)

        assert capsys.readouterr().out == (
            "NAME        IDLE S   CLUSTER   READY\n"
            "m1          3        -         True\n"
            "machine-2   12.5     -         False\n"
        )

    def test_no_rows_are_said_to_be_none(self, capsys: Captured) -> None:
        output.write([], output.Format.TABLE)

        assert capsys.readouterr().out == "(nothing)\n"

    def test_a_row_with_other_columns_is_refused(self) -> None:
        with pytest.raises(ValueError, match="zip"):
            output.write([{"a": 1}, {"a": 1, "b": 2}], output.Format.TABLE)


class TestNames:
    def test_the_first_value_of_a_row_is_its_name(self, capsys: Captured) -> None:
        output.write(ROWS, output.Format.NAME)
        output.write([], output.Format.NAME)

        assert capsys.readouterr().out == "m1\nmachine-2\n"

    def test_what_is_no_list_of_names_refuses(self) -> None:
        with pytest.raises(typer.BadParameter, match="no list of names"):
            output.not_by_name(output.Format.NAME)


class TestData:
    def test_json_holds_the_rows_as_they_are(self, capsys: Captured) -> None:
        output.write(ROWS, output.Format.JSON)

        assert json.loads(capsys.readouterr().out) == ROWS

    def test_yaml_holds_the_rows_in_their_order(self, capsys: Captured) -> None:
        output.write(ROWS, output.Format.YAML)

        shown = capsys.readouterr().out
        assert yaml.safe_load(shown) == ROWS
        assert shown.startswith("- name: m1\n  idle_s: 3\n")

    @pytest.mark.parametrize("form", [output.Format.JSON, output.Format.YAML])
    def test_no_rows_are_an_empty_list(self, form: output.Format, capsys: Captured) -> None:
        output.write([], form)

        assert yaml.safe_load(capsys.readouterr().out) == []
