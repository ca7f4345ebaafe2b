"""A bridge without a shard: what it is told and what it finds is up to the test."""

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client import CollectorRegistry

from mainstay.bridge.bridge import Bridge, BridgeOptions
from mainstay.bridge.doing import Acts, Tools
from mainstay.bridge.hearing import Hearing
from mainstay.bridge.machines import RealMachines
from mainstay.bridge.metrics import BridgeMetrics
from mainstay.model.frames import BootstrapAsked
from mainstay.model.ids import ClusterId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY
from mainstay.runtime.clock import StepClock
from mainstay.tenancy.database.connect import Pool
from tenants import NEW, rows

CLUSTER = ClusterId("tenants")
ASKED = BootstrapAsked("r", CLUSTER, (Requirement(INSTANCE_TYPE_KEY, Operator.IN, ("t",)),), "m-1")
KIND = """
    insert into node_kinds (kind, region, instance_types, sold_as, slots, gpus_total)
    values ('k', 'region-1', '{t}', array[%s], '[]', 8) returning kind
"""


def a_bridge(
    pool: Pool,
    acts: Acts | None = None,
    *,
    registry: CollectorRegistry | None = None,
    head_room: Mapping[str, int] | None = None,
) -> Bridge:
    """Connected, and with machines that look after themselves."""
    tools = Tools(
        cluster=CLUSTER, pool=pool, ids=NEW, key=b"k" * 32, agents_url="https://127.0.0.1:1",
        authority="", join_s=60.0, cleanup_s=8.0,
    )  # fmt: skip
    hearing = Hearing(StepClock(100.0), lambda: (1, True))
    options = BridgeOptions(acts=acts or Acts(), head_room=head_room or {}, every_s=0.01)
    metrics = BridgeMetrics(registry or CollectorRegistry())
    return Bridge(tools, hearing, options, metrics, RealMachines())


async def a_life(bridge: Bridge, pool: Pool, machine: str) -> None:
    """One on which somebody has enrolled."""
    await bridge.bootstrap(replace(ASKED, machine=machine))
    enrolled = "update nodes set cert_fingerprint = id where status <> 'retired' returning id"
    await rows(pool, enrolled)
