"""`mainstay soak shard`: a shard is killed again and again, and nothing may come of it.

A shard process, two providers with faults on, many clusters. The shard dies by SIGKILL at moments
that nobody chose; every life must decide again soon, from what its providers tell it alone. At
first clusters go on asking for the same, and nothing may be taken from them. Then their demand
changes. At the end all comes to rest, and everybody must believe the same.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.state import State
from mainstay.model.views import Summary
from mainstay.processes.asking import counted
from mainstay.processes.cluster_demand import KINDS
from mainstay.processes.cluster_sim import ClustersSpec, SimulatedClusters
from mainstay.processes.soak_laws import (
    Book,
    Held,
    Share,
    book_of,
    disagreements,
    drained_without_cause,
    forgotten,
    late,
    miscounted,
    owned_twice,
    shared,
    taken_away,
    unserved,
)
from mainstay.processes.soak_lives import Fleet, Life, Lives
from mainstay.runtime.children import Children
from mainstay.runtime.clock import Clock
from mainstay.session.client import ClientTools
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.tls import Plaintext

DECIDES_S: Final = 5.0
"""What we promise: the time from a start to the first decision."""

QUIET_CYCLES: Final = 3
QUIET_S: Final = 180.0
"""How long all may take to come to rest."""

LOOK_S: Final = 0.1
MORE_STEPS: Final = 60

EARLY: Final = 4
"""One kill in so many comes before the shard has decided anything."""

SPARE: Final = 5
"""So many machines there are for one that is asked for: half of all demand is for one type in four,
peaks are twice the mean, and hosts are lost. So whatever is not met is a fault.
"""

BAD_LINES: Final[Mapping[str, str]] = {"late_acks_s": "0.2", "lost_acks": "0.01"}
"""They are no reason to take anything from anybody."""

FAULTS: Final[Mapping[str, str]] = {
    **BAD_LINES,
    "failures": "create=0.02, configure=0.01, drain=0.01",
    "losses_per_hour": "0.2",
}
STEPS: Final = "mainstay_provider_steps_total"
INJECTED: Final = "mainstay_provider_faults_total"
BOUND: Final = (State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.FAILED)
GANG_TYPES: Final = frozenset(kind.exact_type for kind in KINDS if kind.is_gang)
MOVING: Final = (State.CREATING, State.CONFIGURING, State.DRAINING, State.DELETING)

NO_FAULTS: Final[Mapping[str, str]] = {
    "failures": "", "late_acks_s": "0", "lost_acks": "0",
    "losses_per_hour": "0",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSpec:
    """How large, how often, how fast."""

    machines: int = 100_000
    clusters: int = 50
    demand: int = 60
    """Machines that a cluster asks for, on average."""

    kills: int = 20
    """While demand changes."""

    held_kills: int = 4
    """Before that, while all ask for the same; half of them before that is met."""

    seed: int = 1
    cycle_interval_s: float = 1.0
    step_s: float = 2.0
    """Between two changes of demand."""

    longest_life_s: float = 6.0
    """A life is ended at most so long after its first decision."""

    decides_s: float = DECIDES_S
    """What a start is judged by: the promise, unless the machine is one that others use too."""

    def __post_init__(self) -> None:
        if self.machines < 200 or self.clusters < 1 or min(self.kills, self.held_kills) < 0:
            raise Rejected(f"a soak has 200 machines, a cluster, and no fewer kills than 0: {self}")
        asked = self.clusters * self.demand
        if self.machines < SPARE * asked:
            raise Rejected(
                f"{self.clusters} clusters ask for {asked} machines on average, and at times for "
                f"more: give at least {SPARE} times as many machines, not {self.machines}"
            )


@dataclass(slots=True)
class Soaked:
    """What was seen, and which laws were broken."""

    starts_s: list[float] = field(default_factory=list)
    """From the start of a life to its first decision, of those that lived to see it."""

    kills: int = 0
    killed_early: int = 0
    held_drains: int = 0
    """While nobody asked for less; of gangs only what was drained once all of them were whole."""

    recognised: int = 0
    """Machines that went on serving over a start and that the new life was asked about, in all."""

    drains: int = 0
    drains_seen: int = 0
    """Of these, how many were seen by whom the machine served; the rest were over too soon."""

    gang_drains: int = 0
    """Of these, how many were of gangs: one that cannot be whole where it is moves elsewhere."""

    withdrawn: int = 0
    lost_hosts: int = 0
    failed_steps: int = 0
    bootstraps: int = 0
    serving: int = 0
    same_need: int = 0
    """Of these, how many serve the need that their echo names."""

    asked: int = 0
    sessions: int = 0
    rested_s: float = 0.0
    epoch: int = 0
    broken: list[str] = field(default_factory=list)

    def answer(self) -> dict[str, object]:
        """All of it, with the figures that are promised."""
        ranked = sorted(self.starts_s)
        return {
            **dataclasses.asdict(self),
            "first_decision_p50_s": ranked[len(ranked) // 2],
            "first_decision_max_s": ranked[-1],
            "over_promise": sum(each > DECIDES_S for each in ranked),
        }


async def soak(
    spec: SoakSpec, children: Children, clock: Clock, say: Callable[[str], None]
) -> Soaked:
    """Run it all; every process is the caller's to end, and ends with `children`."""
    return await _Soak(spec, children, clock, say).run()


