"""Delete: Idle to Speculative, by way of Deleting."""

from mainstay.model.calls import Call, DeleteRequest
from mainstay.model.errors import MainstayError
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.hands.flows import Ending, gave_up, in_hand, settled, standing
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Outcome


async def delete(order: Order, tools: Tools, *, until_s: float) -> Ending:
    """Give hardware back that nobody has needed for long enough.

    A provider that refuses has declared a capacity type that it does not keep: the machine is
    Failed, and asking again would not help.
    """
    hand = in_hand(order)
    machine = standing(hand, tools, State.IDLE)
    if isinstance(machine, Ending):
        return machine

    tools.moves.to(machine.id, State.DELETING)
    request = DeleteRequest(machine.id)
    try:
        ack = await tools.caller(order).delete(request, until_s=until_s)
    except MainstayError as error:
        return gave_up(hand, tools, Call.DELETE, error)

    ending = settled(hand, tools, Call.DELETE, ack.machine)
    if ending.outcome in {Outcome.SUCCESS, Outcome.ACCEPTED}:  # it is on its way, and irrevocably
        tools.journal.noticed(Event.IDLE_RELEASED, machine=machine.id, provider=order.source)
    return ending
