"""What a coordinator answers to people and tools, from memory only: nothing here asks the store."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from mainstay.coordinator import quotas
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.memory import Dispute, Memory
from mainstay.coordinator.plans import Planner
from mainstay.coordinator.records import SETTLED, ConflictKind, MoveRecord
from mainstay.coordinator.seat import Seat
from mainstay.coordinator.told import told_payload, told_wanted
from mainstay.model import coordinator_views as v
from mainstay.model.coordination import Domain, QuotaOf, ShardReport
from mainstay.model.ids import ShardId

RowT = TypeVar("RowT")
EachT = TypeVar("EachT")

WHAT_TO_DO: Final = {
    ConflictKind.CLUSTER: "point the cluster at the shard it is bound to, or unbind it there first",
    ConflictKind.PROVIDER: "give the two providers different names",
    ConflictKind.DOMAIN: "nothing: the claimant was told to let it go",
    ConflictKind.STRAY: "find out which shard's provider record is true, then remove the other",
    ConflictKind.TAKES_ALL: "assign a domain to the shard that takes everything",
    ConflictKind.ADRIFT: (
        "wait until every shard has reported; what no shard has then, give back with"
        " `mainstay rebalance return`"
    ),
    ConflictKind.PARKED: (
        "give the shard that provider, or free the machines at the provider; then use"
        " `mainstay rebalance return`"
    ),
    ConflictKind.UNOWNED: "assign it again, to that shard or to another",
}


class Reading:
    """Answers of `mainstay.v1.CoordinatorView`."""

    def __init__(self, seat: Seat, planner: Planner) -> None:
        self._seat, self._planner = seat, planner

    def require_leading(self) -> None:
        """NotLeading when this one does not lead."""
        self._seat.require_leading()

    async def shards(self, query: v.ShardQuery) -> v.ShardRows:
        """Who reports."""
        fleet, memory = await self._read()
        names = [name for name in sorted(fleet.shards) if query.shard in {"", name}]
        return v.ShardRows(
            stamp=self._stamp(), rows=tuple(_shard(fleet, memory, name) for name in names)
        )

    async def domains(self, query: v.DomainQuery) -> v.DomainRows:
        """Who has which domain."""
        fleet, _ = await self._read()
        found = [
            domain
            for domain, record in fleet.domains.items()
            if query.shard in {"", record.shard, record.to}
            and query.key in {"", domain.key}
            and query.value in {"", domain.value}
        ]
        return v.DomainRows(
            stamp=self._stamp(),
            matched=len(found),
            rows=_made(sorted(found), query.limit, lambda each: _domain(fleet, each)),
        )

    async def clusters(self, query: v.ClusterBindingQuery) -> v.ClusterBindingRows:
        """Who serves which cluster."""
        fleet, _ = await self._read()
        found = [
            v.ClusterBindingRow(cluster=name, shard=record.shard, bound_at_ns=record.bound_at_ns)
            for name, record in sorted(fleet.clusters.items())
            if query.cluster in {"", name} and query.shard in {"", record.shard}
        ]
        return v.ClusterBindingRows(
            stamp=self._stamp(), matched=len(found), rows=_limited(found, query.limit)
        )

    async def quotas(self, query: v.QuotaQuery) -> v.QuotaRows:
        """Who holds how much of what."""
        fleet, memory = await self._read()
        found = [
            of
            for of in sorted(fleet.quotas)
            if query.kind in {"", of.kind}
            and query.name in {"", of.name}
            and query.region in {"", of.region}
        ]
        rows = tuple(_quota(fleet, memory, of) for of in found)
        return v.QuotaRows(stamp=self._stamp(), rows=rows)

    async def providers(self, _: v.ProviderRegistryQuery) -> v.ProviderRegistryRows:
        """Providers that shards have told of."""
        fleet, memory = await self._read()
        told = {
            name: {each.name for each in heard.report.providers}
            for name, heard in memory.heard.items()
        }
        rows = tuple(
            v.ProviderRegistryRow(
                name=name,
                address=record.address,
                region=record.region,
                shards=tuple(sorted(shard for shard, names in told.items() if name in names)),
            )
            for name, record in sorted(fleet.providers.items())
        )
        return v.ProviderRegistryRows(stamp=self._stamp(), rows=rows)

    async def instructions(self, query: v.InstructionQuery) -> v.InstructionRows:
        """What shards were told and have not done."""
        fleet, memory = await self._read()
        found = [
            (shard, sequence)
            for shard in sorted(fleet.instructions)
            if query.shard in {"", shard}
            for sequence, _ in fleet.pending(shard)
        ]
        return v.InstructionRows(
            stamp=self._stamp(),
            matched=len(found),
            rows=_made(found, query.limit, lambda each: _instruction(fleet, memory, *each)),
        )

    async def moves(self, query: v.MoveQuery) -> v.MoveRows:
        """Hand-overs, under way and past; the newest first."""
        fleet, _ = await self._read()
        found = [
            (name, move)
            for name, move in fleet.moves.items()
            if query.shard in {"", move.donor, move.recipient}
            and not (query.unsettled and move.state in SETTLED)
        ]
        found.sort(key=lambda each: (-each[1].created_at_ns, each[0]))
        return v.MoveRows(
            stamp=self._stamp(),
            matched=len(found),
            rows=_made(found, query.limit, lambda each: _move(*each)),
        )

    async def conflicts(self, query: v.ConflictQuery) -> v.ConflictRows:
        """What two claim."""
        _, memory = await self._read()
        shard = ShardId(query.shard)
        found = memory.disputes_of(shard) if shard else memory.disputes.values()
        rows = tuple(sorted(map(_conflict, found), key=lambda each: (each.kind, each.subject)))
        return v.ConflictRows(stamp=self._stamp(), rows=rows)

    async def plan(self, _: v.PlanQuery) -> v.PlanRow:
        """What the planner would do now, and why not more."""
        reigning = self._seat.reigning
        now_ns = self._seat.now_ns()
        planned = await self._planner.planned(reigning, now_ns)
        return v.PlanRow(
            stamp=self._stamp(),
            at_ns=now_ns,
            acts=self._planner.acts,
            proposals=tuple(
                v.ProposalRow(
                    donor=each.donor,
                    recipient=each.recipient,
                    tier=int(each.tier),
                    wanted=told_wanted(each.wanted),
                    machines_max=each.wanted.machines_max,
                    priority=each.wanted.priority,
                    fingerprint=each.fingerprint,
                    why=each.why,
                )
                for each in planned.proposals
            ),
            verdicts=tuple(
                v.VerdictRow(
                    shard=each.shard,
                    fingerprint=each.fingerprint,
                    priority=each.priority,
                    age=each.age_cycles,
                    sentence=each.sentence,
                )
                for each in planned.verdicts
            ),
        )

    async def standing(self, _: v.StandingQuery) -> v.StandingRow:
        """Who this one is, and who leads; answered by whoever is asked."""
        seat = self._seat
        leader = seat.leader
        return v.StandingRow(
            id=seat.id,
            leads=seat.leads,
            term=seat.term,
            leader="" if leader is None else leader.address,
            store=seat.store,
        )

    async def _read(self) -> tuple[Fleet, Memory]:
        reigning = self._seat.reigning
        return await reigning.current(), reigning.memory

    def _stamp(self) -> v.CoordinatorStamp:
        return v.CoordinatorStamp(coordinator=self._seat.id, term=self._seat.reigning.term)


def _shard(fleet: Fleet, memory: Memory, name: ShardId) -> v.ShardRow:
    record, heard = fleet.shards[name], memory.heard.get(name)
    known = v.ShardRow(
        id=name,
        address=record.address,
        epoch=record.epoch,
        registered_at_ns=record.registered_at_ns,
        domains=len(fleet.domains_of(name)),
        clusters=len(fleet.clusters_of(name)),
        strays=len(fleet.strays_of(name)),
        takes_all=record.takes_all,
        instructions=len(fleet.pending(name)),
        conflicts=len(memory.disputes_of(name)),
        removing=record.removing,
    )
    return known if heard is None else _with_report(known, heard.report, heard.at_ns)


def _with_report(known: v.ShardRow, report: ShardReport, at_ns: int) -> v.ShardRow:
    return replace(
        known,
        last_heartbeat_ns=at_ns,
        machines=report.summary.total_machines,
        free=report.summary.free_machines,
        can_hand_over=report.can_hand_over,
        shortfalls=len(report.missing),
    )


def _domain(fleet: Fleet, domain: Domain) -> v.DomainRow:
    record = fleet.domains[domain]
    strays = fleet.strays_in(domain)
    return v.DomainRow(
        key=domain.key,
        value=domain.value,
        shard=record.shard,
        to=record.to,
        state=record.state.value,
        strays=sum(fleet.strays[each].shard != record.shard for each in strays),
    )


def _quota(fleet: Fleet, memory: Memory, of: QuotaOf) -> v.QuotaRow:
    record = fleet.quotas[of]
    told = memory.lines.get(of, {}).keys()
    return v.QuotaRow(
        kind=of.kind.value,
        name=of.name,
        region=of.region,
        entitled=record.entitled,
        granted=quotas.spoken_for(record),
        shares=(
            *(
                _share(memory, shard, of, record.granted.get(shard, 0))
                for shard in sorted(record.granted.keys() | told)
            ),
            *(
                v.QuotaShare(shard=f"({domain or 'anywhere'})", granted=count)
                for domain, count in sorted(record.waiting.items())
            ),
        ),
    )


def _share(memory: Memory, shard: ShardId, of: QuotaOf, granted: int) -> v.QuotaShare:
    line = memory.line(shard, of)
    if line is None:
        return v.QuotaShare(shard=shard, granted=granted)
    return v.QuotaShare(
        shard=shard, granted=granted, held=line.held, used=line.used, wanted=line.wanted
    )


def _instruction(fleet: Fleet, memory: Memory, shard: ShardId, sequence: int) -> v.InstructionRow:
    record = fleet.instructions[shard][sequence]
    tried = memory.attempts.get(record.id)
    return v.InstructionRow(
        shard=shard,
        sequence=sequence,
        id=record.id,
        kind=type(record.payload).__name__,
        what=told_payload(record.payload),
        move=record.move,
        created_at_ns=record.created_at_ns,
        attempts=0 if tried is None else tried.times,
        last_outcome="" if tried is None else tried.outcome.name.lower(),
        last_reason="" if tried is None else tried.reason,
    )


def _move(name: str, move: MoveRecord) -> v.MoveRow:
    return v.MoveRow(
        id=name,
        donor=move.donor,
        recipient=move.recipient,
        tier=int(move.tier),
        state=move.state.value,
        wanted="" if move.wanted is None else told_wanted(move.wanted),
        machines=tuple(each.machine for each in move.machines),
        created_at_ns=move.created_at_ns,
        settled_at_ns=move.settled_at_ns,
        why=move.why,
    )


def _conflict(dispute: Dispute) -> v.ConflictRow:
    conflict = dispute.conflict
    return v.ConflictRow(
        kind=conflict.kind.value,
        subject=conflict.subject,
        holder=dispute.holder,
        claimant=dispute.claimant,
        first_seen_ns=dispute.first_seen_ns,
        last_seen_ns=dispute.last_seen_ns,
        times=dispute.times,
        what_to_do=f"{conflict.what}: {WHAT_TO_DO[conflict.kind]}",
    )


def _made(found: Sequence[EachT], limit: int, make: Callable[[EachT], RowT]) -> tuple[RowT, ...]:
    """Rows are made of those only that are told."""
    return tuple(map(make, _limited(found, limit)))


def _limited(found: Iterable[RowT], limit: int) -> tuple[RowT, ...]:
    """A limit of zero is none."""
    told = tuple(found)
    return told[:limit] if limit > 0 else told
