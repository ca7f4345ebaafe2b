"""What the rows tell about time: how long steps took, and behind which need a request waits."""

from dataclasses import dataclass
from statistics import median
from typing import Final

from mainstay.model.questions import NOTHING_EXPECTED, Expected, When
from mainstay.tenancy import views, wanted_rows
from mainstay.tenancy.cancel import BEFORE_ACTIVE
from mainstay.tenancy.capacity import BRIDGE_SEEN_S, show
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.expecting import After, Recorded, allocation_expected
from mainstay.tenancy.states import CapacityState, Status
from mainstay.tenancy.wanted import behind

LAST: Final = 20
"""So many of the last ones are looked at."""

AMONG: Final = 200
"""The last ones are looked for among so many of the project."""

ANYBODY_MIN: Final = 5
"""So many of anybody at least: fewer would tell how long somebody else took."""

_TIMES: Final = {
    Status.REQUESTED: ("created_at", "active_at"),
    Status.PROVISIONING: ("created_at", "active_at"),
    Status.RELEASING: ("coalesce(release_retried_at, releasing_at)", "released_at"),
}
"""From when to when it is on its way, by where it is; a clean-up from when it was last begun."""

_OF_PROJECT: Final = """
    select * from allocations where project_id = %(project)s
    order by created_at desc, id desc limit %(among)s
"""
_OF_ANYBODY: Final = "select * from allocations"

_JOINED: Final = """
    select extract(epoch from opened_at - asked_at)::float8 as seconds from bridge_nodes
    where cluster = %(cluster)s and kind = %(kind)s and opened_at is not null
    order by opened_at desc limit %(last)s
"""
_JOINING: Final = """
    select min(extract(epoch from clock_timestamp() - asked_at))::float8 as seconds
    from bridge_nodes where cluster = %(cluster)s and kind = %(kind)s and state = 'joining'
      and state <> 'retired'  -- what the index is of
"""
_BRIDGE: Final = """
    select cluster from bridges
    where seen_at > clock_timestamp() - make_interval(secs => %(seen)s)
    order by seen_at desc limit 1
"""


@dataclass(frozen=True, slots=True)
class Waits:
    """What is expected of a request; or what has to be asked of a shard first."""

    expected: Expected
    after: After | None = None


async def of_allocation(pool: Pool, allocation: str, *, project: str | None) -> Expected:
    """When an allocation has ended the step that it is in."""
    async with transaction(pool) as tx:
        row = await views.one(tx, allocation, project)
        status = Status(row["status"])
        if status in BEFORE_ACTIVE and row["cancel_requested_by"] is not None:
            return NOTHING_EXPECTED  # nobody waits for it
        times = _TIMES.get(status)
        recorded = Recorded() if times is None else await _recorded(tx, row, *times)
    return allocation_expected(status, recorded)


async def _recorded(tx: Connection, row: Row, began: str, ended: str) -> Recorded:
    """Of the same SKU: those of the project; else anybody's, if they are enough to hide one."""
    given = {
        "id": row["id"], "sku": row["sku"], "project": row["project_id"], "last": LAST,
        "among": AMONG,
    }  # fmt: skip
    age = await tx.execute(
        f"""select extract(epoch from clock_timestamp() - {began})::float8 as seconds
            from allocations where id = %(id)s""",
        given,
    )
    (aged,) = await age.fetchall()
    for among, enough in ((_OF_PROJECT, 1), (_OF_ANYBODY, ANYBODY_MIN)):
        found = await tx.execute(
            f"""select extract(epoch from {ended} - {began})::float8 as seconds
                from ({among}) others where sku = %(sku)s and {ended} is not null
                order by {ended} desc limit %(last)s""",
            given,
        )
        took_s = [each["seconds"] for each in await found.fetchall()]
        if len(took_s) >= enough:
            return Recorded(age_s=aged["seconds"], took_s=took_s)
    return Recorded(age_s=aged["seconds"])


async def of_request(pool: Pool, request: str, *, project: str | None) -> Waits:
    """Behind which need a request waits, and how long nodes of its kind take to join."""
    row = await show(pool, request, project=project)
    if row["state"] != CapacityState.WAITING:
        return Waits(NOTHING_EXPECTED)
    async with transaction(pool) as tx:
        bridge = await (await tx.execute(_BRIDGE, {"seen": BRIDGE_SEEN_S})).fetchone()
        if bridge is None:
            return _never("nobody brings machines now: no bridge has called lately")
        kinds = [wanted_rows.kind_of(each) for each in await wanted_rows.kinds(tx)]
        stands = behind(kinds, await wanted_rows.waiting(tx), request)
        if stands is None:
            return _never("no kind of node is sold so any more, or its time to wait is over")
        joining = await _joining(tx, bridge["cluster"], stands.kind.name)
    after = After(
        cluster=bridge["cluster"],
        need=stands.profile.fingerprint,
        joining_s=median(joining.took_s) if joining.took_s else None,
        age_s=joining.age_s,
        left_s=joining.left_s(),
    )
    return Waits(NOTHING_EXPECTED, after)


def _never(why: str) -> Waits:
    return Waits(Expected(when=When.NEVER, because=(why,)))


async def _joining(tx: Connection, cluster: str, kind: str) -> Recorded:
    """How long nodes of a kind took to join, and for how long the youngest that joins now does."""
    given = {"cluster": cluster, "kind": kind, "last": LAST}
    joined = await (await tx.execute(_JOINED, given)).fetchall()
    (youngest,) = await (await tx.execute(_JOINING, given)).fetchall()
    took_s = [each["seconds"] for each in joined]
    return Recorded(age_s=youngest["seconds"] or 0.0, took_s=took_s)
