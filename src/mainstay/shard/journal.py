"""Where everything is told: each thing goes to metrics, the log and the audit log as it must.

Lives on the event loop, and nothing here waits.
"""

import dataclasses
import heapq
import itertools
import logging
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from mainstay.engine.policy import Policy
from mainstay.model.action import ActionKind
from mainstay.runtime.clock import Clock
from mainstay.shard.admitted import HeldAs
from mainstay.shard.audit.log import Content
from mainstay.shard.events import EVENTS, Event, Level
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.orders import Disposed, Told
from mainstay.shard.outcomes import BENIGN, Disposition

KEPT: Final = 1_000
"""So many records of each are kept for whoever asks: of what was executed, and of what was not."""

LINES_MAX: Final = 20
"""Most log lines about one event in LINES_WINDOW_S; the rest is told as a number."""

LINES_WINDOW_S: Final = 10.0

_LOG_LEVELS: Final = {
    Level.DEBUG: logging.DEBUG,
    Level.INFO: logging.INFO,
    Level.WARNING: logging.WARNING,
    Level.ERROR: logging.ERROR,
}


class Lines(Protocol):
    """The audit log, as a journal sees it."""

    lost: int
    written: int

    def __len__(self) -> int: ...

    def append(self, content: Content) -> None:
        """Have a line written soon. Never waits."""


class ShardJournal:
    """The journal of a running shard."""

    def __init__(
        self,
        metrics: ShardMetrics,
        audit: Lines | None,
        log: FilteringBoundLogger,
        clock: Clock,
        policy: Policy,
    ) -> None:
        self._metrics, self._audit, self._clock = metrics, audit, clock
        self._quiet_log = _QuietLog(log, clock)
        self._policy = dataclasses.asdict(policy)
        self._held = _Held()
        self._counted: Mapping[HeldAs, int] = {}
        self._numbers = itertools.count()
        self._executed: deque[tuple[int, Told]] = deque(maxlen=KEPT)
        self._not_executed: deque[tuple[int, Told]] = deque(maxlen=KEPT)

    def disposed(self, records: Iterable[Disposed]) -> None:
        """What became of orders."""
        now, counts = self._clock.now_s(), Counter[tuple[ActionKind, Disposition]]()
        for record in records:
            kind = record.order.action.kind
            counts[kind, record.disposition] += 1
            if record.outcome is not None:
                self._metrics.executed(kind, record.outcome, record.seconds)
            if not self._held.is_repeated(record):
                self._write_down(now, record)
        for (kind, disposition), count in counts.items():
            self._metrics.disposed(kind, disposition, count)

    def counted(self, counts: Mapping[HeldAs, int], *, cycle: int) -> None:
        """So many more orders were held back that are not told one by one; said in every cycle."""
        now, before, self._counted = self._clock.now_s(), self._counted, dict(counts)
        for held, count in counts.items():
            self._metrics.disposed(held.kind, held.disposition, count)
            if self._audit is not None and before.get(held) != count:
                self._audit.append(partial(_counted_content, now, cycle, held, count))

    def noticed(self, event: Event, *, reason: str = "", **facts: object) -> None:
        """Something of the table happened."""
        rule = EVENTS[event]
        count = facts.get("count", 1)
        self._metrics.happened(event, reason, count if isinstance(count, int) else 1)
        said = {"reason": reason, **facts} if reason else facts
        self._quiet_log.say(_LOG_LEVELS[rule.level], event.value, said)
        if rule.audited and self._audit is not None:
            self._audit.append(partial(_event_content, self._clock.now_s(), event, said))

    def recent(self) -> Sequence[Told]:
        """The last records, oldest first; an order that is held again and again is there once."""
        return tuple(told for _, told in heapq.merge(self._executed, self._not_executed))

    def executed(self) -> Sequence[Told]:
        """The last that were executed, oldest first."""
        return tuple(told for _, told in self._executed)

    def observe(self) -> None:
        """Show how the audit log stands."""
        if self._audit is not None:
            audit = self._audit
            self._metrics.observe_audit(waiting=len(audit), written=audit.written, lost=audit.lost)

    def _write_down(self, now: float, record: Disposed) -> None:
        is_executed = record.disposition is Disposition.EXECUTED
        kept = self._executed if is_executed else self._not_executed
        kept.append((next(self._numbers), Told(now, record)))
        if self._audit is not None:
            self._audit.append(partial(action_content, now, record, self._policy))
        if record.outcome is not None and record.outcome not in BENIGN:
            facts = action_content(now, record, {})
            del facts["at"], facts["what"], facts["policy"]
            self._quiet_log.say(logging.WARNING, "action_ended", facts)


