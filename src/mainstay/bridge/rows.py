"""The rows of the bridge: kinds, lives, who holds what, who waits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.model.need import Requirement
from mainstay.tenancy.database.connect import Connection, Pool, Row, transaction
from mainstay.tenancy.node_names import node_name
from mainstay.tenancy.wanted_rows import kind_of


class UnknownKind(Rejected):
    """A machine that no kind of the catalogue is for."""

    code = "unknown_node_kind"
    what_to_do = "add a [[node_kind]] with this instance type to the catalogue"


class NoMachineNamed(Rejected):
    """The shard did not say which machine is to join."""

    code = "no_machine_named"
    what_to_do = "connect the bridge to a Mainstay shard"


@dataclass(frozen=True, slots=True)
class Told:
    """What is written down when a life is closed."""

    reason: str
    grace_s: float | None = None
    preemptor_priority: int | None = None
    release_in_s: float = 0.0


def kind_for(rows: Sequence[Row], requirements: Sequence[Requirement]) -> Row:
    """The kind whose need the shard is serving."""
    asked = {each.key: each for each in requirements}
    for row in rows:
        if {each.key: each for each in kind_of(row).requirements()} == asked:
            return row
    shown = ", ".join(f"{each.key} {'|'.join(each.values)}" for each in requirements) or "anything"
    raise UnknownKind(f"no kind of node is made of a machine with {shown}"[:400])


_LIVES: Final = """
    select life.*, node.status as node_status, node.cert_fingerprint is not null as enrolled,
           extract(epoch from clock_timestamp() - life.asked_at)::float8 as asked_s,
           extract(epoch from clock_timestamp()
                   - coalesce(node.last_seen_at, life.asked_at))::float8 as silent_s,
           coalesce(extract(epoch from life.release_at - clock_timestamp()), 0)::float8
               as release_in_s,
           coalesce(held.held, 0) as held, coalesce(held.to_release, 0) as to_release,
           coalesce(held.untold, 0) as untold, held.priority
    from bridge_nodes life join nodes node on node.id = life.node_id
    left join lateral (
        select count(distinct a.id) as held,
               count(distinct a.id) filter (where a.status = 'active'
                   or (a.status in ('requested', 'provisioning')
                       and a.cancel_requested_by is null)) as to_release,
               count(distinct a.id) filter (
                   where a.status in ('requested', 'provisioning', 'active')
                   and not exists (select from bridge_warnings told
                        where told.node_id = life.node_id and told.allocation_id = a.id)) as untold,
               max(project.priority) as priority
        from claims claim join allocations a on a.id = claim.allocation_id
        join projects project on project.id = a.project_id
        where claim.node_id = life.node_id and claim.live_mode is not null
    ) held on true
    where life.cluster = %(cluster)s and life.state <> 'retired'
      and (%(machine)s::text is null or life.machine = %(machine)s)
    order by life.machine
"""


async def lives(tx: Connection, cluster: str, machine: str | None = None) -> list[Row]:
    """Every life that is not over, with what its node's rows say; of one machine, if named."""
    found = await tx.execute(_LIVES, {"cluster": cluster, "machine": machine})
    return await found.fetchall()


async def begin(tx: Connection, cluster: str, machine: str, kind: Row) -> Row:
    """The life that begins now, or the one that is about to; the caller has the machine locked."""
    found = await tx.execute(
        """select coalesce(max(incarnation), 0) + 1 as next from bridge_nodes
           where cluster = %s and machine = %s""",
        [cluster, machine],
    )
    row = await found.fetchone()
    assert row is not None
    name = node_name(machine, row["next"])
    await tx.execute(
        """insert into nodes (id, region, sku, status, gpus_total, cpu_milli, memory_mib,
                              partitioned)
           values (%s, %s, %s, 'bootstrap_issued', %s, %s, %s, %s)""",
        [name, kind["region"], kind["sold_as"][0], kind["gpus_total"], kind["cpu_milli"],
         kind["memory_mib"], kind["partitioned"]],
    )  # fmt: skip
    for sku in dict.fromkeys(kind["sold_as"][1:]):
        await tx.execute("insert into node_offers values (%s, %s)", [name, sku])
    for slot in json.loads(kind["slots"]):
        await _slot(tx, name, slot)
    made = await tx.execute(
        """insert into bridge_nodes (cluster, machine, incarnation, node_id, kind, state)
           values (%s, %s, %s, %s, %s, 'joining') returning *""",
        [cluster, machine, row["next"], name, kind["kind"]],
    )
    life = await made.fetchone()
    assert life is not None
    return life