class _Soak:
    def __init__(
        self, spec: SoakSpec, children: Children, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._say = say
        self._random = Random(f"soak/{spec.seed}")
        self._fleet = Fleet(children, machines=spec.machines, seed=spec.seed)
        self._lives = Lives(children, clock, cycle_interval_s=spec.cycle_interval_s)
        self._soaked = Soaked()

    async def run(self) -> Soaked:
        soaked, spec = self._soaked, self._spec
        await self._fleet.start()
        self._say(f"{spec.machines:,} machines at two providers; the shard starts")
        life = await self._lives.begin(self._fleet.addresses())
        soaked.starts_s.append(await life.decided(self._fleet.machines))
        clusters = self._clusters(life.address)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._fleet.close)
            await stack.enter_async_context(self._fleet.watched())
            await stack.enter_async_context(clusters.connected())
            clusters.step()
            self._say(f"{spec.held_kills} kills to come while all ask for the same")
            life = await self._hold(life)
            self._say(f"{self._heard(clusters)}; faults on, {spec.kills} kills to come")
            await self._fleet.strike(FAULTS)
            life = await self._kill_and_step(life, clusters)
            await self._fleet.strike(NO_FAULTS)
            self._say("faults off; waiting for rest")
            began_s = self._clock.elapsed_s()
            summary = await self._rest(life)
            soaked.rested_s = round(self._clock.elapsed_s() - began_s, 1)
            await self._judge(life, clusters, summary)
        return soaked

    def _clusters(self, address: str) -> SimulatedClusters:
        spec = self._spec
        wanted = ClustersSpec(
            clusters=spec.clusters, machines=spec.demand, name="soak", seed=spec.seed, exact=True
        )
        tools = ClientTools(reconnect=ReconnectOptions(shortest_s=0.1, longest_s=1.0))
        return SimulatedClusters(wanted, address, Plaintext(), tools)

    async def _hold(self, life: Life) -> Life:
        """Some kills while demand stays as it is: before it is met, and after that."""
        kills = self._spec.held_kills
        early, late = range(kills // 2), range(kills // 2, kills)
        await self._fleet.strike(BAD_LINES)
        life = await self._kill(life, early)
        await self._rest(life)
        before, moved = await self._held(), (await self._drained(of_gangs=True)).total()
        life = await self._kill(life, late)
        await self._rest(life)
        self._soaked.held_drains = await self._drains() - moved
        self._broke(taken_away(self._soaked.held_drains, before, await self._held()))
        return life

    async def _kill_and_step(self, life: Life, clusters: SimulatedClusters) -> Life:
        """All the other kills, while demand goes on changing; the life that is left."""
        held = self._spec.held_kills
        async with asyncio.TaskGroup() as tasks:
            killing = tasks.create_task(self._kill(life, range(held, held + self._spec.kills)))
            await self._step(clusters, killing)
        return killing.result()

    async def _kill(self, life: Life, numbers: Iterable[int]) -> Life:
        for number in numbers:
            before = self._fleet.mark()
            await self._live(number)
            life.kill()
            self._soaked.kills += 1
            life = await self._next(number)
            await self._recall(life, before)
        return life

    async def _live(self, number: int) -> None:
        await asyncio.sleep(self._random.uniform(0.0, self._spec.longest_life_s))
        self._say(f"kill {number + 1}")

    async def _next(self, number: int) -> Life:
        """The next life that comes to a decision."""
        life = await self._lives.begin(self._fleet.addresses())
        if number % EARLY == EARLY - 1:
            await asyncio.sleep(self._random.uniform(0.05, 1.5))
            life.kill()
            self._soaked.kills += 1
            self._soaked.killed_early += 1
            life = await self._lives.begin(self._fleet.addresses())
        self._soaked.starts_s.append(await life.decided(self._fleet.machines))
        return life

    async def _recall(self, life: Life, before: Book) -> None:
        """What nobody has touched since before the kill, the new life must take for what it is."""
        rows = await life.rows(*BOUND)
        await self._fleet.look()
        touched = self._fleet.touched()
        serving = {name for name, held in before.items() if held.state is State.CONFIGURED}
        self._soaked.recognised += len(serving - touched)
        self._broke(forgotten(before, book_of(rows), touched))

    async def _drains(self) -> int:
        """How many there ever were."""
        return int(sum(counted(each, STEPS, call="drain") for each in await self._fleet.metrics()))

    async def _drained(self, *, of_gangs: bool) -> Counter[Share]:
        """How many there ever were, by whom the machine served."""
        await self._fleet.look()
        return split(self._fleet.drained(), of_gangs=of_gangs)

    async def _held(self) -> dict[str, Held]:
        return {name: each.held for name, each in (await self._fleet.book()).items()}

    async def _step(self, clusters: SimulatedClusters, killing: asyncio.Task[Life]) -> None:
        """Demand changes until the last kill, and on until something was taken from somebody: in
        short lives nothing may be. And nobody may own what another owns.
        """
        more = 0
        while not killing.done() or (more < MORE_STEPS and not await self._is_taken()):
            await asyncio.sleep(self._spec.step_s)
            clusters.step()
            self._broke(shared(clusters.serving()))
            more += killing.done()

    async def _is_taken(self) -> bool:
        return (await self._drained(of_gangs=False)).total() > 0

    async def _rest(self, life: Life) -> Summary:
        """Until nothing is planned and nothing is on its way, for a few cycles."""
        quiet, last = 0, await life.summary()
        until_s = self._clock.elapsed_s() + QUIET_S
        while quiet <= QUIET_CYCLES:
            await asyncio.sleep(LOOK_S)
            summary = await life.summary()
            if summary.stamp.cycle != last.stamp.cycle:
                quiet = quiet + 1 if is_quiet(summary, self._spec.clusters) else 0
            last = summary
            if self._clock.elapsed_s() > until_s:
                self._broke([f"no rest within {QUIET_S:g} s: {summary}"])
                break
        return last

    async def _judge(self, life: Life, clusters: SimulatedClusters, summary: Summary) -> None:
        """Everybody's books, once all is at rest."""
        soaked = self._soaked
        kept, rows, serving = await self._fleet.book(), await life.rows(), clusters.serving()
        provider = {name: each.held for name, each in kept.items()}
        self._broke(disagreements(provider, book_of(rows)))
        self._broke(owned_twice(provider, serving))
        soaked.same_need = sum(
            row.need == kept[row.id].need != "" for row in rows if row.id in kept
        )
        metrics = await self._fleet.metrics()
        soaked.drains = await self._drains()
        soaked.failed_steps = int(sum(counted(each, STEPS, end="failed") for each in metrics))
        soaked.lost_hosts = int(sum(counted(each, INJECTED, fault="loss") for each in metrics))
        seen, gangs = await self._drained(of_gangs=False), await self._drained(of_gangs=True)
        gone = withdrawals(clusters)
        soaked.gang_drains, soaked.withdrawn = gangs.total(), gone.total()
        soaked.drains_seen = seen.total() + soaked.gang_drains
        singles = soaked.drains - soaked.gang_drains
        self._broke(drained_without_cause(seen, split(gone, of_gangs=False), in_all=singles))
        self._broke(late(soaked.starts_s, self._spec.decides_s))
        report = clusters.report(0)
        soaked.bootstraps, soaked.sessions = report.bootstraps, report.sessions
        soaked.serving = sum(map(len, serving.values()))
        soaked.asked, soaked.epoch = report.asked, summary.epoch
        self._broke(unserved(summary.unmet))
        self._broke(miscounted(soaked.asked, soaked.serving, soaked.same_need))
        self._broke(awake(soaked))

    def _heard(self, clusters: SimulatedClusters) -> str:
        return str(clusters.report(0)).partition(": ")[2]

    def _broke(self, laws: list[str]) -> None:
        for law in laws:
            self._say(f"broken: {law}")
        self._soaked.broken += laws


def is_quiet(summary: Summary, clusters: int) -> bool:
    """Whether everybody was heard and has all that was asked for, and nothing is planned or on its
    way.
    """
    moving = sum(summary.machines.get(str(state), 0) for state in MOVING)
    return (
        summary.connected == clusters == summary.clusters
        and not (summary.unmet or sum(summary.planned.values()))
        and not (summary.queued or summary.in_flight or moving)
    )


def withdrawals(clusters: SimulatedClusters) -> Counter[Share]:
    """How many units of demand have ever gone away, of each cluster and type of machine."""
    return Counter(
        {
            Share(each.cluster, instance_type): units
            for each in clusters.all
            for instance_type, units in each.withdrawn.items()
        }
    )


def split(counts: Counter[Share], *, of_gangs: bool) -> Counter[Share]:
    """The part that is about gangs, or all the rest."""
    wanted = ((share, n) for share, n in counts.items() if is_of_gangs(share) is of_gangs)
    return Counter(dict(wanted))


def is_of_gangs(share: Share) -> bool:
    """Whether this demand runs whole and in one place, or not at all."""
    return share.instance_type in GANG_TYPES


def awake(soaked: Soaked) -> list[str]:
    """A soak in which nothing happened proves nothing."""
    wanted = {
        "machines serve": soaked.serving,
        "machines joined": soaked.bootstraps,
        "machines serve over a start": soaked.recognised,
        "demand went away": soaked.withdrawn,
        "machines were drained": soaked.drains_seen - soaked.gang_drains,
    }
    return [f"nothing happened: no {what}" for what, count in wanted.items() if not count]
