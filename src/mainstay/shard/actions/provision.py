"""Provision: Speculative to Idle, by way of Creating, and on to the cluster it is made for."""

from mainstay.model.calls import Call, CreateRequest
from mainstay.model.commitment import commitment
from mainstay.model.errors import MainstayError
from mainstay.model.metadata import encode
from mainstay.model.state import State
from mainstay.shard.actions.bootstrap import bootstrap
from mainstay.shard.hands.flows import Ending, gave_up, in_hand, need_of, settled, standing
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Outcome
from mainstay.shard.restrictions import Stance


async def provision(order: Order, tools: Tools, *, until_s: float) -> Ending:
    """Make hardware of a quota slot for a need.

    A provider that is done at once is asked to join it at once; most are not, and the cycle that
    sees the machine Idle decides anew who gets it.
    """
    hand, need = in_hand(order), need_of(order)
    machine = standing(hand, tools, State.SPECULATIVE)
    if isinstance(machine, Ending):
        return machine

    meant = commitment(need)
    tools.moves.to(machine.id, State.CREATING, assignment=meant)  # from here it counts as supply
    request = CreateRequest(machine.id, attribution=encode(meant))
    try:
        ack = await tools.caller(order).create(request, until_s=until_s)
    except MainstayError as error:
        return gave_up(hand, tools, Call.CREATE, error)

    ending = settled(hand, tools, Call.CREATE, ack.machine)
    if ending.outcome is not Outcome.SUCCESS or tools.stance(order) is not Stance.ACT:
        return ending
    if tools.backoff.is_backed_off(need.cluster, tools.clock.elapsed_s()):
        return ending  # it rests Idle, and the rails say when its cluster is asked again
    return await bootstrap(order, tools, until_s=until_s)
