"""`mainstay cluster sim`: clusters with changing demand, each with its session."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from typing_extensions import override

from mainstay.model.errors import Rejected
from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.need import Need
from mainstay.model.state import State
from mainstay.processes.cluster_demand import DemandSpec, Kind, demands
from mainstay.processes.soak_laws import units, withdrawn
from mainstay.processes.told import until_told
from mainstay.session.client import ClientTools, SessionClient
from mainstay.session.reconnect import ReconnectOptions
from mainstay.wire.tls import MutualTls
from mainstay.wire.transport import Over

CLUSTERS_MAX = 10_000
RECONNECT = ReconnectOptions(longest_s=5.0)
"""A simulated cluster has nothing better to do than to come back soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersSpec:
    """Which clusters, and how their demand goes."""

    clusters: int = 1
    machines: int = 100
    """That each of them asks for, on average."""

    name: str = "sim"
    """Of the one cluster; several have a number behind it."""

    seed: int = 1
    steps_per_day: int = 60
    steady: bool = False
    exact: bool = False
    only: Kind | None = None
    """The one kind of workload they have; None: the usual ones."""

    def __post_init__(self) -> None:
        if not 1 <= self.clusters <= CLUSTERS_MAX:
            raise Rejected(f"there are 1 to {CLUSTERS_MAX} clusters, not {self.clusters}")

    def demand(self) -> Iterator[DemandSpec]:
        """What each cluster asks for."""
        for number in range(self.clusters):
            name = self.name if self.clusters == 1 else f"{self.name}-{number}"
            yield DemandSpec(
                cluster=ClusterId(name),
                machines=self.machines,
                seed=self.seed,
                steps_per_day=self.steps_per_day,
                steady=self.steady,
                exact=self.exact,
                only=self.only,
            )


@dataclass(slots=True)
class Seen:
    """What a cluster has seen so far: the handlers of its session."""

    session: Callable[[], int] = lambda: 0
    """The number of the session that it has now."""

    nodes: dict[MachineId, tuple[State, int]] = field(default_factory=dict)
    """How machines of its own stand, and in which session it last heard of them."""

    bootstraps: int = 0
    reclaims: int = 0
    hints: dict[str, int] = field(default_factory=dict)
    """Machines that could be had beside those asked for, by kind of need."""

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        """Any machine may join."""
        self.bootstraps += 1
        return f"join {asked.cluster}".encode()

    async def reclaim(self, told: ReclaimTold) -> int:
        """Nothing runs there, so all are emptied at once."""
        self.reclaims += len(told.nodes)
        return len(told.nodes)

    async def node_state(self, state: NodeState) -> None:
        """Remember it; what is Idle again has left."""
        if state.state in {State.IDLE, State.SPECULATIVE}:
            self.nodes.pop(state.machine, None)
        else:
            self.nodes[state.machine] = (state.state, self.session())

    async def hint(self, hint: CapacityHint) -> None:
        """Remember that so much more could be had."""
        self.hints[hint.fingerprint] = hint.count

    def serving(self) -> frozenset[str]:
        """The machines that it believes to serve it.

        A new session begins with all that are its own: what it does not name was lost meanwhile.
        """
        serves = (State.CONFIGURED, self.session())
        return frozenset(name for name, heard in self.nodes.items() if heard == serves)


class SimulatedCluster:
    """One cluster: its demand, its session, what it has seen."""

    def __init__(
        self,
        spec: DemandSpec,
        address: str,
        over: Over,
        tools: ClientTools,
        always: tuple[Need, ...] = (),
    ) -> None:
        self.cluster = spec.cluster
        self.seen = Seen(lambda: self.client.facts().sessions)
        self.client = SessionClient(spec.cluster, address, over, self.seen, tools=tools)
        self._demands, self._always = demands(spec), always
        self.asked: tuple[Need, ...] = ()
        self.withdrawn = Counter[str]()
        """How many units of demand have ever gone away, by type of machine."""

    def step(self) -> None:
        """Ask for what comes next."""
        rows = (*next(self._demands), *self._always)
        self.withdrawn += withdrawn(self.asked, rows)
        self.asked = rows
        self.client.set_needs(rows)


class SimulatedClusters:
    """All of them."""

    def __init__(
        self, spec: ClustersSpec, address: str, over: Over, tools: ClientTools | None = None
    ) -> None:
        if isinstance(over, MutualTls) and spec.clusters > 1:
            raise Rejected(
                f"a certificate is for one cluster, not for {spec.clusters}: give --clusters 1"
            )
        tools = tools or ClientTools(reconnect=RECONNECT)
        self.all = [SimulatedCluster(each, address, over, tools) for each in spec.demand()]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Sessions are held inside the block."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each.client.run()) for each in self.all]
            try:
                yield
            finally:
                for each in running:
                    each.cancel()

    def step(self) -> None:
        """Every cluster asks for what comes next."""
        for each in self.all:
            each.step()

    def report(self, step: int) -> "Report":
        """What they see now, in numbers."""
        states = Counter(str(state) for each in self.all for state, _ in each.seen.nodes.values())
        facts = [each.client.facts() for each in self.all]
        return Report(
            step=step,
            clusters=len(self.all),
            connected=sum(each.connected for each in facts),
            asked=sum(units(need) for each in self.all for need in each.asked),
            nodes=dict(sorted(states.items())),
            bootstraps=sum(each.seen.bootstraps for each in self.all),
            reclaims=sum(each.seen.reclaims for each in self.all),
            hints=sum(len(each.seen.hints) for each in self.all),
            sessions=sum(each.sessions for each in facts),
            why=next((each.why for each in facts if each.why and not each.connected), ""),
        )

    def serving(self) -> Mapping[ClusterId, frozenset[str]]:
        """What each believes to serve it."""
        return {each.cluster: each.seen.serving() for each in self.all}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What all clusters see after a step."""

    step: int
    clusters: int
    connected: int
    asked: int
    """Units of demand."""

    nodes: Mapping[str, int]
    """By name of the state."""

    bootstraps: int
    reclaims: int
    hints: int
    sessions: int
    """How often any of them was acknowledged."""

    why: str
    """Why one that is not connected is not."""

    @override
    def __str__(self) -> str:
        states = ", ".join(f"{count} {name}" for name, count in self.nodes.items()) or "none"
        line = (
            f"step {self.step}: {self.connected} of {self.clusters} clusters connected, "
            f"{self.asked} units asked for, nodes: {states}; "
            f"{self.bootstraps} joined, {self.reclaims} reclaimed"
        )
        return f"{line} ({self.why})" if self.why else line


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast, and how long."""

    every_s: float = 10.0
    steps: int = 0
    """After so many it ends; 0: only when it is told to."""

    def __post_init__(self) -> None:
        if self.every_s <= 0 or self.steps < 0:
            raise Rejected(f"a step takes time, and there are none or some: {self}")


async def simulate(clusters: SimulatedClusters, pace: Pace, say: Callable[[Report], None]) -> None:
    """Ask, look, tell; until a signal, or until all steps are done."""
    async with until_told() as stop, clusters.connected():
        step = 0
        while not stop.is_set() and (not pace.steps or step < pace.steps):
            clusters.step()
            await _either(stop, pace.every_s)
            step += 1
            say(clusters.report(step))


async def _either(stop: asyncio.Event, seconds: float) -> None:
    """Until it is told to stop, or so long."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
