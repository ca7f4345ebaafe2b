"""The fleets and demands a run starts from, by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.sim.reference import REFERENCE_SCENES
from mainstay.sim.stage import BATCH, CORES, TRAIN, WEB, Builder, Scene, a_need

__all__ = ["SCENES", "Scene", "scene"]


def scene(name: str, random: Random) -> Scene:
    """A scene by its name; only `random` looks at the numbers."""
    if name not in SCENES:
        raise Rejected(f"no such scene: {name!r} (one of {', '.join(SCENES)})")
    return SCENES[name](random)


def _plain(_: Random) -> Scene:
    """Two clusters that have what they ask for, and ten slots."""
    web, batch = a_need(WEB, 10, priority=100), a_need(BATCH, 6, priority=50)
    build = Builder()
    build.add(10, State.CONFIGURED, need=web)
    build.add(6, State.CONFIGURED, need=batch)
    build.add(10, State.SPECULATIVE)
    return build.done([web, batch])


def _gang(_: Random) -> Scene:
    """A gang of seven in its rack, with slots there and in another."""
    gang = a_need(TRAIN, 7, priority=100, rack_gang="g-1")
    build = Builder()
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
    build = Builder()
    for rack in range(3):
        build.add(2, State.IDLE, rack=rack)
        build.add(8, State.SPECULATIVE, rack=rack)
    return build.done(needs)


def _rivals(victims: int) -> Callable[[Random], Scene]:
    def build(_: Random) -> Scene:
        """A cluster that holds every machine, and a more important one that wants four."""
        batch, train = a_need(BATCH, victims, priority=100_000), a_need(TRAIN, 4, priority=10**6)
        builder = Builder()
        builder.add(victims, State.CONFIGURED, need=batch)
        return builder.done([batch, train])

    return build


def _surplus(_: Random) -> Scene:
    """A cluster that has what it asks for, and six on-demand machines that nobody does."""
    web = a_need(WEB, 6, priority=100)
    build = Builder(replace(CORES, capacity_type=CapacityType.ON_DEMAND))
    build.add(6, State.CONFIGURED, need=web)
    build.add(6, State.IDLE)
    return build.done([web])


def _shared(_: Random) -> Scene:
    """A plain need and a gang of one cluster and priority; the gang's rack is the cheaper one."""
    needs = [a_need(WEB, 1, priority=100), a_need(WEB, 2, priority=100, rack_gang="g-1")]
    build = Builder()
    build.add(2, State.SPECULATIVE, rack=0)
    build.add(1, State.IDLE, rack=1)
    return build.done(needs)


def _mixed(_: Random) -> Scene:
    """A plain need and a gang of one cluster and priority that have what they ask for."""
    web, gang = a_need(WEB, 3, priority=100), a_need(WEB, 3, priority=100, rack_gang="g-1")
    build = Builder()
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
    held = random.choice((CapacityType.RESERVED, CapacityType.BARE_METAL))
    build = Builder(replace(CORES, capacity_type=held))
    for rack in range(random.randint(1, 4)):
        for state in (State.IDLE, State.SPECULATIVE, State.CONFIGURED):
            need = random.choice(needs) if state is State.CONFIGURED else None
            build.add(random.randint(1, 4), state, rack=rack, need=need)
    return build.done(needs)


def _contested(_: Random) -> Scene:
    """Two clusters that matter the same and want one machine each, and one machine."""
    build = Builder()
    build.add(1, State.IDLE)
    return build.done([a_need(WEB, 1, priority=100), a_need(BATCH, 1, priority=100)])


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
        "contested": _contested,
        "random": _random,
        **REFERENCE_SCENES,
    }
)
