"""What a check is, and how it ends."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mainstay.conformance.trial import Trial


class Part(StrEnum):
    """Which part of the contract a check is about; the first must hold for any provider."""

    BASELINE = "baseline"
    CORE = "core"
    ADDITION = "addition"
    FAULT = "fault"
    SCALE = "scale"
    TORMENT = "torment"
    DURABLE = "durable"


class Gate(StrEnum):
    """What a provider must have for a check to apply; the value says so of one that has not."""

    SPECULATIVE = "it has no quota slots: nothing can be created"
    DELETE = "it does not support Delete"
    REVISION = "its lists have no revision"
    PAGING = "it does not declare pages"
    INCREMENTAL = "it does not declare incremental lists"
    FAULTS = "it has no machine labelled conformance.fault/create=error"
    SCALE = "its fleet is too small"
    TORMENT = "not asked for: --torment"
    RESTART = "nobody told how to restart it: --restart-command"


ASKED_FOR: Final = frozenset({Gate.TORMENT, Gate.RESTART})
"""Gates that whoever runs the suite opens, not the provider."""


class Together(StrEnum):
    """What a check bears beside it."""

    ANY = "any"
    """Other checks."""

    NOTHING = "nothing"
    """Nothing: it looks at the whole fleet, or at the clock."""

    RESTARTS = "restarts"
    """The others that wait for the restart of the provider."""


@dataclass(frozen=True, slots=True)
class Check:
    """One row: an id that is never given to another meaning, and how to see it.

    The first line of the function's docstring is the sentence that must hold.
    """

    id: str
    part: Part
    run: Callable[["Trial"], Awaitable[None]]
    gates: frozenset[Gate] = frozenset()
    together: Together = Together.ANY

    @property
    def title(self) -> str:
        """What must hold."""
        return (self.run.__doc__ or "").partition("\n")[0].rstrip(".")


class Broken(Exception):
    """The provider does not do what the check's sentence says; the message says what it did."""


class NotRun(Exception):
    """The check could not be made here and now; the message says why."""


def gates(*needed: Gate) -> frozenset[Gate]:
    """For rows of the tables."""
    return frozenset(needed)
