"""What a provider remembers of one machine, and its form in the store."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.notice import InterruptionNotice
from mainstay.model.profile import CapacityType, HostRef, Profile, labels_of
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import State

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


@dataclass(frozen=True, slots=True)
class Record:
    """One machine of ours."""

    machine: Machine
    slot: str
    """What the backend calls it; the id is that, or, after a loss, that and a generation."""

    modified: int = 0
    """The revision of its last change: no two records share one."""

    grace_s: int = 0
    """Of the drain it is in."""

    notice: InterruptionNotice | None = None
    """That its host will be taken back."""


def to_text(record: Record) -> str:
    """The record as the store keeps it; id and revision have columns of their own.

    The kind of a machine is a text within the text, so that reading many parses each kind once.
    """
    machine = record.machine
    parts: dict[str, Any] = {
        "slot": record.slot,
        "state": int(machine.state),
        "kind": _kind_text(machine.profile, machine.allocatable),
        "host": [machine.host.provider, machine.host.ref] if machine.host else None,
        "cluster": machine.cluster,
        "price": machine.price_per_hour,
        "probability": machine.interruption_probability,
        "error": machine.last_error,
        "metadata": dict(machine.shard_metadata),
        "grace": record.grace_s,
        "notice": [record.notice.at_s, record.notice.reason] if record.notice else None,
    }
    return _encode({key: part for key, part in parts.items() if part})


@lru_cache(maxsize=10_000)
def _kind_text(profile: Profile, allocatable: Resources) -> str:
    return _encode(
        {
            "type": profile.instance_type,
            "zone": profile.zone,
            "capacity": int(profile.capacity_type),
            "resources": profile.resources.as_dict(),
            "labels": dict(profile.labels),
            "allocatable": allocatable.as_dict(),
        }
    )


class Reader:
    """Reads records back; machines of one kind share their profile, as they did before."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[Profile, Resources]] = {}

    def record(self, identity: str, modified: int, text: str) -> Record:
        """The record that `to_text` wrote."""
        parts = json.loads(text)
        profile, allocatable = self._kind(parts["kind"])
        host, cluster, notice = parts.get("host"), parts.get("cluster"), parts.get("notice")
        machine = Machine(
            id=MachineId(identity),
            state=State(parts["state"]),
            profile=profile,
            host=HostRef(*host) if host else None,
            cluster=ClusterId(cluster) if cluster else None,
            allocatable=allocatable,
            price_per_hour=float(parts.get("price", 0.0)),
            interruption_probability=float(parts.get("probability", 0.0)),
            last_error=parts.get("error", ""),
            shard_metadata=parts.get("metadata", {}),
        )
        return Record(
            machine,
            parts["slot"],
            modified,
            grace_s=parts.get("grace", 0),
            notice=InterruptionNotice(*notice) if notice else None,
        )

    def _kind(self, text: str) -> tuple[Profile, Resources]:
        known = self._kinds.get(text)
        if known is None:
            parts = json.loads(text)
            profile = Profile(
                parts["type"],
                parts["zone"],
                CapacityType(parts["capacity"]),
                Resources(parts["resources"]),
                labels_of(parts["labels"]),
            )
            told = parts["allocatable"]
            known = self._kinds[text] = (profile, Resources(told) if told else NO_RESOURCES)
        return known
