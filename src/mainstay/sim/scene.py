"""The fleets and demands a run starts from, by name. Every machine has eight cores."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any, Final

from mainstay.model.assignment import Assignment
from mainstay.model.cost import upper_bound
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State

RACK_KEY: Final = "topology.bigfleet/rack"
CPU_PER_MACHINE: Final = 8_000
_CORES: Final = Resources({"cpu": "8"})

WEB, BATCH, TRAIN = ClusterId("web"), ClusterId("batch"), ClusterId("train")


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is, and what is asked for."""

    machines: tuple[Machine, ...]
    needs: tuple[Need, ...]

    @property
    def clusters(self) -> tuple[ClusterId, ...]:
        """Who asks, in order."""
        return tuple(sorted({need.cluster for need in self.needs}))


def scene(name: str, random: Random) -> Scene:
    """A scene by its name; only `random` looks at the numbers."""
    if name not in SCENES:
        raise Rejected(f"no such scene: {name!r} (one of {', '.join(SCENES)})")
    return SCENES[name](random)


def commitment(need: Need) -> Assignment:
    """What a machine carries while it is created or configured for a need."""
    ref = need.ref
    return Assignment(fingerprint=ref.fingerprint, group=ref.group, cluster=ref.cluster)


def full_commitment(need: Need) -> Assignment:
    """What a machine carries that serves a need."""
    profile, ref = need.profile, need.ref
    return Assignment(
        fingerprint=ref.fingerprint,
        group=ref.group,
        cluster=ref.cluster,
        priority=profile.priority,
        interruption_penalty_dollars=upper_bound(profile.interruption_penalty_bucket),
        reclamation_penalty_dollars=upper_bound(profile.reclamation_penalty_bucket),
    )


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


class _Builder:
    """Numbers machines as they are added; later ones of a rack are dearer."""

    def __init__(self, capacity_type: CapacityType = CapacityType.RESERVED) -> None:
        self.machines: list[Machine] = []
        self._type = capacity_type

    def add(self, count: int, state: State, *, rack: int = 0, need: Need | None = None) -> None:
        """So many machines in this state; Configured ones serve `need`."""
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
                profile=Profile("gp-8", "zone-a", self._type, _CORES, ((RACK_KEY, f"r{rack}"),)),
                price_per_hour=1.0 + rack + number % 3 / 4,
                **carried,
            ))  # fmt: skip

    def done(self, needs: Iterable[Need]) -> Scene:
        return Scene(tuple(self.machines), tuple(needs))


def _plain(_: Random) -> Scene:
    """Two clusters that have what they ask for, and ten slots."""
    web, batch = a_need(WEB, 10, priority=100), a_need(BATCH, 6, priority=50)
    build = _Builder()
    build.add(10, State.CONFIGURED, need=web)
    build.add(6, State.CONFIGURED, need=batch)
    build.add(10, State.SPECULATIVE)
    return build.done([web, batch])


def _gang(_: Random) -> Scene:
    """A gang of seven in its rack, with slots there and in another."""
    gang = a_need(TRAIN, 7, priority=100, rack_gang="g-1")
    build = _Builder()
    build.add(7, State.CONFIGURED, rack=1, need=gang)
    build.add(8, State.SPECULATIVE, rack=1)
    build.add(8, State.SPECULATIVE, rack=0)
    return build.done([gang])


def _cold(_: Random) -> Scene:
    """Two clusters that have nothing yet: plain needs, two gangs, Idle machines and slots."""
    needs = [
        a_need(WEB, 5, priority=100),
        a_need(WEB, 3, priority=100, rack_gang="g-1"),
        a_need(BATCH, 4, priority=50),
        a_need(BATCH, 2, priority=50, rack_gang="g-2"),
    ]
    build = _Builder()
    for rack in range(3):
        build.add(2, State.IDLE, rack=rack)
        build.add(8, State.SPECULATIVE, rack=rack)
    return build.done(needs)


def _rivals(victims: int) -> Callable[[Random], Scene]:
    def build(_: Random) -> Scene:
        """A cluster that holds every machine, and a more important one that wants four."""
        batch, train = a_need(BATCH, victims, priority=100_000), a_need(TRAIN, 4, priority=10**6)
        builder = _Builder()
        builder.add(victims, State.CONFIGURED, need=batch)
        return builder.done([batch, train])

    return build


def _surplus(_: Random) -> Scene:
    """A cluster that has what it asks for, and six on-demand machines that nobody does."""
    web = a_need(WEB, 6, priority=100)
    build = _Builder(CapacityType.ON_DEMAND)
    build.add(6, State.CONFIGURED, need=web)
    build.add(6, State.IDLE)
    return build.done([web])


def _shared(_: Random) -> Scene:
    """A plain need and a gang of one cluster and priority; the gang's rack is the cheaper one."""
    needs = [a_need(WEB, 1, priority=100), a_need(WEB, 2, priority=100, rack_gang="g-1")]
    build = _Builder()
    build.add(2, State.SPECULATIVE, rack=0)
    build.add(1, State.IDLE, rack=1)
    return build.done(needs)


def _mixed(_: Random) -> Scene:
    """A plain need and a gang of one cluster and priority that have what they ask for."""
    web, gang = a_need(WEB, 3, priority=100), a_need(WEB, 3, priority=100, rack_gang="g-1")
    build = _Builder()
    build.add(3, State.CONFIGURED, rack=0, need=web)
    build.add(3, State.CONFIGURED, rack=1, need=gang)
    build.add(6, State.SPECULATIVE, rack=0)
    build.add(6, State.SPECULATIVE, rack=1)
    return build.done([web, gang])


def _random(random: Random) -> Scene:
    """One or two clusters, two to five needs, ten to forty machines: satisfiable or not."""
    clusters = (WEB, BATCH)[: random.randint(1, 2)]
    needs = [
        a_need(
            random.choice(clusters),
            random.randint(1, 6),
            priority=random.choice((10, 50, 100)),
            rack_gang=random.choice(("", f"g-{number}")),
        )
        for number in range(random.randint(2, 5))
    ]
    needs = list({need.ref: need for need in needs}.values())
    build = _Builder(random.choice((CapacityType.RESERVED, CapacityType.BARE_METAL)))
    for rack in range(random.randint(1, 4)):
        for state in (State.IDLE, State.SPECULATIVE, State.CONFIGURED):
            need = random.choice(needs) if state is State.CONFIGURED else None
            build.add(random.randint(1, 4), state, rack=rack, need=need)
    return build.done(needs)


SCENES: Final[Mapping[str, Callable[[Random], Scene]]] = MappingProxyType(
    {
        "plain": _plain,
        "gang": _gang,
        "cold": _cold,
        "inversion": _rivals(4),
        "victims": _rivals(20),
        "surplus": _surplus,
        "mixed": _mixed,
        "shared": _shared,
        "random": _random,
    }
)
