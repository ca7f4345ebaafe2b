"""BigFleet's calls to a coordinator: reports of shards, and who owns what.

Only the leader answers. A call that changes anything returns once the store has it.
"""

from collections.abc import Iterator, Sequence

from mainstay.coordinator import commands, removal, reports, snapshots
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.memory import Memory
from mainstay.coordinator.metrics import CoordinatorMetrics, Heard
from mainstay.coordinator.records import Conflict
from mainstay.coordinator.seat import SECOND_NS, Seat
from mainstay.coordinator.store import Change, Store
from mainstay.model.coordination import Domain, Outcome, QuotaKind, ReportAck, ShardReport
from mainstay.model.coordinator_calls import (
    AssignedDomain,
    QuotaAllocation,
    RegisteredProvider,
    RegisteredShard,
    SeenReport,
    Snapshot,
)
from mainstay.model.errors import Fenced, Rejected, Unknown
from mainstay.model.ids import ShardId
from mainstay.runtime.log import logger
from mainstay.wire.tls import Identity


class CoordinatorService:
    """What `mainstay.wire.coordinator_server` serves."""

    def __init__(
        self, seat: Seat, store: Store, metrics: CoordinatorMetrics, *, report_interval_s: float
    ) -> None:
        self._seat, self._store, self._metrics = seat, store, metrics
        self._report_interval_ns = int(report_interval_s * SECOND_NS)
        self._log = logger(coordinator=seat.id)

    def require_leading(self) -> None:
        """NotLeading when this one does not lead."""
        self._seat.require_leading()

    async def report(self, report: ShardReport, by: Identity | None) -> ReportAck:
        """Take a report in, all of it or nothing more than its shard repeats; its answer."""
        began = self._seat.clock.elapsed_s()
        outcome = Heard.FAILED
        try:
            ack = await self._taken_in(report, certified=by is not None)
            outcome = Heard.ACCEPTED
        except Fenced:
            outcome = Heard.FENCED
            raise
        except Rejected:
            outcome = Heard.REJECTED
            raise
        finally:
            self._metrics.heard(outcome, self._seat.clock.elapsed_s() - began)
        return ack

    async def assign_domain(self, domain: Domain, shard: ShardId, by: Identity | None) -> None:
        """Give a domain that nobody has to a shard."""
        now_ns = self._seat.now_ns()
        await self._seat.reigning.one(
            lambda fleet: commands.assign_domain(fleet, domain, shard, now_ns)
        )
        self._tell("domain_assigned", by, key=domain.key, value=domain.value, shard=shard)

    async def unassign_domain(self, domain: Domain, by: Identity | None) -> None:
        """Take a domain away."""
        now_ns = self._seat.now_ns()
        await self._seat.reigning.one(lambda fleet: commands.unassign_domain(fleet, domain, now_ns))
        self._tell("domain_unassigned", by, key=domain.key, value=domain.value)

    async def remove_shard(
        self, shard: ShardId, by: Identity | None, *, force: bool = False
    ) -> None:
        """Forget a shard and all that it has; it is registered anew should it report again."""
        reigning, now_ns = self._seat.reigning, self._seat.now_ns()

        def removed(fleet: Fleet) -> Iterator[Change]:
            if shard not in fleet.shards:
                raise Unknown(f"there is no shard of this name: {shard}")
            heard = reigning.memory.heard.get(shard)
            if heard is not None and not force:
                removal.check_gone(
                    shard,
                    heard_at_ns=heard.at_ns,
                    now_ns=now_ns,
                    interval_ns=self._report_interval_ns,
                )
            yield from removal.remove_shard(fleet, shard, now_ns)

        await reigning.carry_out(removed)
        reigning.memory.forget_shard(shard)
        self._tell("shard_removed", by, shard=shard)

    async def list_shards(self) -> Sequence[RegisteredShard]:
        """By id."""
        fleet, memory = await self._seat.reigning.current(), self._seat.reigning.memory
        return [
            RegisteredShard(
                name,
                record.address,
                record.registered_at_ns,
                memory.heard[name].at_ns if name in memory.heard else 0,
            )
            for name, record in sorted(fleet.shards.items())
        ]

    async def list_domain_assignments(self) -> Sequence[AssignedDomain]:
        """By shard, key, value."""
        fleet = await self._seat.reigning.current()
        rows = [AssignedDomain(domain, record.shard) for domain, record in fleet.domains.items()]
        return sorted(rows, key=lambda row: (row.shard, row.domain))

    async def list_shard_reports(self, shard: str) -> Sequence[SeenReport]:
        """The last report of this shard, or of each."""
        return [
            SeenReport(
                shard=name,
                number=heard.report.number,
                received_at_ns=heard.at_ns,
                summary=heard.report.summary,
                missing=heard.report.missing,
            )
            for name, heard in sorted(self._seat.reigning.memory.heard.items())
            if shard in {"", name}
        ]

    async def list_quotas(self) -> Sequence[QuotaAllocation]:
        """Quotas of places, by provider and region."""
        fleet = await self._seat.reigning.current()
        return [
            QuotaAllocation(
                provider=of.name,
                region=of.region,
                per_shard={str(shard): granted for shard, granted in record.granted.items()},
            )
            for of, record in sorted(fleet.quotas.items())
            if of.kind is QuotaKind.PLACE
        ]

    async def list_providers(self) -> Sequence[RegisteredProvider]:
        """By name."""
        fleet = await self._seat.reigning.current()
        return [
            RegisteredProvider(name, record.address, record.region)
            for name, record in sorted(fleet.providers.items())
        ]

    async def snapshot_save(self, by: Identity | None) -> Snapshot:
        """The whole state, as the store has it."""
        term, now_s = self._seat.reigning.term, self._seat.clock.now_s()
        archive = await snapshots.saved(self._store, term=term, now_s=now_s)
        self._tell("snapshot_saved", by, bytes=len(archive.state))
        return Snapshot(archive.meta, archive.state)

    async def _taken_in(self, report: ShardReport, *, certified: bool) -> ReportAck:
        reigning, now_ns = self._seat.reigning, self._seat.now_ns()
        found: list[Conflict] = []

        def changes(fleet: Fleet) -> Iterator[Change]:
            found.clear()
            heard = reigning.memory.heard.get(report.shard)
            reports.check(fleet, report, None if heard is None else heard.stamp)
            yield reigning.above(fleet, report.term_seen)
            yield from reports.taken_in(
                fleet,
                report,
                certified=certified,
                now_ns=now_ns,
                conflicts=found,
                lines=reigning.memory.lines,
            )

        fleet = await reigning.carry_out(changes)
        self._seat.require(reigning)
        self._remember(reigning.memory, fleet, report, found)
        return reports.answer(
            fleet,
            report,
            term=reigning.term,
            lines=reigning.memory.lines,
            conflicts=found,
        )

    def _remember(
        self, memory: Memory, fleet: Fleet, report: ShardReport, found: list[Conflict]
    ) -> None:
        known = {*memory.disputes}
        memory.hear(report, found, self._seat.now_ns())
        pending = {each.id for _, each in fleet.pending(report.shard)}
        for ack in report.acks:
            if ack.outcome is not Outcome.ACCEPTED and ack.instruction in pending:
                memory.answered(ack)
        for key in memory.disputes.keys() - known:
            conflict = memory.disputes[key].conflict
            self._log.error(
                "conflict_seen", kind=conflict.kind.value, subject=conflict.subject,
                shards=conflict.shards, what=conflict.what,
            )  # fmt: skip

    def _tell(self, event: str, by: Identity | None, **facts: object) -> None:
        self._log.info(event, by="" if by is None else by.uri, **facts)
