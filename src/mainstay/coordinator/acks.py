"""What shards say became of their instructions.

One that was done is gone, and its domain or its move goes on. One that failed, or was thought
stale, stays and is offered again. One that a shard calls invalid is gone too: nothing was done by
it, and never will be.

A shard answers an instruction that it has done before from memory. After an old snapshot was
restored its effect may have been undone since: what the same report says otherwise is not believed.
"""

from collections.abc import Iterator
from dataclasses import replace

from mainstay.coordinator import adrift, commands, handover, keys, quotas
from mainstay.coordinator.claims import Intake
from mainstay.coordinator.handover import Event, Happening
from mainstay.coordinator.records import DomainState, InstructionRecord
from mainstay.coordinator.store import Change
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Handed,
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


def _ack(
    intake: Intake, sequence: int, record: InstructionRecord, ack: InstructAck
) -> Iterator[Change]:
    done = keys.instruction(intake.report.shard, sequence)
    accepted = ack.outcome is Outcome.ACCEPTED
    if accepted:
        intake.ended.extend(record.quota)
    match record.payload:
        case AssignDomain(domain=domain):
            yield _assigned(intake, domain, done, record, ack)
        case UnassignDomain(domain=domain):
            yield _unassigned(intake, domain, done, ack)
        case _:
            yield from _moved(intake, record, ack, done)


def _assigned(
    intake: Intake, domain: Domain, done: str, record: InstructionRecord, ack: InstructAck
) -> Change:
    """What the shard let go of because this was its first domain lies in none that is known."""
    mine, report = intake.report.shard, intake.report
    accepted, still_held = ack.outcome is Outcome.ACCEPTED, quotas.held_by(report)
    draft = intake.begin()
    draft.delete(done)
    quotas.wait_with(draft, ack.quota, None, giver=mine, still_held=still_held)
    if not accepted:
        quotas.wait_with(draft, record.quota, domain, giver=mine, still_held=still_held)
    standing = draft.domain(domain)
    if standing is None or (standing.shard, standing.state) != (mine, DomainState.ARRIVING):
        return draft.change()
    if not accepted:
        draft.delete(keys.domain(domain))
    elif report.can_hand_over and domain not in report.domains:
        draft.instruct(mine, record.payload, quota=record.quota, now_ns=intake.now_ns)
    else:
        draft.put(keys.domain(domain), replace(standing, state=DomainState.HELD))
    return draft.change()


def _unassigned(intake: Intake, domain: Domain, done: str, ack: InstructAck) -> Change:
    """The next owner is told only now that everything of the last one's is recorded. A refusal
    leaves it with the owner, which hears again which machines are away.
    """
    mine = intake.report.shard
    accepted, still_held = ack.outcome is Outcome.ACCEPTED, quotas.held_by(intake.report)
    draft = intake.begin()
    draft.delete(done)
    if accepted and domain in intake.report.domains:
        draft.instruct(mine, UnassignDomain(domain=domain), now_ns=intake.now_ns)
        return draft.change()
    standing = draft.domain(domain)
    quotas.wait_with(draft, ack.quota, domain, giver=mine, still_held=still_held)
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
        happening = Happening(
            event=Event.GAVE,
            now_ns=intake.now_ns,
            answers=done,
            given=_gone(intake, ack) if accepted else (),
            quota=ack.quota,
            still_held=quotas.held_by(intake.report),
        )
        yield from handover.give(intake.begin, record.move, happening)
        return
    happening = Happening(
        event=Event.TOOK if accepted else handover.turned_down(intake.fleet, move),
        now_ns=intake.now_ns,
        answers=done,
        listed={stray.machine: stray for stray in intake.report.strays},
        quota=record.quota,
        still_held=quotas.held_by(intake.report),
    )
    yield from handover.carry(intake.begin, record.move, happening)


def _gone(intake: Intake, ack: InstructAck) -> tuple[Handed, ...]:
    """What of that which a donor says it gave it does not have: it may have got it back."""
    report = intake.report
    listed = {stray.machine for stray in report.strays}
    away = {handed.machine for handed in report.away}
    return tuple(
        handed
        for handed in ack.given
        if handed.machine not in listed
        and (
            handed.machine in away
            or handed.domain not in report.domains
            or not adrift.says_all(report)
        )
    )
