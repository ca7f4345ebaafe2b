"""What `mainstay bench explain` asks beside why: what if."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from mainstay.engine.doings import ACQUISITIONS, doings
from mainstay.engine.plan import Plan
from mainstay.model.need import Need
from mainstay.model.profile import ZONE_KEY
from mainstay.model.questions import (
    Addition,
    Match,
    PriceChange,
    QuotaChange,
    Selection,
    WhatIfAnswer,
    WhatIfQuery,
)
from mainstay.model.rollup import raw_of

DEARER: Final = 2.0
HELD: Final = 1
"""So few machines that a cluster that has any is over it."""


def ifs_of(plan: Plan) -> Mapping[str, WhatIfQuery]:
    """A loss, a price, more demand and a quota; each large enough that it shows."""
    zone, need = _largest_zone(plan), _hungriest(plan)
    there = Selection(matches=(Match(key=ZONE_KEY, values=(zone,)),))
    more = Addition(cluster=need.cluster, need=raw_of(need))
    return {
        "a zone is lost": WhatIfQuery(lost_zones=(zone,)),
        "a zone costs more": WhatIfQuery(prices=(PriceChange(selection=there, factor=DEARER),)),
        "a need doubles": WhatIfQuery(additions=(more,)),
        "a quota is set": WhatIfQuery(quotas=(QuotaChange(cluster=need.cluster, held=HELD),)),
    }


def is_other(answer: WhatIfAnswer) -> bool:
    """Whether anything would be another way."""
    return (
        answer.satisfied_count + answer.unsatisfied_count + answer.moved_count > 0
        or answer.cost_before != answer.cost_after
        or answer.actions_before != answer.actions_after
    )


def _largest_zone(plan: Plan) -> str:
    codes, zones = plan.snapshot.shapes.attribute(ZONE_KEY)
    counts = np.bincount(codes[plan.snapshot.shape], minlength=len(zones)).tolist()
    return max((count, zone) for count, zone in zip(counts, zones, strict=True) if zone)[1]


def _hungriest(plan: Plan) -> Need:
    """The plain one for which most machines are to be acquired."""
    found = doings(plan)
    counts = np.bincount(found.place[found.are(ACQUISITIONS)], minlength=len(plan.walk))
    counts[plan.walk.is_gang] = 0
    return plan.walk.need_at(int(counts.argmax()))
