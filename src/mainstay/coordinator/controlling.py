"""What an administrator tells a coordinator beyond BigFleet's calls. Each is logged."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from mainstay.coordinator import adrift, commands
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.seat import Seat
from mainstay.coordinator.store import Change
from mainstay.model import coordinator_calls as c
from mainstay.model.coordination import Domain, QuotaKind, QuotaOf
from mainstay.model.coordinator_views import CoordinatorStamp
from mainstay.model.errors import Rejected
from mainstay.model.ids import ShardId, parse_cluster_id, parse_machine_id
from mainstay.runtime.log import logger

_Order: TypeAlias = (
    c.MoveDomainRequest
    | c.SetQuotaRequest
    | c.ClearQuotaRequest
    | c.UnbindClusterRequest
    | c.CancelMoveRequest
    | c.ReturnMachinesRequest
)


class Controlling:
    """The calls of `mainstay.v1.CoordinatorControl`."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._log = logger(coordinator=seat.id)

    def require_leading(self) -> None:
        """NotLeading when this one does not lead."""
        self._seat.require_leading()

    async def move_domain(self, request: c.MoveDomainRequest) -> c.CoordinatorDone:
        """Give a domain to another shard, once its owner has let go of it."""
        domain, to = Domain(request.key, request.value), ShardId(request.to)
        now_ns = self._seat.now_ns()
        after = await self._carried(
            request, lambda fleet: commands.move_domain(fleet, domain, to, now_ns)
        )
        record = after.domains[domain]
        if record.shard == to:
            return self._done(f"{to} has it, or is being told to take it.")
        return self._done(f"{record.shard} is told to let go of it; then {to} gets it.")

    async def set_quota(self, request: c.SetQuotaRequest) -> c.CoordinatorDone:
        """Entitle a cluster, or a provider in a region."""
        of = _quota_of(request)
        await self._carried(
            request,
            lambda fleet: commands.set_quota(
                fleet, of, request.entitled, forget_waiting=request.forget_waiting
            ),
        )
        return self._done(
            f"All shards together may hold {request.entitled}; each hears its part with its next"
            " report. What is held already is not taken away while it is used."
        )

    async def clear_quota(self, request: c.ClearQuotaRequest) -> c.CoordinatorDone:
        """Limit it no longer."""
        of = _quota_of(request)
        await self._carried(request, lambda fleet: commands.clear_quota(fleet, of))
        return self._done("It is limited no longer; each shard hears so with its next report.")

    async def unbind_cluster(self, request: c.UnbindClusterRequest) -> c.CoordinatorDone:
        """Forget which shard serves a cluster."""
        cluster = parse_cluster_id(request.cluster)
        await self._carried(request, lambda fleet: commands.unbind_cluster(fleet, cluster))
        return self._done("The next shard that reports a session of it has it for good.")

    async def cancel_move(self, request: c.CancelMoveRequest) -> c.CoordinatorDone:
        """Take back a move."""
        await self._carried(request, lambda fleet: commands.cancel_move(fleet, request.move))
        return self._done("What its donor gives all the same goes back to it.")

    async def return_machines(self, request: c.ReturnMachinesRequest) -> c.CoordinatorDone:
        """Let a shard have again what it was told is away, and nobody has."""
        reigning, now_ns = self._seat.reigning, self._seat.now_ns()
        shard = ShardId(request.shard)
        machines = tuple(map(parse_machine_id, request.machines))

        def returned(fleet: Fleet) -> Iterator[Change]:
            heard = {name: each.report for name, each in reigning.memory.heard.items()}
            yield from adrift.return_machines(fleet, shard, machines, heard, now_ns)

        await reigning.carry_out(returned)
        self._tell(request)
        return self._done(f"{shard} is told to take what nobody has of its domains.")

    async def _carried(self, request: _Order, decide: Callable[[Fleet], Change]) -> Fleet:
        after = await self._seat.reigning.one(decide)
        self._tell(request)
        return after

    def _tell(self, request: _Order) -> None:
        self._log.info(
            "order_carried_out", what=type(request).__name__, by=request.by, reason=request.reason
        )

    def _done(self, sentence: str) -> c.CoordinatorDone:
        stamp = CoordinatorStamp(coordinator=self._seat.id, term=self._seat.reigning.term)
        return c.CoordinatorDone(stamp=stamp, sentence=sentence)


def _quota_of(request: c.SetQuotaRequest | c.ClearQuotaRequest) -> QuotaOf:
    if request.kind not in list(QuotaKind):
        raise Rejected(f"not a kind of quota: {request.kind[:80]!r} ({' or '.join(QuotaKind)})")
    return QuotaOf(QuotaKind(request.kind), request.name, request.region)
