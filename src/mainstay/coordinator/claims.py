"""What a report says of its shard, its providers, clusters, strays and domains, in that order.

Each part is a generator of changes; each change is to be made before the next is asked for. The
first change of a report carries its stamp, so that an older report that comes late, to whichever
leader, changes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mainstay.coordinator import commands, handover, keys, quotas
from mainstay.coordinator.fleet import Begin, Draft, Fleet, batched
from mainstay.coordinator.records import (
    ClusterRecord,
    Conflict,
    ConflictKind,
    DomainRecord,
    DomainState,
    ProviderRecord,
    ShardRecord,
    Stamp,
    StrayRecord,
    StrayState,
)
from mainstay.coordinator.store import Change
from mainstay.model.coordination import Domain, QuotaMoved, ShardReport, Stray, UnassignDomain
from mainstay.model.ids import MachineId

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """A report on its way in."""

    fleet: Fleet
    report: ShardReport
    certified: bool
    now_ns: int
    conflicts: list[Conflict]
    ended: list[QuotaMoved] = field(default_factory=list)
    """What went with what the shard has taken, as this report is the first to say."""

    def begin(self) -> Draft:
        """A draft that carries the report's stamp, and makes the shard known if it is not."""
        draft = Draft(self.fleet)
        name, stamp = self.report.shard, stamp_of(self.report)
        standing = self.fleet.shards.get(name) or self.registered()
        if standing.last_report != stamp:
            draft.put(keys.shard(name), replace(standing, last_report=stamp, epoch=stamp.epoch))
        return draft

    def differ(
        self, kind: ConflictKind, subject: str, other: str, what: str, until: Domain | None = None
    ) -> None:
        """Tell of a conflict with another shard."""
        shards = tuple(sorted({self.report.shard, type(self.report.shard)(other)}))
        self.conflicts.append(Conflict(kind, subject, shards, what, until))

    def registered(self) -> ShardRecord:
        """The shard, when nobody knows it yet."""
        return ShardRecord(
            address=self.report.address,
            registered_at_ns=self.now_ns,
            takes_all=self.report.takes_all,
        )


def stamp_of(report: ShardReport) -> Stamp:
    """Which report it is."""
    return Stamp(report.epoch, report.number)


def shard(intake: Intake) -> Iterator[Change]:
    """The shard itself. That it no longer takes everything is believed last, by `narrowed`."""
    report = intake.report
    standing = intake.fleet.shards.get(report.shard)
    before = standing or intake.registered()
    told = replace(before, epoch=report.epoch)
    if report.address and (intake.certified or not before.address):
        told = replace(told, address=report.address)
    if report.can_hand_over:
        providers = tuple(sorted({line.name for line in report.providers}))
        takes_all = before.takes_all or report.takes_all
        told = replace(told, providers=providers, takes_all=takes_all, hands_over=True)
    if told != standing:
        draft = intake.begin()
        draft.put(keys.shard(report.shard), replace(told, last_report=stamp_of(report)))
        yield draft.change()


def narrowed(intake: Intake) -> Iterator[Change]:
    """Once all its strays are recorded, others may have the domains around them."""
    name = intake.report.shard
    if not intake.report.takes_all and intake.fleet.shards[name].takes_all:
        draft = intake.begin()
        after = draft.shard(name) or intake.fleet.shards[name]
        draft.put(keys.shard(name), replace(after, takes_all=False))
        yield draft.change()


def providers(intake: Intake) -> Iterator[Change]:
    """Known by name; another address under the same name is a conflict."""
    new: list[tuple[str, str]] = []
    for name, address in sorted({*intake.report.providers}):
        standing = intake.fleet.providers.get(name)
        if standing is None and name not in dict(new):
            new.append((name, address))
        elif address != (standing.address if standing else dict(new)[name]):
            what = f"{intake.report.shard} reaches it at {address}, others elsewhere"
            intake.differ(ConflictKind.PROVIDER, name, intake.report.shard, what)
    yield from _put(
        intake.begin, [(keys.provider(name), ProviderRecord(address=at)) for name, at in new]
    )
    _share(intake)


def clusters(intake: Intake) -> Iterator[Change]:
    """The first report binds for good."""
    mine = intake.report.shard
    new = []
    for cluster in sorted({*intake.report.clusters}):
        bound = intake.fleet.clusters.get(cluster)
        if bound is None:
            record = ClusterRecord(shard=mine, bound_at_ns=intake.now_ns)
            new.append((keys.cluster(cluster), record))
        elif bound.shard != mine:
            what = f"{mine} has a session of it, and it is bound to {bound.shard}"
            intake.differ(ConflictKind.CLUSTER, cluster, bound.shard, what)
    yield from _put(intake.begin, new)


