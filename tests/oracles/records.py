"""Machines to try an inventory with, made by picking: by Hypothesis, or by a seeded generator.

Everything comes from small pools, so that ids return, rows are reused and records meet again.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef
from mainstay.model.ids import ClusterId, Fingerprint, MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import PRIORITY_KEY, RECLAMATION_KEY, encode
from mainstay.model.profile import CapacityType, HostRef, Profile
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import State
from oracles.plain_inventory import ALL_PARTS, CLUSTER, EDGES, HOST, PARTS

T = TypeVar("T")


class Pick(Protocol):
    """One of these: `random.Random(seed).choice`, or a draw of Hypothesis."""

    def __call__(self, options: Sequence[T], /) -> T: ...


# Chosen so that the order of ids is not the order of numbers, of length or of arrival.
IDS: Final = tuple(
    map(MachineId, ("m-2", "m-10", "m-1", "M-3", "m-1a", "~last", "#first", "m-1" + "0" * 250))
)
STRANGE_IDS: Final = tuple(map(MachineId, ("", "with space", "übung", "x" * 254, "tab\there")))
CLUSTERS: Final = tuple(map(ClusterId, ("red", "green", "blue")))
SOURCES: Final = ("", "east", "west")
STATES: Final = tuple(state for state in State if state is not State.UNSPECIFIED)

SMALL: Final = Resources({"cpu": "4", "memory": "16Gi"})
SAME_AS_SMALL: Final = Resources({"cpu": "4000m", "memory": "16Gi"})
LARGE: Final = Resources({"cpu": "96", "memory": "768Gi", "nvidia.com/gpu": "8"})
ODD: Final = Resources({f"vendor.example/device-{number}": "1" for number in range(9)})

PROFILES: Final = (
    Profile("m5.xlarge", "z-a", CapacityType.ON_DEMAND, SMALL),
    Profile("m5.xlarge", "z-a", CapacityType.SPOT, SMALL),
    Profile("p5.48xlarge", "z-b", CapacityType.RESERVED, LARGE, (("pool", "gpu"),)),
    Profile("p5.48xlarge", "z-b", CapacityType.RESERVED, LARGE, (("pool", "gpu"), ("rack", "7"))),
    Profile("plain"),
    Profile("odd", "z-c", CapacityType.BARE_METAL, ODD),
)
NEED_REFS: Final = (
    NeedRef(CLUSTERS[0], Fingerprint("f-1")),
    NeedRef(CLUSTERS[1], Fingerprint("f-2"), "gang"),
)
PART_VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "fingerprint": (Fingerprint("f-1"), Fingerprint("f-2")),
    "group": ("", "gang"),
    "cluster": CLUSTERS,
    "priority": (0, 100, -5, 2**31 - 1),
    "interruption_penalty_dollars": (0.0, 12.5, math.inf, -1.0),
    "reclamation_penalty_dollars": (0.0, 0.1, 1e9),
    "drained_for": NEED_REFS,
}
FIELD_VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "profile": PROFILES,
    "allocatable": (NO_RESOURCES, SMALL, SAME_AS_SMALL, LARGE),
    "price_per_hour": (0.0, 0.1, 2.5),
    "interruption_probability": (0.0, 0.05, 1.0),
    "last_error": ("", "boot timed out"),
}
BAD_PRICES: Final = (-0.01, math.nan, math.inf, -math.inf)
BAD_PROBABILITIES: Final = (-0.01, 1.01, math.nan)
HOSTS: Final = (HostRef("ec2", "i-1"), HostRef("ec2", "i-2"), HostRef("rack", "i-1"))
LONG_HOST: Final = HostRef("ec2", "ü" * 513)

FAULTS: Final = (
    "id", "state", "host", "cluster", "assignment", "diagnosis",
    "price", "interruption_probability", "penalty",
)  # fmt: skip


def valid(pick: Pick, machine: MachineId, state: State) -> Machine:
    """A machine as it may be in this state."""
    drawn: dict[str, Any] = {name: pick(values) for name, values in FIELD_VALUES.items()}
    if state is State.FAILED:
        drawn["last_error"] = "disk gone"
    return Machine(
        id=machine,
        state=state,
        host=_optional(pick, HOST[state], HOSTS),
        cluster=_optional(pick, CLUSTER[state], CLUSTERS),
        assignment=some_parts(pick, PARTS[state]),
        **drawn,
    )


def _optional(pick: Pick, required: bool | None, values: Sequence[T]) -> T | None:
    present = pick((False, True)) if required is None else required
    return pick(values) if present else None


def some_parts(pick: Pick, names: Sequence[str]) -> Assignment:
    """An assignment of some of these parts: none, all, or one by one."""
    if not names or not (how := pick(("none", "all", "some"))) or how == "none":
        return NO_ASSIGNMENT
    chosen = [name for name in names if how == "all" or pick((False, True))]
    drawn: dict[str, Any] = {name: pick(PART_VALUES[name]) for name in chosen}
    return Assignment(**drawn)


def drifted(pick: Pick, machine: Machine) -> Machine:
    """The same machine in the same state, reported a little differently, or not."""
    name = pick((*FIELD_VALUES, "host", "nothing"))
    if name == "nothing":
        return machine
    if name == "host":
        return dataclasses.replace(machine, host=pick(HOSTS) if machine.host else None)
    drawn: dict[str, Any] = {name: pick(FIELD_VALUES[name])}
    if machine.state is State.FAILED:
        drawn["last_error"] = pick(("disk gone", "no answer"))
    return dataclasses.replace(machine, **drawn)


def moved(pick: Pick, machine: Machine) -> Machine:
    """The machine one legal step further; a machine that can go nowhere stays as it is."""
    following = sorted(new for old, new in EDGES if old == machine.state)
    return valid(pick, machine.id, pick(following)) if following else machine


def broken(pick: Pick, machine: Machine) -> Machine:
    """The machine with one thing wrong with it, sometimes two."""
    first = _break(pick, machine, pick(FAULTS))
    return _break(pick, first, pick(FAULTS)) if pick((False, False, True)) else first


def _break(pick: Pick, machine: Machine, fault: str) -> Machine:
    wrong: dict[str, Any] = {
        "id": lambda: {"id": pick(STRANGE_IDS)},
        "state": lambda: {"state": State.UNSPECIFIED},
        "host": lambda: {"host": pick((None, LONG_HOST)) if machine.host else pick(HOSTS)},
        "cluster": lambda: {"cluster": None if machine.cluster else pick(CLUSTERS)},
        "assignment": lambda: {"assignment": some_parts(pick, ALL_PARTS)},
        "diagnosis": lambda: {"last_error": ""},
        "price": lambda: {"price_per_hour": pick(BAD_PRICES)},
        "interruption_probability": lambda: {
            "interruption_probability": pick(BAD_PROBABILITIES)
        },
        "penalty": lambda: {
            "assignment": dataclasses.replace(
                machine.assignment, interruption_penalty_dollars=math.nan
            )
        },
    }  # fmt: skip
    return dataclasses.replace(machine, **wrong[fault]())


def with_echo(pick: Pick, machine: Machine) -> Machine:
    """The record as a provider reports it: no assignment, but an echo of one, good or bad."""
    how = pick(("nothing", "its own", "another's", "mangled"))
    told = machine.assignment if how == "its own" else some_parts(pick, ALL_PARTS)
    echo = {} if how == "nothing" else encode(told) if _encodes(told) else {}
    if how == "mangled":
        echo |= {PRIORITY_KEY: "very high", RECLAMATION_KEY: "nan", "someone/else": "1"}
    return dataclasses.replace(machine, assignment=NO_ASSIGNMENT, shard_metadata=echo)


def _encodes(assignment: Assignment) -> bool:
    penalty = assignment.interruption_penalty_dollars
    return penalty is None or not math.isnan(penalty)
