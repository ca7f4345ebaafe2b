"""Options as a table, for commands that take more of them than a function has parameters."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class Option(NamedTuple):
    """One option; without a default it is None where it was not given."""

    name: str
    """Of the keyword; the flag is the same with dashes, unless `flags` says otherwise."""

    kind: Any
    help: str
    default: Any = None
    flags: tuple[str, ...] = ()
    least: float | None = None


TLS: Final = (
    Option("tls_cert", str, "Our certificate, in PEM."),
    Option("tls_key", str, "Its private key, in PEM."),
    Option("tls_ca", str, "Whose certificates we trust, in PEM."),
    Option("insecure", bool, "Plaintext, on loopback only.", flags=("--insecure",)),
)
"""The four flags that every server and client takes."""


def takes(*options: Option) -> Callable[[CommandT], CommandT]:
    """Give a command these options; it gets them as keywords, by `**given`."""

    def decorate(command: CommandT) -> CommandT:
        own = inspect.signature(command)
        named = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        parameters = [*named, *map(_parameter, options)]
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    info = typer.Option(*option.flags, help=option.help, min=option.least)
    kind = option.kind if option.default is not None else option.kind | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=option.default,
        annotation=Annotated[kind, info],
    )
