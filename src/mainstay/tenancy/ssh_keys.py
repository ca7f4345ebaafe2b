"""SSH keys of a project: public halves, which an allocation names to let their owners in."""

import base64
import binascii
from typing import Final

import psycopg

from mainstay.model.errors import Rejected
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.request import UnknownSshKey

KINDS: Final = frozenset({
    "ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
})  # fmt: skip
LENGTH_MAX: Final = 4096
KEYS_MAX: Final = 200


class BadSshKey(Rejected):
    """Not the public half of an SSH key."""

    code = "bad_ssh_key"
    what_to_do = "give one line of a .pub file, such as `ssh-ed25519 AAAA... name`"


class TooManySshKeys(Rejected):
    """The project has as many as it may."""

    code = "too_many_ssh_keys"
    what_to_do = "remove one that nobody uses"


class SshKeyInUse(Rejected):
    """An allocation names it, and keeps saying who was let in."""

    code = "ssh_key_in_use"
    what_to_do = "keep it: allocations name it"


def check(public_key: str) -> str:
    """The key in one line, or BadSshKey. A private half is refused like anything else."""
    words = public_key.split()
    if "\x00" in public_key or len(public_key) > LENGTH_MAX or len(words) < 2:
        raise BadSshKey("not the public half of an SSH key")
    kind, encoded = words[0], words[1]
    if kind not in KINDS:
        raise BadSshKey(f"not a kind of SSH key: {kind[:40]!r}")
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSshKey("the key is not base64") from error
    name = kind.encode()
    if not blob.startswith(len(name).to_bytes(4, "big") + name):
        raise BadSshKey(f"the key is not what it says it is: {kind}")
    return " ".join(words)


async def add(pool: Pool, ids: Ids, project: str, name: str, public_key: str) -> Row:
    """Add a key to a project. The same id again finds the one that is there."""
    line, identity = check(public_key), ids("key")
    async with transaction(pool) as tx:
        await tx.execute("select from projects where id = %s for update", [project])
        counted = await tx.execute(
            "select count(*) as keys from ssh_keys where project_id = %s", [project]
        )
        row = await counted.fetchone()
        if row is not None and row["keys"] >= KEYS_MAX:
            raise TooManySshKeys(f"project {project} has {KEYS_MAX} SSH keys")
        added = await tx.execute(
            """insert into ssh_keys (id, project_id, name, public_key) values (%s, %s, %s, %s)
               on conflict (id) do update set name = ssh_keys.name returning *""",
            [identity, project, name, line],
        )
        found = await added.fetchone()
    assert found is not None
    return found


async def listed(pool: Pool, project: str) -> list[Row]:
    """All keys of a project, oldest first."""
    async with transaction(pool) as tx:
        found = await tx.execute(
            "select * from ssh_keys where project_id = %s order by created_at, id", [project]
        )
        return await found.fetchall()


async def remove(pool: Pool, project: str, identity: str) -> None:
    """Remove a key that no allocation names."""
    try:
        async with transaction(pool) as tx:
            gone = await tx.execute(
                "delete from ssh_keys where id = %s and project_id = %s", [identity, project]
            )
            if gone.rowcount != 1:
                raise UnknownSshKey(f"no such SSH key in project {project}: {identity}")
    except psycopg.errors.ForeignKeyViolation as error:
        raise SshKeyInUse(f"SSH key {identity} belongs to allocations") from error
