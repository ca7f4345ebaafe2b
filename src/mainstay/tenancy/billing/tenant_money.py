"""What tenants cost and bring in: a shard's spending for tenancy, divided by who holds its GPUs.

Pure: made of the answers of shards and of the API. Per hour, a project is charged its share of the
machines it is on. So far, what was spent is divided by the GPU time that was held, since nobody
keeps what each machine cost while it was somebody's. What is saved against all on demand is divided
in the same two ways. What is wasted is nobody's: a machine that a project is on is needed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mainstay.model.money_views import MoneyRows, added
from mainstay.model.profile import CapacityType
from mainstay.model.views import MachineRow, MoneyRow
from mainstay.tenancy.billing.charge import Outage, Rate, elapsed_s

Said = Mapping[str, Any]
Outages = defaultdict[str, Sequence[Outage]]

UNCLAIMED: Final = "(unclaimed)"
WHOLE: Final = "(all)"

HOLDING: Final = frozenset({"requested", "provisioning", "active", "releasing", "release_failed"})
"""Whoever is so keeps others from its GPUs."""

NANO_PER_CENT: Final = 10_000_000


class Cost(NamedTuple):
    """Of one machine per hour, in nano-dollars."""

    spend: int
    saving: int
    """Against the on-demand price of its type."""


NO_COST: Final = Cost(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFacts:
    """What shards and the API say, at one moment."""

    spending: MoneyRow
    """Of the cluster that tenants are, over all shards; in nano-dollars."""

    costs: Mapping[str, Cost]
    """Of its machines, by id."""

    nodes: Sequence[Said]
    allocations: Sequence[Said]
    since_s: float
    """From when on shards that pay for tenants have counted; without any, the others."""

    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One project, what nobody holds, or all of it."""

    name: str
    gpus: int = 0
    """That it holds now."""

    spend_per_hour: int = 0
    """Nano-dollars, as all that follows down to what it pays."""

    spent: int = 0
    waste_per_hour: int = 0
    waste: int = 0
    saving_per_hour: int = 0
    saving: int = 0
    earns_per_hour: Mapping[str, int] = field(default_factory=dict)
    """In minor units by currency: what it pays, as far as it is active."""

    earned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Paid:
    """What one shard pays for tenants."""

    spending: MoneyRow
    since_s: float
    costs: Mapping[str, Cost]


def paid_by(told: MoneyRows, cluster: str, machines: Iterable[MachineRow]) -> Paid:
    """What a shard tells of a cluster, by cluster, and of its machines."""
    costs = {each.id: _cost(each, told.on_demand) for each in machines}
    return Paid(of_cluster(told, cluster), told.since_s, costs)


def _cost(machine: MachineRow, on_demand: Mapping[str, int]) -> Cost:
    """As the shard counts it: what is on demand, or has no price on demand, saves nothing."""
    spend = round(machine.price_per_hour * 1e9)
    is_on_demand = machine.capacity_type == str(CapacityType.ON_DEMAND)
    price = None if is_on_demand else on_demand.get(machine.instance_type)
    return Cost(spend, 0 if price is None else price - spend)


def of_cluster(told: MoneyRows, cluster: str) -> MoneyRow:
    """What a shard spends for one cluster."""
    return next((each for each in told.rows if each.name == cluster), MoneyRow(name=cluster))


def facts_of(
    paid: Sequence[Paid], nodes: Sequence[Said], allocations: Sequence[Said], now_s: float
) -> TenantFacts:
    """What all of them said, together."""
    # A book that has nothing of tenants may be far older.
    theirs = [one for one in paid if one.spending.hosts or one.spending.spent] or paid
    return TenantFacts(
        spending=added(one.spending for one in paid),
        costs={machine: cost for one in paid for machine, cost in one.costs.items()},
        nodes=nodes,
        allocations=allocations,
        since_s=min((one.since_s for one in theirs), default=0.0),
        now_s=now_s,
    )


