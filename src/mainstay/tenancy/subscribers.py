"""Who is told of what: one table for the relay, the consumers, the docs and the tests.

An event is done when every consumer of its type has committed. A name without a process that runs
it keeps its events waiting, so a row here and a consumer in the code come and go together.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mainstay.tenancy.states import EventType

Subscribers = Mapping[EventType, frozenset[str]]

WORKER: Final = "worker"
"""Provisions and releases."""

BILLING: Final = "billing"
NOTIFIER: Final = "notifier"
"""Tells the people who watch: it is told of everything."""

RELEASER: Final = "releaser"
"""Ends what a payer can no longer pay for."""

E = EventType

SUBSCRIBERS: Final[Subscribers] = MappingProxyType({
    E.REQUESTED: frozenset({WORKER, NOTIFIER}),
    E.ACTIVE: frozenset({BILLING, NOTIFIER}),
    E.FAILED: frozenset({NOTIFIER}),
    E.RELEASE_REQUESTED: frozenset({WORKER, BILLING, NOTIFIER}),
    E.RELEASED: frozenset({BILLING, NOTIFIER}),
    E.RELEASE_FAILED: frozenset({BILLING, NOTIFIER}),
    E.RECLAIM_NOTICE: frozenset({NOTIFIER}),
    E.FORCE_RELEASE_REQUESTED: frozenset({RELEASER, NOTIFIER}),
    E.LOW_BALANCE: frozenset({NOTIFIER}),
    E.RELEASE_PENDING: frozenset({NOTIFIER}),
    E.DEPLETED: frozenset({NOTIFIER}),
    E.CREDITED: frozenset({BILLING, NOTIFIER}),
})  # fmt: skip


def subjects_of(consumer: str, subscribers: Subscribers = SUBSCRIBERS) -> frozenset[EventType]:
    """What a consumer is told of."""
    return frozenset(kind for kind, names in subscribers.items() if consumer in names)
