"""Why nothing is moved for a shortfall, in words. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mainstay.coordinator.donors import Obstacle
from mainstay.coordinator.standing import Options, Shortfall
from mainstay.model.ids import ShardId

SHARDS_TOLD_MAX: Final = 3
"""So many shards are named for each obstacle."""


class Reason(StrEnum):
    """Why nothing is moved for a shortfall. The first that holds is told."""

    REMOVING = "removing"
    CANNOT_TAKE = "cannot_take"
    TAKES_ALL = "takes_all"
    SILENT = "silent"
    TOPOLOGY = "topology"
    QUOTA = "quota"
    NOTHING = "nothing"
    YOUNG = "young"
    MOVING = "moving"
    SETTLING = "settling"
    FULL = "full"
    COOLING = "cooling"
    NO_SPARE = "no_spare"
    NO_VICTIM = "no_victim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one shortfall for which nothing is moved now."""

    shard: ShardId
    fingerprint: str
    priority: int
    age_cycles: int
    what: Reason
    sentence: str


UNFIT: Final = {
    Obstacle.REMOVING: Reason.REMOVING,
    Obstacle.CANNOT_HAND_OVER: Reason.CANNOT_TAKE,
    Obstacle.TAKES_ALL: Reason.TAKES_ALL,
    Obstacle.SILENT: Reason.SILENT,
}
"""What keeps a shard from giving keeps it from getting."""

_SENTENCES: Final[Mapping[Reason, str]] = {
    Reason.REMOVING: "its shard is being removed",
    Reason.CANNOT_TAKE: "its shard cannot take machines over",
    Reason.TAKES_ALL: "its shard takes every machine: assign a domain to it first",
    Reason.SILENT: "its shard was last heard of more than {fresh} report intervals ago",
    Reason.TOPOLOGY: "its machines must agree on a label, and such a need never crosses shards",
    Reason.QUOTA: "quota alone stops it, and more machines would not help",
    Reason.NOTHING: "its shard does not say how much is missing",
    Reason.YOUNG: "other shards are asked from {asked} cycles on",
    Reason.MOVING: "a move for it is under way",
    Reason.SETTLING: "it got machines less than {settle} report intervals ago",
    Reason.FULL: "{open} moves are under way, and there may be no more",
    Reason.COOLING: "what there is has just moved, or moves the other way",
    Reason.NO_SPARE: (
        "no other shard has a free machine to spare for it; nobody is preempted for it before it "
        "is {preempts} cycles old"
    ),
    Reason.NO_VICTIM: (
        "no other shard has a free machine to spare for it, or one that serves what matters less"
    ),
}

_OBSTACLES: Final[Mapping[Obstacle, tuple[str, str]]] = {
    Obstacle.REMOVING: ("is being removed", "are being removed"),
    Obstacle.CANNOT_HAND_OVER: ("cannot hand machines over", "cannot hand machines over"),
    Obstacle.TAKES_ALL: ("takes every machine", "take every machine"),
    Obstacle.SILENT: ("has not reported of late", "have not reported of late"),
    Obstacle.NOT_SHARED: ("shares no provider with it", "share no provider with it"),
    Obstacle.SHORT_ITSELF: ("is short of the same", "are short of the same"),
    Obstacle.REFUSED: ("had nothing that fits", "had nothing that fits"),
    Obstacle.MARGIN: ("keeps what little it has", "keep what little they have"),
    Obstacle.PROMISED: ("has promised all it has", "have promised all they have"),
    Obstacle.COOLING: ("waits for its cool-down", "wait for their cool-down"),
}


def verdict(
    shortfall: Shortfall,
    what: Reason,
    options: Options,
    obstacles: Mapping[ShardId, Obstacle] | None = None,
) -> Verdict:
    """In one sentence, with what kept the other shards from giving."""
    sentence = _SENTENCES[what].format(
        fresh=options.fresh_intervals,
        asked=options.young_cycles + 1,
        settle=options.settle_intervals,
        open=options.open_moves_max,
        preempts=options.patient_cycles + 1,
    )
    kept = "; ".join(_told(obstacles or {}))
    return Verdict(
        shard=shortfall.recipient,
        fingerprint=shortfall.missing.fingerprint,
        priority=shortfall.missing.priority,
        age_cycles=shortfall.missing.age_cycles,
        what=what,
        sentence=f"{sentence} ({kept})" if kept else sentence,
    )


def _told(obstacles: Mapping[ShardId, Obstacle]) -> list[str]:
    """One part for each obstacle, those that came nearest first."""
    parts = []
    for obstacle in sorted(set(obstacles.values()), reverse=True):
        shards = sorted(shard for shard, met in obstacles.items() if met is obstacle)
        parts.append(f"{few(shards, 'more')} {_OBSTACLES[obstacle][len(shards) > 1]}")
    return parts


def few(names: list[str] | list[ShardId], rest: str) -> str:
    """The first names, and how many there are besides."""
    told = list(names[:SHARDS_TOLD_MAX])
    left = len(names) - len(told)
    return _joined([*told, f"{left} {rest}"] if left else told)


def _joined(names: list[str] | list[ShardId]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
