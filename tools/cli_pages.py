"""The generated page about the command: every verb with its arguments, options and defaults."""

import importlib
import inspect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer.main

from mainstay.cli.main import COMMANDS
from page_parts import NOTICE, table

MANY: Final = 12
"""An option that so many verbs take, in the same words, is explained once."""

VALUES: Final[Mapping[type, str]] = {
    str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH",
}  # fmt: skip
"""What a value is called, by its type."""

NOTHING: Final[tuple[object, ...]] = (None, "", [], ())
"""Defaults that say nothing."""

EXIT_CODES: Final = (
    (0, "done"),
    (1, "failed, or a check found fault"),
    (2, "wrong usage"),
    (3, "server not reachable"),
)

INTRODUCTION: Final = """# The command

Data goes to stdout, talk to stderr. Where rows are printed, `-o table|wide|json|yaml|name` chooses
how. `mainstay COMMAND --help` prints what is here. An option without a default is not set: then the
[settings](config.md) say what counts, where there is one for it.

"""


class Verb(NamedTuple):
    """Something that can be called, or that has verbs of its own."""

    name: str
    """All words of it."""

    command: Any
    """As typer has it."""


class Shown(NamedTuple):
    """An option as people read it."""

    flags: str
    default: str
    meaning: str

    @property
    def flag(self) -> str:
        """The first of its flags alone."""
        return self.flags.replace(",", " ").split()[0]


def cli_page() -> str:
    """The table of commands, then each with its verbs."""
    verbs = [verb for name in COMMANDS for verb in _walked(name, _command(name))]
    options = {verb.name: [*map(_shown, _options(verb.command))] for verb in verbs}
    shared = _shared(itertools.chain.from_iterable(options.values()))
    rows = [(f"[`mainstay {name}`](#mainstay-{name})", row.help) for name, row in COMMANDS.items()]
    return "".join((
        NOTICE,
        INTRODUCTION,
        table(("command", "what it does"), rows),
        "\n## Exit codes\n\n", table(("exit code", "meaning"), EXIT_CODES),
        "\n## Options that many verbs take\n\n", _option_table(shared),
        *(_section(verb, options[verb.name], shared) for verb in verbs),
    ))  # fmt: skip


def _shared(options: Iterable[Shown]) -> list[Shown]:
    """What many verbs take; of two that are called the same, the one that more of them take."""
    found: dict[str, Shown] = {}
    for option, count in Counter(options).most_common():
        if count >= MANY:
            found.setdefault(option.flags, option)
    return sorted(found.values())


def _command(name: str) -> Any:
    row = COMMANDS[name]
    return typer.main.get_command(getattr(importlib.import_module(row.module), row.app))


def _walked(name: str, command: Any) -> Iterator[Verb]:
    """It and all below it, but for what is not shown to people."""
    yield Verb(f"mainstay {name}", command)
    for word, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _walked(f"{name} {word}", inner)


def _section(verb: Verb, options: Sequence[Shown], shared: Sequence[Shown]) -> str:
    depth = "#" * min(len(verb.name.split()), 4)
    arguments = [each for each in verb.command.params if each.param_type_name == "argument"]
    own = [option for option in options if option not in shared]
    also = [f"`{option.flag}`" for option in options if option in shared]
    usage = " ".join((verb.name, *map(_placed, arguments)))
    asked = [(f"`{_placed(each)}`", _default(each), each.help or "") for each in arguments]
    return "".join((
        f"\n{depth} {verb.name}\n\n{_sentence(verb.command)}\n",
        f"\n```text\n{usage}\n```\n" if arguments else "",
        "\n" + table(("argument", "default", "meaning"), asked) if asked else "",
        "\n" + _option_table(own) if own else "",
        f"\n[Also](#options-that-many-verbs-take): {', '.join(also)}.\n" if also else "",
    ))  # fmt: skip


def _sentence(command: Any) -> str:
    """The first paragraph of its help."""
    return " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option" and not each.hidden]


def _option_table(options: Sequence[Shown]) -> str:
    rows = [(f"`{flags}`", default, meaning) for flags, default, meaning in options]
    return table(("option", "default", "meaning"), rows)


def _shown(option: Any) -> Shown:
    names = "/".join((", ".join(option.opts), *option.secondary_opts))
    value = "" if option.is_flag else f" {_value(option)}"
    again = "..." if option.multiple else ""
    return Shown(f"{names}{value}{again}", _default(option), _meaning(option))


def _meaning(option: Any) -> str:
    words = [f"`{word}`" for word in _choices(option)]
    said = (option.help or "").replace("|", "\\|")
    return f"{said} One of {', '.join(words)}." if words else said


def _value(option: Any) -> str:
    return str(option.metavar or VALUES.get(_type(option), "WORD"))


def _placed(argument: Any) -> str:
    """An argument where it stands in a call."""
    if argument.metavar:
        return str(argument.metavar)
    name = str(argument.name).upper()
    named = name if argument.required else f"[{name}]"
    return f"{named}..." if argument.nargs == -1 else named


def _type(parameter: Any) -> Any:
    """Of one value of it."""
    kind = parameter.type_descriptor.annotation
    return kind.__args__[0] if getattr(kind, "__origin__", None) in {list, tuple} else kind


def _choices(parameter: Any) -> list[str]:
    kind = _type(parameter)
    is_choice = isinstance(kind, type) and issubclass(kind, Enum)
    return [str(each.value) for each in kind] if is_choice else []


def _default(parameter: Any) -> str:
    """What counts where nothing is said; empty: nothing."""
    default = parameter.default
    if parameter.required:
        return "required"
    if default is False or default in NOTHING:
        return ""
    if default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{default.value if isinstance(default, Enum) else default}`"
