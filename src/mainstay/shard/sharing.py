"""Who gets how much of a cycle when not everything may be begun. Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mainstay.model.action import ActionKind

ACQUISITIONS: Final = frozenset({ActionKind.BOOTSTRAP, ActionKind.PROVISION})

GROUPS: Final[tuple[frozenset[ActionKind], ...]] = (
    ACQUISITIONS,
    frozenset({ActionKind.PREEMPT}),
    frozenset({ActionKind.RECLAIM, ActionKind.DELETE}),
)
"""What shares the limit of a cycle and the seats of a queue: acquisitions, preempts, releases."""

GROUP_OF: Final[Mapping[ActionKind, int]] = MappingProxyType(
    {kind: at for at, kinds in enumerate(GROUPS) for kind in kinds}
)


def shares(limit: int, wanted: Sequence[int], cycle: int) -> tuple[int, ...]:
    """How many acquisitions, preempts and releases run, of those wanted, under a limit.

    A quarter of the limit, at least one, is for preempts if they want it, another for releases; the
    rest is for acquisitions. What one group leaves goes to acquisitions, then preempts, then
    releases. A limit below three has no seat for each: then the groups that want something get one
    each in turn, and the turn begins one group later every cycle, so that in three cycles in a row
    every group is the first to choose once. Each group keeps its own order.
    """
    quarter = max(1, limit // 4)
    if limit >= len(GROUPS):
        sure = [limit - 2 * quarter, quarter, quarter]
    else:
        turn = [(cycle + step) % len(GROUPS) for step in range(len(GROUPS))]
        chosen = [group for group in turn if wanted[group]][:limit]
        sure = [int(group in chosen) for group in range(len(GROUPS))]
    kept = [min(pair) for pair in zip(wanted, sure, strict=True)]
    for group, most in enumerate(wanted):
        left = limit - sum(kept)
        kept[group] += min(left, most - kept[group])
    return tuple(kept)
