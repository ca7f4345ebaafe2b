"""What can go wrong in a simulated cloud, by name. Changed as a whole, while it runs."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mainstay.model.calls import Call
from mainstay.model.errors import Rejected
from mainstay.providers.kit.steps import STEPS

ANY: Final = "*"


class Fault(StrEnum):
    """The names under which faults are counted."""

    STOCK_OUT = "stock_out"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    STEP_FAILURE = "step_failure"
    INTERRUPTION = "interruption"
    LOSS = "loss"
    PARTIAL_LIST = "partial_list"
    STALE_LIST = "stale_list"
    DUPLICATE_ACK = "duplicate_ack"
    LATE_ACK = "late_ack"
    LOST_ACK = "lost_ack"
    INVENTED_STATE = "invented_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often what goes wrong; as it stands, nothing does."""

    stock_outs: frozenset[tuple[str, str]] = frozenset()
    """(instance type, zone) of which nothing is left; `*` is any."""

    quotas: Mapping[str, int] = field(default_factory=dict)
    """Most hosts of an instance type; `*` is of all together."""

    calls_per_s: float = 0.0
    """More mutating calls than this are turned away; 0 is no limit."""

    failures: Mapping[Call, float] = field(default_factory=dict)
    """The chance that a step fails."""

    slowness: float = 1.0
    """Every step takes so many times as long."""

    interruptions: float = 0.0
    """Spot hosts are taken at so many times the rate they declare."""

    notice_s: float = 0.0
    """Spot hosts are told so long before they are taken; 0 is without a word."""

    losses_per_hour: float = 0.0
    """The rate at which any host is lost."""

    price_drift: float = 0.0
    """How far spot prices stray in an hour, as a share."""

    partial_lists: float = 0.0
    """The chance of each machine to be left out of a list."""

    stale_lists: float = 0.0
    """The chance of a list to be an earlier one."""

    duplicate_acks: float = 0.0
    """The chance of an ack to be the one that the machine got before."""

    late_acks_s: float = 0.0
    """Acks wait up to so long, and so overtake each other."""

    lost_acks: float = 0.0
    """The chance of a call to be carried out and not answered."""

    def __post_init__(self) -> None:
        for name in _CHANCES:
            _within(name, getattr(self, name), 1.0)
        for name in _AMOUNTS:
            _within(name, getattr(self, name), math.inf)
        for call, chance in self.failures.items():
            _within(f"failures of {call}", chance, 1.0)
        for kind, most in self.quotas.items():
            if most < 0:
                raise Rejected(f"the quota of {kind} must be zero or more: {most}")


_CHANCES: Final = ("partial_lists", "stale_lists", "duplicate_acks", "lost_acks")
_AMOUNTS: Final = (
    "calls_per_s", "slowness", "interruptions", "notice_s", "losses_per_hour", "price_drift",
    "late_acks_s",
)  # fmt: skip


def changed(faults: Faults, settings: Mapping[str, str]) -> Faults:
    """`faults` with settings as people write them; all are taken, or none."""
    return dataclasses.replace(
        faults, **{name: _read(name, text) for name, text in settings.items()}
    )


def _read(name: str, text: str) -> Any:
    reader = _READERS.get(name)
    if reader is None:
        raise Rejected(f"no such fault: {name} (there are: {', '.join(sorted(_READERS))})")
    try:
        return reader(text)
    except (ValueError, KeyError) as error:
        raise Rejected(f"cannot read the fault {name}: {text!r} ({_EXAMPLES[name]})") from error


def _pairs(text: str, sign: str) -> list[tuple[str, str]]:
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        left, found, right = part.partition(sign)
        if not (left and found and right):
            raise ValueError(part)
        pairs.append((left, right))
    return pairs


def _stock_outs(text: str) -> frozenset[tuple[str, str]]:
    return frozenset(_pairs(text, "/"))


def _quotas(text: str) -> dict[str, int]:
    return {kind: int(most) for kind, most in _pairs(text, "=")}


def _failures(text: str) -> dict[Call, float]:
    failures = {Call(call): float(chance) for call, chance in _pairs(text, "=")}
    if not failures.keys() <= STEPS.keys():
        raise ValueError(text)
    return failures


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "stock_outs": _stock_outs,
    "quotas": _quotas,
    "failures": _failures,
    **dict.fromkeys((*_CHANCES, *_AMOUNTS), float),
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "stock_outs": "such as g5.xlarge/use1-az2, */use1-az4",
    "quotas": "such as p5.48xlarge=4, *=100",
    "failures": "such as create=0.1, drain=0.02",
    **dict.fromkeys((*_CHANCES, *_AMOUNTS), "a number"),
}


def _within(name: str, number: float, most: float) -> None:
    if not 0.0 <= number <= most or math.isinf(number):
        raise Rejected(f"{name} must be within 0 and {most:g}: {number}")
