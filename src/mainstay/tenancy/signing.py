"""Tasks are signed, so that a node runs what the control plane said and nothing else.

Ed25519 over canonical JSON. A key is published before it signs (staged), signs (active), is still
believed when the next one signs (grace), and is believed no more (retired). Private halves are
files; which one signs is said by the database, so that every process changes over at once.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.private_files import private_folder, read_private, write_once


class SignerState(StrEnum):
    """Of one key."""

    STAGED = "staged"
    ACTIVE = "active"
    GRACE = "grace"
    RETIRED = "retired"
    REVOKED = "revoked"
    """It leaked: from any state, at once."""


BELIEVED: Final = frozenset({SignerState.STAGED, SignerState.ACTIVE, SignerState.GRACE})
"""Keys whose signature an agent accepts."""

SIGNED_FIELDS: Final = (
    "task_id", "node_id", "task_type", "params", "issued_at", "expires_at", "signer_version_id",
)  # fmt: skip

Keys = Mapping[str, str]
"""Public keys by signer version, in base64."""


class BadSignature(Rejected):
    """Not signed by a key that is believed, or changed since."""

    code = "bad_signature"
    what_to_do = "do not run it"


class SignerConflict(Rejected):
    """The key is not in the state this step begins from."""

    code = "signer_conflict"
    what_to_do = "list the signing keys first"


def canonical(value: object) -> bytes:
    """One spelling per value: sorted keys, no spaces, UTF-8. Fractions have many, so none."""
    _check_spelling(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Rejected(f"not text: {error.object[error.start]!a}") from error


def _check_spelling(value: object) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise Rejected(f"a key must be a string: {key!r}")
            _check_spelling(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_spelling(inner)
    elif value is not None and not isinstance(value, str | int):
        raise Rejected(f"cannot be signed: {value!r} (use strings, integers, lists, objects)")


def signed_part(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The fields a signature covers: all that decides what runs, where and until when."""
    missing = [name for name in SIGNED_FIELDS if name not in envelope]
    if missing:
        raise BadSignature(f"a task without {', '.join(missing)}")
    return {name: envelope[name] for name in SIGNED_FIELDS}


def verify(envelope: Mapping[str, Any], keys: Keys) -> None:
    """Raise BadSignature unless one of these keys signed exactly this."""
    version = envelope.get("signer_version_id")
    if not isinstance(version, str) or version not in keys:
        raise BadSignature(f"signed by a key that is not believed: {version}")
    try:
        signed = canonical(signed_part(envelope))
        signature = base64.b64decode(str(envelope.get("signature", "")), validate=True)
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(keys[version]))
        public.verify(signature, signed)
    except (InvalidSignature, ValueError, Rejected) as error:
        raise BadSignature(f"not what was signed by {version}") from error


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature, and by which key."""

    signature: str
    version: str


class Signer:
    """The private halves, in a folder only we can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)
        self._loaded: dict[str, Ed25519PrivateKey] = {}

    async def sign(self, tx: Connection, document: Mapping[str, Any]) -> Signed:
        """Sign with the key that is active in this transaction; adds `signer_version_id`."""
        found = await tx.execute("select id from signer_versions where state = 'active'")
        row = await found.fetchone()
        if row is None:
            raise Unavailable("no signing key is active: stage one and activate it")
        return self.sign_as(row["id"], document)

    def sign_as(self, version: str, document: Mapping[str, Any]) -> Signed:
        """Sign with one key, whatever the database says of it."""
        signed = canonical(signed_part({**document, "signer_version_id": version}))
        return Signed(base64.b64encode(self._key(version).sign(signed)).decode(), version)

    def create(self, version: str) -> str:
        """A new key in the folder; its public half."""
        write_once(self._path(version), Ed25519PrivateKey.generate().private_bytes_raw())
        return base64.b64encode(self._key(version).public_key().public_bytes_raw()).decode()

    def _key(self, version: str) -> Ed25519PrivateKey:
        if version not in self._loaded:
            stored = read_private(self._path(version))
            self._loaded[version] = Ed25519PrivateKey.from_private_bytes(stored)
        return self._loaded[version]

    def _path(self, version: str) -> Path:
        return self._folder / f"{version}.ed25519"


