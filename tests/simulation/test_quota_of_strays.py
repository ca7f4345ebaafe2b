"""Quota goes with machines that are let go of later than their domain, before it is anybody's."""

import asyncio
from pathlib import Path

from mainstay.coordinator import commands
from mainstay.model.coordination import Domain
from mainstay.model.ids import ShardId
from mainstay.model.profile import ZONE_KEY
from reporting_pair import ROUND_S, Pair, play, used
from two_shards import OF_SIM, three_zones

ENTITLED = 9


def test_both_together_never_use_more_while_strays_go_home_and_who_lost_them_is_hungry(
    tmp_path: Path,
) -> None:
    async def scenario(both: Pair) -> None:
        desk = both.leader.desk
        both.of_a.ask_for(6)
        await asyncio.sleep(60)
        desk.do(commands.set_quota(desk.fleet, OF_SIM, ENTITLED))
        await asyncio.sleep(ROUND_S)
        both.is_limited = True
        zone_b = Domain(ZONE_KEY, "zone-b")
        desk.do(commands.move_domain(desk.fleet, zone_b, ShardId("b"), 1))
        await asyncio.sleep(ROUND_S)
        assert len(both.a.assembled.holder.owned.here) == 3
        both.of_a.ask_for(3)
        for _ in range(100):
            await asyncio.sleep(5)
            if len(both.a.assembled.holder.owned.here) < 3:
                both.of_a.ask_for(20)
        assert len(both.a.assembled.holder.owned.here) < 3
        assert used(both.a) + used(both.b) == ENTITLED

    play(tmp_path, scenario, three_zones(idle=3, slots=4))
