"""API keys: a secret that is shown once and kept as a hash, a role, and a project for tenants."""

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import psycopg

from mainstay.model.errors import Rejected
from mainstay.tenancy.attempts import Who, attempted
from mainstay.tenancy.database.connect import Pool, Row, at_once, transaction
from mainstay.tenancy.ids import Ids

PREFIX: Final = "msk_"
"""By which a key is told from a token of an identity provider."""

PAGE_MAX: Final = 200


class Role(StrEnum):
    """What a caller may do."""

    TENANT = "tenant"
    """All of one project: its allocations, SSH keys and API keys."""

    MEMBER = "member"
    """Ask for and give back allocations of one project."""

    ADMIN = "admin"
    """Everything, of every project."""

    READONLY = "readonly"
    """See everything, change nothing."""


OF_A_PROJECT: Final = frozenset({Role.TENANT, Role.MEMBER})


class ApiKeyNotFound(Rejected):
    """There is none with this id, or it is another project's."""

    code = "api_key_not_found"
    what_to_do = "check the id"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """What a key is to be for."""

    role: Role
    project: str | None
    name: str = ""
    valid_s: float | None = None
    """None: until it is revoked."""

    def __post_init__(self) -> None:
        if (self.role in OF_A_PROJECT) != (self.project is not None):
            raise Rejected(
                f"a key for {self.role} "
                + ("needs a project" if self.role in OF_A_PROJECT else "has no project")
            )


async def create(pool: Pool, ids: Ids, new: NewKey, who: Who) -> tuple[Row, str]:
    """A key: its row, and the secret, which is kept nowhere.

    If an earlier try of the same request made it and died, its secret was never shown: it gets a
    new one.
    """
    identity, secret = ids("aky"), PREFIX + secrets.token_urlsafe(32)
    attempt = who.tries("api_key.create", "api_key", identity, {"role": str(new.role)})
    try:
        async with attempted(pool, attempt) as tx:
            made = await tx.execute(
                """insert into api_keys (id, hash, role, project_id, name, expires_at)
                   values (%s, %s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s))
                   on conflict (id) do update set hash = excluded.hash
                   returning *""",
                [identity, _hashed(secret), str(new.role), new.project, new.name, new.valid_s],
            )
            row = await made.fetchone()
    except psycopg.errors.ForeignKeyViolation as error:
        raise Rejected(f"no such project: {new.project}") from error
    assert row is not None
    return row, secret


async def holder(pool: Pool, secret: str) -> Row | None:
    """The key that this is the secret of, if it is still good."""
    found = await at_once(
        pool,
        """select * from api_keys where hash = %s and revoked_at is null
              and (expires_at is null or expires_at > clock_timestamp())""",
        [_hashed(secret)],
    )
    return found[0] if found else None


async def revoke(pool: Pool, identity: str, *, project: str | None, who: Who) -> Row:
    """End a key now; a second time changes nothing. `project` None sees those of all projects."""
    async with attempted(pool, who.tries("api_key.revoke", "api_key", identity)) as tx:
        changed = await tx.execute(
            """update api_keys set revoked_at = coalesce(revoked_at, clock_timestamp())
               where id = %(id)s and (%(project)s::text is null or project_id = %(project)s)
               returning *""",
            {"id": identity, "project": project},
        )
        row = await changed.fetchone()
        if row is None:
            raise ApiKeyNotFound(f"no API key {identity}")
    return row


async def listed(pool: Pool, *, project: str | None) -> list[Row]:
    """The newest keys first, never with their hash."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            """select id, role, project_id, name, created_at, expires_at, revoked_at from api_keys
               where %(project)s::text is null or project_id = %(project)s
               order by created_at desc, id limit %(limit)s""",
            {"project": project, "limit": PAGE_MAX},
        )
        return await found.fetchall()


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
