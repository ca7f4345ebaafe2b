"""`mainstay completion`: a script for a shell, and the words it asks us for at every Tab.

Commands are loaded only when they are called, so a command's own words come from its own module;
the first word comes from the table and loads nothing.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any, Final, NamedTuple

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)

FIRST: Final = ("--help", "--version")

# Names are chosen by clusters and providers: `compgen -W` would run what is in them.
BASH: Final = """\
_mainstay_completion() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        printf -v word %q "$word"
        COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _mainstay_completion mainstay
"""

ZSH: Final = """\
#compdef mainstay
_mainstay() {
    local -a found
    found=(${(f)"$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    compadd -- $found || _files
}
compdef _mainstay mainstay
"""

FISH: Final = """\
function __mainstay_words
    set -l typed (commandline -opc) (commandline -ct)
    command $typed[1] completion words -- $typed[2..] 2>/dev/null
end
complete -c mainstay -f -a '(__mainstay_words)'
"""


class Shell(StrEnum):
    """For which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS: Final = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}


@app.callback()
def completion() -> None:
    """Let a shell complete our words: eval "$(mainstay completion bash)" in its start-up file."""


@app.command()
def bash() -> None:
    """For bash: eval "$(mainstay completion bash)"."""
    sys.stdout.write(SCRIPTS[Shell.BASH])


@app.command()
def zsh() -> None:
    """For zsh, after compinit: eval "$(mainstay completion zsh)"."""
    sys.stdout.write(SCRIPTS[Shell.ZSH])


@app.command()
def fish() -> None:
    """For fish: mainstay completion fish | source."""
    sys.stdout.write(SCRIPTS[Shell.FISH])


@app.command(hidden=True)
def words(typed: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """What could stand where the last word is, one a line."""
    for word in candidates(typed or [""]):
        if word.isprintable():
            sys.stdout.write(word + "\n")


def candidates(typed: Sequence[str]) -> list[str]:
    """The words that go on from the last one, given those before it."""
    from mainstay.cli.main import COMMANDS

    *before, last = typed
    if not before:
        found: Iterator[str] = iter([*COMMANDS, *FIRST])
    elif before[0] not in COMMANDS:
        return []
    else:
        row = COMMANDS[before[0]]
        application = getattr(importlib.import_module(row.module), row.app)
        found = _of_command(typer.main.get_command(application), before[1:], last)
    return sorted({word for word in found if word.startswith(last)})


def _of_command(command: Any, before: Sequence[str], last: str) -> Iterator[str]:
    """Verbs, options, or the values of the option before."""
    at = _walked(command, before)
    if at.waiting is not None:
        yield from _values(at.waiting, last, at.said)
    elif last.startswith("-"):
        shown = [each for each in at.command.params if not getattr(each, "hidden", True)]
        yield from ("--help", *(flag for each in shown for flag in _flags(each)))
    else:
        inner = getattr(at.command, "commands", {})
        yield from (name for name, each in inner.items() if not each.hidden)
        asked = [each for each in at.command.params if each.param_type_name == "argument"]
        if asked and (at.words < len(asked) or asked[-1].nargs == -1):
            yield from _values(asked[min(at.words, len(asked) - 1)], last, at.said)


class _At(NamedTuple):
    """Where some words lead."""

    command: Any
    waiting: Any
    """The option that waits for its value, if one does."""

    words: int
    """Arguments that are there already."""

    said: dict[str, str]
    """Options with their values."""


def _walked(command: Any, words: Sequence[str]) -> _At:
    waiting, count, said = None, 0, {}
    for word in words:
        option = None if waiting is not None else _option(command, word)
        if waiting is not None:
            said[_flags(waiting)[0]] = word
        elif option is None and not word.startswith("-"):
            inner = getattr(command, "commands", {})
            found = inner.get(word) or inner.get(f"{word}s")  # a noun is known by both
            command, count = (command, count + 1) if found is None else (found, 0)
        waiting = None if option is None or option.is_flag else option
    return _At(command, waiting, count, said)


def _values(parameter: Any, begun: str, said: Mapping[str, str]) -> Iterator[str]:
    """What an option or an argument may be: its own words, else names of what runs."""
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from (str(each.value) for each in kind)
        return
    from mainstay.cli.known import known

    yield from known(_named(parameter), begun, said)


NAMED: Final = {"cluster/need/group": "need", "group": "gang"}
"""Arguments that are not called as the kind of name they take."""


def _named(parameter: Any) -> str:
    """Which kind of name it takes, by what it is called."""
    if parameter.param_type_name == "option":
        return str(parameter.name)
    called = re.sub(r"[^a-z/]", "", (parameter.metavar or parameter.name or "").lower())
    return NAMED.get(called, called)


def _flags(option: Any) -> tuple[str, ...]:
    return (*option.opts, *option.secondary_opts) if option.param_type_name == "option" else ()


def _option(command: Any, word: str) -> Any:
    return next((each for each in command.params if word in _flags(each)), None)
