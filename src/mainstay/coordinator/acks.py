"""What shards say became of their instructions.

One that was done is gone, and its domain or its move goes on. One that failed, or was thought
stale, stays and is offered again. One that a shard calls invalid is gone too: nothing was done by
it, and never will be.
"""

from collections.abc import Iterator
from dataclasses import replace

from mainstay.coordinator import commands, handover, keys
from mainstay.coordinator.claims import Intake
from mainstay.coordinator.handover import Event, Happening
from mainstay.coordinator.records import (
    DomainState,
    InstructionRecord,
    StrayRecord,
    StrayState,
)
from mainstay.coordinator.store import Change
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    InstructAck,
    Outcome,
    UnassignDomain,
)

FINAL = frozenset({Outcome.ACCEPTED, Outcome.REJECTED_INVALID})


def acks(intake: Intake) -> Iterator[Change]:
    """All of a report, in the order of their instructions. Unknown ids are replays: ignored."""
    said = {ack.instruction: ack for ack in intake.report.acks if ack.outcome in FINAL}
    for sequence, record in intake.fleet.pending(intake.report.shard):
        if record.id in said:
            yield from _ack(intake, sequence, record, said[record.id])


def regained(intake: Intake) -> Iterator[Change]:
    """What a shard has given away by instructions that nobody here knows of, because all state was
    lost: it gets it back. To be asked only of a report that makes its shard known.
    """
    mine, fleet = intake.report.shard, intake.fleet
    given = [handed for ack in intake.report.acks for handed in ack.given]
    adrift = [
        handed
        for handed in given
        if handed.machine not in fleet.strays
        and handover.owner_of(fleet, handed.domain) in {None, mine}
    ]
    for few in handover.batched(adrift):
        draft = intake.begin()
        for handed in few:
            record = StrayRecord(
                shard=mine,
                provider=handed.provider,
                domain=handed.domain,
                state=StrayState.HELD,
                home=mine,
            )
            draft.put(keys.stray(handed.machine), record)
        yield draft.change()


def _ack(
    intake: Intake, sequence: int, record: InstructionRecord, ack: InstructAck
) -> Iterator[Change]:
    done = keys.instruction(intake.report.shard, sequence)
    accepted = ack.outcome is Outcome.ACCEPTED
    match record.payload:
        case AssignDomain(domain=domain):
            yield _assigned(intake, domain, done, accepted=accepted)
        case UnassignDomain(domain=domain):
            yield _unassigned(intake, domain, done, accepted=accepted)
        case _:
            yield from _moved(intake, record, ack, done)


def _assigned(intake: Intake, domain: Domain, done: str, *, accepted: bool) -> Change:
    draft = intake.begin()
    draft.delete(done)
    standing = draft.domain(domain)
    if standing is not None and standing.shard == intake.report.shard:
        if accepted and standing.state is DomainState.ARRIVING:
            draft.put(keys.domain(domain), replace(standing, state=DomainState.HELD))
        if not accepted and standing.state is DomainState.ARRIVING:
            draft.delete(keys.domain(domain))
    return draft.change()


def _unassigned(intake: Intake, domain: Domain, done: str, *, accepted: bool) -> Change:
    """The next owner is told only now that everything of the last one's is recorded. A refusal
    leaves it with the owner, which hears again which machines are away.
    """
    mine = intake.report.shard
    draft = intake.begin()
    draft.delete(done)
    standing = draft.domain(domain)
    if standing is None or (standing.shard, standing.state) != (mine, DomainState.LEAVING):
        return draft.change()
    heir = standing.to if accepted else mine
    if handover.is_there(intake.fleet, heir):
        commands.assign(draft, domain, heir, intake.now_ns)
    else:
        draft.delete(keys.domain(domain))
    return draft.change()


def _moved(
    intake: Intake, record: InstructionRecord, ack: InstructAck, done: str
) -> Iterator[Change]:
    accepted = ack.outcome is Outcome.ACCEPTED
    move = intake.fleet.moves[record.move]
    if handover.is_asked(move):
        given = ack.given if accepted else ()
        yield from handover.give(
            intake.begin, record.move, given, answers=done, now_ns=intake.now_ns
        )
        return
    happening = Happening(
        event=Event.TOOK if accepted else handover.turned_down(intake.fleet, move),
        now_ns=intake.now_ns,
        answers=done,
        listed={stray.machine: stray for stray in intake.report.strays},
    )
    yield from handover.carry(intake.begin, record.move, happening)
