"""The garbage collector of a large process: full passes often, over little.

A full pass looks at every container there is, and nothing else runs meanwhile. Left to itself it
comes after so many changes, whoever waits. What has outlived one of our passes is not looked at by
the next ones; whatever is thrown away needs none, unless it points at itself.
"""

import asyncio
import gc
from typing import Final

EVERY_S: Final = 10.0
WHOLE_EVERY: Final = 360
"""One pass in so many is over everything: what has outlived a pass may be garbage by now."""

_NEVER: Final = 1_000_000_000


async def collect_often(*, every_s: float = EVERY_S, whole_every: int = WHOLE_EVERY) -> None:
    """Until cancelled; then everything is as it was."""
    before, passes = gc.get_threshold(), 0
    gc.set_threshold(before[0], before[1], _NEVER)
    try:
        while True:
            await asyncio.sleep(every_s)
            passes += 1
            if passes % whole_every == 0:
                gc.unfreeze()
            gc.collect()
            gc.freeze()
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
