"""`shard_metadata`: the assignment as strings that a provider stores and echoes.

So that an assignment survives a restart of the shard. The first five keys are BigFleet's, so that
either system can take a fleet over from the other; the rest are ours.

Decoding forgives: an absent key leaves its part alone, an unknown key is ignored, a malformed value
is skipped and told, and the good parts still count.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef, is_priority, overlay
from mainstay.model.ids import ClusterId, Fingerprint, is_id

PREFIX: Final = "bigfleet.lucy.sh/"
OUR_PREFIX: Final = "mainstay/"

PRIORITY_KEY: Final = PREFIX + "assigned-priority"
INTERRUPTION_KEY: Final = PREFIX + "assigned-interruption-penalty-dollars"
RECLAMATION_KEY: Final = PREFIX + "assigned-reclamation-penalty-dollars"
FINGERPRINT_KEY: Final = PREFIX + "assigned-need-fingerprint"
GROUP_KEY: Final = PREFIX + "assigned-group"
CLUSTER_KEY: Final = OUR_PREFIX + "assigned-cluster"
DRAINED_PREFIX: Final = OUR_PREFIX + "drained-for-"
DRAINED_CLUSTER_KEY: Final = DRAINED_PREFIX + "cluster"
DRAINED_FINGERPRINT_KEY: Final = DRAINED_PREFIX + "fingerprint"
DRAINED_GROUP_KEY: Final = DRAINED_PREFIX + "group"

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?|inf(?:inity)?)",
    re.IGNORECASE | re.ASCII,
)


class MetadataFault(NamedTuple):
    """A value that could not be read; its part stays as it was."""

    key: str
    value: str


class Decoded(NamedTuple):
    """What an echo said, and what of it could not be read."""

    assignment: Assignment
    faults: tuple[MetadataFault, ...]


def encode(assignment: Assignment) -> dict[str, str]:
    """The parts that are known, as strings; an assignment of no group says so with an empty one."""
    drained = assignment.drained_for
    texts: dict[str, str | None] = {
        PRIORITY_KEY: _text(assignment.priority, str),
        INTERRUPTION_KEY: _text(assignment.interruption_penalty_dollars, format_dollars),
        RECLAMATION_KEY: _text(assignment.reclamation_penalty_dollars, format_dollars),
        FINGERPRINT_KEY: assignment.fingerprint,
        GROUP_KEY: assignment.group,
        CLUSTER_KEY: assignment.cluster,
        DRAINED_CLUSTER_KEY: drained.cluster if drained else None,
        DRAINED_FINGERPRINT_KEY: drained.fingerprint if drained else None,
        DRAINED_GROUP_KEY: drained.group if drained else None,
    }
    return {key: text for key, text in texts.items() if text is not None}


def of_drain(texts: Mapping[str, str]) -> dict[str, str]:
    """Of these texts those that say what a machine is drained for."""
    return {key: text for key, text in texts.items() if key.startswith(DRAINED_PREFIX)}


def decode(echo: Mapping[str, str], onto: Assignment = NO_ASSIGNMENT) -> Decoded:
    """`onto` with every part that `echo` holds and that can be read."""
    if not echo:
        return Decoded(onto, ())
    faults: list[MetadataFault] = []
    parts: dict[str, Any] = {}
    for key, (part, read) in _PARTS.items():
        value = echo.get(key)
        if value is None or (value == "" and part in _EMPTY_IS_ABSENT):
            continue
        parts[part] = read(value)
        if parts[part] is None:
            faults.append(MetadataFault(key, value))
    parts["drained_for"] = _drained_for(echo, faults)
    known = {part: value for part, value in parts.items() if value is not None}
    return Decoded(overlay(onto, Assignment(**known)), tuple(faults))


def format_dollars(dollars: float) -> str:
    """As Go's shortest 'g' format writes it, so that both systems store the same bytes."""
    if not math.isfinite(dollars):
        return "NaN" if math.isnan(dollars) else f"{'+' if dollars > 0 else '-'}Inf"
    shortest = Decimal(repr(float(dollars))).normalize()
    exponent = shortest.adjusted()
    if -4 <= exponent < 6:
        return f"{shortest:f}"
    return f"{shortest.scaleb(-exponent)}e{exponent:+03d}"


def _text(value: float | None, write: Callable[[float], str]) -> str | None:
    return None if value is None else write(value)


def _priority(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if is_priority(number) else None


def _dollars(text: str) -> float | None:
    if not _FLOAT.fullmatch(text):
        return None
    dollars = float(text)
    written_as_infinite = "inf" in text.lower()
    return dollars if math.isinf(dollars) == written_as_infinite else None


def _cluster(text: str) -> ClusterId | None:
    return ClusterId(text) if is_id(text) else None


def _drained_for(echo: Mapping[str, str], faults: list[MetadataFault]) -> NeedRef | None:
    cluster, fingerprint = echo.get(DRAINED_CLUSTER_KEY), echo.get(DRAINED_FINGERPRINT_KEY)
    if cluster is None or not fingerprint:
        return None  # half a reference names no need, like an absent one
    if not is_id(cluster):
        faults.append(MetadataFault(DRAINED_CLUSTER_KEY, cluster))
        return None
    return NeedRef(ClusterId(cluster), Fingerprint(fingerprint), echo.get(DRAINED_GROUP_KEY, ""))


_PARTS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    PRIORITY_KEY: ("priority", _priority),
    INTERRUPTION_KEY: ("interruption_penalty_dollars", _dollars),
    RECLAMATION_KEY: ("reclamation_penalty_dollars", _dollars),
    FINGERPRINT_KEY: ("fingerprint", str),
    GROUP_KEY: ("group", str),
    CLUSTER_KEY: ("cluster", _cluster),
}

_EMPTY_IS_ABSENT: Final = ("fingerprint", "cluster")
