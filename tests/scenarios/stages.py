"""From what a scenario file says to machines, needs and a world to decide on."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from mainstay.engine.barred import Barred
from mainstay.engine.plan import Demand, Memory
from mainstay.engine.policy import Policy
from mainstay.engine.quota import NO_QUOTA, REGION_KEY, Place, Quota
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, NeedRef
from mainstay.model.cost import PINNED, bucket_for, upper_bound
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine, check
from mainstay.model.need import Need, NeedProfile, Operator, Requirement, Spread, WhenUnsatisfiable
from mainstay.model.needs import NeedsTable
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY, CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.fleets import NOW, RACK, World
from oracles.plain_demand import without_same
from oracles.plain_engine import Entry
from scenarios.words import Raw, Wrong, amounts, check_keys, check_type, names, units

CLUSTER: Final = "x"
"""Whose a need or a bound machine is unless it says so."""

PRIORITY: Final = 10
PROVIDER: Final = "sim"
"""Who reports all machines."""

G: Final = {"gpu": "8"}
"""What a machine has, and the unit of a need, unless they say so."""

GONE: Final = "gone"
FOLDED: Final = " folded"
"""Follows the name of a gang in the name of the plain row it was folded into."""

KEYS: Final = {"zone": ZONE_KEY, "type": INSTANCE_TYPE_KEY, "rack": RACK, "region": REGION_KEY}
"""Attributes that files write in short."""

STATES: Final = {str(state): state for state in State if state is not State.UNSPECIFIED}
CAPACITIES: Final = {str(kind): kind for kind in CapacityType}
BOUND: Final = (State.CONFIGURING, State.CONFIGURED, State.DRAINING)
STAMPED: Final = (State.CONFIGURED, State.DRAINING)
HOSTLESS: Final = (State.SPECULATIVE, State.CREATING)

OPERATORS: Final = {
    "in": Operator.IN, "not-in": Operator.NOT_IN, "exists": Operator.EXISTS,
    "absent": Operator.DOES_NOT_EXIST, "gt": Operator.GT, "lt": Operator.LT,
}  # fmt: skip

MACHINE_KEYS: Final[Mapping[str, type]] = {
    "state": str, "type": str, "zone": str, "rack": str, "region": str, "capacity": str,
    "has": dict, "allocatable": dict, "price": float, "chance": float,
    "cluster": str, "for": str, "priority": int, "interruption": float, "reclamation": float,
    "drained_for": str, "idle": float, "error": str,
}  # fmt: skip
BINDING: Final = (
    "cluster", "for", "priority", "interruption", "reclamation", "drained_for", "idle", "error",
)  # fmt: skip
"""What a machine forgets when a change names its state."""

NEED_KEYS: Final = (
    "cluster", "wants", "unit", "priority", "same", "requires", "spread", "soft_spread",
    "interruption", "reclamation", "group", "arrival",
)  # fmt: skip
POLICY_KEYS: Final = tuple(entry.name for entry in fields(Policy))
MEMORY_KEYS: Final = ("gangs", "shortfalls")
QUOTA_KEYS: Final = ("clusters", "slots")
BARRED_KEYS: Final = ("providers", "values", "machines")


@dataclass(frozen=True)
class Stage:
    """What one decision or one run starts from, as the file has it, name by name."""

    where: str
    fleet: Mapping[str, Raw] = field(default_factory=dict)
    demand: Mapping[str, Raw] = field(default_factory=dict)
    others: Mapping[str, Raw] = field(default_factory=dict)
    """Needs that nobody asks for, so that machines can be for them."""

    heard: tuple[str, ...] | None = None
    """Who has spoken; None is everybody."""

    memory: Raw = field(default_factory=dict)
    policy: Raw = field(default_factory=dict)
    quota: Raw = field(default_factory=dict)
    barred: Raw = field(default_factory=dict)
    loop: Raw = field(default_factory=dict)


STAGE_KEYS: Final = tuple(entry.name for entry in fields(Stage) if entry.name != "where")


def changed(stage: Stage, raw: Raw, where: str) -> Stage:
    """The stage after what `raw` says happened."""
    known = {
        "memory": MEMORY_KEYS, "policy": POLICY_KEYS, "quota": QUOTA_KEYS, "barred": BARRED_KEYS,
    }  # fmt: skip
    new: dict[str, Any] = {"where": where}
    for key in ("fleet", "demand", "others"):
        given = raw.get(key, {})
        if not isinstance(given, Mapping):
            raise Wrong(f"{where}: {key} must be a mapping: {given!r}")
        new[key] = _patched(getattr(stage, key), given, f"{where}: {key}")
    for key, keys in known.items():
        given = check_keys(raw.get(key, {}), keys, f"{where}: {key}")
        new[key] = {**getattr(stage, key), **given}
    new["loop"] = {**stage.loop, **check_type(raw.get("loop", {}), dict, "loop", where)}
    if "heard" in raw:
        new["heard"] = tuple(check_type(raw["heard"], list, "heard", where))
    return replace(stage, **new)


def _patched(held: Mapping[str, Raw], given: Raw, where: str) -> dict[str, Raw]:
    found = dict(held)
    for words, parts in given.items():
        for name in names(words, where):
            if parts == GONE:
                if found.pop(name, None) is None:
                    raise Wrong(f"{where}: nothing named {name!r} that could be gone")
                continue
            if not isinstance(parts, Mapping):
                raise Wrong(f"{where}: {name} must be a mapping or {GONE!r}: {parts!r}")
            kept = found.get(name, {})
            if "state" in parts:
                kept = {key: value for key, value in kept.items() if key not in BINDING}
            found[name] = {**kept, **parts}
    return found


class Cast:
    """The needs of a stage by name, and the names of needs."""

    def __init__(self, stage: Stage) -> None:
        self._where = stage.where
        self.needs = {name: a_need(name, raw, stage.where) for name, raw in stage.demand.items()}
        others = {name: a_need(name, raw, stage.where) for name, raw in stage.others.items()}
        self.known = {**others, **self.needs}
        seen: dict[NeedRef, str] = {}
        for name, need in self.known.items():
            if need.ref in seen:
                raise Wrong(
                    f"{stage.where}: needs {seen[need.ref]!r} and {name!r} are one and the same"
                    " (give them groups)"
                )
            seen[need.ref] = name

    def ref(self, name: str) -> NeedRef:
        """The need of this name, or the row a gang of this name was folded into."""
        need = self.known.get(name.removesuffix(FOLDED))
        if need is None:
            raise Wrong(f"{self._where}: no need {name!r} (one of {', '.join(self.known)})")
        return folded_ref(need) if name.endswith(FOLDED) else need.ref

    def name(self, ref: NeedRef) -> str:
        """What the file calls it; of gangs that were folded together, the first."""
        for name, need in self.known.items():
            if need.ref == ref:
                return name
        return next(n + FOLDED for n, need in self.known.items() if folded_ref(need) == ref)

    def row_name(self, row: Need) -> str:
        """The same for a row of demand as the cycle sees it, by its amounts, too."""
        for name, need in self.needs.items():
            same = _same(need.aggregate, row.aggregate) and _same(need.min_unit, row.min_unit)
            if need.ref == row.ref and same:
                return name
        gangs = {name: need for name, need in self.needs.items() if folded_ref(need) == row.ref}
        return next(n + FOLDED for n, gang in gangs.items() if _same(gang.aggregate, row.min_unit))

    def kind_name(self, fingerprint: str) -> str:
        """The first need of this profile."""
        for name, need in self.known.items():
            if need.profile.fingerprint == fingerprint:
                return name
        folds = {name: folded_ref(need).fingerprint for name, need in self.known.items()}
        return next(name + FOLDED for name, found in folds.items() if found == fingerprint)


def folded_ref(need: Need) -> NeedRef:
    """The name of the row that a gang is folded into."""
    return NeedRef(need.cluster, without_same(need.profile).fingerprint)


def _same(left: Mapping[str, int], right: Mapping[str, int]) -> bool:
    return {n: a for n, a in left.items() if a} == {n: a for n, a in right.items() if a}


def a_need(name: str, raw: Raw, file: str) -> Need:
    """A need as the file has it."""
    where = f"{file}: need {name}"
    check_keys(raw, NEED_KEYS, where)
    wants, unit = _wants(raw, where)
    group = check_type(raw.get("group", ""), str, "group", where)
    try:
        return Need(
            cluster=ClusterId(check_type(raw.get("cluster", CLUSTER), str, "cluster", where)),
            profile=NeedProfile(
                requirements=tuple(_requirements(raw, where)),
                spread=tuple(_spreads(raw, where)),
                priority=check_type(raw.get("priority", PRIORITY), int, "priority", where),
                interruption_penalty_bucket=_bucket(raw, "interruption", where),
                reclamation_penalty_bucket=_bucket(raw, "reclamation", where),
            ),
            aggregate=wants,
            min_unit=unit,
            arrival_nanos=check_type(raw.get("arrival", 0), int, "arrival", where),
            group=name if group == "self" else group,
        )
    except Wrong:
        raise
    except Rejected as error:
        raise Wrong(f"{where}: {error.message}") from error


def _wants(raw: Raw, where: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """`3 x G` is three machines of eight GPUs; otherwise amounts, in units of anything."""
    wants = raw.get("wants")
    if isinstance(wants, str):
        found = re.fullmatch(r"([0-9]+) x G", wants)
        if found is None:
            raise Wrong(f"{where}: wants must be such as '3 x G' or {{cpu: 8}}: {wants!r}")
        of_one = units(G, where)
        whole = {dimension: int(found[1]) * amount for dimension, amount in of_one.items()}
        return whole, units(raw["unit"], where) if "unit" in raw else of_one
    return units(wants, where), units(raw.get("unit", {}), where)


def _requirements(raw: Raw, where: str) -> Iterable[Requirement]:
    for key in names(raw["same"], where) if "same" in raw else ():
        yield Requirement(KEYS.get(key, key), Operator.SAME)
    asked = check_type(raw.get("requires", {}), dict, "requires", where)
    for key, words in asked.items():
        operator, *values = names(words, where)
        if operator not in OPERATORS:
            raise Wrong(f"{where}: requires {key}: one of {', '.join(OPERATORS)}: {words!r}")
        yield Requirement(KEYS.get(key, key), OPERATORS[operator], tuple(values))


def _spreads(raw: Raw, where: str) -> Iterable[Spread]:
    when = {
        "spread": WhenUnsatisfiable.DO_NOT_SCHEDULE,
        "soft_spread": WhenUnsatisfiable.SCHEDULE_ANYWAY,
    }
    for name, hardness in when.items():
        for key, skew in check_type(raw.get(name, {}), dict, name, where).items():
            yield Spread(KEYS.get(key, key), check_type(skew, int, name, where), hardness)


def _bucket(raw: Raw, key: str, where: str) -> int:
    """Dollars go into their bucket; unsaid is unspecified."""
    if raw.get(key) == "pinned":
        return PINNED
    return bucket_for(check_type(raw[key], float, key, where)) if key in raw else 0


def a_machine(name: str, raw: Raw, cast: Cast, file: str) -> Machine:
    """A machine as the file has it: a G unless it says otherwise."""
    where = f"{file}: machine {name}"
    check_keys(raw, tuple(MACHINE_KEYS), where)
    for key, value in raw.items():
        check_type(value, MACHINE_KEYS[key], key, where)
    state = _one_of(STATES, raw.get("state"), "state", where)
    labels = {KEYS[key]: raw[key] for key in ("rack", "region") if key in raw}
    try:
        machine = Machine(
            id=MachineId(name),
            state=state,
            profile=Profile(
                raw.get("type", "a3-highgpu-8g"),
                raw.get("zone", ""),
                _one_of(CAPACITIES, raw.get("capacity", "BareMetal"), "capacity", where),
                Resources(amounts(raw.get("has", G), where)),
                tuple(labels.items()),
            ),
            host=None if state in HOSTLESS else HostRef(PROVIDER, name),
            cluster=ClusterId(raw.get("cluster", CLUSTER)) if state in BOUND else None,
            allocatable=Resources(amounts(raw.get("allocatable", {}), where)),
            price_per_hour=raw.get("price", 1.0),
            interruption_probability=raw.get("chance", 0.0),
            assignment=_assignment(raw, state, cast),
            last_error=raw.get("error", "broken" if state is State.FAILED else ""),
        )
        check(machine)
    except Wrong:
        raise
    except Rejected as error:
        raise Wrong(f"{where}: {error.message}") from error
    if "cluster" in raw and state not in BOUND:
        raise Wrong(f"{where}: in state {state} it has no cluster")
    return machine


def _one_of(known: Mapping[str, Any], given: object, key: str, where: str) -> Any:
    if given not in known:
        raise Wrong(f"{where}: no such {key}: {given!r} (one of {', '.join(known)})")
    return known[str(given)]


def _assignment(raw: Raw, state: State, cast: Cast) -> Assignment:
    """One that serves a need carries its priority and penalties, unless it says otherwise."""
    parts: dict[str, Any] = {}
    if "for" in raw:
        ref = cast.ref(raw["for"])
        parts = {"cluster": ref.cluster, "fingerprint": ref.fingerprint, "group": ref.group}
        profile = cast.known[raw["for"].removesuffix(FOLDED)].profile
        if state in STAMPED:
            parts["priority"] = profile.priority
            for name in ("interruption", "reclamation"):
                bucket = getattr(profile, f"{name}_penalty_bucket")
                parts[f"{name}_penalty_dollars"] = upper_bound(bucket)
    if "priority" in raw:
        parts["priority"] = raw["priority"]
    for name in ("interruption", "reclamation"):
        if name in raw:
            parts[f"{name}_penalty_dollars"] = float(raw[name])
    if "drained_for" in raw:
        parts["drained_for"] = cast.ref(raw["drained_for"])
    return Assignment(**parts) if parts else NO_ASSIGNMENT


def machines_of(stage: Stage, cast: Cast) -> list[Machine]:
    """The fleet, in the order of the file."""
    return [a_machine(name, raw, cast, stage.where) for name, raw in stage.fleet.items()]


def a_world(stage: Stage, cast: Cast, table: NeedsTable, memory: Memory) -> World:
    """All that a decision is made from. `table` holds what was asked for before."""
    entries = {}
    for machine in machines_of(stage, cast):
        idle_for = stage.fleet[machine.id].get("idle", 0.0)
        idle_since = NOW - idle_for if machine.state is State.IDLE else None
        entries[machine.id] = Entry(machine, idle_since, PROVIDER)
    needs = list(cast.needs.values())
    before = {need.cluster for need in table.snapshot()}
    for cluster in dict.fromkeys([*(need.cluster for need in needs), *sorted(before)]):
        table.replace(cluster, [need for need in needs if need.cluster == cluster])
    everybody = {m.cluster for m, *_ in entries.values() if m.cluster} | {n.cluster for n in needs}
    heard = everybody if stage.heard is None else {ClusterId(name) for name in stage.heard}
    demand = Demand(table.snapshot(), frozenset(heard), _quota(stage), _barred(stage))
    return World(entries, demand, _memory(stage, cast, memory))


def _memory(stage: Stage, cast: Cast, memory: Memory) -> Memory:
    if not stage.memory:
        return memory
    where = f"{stage.where}: memory"
    gangs, shortfalls = (
        check_type(stage.memory.get(key, {}), dict, key, where) for key in MEMORY_KEYS
    )
    return Memory(
        {cast.ref(name): age for name, age in gangs.items()},
        {cast.ref(name).fingerprint: age for name, age in shortfalls.items()},
    )


def _quota(stage: Stage) -> Quota:
    where = f"{stage.where}: quota"
    slots: dict[Place, int] = {}
    for key, most in check_type(stage.quota.get("slots", {}), dict, "slots", where).items():
        provider, slash, region = str(key).partition("/")
        if not slash:
            raise Wrong(f"{where}: slots are of a provider/region: {key!r}")
        slots[provider, region] = check_type(most, int, "slots", where)
    clusters = check_type(stage.quota.get("clusters", {}), dict, "clusters", where)
    machines = {
        ClusterId(name): check_type(most, int, "clusters", where) for name, most in clusters.items()
    }
    return Quota(machines, slots) if machines or slots else NO_QUOTA


def _barred(stage: Stage) -> Barred:
    """Each of the three a text with names; values by key."""
    where = f"{stage.where}: barred"
    held = {key: stage.barred.get(key) or "" for key in ("providers", "machines")}
    providers, machines = (names(text, where) if text else [] for text in held.values())
    values = check_type(stage.barred.get("values") or {}, dict, "values", where)
    return Barred(
        frozenset(providers),
        frozenset((KEYS.get(key, key), v) for key, text in values.items() for v in text.split()),
        frozenset(map(MachineId, machines)),
    )


def a_policy(stage: Stage) -> Policy:
    """The knobs, with those the file sets."""
    where = f"{stage.where}: policy"
    for key, value in stage.policy.items():
        check_type(value, float, key, where)
    try:
        return Policy(**stage.policy)
    except Rejected as error:
        raise Wrong(f"{where}: {error.message}") from error
