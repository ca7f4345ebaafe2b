"""What speaks against an order at the moment it would be taken on or begun."""

from typing import NamedTuple

from mainstay.model.action import Action, ActionKind
from mainstay.model.errors import MainstayError
from mainstay.shard.actions.doings import DOINGS
from mainstay.shard.admitted import HELD_BY, LABELS, Rule
from mainstay.shard.hands.tools import Tools
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition
from mainstay.shard.restrictions import unkept_text
from mainstay.shard.sharing import ACQUISITIONS


class Objection(NamedTuple):
    """Why an order is not carried out."""

    disposition: Disposition
    reason: str
    detail: str = ""


def let_go(order: Order, why: Objection, *, cycle: int) -> Disposed:
    """The record of an order that is not carried out."""
    return Disposed(
        order=order,
        disposition=why.disposition,
        reason=why.reason,
        detail=why.detail,
        cycle=cycle,
    )


def held_back(order: Order, tools: Tools) -> Objection | None:
    """What stops an order now, whatever was so when it was decided; None if nothing does."""
    if why := tools.acting.why_not(order.source):
        return Objection(Disposition.SUPPRESSED, "fenced", why)
    stance = tools.stance(order)
    if stance in HELD_BY:
        return Objection(*HELD_BY[stance])
    if why := tools.unanswered.why_not(order.source):
        return Objection(*LABELS[Rule.UNREACHABLE], why)
    return Objection(Disposition.DEFERRED, "back_off") if _backs_off(order, tools) else None


def not_kept(order: Order, tools: Tools) -> Objection | None:
    """Whether a later life would not know to wait for what is acquired now, and buy it again."""
    if order.action.kind not in ACQUISITIONS or tools.is_kept(order.source):
        return None
    return Objection(*LABELS[Rule.UNLISTED], unkept_text(order.source))


def no_news(order: Order, tools: Tools) -> Objection | None:
    """Whether an order is done already, or its machine is no longer where the plan saw it."""
    if order.action.machine in tools.ledger:
        return Objection(Disposition.DEDUPLICATED, "in_flight")
    if why := moved_on(order, tools):
        return Objection(Disposition.DEDUPLICATED, "stale_state", why)
    return None


def is_repeated(waiting: Action, planned: Action | None) -> bool:
    """Whether a plan wants the same; how long workloads have to leave makes no other action."""
    return planned is not None and (
        (waiting.kind, waiting.cluster, waiting.need)
        == (planned.kind, planned.cluster, planned.need)
    )


def _backs_off(order: Order, tools: Tools) -> bool:
    """Whether it is a bootstrap for a cluster that does not answer at present."""
    if order.action.kind is not ActionKind.BOOTSTRAP or order.need is None:
        return False
    return tools.backoff.is_backed_off(order.need.cluster, tools.clock.elapsed_s())


def moved_on(order: Order, tools: Tools) -> str:
    """Why the machine is no longer where the plan saw it; nothing where that cannot be told."""
    try:
        state = tools.inventory.machine(order.action.machine).state
    except MainstayError:
        return ""
    wanted = DOINGS[order.action.kind].starts_in
    return "" if state is wanted else f"the machine is {state}, not {wanted}"
