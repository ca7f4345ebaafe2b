"""The small things that reports and instructions are made of, to and from the wire.

Strict: what cannot be meant is `Rejected` by name. Amounts travel as quantities, as they do in
BigFleet's messages.
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast

from mainstay.model.coordination import (
    Domain,
    FreeRow,
    Grant,
    Handed,
    Missing,
    QuotaKind,
    QuotaLine,
    QuotaMoved,
    QuotaOf,
    ServingRow,
    Stray,
    Summary,
    Wanted,
)
from mainstay.model.cost import PENALTY_BUCKET_MAX
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId, ShardId, is_id, parse_machine_id
from mainstay.model.need import Operator, Requirement
from mainstay.model.resources import Resources, Units, from_units
from mainstay.model.rollup import RawRequirement
from mainstay.wire.machines import sendable, sendable_map
from mainstay.wire.needs import requirement_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as capacity_pb
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2
from mainstay.wire.pb.mainstay.v1 import handover_pb2 as our_pb

UNITS_MAX: Final = 2**62
"""Of one dimension of what a shard misses: many needs added up."""

_SHOWN_MAX: Final = 80
_OPERATORS: Final = {int(each): each for each in Operator}
_KINDS: Final = {
    QuotaKind.CLUSTER: our_pb.QuotaOf.KIND_CLUSTER,
    QuotaKind.PLACE: our_pb.QuotaOf.KIND_PLACE,
}
_KIND_OF: Final = {int(number): kind for kind, number in _KINDS.items()}


def shard_from_wire(text: str, what: str) -> ShardId:
    """A shard's id."""
    if not is_id(text):
        shown = text[:_SHOWN_MAX]
        raise Rejected(f"{what} is no shard's id: {shown!a} (printable ASCII without spaces)")
    return ShardId(text)


def maybe_shard(text: str, what: str) -> ShardId:
    """The same, or nothing said."""
    return shard_from_wire(text, what) if text else ShardId("")


def counted(number: int, what: str, lowest: int = 0) -> int:
    """A number that cannot be below this."""
    if number < lowest:
        raise Rejected(f"{what} out of range: {number} (must be {lowest} or more)")
    return number


def amounts_to_wire(units: Units) -> dict[str, str]:
    """Amounts as quantities."""
    return sendable_map({name: from_units(name, amount) for name, amount in units.items()})


def amounts_from_wire(texts: Mapping[str, str]) -> dict[str, int]:
    """Quantities as amounts."""
    return dict(Resources(dict(texts), units_max=UNITS_MAX).units)


def bucket_to_wire(bucket: int) -> capacity_pb.PenaltyBucket:
    """A bucket as the enum that it is on the wire."""
    return cast("capacity_pb.PenaltyBucket", bucket)


def bucket_from_wire(number: int, what: str) -> int:
    """A bucket that the ladder has."""
    if not 0 <= number <= PENALTY_BUCKET_MAX:
        raise Rejected(f"{what} out of range: {number} (must be 0 to {PENALTY_BUCKET_MAX})")
    return number


def requirements_to_wire(
    requirements: Iterable[Requirement],
) -> list[capacity_pb.NodeSelectorRequirement]:
    """Requirements, in order."""
    return [
        requirement_to_wire(RawRequirement(each.key, int(each.operator), each.values))
        for each in requirements
    ]


def requirements_from_wire(
    messages: Iterable[capacity_pb.NodeSelectorRequirement],
) -> tuple[Requirement, ...]:
    """Requirements with operators that we know."""
    return tuple(map(_requirement, messages))


def _requirement(message: capacity_pb.NodeSelectorRequirement) -> Requirement:
    operator = _OPERATORS.get(message.operator)
    if operator is None:
        on = message.key[:_SHOWN_MAX]
        raise Rejected(f"unknown operator of the requirement on {on!a}: {message.operator}")
    return Requirement(message.key, operator, tuple(message.values))


def domain_to_wire(domain: Domain | None) -> our_pb.Domain | None:
    """A domain; None where nobody said."""
    if domain is None:
        return None
    return our_pb.Domain(key=sendable(domain.key), value=sendable(domain.value))


def domain_from_wire(key: str, value: str) -> Domain:
    """A domain with both its parts."""
    if not (key and value):
        shown = f"{key[:_SHOWN_MAX]!a}={value[:_SHOWN_MAX]!a}"
        raise Rejected(f"a domain needs a key and a value: {shown}")
    return Domain(key, value)


def _domain_of(message: our_pb.HandedMachine | our_pb.Stray) -> Domain | None:
    if not message.HasField("domain"):
        return None
    return domain_from_wire(message.domain.key, message.domain.value)


def handed_to_wire(handed: Handed) -> our_pb.HandedMachine:
    """A machine that changes hands."""
    return our_pb.HandedMachine(
        machine_id=sendable(handed.machine),
        provider=sendable(handed.provider),
        domain=domain_to_wire(handed.domain),
    )


