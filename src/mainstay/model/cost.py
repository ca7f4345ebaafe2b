"""What a machine costs and what a penalty is worth: the one locked formula, the one ladder."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.errors import Rejected

PENALTY_BUCKET_MAX: Final = 27
"""Buckets are 0 (unspecified) to 27 (pinned)."""

PINNED: Final = PENALTY_BUCKET_MAX

# Unspecified and zero are $0, then half a dollar, then powers of two, then pinned.
UPPER_BOUND_DOLLARS: Final[tuple[float, ...]] = (
    0.0, 0.0, 0.5, *(float(2**power) for power in range(24)), math.inf,
)  # fmt: skip


def effective_cost(
    price_per_hour: float, interruption_probability: float, interruption_penalty_dollars: float
) -> float:
    """Expected dollars per hour. Locked: neither pluggable nor configurable.

    A negative penalty counts as zero. What cannot be interrupted costs its price, however high
    the penalty (ADR-0005): without that, a pinned penalty at probability zero would be no number.
    """
    if interruption_probability == 0.0:
        return price_per_hour
    return price_per_hour + interruption_probability * max(0.0, interruption_penalty_dollars)


def effective_costs(
    price_per_hour: NDArray[np.float64],
    interruption_probability: NDArray[np.float64],
    interruption_penalty_dollars: float,
) -> NDArray[np.float64]:
    """The same formula for many machines and one penalty."""
    risk = np.zeros(len(price_per_hour))
    at_risk = interruption_probability > 0
    risk[at_risk] = interruption_probability[at_risk] * max(0.0, interruption_penalty_dollars)
    return price_per_hour + risk


def bucket_for(dollars: float) -> int:
    """The lowest bucket whose upper bound is not below `dollars`; never 0, which means unsaid."""
    if math.isnan(dollars):
        raise Rejected("a penalty must be a number of dollars: nan")
    for bucket in range(1, PINNED):
        if dollars <= UPPER_BOUND_DOLLARS[bucket]:
            return bucket
    return PINNED


def upper_bound(bucket: int) -> float:
    """The dollars a bucket stands for: the most it may hold."""
    if not 0 <= bucket <= PENALTY_BUCKET_MAX:
        raise Rejected(f"no such penalty bucket: {bucket} (must be 0 to {PENALTY_BUCKET_MAX})")
    return UPPER_BOUND_DOLLARS[bucket]
