"""A shard put together from its settings: the only place where its parts meet.

Links, data directory, clock, randomness and what runs beside the loop come from outside, so that a
test puts the same shard together around other ones.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from mainstay.config.shard import ShardConfig
from mainstay.inventory.inventory import Inventory
from mainstay.model.charges import Meter
from mainstay.model.ids import ClusterId, ShardId
from mainstay.model.machine import Machine
from mainstay.processes.shard_settings import (
    absence_options,
    breaker_options,
    call_options,
    feed_options,
    fixed,
    overdue_options,
    policy_of,
    quarantine_rule,
    shard_options,
)
from mainstay.processes.shard_timed import TimedClusters
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.shard.answers.live import LiveShard
from mainstay.shard.controls import Controls
from mainstay.shard.datadir import DataDir
from mainstay.shard.demand import DemandBook
from mainstay.shard.executor import Executor, ExecutorOptions
from mainstay.shard.facts import Published
from mainstay.shard.hands.acting import Acting
from mainstay.shard.hands.backoff import BackOff
from mainstay.shard.hands.breaker import Breakers
from mainstay.shard.hands.calling import Caller, FenceCounter
from mainstay.shard.hands.overdue import Overdue
from mainstay.shard.hands.tools import Tools
from mainstay.shard.hands.unanswered import Unanswered
from mainstay.shard.journal import ShardJournal
from mainstay.shard.latency import Latency, StepTimes
from mainstay.shard.ledger import Ledger
from mainstay.shard.lists.awaited import Awaited, EverListed
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.intake import IntakeOptions
from mainstay.shard.lists.interruptions import Interruptions
from mainstay.shard.lists.telling import Books
from mainstay.shard.metrics import ShardMetrics, Standing
from mainstay.shard.money.metering import Money, MoneyTools
from mainstay.shard.moves import Moves
from mainstay.shard.ownership.holder import Holder
from mainstay.shard.ownership.holdings import Holdings
from mainstay.shard.ownership.keeping import OwnershipTools
from mainstay.shard.ownership.owned import configured
from mainstay.shard.ownership.quota import HeldQuota
from mainstay.shard.parts import Parts
from mainstay.shard.ports import Link
from mainstay.shard.rails import stance_of
from mainstay.shard.reconcile import ReconcileOptions, Reconciler
from mainstay.shard.restrictions import Stance
from mainstay.shard.sessions import SessionOptions, Sessions, SessionTools
from mainstay.shard.shard import Shard
from mainstay.shard.steady import SteadyClock
from mainstay.shard.talk.machines import machines_of
from mainstay.shard.thought import Cycled

__all__ = ["Assembled", "Beside", "Surroundings", "assembled", "policy_of"]

Beside = Callable[[], Coroutine[Any, Any, None]]
"""Runs until it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a shard is given from outside."""

    links: Mapping[str, Link]
    """By the name of the provider."""

    data: DataDir
    journal: ShardJournal
    metrics: ShardMetrics
    clock: Clock
    random: Random
    aside: Aside
    meters: Mapping[str, Meter] = field(default_factory=dict)
    """Providers that tell when they charge, by name."""

    beside: tuple[Beside, ...] = ()
    """What else runs as long as the shard does."""

    seen: Callable[[Cycled], None] = lambda _: None
    """Sees every cycle."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A shard, ready to run."""

    shard: Shard
    sessions: Sessions
    live: LiveShard
    holder: Holder
    """Who owns which machines; nobody asks it anything where there is no coordinator."""

    quota: HeldQuota
    money: Money


def assembled(config: ShardConfig, around: Surroundings) -> Assembled:
    """The shard of a configuration, in its surroundings. Nothing runs yet."""
    return _Assembly(config, around).assembled()


