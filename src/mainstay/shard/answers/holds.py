"""What keeps a shard from beginning what it has planned, and until when. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mainstay.model.ids import ClusterId
from mainstay.shard.answers.ways import seconds_text
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.restrictions import Stance


class Hold(NamedTuple):
    """Something that has to end first."""

    rule: str
    """Named as what it holds back is counted (docs/explanation/rails.md)."""

    seconds: float | None
    """None: it does not end by itself."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restraints:
    """All that may hold a shard back, at one moment."""

    now_s: float = 0.0
    """By the wall clock, like the ends of controls."""

    cycle_s: float = 10.0
    """From one decision to the next, if nothing wakes the shard."""

    connected: frozenset[ClusterId] = frozenset()
    stance: Stance = Stance.ACT
    """How far its configuration lets it go."""

    controls: tuple[Control, ...] = ()
    not_acting: str = ""
    """Why the shard does nothing at all."""

    stopped: Mapping[str, str] = field(default_factory=dict)
    """Providers through which nothing is done until a restart, and why."""

    unlisted: str = ""
    """Why nothing is acquired yet after a start."""

    refused: frozenset[str] = frozenset()
    """Providers through which nothing is acquired, for the disk refuses that they were listed."""

    backed_off_s: Mapping[ClusterId, float] = field(default_factory=dict)
    """Clusters that are left alone, and for how many seconds more."""


UNRESTRAINED: Final = Restraints()
"""Nothing holds it back, and nobody is connected."""

SETTINGS: Final[Mapping[Stance, tuple[ControlKind, str, str]]] = {
    Stance.PAUSE: (ControlKind.PAUSE, "actuation_paused", "is paused"),
    Stance.SHADOW: (ControlKind.SHADOW, "dry_run", "only tells what it would do"),
}
"""Of a stance the control like it, the setting that says it, and what a shard does then."""

STANCES: Final = frozenset(kind for kind, _, _ in SETTINGS.values())
"""Controls under which nothing is begun."""

ONLY_A_RESTART: Final = "only another configuration and a restart lift that"


def on_shard(cluster: ClusterId | None, given: Restraints) -> list[Hold]:
    """What keeps the shard from beginning anything for a cluster, or anything at all."""
    return list(_on_shard(cluster, given))


def _on_shard(cluster: ClusterId | None, given: Restraints) -> Iterator[Hold]:
    if given.not_acting:
        yield Hold("fenced", None, f"this shard does not act: {given.not_acting}")
    if given.stance in SETTINGS:
        kind, setting, does = SETTINGS[given.stance]
        why = f"this shard {does} by its configuration ({setting}), and {ONLY_A_RESTART}"
        yield Hold(kind.value, None, why)
    for control in given.controls:
        if control.kind in STANCES and control.cluster in {None, cluster}:
            left_s = max(0.0, control.expires_at_s - given.now_s)
            why = f"{control.kind} by {control.by} ends in {seconds_text(left_s)}"
            yield Hold(control.kind.value, left_s, f"{why} ({control.reason})")
    if given.unlisted:
        yield Hold("unlisted", given.cycle_s, given.unlisted)


def on_joining(cluster: ClusterId, given: Restraints) -> list[Hold]:
    """What keeps machines from joining a cluster."""
    if cluster not in given.connected:
        why = f"cluster {cluster} is not connected, so no machine can join it"
        return [Hold("not_connected", None, why)]
    if cluster in given.backed_off_s:
        left_s = given.backed_off_s[cluster]
        why = f"cluster {cluster} did not answer and is left alone for {seconds_text(left_s)}"
        return [Hold("back_off", left_s, why)]
    return []


def on_providers(names: Iterable[str], given: Restraints) -> list[Hold]:
    """What keeps the shard from doing anything through these providers."""
    return [
        Hold("fenced", None, stopped_text(name, given.stopped[name]))
        for name in names
        if name in given.stopped
    ]


def stopped_text(provider: str, why: str) -> str:
    """That nothing is done through a provider, and what ends it."""
    return f"provider {provider} refuses this shard until the shard is started again: {why}"
