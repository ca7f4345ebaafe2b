"""`mainstay config show`: every setting, its value and its origin."""

import dataclasses
import json
from pathlib import Path

import pytest

from mainstay.cli import config, exits
from mainstay.config import load

Captured = pytest.CaptureFixture[str]


def show(*words: str) -> int:
    return exits.run(config.app, ["show", *words], name="mainstay config")


def shown(capsys: Captured) -> dict[str, tuple[object, str]]:
    rows = json.loads(capsys.readouterr().out)
    return {row["setting"]: (row["value"], row["origin"]) for row in rows}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_setting_is_shown(capsys: Captured) -> None:
    assert show("-o", "json") == exits.DONE

    names = {f"{s}.{field.name}" for s, c in load.SECTIONS.items() for field in
             dataclasses.fields(c)}  # fmt: skip
    assert shown(capsys).keys() == names


def test_a_setting_is_shown_with_where_it_comes_from(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (elsewhere / "mainstay.toml").write_text("[up]\nfleet = 70\n")
    monkeypatch.setenv("MAINSTAY_UP_SEED", "5")

    assert show("-o", "json") == exits.DONE

    rows = shown(capsys)
    assert rows["up.fleet"] == (70, "file")
    assert rows["up.seed"] == (5, "environment")


def test_a_wrong_setting_is_one_line_and_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("MAINSTAY_UP_FLEET", "many")

    assert show() == exits.FAILED

    assert capsys.readouterr() == (
        "", "mainstay: wrong kind of value for fleet: 'many'\n",
    )  # fmt: skip


def test_a_list_is_shown_as_the_environment_would_take_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("MAINSTAY_SHARD_PROVIDERS", "a=h:1, b=h:2")

    assert show() == exits.DONE
    line = next(x for x in capsys.readouterr().out.splitlines() if "shard.providers" in x)
    assert line.split()[1] == "a=h:1,b=h:2"

    assert show("-o", "json") == exits.DONE
    assert shown(capsys)["shard.providers"] == (["a=h:1", "b=h:2"], "environment")