async def stage(tx: Connection, ids: Ids, signer: Signer) -> str:
    """Make a key and publish its public half; agents learn it before it signs anything."""
    version = ids("sig")
    await tx.execute(
        "insert into signer_versions (id, public_key, state) values (%s, %s, 'staged')",
        [version, signer.create(version)],
    )
    return version


async def activate(tx: Connection, version: str, *, staged_for_s: float) -> None:
    """Let a staged key sign from now on; the one before it stays believed, in grace.

    It must have been published for `staged_for_s`, so that every agent has heard of it.
    """
    await _lock(tx)
    await tx.execute("update signer_versions set state = 'grace' where state = 'active'")
    changed = await tx.execute(
        """update signer_versions set state = 'active'
           where id = %s and state = 'staged'
             and published_at <= clock_timestamp() - make_interval(secs => %s)""",
        [version, staged_for_s],
    )
    if changed.rowcount != 1:
        message = f"signing key {version} is not staged since {staged_for_s:.0f} s"
        raise SignerConflict(f"{message}: stage it and wait")


async def retire(tx: Connection, version: str) -> None:
    """Stop believing a key that is in grace, once nothing it signed is open."""
    await _lock(tx)
    changed = await tx.execute(
        """update signer_versions set state = 'retired'
           where id = %s and state = 'grace' and not exists (
               select from node_tasks where signer_version_id = %s
                                        and status in ('queued', 'dispatched'))""",
        [version, version],
    )
    if changed.rowcount != 1:
        message = f"signing key {version} is not in grace, or a task it signed is open"
        raise SignerConflict(f"{message}: wait for its tasks to end")


async def revoke(tx: Connection, version: str) -> None:
    """Stop believing a key now, whatever it signed."""
    await _lock(tx)
    changed = await tx.execute(
        "update signer_versions set state = 'revoked' where id = %s returning id", [version]
    )
    if changed.rowcount != 1:
        raise SignerConflict(f"no signing key {version}")


async def ensure_active(tx: Connection, ids: Ids, signer: Signer) -> str:
    """The active key, made if there is none: for the first start."""
    await _lock(tx)
    found = await tx.execute("select id from signer_versions where state = 'active'")
    if (row := await found.fetchone()) is not None:
        return str(row["id"])
    version = await stage(tx, ids, signer)
    await activate(tx, version, staged_for_s=0)
    return version


async def rotate(tx: Connection, ids: Ids, signer: Signer, *, staged_for_s: float) -> str:
    """One turn of the wheel: retire what is in grace, let the staged key sign, stage the next."""
    await _lock(tx)
    versions = await listed(tx)
    for row in versions:
        if row["state"] == SignerState.GRACE:
            await retire(tx, row["id"])
    staged = [row["id"] for row in versions if row["state"] == SignerState.STAGED]
    if not staged:
        raise SignerConflict("no signing key is staged: stage one and wait until agents know it")
    await activate(tx, staged[0], staged_for_s=staged_for_s)
    return await stage(tx, ids, signer)


async def listed(tx: Connection) -> list[Row]:
    """Every key there ever was, oldest first."""
    found = await tx.execute("select * from signer_versions order by published_at, id")
    return await found.fetchall()


async def believed(tx: Connection) -> dict[str, str]:
    """What agents are given: the public keys whose signature counts."""
    rows = await listed(tx)
    return {row["id"]: row["public_key"] for row in rows if row["state"] in BELIEVED}


async def _lock(tx: Connection) -> None:
    """Steps of keys are rare: one at a time."""
    await tx.execute("lock table signer_versions in share row exclusive mode")