def handed_from_wire(message: our_pb.HandedMachine) -> Handed:
    """A machine that changes hands."""
    return Handed(parse_machine_id(message.machine_id), message.provider, _domain_of(message))


def machines_from_wire(
    ids: Iterable[str], messages: Iterable[our_pb.HandedMachine]
) -> tuple[Handed, ...]:
    """Machines of an instruction: ours say more than the ids, and must be of the same machines."""
    named = tuple(map(parse_machine_id, ids))
    handed = tuple(map(handed_from_wire, messages))
    if not handed:
        return tuple(Handed(machine, "", None) for machine in named)
    if tuple(each.machine for each in handed) != named:
        counts = f"{len(named)} ids, {len(handed)} machines"
        raise Rejected(f"machine_ids and machines do not name the same: {counts}")
    return handed


def ids_of(machines: Iterable[Handed]) -> list[str]:
    """The ids alone, for a peer that reads no more."""
    return [sendable(each.machine) for each in machines]


def away_from_wire(ids: Iterable[str]) -> tuple[MachineId, ...]:
    """Ids of machines."""
    return tuple(map(parse_machine_id, ids))


def stray_to_wire(stray: Stray) -> our_pb.Stray:
    """A stray."""
    return our_pb.Stray(
        machine_id=sendable(stray.machine),
        provider=sendable(stray.provider),
        domain=domain_to_wire(stray.domain),
        leaving=stray.leaving,
    )


def stray_from_wire(message: our_pb.Stray) -> Stray:
    """A stray."""
    machine = parse_machine_id(message.machine_id)
    return Stray(machine, message.provider, _domain_of(message), message.leaving)


def quota_of_to_wire(of: QuotaOf) -> our_pb.QuotaOf:
    """Whose quota."""
    return our_pb.QuotaOf(kind=_KINDS[of.kind], name=sendable(of.name), region=sendable(of.region))


def quota_of_from_wire(message: our_pb.QuotaOf) -> QuotaOf:
    """Whose quota; a kind that we do not know cannot be kept."""
    kind = _KIND_OF.get(message.kind)
    if kind is None:
        raise Rejected(f"unknown kind of quota: {message.kind} (of {message.name[:_SHOWN_MAX]!a})")
    if not message.name:
        raise Rejected(f"a quota needs a name: kind {kind}")
    return QuotaOf(kind, message.name, message.region)


def quota_line_to_wire(line: QuotaLine) -> our_pb.QuotaLine:
    """What a shard holds."""
    of = quota_of_to_wire(line.of)
    return our_pb.QuotaLine(of=of, held=line.held, used=line.used, wanted=line.wanted)


def quota_line_from_wire(message: our_pb.QuotaLine) -> QuotaLine:
    """What a shard holds."""
    of = quota_of_from_wire(message.of)
    whose = f"quota of {of.name[:_SHOWN_MAX]!a}"
    return QuotaLine(
        of,
        held=counted(message.held, f"held {whose}", -1),
        used=counted(message.used, f"used {whose}"),
        wanted=counted(message.wanted, f"wanted {whose}"),
    )


def quota_moved_to_wire(moved: QuotaMoved) -> our_pb.QuotaMoved:
    """What goes with machines."""
    return our_pb.QuotaMoved(of=quota_of_to_wire(moved.of), count=moved.amount)


def quota_moved_from_wire(message: our_pb.QuotaMoved) -> QuotaMoved:
    """What goes with machines."""
    of = quota_of_from_wire(message.of)
    return QuotaMoved(of, counted(message.count, f"moved quota of {of.name[:_SHOWN_MAX]!a}"))


def grant_to_wire(grant: Grant) -> our_pb.QuotaGrant:
    """The coordinator's word."""
    of = quota_of_to_wire(grant.of)
    return our_pb.QuotaGrant(of=of, granted=grant.granted, target=grant.target)


def grant_from_wire(message: our_pb.QuotaGrant) -> Grant:
    """The coordinator's word."""
    of = quota_of_from_wire(message.of)
    whose = f"quota of {of.name[:_SHOWN_MAX]!a}"
    granted = counted(message.granted, f"granted {whose}", -1)
    return Grant(of, granted, counted(message.target, f"target of the {whose}", -1))


def wanted_to_wire(wanted: Wanted | None) -> our_pb.WantedMachines | None:
    """What a donor is asked for."""
    if wanted is None:
        return None
    return our_pb.WantedMachines(
        requirements=requirements_to_wire(wanted.requirements),
        deficit=amounts_to_wire(wanted.deficit),
        min_unit=amounts_to_wire(wanted.min_unit),
        priority=wanted.priority,
        interruption_penalty_bucket=bucket_to_wire(wanted.interruption_penalty_bucket),
        machines_max=wanted.machines_max,
        providers=map(sendable, wanted.providers),
    )