async def _slot(tx: Connection, node: str, slot: dict[str, Any]) -> None:
    """A slot that nobody gets before the node is open."""
    await tx.execute(
        """insert into slots (id, node_id, slot_index, status, numa_node, pci_address,
                              nvme_device, mac_address, private_ip, fabric_vf_pci_address)
           values (%(id)s, %(node)s, %(index)s, 'discovered', %(numa)s, %(pci)s, %(nvme)s, %(mac)s,
                   %(ip)s, %(vf)s)""",
        {
            "id": f"{node}/{slot['slot_index']}",
            "node": node,
            "index": slot["slot_index"],
            "numa": slot.get("numa_node", 0),
            "pci": slot.get("pci_address", ""),
            "nvme": slot.get("nvme_device", ""),
            "mac": slot.get("mac_address", ""),
            "ip": slot.get("private_ip", ""),
            "vf": slot.get("fabric_vf_pci_address", ""),
        },
    )


async def lock_machine(tx: Connection, cluster: str, machine: str) -> None:
    """Until the transaction ends nobody else begins a life of it."""
    await tx.execute(
        "select pg_advisory_xact_lock(hashtext('mainstay bridge'), hashtext(%s))",
        [f"{cluster}/{machine}"],
    )


async def close(tx: Connection, life: Row, told: Told) -> bool:
    """No new allocation from now on; whether this was news.

    What the shard gives as its reason, with a grace, takes the place of what we found ourselves.
    """
    await tx.execute("select from nodes where id = %s for update", [life["node_id"]])
    moved = await tx.execute(
        """update bridge_nodes set state = 'draining', closed_at = clock_timestamp(),
                  reason = %(reason)s, preemptor_priority = %(priority)s,
                  grace_ends_at = clock_timestamp() + make_interval(secs => %(grace)s),
                  release_at = clock_timestamp() + make_interval(secs => %(release)s)
           where node_id = %(node)s and (state in ('joining', 'open')
               or (state = 'draining' and grace_ends_at is null and %(grace)s::float8 is not null))
        """,
        {
            "reason": told.reason,
            "priority": told.preemptor_priority,
            "grace": told.grace_s,
            "release": told.release_in_s,
            "node": life["node_id"],
        },
    )
    await tx.execute(
        """update nodes set status = 'draining', enrol_token_hash = null, enrol_expires_at = null
           where id = %s and status not in ('draining', 'retired')""",
        [life["node_id"]],
    )
    return moved.rowcount > 0


async def note_gone(tx: Connection, node: str) -> None:
    """The machine under it serves somebody else, or nobody."""
    await tx.execute(
        """update bridge_nodes set gone_at = clock_timestamp()
           where node_id = %s and gone_at is null and state <> 'retired'""",
        [node],
    )


async def open_slots(tx: Connection, node: str) -> bool:
    """Give its slots out from now on; whether this was news."""
    await tx.execute("select from nodes where id = %s for update", [node])
    moved = await tx.execute(
        """update bridge_nodes set state = 'open', opened_at = clock_timestamp()
           where node_id = %s and state = 'joining'""",
        [node],
    )
    if moved.rowcount:
        await tx.execute(
            "update slots set status = 'available' where node_id = %s and status = 'discovered'",
            [node],
        )
    return moved.rowcount > 0


async def retire(tx: Connection, node: str) -> bool:
    """The end of a life that holds nothing; whether this was news."""
    await tx.execute("select from nodes where id = %s for update", [node])
    moved = await tx.execute(
        """update bridge_nodes set state = 'retired', retired_at = clock_timestamp()
           where node_id = %(node)s and state = 'draining' and not exists (
               select from claims where node_id = %(node)s and live_mode is not null)""",
        {"node": node},
    )
    if moved.rowcount:
        await tx.execute(
            """update nodes set status = 'retired', enrol_token_hash = null,
                      enrol_expires_at = null where id = %s""",
            [node],
        )
    return moved.rowcount > 0


async def beat(pool: Pool, cluster: str) -> None:
    """Say that somebody brings machines."""
    async with transaction(pool) as tx:
        await tx.execute(
            """insert into bridges (cluster) values (%s)
               on conflict (cluster) do update set seen_at = clock_timestamp()""",
            [cluster],
        )
