"""Lives that are over are kept for a while, then deleted with their nodes, a little at a time.

Only what nothing points at: a node that was ever part of an allocation stays with its bill and its
proofs. And the last life of a machine stays, since the next one counts on from it: an id, and with
it a token, is never used a second time.
"""

from typing import Final

from mainstay.tenancy.database.connect import Pool, transaction

BATCH: Final = 200

_OVER: Final = """
    with over as (
        select life.node_id from bridge_nodes life join nodes node on node.id = life.node_id
        where life.cluster = %(cluster)s and life.state = 'retired' and node.status = 'retired'
          and life.retired_at < clock_timestamp() - make_interval(secs => %(kept_s)s)
          and exists (select from bridge_nodes later where later.cluster = life.cluster
              and later.machine = life.machine and later.incarnation > life.incarnation)
          and not exists (select from allocations where allocations.node_id = life.node_id)
          and not exists (select from claims where claims.node_id = life.node_id)
          and not exists (select from node_tasks where node_tasks.node_id = life.node_id)
        order by life.retired_at limit %(batch)s for update of life, node skip locked
    ), warnings_gone as (
        delete from bridge_warnings using over where bridge_warnings.node_id = over.node_id
    ), outages_gone as (
        delete from node_outages using over where node_outages.node_id = over.node_id
    ), offers_gone as (
        delete from node_offers using over where node_offers.node_id = over.node_id
    ), slots_gone as (
        delete from slots using over where slots.node_id = over.node_id
    ), lives_gone as (
        delete from bridge_nodes using over where bridge_nodes.node_id = over.node_id
    )
    delete from nodes using over where nodes.id = over.node_id
"""
"""What points at a node goes in the same statement: the keys are checked at its end."""


async def sweep(pool: Pool, cluster: str, kept_s: float, batch: int = BATCH) -> int:
    """Delete some lives that have been over for so long; how many there were."""
    async with transaction(pool) as tx:
        given = {"cluster": cluster, "kept_s": kept_s, "batch": batch}
        return (await tx.execute(_OVER, given)).rowcount
