"""What a run of the loop is made of, as a value and as the command that runs it again."""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from typing_extensions import override

from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId

LIST_LAG_MAX: Final = 2


class EventKind(StrEnum):
    """What happens to a shard from outside."""

    LOSE = "lose"
    """So many Configured machines of a cluster are gone; a slot takes the place of each."""

    FAIL = "fail"
    """So many of the next Creates to complete fail instead."""

    SCALE = "scale"
    """A cluster asks for so many percent of what it asks for in the scene."""

    MUTE = "mute"
    """A cluster is not heard from for so many cycles, and no machine can join it."""


EVENTS_SHOWN: Final = "lose@30:web=4, fail@30=1, scale@10:web=50, mute@5:web=9"

_EVENT: Final = re.compile(
    r"(?P<kind>lose|fail|scale|mute)@(?P<cycle>[0-9]{1,6})"
    r"(:(?P<cluster>[!-<>-~]+))?=(?P<amount>[0-9]{1,6})"
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens before the decision of a cycle."""

    kind: EventKind
    cycle: int
    amount: int
    cluster: ClusterId | None = None
    """Whose; none for a Create that fails."""

    def __post_init__(self) -> None:
        if (self.cluster is None) is not (self.kind is EventKind.FAIL):
            raise Rejected(f"an event names a cluster unless a Create fails: {self}")

    @override
    def __str__(self) -> str:
        where = "" if self.cluster is None else f":{self.cluster}"
        return f"{self.kind}@{self.cycle}{where}={self.amount}"


def parse_event(text: str) -> Event:
    """An event as it is written, such as `lose@30:web=4`."""
    found = _EVENT.fullmatch(text)
    if found is None:
        raise Rejected(f"not an event: {text!r} (such as {EVENTS_SHOWN})")
    cluster = None if found["cluster"] is None else ClusterId(found["cluster"])
    return Event(EventKind(found["kind"]), int(found["cycle"]), int(found["amount"]), cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpec:
    """One run; the same spec gives the same run. Dwells and lags are in cycles."""

    seed: int
    cycles: int
    scene: str = "plain"
    events: tuple[Event, ...] = ()

    create_dwell: int = 0
    """How long a Create is seen at work; at 0 it is done before the next decision."""

    configure_dwell: int = 0
    drain_dwell: int = 0

    list_lag: int = 0
    """At most so old is the list that a cycle takes in."""

    losses: int = 0
    """So many machines are lost in the first half of the run, when and where the seed says."""

    reclaim_cap: bool = False
    """Whether a cluster loses at most a twentieth of its machines per cycle, but at least one."""

    restart_at: int | None = None
    """The cycle in which the shard starts anew; None is never."""

    echo: bool = True
    """Whether the provider echoes anything at all."""

    echo_create: bool = True
    """Whether the provider echoes what a machine is being created for."""

    drop_per_mille: int = 0
    """How many of a thousand steps get lost before anything is begun."""

    repeat_per_mille: int = 0
    """How many of a thousand steps come again, at once and in the next cycle."""

    racing: bool = False
    """Whether clusters report in another order, with other time stamps, in every cycle."""

    drift_per_mille: int = 0
    """How many of a thousand machines change in price, label or amount, per cycle."""

    drift_reorders: bool = False
    """Whether each price drifts on its own; otherwise all do together, and their order stays."""

    def __post_init__(self) -> None:
        numbers = (self.seed, self.create_dwell, self.configure_dwell, self.drain_dwell)
        if min(*numbers, self.losses, self.restart_at or 0) < 0 or self.cycles < 1:
            raise Rejected("a run has at least one cycle, and no number below zero")
        if not 0 <= self.list_lag <= LIST_LAG_MAX:
            raise Rejected(f"list_lag must be 0 to {LIST_LAG_MAX}: {self.list_lag}")
        for name in ("drop_per_mille", "repeat_per_mille", "drift_per_mille"):
            if not 0 <= getattr(self, name) <= 1000:
                raise Rejected(f"{name} must be 0 to 1000: {getattr(self, name)}")


SETTINGS: Final = (
    "create_dwell", "configure_dwell", "drain_dwell", "list_lag",
    "losses", "reclaim_cap", "restart_at", "echo", "echo_create", "drop_per_mille",
    "repeat_per_mille", "racing", "drift_per_mille", "drift_reorders",
)  # fmt: skip
"""The fields that are given by `--set name=number`; a yes is 1, a no is 0."""

_FLAGS: Final = ("reclaim_cap", "echo", "echo_create", "racing", "drift_reorders")


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Fields of a spec as they are written, such as `create-dwell=3`."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        field = name.replace("-", "_")
        if field not in SETTINGS or not re.fullmatch("[0-9]{1,6}", value):
            known = ", ".join(setting.replace("_", "-") for setting in SETTINGS)
            raise Rejected(f"not a setting: {text!r} (name=number, the name one of {known})")
        settings[field] = bool(int(value)) if field in _FLAGS else int(value)
    return settings


def replay(spec: LoopSpec) -> str:
    """The command that runs this spec again."""
    words = ["mainstay sim loop", f"--seed {spec.seed}", f"--cycles {spec.cycles}"]
    words += [f"--scene {spec.scene}"]
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name in SETTINGS and value != field.default:
            words.append(f"--set {field.name.replace('_', '-')}={int(value)}")
    return " ".join([*words, *(f"--event {event}" for event in spec.events)])
