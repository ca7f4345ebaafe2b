"""A mixed fleet by seed: every state, every capacity type, machines bound to clusters' needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.assignment import Assignment
from mainstay.model.batch import Codes, Echo, MachineBatch, Shape, echo_of, with_digests
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.metadata import encode
from mainstay.model.profile import Profile
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import RULES, Parts, Presence, State
from mainstay.model.texts import Texts, texts_of
from mainstay.providers.sim.catalog import INTERRUPTION_PROBABILITY, OFFERS, PRICE_SHARE

ZONES: Final = ("zone-a", "zone-b", "zone-c")
RACK_KEY: Final = "topology.bigfleet/rack"
POOL_KEY: Final = "node.bigfleet/pool"
PROVIDER: Final = "sim"

PER_THOUSAND: Final[Mapping[State, int]] = {
    State.SPECULATIVE: 50,
    State.CREATING: 10,
    State.IDLE: 90,
    State.CONFIGURING: 10,
    State.CONFIGURED: 820,
    State.DRAINING: 10,
    State.DELETING: 5,
    State.FAILED: 5,
}
"""How many of a thousand machines are in each state."""

_CAPACITY_TYPES: Final = tuple(PRICE_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """What a fleet is made of."""

    machines: int
    seed: int
    clusters: int = 50
    needs_per_cluster: int = 100

    def __post_init__(self) -> None:
        if self.machines < 1 or self.seed < 0 or self.clusters < 1 or self.needs_per_cluster < 1:
            raise Rejected("a fleet needs at least one machine, cluster and need, and a seed >= 0")

    @property
    def racks(self) -> int:
        """One rack per thousand machines, and at least three: one in each zone."""
        return max(3, self.machines // 1000)


def by_state(machines: int) -> dict[State, int]:
    """How many machines of a fleet of this size are in each state; Configured takes the rest."""
    counts = {state: machines * share // 1000 for state, share in PER_THOUSAND.items()}
    counts[State.CONFIGURED] += machines - sum(counts.values())
    return {state: count for state, count in counts.items() if count}


def fleet(spec: FleetSpec) -> MachineBatch:
    """The fleet as its provider reports it. The same spec gives the same bytes."""
    random = np.random.Generator(np.random.PCG64(spec.seed))
    size = spec.machines
    state = _states(spec, random)
    offer = random.integers(len(OFFERS), size=size)
    rack = random.integers(spec.racks, size=size)
    capacity = random.integers(len(_CAPACITY_TYPES), size=size)
    has_host = _where(state, "host", Presence.ALWAYS)
    bound = _where(state, "cluster", Presence.ALWAYS)
    need = np.where(bound, random.integers(spec.clusters * spec.needs_per_cluster, size=size), 0)
    shape, shapes = _shapes(spec, offer, rack, capacity)
    failed = state == State.FAILED
    return with_digests(MachineBatch(
        source=PROVIDER,
        full=True,
        ids=texts_of(f"{PROVIDER}-{place:07d}" for place in range(size)),
        digest=np.zeros(size, dtype=np.uint64),
        state=state,
        host_provider=has_host.astype(np.uint32),
        host_ref=_host_refs(spec, has_host),
        shape=shape,
        cluster=np.where(bound, need // spec.needs_per_cluster + 1, 0).astype(np.uint32),
        price_per_hour=_prices()[offer, capacity],
        interruption_probability=_probabilities()[capacity],
        last_error=failed.astype(np.uint32),
        metadata=np.where(bound & _carries_assignment(state), need + 1, 0).astype(np.uint32),
        host_providers=(None, PROVIDER),
        shapes=shapes,
        clusters=("", *(f"cluster-{number:03d}" for number in range(spec.clusters))),
        last_errors=("", "Create timed out after 600 s"),
        metadatas=((), *(_echo(spec, n) for n in range(spec.clusters * spec.needs_per_cluster))),
    ))  # fmt: skip


def _states(spec: FleetSpec, random: np.random.Generator) -> NDArray[np.uint8]:
    counts = by_state(spec.machines)
    state = np.repeat(np.array(list(counts), dtype=np.uint8), list(counts.values()))
    random.shuffle(state)
    return state


def _where(state: NDArray[np.uint8], what: str, presence: Presence) -> NDArray[np.bool_]:
    wanted = np.array([getattr(RULES[each], what) is presence for each in State])
    found: NDArray[np.bool_] = wanted[state]
    return found


def _carries_assignment(state: NDArray[np.uint8]) -> NDArray[np.bool_]:
    carries = np.array([RULES[each].assignment in {Parts.ALL, Parts.DRAINED} for each in State])
    found: NDArray[np.bool_] = carries[state]
    return found


def _host_refs(spec: FleetSpec, has_host: NDArray[np.bool_]) -> Texts:
    refs = (f"i-{spec.seed:05x}{place:012x}" for place in range(spec.machines))
    return texts_of(ref if has else "" for ref, has in zip(refs, has_host.tolist(), strict=True))


def _shapes(
    spec: FleetSpec,
    offer: NDArray[np.int64],
    rack: NDArray[np.int64],
    capacity: NDArray[np.int64],
) -> tuple[Codes, tuple[Shape, ...]]:
    """The distinct (type, rack, capacity type) that occur, and which of them each machine is."""
    key = (offer * spec.racks + rack) * len(_CAPACITY_TYPES) + capacity
    used, codes = np.unique(key, return_inverse=True)
    resources = [_resources(place) for place in range(len(OFFERS))]
    shapes = []
    for packed in used.tolist():
        rest, kind = divmod(packed, len(_CAPACITY_TYPES))
        which, where = divmod(rest, spec.racks)
        labels = ((POOL_KEY, f"pool-{which % 4}"), (RACK_KEY, f"rack-{where}"))
        profile = Profile(
            OFFERS[which].instance_type, ZONES[where % 3], _CAPACITY_TYPES[kind],
            resources[which], labels,
        )  # fmt: skip
        shapes.append(Shape(profile, NO_RESOURCES))
    return codes.astype(np.uint32), tuple(shapes)


def _resources(place: int) -> Resources:
    offer = OFFERS[place]
    texts = {"cpu": offer.cpu, "memory": offer.memory}
    if offer.gpus:
        texts["nvidia.com/gpu"] = str(offer.gpus)
    return Resources(texts)


def _prices() -> NDArray[np.float64]:
    on_demand = np.array([offer.dollars_per_hour for offer in OFFERS])
    shares = np.array(list(PRICE_SHARE.values()))
    prices: NDArray[np.float64] = np.multiply.outer(on_demand, shares).round(4)
    return prices


def _probabilities() -> NDArray[np.float64]:
    return np.array([INTERRUPTION_PROBABILITY.get(kind, 0.0) for kind in _CAPACITY_TYPES])


def _echo(spec: FleetSpec, need: int) -> Echo:
    """What the provider echoes for a machine of this need."""
    return echo_of(encode(Assignment(
        fingerprint=Fingerprint(f"{need:032x}"),
        group="",
        cluster=ClusterId(f"cluster-{need // spec.needs_per_cluster:03d}"),
        priority=(100, 1_000, 10_000, 100_000, 1_000_000)[need % 5],
        interruption_penalty_dollars=(1.0, 64.0, 8192.0)[need % 3],
        reclamation_penalty_dollars=(0.0, 1.0, 64.0)[need % 7 % 3],
    )))  # fmt: skip
