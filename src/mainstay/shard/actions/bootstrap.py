"""Bootstrap: Idle to Configured, by way of Configuring."""

from mainstay.model.calls import BLOB_BYTES_MAX, Call, ConfigureRequest
from mainstay.model.commitment import full_commitment
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.model.ids import MachineId
from mainstay.model.metadata import encode
from mainstay.model.need import Need
from mainstay.model.state import State
from mainstay.shard.hands.flows import (
    Ending,
    InHand,
    gave_up,
    in_hand,
    need_of,
    settled,
    standing,
)
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Outcome
from mainstay.shard.restrictions import Stance

NO_SESSION = "no_session"
"""The code of Unavailable when the cluster is not connected."""


async def bootstrap(order: Order, tools: Tools, *, until_s: float) -> Ending:
    """Join an idle machine to the cluster whose need it was chosen for.

    Until the provider is called every failure gives the machine back. From then on nobody knows
    how it stands, and a failure is one.
    """
    hand, need = in_hand(order), need_of(order)
    if serves(hand, tools, need):
        return Ending(Outcome.ALREADY_DONE)
    machine = standing(hand, tools, State.IDLE)
    if isinstance(machine, Ending):
        return machine

    meant = full_commitment(need)
    tools.moves.to(  # from here it counts as supply
        machine.id, State.CONFIGURING, cluster=need.cluster, assignment=meant
    )
    try:
        with tools.off_work(order.source) as on_work_again:
            blob = await asked_for(need, machine.id, tools, until_s)
            with tools.backoff.answered(need.cluster):
                await on_work_again(until_s - tools.clock.elapsed_s())
    except MainstayError as error:
        return given_back(hand, tools, error)
    except BaseException as error:  # a defect, or the end: the provider is untouched all the same
        given_back(hand, tools, Unavailable(str(error)))
        raise
    machine = stopped(order, tools, until_s) or standing(hand, tools, State.CONFIGURING)
    if isinstance(machine, Ending):
        return machine

    request = ConfigureRequest(machine.id, need.cluster, blob, metadata=encode(meant))
    try:
        ack = await tools.caller(order).configure(request, until_s=until_s)
    except MainstayError as error:
        return gave_up(hand, tools, Call.CONFIGURE, error)
    return settled(hand, tools, Call.CONFIGURE, ack.machine)


def serves(hand: InHand, tools: Tools, need: Need) -> bool:
    """Whether the machine serves this need already."""
    if hand.machine not in tools.inventory:
        return False
    machine = tools.inventory.machine(hand.machine)
    return (
        machine.state is State.CONFIGURED
        and machine.cluster == need.cluster
        and machine.assignment.fingerprint == need.profile.fingerprint
    )


async def asked_for(need: Need, machine: MachineId, tools: Tools, until_s: float) -> bytes:
    """What makes a machine join. The back-off hears of the answer when it comes, not when there is
    a worker for it: a pause that begins in between is not ended by it.
    """
    try:
        with tools.backoff.asking(need.cluster):
            blob = await blob_of(need, machine, tools, until_s)
    except MainstayError:
        tools.backoff.failed(need.cluster)
        raise
    tools.backoff.succeeded(need.cluster)
    return blob


async def blob_of(need: Need, machine: MachineId, tools: Tools, until_s: float) -> bytes:
    """What its cluster answers."""
    blob = await tools.clusters.bootstrap(
        need.cluster,
        need.profile.requirements,
        timeout_s=max(0.0, until_s - tools.clock.elapsed_s()),
        machine=machine,
    )
    if len(blob) > BLOB_BYTES_MAX:
        raise Rejected(f"a bootstrap blob of {len(blob)} bytes (at most {BLOB_BYTES_MAX})")
    return blob


def stopped(order: Order, tools: Tools, until_s: float) -> Ending | None:
    """How it ends when it may go no further: a fence or a control came meanwhile, or it is late."""
    if why := tools.acting.why_not(order.source):
        given_back(in_hand(order), tools, Unavailable(why))
        return Ending(Outcome.FENCED, why)
    if tools.stance(order) is not Stance.ACT:
        held = Unavailable("held back before its provider was asked")
        return given_back(in_hand(order), tools, held)
    if why := tools.unanswered.why_not(order.source):
        return given_back(in_hand(order), tools, Unavailable(f"not asked: {why}"))
    if not tools.callers[order.source].has_time(until_s):
        late = Unavailable("late: its deadline came before its provider could be asked")
        return given_back(in_hand(order), tools, late)
    return None


def given_back(hand: InHand, tools: Tools, error: MainstayError) -> Ending:
    """The provider was never asked: Idle again."""
    machine = standing(hand, tools, State.CONFIGURING)
    if isinstance(machine, Ending):
        return machine
    tools.moves.to(machine.id, State.IDLE)
    if error.code == NO_SESSION:
        return Ending(Outcome.NO_SESSION, error.message)
    waited_in_vain = isinstance(error, Unavailable)
    return Ending(Outcome.ROLLED_BACK if waited_in_vain else Outcome.BLOB_ERROR, error.message)
