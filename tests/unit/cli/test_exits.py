"""How a command ends: its code, and one line that says what to do."""

from collections.abc import Callable

import pytest
import typer

from mainstay.cli import exits
from mainstay.model import errors

Captured = pytest.CaptureFixture[str]


def ending(error: BaseException | None = None, answer: object = None) -> typer.Typer:
    """An application whose one command ends so."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def command() -> object:
        if error is not None:
            raise error
        return answer

    return app


class FurtherRejected(errors.Rejected):
    """As somebody may add one."""


def run(app: typer.Typer, *words: str) -> int:
    return exits.run(app, words, name="mainstay x")


class TestReactions:
    def test_every_reaction_has_its_exit_code(self) -> None:
        assert set(exits.EXIT_OF_REACTION) == set(errors.REACTIONS)

    @pytest.mark.parametrize("reaction", errors.REACTIONS)
    def test_an_error_ends_with_the_code_of_its_reaction_and_one_line(
        self, reaction: type[errors.MainstayError], capsys: Captured
    ) -> None:
        code = run(ending(reaction("no such thing: 7", detail="secret")))

        says = "" if reaction is errors.Rejected else f": {reaction.what_to_do}"
        assert code == exits.EXIT_OF_REACTION[reaction]
        assert capsys.readouterr() == ("", f"mainstay: no such thing: 7{says}\n")

    def test_an_error_that_knows_better_what_to_do_says_that(self, capsys: Captured) -> None:
        error = errors.Unavailable("nothing runs here", what_to_do="start it")

        assert run(ending(error)) == exits.NOT_REACHABLE
        assert capsys.readouterr().err == "mainstay: nothing runs here: start it\n"

    def test_a_server_that_does_not_answer_has_a_code_of_its_own(self) -> None:
        assert run(ending(errors.Unavailable("no answer"))) == exits.NOT_REACHABLE

    def test_a_subclass_ends_as_its_reaction(self) -> None:
        assert exits.code_for(FurtherRejected("x")) == exits.code_for(errors.Rejected("x"))

    def test_errors_of_parts_that_ran_together_end_as_the_first_of_them(
        self, capsys: Captured
    ) -> None:
        inner = ExceptionGroup("a part", [errors.Unavailable("no answer"), errors.Rejected("x")])

        assert run(ending(ExceptionGroup("parts", [inner]))) == exits.NOT_REACHABLE
        assert capsys.readouterr().err == "mainstay: no answer: try again later\n"

    def test_among_errors_of_parts_one_that_is_not_ours_is_not_hidden(self) -> None:
        mixed = ExceptionGroup("parts", [errors.Unavailable("no answer"), KeyError("a defect")])

        with pytest.raises(ExceptionGroup):
            run(ending(mixed))

    def test_an_error_of_no_reaction_is_a_failure(self, capsys: Captured) -> None:
        assert run(ending(errors.MainstayError("odd"))) == exits.FAILED

        assert capsys.readouterr().err == "mainstay: odd\n"

    def test_no_failure_has_the_code_of_success(self) -> None:
        assert exits.DONE not in exits.EXIT_OF_REACTION.values()


class TestRun:
    @pytest.mark.parametrize(("answer", "code"), [(None, 0), (0, 0), (1, 1), ("text", 0)])
    def test_a_number_a_command_returns_is_its_exit_code(self, answer: object, code: int) -> None:
        assert run(ending(answer=answer)) == code

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (["--bad"], "mainstay: No such option: --bad: `mainstay x --help` tells what it takes"),
            (["more"], "`mainstay x --help` tells what it takes"),
        ],
    )
    def test_wrong_usage_is_one_line(
        self, words: list[str], complaint: str, capsys: Captured
    ) -> None:
        assert run(ending(), *words) == exits.WRONG_USAGE

        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.count("\n") == 1
        assert complaint in shown.err
        assert ".:" not in shown.err

    def test_help_of_a_command_is_done(self, capsys: Captured) -> None:
        assert run(ending(), "--help") == exits.DONE

        assert "mainstay x" in capsys.readouterr().out

    def test_a_noun_without_a_verb_shows_help_and_no_empty_complaint(
        self, capsys: Captured
    ) -> None:
        app = typer.Typer(add_completion=False, no_args_is_help=True)
        for name in ("one", "two"):
            app.command(name)(nothing())

        assert run(app) == exits.WRONG_USAGE

        shown = capsys.readouterr()
        assert "one" in shown.out + shown.err
        assert "mainstay: :" not in shown.err

    @pytest.mark.parametrize(
        ("error", "code"), [(typer.Abort(), exits.FAILED), (typer.Exit(3), exits.NOT_REACHABLE)]
    )
    def test_typers_own_ways_to_end_are_kept(self, error: RuntimeError, code: int) -> None:
        assert run(ending(error)) == code

    def test_a_command_that_ends_the_process_itself_does(self) -> None:
        with pytest.raises(SystemExit, match="4"):
            run(ending(SystemExit(4)))

    def test_a_fault_of_ours_is_not_hidden(self) -> None:
        with pytest.raises(ZeroDivisionError):
            run(ending(ZeroDivisionError()))


def nothing() -> Callable[[], None]:
    def command() -> None: ...

    return command


class TestComplain:
    def test_a_message_of_many_lines_becomes_one(self, capsys: Captured) -> None:
        exits.complain("first\n  second", "do this")

        assert capsys.readouterr() == ("", "mainstay: first second: do this\n")