def strays(intake: Intake) -> Iterator[Change]:
    """Those that are new are recorded; those that it has no longer go to whose they are.

    What it was granted waits for its acknowledgement, and what it says it gave away for the move. A
    shard that takes everything has let go of nothing.
    """
    fleet, report = intake.fleet, intake.report
    listed = {stray.machine: stray for stray in report.strays}
    new = []
    for machine in sorted(listed):
        record = _noted(intake, listed[machine])
        if record is not None:
            new.append((keys.stray(machine), record))
    yield from _put(intake.begin, new)
    if report.takes_all:
        return
    given = _given(intake)
    gone = [
        machine
        for machine in sorted(fleet.strays_of(report.shard))
        if fleet.strays[machine].state is StrayState.HELD
        and machine not in listed
        and machine not in given
    ]
    yield from handover.release(
        intake.begin, gone, by=report.shard, now_ns=intake.now_ns,
        still_held=quotas.held_by(report),
    )  # fmt: skip


def domains(intake: Intake) -> Iterator[Change]:
    """A domain nobody is known to own is the reporter's; one of another shard's is a conflict.

    One that the reporter should hold and does not: told again where it takes everything, so that
    it comes back to what is its; no longer its own where it knows better.
    """
    fleet, report = intake.fleet, intake.report
    yield from _unowned(intake)
    yield from _contested(intake)
    lost = [
        domain
        for domain in sorted({*fleet.domains_of(report.shard)} - {*report.domains})
        if fleet.domains[domain].state is DomainState.HELD
    ]
    for domain in lost:
        draft = intake.begin()
        if report.takes_all:
            commands.assign(draft, domain, report.shard, intake.now_ns)
        else:
            draft.delete(keys.domain(domain))
            held, where = quotas.held_by(report), domain if len(lost) == 1 else None
            quotas.everything_waits(draft, where, giver=report.shard, still_held=held)
            what = f"it was {report.shard}'s, which does not have it"
            intake.differ(ConflictKind.UNOWNED, shown(domain), report.shard, what, until=domain)
        yield draft.change()


def shown(domain: Domain) -> str:
    """For people."""
    return f"{domain.key}={domain.value}"


def _unowned(intake: Intake) -> Iterator[Change]:
    """Those that nobody is known to own, many in one change; all of a fleet have one key."""
    mine, known = intake.report.shard, intake.fleet.domains
    new = sorted({*intake.report.domains} - known.keys())
    if not new:
        return
    key = next(iter(known), new[0]).key
    for domain in [each for each in new if each.key != key]:
        what = f"held by {mine}, while every domain of the fleet has the key {key}"
        intake.differ(ConflictKind.DOMAIN, shown(domain), mine, what)
    yield from _put(
        intake.begin,
        [(keys.domain(each), commands.held(mine)) for each in new if each.key == key],
    )


def _contested(intake: Intake) -> Iterator[Change]:
    """What another shard owns is a conflict, and the reporter is to let go of it."""
    mine, fleet = intake.report.shard, intake.fleet
    pending = [record.payload for _, record in fleet.pending(mine)]
    for domain in sorted({*intake.report.domains} & fleet.domains.keys()):
        owner = fleet.domains[domain].shard
        if owner == mine:
            continue
        what = f"{mine} has it, and it is {owner}'s"
        intake.differ(ConflictKind.DOMAIN, shown(domain), owner, what)
        told = UnassignDomain(domain=domain)
        if told not in pending:
            draft = intake.begin()
            draft.instruct(mine, told, now_ns=intake.now_ns)
            yield draft.change()


def _noted(intake: Intake, stray: Stray) -> StrayRecord | None:
    """What is to be recorded of a stray; None when it is as it stands."""
    mine = intake.report.shard
    standing = intake.fleet.strays.get(stray.machine)
    if standing is None or standing.state is StrayState.PARKED:
        return StrayRecord(
            shard=mine,
            provider=stray.provider,
            domain=stray.domain,
            state=StrayState.HELD,
            leaving=stray.leaving,
        )
    if standing.shard != mine:
        what = f"{mine} has it, and it is {standing.shard}'s"
        intake.differ(ConflictKind.STRAY, stray.machine, standing.shard, what)
        return None
    told = stray.leaving, stray.domain or standing.domain  # its provider may have moved it
    if standing.state is StrayState.HELD and told != (standing.leaving, standing.domain):
        return replace(standing, leaving=told[0], domain=told[1])
    return None


def _given(intake: Intake) -> frozenset[MachineId]:
    """What the reporter has let go of by instructions that still wait for its word."""
    pending = {record.id for _, record in intake.fleet.pending(intake.report.shard)}
    return frozenset(
        handed.machine
        for ack in intake.report.acks
        if ack.instruction in pending
        for handed in ack.given
    )


def _share(intake: Intake) -> None:
    """A shard that takes everything and another one on the same provider have the same machines."""
    report, fleet = intake.report, intake.fleet
    mine = {line.name for line in report.providers}
    for name, other in sorted(fleet.shards.items()):
        if name != report.shard and (report.takes_all or other.takes_all):
            for provider in sorted(mine & {*other.providers}):
                what = "two shards use it and not both have domains: assign one to each"
                intake.differ(ConflictKind.TAKES_ALL, provider, name, what)


def _put(
    begin: Begin,
    new: Sequence[tuple[str, StrayRecord | ClusterRecord | ProviderRecord | DomainRecord]],
) -> Iterator[Change]:
    for few in batched(new):
        draft = begin()
        for key, record in few:
            draft.put(key, record)
        yield draft.change()
