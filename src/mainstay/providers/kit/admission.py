"""What a backend says of its hardware, screened before it becomes a machine."""

from collections.abc import Iterator
from typing import Final

from mainstay.model.errors import InvalidMachine, Rejected
from mainstay.model.ids import ClusterId, MachineId, is_id
from mainstay.model.machine import Machine, check
from mainstay.model.profile import CapacityType, HostRef
from mainstay.model.state import State
from mainstay.providers.kit.backend import Slot

FIELD_LABELS: Final = ("instance-type", "instance_type", "zone", "capacity-type")
"""Fields of their own: as labels they would be a second truth."""


def machine_of(slot: Slot, provider: str) -> Machine:
    """A slot as the machine it is when first seen; one that breaks a rule is refused by name."""
    for why in _faults(slot):
        raise Rejected(f"slot {slot.name[:80]!r} of provider {provider}: {why}")
    machine = Machine(
        id=MachineId(slot.name),
        state=_state(slot),
        profile=slot.profile,
        host=HostRef(provider, slot.host) if slot.host else None,
        cluster=ClusterId(slot.cluster) if slot.cluster else None,
        shard_metadata=dict(slot.shard_metadata),
        allocatable=slot.allocatable,
        price_per_hour=slot.price_per_hour,
        interruption_probability=slot.interruption_probability,
    )
    try:
        check(machine)
    except InvalidMachine as error:
        raise Rejected(f"slot {slot.name!r} of provider {provider}: {error.message}") from error
    return machine


def _state(slot: Slot) -> State:
    if slot.cluster:
        return State.CONFIGURED
    return State.IDLE if slot.host else State.SPECULATIVE


def _faults(slot: Slot) -> Iterator[str]:
    profile = slot.profile
    if not is_id(slot.name):
        yield "its name is not a machine id"
    if not profile.instance_type:
        yield "it has no instance type"
    if profile.capacity_type is CapacityType.UNSPECIFIED:
        yield "it has no capacity type"
    if not profile.zone:
        yield "it has no zone"
    probability = slot.interruption_probability
    if profile.capacity_type is CapacityType.SPOT and probability == 0.0:
        yield "a spot machine's interruption probability must be above 0"
    yield from (
        f"label {key!r} is a field of its own" for key, _ in profile.labels if key in FIELD_LABELS
    )
