"""What is said late about one life of a machine is not done to the next."""

from dataclasses import replace
from typing import Any

from lone_bridge import ASKED, CLUSTER, KIND, a_bridge, a_life
from mainstay.bridge.doing import DOES, Acts, Tools
from mainstay.bridge.steps import Name
from mainstay.model.frames import Drain, NodeState, ReclaimTold
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.tenancy.database.connect import Pool
from postgres import database_url, server
from tenants import SLICE, rows, run

__all__ = ["database_url", "server"]

LIVES = "select machine, incarnation, state, preemptor_priority from bridge_nodes order by 1, 2"


async def lives(pool: Pool) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in await rows(pool, LIVES)]


def test_an_instruction_that_is_slow_to_be_done_closes_no_later_life(database_url: str) -> None:
    """The second of two machines is given to us anew while the first is still being closed."""

    async def scenario(pool: Pool) -> None:
        await rows(pool, KIND, [SLICE])

        async def slow(tools: Tools, life: Any, told: Any) -> None:
            await bridge.bootstrap(replace(ASKED, machine="m-2"))
            await DOES[Name.CLOSE](tools, life, told)

        bridge = a_bridge(pool, Acts(does={**DOES, Name.CLOSE: slow}))
        for machine in ("m-1", "m-2"):
            await a_life(bridge, pool, machine)

        await bridge.reclaim(ReclaimTold("i", ("m-1", "m-2"), 30, 9))

        assert await lives(pool) == [
            ("m-1", 1, "draining", 9),
            ("m-2", 1, "retired", None),
            ("m-2", 2, "joining", None),
        ]

    run(database_url, scenario)


def test_a_bridge_that_never_heard_the_instruction_writes_down_what_the_state_says(
    database_url: str,
) -> None:
    async def scenario(pool: Pool) -> None:
        await rows(pool, KIND, [SLICE])
        await a_life(a_bridge(pool), pool, "m-1")
        second = a_bridge(pool)
        await second.node_state(
            NodeState(
                machine=MachineId("m-1"), cluster=CLUSTER, state=State.DRAINING,
                drain=Drain(20.0, 9),
            )
        )  # fmt: skip

        await second.look()

        assert await lives(pool) == [("m-1", 1, "retired", 9)]
        await second.look()
        assert await lives(pool) == [("m-1", 1, "retired", 9)]

    run(database_url, scenario)
