"""A simulated host: what is on it outlives the agent that put it there.

Leases are the host's own books of who has which piece of hardware. They expire unless the agent
sees that what they are for still stands; then the reconciler, and only it, clears them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.tenancy.work import Phase, TaskResult

LEASE_S: Final = 900.0

LEAVES_SOMETHING: Final = frozenset(
    {
        Phase.LEASE_ACQUIRE,
        Phase.DISK_PREPARE,
        Phase.VFIO_BIND,
        Phase.NETWORK_RESERVE,
        Phase.CLOUD_INIT_SEED,
        Phase.VM_DEFINE_START,
        Phase.USER_CREATE,
        Phase.KEYS_INSTALL,
    }
)
"""Phases after which something stands on the host that must be undone."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who has a piece of hardware, and until when if nobody looks after it."""

    resource: str
    allocation: str
    expires_s: float


@dataclass(slots=True)
class Host:
    """Hardware and disk of one node."""

    gpus: int = 8
    leases: dict[str, Lease] = field(default_factory=dict)
    standing: dict[str, list[Phase]] = field(default_factory=dict)
    """Per allocation: what was done for it and not undone, in order."""

    begun: set[str] = field(default_factory=set)
    """Tasks that ran, or began to."""

    results: dict[str, TaskResult] = field(default_factory=dict)
    """How they ended, kept so that the same is said again and nothing is run twice."""

    key: bytes = b""
    certificate: bytes = b""
    certificate_expires_s: float = 0.0
    believed: Mapping[str, str] = field(default_factory=dict)
    """Signing keys."""

    def lease(self, allocation: str, resources: Iterable[str], now_s: float) -> str | None:
        """Take them all or none; who has one of them if somebody else does, expired or not."""
        wanted = list(resources)
        for resource in wanted:
            held = self.leases.get(resource)
            if held is not None and held.allocation != allocation:
                return held.allocation
        for resource in wanted:
            self.leases[resource] = Lease(resource, allocation, now_s + LEASE_S)
        return None

    def give_back(self, allocation: str) -> None:
        """Drop all leases of an allocation."""
        self.leases = {
            name: held for name, held in self.leases.items() if held.allocation != allocation
        }

    def reconcile(self, now_s: float) -> list[Lease]:
        """Extend the leases of what stands, clear the others that have expired; the cleared."""
        cleared = []
        for held in list(self.leases.values()):
            if self.standing.get(held.allocation):
                renewed = Lease(held.resource, held.allocation, now_s + LEASE_S)
                self.leases[held.resource] = renewed
            elif held.expires_s <= now_s:
                cleared.append(self.leases.pop(held.resource))
        return cleared

    def did(self, allocation: str, phase: Phase) -> None:
        """Remember what stands."""
        stands = self.standing.get(allocation, [])
        if phase in LEAVES_SOMETHING and phase not in stands:
            self.standing[allocation] = [*stands, phase]

    def clear(self, allocation: str) -> None:
        """Nothing of it stands any more."""
        self.standing.pop(allocation, None)
        self.give_back(allocation)

    def is_clean(self, allocation: str) -> bool:
        """Whether nothing is left of an allocation."""
        leased = {held.allocation for held in self.leases.values()}
        return not self.standing.get(allocation) and allocation not in leased

    def topology(self) -> dict[str, Any]:
        """What it finds when it looks at itself."""
        return {
            "prerequisites": {
                "kvm_available": True,
                "iommu_group_count": 2 * self.gpus,
                "iommu_kernel_args": "iommu=pt",
            },
            "slots": [
                {
                    "slot_index": index,
                    "numa_node": 2 * index // self.gpus,
                    "pci_address": f"0000:{index + 1:02x}:00.0",
                    "nvme_device": f"/dev/nvme{index}n1",
                    "fabric_vf_pci_address": f"0000:{index + 1:02x}:00.1",
                }
                for index in range(self.gpus)
            ],
            "blockers": [],
        }


def resources(node: str, params: Mapping[str, Any]) -> list[str]:
    """The pieces of hardware a task is about, each once, by what they are called on the host."""
    slots = params.get("slots") or []
    names = [name for slot in slots for name in _of_slot(slot)]
    return sorted(set(names)) or [f"node:{node}"]


_RESOURCE_FIELDS: Final = {
    "pci_address": "gpu", "nvme_device": "nvme", "fabric_vf_pci_address": "vf",
    "mac_address": "mac", "private_ip": "ip",
}  # fmt: skip


def _of_slot(slot: object) -> list[str]:
    if not isinstance(slot, dict):
        return [f"slot:{slot}"]
    named = [f"{kind}:{slot[key]}" for key, kind in _RESOURCE_FIELDS.items() if slot.get(key)]
    return named or [f"slot:{slot.get('slot_index', slot.get('slot_id'))}"]
