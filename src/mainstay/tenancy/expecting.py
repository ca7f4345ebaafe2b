"""When an allocation is where it is on its way to, and when a request for capacity has its room.

Pure, over what was recorded. Nothing is promised: a step takes what the same step took of others,
and what nobody has measured is told as not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from mainstay.model.questions import NOTHING_EXPECTED, Expected, When
from mainstay.tenancy.states import Status

ON_THE_WAY: Final[Mapping[Status, str]] = {
    Status.REQUESTED: "to be active",
    Status.PROVISIONING: "to be active",
    Status.RELEASING: "to be clean",
}
"""Where an allocation goes on by itself, and what that is called."""

NOT_REPEATED: Final = (
    "clean-up has failed and is not repeated until somebody asks for it again"
    " (`mainstay alloc release`)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How long something has gone on, and how long it took others."""

    age_s: float = 0.0
    took_s: Sequence[float] = ()

    def longer_s(self) -> Sequence[float]:
        """Of those that took longer than it has by now."""
        return [each for each in self.took_s if each > self.age_s]

    def left_s(self) -> float | None:
        """What is left: the median of those that took longer; None: there is none."""
        longer_s = self.longer_s()
        return median(longer_s) - self.age_s if longer_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """The need of a cluster that a request waits behind, and what comes after it."""

    cluster: str
    need: str
    """Its fingerprint."""

    joining_s: float | None
    """From the bootstrap of a machine to a node that is given out; None: none has come so far."""

    age_s: float = 0.0
    """Of the youngest node that joins now; 0: none does."""

    left_s: float | None = None
    """What is left for that one; None: it takes longer than any of the last."""


def allocation_expected(status: Status, recorded: Recorded) -> Expected:
    """When it has ended the step that it is in; nothing where it stays by itself."""
    if status is Status.RELEASE_FAILED:
        return Expected(when=When.NEVER, because=(NOT_REPEATED,))
    if status not in ON_THE_WAY:
        return NOTHING_EXPECTED
    left_s, what = recorded.left_s(), ON_THE_WAY[status]
    if left_s is not None:
        longer_s, last = recorded.longer_s(), len(recorded.took_s)
        took = f"{len(longer_s)} of the last {last} took longer: {_seconds(median(longer_s))}"
        why = f"it takes {_seconds(recorded.age_s)} already, and {took} {what}"
        return Expected(when=When.ABOUT, seconds=left_s, because=(why,))
    if not recorded.took_s:
        why = f"none like it in its project, and too few elsewhere, have come {what} yet"
        return Expected(when=When.UNKNOWN, because=(why,))
    why = f"it takes {_seconds(recorded.age_s)} already, longer than {_count(recorded)}"
    return Expected(when=When.UNKNOWN, because=(why,))


def request_expected(after: After, need: Expected | None) -> Expected:
    """When a request for capacity has its room: its need is served, and the node has joined.

    `need` is what a shard says about that need; None: none could be asked. What it says ends when
    the machine is configured, which is a part of joining: the longer of both counts, not the sum.
    Only a machine that serves the need has surely begun to join.
    """
    if need is None:
        named = f"need {after.need[:8]} of cluster {after.cluster}"
        why = f"it waits for {named}, and no shard that knows it can be asked from here"
        return Expected(when=When.UNKNOWN, because=(why,))
    if need.when in {When.NEVER, When.UNKNOWN, When.UNSPECIFIED}:
        when = When.NEVER if need.when is When.NEVER else When.UNKNOWN
        return Expected(when=when, because=need.because)
    if after.joining_s is None:
        because = (*need.because, "no node of its kind has joined yet, so nobody knows how long")
        known = need.when is When.NOT_BEFORE
        when = When.NOT_BEFORE if known else When.UNKNOWN
        return Expected(when=when, seconds=need.seconds if known else 0.0, because=because)
    if need.when is When.NOW and after.age_s:
        return _joining(after, need)
    took = f"{_seconds(after.joining_s)}, as the last ones took"
    if need.when is When.ABOUT:
        seconds = max(need.seconds, after.joining_s)
        joins = f"its node joins meanwhile: {took} from its bootstrap on"
        return Expected(when=When.ABOUT, seconds=seconds, because=(*need.because, joins))
    return Expected(
        when=When.NOT_BEFORE if need.when is When.NOT_BEFORE else When.ABOUT,
        seconds=need.seconds + after.joining_s,
        because=(*need.because, f"then its node joins: {took}"),
    )


def _joining(after: After, need: Expected) -> Expected:
    """When a node that joins now has joined."""
    begun = f"its node joins, for {_seconds(after.age_s)} by now"
    if after.left_s is None:
        why = f"{begun}, longer than any of the last ones"
        return Expected(when=When.UNKNOWN, because=(*need.because, why))
    why = f"{begun}: {_seconds(after.left_s)} more, as the last ones took that were not faster"
    return Expected(when=When.ABOUT, seconds=after.left_s, because=(*need.because, why))


def expected_of(told: Mapping[str, Any]) -> Expected:
    """When, from the answer of the API."""
    return Expected(
        when=When[str(told["when"]).upper()],
        seconds=float(told["seconds"]),
        because=tuple(map(str, told["because"])),
    )


def after_of(told: Mapping[str, Any]) -> After | None:
    """The need that has to be asked about first, from the answer of the API; None: none."""
    return None if told["after"] is None else After(**told["after"])


def _count(recorded: Recorded) -> str:
    many = len(recorded.took_s)
    return "the last one" if many == 1 else f"the last {many}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s"
