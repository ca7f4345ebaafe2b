"""How a machine stands, as a cluster is told: with the identity and shape its node will have."""

from mainstay.model.frames import Drain, NodeState
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.state import State


def node_state(cluster: ClusterId, machine: Machine, drain: Drain | None = None) -> NodeState:
    """What to tell a cluster of a machine that is or was its own, and of a drain of it."""
    profile, host = machine.profile, machine.host
    known = {INSTANCE_TYPE_KEY: profile.instance_type, ZONE_KEY: profile.zone}
    return NodeState(
        machine=machine.id,
        cluster=cluster,
        state=machine.state,
        provider_id="" if host is None else f"{host.provider}://{host.ref}",
        last_error=machine.last_error if machine.state is State.FAILED else "",
        labels={**dict(profile.labels), **{key: value for key, value in known.items() if value}},
        allocatable=machine.effective_allocatable,
        price_per_hour=machine.price_per_hour,
        reclamation_penalty_dollars=machine.assignment.reclamation_penalty_dollars or 0.0,
        drain=drain,
    )
