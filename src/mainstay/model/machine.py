"""The machine: one record of the same shape in every state, and what must be true of it.

`check` is the screen for every record, whether a provider reported it or we made it. What to do
with a refused record is for the caller to decide.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, excess_parts, is_priority
from mainstay.model.errors import InvalidMachine
from mainstay.model.ids import ClusterId, MachineId, is_id
from mainstay.model.profile import HostRef, Profile
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import RULES, Presence, State, state_name

HOST_REF_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine. Its id stays the same from quota slot to host and back to slot."""

    id: MachineId
    state: State
    profile: Profile

    host: HostRef | None = None
    """The hardware; a quota slot has none."""

    cluster: ClusterId | None = None
    """The cluster it is bound to: no part of its identity, and not the one it is meant for."""

    allocatable: Resources = NO_RESOURCES
    """What it really provides, when that differs from what the hardware is."""

    price_per_hour: float = 0.0
    """US dollars per hour, as the provider declares it; nobody else may."""

    interruption_probability: float = 0.0
    """Chance of losing it within an hour, as the provider declares it; nobody else may."""

    assignment: Assignment = NO_ASSIGNMENT
    last_error: str = ""

    shard_metadata: Mapping[str, str] = field(default_factory=dict)
    """What a provider echoed; decoded on the way in and not kept by the inventory."""

    @property
    def effective_allocatable(self) -> Resources:
        """The only capacity anybody reckons with."""
        return self.allocatable or self.profile.resources


class MachineRule(StrEnum):
    """A rule that a record can break; the value is the label under which refusals are counted."""

    ID = "id"
    STATE = "state"
    HOST = "host"
    CLUSTER = "cluster"
    ASSIGNMENT = "assignment"
    DIAGNOSIS = "diagnosis"
    PRICE = "price"
    INTERRUPTION_PROBABILITY = "interruption_probability"
    PENALTY = "penalty"
    RESOURCES = "resources"


STRUCTURAL: Final = frozenset({
    MachineRule.STATE, MachineRule.HOST, MachineRule.CLUSTER,
    MachineRule.ASSIGNMENT, MachineRule.DIAGNOSIS,
})  # fmt: skip
"""The rules about which state carries what."""


def check(machine: Machine) -> None:
    """Refuse a machine that cannot exist, naming the first rule it breaks."""
    for rule, why in faults(machine):
        shown = machine.id if is_id(machine.id) else repr(machine.id[:80])
        raise InvalidMachine(f"machine {shown}: {why}", rule=rule)


def faults(machine: Machine) -> Iterator[tuple[MachineRule, str]]:
    """Every rule this record breaks, with a sentence that says how."""
    state = machine.state
    if not is_id(machine.id):
        yield MachineRule.ID, f"not a machine id: {machine.id[:80]!r}"
    if state == State.UNSPECIFIED or state not in RULES:
        yield MachineRule.STATE, f"no machine rests in state {state_name(state)}"
        return
    yield from _carried_faults(machine)
    yield from _cost_faults(machine)


def _carried_faults(machine: Machine) -> Iterator[tuple[MachineRule, str]]:
    state, rule = machine.state, RULES[machine.state]
    if (why := _presence_fault(rule.host, machine.host is not None)) is not None:
        yield MachineRule.HOST, f"in state {state} it {why} a host"
    elif machine.host is not None and not _is_host_ref(machine.host.ref):
        yield MachineRule.HOST, f"the host's ref must have 1 to {HOST_REF_BYTES_MAX} bytes"
    if (why := _presence_fault(rule.cluster, bool(machine.cluster))) is not None:
        yield MachineRule.CLUSTER, f"in state {state} it {why} a cluster"
    elif machine.cluster and not is_id(machine.cluster):
        yield MachineRule.CLUSTER, f"not a cluster id: {machine.cluster[:80]!r}"
    if excess := excess_parts(machine.assignment, state):
        yield MachineRule.ASSIGNMENT, f"in state {state} it must not carry: {', '.join(excess)}"
    if state == State.FAILED and not machine.last_error:
        yield MachineRule.DIAGNOSIS, "in state Failed it must have a diagnosis in last_error"


def _is_host_ref(ref: str) -> bool:
    return 0 < len(ref.encode(errors="surrogatepass")) <= HOST_REF_BYTES_MAX


def _presence_fault(presence: Presence, present: bool) -> str | None:
    if presence is Presence.ALWAYS and not present:
        return "must have"
    if presence is Presence.NEVER and present:
        return "must not have"
    return None


def _cost_faults(machine: Machine) -> Iterator[tuple[MachineRule, str]]:
    price, probability = machine.price_per_hour, machine.interruption_probability
    if not 0.0 <= price < math.inf:
        yield MachineRule.PRICE, f"price_per_hour must be zero or more and finite: {price}"
    if not 0.0 <= probability <= 1.0:
        rule = MachineRule.INTERRUPTION_PROBABILITY
        yield rule, f"interruption_probability must be within [0, 1]: {probability}"
    if machine.assignment is not NO_ASSIGNMENT:
        yield from _commitment_faults(machine.assignment)


def _commitment_faults(assignment: Assignment) -> Iterator[tuple[MachineRule, str]]:
    if assignment.priority is not None and not is_priority(assignment.priority):
        yield MachineRule.ASSIGNMENT, f"priority must fit 32 bits: {assignment.priority}"
    for name in ("interruption_penalty_dollars", "reclamation_penalty_dollars"):
        penalty = getattr(assignment, name)
        if penalty is not None and math.isnan(penalty):
            yield MachineRule.PENALTY, f"{name} must be a number: {penalty}"
