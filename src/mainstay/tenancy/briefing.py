"""What an agent is told for an allocation, read from its rows; all of it ends up signed."""

from typing import Any, Final

from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.work import GIVES, TaskType

WIPE_POLICY: Final = "full"
"""The only one there is: every block of the slot's disks."""

_BY_SHAPE: Final = {
    ("gpu_slice", True): TaskType.VM_PROVISION,
    ("gpu_slice", False): TaskType.VM_RELEASE,
    ("baremetal", True): TaskType.PROVISION_USER,
    ("baremetal", False): TaskType.DEPROVISION_USER,
}


def task_type(capacity_shape: str, *, giving: bool) -> TaskType:
    """Which work gives an allocation of this shape to its tenant, or takes it back."""
    return _BY_SHAPE[capacity_shape, giving]


async def params(tx: Connection, allocation: Row, kind: TaskType) -> dict[str, Any]:
    """The parameters of a task for this allocation."""
    slots = await _slots(tx, allocation["id"])
    told: dict[str, Any] = {"gpus": allocation["gpus"], "slots": slots}
    if allocation["capacity_shape"] == "gpu_slice":
        told["machine"] = allocation["id"]
    else:
        told["username"] = allocation["id"].replace("_", "-")
    if kind in GIVES:
        told["ssh_keys"] = await _ssh_keys(tx, allocation["id"])
        told["image"] = await _image(tx, allocation["image_slug"])
    else:
        told["wipe_policy"] = WIPE_POLICY
    return told


async def _slots(tx: Connection, allocation: str) -> list[Row]:
    """Its slots; of a whole node, all that the node has."""
    found = await tx.execute(
        """select slot.id as slot_id, slot.slot_index, slot.numa_node, slot.pci_address,
                  slot.nvme_device, slot.mac_address, slot.private_ip, slot.fabric_vf_pci_address
           from claims claim join slots slot on slot.node_id = claim.node_id
               and (claim.slot_id = slot.id or claim.kind = 'node_exclusive')
           where claim.allocation_id = %s order by slot.slot_index""",
        [allocation],
    )
    return await found.fetchall()


async def _ssh_keys(tx: Connection, allocation: str) -> list[str]:
    found = await tx.execute(
        """select public_key from allocation_ssh_keys
           join ssh_keys on ssh_keys.id = ssh_key_id
           where allocation_id = %s order by ssh_keys.id""",
        [allocation],
    )
    return [row["public_key"] for row in await found.fetchall()]


async def _image(tx: Connection, slug: str | None) -> Row | None:
    found = await tx.execute(
        "select slug, address, sha256, driver_strategy from os_images where slug = %s", [slug]
    )
    return await found.fetchone()
