"""Which providers leave calls unanswered, as lists do not show it: through those nothing is begun.

One call that nobody answers may be the fault of its machine. It is its provider's if that has said
nothing at all since the call began; then it is barred until it says anything. A provider that
lists, and leaves the same call unanswered for two machines in a row, is barred for a pause, and
then one call at a time shows whether it is back. Times are of `Clock.elapsed_s`.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from mainstay.model.calls import ConfigureRequest, CreateRequest, Mutation
from mainstay.runtime.clock import Clock
from mainstay.shard.events import Event
from mainstay.shard.facts import Health, ProviderFacts
from mainstay.shard.ports import Journal

Kind = type[Mutation]

ACQUIRING: Final[frozenset[Kind]] = frozenset({CreateRequest, ConfigureRequest})
"""Calls that demand leads to. Whoever cannot drain or delete may still serve."""


@dataclass(slots=True)
class _InARow:
    """Calls of one kind to one provider since it last answered one."""

    machines: set[str] = field(default_factory=set)
    until_s: float = -math.inf
    pause_s: float = 0.0
    """0: not barred yet."""


class Unanswered:
    """What is known of providers by the calls of actions. Lives on the event loop."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        listed_at_s: Callable[[str], float] = lambda _: -math.inf,
        *,
        on_change: Callable[[], None] = lambda: None,
        first_s: float = 10.0,
        longest_s: float = 300.0,
    ) -> None:
        """`listed_at_s` says when a provider's last list came, `on_change` hears that a provider
        is barred, or that a call has shown it to be back; pauses double from `first_s`.
        """
        self._clock = clock
        self._journal = journal
        self._listed_at_s = listed_at_s
        self._on_change = on_change
        self._first_s = first_s
        self._longest_s = longest_s
        self._answered_at_s: defaultdict[str, float] = defaultdict(lambda: -math.inf)
        self._silent_at_s: dict[str, float] = {}
        self._in_a_row: defaultdict[tuple[str, Kind], _InARow] = defaultdict(_InARow)
        self._asking: Counter[tuple[str, Kind]] = Counter()
        self._why: dict[str, str] = {}

    @contextmanager
    def calling(self, source: str, kind: Kind) -> Iterator[None]:
        """Inside the block such a call is under way, with all its attempts."""
        self._asking[source, kind] += 1
        try:
            yield
        finally:
            self._asking[source, kind] -= 1

    def answered(self, source: str, kind: Kind | None = None) -> None:
        """A provider has answered a call, be it by a refusal; None: one that changes nothing."""
        before = self.why_not(source)
        self._answered_at_s[source] = self._clock.elapsed_s()
        self._silent_at_s.pop(source, None)
        if kind is not None:
            self._in_a_row.pop((source, kind), None)
        if before and not self.why_not(source):
            self._on_change()

    def gave_up(self, source: str, request: Mutation, began_s: float, why: str) -> None:
        """A call that began then was not answered for as long as it is tried."""
        before, now_s, kind = self.why_not(source), self._clock.elapsed_s(), type(request)
        if self._heard_at_s(source) < began_s:
            self._silent_at_s[source] = now_s
        if kind in ACQUIRING:
            self._count(self._in_a_row[source, kind], request.machine, began_s)
        self._why[source] = f"it leaves calls unanswered, the last one for {request.machine}: {why}"
        if not before and self.why_not(source):
            self._journal.noticed(
                Event.PROVIDER_BARRED, reason=source, provider=source, why=self._why[source]
            )
            self._on_change()

    def why_not(self, source: str) -> str:
        """Why nothing is begun through this provider now; empty if it is."""
        if source not in self._why:
            return ""
        silent_at_s = self._silent_at_s.get(source, -math.inf)
        is_silent = silent_at_s > -math.inf and self._heard_at_s(source) <= silent_at_s
        is_paused = any(self._is_paused(source, kind) for kind in ACQUIRING)
        return self._why[source] if is_silent or is_paused else ""

    def barred(self) -> frozenset[str]:
        """The providers through which nothing is begun now."""
        return frozenset(source for source in self._why if self.why_not(source))

    def marked(self, providers: Iterable[ProviderFacts]) -> tuple[ProviderFacts, ...]:
        """How providers stand, by their lists and by this."""
        return tuple(
            replace(each, health=Health.LOST, why=why) if why else each
            for each, why in ((each, self.why_not(each.name)) for each in providers)
        )

    def _count(self, row: _InARow, machine: str, began_s: float) -> None:
        """Only what began after the last pause is news, and only another machine makes the next
        one longer: the one that failed last time is often the first to be tried again.
        """
        is_another = machine not in row.machines
        row.machines.add(machine)
        if began_s < row.until_s or len(row.machines) < 2:
            return
        longer = row.pause_s * 2 if is_another else row.pause_s
        row.pause_s = min(longer, self._longest_s) or self._first_s
        row.until_s = self._clock.elapsed_s() + row.pause_s

    def _is_paused(self, source: str, kind: Kind) -> bool:
        row = self._in_a_row.get((source, kind))
        if row is None or not row.pause_s:
            return False
        return self._clock.elapsed_s() < row.until_s or self._asking[source, kind] > 0

    def _heard_at_s(self, source: str) -> float:
        return max(self._answered_at_s[source], self._listed_at_s(source))
