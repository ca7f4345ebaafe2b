"""How a node becomes one of ours: a token once, then certificates, each renewed by the one before.

Three identities never meet: the token opens nothing but enrolment, the certificate is the node's
alone, people have others. A renewed certificate replaces the old one when it is first used, so that
an answer lost on its way locks nobody out.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.tenancy import signing
from mainstay.tenancy.authority import Authority
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction

TOKEN_S: Final = 900
SEEN_EVERY_S: Final = 10
"""A node's row is not written for each of its calls."""


class NotThisNode(Rejected):
    """The certificate is not the one this node goes by."""

    code = "node_identity_refused"
    what_to_do = "use the node's own, current certificate, or enrol again with a new token"


class EnrolmentRefused(Rejected):
    """No such token: wrong, used, too old, or for another node. Which one is not said."""

    code = "enrolment_refused"
    what_to_do = "ask an administrator for a new enrolment token"


class NodeNotFound(Rejected):
    """There is none with this id, or it is retired."""

    code = "node_not_found"
    what_to_do = "check the id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Who wants a certificate: the public half of a key that never leaves the node."""

    node: str
    csr: bytes
    """A certificate signing request in PEM. The name in it does not matter."""

    agent_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a node gets: its certificate, whom to trust, whose tasks to run."""

    certificate: bytes
    authority: bytes
    keys: Mapping[str, str]
    """Signing keys that are believed, by version."""

    expires_at_s: float


async def invite(
    tx: Connection, node: str, *, valid_s: float = TOKEN_S, token: str | None = None
) -> str:
    """A token for one enrolment of this node. Only its hash is kept; an earlier one is void.

    Who must be able to say the same token again brings one that nobody can guess.
    """
    token = token or f"enr_{secrets.token_urlsafe(32)}"
    changed = await tx.execute(
        """update nodes set enrol_token_hash = %s,
                  enrol_expires_at = clock_timestamp() + make_interval(secs => %s)
           where id = %s and status <> 'retired'""",
        [_hashed(token), valid_s, node],
    )
    if changed.rowcount != 1:
        raise NodeNotFound(f"no node {node}, or it is retired")
    return token


async def enrol(
    pool: Pool, authority: Authority, token: str, application: Application
) -> Credentials:
    """Spend the token: the node goes by a new certificate, and by no earlier one."""
    async with transaction(pool) as tx:
        opened = await tx.execute(
            """select from nodes where id = %s and enrol_token_hash = %s
                  and enrol_expires_at > clock_timestamp() and status <> 'retired' for update""",
            [application.node, _hashed(token)],
        )
        if opened.rowcount != 1:
            raise EnrolmentRefused("this enrolment token is not valid")
        issued = authority.issue(application.csr, application.node)
        await tx.execute(
            """update nodes set enrol_token_hash = null, enrol_expires_at = null,
                   cert_fingerprint = %s, cert_pending_fingerprint = null,
                   cert_previous_fingerprint = null, agent_version = %s,
                   status = case when status = 'bootstrap_issued' then 'enrolling' else status end
               where id = %s""",
            [issued.fingerprint, application.agent_version, application.node],
        )
        keys = await signing.believed(tx)
    return Credentials(
        certificate=issued.pem,
        authority=authority.pem,
        keys=keys,
        expires_at_s=issued.expires_at_s,
    )


async def renew(
    pool: Pool, authority: Authority, fingerprint: str, application: Application
) -> Credentials:
    """Another certificate for a node that shows its own; the old one holds until this is used."""
    async with transaction(pool) as tx:
        await identify(tx, application.node, fingerprint)
        issued = authority.issue(application.csr, application.node)
        changed = await tx.execute(
            """update nodes set cert_pending_fingerprint = %s, agent_version = %s
               where id = %s and cert_fingerprint = %s""",
            [issued.fingerprint, application.agent_version, application.node, fingerprint],
        )
        if changed.rowcount != 1:
            raise _not_this_node(application.node)
        keys = await signing.believed(tx)
    return Credentials(
        certificate=issued.pem,
        authority=authority.pem,
        keys=keys,
        expires_at_s=issued.expires_at_s,
    )


async def identify(tx: Connection, node: str, fingerprint: str) -> list[str]:
    """Raise NotThisNode unless the node goes by this certificate; a renewed one takes over now.

    The answer is this certificate and the one before it: what that claimed is this one's, too.
    """
    found = await tx.execute(
        """select cert_fingerprint as current, cert_pending_fingerprint as pending,
                  cert_previous_fingerprint as previous
           from nodes where id = %s and status <> 'retired'""",
        [node],
    )
    row = await found.fetchone()
    if row is None or not fingerprint or fingerprint not in {row["current"], row["pending"]}:
        raise _not_this_node(node)
    if row["current"] == fingerprint:
        return [name for name in (row["current"], row["previous"]) if name]
    await _take_over(tx, node, fingerprint)
    return await identify(tx, node, fingerprint)


async def _take_over(tx: Connection, node: str, fingerprint: str) -> None:
    """Nothing changes if another call of the same agent was faster."""
    await tx.execute(
        """update nodes set cert_fingerprint = %s, cert_pending_fingerprint = null,
                  cert_previous_fingerprint = cert_fingerprint
           where id = %s and cert_pending_fingerprint = %s""",
        [fingerprint, node, fingerprint],
    )


async def seen(tx: Connection, node: str) -> None:
    """The agent called: a node that was enrolling or offline is open again, and is paid for again.

    Never waits for somebody who has the node locked; the next call will do.
    """
    written = await tx.execute(
        """
        update nodes set last_seen_at = clock_timestamp(),
            status = case when status in ('enrolling', 'offline') then 'active' else status end
        where id = (
            select id from nodes
            where id = %s and (status in ('enrolling', 'offline') or last_seen_at is null
                or last_seen_at < clock_timestamp() - make_interval(secs => %s)
                or exists (select from node_outages
                           where node_id = nodes.id and ended_at is null))
            for no key update skip locked)
        """,
        [node, SEEN_EVERY_S],
    )
    if written.rowcount:
        await tx.execute("select outage_ends(%s)", [node])


async def mark_offline(pool: Pool, *, silent_s: float) -> list[Row]:
    """Nodes that have said nothing for so long get no new allocations; those they have stay.

    From now on nobody pays for them, nor for those that somebody has closed. A node that somebody
    has locked is left for the next time.
    """
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select id, last_seen_at from nodes
               where (status = 'active' or (status in ('draining', 'quarantined') and not exists (
                         select from node_outages where node_id = nodes.id and ended_at is null)))
                 and last_seen_at < clock_timestamp() - make_interval(secs => %s)
               order by id for no key update skip locked""",
            [silent_s],
        )
        silent = await found.fetchall()
        names = [row["id"] for row in silent]
        await tx.execute(
            "update nodes set status = 'offline' where id = any(%s) and status = 'active'", [names]
        )
        await tx.execute("select outage_begins(id) from unnest(%s::text[]) as id", [names])
        return silent


def _not_this_node(node: str) -> NotThisNode:
    return NotThisNode(f"this certificate is not that of node {node}")


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
