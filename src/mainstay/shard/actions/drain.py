"""Reclaim and Preempt: Configured to Idle, by way of Draining."""

from mainstay.model.action import ActionKind
from mainstay.model.assignment import Assignment, overlay
from mainstay.model.calls import Call, DrainRequest
from mainstay.model.errors import MainstayError
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.hands.flows import Ending, gave_up, in_hand, need_of, settled, standing
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order


async def drain(order: Order, tools: Tools, *, until_s: float) -> Ending:
    """Empty a machine and take it out of its cluster, which is told first."""
    hand = in_hand(order)
    machine = standing(hand, tools, State.CONFIGURED)
    if isinstance(machine, Ending):
        return machine

    grace_s = grace_after_telling(order, tools, machine)
    purpose = Assignment(drained_for=order.action.need)
    drained = overlay(machine.assignment, purpose)
    tools.moves.to(machine.id, State.DRAINING, assignment=drained)
    request = DrainRequest(machine.id, grace_s, attribution=encode(purpose))
    try:
        ack = await tools.caller(order).drain(request, until_s=until_s)
    except MainstayError as error:
        return gave_up(hand, tools, Call.DRAIN, error)
    return settled(hand, tools, Call.DRAIN, ack.machine)


def grace_after_telling(order: Order, tools: Tools, machine: Machine) -> int:
    """Tell the cluster, so that it evicts gently ahead of the provider; how long it then has.

    With nobody there to hear, nobody evicts, and the workloads get the usual grace instead.
    """
    kind, grace_s = order.action.kind, order.action.grace_s
    preemptor = need_of(order).profile.priority if kind is ActionKind.PREEMPT else None
    if tools.clusters.reclaim(
        machine, grace_s=grace_s, unheard_grace_s=tools.default_grace_s,
        preemptor_priority=preemptor,
    ):  # fmt: skip
        return grace_s
    tools.journal.noticed(
        Event.EVICTION_SKIPPED, reason=kind.value, machine=machine.id, cluster=machine.cluster
    )
    return tools.default_grace_s