class _Assembly:
    """The parts that nearly all others need, made first."""

    def __init__(self, config: ShardConfig, around: Surroundings) -> None:
        self._config, self._around = config, around
        self._inventory = Inventory()
        self._ledger = Ledger(around.clock)
        self._acting = Acting()
        self._backoff = BackOff(around.clock)
        data, clock, journal = around.data, around.clock, around.journal
        self._notices = Interruptions(journal)
        self._breakers = Breakers(clock, journal, breaker_options(config), self._notices)
        self._demand = DemandBook(
            around.clock, around.journal, quarantine_rule(config), latency=Latency(around.clock)
        )
        self._sessions = Sessions(
            SessionTools(
                rollups=self._demand,
                journal=around.journal,
                clock=around.clock,
                aside=around.aside,
                random=around.random,
                machines_of=partial(machines_of, self._inventory),
                on_demand=self._demanded,
                on_opened=self._opened,
            ),
            SessionOptions(
                epoch=around.data.epoch,
                hint_interval_s=config.hint_interval_s,
                slow_reader_s=config.slow_reader_s,
            ),
        )
        self._steady = SteadyClock(around.clock)
        self._moves = Moves(self._inventory, self._ledger, self._sessions, self._steady)
        self._ever_listed = EverListed(
            around.links,
            data.listed,
            is_new=data.epoch == 1,
            journal=journal,
            aside=around.aside,
            on_kept=self._wake,
        )
        self._awaited = Awaited(
            self._ever_listed, wait_s=config.first_list_wait_s, clock=clock, journal=journal
        )
        owned = configured(data.owned.value, config.first_domains, keeps=bool(config.coordinators))
        self._holdings = Holdings(owned)
        self._controls = Controls(clock, journal, data.controls, fixed(config), aside=around.aside)
        self._shard: Shard | None = None
        self._steps = StepTimes()
        self._money = Money(
            MoneyTools(
                meters=around.meters,
                safe=around.data.money,
                published=self._published,
                journal=around.journal,
                clock=around.clock,
                aside=around.aside,
                sources=frozenset(around.links),
                shown=around.metrics.observe_money,
            )
        )

    def assembled(self) -> Assembled:
        """Everything, connected."""
        config, around = self._config, self._around
        reconciler = self._reconciler()
        tools = self._tools(reconciler)
        sources = tuple(around.links)
        options = ExecutorOptions(workers=config.workers, deadline_s=config.action_deadline_s)
        executor = Executor(tools, sources, options, on_room=self._wake)
        quota = self._quota(reconciler)
        holder = self._holder(reconciler, executor, quota)
        parts = Parts(
            inventory=self._inventory,
            reconciler=reconciler,
            awaited=self._awaited,
            demand=self._demand,
            controls=self._controls,
            acting=self._acting,
            backoff=self._backoff,
            breakers=self._breakers,
            unanswered=tools.unanswered,
            overdue=Overdue(tools, sources, overdue_options(config)),
            executor=executor,
            publish=self._sessions.publish,
            quota=quota.held,
            journal=around.journal,
            clock=around.clock,
            steady=self._steady,
            aside=around.aside,
            leaving=holder.barred,
        )
        shard = Shard(
            parts,
            shard_options(config),
            beside=(*around.beside, self._money.run, self._controls.run, self._ever_listed.run),
            observe=self._observe(parts),
        )
        self._shard = shard
        live = LiveShard(
            shard_id=config.shard_id,
            epoch=around.data.epoch,
            shard=shard,
            inventory=self._inventory,
            ledger=self._ledger,
            reconciler=reconciler,
            sessions_=self._sessions,
            demand=self._demand,
            controls_=self._controls,
            acting=self._acting,
            executor=executor,
            journal=around.journal,
            clock=around.clock,
            steady=self._steady,
            money_=self._money,
            steps=self._steps,
            backoff=self._backoff,
            breakers=self._breakers,
            unanswered=tools.unanswered,
            cycle_s=config.cycle_interval_s,
            stance=fixed(config).shard,
        )
        return Assembled(shard, self._sessions, live, holder, quota, self._money)

    def _holder(self, reconciler: Reconciler, executor: Executor, quota: HeldQuota) -> Holder:
        around = self._around
        return Holder(
            OwnershipTools(
                shard=ShardId(self._config.shard_id),
                holdings=self._holdings,
                kept=around.data.owned,
                quota=quota,
                inventory=self._inventory,
                ledger=self._ledger,
                reconciler=reconciler,
                executor=executor,
                journal=around.journal,
                clock=around.clock,
                aside=around.aside,
                published=self._published,
                wake=self._wake,
                sources=frozenset(around.links),
            )
        )

    def _quota(self, reconciler: Reconciler) -> HeldQuota:
        return HeldQuota(
            self._around.data.quota,
            snapshot=self._inventory.snapshot,
            published=self._published,
            knows_all=lambda: reconciler.heard.knows_all and not reconciler.heard.unreachable,
            journal=self._around.journal,
            aside=self._around.aside,
        )

    def _tools(self, reconciler: Reconciler) -> Tools:
        config, around = self._config, self._around
        fences = FenceCounter(config.shard_id, around.data.epoch)
        listed_at_s = reconciler.heard.answered_at_s
        unanswered = Unanswered(around.clock, around.journal, listed_at_s, on_change=self._wake)
        callers = {
            name: Caller(
                source=name,
                link=link,
                fences=fences,
                acting=self._acting,
                journal=around.journal,
                clock=around.clock,
                random=around.random,
                unanswered=unanswered,
                options=call_options(config),
            )
            for name, link in around.links.items()
        }
        return Tools(
            inventory=self._inventory,
            ledger=self._ledger,
            moves=self._moves,
            clusters=TimedClusters(self._sessions, around.metrics, around.clock),
            callers=callers,
            journal=around.journal,
            failures=self._breakers,
            clock=around.clock,
            backoff=self._backoff,
            acting=self._acting,
            unanswered=unanswered,
            configured=self._configured,
            sold_out=self._breakers.sold_out,
            stance=lambda order: stance_of(order, self._controls.restrictions()),
            is_kept=self._ever_listed.is_kept,
            owe=reconciler.owe,
            default_grace_s=config.default_grace_s,
        )

    def _reconciler(self) -> Reconciler:
        config, around = self._config, self._around
        options = feed_options(config)
        feeds = [
            Feed(name, link, around.clock, options, journal=around.journal)
            for name, link in around.links.items()
        ]
        books = Books(
            inventory=self._inventory,
            ledger=self._ledger,
            moves=self._moves,
            journal=around.journal,
            failures=self._breakers,
            clock=self._steady,
            configured=self._configured,
            tell_all=self._sessions.replay,
            listed=self._awaited.listed,
        )
        absence = absence_options(config)
        return Reconciler(
            books,
            feeds,
            holdings=self._holdings,
            options=ReconcileOptions(intake=IntakeOptions(absence=absence)),
            notices=self._notices,
        )

    def _configured(self, machine: Machine) -> None:
        """Somebody has waited for this."""
        fingerprint = machine.assignment.fingerprint
        if machine.cluster and fingerprint:
            seconds = self._demand.latency.configured(machine.cluster, fingerprint)
            if seconds is not None:
                self._around.metrics.provisioned(seconds)

    def _observe(self, parts: Parts) -> Callable[[Cycled, float | None], None]:
        metrics, data = self._around.metrics, self._around.data

        def observe(cycled: Cycled, waited_s: float | None) -> None:
            seconds = cycled.published.seconds
            metrics.observe_cycle(sum(seconds.values()), seconds)
            if waited_s is not None:
                metrics.decided_after(waited_s)
            metrics.observe_figures(cycled.thought.figures)
            restrictions = cycled.thought.given.restrictions
            metrics.observe_standing(
                Standing(
                    sessions=len(self._sessions),
                    quarantined=len(self._demand.held),
                    breakers_open=len(self._breakers.open_until_s),
                    paused=restrictions.shard is Stance.PAUSE,
                    shadowing=restrictions.shard is Stance.SHADOW,
                    acting=not self._acting.why,
                    ready=parts.reconciler.heard.ready,
                    unlisted=len(self._awaited.names()),
                    stopped_providers=len(self._acting.providers),
                    epoch=data.epoch,
                    queue_depth=parts.executor.depth,
                    in_flight=parts.executor.in_flight,
                    providers=parts.unanswered.marked(parts.reconciler.heard.facts()),
                )
            )
            self._around.journal.observe()
            self._steps.follow(cycled.published.plan.snapshot, self._around.clock.elapsed_s())
            if parts.reconciler.heard.ready and not self._awaited.names():
                self._money.cycled()  # before, machines are missing that are paid for
            self._around.seen(cycled)

        return observe

    def _published(self) -> Published | None:
        return None if self._shard is None else self._shard.published

    def _opened(self, cluster: ClusterId) -> None:
        """Whoever could not be asked can be now."""
        if self._backoff.connected(cluster):
            self._wake()

    def _demanded(self) -> None:
        if self._shard is not None:
            self._shard.demanded()

    def _wake(self) -> None:
        if self._shard is not None:
            self._shard.wake()
