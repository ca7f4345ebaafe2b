"""A shard's report: refused as a whole, or taken in part by part; and the answer to it.

The order matters. Strays are recorded before acknowledgements are heard, so that the next owner of
a domain knows of every machine that its last owner kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from mainstay.coordinator import acks, adrift, claims, keys, quotas
from mainstay.coordinator.claims import Intake, stamp_of
from mainstay.coordinator.fleet import Fleet, batched
from mainstay.coordinator.quotas import Lines
from mainstay.coordinator.records import (
    Conflict,
    InstructionRecord,
    MoveState,
    QuotaRecord,
    Stamp,
    StrayState,
)
from mainstay.coordinator.store import Change
from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    Instruction,
    Payload,
    QuotaOf,
    ReportAck,
    ShardReport,
    TransferOwnership,
    UnassignDomain,
)
from mainstay.model.errors import Fenced, Rejected, Unavailable
from mainstay.model.ids import ShardId, is_id

OFFERED_MAX: Final = 64
"""Instructions in one answer."""

BYTES_MAX: Final = 2 << 20
"""Of all the text in a report."""

MOST: Final = {
    "missing": 100,
    "acks": 1_000,
    "strays": 10_000,
    "clusters": 10_000,
    "away": adrift.AWAY_MAX,
}
"""Rows of each part of a report."""


def check(fleet: Fleet, report: ShardReport, last_seen: Stamp | None) -> None:
    """Refuse what no leader takes in. Fenced: a newer life of this shard has reported; Rejected:
    not a report, too large, or not newer than the last one; Unavailable: not now.

    `last_seen` is the last report that this leader has heard; the last one that changed anything
    is recorded.
    """
    if not is_id(report.shard):
        raise Rejected(f"a report must name its shard: {report.shard[:80]!r}")
    for part, most in MOST.items():
        found = len(getattr(report, part))
        if found > most:
            raise Rejected(f"a report of {report.shard} has {found} {part}: at most {most}")
    if (size := _bytes(report)) > BYTES_MAX:
        raise Rejected(f"a report of {report.shard} has {size} bytes: at most {BYTES_MAX}")
    standing = fleet.shards.get(report.shard)
    if standing is None:
        return
    _check_order(report, max(last_seen or standing.last_report, standing.last_report))
    if standing.removing:
        raise Unavailable(f"{report.shard} is being removed: report again later")


def taken_in(
    fleet: Fleet,
    report: ShardReport,
    *,
    certified: bool,
    now_ns: int,
    conflicts: list[Conflict],
    lines: Lines | None = None,
) -> Iterator[Change]:
    """What a report changes. Each change is to be made before the next is asked for.

    `conflicts` and `lines` are the leader's memory: the first gets what the report is at odds
    with, the second is brought up to date.
    """
    check(fleet, report, None)
    lines = {} if lines is None else lines
    intake = Intake(
        fleet=fleet, report=report, certified=certified, now_ns=now_ns, conflicts=conflicts
    )
    if report.can_hand_over:
        yield from adrift.offered_again(intake)
    yield from claims.shard(intake)
    if not report.can_hand_over:
        yield from acks.acks(intake)
        return
    yield from claims.providers(intake)
    yield from claims.clusters(intake)
    yield from claims.strays(intake)
    yield from claims.domains(intake)
    yield from acks.acks(intake)
    yield from adrift.parked(intake)
    yield from adrift.unaware(intake)
    adrift.adrift(intake)
    quotas.hear(lines, report)
    yield from _quotas(intake, lines)
    yield from claims.narrowed(intake)


def answer(
    fleet: Fleet,
    report: ShardReport,
    *,
    term: int,
    lines: Lines | None = None,
    conflicts: Iterable[Conflict] = (),
) -> ReportAck:
    """What a shard is told: what it is to do, by number, how much it may hold, and remarks."""
    shard = report.shard
    return ReportAck(
        term=term,
        instructions=tuple(
            Instruction(
                term=term, sequence=sequence, id=record.id, payload=_filled(fleet, report, record)
            )
            for sequence, record in offered(fleet, shard)
            if not _is_obscure(report, record.payload)
        ),
        grants=quotas.grants(fleet, shard, lines or {}),
        remarks=remarks(fleet, report, conflicts),
    )


def offered(fleet: Fleet, shard: ShardId) -> list[tuple[int, InstructionRecord]]:
    """The instructions that a shard may be told of now.

    What is about a domain waits until what came before it about that domain is acknowledged: a
    shard that fails at one and manages the next would do them in the wrong order. Where there are
    too many, takes come first: what is to be taken is nobody's, and others may wait for something.
    """
    takes: list[tuple[int, InstructionRecord]] = []
    others: list[tuple[int, InstructionRecord]] = []
    changing: set[Domain] = set()
    lying: set[Domain] = set()
    for sequence, record in fleet.pending(shard):
        about = _about(record.payload)
        changes = isinstance(record.payload, AssignDomain | UnassignDomain)
        waits = changing & about or (changes and lying & about)
        (changing if changes else lying).update(about)
        if not waits:
            is_take = isinstance(record.payload, TransferOwnership) and record.payload.machines
            (takes if is_take else others).append((sequence, record))
    return sorted((takes + others)[:OFFERED_MAX], key=lambda each: each[0])


def remarks(fleet: Fleet, report: ShardReport, conflicts: Iterable[Conflict]) -> tuple[str, ...]:
    """What people at the shard should know, once its report was taken in."""
    said = [f"{conflict.kind} {conflict.subject}: {conflict.what}" for conflict in conflicts]
    standing = fleet.shards.get(report.shard)
    if standing is not None and report.address and standing.address != report.address:
        said.append(
            f"the address {report.address} was not taken over, {standing.address} stays:"
            " report with a certificate of this shard"
        )
    return tuple(said)


def _check_order(report: ShardReport, last: Stamp) -> None:
    if stamp_of(report) > last:
        return
    if report.epoch < last.epoch:
        raise Fenced(
            f"{report.shard} has reported in epoch {last.epoch}, this is {report.epoch}: stop one"
            " of the two if there are two; if its data was lost, write a number greater than"
            f" {last.epoch} into the file epoch of its data directory and start it again",
            epoch=last.epoch,
        )
    raise Rejected(
        f"a report of {report.shard} is out of order: {report.number}"
        f" after {last.number} in epoch {report.epoch}"
    )


def _quotas(intake: Intake, lines: Lines) -> Iterator[Change]:
    """An answer that may raise what the shard holds carries the stamp of its report, changed
    records or not: an older report that comes late must not be read as giving it back.
    """
    fleet, mine = intake.fleet, intake.report.shard
    changed: list[tuple[QuotaOf, QuotaRecord]] = []
    raises = False
    waiting, taken = quotas.reserved(fleet, mine), quotas.summed(intake.ended)
    for line in sorted(intake.report.quota):
        kept = waiting.get(line.of, 0) + taken.get(line.of, 0)
        after = quotas.settle(fleet, mine, line, lines, kept)
        if after is None:
            continue
        raises = raises or after.granted[mine] > quotas.held(line)
        if after != fleet.quotas[line.of]:
            changed.append((line.of, after))
    for few in batched(changed):
        draft = intake.begin()
        for of, after in few:
            draft.put(keys.quota(of), after)
        yield draft.change()
    if raises and fleet.shards[mine].last_report != stamp_of(intake.report):
        yield intake.begin().change()


def _filled(fleet: Fleet, report: ShardReport, record: InstructionRecord) -> Payload:
    """Which machines of a domain are away is told as it is now, and not as it was. What its owner
    knows to be away stays so, unless it is known to be nobody's.

    Of a move that was called off nothing is wanted any more.
    """
    payload = record.payload
    if isinstance(payload, AssignDomain):
        away = {
            machine
            for machine in fleet.strays_in(payload.domain)
            if fleet.strays[machine].shard != report.shard
            and fleet.strays[machine].state is not StrayState.PARKED
        }
        away |= {
            handed.machine
            for handed in report.away
            if handed.domain == payload.domain and handed.machine not in fleet.strays
        }
        return replace(payload, away=tuple(sorted(away)))
    if isinstance(payload, UnassignDomain) or payload.wanted is None:
        return payload
    move = fleet.moves.get(record.move)
    if move is not None and move.state is MoveState.WITHDRAWN:
        return replace(payload, wanted=replace(payload.wanted, machines_max=0))
    return payload


def _is_obscure(report: ShardReport, payload: Payload) -> bool:
    """Whether a shard would forget machines that are away: it has more than it can say."""
    again = isinstance(payload, AssignDomain) and payload.domain in report.domains
    return again and report.can_hand_over and not adrift.says_all(report)


def _about(payload: Payload) -> set[Domain]:
    match payload:
        case AssignDomain(domain=domain) | UnassignDomain(domain=domain):
            return {domain}
        case TransferOwnership(machines=machines):
            return {handed.domain for handed in machines if handed.domain is not None}
        case _:
            return set()


def _bytes(report: ShardReport) -> int:
    texts: list[str] = [report.address, *report.clusters]
    for stray in report.strays:
        texts += [stray.machine, stray.provider, *(stray.domain or ())]
    for ack in report.acks:
        texts += [ack.instruction, ack.reason]
        texts += [text for one in ack.given for text in (one.machine, one.provider)]
    for handed in report.away:
        texts += [handed.machine, handed.provider, *(handed.domain or ())]
    texts += [text for domain in report.domains for text in domain]
    texts += [text for line in report.providers for text in line]
    texts += [text for line in report.quota for text in (line.of.name, line.of.region)]
    return sum(map(len, texts))
