"""Recorded availability of spot capacity, replayed: how much of a zone's spot there is, when."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mainstay.model.errors import Rejected


@dataclass(frozen=True, slots=True)
class Trace:
    """How many instances were up at each tick."""

    gap_s: float
    up: tuple[int, ...]

    def share_at(self, seconds: float) -> float:
        """The share of capacity that is there; the recording repeats."""
        most = max(self.up)
        tick = int(seconds // self.gap_s) % len(self.up)
        return self.up[tick] / most if most else 0.0

    def ticks(self, after_s: float, until_s: float) -> Iterator[float]:
        """When, within this time, the share may change; of a long time the first round will do."""
        first, behind = int(after_s // self.gap_s) + 1, int(until_s // self.gap_s) + 1
        return (tick * self.gap_s for tick in range(first, min(behind, first + len(self.up))))


def read_trace(path: Path) -> Trace:
    """A recording: `{"metadata": {"gap_seconds": N}, "data": [instances up, ...]}`."""
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
        gap_s, up = float(parsed["metadata"]["gap_seconds"]), tuple(parsed["data"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Rejected(f"not a recording of spot capacity: {path} ({error!r})") from error
    if not 0.0 < gap_s < math.inf or not up or not all(_is_count(number) for number in up):
        raise Rejected(f"not a recording of spot capacity: {path} (gap or counts are wrong)")
    return Trace(gap_s, up)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
