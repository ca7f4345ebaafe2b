"""What scenes are made of: kinds of machines, needs, and who serves whom."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from mainstay.model.commitment import full_commitment
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State

RACK_KEY: Final = "topology.bigfleet/rack"
CPU_PER_MACHINE: Final = 8_000

WEB, BATCH, TRAIN = ClusterId("web"), ClusterId("batch"), ClusterId("train")


@dataclass(frozen=True, slots=True)
class Kind:
    """What machines of one kind have in common."""

    instance_type: str
    resources: Resources
    capacity_type: CapacityType = CapacityType.RESERVED
    price_per_hour: float = 1.0


CORES: Final = Kind("gp-8", Resources({"cpu": "8"}))


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is, and what is asked for."""

    machines: tuple[Machine, ...]
    needs: tuple[Need, ...]

    @property
    def clusters(self) -> tuple[ClusterId, ...]:
        """Who asks, in order."""
        return tuple(sorted({need.cluster for need in self.needs}))


def host(machine: MachineId) -> HostRef:
    """The hardware of a simulated machine."""
    return HostRef("sim", machine)


def a_need(cluster: ClusterId, machines: int, *, priority: int, rack_gang: str = "") -> Need:
    """A need of so many machines; a gang must be in one rack."""
    same = (Requirement(RACK_KEY, Operator.SAME),) if rack_gang else ()
    return Need(
        cluster=cluster,
        profile=NeedProfile(requirements=same, priority=priority, reclamation_penalty_bucket=3),
        aggregate={"cpu": machines * CPU_PER_MACHINE},
        min_unit={"cpu": 1_000},
        group=rack_gang,
    )


class Builder:
    """Numbers machines as they are added; later ones of a rack are dearer."""

    def __init__(self, kind: Kind = CORES, *, racks_per_zone: int = 0) -> None:
        self.machines: list[Machine] = []
        self._kind = kind
        self._racks_per_zone = racks_per_zone

    def add(
        self, count: int, state: State,
        *, rack: int = 0, need: Need | None = None, kind: Kind | None = None,
    ) -> None:  # fmt: skip
        """So many machines in this state; Configured ones serve `need`."""
        is_a = kind or self._kind
        zone = f"zone-{rack // self._racks_per_zone}" if self._racks_per_zone else "zone-a"
        profile = Profile(
            is_a.instance_type, zone, is_a.capacity_type, is_a.resources, ((RACK_KEY, f"r{rack}"),)
        )
        for _ in range(count):
            number = len(self.machines)
            name = MachineId(f"m-{number:03d}")
            carried: dict[str, Any] = {}
            if state is not State.SPECULATIVE:
                carried["host"] = host(name)
            if need is not None:
                carried |= {"cluster": need.cluster, "assignment": full_commitment(need)}
            self.machines.append(Machine(
                id=name,
                state=state,
                profile=profile,
                price_per_hour=is_a.price_per_hour + rack + number % 3 / 4,
                **carried,
            ))  # fmt: skip

    def done(self, needs: Iterable[Need]) -> Scene:
        """The scene with these needs."""
        return Scene(tuple(self.machines), tuple(needs))
