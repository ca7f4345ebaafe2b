"""Which flow carries out which kind of action, and where a machine must stand for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from mainstay.model.action import ActionKind
from mainstay.model.state import State
from mainstay.shard.actions.bootstrap import bootstrap
from mainstay.shard.actions.delete import delete
from mainstay.shard.actions.drain import drain
from mainstay.shard.actions.provision import provision
from mainstay.shard.hands.flows import Ending
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Order


class Flow(Protocol):
    """The life of one action, from a stable state to an ending."""

    async def __call__(self, order: Order, tools: Tools, *, until_s: float) -> Ending:
        """No call lasts beyond `until_s`."""


@dataclass(frozen=True, slots=True)
class Doing:
    """How one kind of action is done."""

    starts_in: State
    flow: Flow


# fmt: off
DOINGS: Final[Mapping[ActionKind, Doing]] = MappingProxyType({
    ActionKind.BOOTSTRAP: Doing(State.IDLE,        bootstrap),
    ActionKind.PROVISION: Doing(State.SPECULATIVE, provision),
    ActionKind.PREEMPT:   Doing(State.CONFIGURED,  drain),
    ActionKind.RECLAIM:   Doing(State.CONFIGURED,  drain),
    ActionKind.DELETE:    Doing(State.IDLE,        delete),
})
# fmt: on
