"""How every verb finds its shards and asks them, all at once."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mainstay.cli import exits
from mainstay.cli.options import TLS, Option
from mainstay.model.errors import (
    MainstayError,
    Rejected,
    Unavailable,
    Unknown,
    UnknownMachine,
)

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

SERVER: Final = (
    Option("server", str, "HOST:PORT of a shard, or several with commas.", ""),
    Option("context", str, "A context of contexts.toml.", ""),
    Option("shard", str, "Only this shard of those that run here.", ""),
    *TLS,
)
"""The options of every verb that asks shards."""

NOT_HERE: Final = (Unknown, UnknownMachine)
"""One shard does not have it; another may."""

AnswerT = TypeVar("AnswerT")
Ask = Callable[["RemoteShard"], Awaitable[AnswerT]]


@dataclass(frozen=True, slots=True)
class Answer(Generic[AnswerT]):
    """What one shard said."""

    server: "Server"
    value: AnswerT


@dataclass(frozen=True, slots=True)
class Answers(Generic[AnswerT]):
    """What they said, and which said nothing."""

    given: tuple[Answer[AnswerT], ...]
    missing: tuple[MainstayError, ...] = ()

    @property
    def exit_code(self) -> int:
        """Done, unless somebody did not answer; each of those is told of on stderr."""
        for error in self.missing:
            exits.tell(error)
        return exits.code_for(self.missing[0]) if self.missing else exits.DONE


def find_servers(given: Mapping[str, Any]) -> "tuple[Server, ...]":
    """The shards that the options mean."""
    meant = _meant(given)
    for line in {server.announcement for server in meant} - {""}:
        sys.stderr.write(line + "\n")
    return meant


def found_again(given: Mapping[str, Any], known: "Sequence[Server]") -> "tuple[Server, ...]":
    """The same ones where they are now; one that is not found is asked where it was."""
    try:
        now = {server.name: server for server in _meant(given)}
    except MainstayError:
        now = {}
    return tuple(now.get(server.name, server) for server in known)


def _meant(given: Mapping[str, Any]) -> "tuple[Server, ...]":
    from mainstay.config.load import contexts_file, home_directory, read_sources
    from mainstay.processes.finding import Where, find
    from mainstay.wire.tls import TlsFlags

    flags = TlsFlags(
        cert=given["tls_cert"] or "",
        key=given["tls_key"] or "",
        ca=given["tls_ca"] or "",
        insecure=bool(given["insecure"]),
    )
    where = Where(
        process="shard",
        home=home_directory(),
        contexts=contexts_file(),
        environment=read_sources().environment,
        server=given["server"],
        context=given["context"],
        flags=flags,
    )
    found = find(where)
    wanted = given["shard"]
    meant = tuple(server for server in found if wanted in {"", server.name})
    if not meant:
        names = ", ".join(server.name for server in found)
        raise Rejected(f"no shard {wanted[:80]} here: name one of {names}")
    return meant


def only_one(servers: "Sequence[Server]") -> "Server":
    """The one shard that is to be told something; several are never meant by silence."""
    if len(servers) > 1:
        names = ", ".join(server.name for server in servers)
        raise Rejected(f"{len(servers)} shards are running: name one with --shard ({names})")
    return servers[0]


@asynccontextmanager
async def connected(server: "Server") -> "AsyncIterator[RemoteShard]":
    """A shard to ask, inside the block."""
    from mainstay.wire.shard_view_client import RemoteShard
    from mainstay.wire.transport import open_channel

    async with open_channel(server.address, server.over) as channel:
        yield RemoteShard(channel, name=f"shard {server.name}")


def ask(servers: "Sequence[Server]", question: Ask[AnswerT]) -> Answers[AnswerT]:
    """Ask all of them at once; if nobody answers, the most telling error is raised."""
    import asyncio

    return asyncio.run(ask_all(servers, question))


async def ask_all(servers: "Sequence[Server]", question: Ask[AnswerT]) -> Answers[AnswerT]:
    """The same on a running loop."""
    return await ask_each([(server, question) for server in servers])


async def ask_each(questions: "Sequence[tuple[Server, Ask[AnswerT]]]") -> Answers[AnswerT]:
    """The same, to each a question of its own."""
    import asyncio

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(server, question)) for server, question in questions]
    return _sorted_out([task.result() for task in tasks])


def ask_in_turn(servers: "Sequence[Server]", question: Ask[AnswerT]) -> Answers[AnswerT]:
    """One after the other, for whoever writes while it reads."""
    import asyncio

    return _sorted_out([asyncio.run(_ask(server, question)) for server in servers])


async def _ask(server: "Server", question: Ask[AnswerT]) -> Answer[AnswerT] | MainstayError:
    try:
        async with connected(server) as shard:
            return Answer(server, await question(shard))
    except MainstayError as error:
        return error


def _sorted_out(said: Sequence[Answer[AnswerT] | MainstayError]) -> Answers[AnswerT]:
    missing = tuple(each for each in said if isinstance(each, MainstayError))
    given = tuple(each for each in said if isinstance(each, Answer))
    if not given:
        raise _most_telling(missing)
    return Answers(given, missing)


def _most_telling(errors: Sequence[MainstayError]) -> MainstayError:
    """Of several the first that says something about the question, not about the moment; but one
    that does not answer may know what the others do not.
    """
    silent = [each for each in errors if isinstance(each, Unavailable)]
    wrong = [each for each in errors if not isinstance(each, (Unavailable, *NOT_HERE))]
    return (wrong or silent or list(errors))[0]


def known_to_some(answers: Answers[AnswerT]) -> Answers[AnswerT]:
    """The answers alone, where a shard that knows nothing of it only says what it must."""
    told = tuple(
        error
        for error in answers.missing
        if not isinstance(error, Rejected) or error.code == "not_allowed"
    )
    return Answers(answers.given, told)
