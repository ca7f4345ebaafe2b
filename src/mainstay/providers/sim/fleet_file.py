"""What `mainstay provider sim` serves: a mixed fleet, or what a TOML file says.

A pool names a capacity type and how many slots; without a type or a zone they are dealt out evenly
over the catalogue.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from mainstay.model.calls import Call
from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType
from mainstay.providers.kit.options import STEP_TIMEOUTS_S, Options
from mainstay.providers.kit.steps import STEPS
from mainstay.providers.sim import faults
from mainstay.providers.sim.backend import CREATE_FAULT_LABEL
from mainstay.providers.sim.faults import Faults
from mainstay.providers.sim.latency import Latency
from mainstay.providers.sim.offers import small_catalog
from mainstay.providers.sim.spec import Pool, SimSpec, spread

SLOTS: Final = 640
HELD: Final = 96
QUICK_S: Final = 0.2
"""Long enough to be seen on the way, short enough to wait for."""

_CAPACITY: Final[Mapping[str, CapacityType]] = MappingProxyType(
    {str(kind): kind for kind in CapacityType if kind is not CapacityType.UNSPECIFIED}
)
_POOL_KEYS: Final = frozenset({"capacity", "slots", "type", "zone"})
_FILE_KEYS: Final = frozenset(
    {"name", "pool", "latency_s", "timeout_s", "fault_slots", "holds_grace"}
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A simulated cloud, and how patient its server is."""

    spec: SimSpec
    options: Options


def mixed_fleet(seed: int) -> Fleet:
    """Enough of everything for anybody's conformance run; steps take a fraction of a second."""
    offers = small_catalog()
    pools = (
        *spread(offers, SLOTS, (CapacityType.ON_DEMAND, CapacityType.SPOT)),
        *spread(offers, HELD, (CapacityType.BARE_METAL, CapacityType.RESERVED)),
    )
    return Fleet(SimSpec(pools=pools, seed=seed, latencies=_latencies({})), Options())


def read_fleet(path: Path, seed: int) -> Fleet:
    """The fleet of a file; Rejected, with the key, if one cannot be read.

    With `fault_slots` it also hosts the checks of failures: so many slots whose Create fails, and
    clusters named `fault-...` bring about what they are named for.
    """
    told = _read(path)
    _known_keys(told, _FILE_KEYS, f"the fleet {path}")
    pools = told.get("pool", [])
    if not isinstance(pools, list) or not pools:
        raise Rejected(f"a fleet needs a [[pool]]: {path}")
    faulty = _count(told.get("fault_slots", 0), "fault_slots")
    timeouts = _times(told.get("timeout_s", {}), "timeout_s")
    spec = SimSpec(
        pools=tuple(pool for each in pools for pool in _pools(each)) + _faulty_pools(faulty),
        seed=seed,
        name=str(told.get("name", "sim")),
        latencies=_latencies(_times(told.get("latency_s", {}), "latency_s")),
        selectors=faulty > 0,
        holds_grace=told.get("holds_grace") is True,
    )
    options = Options(step_timeouts_s={**STEP_TIMEOUTS_S, **timeouts}, ready_poll_s=0.1)
    return Fleet(spec, options if faulty else dataclasses.replace(options, ready_poll_s=2.0))


def read_faults(path: Path) -> Faults:
    """The faults of a file: the names of `mainstay.providers.sim.faults.Faults`."""
    settings = {name: str(value) for name, value in _read(path).items()}
    return faults.changed(Faults(), settings)


def _pools(told: object) -> tuple[Pool, ...]:
    if not isinstance(told, dict):
        raise Rejected(f"pools are written as [[pool]] tables: {told!r}")
    _known_keys(told, _POOL_KEYS, f"pool {told!r}")
    capacity = _CAPACITY.get(str(told.get("capacity", "OnDemand")))
    if capacity is None:
        names = ", ".join(_CAPACITY)
        raise Rejected(f"no such capacity type: {told['capacity']!r} (there are: {names})")
    catalogue = small_catalog()
    offers = [
        offer
        for offer in catalogue
        if told.get("type", offer.instance_type) == offer.instance_type
        and told.get("zone", offer.zone) == offer.zone
    ]
    if not offers:
        types = ", ".join(sorted({offer.instance_type for offer in catalogue}))
        zones = ", ".join(sorted({offer.zone for offer in catalogue}))
        there = f"(it has the types {types} in the zones {zones})"
        raise Rejected(f"nothing in the catalogue is like the pool {told!r} {there}")
    return spread(offers, _count(told.get("slots", 0), "slots"), (capacity,))


def _faulty_pools(slots: int) -> tuple[Pool, ...]:
    if not slots:
        return ()
    offer = small_catalog()[0]
    return (Pool(offer, CapacityType.ON_DEMAND, slots, labels=(CREATE_FAULT_LABEL,)),)


def _latencies(told: Mapping[Call, float]) -> Mapping[Call, Latency]:
    return {call: Latency(told.get(call, QUICK_S)) for call in STEPS}


def _times(table: object, name: str) -> dict[Call, float]:
    if not isinstance(table, dict):
        raise Rejected(f"{name} must be a table: {table!r}")
    calls = {call.value: call for call in STEPS}
    _known_keys(table, calls.keys(), name)
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise Rejected(f"{name}.{key} must be seconds: {value!r}")
    return {calls[key]: float(value) for key, value in table.items()}


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Rejected(f"{name} must be a whole number: {value!r}")
    return value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"cannot read {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise Rejected(f"not TOML: {path} ({error})") from error


def _known_keys(table: Mapping[str, Any], known: Any, what: str) -> None:
    for key in table:
        if key not in known:
            raise Rejected(f"{what} has an unknown key: {key} (known: {', '.join(sorted(known))})")
