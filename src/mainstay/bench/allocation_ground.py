"""What the allocations bench stands on: a server, a fleet, orders; and what SQL must find then.

The checks read claims and slots alone, over all of their history: none asks the code it checks.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from mainstay.model.errors import Rejected
from mainstay.tenancy.database.embedded import embedded
from mainstay.tenancy.database.migrate import migrate
from mainstay.tenancy.request import Order

SLICE: Final = "h200-sxm-slice"
WHOLE: Final = "h200-sxm-baremetal-8g"
REGION: Final = "region-1"
SLOTS: Final = 8
PROJECTS: Final = 16
"""Each with an account of its own, and a payment in its ledger."""

MIX: Final = ((SLICE, 1, 60), (SLICE, 2, 18), (SLICE, 4, 12), (SLICE, 8, 5), (WHOLE, 8, 5))
"""What is asked for: SKU, GPUs, and how many of a hundred."""

PRESSURE: Final = 105
"""GPUs that a round asks for, of a hundred that there are: the last slots are raced for, and what
is beyond is refused."""

Database = psycopg.Connection[dict[str, Any]]

CLAIMED_TWICE: Final = """
    with held as (
        select slots.id as slot, claims.created_at, claims.ended_at,
               lead(claims.created_at) over (partition by slots.id order by claims.created_at)
                   as next_at
        from claims join slots
          on slots.id = claims.slot_id
          or (claims.kind = 'node_exclusive' and slots.node_id = claims.node_id)
    )
    select count(*) as found from held where next_at is not null
      and (ended_at is null or ended_at > next_at)
"""
"""GPUs that anybody got while another had them, in slices or whole, at any time."""

GPUS_CLAIMED: Final = """
    select coalesce(sum(case claims.kind when 'slot' then 1 else nodes.gpus_total end), 0) as found
    from claims join nodes on nodes.id = claims.node_id
"""

HELD_OTHERWISE: Final = """
    select count(*) as found from (
        select from allocations left join claims on claims.allocation_id = allocations.id
            and claims.node_id = allocations.node_id
            and (claims.live_mode is not null)
                = (allocations.status not in ('released', 'failed'))
        group by allocations.id
        having count(claims.id)
            <> case capacity_shape when 'baremetal' then 1 else allocations.gpus end
    ) wrong
"""
"""Allocations that do not have what was asked for."""

FREE_BLOCKS: Final = """
    select count(*) as found from (
        select from slots group by node_id, slot_index / %(gpus)s
        having count(*) = %(gpus)s and bool_and(status = 'available')
           and not bool_or(exists (select from claims where claims.node_id = slots.node_id
                                                        and claims.live_mode = 'node_exclusive'))
    ) free
"""
"""Where so many GPUs could still be had."""

OUT_OF_TURN: Final = """
    select count(*) as found from (
        select consumed.at < lag(consumed.at) over (partition by key order by position) as wrong
        from outbox join consumed on consumed.event_id = outbox.id
    ) pairs where wrong
"""
"""Events that reached the consumer before an earlier one of their key did."""


@contextmanager
def server(url: str | None) -> Iterator[tuple[str, int | None]]:
    """The URL of a database with the schema, and the server's process if it is ours."""
    if url is not None:
        migrate(url)
        yield url, None
        return
    folder = Path(tempfile.mkdtemp(prefix="mainstay-bench-"))
    folder.chmod(0o755)  # ours: a server that runs as somebody else must get in
    try:
        with embedded(folder) as running:
            migrate(running.url)
            yield running.url, running.pid
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def connected(url: str) -> Iterator[Database]:
    """A connection for what is not timed."""
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as database:
        yield database


def furnish(database: Database, *, nodes: int) -> None:
    """Nodes of eight GPUs, sold in slices and whole, and projects that can pay."""
    if found(database, "select count(*) as found from nodes"):
        raise Rejected("there are nodes in this database: give the bench an empty one of its own")
    with database.transaction():
        for statement in _FURNITURE:
            database.execute(
                statement,
                {
                    "region": REGION, "slice": SLICE, "whole": WHOLE, "nodes": nodes,
                    "slots": SLOTS, "projects": PROJECTS,
                },
            )  # fmt: skip
    database.execute("analyze")


_FURNITURE: Final = (
    "insert into regions values (%(region)s, 'One')",
    """insert into skus (sku, capacity_shape, gpus_total, allowed_gpu_counts,
                         gpu_hourly_price_minor, cpu_milli_per_gpu, memory_mib_per_gpu)
       values (%(slice)s, 'gpu_slice', %(slots)s, '{1,2,4,8}', 450, 24000, 65536),
              (%(whole)s, 'baremetal', %(slots)s, '{8}', 420, 0, 0)""",
    """insert into accounts (id)
       select 'acc_' || number from generate_series(1, %(projects)s) number""",
    """insert into projects (id, account_id)
       select 'prj_' || number, 'acc_' || number from generate_series(1, %(projects)s) number""",
    """insert into ledger (account_id, amount_minor, currency, kind, dedupe_key)
       select id, 1000000000, 'USD', 'credit', id from accounts""",
    """insert into nodes (id, region, sku, status, gpus_total, cpu_milli, memory_mib)
       select 'node-' || to_char(number, 'FM00000'), %(region)s, %(slice)s, 'active', %(slots)s,
              192000, 1048576
       from generate_series(1, %(nodes)s) number""",
    "insert into node_offers select id, %(whole)s from nodes",
    """insert into slots (id, node_id, slot_index, status, numa_node)
       select id || '/' || number, id, number, 'available', number / 4
       from nodes, generate_series(0, %(slots)s - 1) number""",
)


def rounds(
    requests: int, *, nodes: int, seed: int, pressure: int = PRESSURE
) -> Iterator[list[Order]]:
    """Orders for an empty fleet, again and again, each time more than there is."""
    random = Random(seed)
    limit = nodes * SLOTS * pressure / 100
    orders: list[Order] = []
    asked = 0
    for number in range(requests):
        orders.append(drawn(random, number))
        asked += orders[-1].gpus
        if asked >= limit:
            yield orders
            orders, asked = [], 0
    if orders:
        yield orders


def drawn(random: Random, number: int) -> Order:
    """One order of the mix, by one of the projects."""
    sku, gpus, _ = random.choices(MIX, weights=[often for *_, often in MIX])[0]
    return ordered(sku, gpus, number)


def ordered(sku: str, gpus: int, number: int) -> Order:
    """An order by the project whose turn it is."""
    return Order(
        project=f"prj_{number % PROJECTS + 1}",
        by="usr_bench",
        sku=sku,
        gpus=gpus,
        region=REGION,
        correlation_id=f"cor_{number}",
    )


def found(database: Database, statement: str, **values: Any) -> int:
    """The number that a statement calls `found`."""
    row = database.execute(statement, values).fetchone()
    assert row is not None
    return int(row["found"])


def setting(database: Database, name: str) -> str:
    """How the server is set."""
    row = database.execute("select current_setting(%s) as value", [name]).fetchone()
    assert row is not None
    return str(row["value"])


def cpu_s(pid: int | None) -> float | None:
    """CPU time of a server and of those it started, as far as they still run; None: unknown."""
    if pid is None or not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if path.parent.name == str(pid):
            ticks += sum(map(int, words[11:15]))  # with those of its children that have ended
        elif int(words[1]) == pid:
            ticks += sum(map(int, words[11:13]))
    return ticks / 100
