"""What the flows of the actions share: how they begin, and how each call can end.

A machine in one of these hands stands in the ledger, so nobody else writes to it. What is found
otherwise all the same is told as an ending of its own, never forced.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mainstay.model.assignment import restrict
from mainstay.model.calls import Call
from mainstay.model.errors import (
    Fenced,
    IllegalTransition,
    InvalidMachine,
    MainstayError,
    NoCapacity,
    NotSupported,
    Rejected,
    Unavailable,
    UnknownMachine,
)
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine, MachineRule, check
from mainstay.model.need import Need
from mainstay.model.state import RULES, TRANSITIONAL, Presence, State
from mainstay.providers.kit.steps import STEPS
from mainstay.shard.events import Event
from mainstay.shard.hands.calling import HeldBack
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Outcome


class Ending(NamedTuple):
    """How a flow ended; the detail is for people."""

    outcome: Outcome
    detail: str = ""


SUCCESS: Final = Ending(Outcome.SUCCESS)
ACCEPTED: Final = Ending(Outcome.ACCEPTED)
GONE: Final = Ending(Outcome.UNKNOWN_MACHINE, "the machine is no longer in the inventory")


class InHand(NamedTuple):
    """A machine that the ledger holds for us, and the provider it is called through."""

    machine: MachineId
    source: str


class Reaction(NamedTuple):
    """What a refused call means."""

    outcome: Outcome
    hardware: bool
    """Whether the machine is to blame, and so its rack, zone or type may be."""


REACTIONS: Final[Mapping[type[MainstayError], Reaction]] = MappingProxyType(
    {
        Fenced: Reaction(Outcome.FENCED, hardware=False),
        NoCapacity: Reaction(Outcome.NO_CAPACITY, hardware=False),
        Unavailable: Reaction(Outcome.PROVIDER_ERROR, hardware=False),
        NotSupported: Reaction(Outcome.NOT_SUPPORTED, hardware=False),
        UnknownMachine: Reaction(Outcome.UNKNOWN_MACHINE, hardware=False),
        IllegalTransition: Reaction(Outcome.PROVIDER_ERROR, hardware=False),
        InvalidMachine: Reaction(Outcome.REFUSED_ACK, hardware=True),
        Rejected: Reaction(Outcome.PROVIDER_ERROR, hardware=True),
        MainstayError: Reaction(Outcome.PROVIDER_ERROR, hardware=True),
    }
)


def reaction_to(error: MainstayError) -> Reaction:
    """The row of the nearest class in the table."""
    return next(REACTIONS[kind] for kind in type(error).__mro__ if kind in REACTIONS)


def in_hand(order: Order) -> InHand:
    """The machine of an order."""
    return InHand(order.action.machine, order.source)


def need_of(order: Order) -> Need:
    """The need of an acquisition."""
    if order.need is None:
        raise AssertionError(f"acquired for nobody: {order.action}")
    return order.need


def standing(hand: InHand, tools: Tools, state: State) -> Machine | Ending:
    """The machine, if it stands in this state; otherwise how that ends the flow."""
    if hand.machine not in tools.inventory:
        return GONE
    machine = tools.inventory.machine(hand.machine)
    if machine.state is state:
        return machine
    found = f"the machine is {machine.state}, not {state}"
    if state is State.CONFIGURING and machine.state is State.IDLE:
        return Ending(Outcome.RACED_TO_IDLE, found)
    return Ending(Outcome.STALE_STATE, found)


def settled(hand: InHand, tools: Tools, call: Call, told: Machine) -> Ending:
    """Take in what the provider says of a machine after a call, or after a Get.

    The facts are the provider's, the commitment is ours. An answer that is not about this step is
    an old one: the machine stays as it is, and a list or a Get finishes it.
    """
    step = STEPS[call]
    ours = standing(hand, tools, step.during)
    if isinstance(ours, Ending):
        return ours
    try:
        record = as_told(ours, told)
    except InvalidMachine as error:
        return gave_up(hand, tools, call, error)
    if told.state is State.FAILED:
        return failed(hand, tools, f"{call}: {told.last_error}", Reaction(_ERROR, hardware=True))
    if told.state is step.after:
        tools.moves.put(record)
        tools.failures.succeeded(record, hand.source)
        if record.state is State.CONFIGURED:
            tools.configured(record)
        return SUCCESS
    if told.state is step.during:
        tools.moves.put(record)
        return ACCEPTED
    if ours.state is State.CONFIGURING and told.state is State.IDLE:
        tools.moves.put(record)
        return Ending(Outcome.RACED_TO_IDLE, "the provider has it at Idle")
    return Ending(Outcome.ACCEPTED, f"an old answer: {told.state}")


_ERROR: Final = Outcome.PROVIDER_ERROR


def as_told(ours: Machine, told: Machine) -> Machine:
    """The provider's record with our commitment; one that cannot be ours is refused."""
    if told.id != ours.id:
        raise InvalidMachine(
            f"asked for machine {ours.id}, was answered {told.id[:80]!r}", rule=MachineRule.ID
        )
    record = dataclasses.replace(
        told, assignment=restrict(ours.assignment, told.state), shard_metadata={}
    )
    check(record)
    if told.state is State.FAILED or RULES[told.state].cluster is Presence.NEVER:
        return record
    if told.cluster and told.cluster != ours.cluster:
        why = f"machine {ours.id}: meant for {ours.cluster}, but its provider has it at"
        raise InvalidMachine(f"{why} {told.cluster}", rule=MachineRule.CLUSTER)
    return dataclasses.replace(record, cluster=ours.cluster)


def gave_up(hand: InHand, tools: Tools, call: Call, error: MainstayError) -> Ending:
    """A call was refused, or not answered for as long as we try: nobody knows how it stands.

    One that was held back meanwhile is no failure: the machine is asked for instead.
    """
    if isinstance(error, HeldBack):
        tools.owe(hand.machine, hand.source)
        return Ending(Outcome.HELD_BACK, f"{call}: {error.message}")
    return failed(hand, tools, f"{call}: {error.message}", reaction_to(error))


def failed(hand: InHand, tools: Tools, why: str, reaction: Reaction) -> Ending:
    """Set a machine Failed that was on its way; one that is not is left alone."""
    if hand.machine not in tools.inventory:
        return GONE
    state = tools.inventory.machine(hand.machine).state
    if state not in TRANSITIONAL:
        return Ending(Outcome.STALE_STATE, f"{why} (the machine is {state})")
    record = tools.moves.fail(hand.machine, why)
    tools.journal.noticed(
        Event.MACHINE_FAILED,
        reason=reaction.outcome.value,
        machine=hand.machine,
        provider=hand.source,
        why=why,
    )
    if reaction.hardware:
        tools.failures.failed(record, hand.source)
    if reaction.outcome is Outcome.NO_CAPACITY:
        tools.sold_out(record, hand.source)
    return Ending(reaction.outcome, why)
