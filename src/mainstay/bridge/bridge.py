"""The loop: what the shard says against what the rows say, one step at a time, and then demand.

`look` takes no input but the two: the path after a crash is the path of every day. What the shard
says only hurries it, but for a drain that is told: its node is closed before that is acknowledged.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

import psycopg

from mainstay.bridge import rows
from mainstay.bridge.demand import Standing, needs
from mainstay.bridge.doing import Acts, Tools
from mainstay.bridge.drains import Drain, Drains
from mainstay.bridge.hearing import Hearing
from mainstay.bridge.machines import Machines
from mainstay.bridge.metrics import BridgeMetrics
from mainstay.bridge.rows import Told
from mainstay.bridge.steps import BY_NAME, Known, Life, Name, Patience, due, is_gone
from mainstay.model.errors import MainstayError, Unavailable
from mainstay.model.frames import BootstrapAsked, CapacityHint, NodeState, ReclaimTold
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import State
from mainstay.runtime.log import logger
from mainstay.session.client import SessionClient
from mainstay.tenancy import capacity, consume, wanted_rows
from mainstay.tenancy.database.connect import Row, transaction
from mainstay.tenancy.wanted import Kind

STEPS_MAX: Final = 8
"""Of one life at one look; a life has no more."""

ON: Final = frozenset({State.CONFIGURED, State.DRAINING})
"""States in which a machine runs what its blob says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeOptions:
    """How it goes about it."""

    every_s: float = 2.0
    """Between two looks when nobody hurries."""

    patience: Patience = field(default_factory=Patience)
    head_room: Mapping[str, int] = field(default_factory=dict)
    """By kind; what is not here is as the catalogue says."""

    acts: Acts = field(default_factory=Acts)