def tenant_rows(facts: TenantFacts) -> tuple[TenantRow, ...]:
    """Projects by what they cost, then what nobody holds, then the whole: they add up to it."""
    per_hour, held_gpus = _per_hour(facts)
    seconds = _held_seconds(facts)
    shares = _shares(facts, seconds)
    names = {each["project_id"] for each in facts.allocations}
    silent = _outages(facts)
    earned = {name: _earned(_of(facts, name), facts, silent) for name in names}
    total = facts.spending
    rows = [
        TenantRow(
            name=name,
            gpus=held_gpus[name],
            spend_per_hour=per_hour[name].spend,
            spent=int(total.spent * shares[name]),
            saving_per_hour=per_hour[name].saving,
            saving=int(total.saving * shares[name]),
            earns_per_hour=_earns(_of(facts, name), silent),
            earned=earned[name],
        )
        for name in held_gpus.keys()
        | {name for name in names if seconds[name] or any(earned[name].values())}
    ]
    rows.sort(key=lambda row: (-row.spend_per_hour, -row.spent, row.name))
    whole = TenantRow(
        name=WHOLE,
        gpus=sum(held_gpus.values()) + max(0, _gpus_free(facts)),
        spend_per_hour=total.spend_per_hour,
        spent=total.spent,
        waste_per_hour=total.idle_per_hour + total.unclaimed_per_hour,
        waste=total.idle + total.unclaimed,
        saving_per_hour=total.saving_per_hour,
        saving=total.saving,
        earns_per_hour=_added(row.earns_per_hour for row in rows),
        earned=_added(row.earned for row in rows),
    )
    return (*rows, _rest(whole, rows), whole)


SUMS: Final = (
    "gpus", "spend_per_hour", "spent", "waste_per_hour", "waste", "saving_per_hour", "saving",
)  # fmt: skip
"""What of the rows adds up to the whole, with the one of what nobody holds."""


def _rest(whole: TenantRow, rows: Sequence[TenantRow]) -> TenantRow:
    """What is left of the whole."""
    left = {name: getattr(whole, name) - sum(getattr(row, name) for row in rows) for name in SUMS}
    return TenantRow(name=UNCLAIMED, **left)


