"""The records themselves: which fields are set where, and to what (B8xx)."""

import math
from collections.abc import Mapping
from typing import Final

from mainstay.conformance import expect
from mainstay.conformance.check import Check, Gate, Part, gates
from mainstay.conformance.trial import Trial
from mainstay.model.profile import CapacityType
from mainstay.model.state import RULES, Presence, State, state_of
from mainstay.wire.raw_calls import Record

FIELD_LABELS: Final = ("instance-type", "instance_type", "zone", "capacity-type")


async def _no_field_as_label(at: Trial) -> None:
    """State and instance type are set, and no field is written as a label."""
    for record in (await at.everything()).values():
        expect.that(state_of(record.state) not in {None, State.UNSPECIFIED},
                    f"machine {record.id} is in state {record.state}")  # fmt: skip
        expect.that(bool(record.instance_type), f"machine {record.id} has no instance_type")
        twice = [key for key in FIELD_LABELS if key in record.labels]
        expect.that(not twice, f"machine {record.id} has a label for a field: {twice}")


async def _costs(at: Trial) -> None:
    """Prices are finite and not negative; spot machines declare a risk."""
    for record in (await at.everything()).values():
        price, chance = record.price_per_hour, record.interruption_probability
        expect.that(math.isfinite(price) and price >= 0.0, f"machine {record.id}: price {price}")
        expect.that(0.0 <= chance <= 1.0, f"machine {record.id}: probability {chance}")
        risk = chance > 0.0 or record.capacity_type != CapacityType.SPOT
        expect.that(risk, f"spot machine {record.id} declares no risk")


async def _state_and_parts_agree(at: Trial) -> None:
    """Host and cluster are set where the state says so, and nowhere else."""
    await at.configured()
    for record in (await at.everything()).values():
        check_parts(record)


async def _resources(at: Trial) -> None:
    """Resources and allocatable, where they are sent, are not empty."""
    for record in (await at.everything()).values():
        for name, sent in (("resources", record.resources), ("allocatable", record.allocatable)):
            expect.that(_filled(sent), f"machine {record.id} has empty {name}")


async def _one_provider(at: Trial) -> None:
    """The host's provider is the same through the whole life of a machine."""
    machine = await at.idle()
    names = [_provider(await at.get(machine))]
    await at.bind(machine)
    names.append(_provider(await at.get(machine)))
    await at.free(machine)
    names.append(_provider(await at.get(machine)))
    expect.that(len(set(names)) == 1 and names[0] != "", f"the host's provider changed: {names}")


async def _capacity_and_zone(at: Trial) -> None:
    """A capacity type is set, and a zone wherever there is a host."""
    await at.idle()
    for record in (await at.everything()).values():
        known = record.capacity_type in {*CapacityType} - {CapacityType.UNSPECIFIED}
        expect.that(known, f"machine {record.id} has capacity type {record.capacity_type}")
        expect.that(record.host is None or bool(record.zone), f"machine {record.id} has no zone")


async def _after_delete(at: Trial) -> None:
    """After a Delete there is no host, no cluster and no metadata."""
    machine = await at.created()
    await at.bind(machine, metadata={"k": "v"})
    await at.free(machine)
    expect.acked(await at.delete(machine))
    await at.reach(machine, State.SPECULATIVE)
    record = await at.get(machine)
    expect.that(record.host is None, f"quota slot {machine} has a host: {record.host}")
    expect.free(record)


def check_parts(record: Record) -> None:
    """Of one record, by the table of states."""
    state = state_of(record.state)
    if state is None:
        return
    rule = RULES[state]
    for name, presence, has in (
        ("host", rule.host, record.host is not None),
        ("cluster", rule.cluster, bool(record.cluster)),
    ):
        wrong = (presence is Presence.ALWAYS and not has) or (presence is Presence.NEVER and has)
        expect.that(not wrong, f"{state} machine {record.id} has {'a' if has else 'no'} {name}")


def _filled(resources: Mapping[str, str] | None) -> bool:
    return resources is None or len(resources) > 0


def _provider(record: Record) -> str:
    return record.host[0] if record.host else ""


_C: Final = Part.CORE

CHECKS: Final = (
    Check("B801", _C, _no_field_as_label),
    Check("B802", _C, _costs),
    Check("B803", _C, _state_and_parts_agree),
    Check("B804", _C, _resources),
    Check("B805", _C, _one_provider),
    Check("B806", _C, _capacity_and_zone),
    Check("B807", _C, _after_delete, gates(Gate.SPECULATIVE, Gate.DELETE)),
)
