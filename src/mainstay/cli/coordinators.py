"""How every verb finds the coordinators and asks the one that leads."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mainstay.cli.options import TLS, Option

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.coordinator_client import RemoteCoordinator

SERVER: Final = (
    Option("server", str, "HOST:PORT of a coordinator, or several with commas.", ""),
    Option("context", str, "A context of contexts.toml.", ""),
    *TLS,
)
"""The options of every verb that asks a coordinator."""

YES: Final = Option("yes", bool, "Do it without a further question.", False, ("--yes", "-y"))
REASON: Final = Option("reason", str, "Why; the coordinator's log has it.", "")

AnswerT = TypeVar("AnswerT")
Ask = Callable[["RemoteCoordinator"], Awaitable[AnswerT]]


def find(given: Mapping[str, Any]) -> "tuple[Server, ...]":
    """The coordinators that the options mean: one of them leads, any will do to find it."""
    from mainstay.config.load import contexts_file, home_directory, read_sources
    from mainstay.processes import finding
    from mainstay.wire.tls import TlsFlags

    flags = TlsFlags(
        cert=given["tls_cert"] or "",
        key=given["tls_key"] or "",
        ca=given["tls_ca"] or "",
        insecure=bool(given["insecure"]),
    )
    found = finding.find(
        finding.Where(
            process=finding.COORDINATOR,
            home=home_directory(),
            contexts=contexts_file(),
            environment=read_sources().environment,
            server=given["server"],
            context=given["context"],
            flags=flags,
        )
    )
    for line in {server.announcement for server in found} - {""}:
        sys.stderr.write(line + "\n")
    return found


def ask(found: "tuple[Server, ...]", question: Ask[AnswerT]) -> AnswerT:
    """Ask the one that leads, wherever it is; raises MainstayError."""
    import asyncio

    return asyncio.run(asked(found, question))


async def asked(found: "tuple[Server, ...]", question: Ask[AnswerT]) -> AnswerT:
    """The same on a running loop."""
    from mainstay.wire.coordinator_dialer import LIST_BYTES_MAX, CoordinatorDialer

    dialer = CoordinatorDialer(
        [server.address for server in found], found[0].over, answer_bytes_max=LIST_BYTES_MAX
    )
    try:
        return await dialer.ask(question)
    finally:
        await dialer.close()
