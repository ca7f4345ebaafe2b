"""Options from a table: named, typed and checked like any other."""

from typing import Any

import pytest
import typer

from mainstay.cli import exits
from mainstay.cli.options import TLS, Option, takes

given: dict[str, Any] = {}

app = typer.Typer(add_completion=False)


@app.command()
@takes(
    Option("count", int, "How many.", 3, least=1),
    Option("word", list[str], "May be repeated.", flags=("--word", "-w")),
    *TLS,
)
def command(place: str, **options: Any) -> None:
    """Remember what was given."""
    given.clear()
    given.update(options, place=place)


def run(*words: str) -> int:
    return exits.run(app, words, name="mainstay x")


def test_a_command_gets_its_options_as_keywords() -> None:
    assert run("here", "--count", "5", "-w", "a", "--word", "b", "--tls-ca", "f", "--insecure") == 0
    assert given == {
        "place": "here", "count": 5, "word": ["a", "b"],
        "tls_cert": None, "tls_key": None, "tls_ca": "f", "insecure": True,
    }  # fmt: skip


def test_what_is_not_given_is_the_default_or_none() -> None:
    assert run("here") == 0
    assert (given["count"], given["insecure"]) == (3, None)


@pytest.mark.parametrize("words", [["--count", "0"], ["--count", "x"], ["--colour"], ["--tls-ca"]])
def test_a_wrong_option_is_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("here", *words) == exits.WRONG_USAGE
    assert capsys.readouterr().err.count("\n") == 1