def wanted_from_wire(message: our_pb.WantedMachines) -> Wanted:
    """What a donor is asked for."""
    bucket = bucket_from_wire(
        message.interruption_penalty_bucket, "interruption_penalty_bucket of what is wanted"
    )
    return Wanted(
        requirements=requirements_from_wire(message.requirements),
        deficit=amounts_from_wire(message.deficit),
        min_unit=amounts_from_wire(message.min_unit),
        priority=message.priority,
        interruption_penalty_bucket=bucket,
        machines_max=counted(message.machines_max, "machines_max"),
        providers=tuple(message.providers),
    )


def missing_to_wire(missing: Missing) -> pb.Shortfall:
    """A shortfall."""
    return pb.Shortfall(
        requirements=requirements_to_wire(missing.requirements),
        deficit=provider_pb2.Resources(resources=amounts_to_wire(missing.deficit)),
        priority=missing.priority,
        age_cycles=missing.age_cycles,
        interruption_penalty_bucket=bucket_to_wire(missing.interruption_penalty_bucket),
        min_unit=amounts_to_wire(missing.min_unit),
        topology=missing.topology,
        quota=missing.quota,
        fingerprint=sendable(missing.fingerprint),
        reclamation_penalty_bucket=bucket_to_wire(missing.reclamation_penalty_bucket),
    )


def missing_from_wire(message: pb.Shortfall) -> Missing:
    """A shortfall."""
    interruption, reclamation = (
        bucket_from_wire(number, f"{name} of a shortfall")
        for name, number in (
            ("interruption_penalty_bucket", message.interruption_penalty_bucket),
            ("reclamation_penalty_bucket", message.reclamation_penalty_bucket),
        )
    )
    return Missing(
        requirements=requirements_from_wire(message.requirements),
        deficit=amounts_from_wire(message.deficit.resources),
        priority=message.priority,
        age_cycles=counted(message.age_cycles, "age_cycles of a shortfall"),
        interruption_penalty_bucket=interruption,
        reclamation_penalty_bucket=reclamation,
        min_unit=amounts_from_wire(message.min_unit),
        topology=message.topology,
        quota=message.quota,
        fingerprint=message.fingerprint,
    )


def summary_to_wire(summary: Summary) -> pb.ShardSummary:
    """A shard in numbers."""
    return pb.ShardSummary(
        total_machines=summary.total_machines,
        free_machines=summary.free_machines,
        per_instance_type_counts={sendable(k): n for k, n in summary.by_instance_type.items()},
        per_zone_counts={sendable(k): n for k, n in summary.by_zone.items()},
        provider_address=sendable(summary.provider_address),
        free=map(_free_to_wire, summary.free),
        serving=map(_serving_to_wire, summary.serving),
    )


def summary_from_wire(message: pb.ShardSummary) -> Summary:
    """A shard in numbers."""
    return Summary(
        total_machines=counted(message.total_machines, "total_machines"),
        free_machines=counted(message.free_machines, "free_machines"),
        by_instance_type=_counts(message.per_instance_type_counts, "per_instance_type_counts"),
        by_zone=_counts(message.per_zone_counts, "per_zone_counts"),
        provider_address=message.provider_address,
        free=tuple(map(_free_from_wire, message.free)),
        serving=tuple(map(_serving_from_wire, message.serving)),
    )


def _counts(numbers: Mapping[str, int], what: str) -> dict[str, int]:
    return {name: counted(number, what) for name, number in numbers.items()}


def _free_to_wire(row: FreeRow) -> our_pb.FreeMachines:
    return our_pb.FreeMachines(
        provider=sendable(row.provider),
        instance_type=sendable(row.instance_type),
        zone=sendable(row.zone),
        idle=row.idle,
        speculative=row.speculative,
    )


def _free_from_wire(message: our_pb.FreeMachines) -> FreeRow:
    return FreeRow(
        message.provider,
        message.instance_type,
        message.zone,
        idle=counted(message.idle, "idle machines"),
        speculative=counted(message.speculative, "speculative machines"),
    )


def _serving_to_wire(row: ServingRow) -> our_pb.ServingMachines:
    return our_pb.ServingMachines(
        provider=sendable(row.provider),
        instance_type=sendable(row.instance_type),
        zone=sendable(row.zone),
        priority=row.priority,
        interruption_penalty_bucket=bucket_to_wire(row.interruption_penalty_bucket),
        machines=row.machines,
    )


def _serving_from_wire(message: our_pb.ServingMachines) -> ServingRow:
    bucket = bucket_from_wire(message.interruption_penalty_bucket, "bucket of serving machines")
    return ServingRow(
        message.provider,
        message.instance_type,
        message.zone,
        message.priority,
        bucket,
        machines=counted(message.machines, "serving machines"),
    )