def action_content(
    at_s: float, record: Disposed, policy: Mapping[str, object]
) -> dict[str, object]:
    """The line about one disposition."""
    order, action = record.order, record.order.action
    return {
        "at": round(at_s, 3),
        "what": "action",
        "kind": action.kind.value,
        "machine": action.machine,
        "cluster": action.cluster,
        "provider": order.source,
        "disposition": record.disposition.value,
        "reason": record.reason,
        "outcome": None if record.outcome is None else record.outcome.value,
        "decided_in": order.cycle,
        "ended_in": record.cycle,
        "need": _need_content(record),
        "grace_s": action.grace_s,
        "price_per_hour": order.price_per_hour,
        **_money_content(record),
        "seconds": round(record.seconds, 3),
        "detail": record.detail,
        "policy": policy,
    }


def _need_content(record: Disposed) -> dict[str, object] | None:
    order = record.order
    ref = order.action.need or (order.need.ref if order.need is not None else None)
    if ref is None:
        return None
    named: dict[str, object] = {
        "cluster": ref.cluster,
        "fingerprint": ref.fingerprint,
        "group": ref.group,
    }
    if order.need is not None:
        named["priority"] = order.need.profile.priority
    return named


def _money_content(record: Disposed) -> dict[str, object]:
    """What a drain saves and puts at risk; of anything else nothing is said."""
    order = record.order
    if order.action.kind not in {ActionKind.PREEMPT, ActionKind.RECLAIM}:
        return {}
    risk = order.at_risk_dollars
    return {
        "saved_per_hour": order.saved_per_hour,
        "at_risk_dollars": risk if math.isfinite(risk) else "pinned",
    }


def _event_content(at_s: float, event: Event, facts: Mapping[str, object]) -> dict[str, object]:
    return {"at": round(at_s, 3), "what": "event", "event": event.value, "facts": facts}


def _counted_content(at_s: float, cycle: int, held: HeldAs, count: int) -> dict[str, object]:
    return {
        "at": round(at_s, 3),
        "what": "counted",
        "kind": held.kind.value,
        "disposition": held.disposition.value,
        "reason": held.reason,
        "decided_in": cycle,
        "actions": count,
    }


class _Held:
    """What was held in this cycle and the one before: the same again is nothing new."""

    def __init__(self) -> None:
        self._cycle = 0
        self._now: dict[str, object] = {}
        self._before: dict[str, object] = {}

    def is_repeated(self, record: Disposed) -> bool:
        """Whether the same was said of this machine in this cycle or the one before."""
        if record.cycle > self._cycle:
            follows = record.cycle == self._cycle + 1
            self._before, self._now = (self._now if follows else {}), {}
            self._cycle = record.cycle
        if record.disposition is Disposition.EXECUTED:
            return False
        action = record.order.action
        said = action.kind, action.cluster, action.need, record.disposition, record.reason
        earlier = self._now.get(action.machine, self._before.get(action.machine))
        self._now[action.machine] = said
        return earlier == said


class _QuietLog:
    """Log lines, a bounded number of each kind: a flood is told as a number."""

    def __init__(self, log: FilteringBoundLogger, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._since_s = clock.elapsed_s()
        self._said: Counter[str] = Counter()

    def say(self, level: int, event: str, facts: Mapping[str, object]) -> None:
        if self._clock.elapsed_s() - self._since_s >= LINES_WINDOW_S:
            self._turn_over()
        self._said[event] += 1
        if self._said[event] <= LINES_MAX:
            self._log.bind(**facts).log(level, event)

    def _turn_over(self) -> None:
        for event, count in self._said.items():
            if count > LINES_MAX:
                self._log.warning("log_lines_left_out", of=event, lines=count - LINES_MAX)
        self._said.clear()
        self._since_s = self._clock.elapsed_s()
