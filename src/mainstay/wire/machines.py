"""Machines to and from the wire. Nothing a peer sends raises anything but `InvalidMachine`.

An assignment is not on the wire: what a provider echoes of it is `shard_metadata`, decoded by
whoever takes the report in.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, cast

from mainstay.model.errors import InvalidMachine, Rejected
from mainstay.model.ids import ClusterId, MachineId, is_id
from mainstay.model.machine import Machine, MachineRule, check
from mainstay.model.metadata import of_drain
from mainstay.model.profile import CapacityType, HostRef, Profile, labels_of
from mainstay.model.resources import Resources
from mainstay.model.state import State, state_name, state_of
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as capacity_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb

_CAPACITY_TYPES: Final = {int(kind): kind for kind in CapacityType}
_SHOWN_MAX: Final = 80
_SHAPES_KEPT: Final = 8192


class Refused(NamedTuple):
    """A record that was not taken in, and the rule it breaks."""

    machine: str
    rule: MachineRule
    message: str


@dataclass(frozen=True, slots=True)
class Screened:
    """A list of records: those that can exist, and those that cannot."""

    machines: tuple[Machine, ...]
    refused: tuple[Refused, ...]

    @property
    def counts(self) -> Counter[MachineRule]:
        """How many were refused, by rule."""
        return Counter(refusal.rule for refusal in self.refused)


def machine_to_wire(machine: Machine) -> pb.Machine:
    """The message for a record, valid or not."""
    return pb.Machine.FromString(machine_bytes(machine))


def machine_bytes(machine: Machine) -> bytes:
    """The same as bytes. Messages join end to end, so what many machines share is written once."""
    message = pb.Machine(
        id=sendable(machine.id),
        state=cast("pb.MachineState", int(machine.state)),
        price_per_hour=machine.price_per_hour,
        interruption_probability=machine.interruption_probability,
        last_error=sendable(machine.last_error),
        cluster=sendable(machine.cluster or ""),
    )
    if machine.host is not None:
        ref = pb.HostRef(provider=sendable(machine.host.provider), ref=sendable(machine.host.ref))
        message.host.CopyFrom(ref)
    if machine.shard_metadata:
        told = _told_beside_the_binding(machine)
        message.attribution.update(sendable_map(told))
        rest = {key: each for key, each in machine.shard_metadata.items() if key not in told}
        message.shard_metadata.update(sendable_map(rest))
    return message.SerializeToString() + _shape_bytes(machine.profile, machine.allocatable)


@lru_cache(maxsize=_SHAPES_KEPT)
def _shape_bytes(profile: Profile, allocatable: Resources) -> bytes:
    message = pb.Machine(
        instance_type=sendable(profile.instance_type),
        zone=sendable(profile.zone),
        capacity_type=cast("capacity_pb.CapacityType", int(profile.capacity_type)),
        labels=sendable_map(dict(profile.labels)),
    )
    if profile.resources:
        message.resources.resources.update(sendable_map(profile.resources.as_dict()))
    if allocatable:
        message.allocatable.resources.update(sendable_map(allocatable.as_dict()))
    return message.SerializeToString()


def machine_from_wire(message: pb.Machine) -> Machine:
    """The record a message holds, checked; `InvalidMachine` names the first rule it breaks."""
    machine = Machine(
        id=MachineId(message.id),
        state=_state(message),
        profile=Profile(
            instance_type=message.instance_type,
            zone=message.zone,
            capacity_type=_CAPACITY_TYPES.get(message.capacity_type, CapacityType.UNSPECIFIED),
            resources=_resources(message, message.resources),
            labels=labels_of(message.labels),
        ),
        host=_host(message),
        cluster=ClusterId(message.cluster) if message.cluster else None,
        allocatable=_resources(message, message.allocatable),
        price_per_hour=message.price_per_hour,
        interruption_probability=message.interruption_probability,
        last_error=message.last_error,
        shard_metadata={**message.attribution, **message.shard_metadata},
    )
    check(machine)
    return machine


def machines_from_wire(messages: Iterable[pb.Machine]) -> Screened:
    """Every record that can exist; one that cannot is named and spoils no other."""
    machines: list[Machine] = []
    refused: list[Refused] = []
    for message in messages:
        try:
            machines.append(machine_from_wire(message))
        except InvalidMachine as error:
            refused.append(Refused(message.id, MachineRule(error.rule), error.message))
    return Screened(tuple(machines), tuple(refused))


def sendable(text: str) -> str:
    """Text that protobuf takes: what is no Unicode becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def sendable_map(texts: Mapping[str, str]) -> dict[str, str]:
    """The same for both sides of a map."""
    return {sendable(key): sendable(value) for key, value in texts.items()}


def _told_beside_the_binding(machine: Machine) -> Mapping[str, str]:
    """What of its echo Create or Drain was told: BigFleet has a place only for Configure's."""
    if machine.state == State.CREATING:
        return machine.shard_metadata
    if machine.state == State.FAILED:
        return of_drain(machine.shard_metadata) if machine.cluster else machine.shard_metadata
    return of_drain(machine.shard_metadata) if machine.state == State.DRAINING else {}


def _state(message: pb.Machine) -> State:
    state = state_of(message.state)
    if state is None:
        raise _invalid(message, MachineRule.STATE, f"unknown state {state_name(message.state)}")
    return state


def _host(message: pb.Machine) -> HostRef | None:
    if not message.HasField("host"):
        return None
    return HostRef(message.host.provider, message.host.ref)


def _resources(message: pb.Machine, resources: pb.Resources) -> Resources:
    try:
        return Resources(resources.resources)
    except Rejected as error:
        raise _invalid(message, MachineRule.RESOURCES, error.message) from error


def _invalid(message: pb.Machine, rule: MachineRule, why: str) -> InvalidMachine:
    shown = message.id if is_id(message.id) else ascii(message.id[:_SHOWN_MAX])
    return InvalidMachine(f"machine {shown}: {why}", rule=rule)