def margin(spent: int, earned: Mapping[str, int]) -> int | None:
    """Cents that are left of what is paid; None where it is paid in another currency, too."""
    if earned.keys() - {"USD"}:
        return None
    return earned.get("USD", 0) - (spent + NANO_PER_CENT // 2) // NANO_PER_CENT


def remarks(facts: TenantFacts) -> Iterator[str]:
    """What is to be known about the numbers."""
    nodes = _paid_nodes(facts)
    own = sum(
        each["gpus"]
        for each in facts.allocations
        if each["status"] in HOLDING and each["node_id"] not in nodes
    )
    if own:
        yield f"{own} GPUs are on nodes that no shard pays for; they cost nothing here."
    if not facts.spending.hosts:
        yield "No shard pays for a machine of tenants: is the bridge connected?"
    yield "What was spent and saved so far is divided by GPU time held; per hour it is by machine."
    yield f"A machine that a project is on is needed: all of the waste is at {UNCLAIMED}."


def _of(facts: TenantFacts, project: str) -> list[Said]:
    return [each for each in facts.allocations if each["project_id"] == project]


def _paid_nodes(facts: TenantFacts) -> dict[str, tuple[Cost, int]]:
    """Nodes that are machines of a shard: what each costs and its GPUs, by id."""
    return {
        node["id"]: (facts.costs[node["machine"]], node["gpus_total"])
        for node in facts.nodes
        if node["status"] != "retired" and node["machine"] in facts.costs
    }


def _lives(facts: TenantFacts) -> list[Said]:
    """Nodes that are or were a machine of a shard; for any other no shard pays."""
    return [node for node in facts.nodes if node["machine"] is not None]


def _gpus_free(facts: TenantFacts) -> int:
    """GPUs that a shard pays for and nobody holds."""
    nodes = _paid_nodes(facts)
    held: int = sum(
        each["gpus"]
        for each in facts.allocations
        if each["status"] in HOLDING and each["node_id"] in nodes
    )
    return sum(gpus for _, gpus in nodes.values()) - held


def _per_hour(facts: TenantFacts) -> tuple[defaultdict[str, Cost], defaultdict[str, int]]:
    """What each project costs per hour, and the GPUs of each that holds any."""
    nodes = _paid_nodes(facts)
    costs: defaultdict[str, Cost] = defaultdict(lambda: NO_COST)
    gpus: defaultdict[str, int] = defaultdict(int)
    for each in facts.allocations:
        if each["status"] not in HOLDING:
            continue
        project, held = each["project_id"], each["gpus"]
        gpus[project] += held
        cost, on_node = nodes.get(each["node_id"], (NO_COST, 1))
        so_far = costs[project]
        costs[project] = Cost(
            so_far.spend + cost.spend * held // on_node,
            so_far.saving + cost.saving * held // on_node,
        )
    return costs, gpus


def _held_seconds(facts: TenantFacts) -> defaultdict[str, float]:
    """GPU seconds that each project held since counting began, where a shard pays."""
    lives = {node["id"] for node in _lives(facts)}
    found: defaultdict[str, float] = defaultdict(float)
    for each in facts.allocations:
        if each["node_id"] not in lives:
            continue
        until = None if each["status"] in HOLDING else _first(each, "released_at", "failed_at")
        found[each["project_id"]] += each["gpus"] * _overlap_s(facts, each["created_at"], until)
    return found


def _shares(facts: TenantFacts, seconds: Mapping[str, float]) -> defaultdict[str, float]:
    """Which part of all GPU time each project held; what nobody held is left over."""
    there = sum(
        node["gpus_total"] * _overlap_s(facts, node["created_at"], _end(node))
        for node in _lives(facts)
    )
    whole = max(there, sum(seconds.values()))
    found: defaultdict[str, float] = defaultdict(float)
    for project, held in seconds.items():
        found[project] = held / whole if whole else 0.0
    return found


def _end(node: Said) -> str | None:
    """When a life was over; where nobody says it, when it was last heard, if ever."""
    if node["status"] != "retired":
        return None
    return _first(node, "retired_at", "last_seen_at", "created_at")


def _overlap_s(facts: TenantFacts, begin: str, end: str | None) -> float:
    """How much of a time lies in the time that is counted."""
    until_s = facts.now_s if end is None else _seconds(end)
    return max(0.0, min(until_s, facts.now_s) - max(_seconds(begin), facts.since_s))


def _seconds(text: str) -> float:
    return _moment(text).timestamp()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _first(said: Said, *names: str) -> str | None:
    return next((said[name] for name in names if said[name]), None)


def _earns(allocations: Sequence[Said], silent: Outages) -> dict[str, int]:
    """Minor units per hour of what is active now, on nodes that are not silent."""
    return _added(
        {each["price"]["currency"]: _rate(each).hour_minor}
        for each in allocations
        if each["status"] == "active" and all(one.ended for one in silent[each["node_id"]])
    )


def _earned(allocations: Sequence[Said], facts: TenantFacts, silent: Outages) -> dict[str, int]:
    """Minor units since counting began."""
    return _added(
        {each["price"]["currency"]: _due(each, facts, silent[each["node_id"]])}
        for each in allocations
        if each["active_at"]
    )


def _outages(facts: TenantFacts) -> Outages:
    """When nodes were silent, by id."""
    found: Outages = defaultdict(list)
    for node in facts.nodes:
        found[node["id"]] = [
            Outage(_moment(each["began_at"]), each["ended_at"] and _moment(each["ended_at"]))
            for each in node["outages"]
        ]
    return found


def _due(allocation: Said, facts: TenantFacts, silent: Sequence[Outage]) -> int:
    """As it is charged: what is due at its end, or by now, less what was due before it counts."""
    active, now = _moment(allocation["active_at"]), datetime.fromtimestamp(facts.now_s, UTC)
    ended = _first(allocation, "releasing_at", "released_at", "failed_at")
    until = min(now, _moment(ended)) if ended else now
    since = min(until, datetime.fromtimestamp(facts.since_s, UTC))
    rate = _rate(allocation)
    before = rate.due(elapsed_s(active, since, silent))
    return rate.due(elapsed_s(active, until, silent)) - before


def _rate(allocation: Said) -> Rate:
    return Rate(allocation["price"]["gpu_hour_minor"], allocation["gpus"])


def _added(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: defaultdict[str, int] = defaultdict(int)
    for each in amounts:
        for currency, amount in each.items():
            found[currency] += amount
    return dict(found)
