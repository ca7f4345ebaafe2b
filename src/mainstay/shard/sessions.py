"""The clusters that are connected, one session each, and everything that is said to and by them.

No transport is known: `mainstay.wire.session_server` drives a `Session` from a stream. All of it
lives on the event loop and nothing waits for a cluster but who asks it for a bootstrap. A roll-up
is read and judged beside the loop, one at a time of each cluster, the newest only.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol, assert_never

from mainstay.engine.hints import Hint
from mainstay.model.calls import BLOB_BYTES_MAX
from mainstay.model.errors import InvalidRollup, Rejected, Unavailable
from mainstay.model.frames import (
    Acknowledged,
    BootstrapAnswer,
    BootstrapAsked,
    ClusterFrame,
    Hello,
    NodeState,
    ReclaimAck,
    ReclaimTold,
)
from mainstay.model.ids import ClusterId, parse_cluster_id
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Requirement
from mainstay.model.rollup import accept
from mainstay.model.state import State
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.demand import Applied, Standing, Verdict
from mainstay.shard.events import Event
from mainstay.shard.facts import SessionFacts
from mainstay.shard.ports import Journal
from mainstay.shard.talk.drains import Drains
from mainstay.shard.talk.hints import HINT_INTERVAL_S, HintMemory
from mainstay.shard.talk.node_states import node_state
from mainstay.shard.talk.outbox import Outbox
from mainstay.shard.talk.session import Session
from mainstay.wire.session_frames import rollup_of

__all__ = ["NoSession", "Rollups", "Session", "SessionOptions", "SessionTools", "Sessions"]


class NoSession(Unavailable):
    """The cluster is not connected, so nobody was asked."""

    code = "no_session"
    what_to_do = "wait until the cluster has connected"


class Rollups(Protocol):
    """Whoever keeps the demand."""

    def standing(self, cluster: ClusterId) -> Standing:
        """What a roll-up of a cluster is judged by."""

    def take(self, verdict: Verdict) -> Applied | None:
        """A cluster asks for this and nothing else. None: it has to be judged anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How patient a shard is with its clusters."""

    epoch: int = 0
    """Of this shard; clusters only log it."""

    hint_interval_s: float = HINT_INTERVAL_S
    slow_reader_s: float = 30.0
    """A cluster that does not read a frame for so long is cut off."""

    frames_max: int = 50_000
    """So many frames may wait for one cluster; with more it is cut off."""

    readers: int = 2
    """So many roll-ups are read at a time, so that a decision finds a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTools:
    """What sessions are given from outside."""

    rollups: Rollups
    journal: Journal
    clock: Clock
    aside: Aside
    random: Random
    """For the names of requests: one that nobody can foresee."""

    machines_of: Callable[[ClusterId], Iterable[Machine]]
    """The machines bound to a cluster. They are fetched one by one while other things happen."""

    on_demand: Callable[[], None]
    """There is new demand."""

    on_opened: Callable[[ClusterId], None] = lambda _: None
    """A cluster has connected, whatever became of an earlier session."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """A bootstrap that somebody waits for."""

    frame: BootstrapAsked
    answer: "asyncio.Future[bytes]"


class Sessions:
    """Implements `mainstay.shard.ports.Clusters` and `mainstay.wire.session_server.SessionHost`."""

    def __init__(self, tools: SessionTools, options: SessionOptions | None = None) -> None:
        self.options = options or SessionOptions()
        self._tools = tools
        self._hints = HintMemory(interval_s=self.options.hint_interval_s)
        self._drains = Drains(tools.clock)
        self._sessions: dict[ClusterId, Session] = {}
        self._asks: dict[str, _Ask] = {}
        self._readers = asyncio.Semaphore(self.options.readers)

    async def bootstrap(
        self,
        cluster: ClusterId,
        requirements: Sequence[Requirement],
        *,
        timeout_s: float,
        machine: str = "",
    ) -> bytes:
        """What makes a machine join. A cluster that connects again meanwhile is asked again."""
        session = self._sessions.get(cluster)
        if session is None:
            raise NoSession(f"cluster is not connected: {cluster}")
        frame = BootstrapAsked(self._new_name(), cluster, tuple(requirements), machine)
        ask = _Ask(frame, asyncio.get_running_loop().create_future())
        self._asks[frame.request] = ask
        session.say(frame)
        try:
            async with asyncio.timeout(timeout_s):
                return await ask.answer
        except TimeoutError as error:
            raise Unavailable(f"no bootstrap from {cluster} in {timeout_s:g} s") from error
        finally:
            del self._asks[frame.request]
            if cluster in self._sessions:
                self._sessions[cluster].outbox.withdraw(frame)

    def reclaim(
        self,
        machine: Machine,
        *,
        grace_s: int,
        unheard_grace_s: int,
        preemptor_priority: int | None,
    ) -> bool:
        """Tell the machine's cluster that it will be drained; whether anybody is there to hear.

        Whoever connects later, or has not done what was said, is told with the machine's state.
        """
        session = self._sessions.get(machine.cluster) if machine.cluster else None
        told = ReclaimTold(self._new_name(), (machine.id,), grace_s, preemptor_priority or 0)
        heard = session is not None and session.say(told)
        self._drains.begin(
            machine.id,
            grace_s=grace_s if heard else unheard_grace_s,
            preemptor_priority=preemptor_priority,
        )
        return heard

    def tell(self, cluster: ClusterId, machine: Machine) -> None:
        """Tell a cluster how a machine stands that is or was its own; lost if nobody is there."""
        self._drains.seen(machine)
        session = self._sessions.get(cluster)
        if session is not None and machine.state is not State.DELETING:  # operators misread it
            session.say(node_state(cluster, machine, self._drains.of(machine)))

    def replay(self, cluster: ClusterId) -> None:
        """Tell a cluster again how all its machines stand."""
        if session := self._sessions.get(cluster):
            session.outbox.replay(self._states(cluster))

    def publish(self, hints: Sequence[Hint]) -> None:
        """Say what else could be had, where that is news."""
        now_s = self._tools.clock.elapsed_s()
        for cluster, frame in self._hints.due(hints, self._sessions, now_s=now_s):
            if session := self._sessions.get(cluster):
                session.say(frame)

    def refused(self, cluster: str, why: str) -> None:
        """Somebody without the right certificate wanted to be this cluster."""
        self._tools.journal.noticed(Event.SESSION_REFUSED, cluster=cluster[:80], why=why)

    def opened(self, hello: Hello) -> Session:
        """A cluster is there. An older session of it is over; what it was asked is asked here."""
        cluster = parse_cluster_id(hello.cluster)
        if older := self._sessions.get(cluster):
            older.end(Unavailable(f"cluster {cluster} has connected again: this session is over"))
            self._tools.journal.noticed(Event.SESSION_REPLACED, cluster=cluster)
        outbox = Outbox(frames_max=self.options.frames_max, replay=self._states(cluster))
        session = Session(
            hello,
            outbox,
            self,
            since_s=self._tools.clock.now_s(),
            slow_reader_s=self.options.slow_reader_s,
        )
        self._sessions[cluster] = session
        self._hints.forget(cluster)
        self._acknowledge(session, "hello")
        for ask in self._asks_of(cluster):
            session.say(ask.frame)
        version = hello.protocol_version[:80]
        self._tools.journal.noticed(Event.SESSION_OPENED, cluster=cluster, protocol=version)
        self._tools.on_opened(cluster)
        return session

    def heard(self, session: Session, frame: ClusterFrame) -> None:
        """Route one frame. Nothing here takes time."""
        match frame:
            case Hello():
                if frame.cluster != session.cluster:
                    raise Rejected(f"this is the session of cluster {session.cluster}: end it")
                self._acknowledge(session, "hello")
            case BootstrapAnswer():
                self._answered(session, frame)
            case ReclaimAck():
                pass  # the drain goes on with it or without
            case _:
                assert_never(frame)

    def ignored(self, session: Session, why: str) -> None:
        """A frame that means nothing to us; the session goes on."""
        self._tools.journal.noticed(Event.FRAME_IGNORED, reason=why, cluster=session.cluster)

    async def read_rollups(self, session: Session) -> None:
        """The lane of one session's roll-ups: one after the other, the newest only."""
        while True:
            await session.rollup.wait()
            async with self._readers:
                frame = session.rollup.take()
                try:
                    await self._roll_up(session, frame)
                except Rejected as error:
                    event, why = Event.ROLLUP_REFUSED, error.message
                    self._tools.journal.noticed(event, cluster=session.cluster, why=why)

    def cut(self, session: Session, reason: str, why: str) -> None:
        """End a session whose cluster does not read."""
        if self._is_current(session):
            event, cluster = Event.SESSION_CUT, session.cluster
            self._tools.journal.noticed(event, reason=reason, cluster=cluster, why=why)
        session.end(Unavailable(f"cut off: {why}"))
        self.closed(session)

    def closed(self, session: Session) -> None:
        """A stream is gone. A successor of the same cluster is left alone."""
        session.end(Unavailable("the stream is gone"))
        if self._is_current(session):
            del self._sessions[session.cluster]
            self._hints.forget(session.cluster)
            self._tools.journal.noticed(Event.SESSION_CLOSED, cluster=session.cluster)

    def hang_up(self, why: str) -> None:
        """End every session: the process stops, and clusters should look for it elsewhere."""
        for session in tuple(self._sessions.values()):
            session.end(Unavailable(why))

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, cluster: ClusterId) -> bool:
        return cluster in self._sessions

    def connected(self) -> frozenset[ClusterId]:
        """The names of the clusters that are connected, and nothing else of them."""
        return frozenset(self._sessions)

    def facts(self) -> tuple[SessionFacts, ...]:
        """Every connected cluster, in order of their ids."""
        pending = Counter(ask.frame.cluster for ask in self._asks.values())
        return tuple(
            SessionFacts(
                cluster=cluster,
                since_s=session.since_s,
                protocol_version=session.hello.protocol_version,
                rollups=session.rollups,
                waiting_frames=len(session.outbox),
                bootstraps_pending=pending[cluster],
            )
            for cluster, session in sorted(self._sessions.items())
        )

    def _is_current(self, session: Session) -> bool:
        return self._sessions.get(session.cluster) is session

    def _acknowledge(self, session: Session, echo: str) -> None:
        session.say(Acknowledged(echo, shard_epoch=self.options.epoch))

    def _new_name(self) -> str:
        return f"{self._tools.random.getrandbits(64):016x}"

    def _asks_of(self, cluster: ClusterId) -> list[_Ask]:
        return [ask for ask in self._asks.values() if ask.frame.cluster == cluster]

    def _states(self, cluster: ClusterId) -> Iterator[NodeState]:
        """Of all its machines; they are looked for when the first is to be said, not before."""
        for machine in self._tools.machines_of(cluster):
            yield node_state(cluster, machine, self._drains.of(machine))

    def _answered(self, session: Session, frame: BootstrapAnswer) -> None:
        ask = self._asks.get(frame.request)
        if ask is None or ask.frame.cluster != session.cluster or ask.answer.done():
            self.ignored(session, "late")
        elif frame.error:
            ask.answer.set_exception(Rejected(f"cluster {session.cluster}: {frame.error}"))
        elif len(frame.blob) > BLOB_BYTES_MAX:
            size = f"{len(frame.blob)} bytes (at most {BLOB_BYTES_MAX})"
            ask.answer.set_exception(Rejected(f"bootstrap of {session.cluster} too large: {size}"))
        else:
            ask.answer.set_result(frame.blob)

    async def _roll_up(self, session: Session, frame: bytes) -> None:
        rollups, applied = self._tools.rollups, None
        while applied is None:
            judging = partial(_judged, rollups.standing(session.cluster), frame)
            verdict = await self._tools.aside(judging)
            if not self._is_current(session):
                return  # its successor knows better
            applied = rollups.take(verdict)
        session.rollups += 1
        self._acknowledge(session, "rollup")
        if applied is Applied.ACCEPTED:
            self._tools.on_demand()


def _judged(standing: Standing, frame: bytes) -> Verdict:
    """What to do with a roll-up. One that is repeated byte for byte is not even read."""
    digest = hashlib.blake2b(frame).digest()
    if digest == standing.believed.digest:
        return standing.again()
    return standing.verdict(_accepted(standing.cluster, frame), digest)


def _accepted(cluster: ClusterId, frame: bytes) -> tuple[Need, ...]:
    """The demand that a roll-up states; refused whole when any of it is wrong."""
    rollup = rollup_of(frame)
    if rollup.cluster not in {"", cluster}:
        whose = ascii(rollup.cluster[:80])
        raise InvalidRollup(f"roll-up of cluster {cluster} refused: it names cluster {whose}")
    return accept(cluster, rollup.rows, arrival_nanos=rollup.timestamp_nanos)
