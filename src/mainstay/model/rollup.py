"""A roll-up as it comes in: every row is checked before any of it is believed.

All or nothing. A roll-up with one bad row is refused whole and its rows are named, so that whatever
was accepted last stays. A row that can be read but can never be met is not bad: it becomes demand
that acquires nothing and shows its reason (ADR-0018).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from mainstay.model.cost import PENALTY_BUCKET_MAX
from mainstay.model.errors import BadRow, InvalidRollup, Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
    aggregate,
)
from mainstay.model.quantity import parse_quantity
from mainstay.model.resources import (
    DIMENSIONS_MAX,
    NEED_UNITS_MAX,
    Units,
    from_units,
    to_units,
)

ROWS_NAMED_MAX: Final = 10
"""So many bad rows are named in the message; `InvalidRollup.bad` has all of them."""

SHOWN_MAX: Final = 80
"""So many characters of a wrong text are shown."""

_INT32: Final = range(-(2**31), 2**31)
_OPERATORS: Final = frozenset(map(int, Operator))
_WHEN: Final = frozenset(map(int, WhenUnsatisfiable))


@dataclass(frozen=True, slots=True)
class RawRequirement:
    """A requirement with its operator as a number, as the wire carries it."""

    key: str
    operator: int
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawSpread:
    """A spread with its enum as a number."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNeed:
    """One row of a roll-up that nobody has looked at: texts and numbers, named as on the wire."""

    requirements: tuple[RawRequirement, ...] = ()
    aggregate_resources: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    spread: tuple[RawSpread, ...] = ()
    interruption_penalty_bucket: int = 0
    reclamation_penalty_bucket: int = 0
    min_unit: Mapping[str, str] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a roll-up may hold. Far above what a real one does: they stop a broken sender."""

    rows: int = 100_000
    requirements: int = 64
    """Per row."""

    values: int = 1_024
    """Per requirement."""

    spreads: int = 16
    """Per row."""

    dimensions: int = DIMENSIONS_MAX
    """Resources that one map of a row names."""

    dimensions_in_all: int = 256
    """Distinct resources that all rows name together."""

    text_bytes: int = 16_384
    """Of each key, value, resource and group, as UTF-8."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise Rejected(f"limit {limit.name} must be at least 1")


LIMITS: Final = Limits()


def accept(
    cluster: ClusterId, rows: Sequence[RawNeed], *, arrival_nanos: int, limits: Limits = LIMITS
) -> tuple[Need, ...]:
    """The demand a roll-up states, equal rows added up; or every bad row in one error."""
    if len(rows) > limits.rows:
        raise _refused(cluster, f"{len(rows)} rows (at most {limits.rows})")
    if arrival_nanos < 0:
        raise _refused(cluster, f"its timestamp is negative: {arrival_nanos}")
    bad: list[BadRow] = []
    needs: dict[int, Need] = {}
    reader = _Reader(limits)
    for position, row in enumerate(rows):
        faults = reader.faults(row)
        if faults:
            bad += [BadRow(position, what, value) for what, value in faults]
        else:
            needs[position] = reader.need(cluster, row, arrival_nanos)
    bad += _too_varied(needs, limits)
    bad += _too_much(needs)
    if bad:
        bad.sort()
        raise _refused(cluster, _told(bad), tuple(bad))
    return tuple(aggregate(needs.values()))


def raw_of(need: Need) -> RawNeed:
    """The row that states this need."""
    profile = need.profile
    return RawNeed(
        requirements=tuple(
            RawRequirement(r.key, int(r.operator), r.values) for r in profile.requirements
        ),
        aggregate_resources=_texts(need.aggregate),
        priority=profile.priority,
        spread=tuple(
            RawSpread(s.topology_key, s.max_skew, int(s.when_unsatisfiable)) for s in profile.spread
        ),
        interruption_penalty_bucket=profile.interruption_penalty_bucket,
        reclamation_penalty_bucket=profile.reclamation_penalty_bucket,
        min_unit=_texts(need.min_unit),
        group=need.group,
    )


