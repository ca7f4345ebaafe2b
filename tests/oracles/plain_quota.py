"""What is used of the quota held, by docs/explanation/decision.md, for the plain engine."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mainstay.engine.quota import Place, Quota
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import State

REGION: Final = "topology.kubernetes.io/region"


@dataclass(frozen=True)
class Spent:
    """The machines that each cluster and each (provider, region) uses."""

    quota: Quota
    sources: Mapping[MachineId, str]
    clusters: Counter[ClusterId] = field(default_factory=Counter)
    places: Counter[Place] = field(default_factory=Counter)
    passed_over: list[Machine] = field(default_factory=list)
    """In this attempt."""

    def attempt(self) -> "Spent":
        """A copy to go on with: in vain, it is thrown away."""
        return replace(
            self, clusters=self.clusters.copy(), places=self.places.copy(), passed_over=[]
        )

    def place_of(self, machine: Machine) -> Place:
        return self.sources[machine.id], machine.profile.attribute(REGION) or ""

    def spend(self, cluster: ClusterId, machine: Machine) -> bool:
        """Whether a need of this cluster may take the machine; if so, it is counted."""
        place = self.place_of(machine)
        slot = machine.state is State.SPECULATIVE
        machines_held = self.quota.machines.get(cluster)
        slots_held = self.quota.slots.get(place)
        is_new = machine.cluster != cluster
        too_many = is_new and machines_held is not None and self.clusters[cluster] >= machines_held
        too_dense = slot and slots_held is not None and self.places[place] >= slots_held
        if too_many or too_dense:
            self.passed_over.append(machine)
            return False
        self.clusters[cluster] += is_new
        self.places[place] += slot
        return True


def user_of(machine: Machine) -> ClusterId | None:
    """The cluster whose quota a machine uses."""
    drained_for = machine.assignment.drained_for
    match machine.state:
        case State.CONFIGURED | State.CONFIGURING:
            return machine.cluster
        case State.CREATING:
            return machine.assignment.cluster
        case State.DRAINING:
            return None if drained_for is None else drained_for.cluster
        case _:
            return None


def spent_by(fleet: Iterable[Machine], quota: Quota, sources: Mapping[MachineId, str]) -> Spent:
    """What is used before anything is acquired."""
    spent = Spent(quota, sources)
    for machine in fleet:
        cluster = user_of(machine)
        if cluster is not None:
            spent.clusters[cluster] += 1
        if machine.state is not State.SPECULATIVE:
            spent.places[spent.place_of(machine)] += 1
    return spent
