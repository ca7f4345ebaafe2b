"""A call that is repeated with its key is made once: the key is claimed before, answered after.

Who dies between the two leaves a claim without an answer. It runs out after a while and the next
one tries again, with the same id for what is made: so it finds what the first one made, if it did.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.database.connect import Pool, Row, at_once, transaction
from mainstay.tenancy.ids import Ids

KEPT_S: Final = 24 * 3600
CLAIM_S: Final = 30.0
"""After so long without an answer whoever claimed it is taken for dead."""


class KeyReused(Rejected):
    """The key was used for another request."""

    code = "idempotency_key_reused"
    what_to_do = "use a new key for a new request"


class InProgress(Rejected):
    """The same request is being worked on."""

    code = "idempotency_key_in_progress"
    what_to_do = "read the state, or repeat the request with the same key a little later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One mutation, as its caller named it."""

    principal: str
    route: str
    key: str
    request_hash: str

    @property
    def values(self) -> dict[str, Any]:
        """For SQL."""
        return {"principal": self.principal, "route": self.route, "key": self.key}


@dataclass(frozen=True, slots=True)
class Claim:
    """Ours to do."""

    resource: str
    is_first: bool = field(default=False, compare=False)
    """Nobody can have made anything under this key before."""

    def ids(self, others: Ids) -> Ids:
        """Ids of which those of what is made are the same whenever this call is tried."""

        def new(prefix: str) -> str:
            return f"{prefix}_{self.resource}" if prefix in REPEATED else others(prefix)

        return new


REPEATED: Final = frozenset({"alc", "cap", "key", "prj", "acc", "aky"})
"""Kinds that a call makes one of."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered."""

    status: int
    body: Any


CLAIM: Final = """
    insert into idempotency_keys as kept (principal, route, key, request_hash, resource)
    values (%(principal)s, %(route)s, %(key)s, %(hash)s, %(resource)s)
    on conflict (principal, route, key) do update
    set created_at = clock_timestamp(), status_code = null, response = null,
        request_hash = excluded.request_hash,
        resource = case when kept.created_at < clock_timestamp() - make_interval(secs => %(kept)s)
                        then excluded.resource else kept.resource end
    where kept.created_at < clock_timestamp() - make_interval(secs => %(kept)s)
       or (kept.status_code is null and kept.request_hash = excluded.request_hash
           and kept.created_at < clock_timestamp() - make_interval(secs => %(claim)s))
    returning resource
"""


async def claim(pool: Pool, ids: Ids, call: Call) -> Claim | Answer | None:
    """Ours to do, or what was answered before; None: somebody is at it now."""
    resource = ids("x").partition("_")[2]
    values = {
        **call.values,
        "hash": call.request_hash,
        "resource": resource,
        "kept": KEPT_S,
        "claim": CLAIM_S,
    }
    ours = await at_once(pool, CLAIM, values)
    if ours:
        return Claim(ours[0]["resource"], is_first=ours[0]["resource"] == resource)
    found = await at_once(
        pool,
        """select * from idempotency_keys
           where principal = %(principal)s and route = %(route)s and key = %(key)s""",
        call.values,
    )
    return _answered(found[0], call) if found else None


def _answered(row: Row, call: Call) -> Answer | None:
    if row["request_hash"] != call.request_hash:
        raise KeyReused(f"this idempotency key was used for another request: {call.key[:80]}")
    if row["status_code"] is None:
        return None
    return Answer(row["status_code"], row["response"])


async def answer(pool: Pool, call: Call, given: Answer) -> None:
    """Keep the answer; the first one stays."""
    await at_once(
        pool,
        """update idempotency_keys set status_code = %(status)s, response = %(body)s::jsonb
           where principal = %(principal)s and route = %(route)s and key = %(key)s
             and status_code is null""",
        {**call.values, "status": given.status, "body": json.dumps(given.body)},
    )


async def let_go(pool: Pool, call: Call) -> None:
    """It was not answered for good: the next one may try at once, and finds what was made."""
    await at_once(
        pool,
        """update idempotency_keys
           set created_at = created_at - make_interval(secs => %(claim)s)
           where principal = %(principal)s and route = %(route)s and key = %(key)s
             and status_code is null""",
        {**call.values, "claim": CLAIM_S},
    )


async def sweep(pool: Pool, batch: int = 500) -> int:
    """Forget some of what is older than a day; how much it was.

    A call that was never answered is forgotten as well: nobody is at it any more.
    """
    async with transaction(pool) as tx:
        gone = await tx.execute(
            """delete from idempotency_keys where ctid = any(array(
                   select ctid from idempotency_keys
                   where created_at < clock_timestamp() - make_interval(secs => %s)
                   order by created_at limit %s for update skip locked))""",
            [KEPT_S, batch],
        )
        return gone.rowcount
