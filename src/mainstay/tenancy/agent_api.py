"""The calls an agent makes, and nobody makes to it: enrol, renew, wait for work, say the result.

`LocalApi` answers them in the same process. Over the network the same four calls go through the
listener for agents, where the certificate comes from the handshake.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from cryptography import x509

from mainstay.tenancy import enrolment, tasks
from mainstay.tenancy.authority import Authority, fingerprint
from mainstay.tenancy.bell import Bell
from mainstay.tenancy.database.connect import Pool
from mainstay.tenancy.enrolment import Application, Credentials
from mainstay.tenancy.work import TaskResult

Envelope = Mapping[str, Any]
"""A task as it was signed, with its signature: `tasks.envelope`."""


class AgentApi(Protocol):
    """The control plane, as an agent sees it. Errors are those of mainstay.model.errors."""

    async def enrol(self, token: str, application: Application) -> Credentials:
        """Spend a one-time token."""

    async def renew(self, application: Application) -> Credentials:
        """The next certificate, for who shows the present one."""

    def present(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate from now on."""

    async def wait(
        self, node: str, *, wait_s: float, holds: frozenset[str] | None = None
    ) -> Envelope | None:
        """A task that is now ours, or None when there is none in time.

        `holds` are those that we have: one that was given to us and got lost comes again.
        """

    async def in_hand(self, node: str) -> list[Envelope]:
        """Tasks that were ours before we died."""

    async def result(self, node: str, task: str, result: TaskResult) -> None:
        """Say how a task ended; the same again is harmless."""


class LocalApi:
    """In the same process, on the same database."""

    def __init__(self, pool: Pool, authority: Authority, bell: Bell | None = None) -> None:
        self._pool, self._authority, self._bell = pool, authority, bell
        self._fingerprint = ""

    async def enrol(self, token: str, application: Application) -> Credentials:
        """Spend a one-time token."""
        return await enrolment.enrol(self._pool, self._authority, token, application)

    async def renew(self, application: Application) -> Credentials:
        """The next certificate, for who shows the present one."""
        return await enrolment.renew(self._pool, self._authority, self._fingerprint, application)

    def present(self, certificate: bytes, key: bytes) -> None:  # noqa: ARG002 - for a handshake
        """Show this certificate from now on."""
        self._fingerprint = fingerprint(x509.load_pem_x509_certificate(certificate))

    async def wait(
        self, node: str, *, wait_s: float, holds: frozenset[str] | None = None
    ) -> Envelope | None:
        """A task that is now ours, or None when there is none in time."""
        poll = tasks.Poll(wait_s=wait_s, holds=holds)
        row = await tasks.claim_for(self._pool, node, self._fingerprint, poll, bell=self._bell)
        return None if row is None else tasks.envelope(row)

    async def in_hand(self, node: str) -> list[Envelope]:
        """Tasks that were ours before we died."""
        rows = await tasks.in_hand(self._pool, node, self._fingerprint)
        return [tasks.envelope(row) for row in rows]

    async def result(self, node: str, task: str, result: TaskResult) -> None:
        """Say how a task ended; the same again is harmless."""
        await tasks.finish(self._pool, node, self._fingerprint, task, result)
