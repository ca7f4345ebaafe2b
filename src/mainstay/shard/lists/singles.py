"""What was said of single machines that were asked for by Get, on its way into the inventory."""

from collections.abc import Sequence

from mainstay.inventory.screen import refusal_of
from mainstay.model.batch import batch_of
from mainstay.shard.lists.belief import Belief
from mainstay.shard.lists.feeds import Feed
from mainstay.shard.lists.intake import UNKNOWN, Intake
from mainstay.shard.lists.looked import NOTHING, Looked
from mainstay.shard.lists.lookups import Found
from mainstay.shard.ownership.holdings import Holdings


async def take_found(
    feed: Feed, found: Sequence[Found], intake: Intake, belief: Belief, holdings: Holdings
) -> Looked:
    """Single machines of one provider; an answer that may be older than a list of them is none."""
    if not found:
        return NOTHING
    name = feed.name
    belief.hear_denials(found, holdings.owned.here)
    current = belief.current(name, found)
    errors = [(each.machine, each.refused) for each in current if each.refused is not None]
    looked = intake.refuse(name, [refusal_of(machine, error) for machine, error in errors])
    denied = [each.machine for each in current if each.is_denied]
    gone = [machine for machine in denied if belief.has(machine, name)]
    looked += await intake.remove(name, gone, UNKNOWN)
    records = [each.record for each in current if each.record is not None]
    if records:
        batch = batch_of(records, source=name, full=False)
        adoption = holdings.adoption(min(each.asked_at_s for each in current))
        looked += await intake.take_in(feed, batch, frozenset(), adoption)
    return looked
