"""A cluster's demand: what it asks of every machine, how much in all, and how much it matters.

A need has no count. It states a total, and a smallest unit that each machine must hold on its own;
how many machines that takes is for the engine to find out.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from mainstay.model.assignment import PRIORITY_MAX, PRIORITY_MIN, NeedRef
from mainstay.model.cost import PENALTY_BUCKET_MAX
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.profile import INSTANCE_TYPE_KEY, Profile
from mainstay.model.resources import NEED_UNITS_MAX, Units, add, largest

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


class Operator(IntEnum):
    """How a requirement reads the value of its key. The numbers are those of the wire."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    DOES_NOT_EXIST = 4
    SAME = 5
    """Every machine of the need has one and the same value; values, if any, narrow which."""
    GT = 1000
    LT = 1001


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """Something every machine of a need must fulfil. Values are kept sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(self.values)))

    def admits(self, value: str | None) -> bool:
        """Whether a machine whose attribute is `value` (None: absent) fulfils it."""
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.SAME:
                return value is not None and (not self.values or value in self.values)
            case Operator.GT | Operator.LT:
                return self._admits_number(value)
            case Operator.UNSPECIFIED:
                return False

    def _admits_number(self, value: str | None) -> bool:
        """Kubernetes compares whole numbers only, against exactly one; the rest never matches."""
        have, bound = _integer(value), _integer(self.values[0] if len(self.values) == 1 else None)
        if have is None or bound is None:
            return False
        return have > bound if self.operator is Operator.GT else have < bound


def _integer(text: str | None) -> int | None:
    """As Kubernetes reads it: 64 bits, nothing around the digits but a sign."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class WhenUnsatisfiable(IntEnum):
    """What to do with a spread that cannot be kept."""

    UNSPECIFIED = 0
    DO_NOT_SCHEDULE = 1
    SCHEDULE_ANYWAY = 2


@dataclass(frozen=True, slots=True, order=True)
class Spread:
    """How evenly machines lie over the values of a topology key."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: WhenUnsatisfiable


@dataclass(frozen=True, slots=True)
class NeedProfile:
    """The identity of demand, in canonical order: equal ones of a cluster add up to one need."""

    requirements: tuple[Requirement, ...] = ()
    spread: tuple[Spread, ...] = ()
    priority: int = 0
    interruption_penalty_bucket: int = 0
    reclamation_penalty_bucket: int = 0
    fingerprint: Fingerprint = field(init=False, compare=False, default=Fingerprint(""))

    def __post_init__(self) -> None:
        _check_range("priority", self.priority, PRIORITY_MIN, PRIORITY_MAX)
        for name in ("interruption_penalty_bucket", "reclamation_penalty_bucket"):
            _check_range(name, getattr(self, name), 0, PENALTY_BUCKET_MAX)
        requirements = sorted(self.requirements, key=lambda r: (r.key, r.operator, r.values))
        object.__setattr__(self, "requirements", tuple(requirements))
        object.__setattr__(self, "spread", tuple(sorted(self.spread)))
        object.__setattr__(self, "fingerprint", _fingerprint(self))

    def matches(self, profile: Profile) -> bool:
        """Whether a machine of this profile fulfils every requirement, taken alone."""
        return all(r.admits(profile.attribute(r.key)) for r in self.requirements)

    @property
    def same_keys(self) -> tuple[str, ...]:
        """The keys on which all machines of the need must agree; none for a plain need."""
        return tuple(r.key for r in self.requirements if r.operator is Operator.SAME)

    @property
    def pinned_types(self) -> tuple[str, ...]:
        """The instance types it is limited to; empty when it is not."""
        for requirement in self.requirements:
            if requirement.key == INSTANCE_TYPE_KEY:
                return requirement.values if requirement.operator is Operator.IN else ()
        return ()


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise Rejected(f"{name} out of range: {value} (must be {lowest} to {highest})")


def _fingerprint(profile: NeedProfile) -> Fingerprint:
    """128 bits of a text that is the same exactly when the profile is.

    Every string goes in with its length, so that no choice of labels can imitate another profile.
    """
    parts: list[str] = [
        str(profile.priority),
        str(profile.interruption_penalty_bucket),
        str(profile.reclamation_penalty_bucket),
    ]
    for requirement in profile.requirements:
        values = requirement.values
        parts += ["r", requirement.key, str(int(requirement.operator)), str(len(values)), *values]
    for spread in profile.spread:
        parts += [
            "s",
            spread.topology_key,
            str(spread.max_skew),
            str(int(spread.when_unsatisfiable)),
        ]
    text = "".join(f"{len(part)}:{part}," for part in parts)
    return Fingerprint(
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One row of demand."""

    cluster: ClusterId
    profile: NeedProfile

    aggregate: Units
    """Total capacity wanted, per dimension, in units."""

    min_unit: Units
    """What each machine must hold on its own, per dimension, in units."""

    arrival_nanos: int = 0
    """When it was told, for ties; zero when unknown."""

    group: str = ""
    """The gang it belongs to; empty for none."""

    def __post_init__(self) -> None:
        for name in ("aggregate", "min_unit"):
            amounts = dict(getattr(self, name))
            for dimension, amount in amounts.items():
                _check_range(f"{name} of {dimension!r}", amount, 0, NEED_UNITS_MAX)
            object.__setattr__(self, name, MappingProxyType(amounts))

    @property
    def ref(self) -> NeedRef:
        """The name under which machines in flight are credited to it."""
        return NeedRef(self.cluster, self.profile.fingerprint, self.group)


def aggregate(needs: Iterable[Need]) -> list[Need]:
    """One row per (cluster, fingerprint, group), in order of first sight.

    Totals add up, smallest units take the larger per dimension, the earliest known arrival stays.
    """
    rows: dict[NeedRef, Need] = {}
    for need in needs:
        seen = rows.get(need.ref)
        rows[need.ref] = need if seen is None else _joined(seen, need)
    return list(rows.values())


def _joined(first: Need, second: Need) -> Need:
    arrivals = [n.arrival_nanos for n in (first, second) if n.arrival_nanos]
    return Need(
        cluster=first.cluster,
        profile=first.profile,
        aggregate=add(first.aggregate, second.aggregate),
        min_unit=largest(first.min_unit, second.min_unit),
        arrival_nanos=min(arrivals, default=0),
        group=first.group,
    )
