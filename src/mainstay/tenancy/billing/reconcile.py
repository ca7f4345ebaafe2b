"""Whether ledger, usage and transitions say the same, to the second and to the minor unit.

Written in SQL with the database's own arithmetic, from the specification: it shares nothing with
the code that charges, so that a fault of that code shows here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mainstay.tenancy.database.connect import Connection

BEHIND_S: Final = 3600.0
"""Active time that is not charged after so long is a difference; until then the biller is at it."""

DUE: Final = "floor(a.price_minor::numeric * a.gpus * floor(extract(epoch from {})) / 3600)"
"""What so much active time costs: whole seconds, whole minor units."""

CHECKS: Final[Mapping[str, str]] = MappingProxyType({
    "usage without active time": """
        select u.allocation_id as id, 'was never active, but has usage' as what
        from usage_records u join allocations a on a.id = u.allocation_id
        where a.active_at is null
    """,
    "usage begins when the allocation is active": """
        select a.id, format('usage begins at %%s, active since %%s', u.first, a.active_at) as what
        from allocations a join (
            select allocation_id, min(window_start) as first from usage_records group by 1
        ) u on u.allocation_id = a.id
        where u.first <> a.active_at
    """,
    "usage has no gap and no overlap": """
        select u.allocation_id as id,
               format('usage from %%s follows usage to %%s', u.window_start, u.before) as what
        from (
            select allocation_id, window_start,
                   lag(window_end) over (partition by allocation_id order by window_start) as before
            from usage_records
        ) u
        where u.before <> u.window_start
    """,
    "usage ends when release begins": """
        select a.id, format('usage ends at %%s, release began at %%s', u.last, a.releasing_at)
               as what
        from allocations a join (
            select allocation_id, max(window_end) as last from usage_records group by 1
        ) u on u.allocation_id = a.id
        where u.last > a.releasing_at
    """,
    "all active time is charged": """
        select a.id, format('active time since %%s is not charged', coalesce(u.last, a.active_at))
               as what
        from allocations a left join (
            select allocation_id, max(window_end) as last from usage_records group by 1
        ) u on u.allocation_id = a.id
        where a.active_at is not null
          and coalesce(u.last, a.active_at) < coalesce(a.releasing_at, clock_timestamp())
          and (a.billing_closed_at is not null
               or coalesce(u.last, a.active_at)
                  < clock_timestamp() - make_interval(secs => %(behind_s)s))
    """,
    "each window costs what is due": f"""
        select a.id, format('usage from %%s to %%s is charged %%s, due is %%s', u.window_start,
                            u.window_end, u.amount_minor, due.amount) as what
        from usage_records u join allocations a on a.id = u.allocation_id
        cross join lateral (
            select {DUE.format("paid_time(a.node_id, a.active_at, u.window_end)")}
                   - {DUE.format("paid_time(a.node_id, a.active_at, u.window_start)")} as amount
        ) due
        where u.amount_minor <> due.amount
    """,
    "all charges are what all the time costs": f"""
        select a.id, format('%%s charged, due is %%s', l.amount, due.amount) as what
        from allocations a
        left join (
            select allocation_id, max(window_end) as last from usage_records group by 1
        ) u on u.allocation_id = a.id
        left join (
            select allocation_id, -sum(amount_minor) as amount from ledger
            where kind = 'charge' group by 1
        ) l on l.allocation_id = a.id
        cross join lateral (
            select coalesce({DUE.format("paid_time(a.node_id, a.active_at, u.last)")}, 0) as amount
        ) due
        where coalesce(l.amount, 0) <> due.amount
    """,
    "each usage has its charge": """
        select u.allocation_id as id,
               format('usage from %%s of %%s has charge %%s of %%s', u.window_start, u.amount_minor,
                      u.ledger_id, l.amount_minor) as what
        from usage_records u left join ledger l on l.id = u.ledger_id
        where coalesce(-l.amount_minor, 0) <> u.amount_minor
           or (l.id is not null and (l.kind, l.allocation_id, l.account_id)
                                    is distinct from ('charge', u.allocation_id, u.account_id))
    """,
    "each charge has its usage": """
        select l.allocation_id as id,
               format('charge %%s of %%s has no usage', l.id, -l.amount_minor) as what
        from ledger l
        where l.kind = 'charge'
          and not exists (select from usage_records u where u.ledger_id = l.id)
    """,
    "who asked for it pays": """
        select a.id, format('usage from %%s is of %%s, %%s GPUs at %%s, not of %%s, %%s at %%s',
                            u.window_start, u.account_id, u.gpus, u.price_minor, a.account_id,
                            a.gpus, a.price_minor) as what
        from usage_records u join allocations a on a.id = u.allocation_id
        where (u.account_id, u.gpus, u.price_minor) <> (a.account_id, a.gpus, a.price_minor)
    """,
    "corrections stay with their entry": """
        select coalesce(c.allocation_id, c.account_id) as id,
               format('correction %%s is of another account or allocation than entry %%s', c.id,
                      l.id) as what
        from ledger c join ledger l on l.id = c.corrects_id
        where (c.account_id, c.allocation_id) is distinct from (l.account_id, l.allocation_id)
    """,
})  # fmt: skip
"""What must hold, and the rows for which it does not."""


async def reconcile(tx: Connection, behind_s: float = BEHIND_S) -> list[str]:
    """Every difference, each in a line that names the allocation; empty when there is none."""
    differences = []
    for name, check in CHECKS.items():
        found = await tx.execute(
            f"select id, what from ({check}) difference order by id, what", {"behind_s": behind_s}
        )
        differences += [f"{row['id']}: {row['what']} ({name})" for row in await found.fetchall()]
    return differences
