"""All checks. An id is never given to another meaning; new ones are added at the end of a part."""

from typing import Final

from mainstay.conformance import (
    baseline,
    concurrency,
    durable,
    failure,
    fencing,
    lifecycle,
    listing,
    matrix,
    metadata,
    scale,
    shape,
    torment,
    walks,
)
from mainstay.conformance.check import Check

CHECKS: Final[tuple[Check, ...]] = (
    *baseline.CHECKS,
    *lifecycle.CHECKS,
    *matrix.CHECKS,
    *fencing.CHECKS,
    *concurrency.CHECKS,
    *metadata.CHECKS,
    *failure.CHECKS,
    *shape.CHECKS,
    *listing.CHECKS,
    *durable.CHECKS,
    *scale.CHECKS,
    *walks.CHECKS,
    *torment.CHECKS,
)