def _texts(units: Units) -> dict[str, str]:
    return {name: from_units(name, amount) for name, amount in units.items()}


def _refused(cluster: ClusterId, why: str, bad: tuple[BadRow, ...] = ()) -> InvalidRollup:
    return InvalidRollup(f"roll-up of cluster {cluster} refused: {why}", bad=bad)


def _told(bad: list[BadRow]) -> str:
    """One line: the first bad rows with all that is wrong with them, and how many more."""
    rows = dict.fromkeys(row.position for row in bad)
    named = list(rows)[:ROWS_NAMED_MAX]
    told = [f"row {row.position}: {row.what}: {row.value}" for row in bad if row.position in named]
    more = len(rows) - len(named)
    return "; ".join([*told, f"and {more} more"] if more else told)


Fault = tuple[str, str]
"""What is wrong, and the value that is."""


class _Reader:
    """Reads rows; what many rows have in common, their profile and their amounts, only once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._identity_faults: dict[_Identity, list[Fault]] = {}
        self._profiles: dict[_Identity, NeedProfile] = {}
        self._amount_faults: dict[_Amounts, list[Fault]] = {}
        self._units: dict[_Amounts, Units] = {}

    def faults(self, row: RawNeed) -> list[Fault]:
        """Everything that is wrong with a row, taken alone."""
        identity = _identity(row)
        faults = self._identity_faults.get(identity)
        if faults is None:
            faults = self._identity_faults[identity] = list(_identity_faults(row, self._limits))
        return [
            *faults,
            *_text_faults("group", row.group, self._limits),
            *self._wrong("aggregate_resources", row.aggregate_resources),
            *self._wrong("min_unit", row.min_unit),
        ]

    def need(self, cluster: ClusterId, row: RawNeed, arrival_nanos: int) -> Need:
        """The need that a row without faults states."""
        identity = _identity(row)
        profile = self._profiles.get(identity)
        if profile is None:
            profile = self._profiles[identity] = _profile(row)
        return Need(
            cluster=cluster,
            profile=profile,
            aggregate=self._read(row.aggregate_resources),
            min_unit=self._read(row.min_unit),
            arrival_nanos=arrival_nanos,
            group=row.group,
        )

    def _wrong(self, name: str, texts: Mapping[str, str]) -> list[Fault]:
        amounts = (name, *texts.items())
        faults = self._amount_faults.get(amounts)
        if faults is None:
            faults = self._amount_faults[amounts] = list(_amount_faults(name, texts, self._limits))
        return faults

    def _read(self, texts: Mapping[str, str]) -> Units:
        amounts = tuple(texts.items())
        units = self._units.get(amounts)
        if units is None:
            units = {name: to_units(name, parse_quantity(text)) for name, text in texts.items()}
            self._units[amounts] = units
        return units


_Identity = tuple[tuple[RawRequirement, ...], tuple[RawSpread, ...], int, int, int]
_Amounts = tuple[object, ...]


def _identity(row: RawNeed) -> _Identity:
    """All of a row that makes its profile."""
    buckets = row.interruption_penalty_bucket, row.reclamation_penalty_bucket
    return (row.requirements, row.spread, row.priority, *buckets)


def _identity_faults(row: RawNeed, limits: Limits) -> Iterator[Fault]:
    if row.priority not in _INT32:
        yield "priority has more than 32 bits", str(row.priority)
    for name in ("interruption_penalty_bucket", "reclamation_penalty_bucket"):
        bucket = getattr(row, name)
        if not 0 <= bucket <= PENALTY_BUCKET_MAX:
            yield f"{name} out of range 0 to {PENALTY_BUCKET_MAX}", str(bucket)
    yield from _requirement_faults(row.requirements, limits)
    yield from _spread_faults(row.spread, limits)


def _requirement_faults(
    requirements: tuple[RawRequirement, ...], limits: Limits
) -> Iterator[Fault]:
    if len(requirements) > limits.requirements:
        yield f"more than {limits.requirements} requirements", str(len(requirements))
        return
    for requirement in requirements:
        yield from _text_faults("key of a requirement", requirement.key, limits)
        on = f"requirement on {_shown(requirement.key)}"
        if requirement.operator not in _OPERATORS:
            yield f"unknown operator of {on}", str(requirement.operator)
        if len(requirement.values) > limits.values:
            yield f"more than {limits.values} values of {on}", str(len(requirement.values))
            continue
        for value in requirement.values:
            yield from _text_faults(f"value of {on}", value, limits)


def _spread_faults(spread: tuple[RawSpread, ...], limits: Limits) -> Iterator[Fault]:
    if len(spread) > limits.spreads:
        yield f"more than {limits.spreads} spreads", str(len(spread))
        return
    for one in spread:
        yield from _text_faults("topology_key of a spread", one.topology_key, limits)
        over = f"of the spread over {_shown(one.topology_key)}"
        if one.max_skew not in _INT32:
            yield f"max_skew {over} has more than 32 bits", str(one.max_skew)
        if one.when_unsatisfiable not in _WHEN:
            yield f"unknown when_unsatisfiable {over}", str(one.when_unsatisfiable)


def _amount_faults(name: str, texts: Mapping[str, str], limits: Limits) -> Iterator[Fault]:
    if len(texts) > limits.dimensions:
        yield f"more than {limits.dimensions} resources in {name}", str(len(texts))
        return
    for dimension, text in texts.items():
        yield from _text_faults(f"resource of {name}", dimension, limits)
        problem = _quantity_problem(dimension, text)
        if problem:
            yield f"{problem} for {_shown(dimension)} in {name}", _shown(text)


def _quantity_problem(dimension: str, text: str) -> str:
    try:
        quantity = parse_quantity(text)
    except Rejected:
        return "not a quantity"
    if quantity.nanos < 0:
        return "negative quantity"
    return "quantity too large" if to_units(dimension, quantity) > NEED_UNITS_MAX else ""


def _text_faults(what: str, text: str, limits: Limits) -> Iterator[Fault]:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        yield f"{what} is no text", _shown(text)
        return
    if size > limits.text_bytes:
        yield f"{what} is longer than {limits.text_bytes} bytes", _shown(text)


def _shown(text: str) -> str:
    """A text from outside, on one line and not too long."""
    return ascii(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "...")


def _too_varied(needs: Mapping[int, Need], limits: Limits) -> Iterator[BadRow]:
    """Rows that name resources above the limit for all rows together."""
    seen: set[str] = set()
    for position, need in needs.items():
        for dimension in (*need.aggregate, *need.min_unit):
            if dimension in seen:
                continue
            if len(seen) == limits.dimensions_in_all:
                what = f"more than {limits.dimensions_in_all} resources in all, one more is"
                yield BadRow(position, what, _shown(dimension))
                break
            seen.add(dimension)


def _too_much(needs: Mapping[int, Need]) -> Iterator[BadRow]:
    """Rows with which a roll-up asks for more than one need may: equal rows and gangs that fit one
    machine are added up, and what they become must be a need.
    """
    total: dict[str, int] = {}
    for position, need in needs.items():
        for name, amount in need.aggregate.items():
            asked = total.get(name, 0) + amount
            if asked > NEED_UNITS_MAX:
                what = f"with the rows before it, quantity too large for {_shown(name)}"
                yield BadRow(position, what, from_units(name, asked))
            else:
                total[name] = asked


def _profile(row: RawNeed) -> NeedProfile:
    return NeedProfile(
        requirements=tuple(
            Requirement(r.key, Operator(r.operator), r.values) for r in row.requirements
        ),
        spread=tuple(
            Spread(s.topology_key, s.max_skew, WhenUnsatisfiable(s.when_unsatisfiable))
            for s in row.spread
        ),
        priority=row.priority,
        interruption_penalty_bucket=row.interruption_penalty_bucket,
        reclamation_penalty_bucket=row.reclamation_penalty_bucket,
    )
