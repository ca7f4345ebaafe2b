"""Machines counted by an attribute, from columns: it costs classes and values, not rows sent."""

from bisect import bisect_right
from typing import Final

import numpy as np

from mainstay.inventory.snapshot import Snapshot
from mainstay.model.errors import Rejected
from mainstay.model.group_views import GroupQuery, GroupRow
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State

STATES: Final = len(State)


def group_rows(snapshot: Snapshot, query: GroupQuery) -> tuple[int, tuple[GroupRow, ...]]:
    """How many values there are, and those of the page with their machines by state."""
    if not query.attribute:
        raise Rejected("by which attribute: name a label, such as topology.bigfleet/rack")
    if query.limit < 0:
        raise Rejected(f"limit must not be negative: {query.limit} (0 is none)")
    codes, values = snapshot.shapes.attribute(query.attribute)
    counted = snapshot.state != State.UNSPECIFIED
    if query.zone:
        of_zone = (Requirement(ZONE_KEY, Operator.IN, (query.zone,)),)
        counted = counted & snapshot.shapes.matching(of_zone)[snapshot.shape]
    group = codes[snapshot.shape[counted]].astype(np.intp)
    state = snapshot.state[counted]
    price = np.where(state == State.SPECULATIVE, 0.0, snapshot.price_per_hour[counted])
    counts = np.bincount(group * STATES + state, minlength=len(values) * STATES)
    spent = np.bincount(group, weights=price, minlength=len(values))
    by_state = counts.reshape(len(values), STATES)
    there = np.flatnonzero(by_state.sum(axis=1)).tolist()
    named = ((value, code) for code in there if (value := values[code]) is not None)
    found = sorted(each for each in named if query.value in {"", each[0]})
    first = bisect_right(found, query.after, key=lambda each: each[0]) if query.after else 0
    shown = found[first : first + query.limit] if query.limit else found[first:]
    return len(found), tuple(
        GroupRow(
            value=value,
            machines={str(s): int(by_state[code, s]) for s in State if s and by_state[code, s]},
            spend_per_hour=float(spent[code]),
        )
        for value, code in shown
    )