class Bridge:
    """The handlers of tenancy's session, and the loop beside them."""

    def __init__(
        self,
        tools: Tools,
        hearing: Hearing,
        options: BridgeOptions,
        metrics: BridgeMetrics,
        machines: Machines,
    ) -> None:
        self._tools, self._hearing, self._options = tools, hearing, options
        self._metrics, self._machines = metrics, machines
        self._hurry = asyncio.Event()
        self._asked: tuple[Need, ...] | None = None
        self._failing: Mapping[str, str] = {}
        self._drains = Drains(hearing.clock)

    async def bootstrap(self, asked: BootstrapAsked) -> bytes:
        """A machine is to join: its life begins."""
        self._hearing.forget(asked.machine)
        self._drains.forget(asked.machine)
        try:
            life = await self._options.acts.ask(self._tools, asked)
        except MainstayError as error:
            self._metrics.refused.inc()
            logger(machine=asked.machine).warning("bootstrap_refused", error=error.message)
            raise
        self._count(Name.ASK, life)
        self._hurry.set()
        return self._tools.blob(life["node_id"]).written()

    async def reclaim(self, told: ReclaimTold) -> int:
        """Nodes will be drained: they are closed before this is answered."""
        begun, drain = 0, self._drains.told(told)  # the loop may be quicker than we are
        for machine in told.nodes:
            for life in await self._lives(machine):
                if self._drains.of(machine) is drain:  # else this is its next life already
                    await self._take(Name.CLOSE, life, self._told(drain))
                    begun += 1
        self._hurry.set()
        return begun

    async def node_state(self, state: NodeState) -> None:
        """A machine stands so."""
        self._hearing.hear(state)
        self._drains.heard(state)
        self._hurry.set()

    async def hint(self, hint: CapacityHint) -> None:
        """What else could be had changes nothing: what is needed is asked for anyway."""

    async def run(self, client: SessionClient) -> NoReturn:
        """Look again and again; a look that fails is repeated."""
        while True:
            self._hurry.clear()
            try:
                client.set_needs(await self.look())
                self._metrics.ok.set(1)
            except MainstayError as error:
                self._metrics.ok.set(0)
                logger().warning("look_failed", error=error.message)
            self._metrics.connected.set(client.facts().connected)
            try:
                async with asyncio.timeout(self._options.every_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    async def look(self) -> tuple[Need, ...]:
        """Take every step that is due; what is needed then.

        A life or a request that cannot be dealt with stays as it is, and keeps none of the others.
        """
        await rows.beat(self._tools.pool, self._tools.cluster)
        self._hearing.session_s()
        failing: dict[str, Exception] = {}
        for life in await self._lives():
            try:
                await self._live(life)
            except Unavailable:  # the database, and so for all of them
                raise
            except (MainstayError, psycopg.Error) as error:
                failing[life["node_id"]] = error
        failing |= await capacity.place_due(self._tools.pool, self._tools.ids)
        self._note(failing)
        async with transaction(self._tools.pool) as tx:
            kinds = [self._kind(row) for row in await wanted_rows.kinds(tx)]
            lives = await rows.lives(tx, self._tools.cluster)
            waiting = await wanted_rows.waiting(tx)
        self._stand(lives)
        self._hearing.tidy()
        self._drains.tidy({life["machine"] for life in lives})
        standing = self._standing(kinds, lives)
        asked = needs(ClusterId(self._tools.cluster), kinds, standing, waiting)
        self._measure(lives, standing, asked)
        self._metrics.waiting.set(len(waiting))
        return asked

    async def _live(self, life: Row) -> None:
        """Every step of one life that is due now."""
        for _ in range(STEPS_MAX):
            known = self._known(life)
            name = due(known, self._options.patience)
            if name is None:
                return
            await self._take(name, life, self._why(name, life, known))
            again = await self._lives(life["machine"])
            if not again or again[0]["node_id"] != life["node_id"]:
                return
            life = again[0]

    async def _take(self, name: Name, life: Row, told: Told) -> None:
        await self._options.acts.does[name](self._tools, life, told)
        self._count(name, life, told.reason)

    async def _lives(self, machine: str | None = None) -> list[Row]:
        async with transaction(self._tools.pool) as tx:
            return await rows.lives(tx, self._tools.cluster, machine)

    def _known(self, life: Row) -> Known:
        return Known(
            life=Life(life["state"]),
            asked_s=life["asked_s"],
            heard=self._hearing.state_of(life["machine"]),
            session_s=self._hearing.session_s(),
            is_gone=life["gone_at"] is not None,
            agent_speaks=life["node_status"] == "active",
            silent_s=life["silent_s"],
            untold=life["untold"],
            to_release=life["to_release"],
            held=life["held"],
            release_in_s=life["release_in_s"],
        )

    def _why(self, name: Name, life: Row, known: Known) -> Told:
        """The reason for closing, when the shard did not give one."""
        if name is Name.GIVE_UP:
            return Told("no agent has enrolled in time")
        if name is not Name.CLOSE:
            return Told(life["reason"])
        if (drain := self._drains.of(life["machine"])) is not None:
            return self._told(drain)
        state = self._hearing.of(life["machine"])
        if known.heard is State.FAILED and state is not None:
            return Told(f"the machine has failed: {state.last_error or 'no reason given'}"[:400])
        if is_gone(known, self._options.patience):
            return Told("the machine is gone")
        return Told("the shard drains the machine and does not say for whom")

    def _told(self, drain: Drain) -> Told:
        return drain.told(self._hearing.clock.elapsed_s(), self._tools.cleanup_s)

    def _kind(self, row: Row) -> Kind:
        room = self._options.head_room.get(row["kind"], row["head_room"])
        return wanted_rows.kind_of({**row, "head_room": room})

    def _standing(self, kinds: list[Kind], lives: list[Row]) -> list[Standing]:
        """Lives that are not leaving, and machines that serve us and have none."""
        known = {life["machine"] for life in lives}
        found = [
            self._machine(life["machine"], life["kind"], life["priority"])
            for life in lives
            if life["state"] in {Life.JOINING, Life.OPEN}
        ]
        others = [each for each in self._hearing.configured() if each.machine not in known]
        found += [
            self._machine(state.machine, kind.name, None, usable=False)
            for state in others
            if (kind := _kind_like(kinds, state)) is not None
        ]
        return found

    def _machine(
        self, machine: str, kind: str, priority: int | None, *, usable: bool = True
    ) -> Standing:
        heard = self._hearing.of(machine)
        return Standing(
            machine=machine,
            kind=kind,
            priority=priority,
            usable=usable,
            price_per_hour=None if heard is None else heard.price_per_hour,
            reclamation_penalty_dollars=0.0 if heard is None else heard.reclamation_penalty_dollars,
        )

    def _stand(self, lives: list[Row]) -> None:
        heard = {life["node_id"]: self._hearing.state_of(life["machine"]) for life in lives}
        settled = self._hearing.session_s() > self._options.patience.settle_s
        unsaid = {node for node, state in heard.items() if state is None and not settled}
        on = {
            node: self._tools.blob(node).written() for node, state in heard.items() if state in ON
        }
        self._machines.stand(on, unsaid)

    def _measure(self, lives: list[Row], standing: list[Standing], asked: tuple[Need, ...]) -> None:
        states = Counter(life["state"] for life in lives)
        for state in Life:
            if state is not Life.RETIRED:
                self._metrics.nodes.labels(state=str(state)).set(states[state])
        self._metrics.unused.set(sum(not each.usable for each in standing))
        machines: Counter[str] = Counter()
        for need in asked:
            (dimension,) = need.min_unit
            name = "/".join(need.profile.pinned_types)
            machines[name] += need.aggregate[dimension] // need.min_unit[dimension]
        for name, count in machines.items():
            self._metrics.asked.labels(kind=name).set(count)
        if asked != self._asked:
            self._asked = asked
            logger().info("demand", machines=dict(machines), rows=len(asked))

    def _note(self, failing: Mapping[str, Exception]) -> None:
        """Said when it is new, since it comes again with every look."""
        told = {what: consume.told(error) for what, error in failing.items()}
        for what, why in told.items() - self._failing.items():
            logger().warning("left_as_it_is", about=what, error=why)
        for what in self._failing.keys() - told.keys():
            logger().info("went_on", about=what)
        self._failing = told
        self._metrics.failing.set(len(told))

    def _count(self, name: Name, life: Row, reason: str = "") -> None:
        self._metrics.steps.labels(step=str(name)).inc()
        about = {"machine": life["machine"], "node": life["node_id"], "reason": reason}
        logger().info("step", step=str(name), to=str(BY_NAME[name].new), **about)


def _kind_like(kinds: list[Kind], state: NodeState) -> Kind | None:
    """The kind that such a machine would become."""
    labels = state.labels
    return next(
        (
            kind
            for kind in kinds
            if labels.get(INSTANCE_TYPE_KEY) in kind.instance_types
            and (not kind.zones or labels.get(ZONE_KEY) in kind.zones)
        ),
        None,
    )
