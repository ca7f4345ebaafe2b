"""The uplink of a shard process. Imported only where a coordinator was named."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import SystemRandom
from typing import Final

from mainstay.config.shard import ShardConfig
from mainstay.processes.shard_parts import Assembled
from mainstay.runtime import log
from mainstay.runtime.clock import Clock
from mainstay.shard.metrics import ShardMetrics
from mainstay.uplink.metrics import UplinkMetrics
from mainstay.uplink.side import LiveSide
from mainstay.uplink.telling import Telling
from mainstay.uplink.uplink import Uplink, UplinkOptions
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.transport import Over

MEASURE_S: Final = 5.0
"""A report that comes sooner repeats what was counted for the one before."""


@asynccontextmanager
async def uplinked(
    shard: Assembled,
    config: ShardConfig,
    over: Over,
    *,
    address: str,
    metrics: ShardMetrics,
    clock: Clock,
) -> AsyncIterator[Uplink]:
    """Made and connected; the caller runs it. `address` is where the shard listens."""
    dialer = CoordinatorDialer(config.coordinators, over)
    side = LiveSide(
        live=shard.live,
        holder=shard.holder,
        quota=shard.quota,
        address=config.advertise or address,
        providers=config.provider_addresses,
        clock=clock,
        aside=asyncio.to_thread,
    )
    telling = Telling(
        UplinkMetrics(metrics.registry, clock), log.logger(shard=config.shard_id), clock
    )
    try:
        yield Uplink(
            side,
            dialer,
            clock=clock,
            random=SystemRandom(),
            telling=telling,
            options=UplinkOptions(
                report_interval_s=config.report_interval_s,
                measure_every_s=min(MEASURE_S, config.report_interval_s),
            ),
        )
    finally:
        await dialer.close()
