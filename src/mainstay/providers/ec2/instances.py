"""Instances as EC2 describes them, and which of several is the one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.providers.ec2.tags import Label, Role, read

LIVE: Final = frozenset({"pending", "running"})
"""States of an instance that is there or will be; one that was stopped is of no use to anybody."""

ENDED: Final = frozenset({"shutting-down", "terminated"})


@dataclass(frozen=True, slots=True)
class Condition:
    """How an instance is."""

    state: str
    reason: str
    """Why, if EC2 says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One of ours."""

    id: str
    state: str
    launched_s: float
    type: str
    zone: str
    spot: bool
    label: Label

    @property
    def age_order(self) -> tuple[float, str]:
        """The oldest first; everybody who looks agrees who that is."""
        return self.launched_s, self.id


Seen = Mapping[str, Sequence[Instance]]
"""Live instances of ours, by slot, the oldest first."""


def instance_of(described: Mapping[str, Any]) -> Instance:
    """An instance as the API describes it; Rejected if its tags are not ours."""
    return Instance(
        id=described["InstanceId"],
        state=described["State"]["Name"],
        launched_s=described["LaunchTime"].timestamp(),
        type=described.get("InstanceType", ""),
        zone=described.get("Placement", {}).get("AvailabilityZone", ""),
        spot=described.get("InstanceLifecycle") == "spot",
        label=read({tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}),
    )


def condition_of(described: Mapping[str, Any]) -> Condition:
    """How an instance is, as the API describes it."""
    reason = described.get("StateReason") or {}
    return Condition(described["State"]["Name"], reason.get("Message") or reason.get("Code") or "")


def described_in(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The instances of one answer to DescribeInstances."""
    for reservation in answer.get("Reservations", ()):
        yield from reservation.get("Instances", ())


def by_slot(instances: Iterable[Instance]) -> Seen:
    """Sorted into their slots."""
    seen: dict[str, list[Instance]] = {}
    for instance in sorted(instances, key=lambda each: each.age_order):
        seen.setdefault(instance.label.slot, []).append(instance)
    return seen


def in_role(seen: Seen, slot: str, role: Role) -> list[Instance]:
    """The live instances that fill a slot in this role, the oldest first."""
    return [each for each in seen.get(slot, ()) if each.label.role is role]


def host_of(instances: Sequence[Instance], known: str) -> Instance | None:
    """Which of a slot's instances is its host: the one we know, one that serves, the oldest."""
    if not instances:
        return None
    order = {each.id: (each.id != known, each.label.role is not Role.SERVING) for each in instances}
    return min(instances, key=lambda each: (order[each.id], each.age_order))


def to_spare(instances: Sequence[Instance], host: Instance) -> list[Instance]:
    """Idle instances beside the host: nobody needs them. One that serves is never to spare."""
    return [each for each in instances if each.id != host.id and each.label.role is Role.IDLE]


def names(instances: Iterable[Instance]) -> list[str]:
    """Their ids."""
    return [each.id for each in instances]
