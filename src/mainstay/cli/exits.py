"""How a command ends: its exit code, and one line on stderr that says what to do."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from mainstay.model.errors import Fenced, MainstayError, NoCapacity, Rejected, Unavailable

if TYPE_CHECKING:
    import typer

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
NOT_REACHABLE: Final = 3

EXIT_OF_REACTION: Final[dict[type[MainstayError], int]] = {
    Rejected: FAILED,
    NoCapacity: FAILED,
    Fenced: FAILED,
    Unavailable: NOT_REACHABLE,
}


def run(app: "typer.Typer", words: Sequence[str], *, name: str) -> int:
    """Run a typer application; its errors become one line and an exit code, never a traceback."""
    import typer.exceptions
    import typer.main

    command = typer.main.get_command(app)
    try:
        code = command.main(args=list(words), prog_name=name, standalone_mode=False)
    except typer.exceptions.TyperException as error:
        if message := error.format_message():  # empty when help was shown in its place
            called = _called(command, words, name)
            complain(message.rstrip("."), f"`{called} --help` tells what it takes")
        return WRONG_USAGE
    except MainstayError as error:
        tell(error)
        return code_for(error)
    except ExceptionGroup as group:
        first = _first_of_ours(group)
        tell(first)
        return code_for(first)
    except typer.exceptions.Abort:
        return FAILED
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # how typer ends then
            return abandon_output()
        raise
    return code if isinstance(code, int) else DONE


def _first_of_ours(group: ExceptionGroup[Exception]) -> MainstayError:
    """What ended parts that ran together; the group itself is raised if there is a defect in it."""
    leaves = [*group.exceptions]
    for each in leaves:
        if isinstance(each, ExceptionGroup):
            leaves.extend(each.exceptions)
        elif not isinstance(each, MainstayError):
            raise group
    return next(each for each in leaves if isinstance(each, MainstayError))


def _called(command: Any, words: Sequence[str], name: str) -> str:
    """The command that the words lead to: its help tells what it takes, its group's does not."""
    for word in words:
        inner = getattr(command, "commands", {})
        found = word if word in inner else f"{word}s"  # a noun is known by both
        if found not in inner:
            break
        command, name = inner[found], f"{name} {found}"
    return name


def abandon_output() -> int:
    """The reader of our output has seen enough: no failure, and nothing left to flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def code_for(error: MainstayError) -> int:
    """The code of the reaction this error belongs to."""
    for reaction, code in EXIT_OF_REACTION.items():
        if isinstance(error, reaction):
            return code
    return FAILED


def tell(error: MainstayError) -> None:
    """An error as one line on stderr."""
    complain(error.message, advice(error))


def advice(error: MainstayError) -> str:
    """What it says to do beside its message. A request that is wrong says itself what is wrong with
    it: that it is to be changed helps nobody at a command line.
    """
    return "" if error.what_to_do == Rejected.what_to_do else error.what_to_do


def line_of(error: MainstayError) -> str:
    """An error in one line, for a screen."""
    return _line(error.message, advice(error))


def complain(what: str, what_to_do: str) -> None:
    """One line on stderr: what went wrong, then what to do."""
    sys.stderr.write(f"mainstay: {_line(what, what_to_do)}\n")


def _line(what: str, what_to_do: str) -> str:
    return " ".join(f"{what}: {what_to_do}".split()) if what_to_do else what
