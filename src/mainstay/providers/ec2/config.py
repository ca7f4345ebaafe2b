"""What an EC2 provider sells: a TOML file with one table a pool."""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.model.profile import CapacityType, Profile, labels_of
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.providers.ec2.timing import Timing, timing_of
from mainstay.providers.sim.offers import Offer, read_catalog

POOL_SLOTS_MAX: Final = 100_000

OURS: Final = "mainstay:"
"""All our tags begin so."""

OWN_TAGS_MAX: Final = 20
"""The rest of EC2's fifty is ours."""

INTERRUPTION_PROBABILITY: Final = 0.05
"""An hour; for a spot pool that names none."""

CAPACITIES: Final[Mapping[str, CapacityType]] = {
    "on-demand": CapacityType.ON_DEMAND,
    "spot": CapacityType.SPOT,
}

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_CONFIG_KEYS: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,), "region": (str,), "endpoint": (str,), "catalogue": (str,), "tags": (dict,),
    "timing": (dict,), "pool": (list,),
}  # fmt: skip
_POOL_KEYS: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,), "type": (str,), "zone": (str,), "capacity": (str,), "count": (int,),
    "image": (str,), "subnet": (str,), "security_groups": (list,), "instance_profile": (str,),
    "price_per_hour": (int, float), "interruption_probability": (int, float),
    "resources": (dict,), "allocatable": (dict,), "labels": (dict,),
}  # fmt: skip
_POOL_REQUIRED: Final = ("name", "type", "zone", "capacity", "count", "image")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Instances that differ in nothing but their number."""

    name: str
    profile: Profile
    count: int
    image: str
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    """An IAM role for the instances, by the name of its profile."""

    price_per_hour: float
    """On demand, what it costs; spot, what it counts as until EC2 has told the price."""

    interruption_probability: float = 0.0
    allocatable: Resources = NO_RESOURCES

    @property
    def is_spot(self) -> bool:
        """Whether EC2 may take its instances back."""
        return self.profile.capacity_type is CapacityType.SPOT

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of its slots; the first machine in each has this id."""
        return tuple(f"{self.name}-{number}" for number in range(self.count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Config:
    """One provider: one region of one account."""

    name: str
    region: str
    pools: tuple[Pool, ...]
    endpoint: str = ""
    """Where the API is, when it is not Amazon's; called directly, past any proxy."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of yours, on every instance and volume."""

    timing: Timing = field(default_factory=Timing)


def read(path: Path) -> Ec2Config:
    """Read it whole, or say which pool or key is wrong."""
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"the file of pools cannot be read: {path} ({error})") from error
    except tomllib.TOMLDecodeError as error:
        raise Rejected(f"the file of pools is not TOML: {path} ({error})") from error
    return config_of(parsed, folder=path.parent)


def config_of(parsed: Mapping[str, Any], *, folder: Path) -> Ec2Config:
    """The configuration in a parsed file; a catalogue it names is looked for in `folder`."""
    _check_keys(parsed, _CONFIG_KEYS, ("name", "region", "pool"), "the file of pools")
    named = parsed.get("catalogue", "")
    catalogue = read_catalog(folder / named) if named else ()
    offers = {(offer.instance_type, offer.zone): offer for offer in catalogue}
    pools = tuple(_pool(table, offers) for table in parsed["pool"])
    names = [pool.name for pool in pools]
    for name in names:
        if names.count(name) > 1:
            raise Rejected(f"pool {name!r} is there twice")
    return Ec2Config(
        name=_name(parsed["name"], "provider"),
        region=parsed["region"],
        pools=pools,
        endpoint=parsed.get("endpoint", ""),
        tags=_own_tags(parsed.get("tags", {})),
        timing=timing_of(parsed.get("timing", {})),
    )


def _pool(table: Any, offers: Mapping[tuple[str, str], Offer]) -> Pool:
    if not isinstance(table, dict):
        raise Rejected(f"pools are written as [[pool]] tables: {table!r}")
    shown = f"pool {table.get('name', '?')!r}"
    _check_keys(table, _POOL_KEYS, _POOL_REQUIRED, shown)
    if not 1 <= table["count"] <= POOL_SLOTS_MAX:
        raise Rejected(f"count of {shown} must be within 1 and {POOL_SLOTS_MAX}: {table['count']}")
    groups = table.get("security_groups", [])
    if not all(isinstance(group, str) for group in groups):
        raise Rejected(f"security_groups of {shown} must be texts: {groups!r}")
    profile = _profile(table, offers, shown)
    return Pool(
        name=_name(table["name"], "pool"),
        profile=profile,
        count=table["count"],
        image=table["image"],
        subnet=table.get("subnet", ""),
        security_groups=tuple(groups),
        instance_profile=table.get("instance_profile", ""),
        price_per_hour=_price(table, offers, shown),
        interruption_probability=_probability(table, profile.capacity_type, shown),
        allocatable=Resources(_texts(table.get("allocatable", {}), f"allocatable of {shown}")),
    )


def _profile(
    table: Mapping[str, Any], offers: Mapping[tuple[str, str], Offer], shown: str
) -> Profile:
    capacity = CAPACITIES.get(table["capacity"])
    if capacity is None:
        known = " or ".join(CAPACITIES)
        raise Rejected(f"capacity of {shown} must be {known}: {table['capacity']!r}")
    offer = offers.get((table["type"], table["zone"]))
    resources = Resources(_texts(table.get("resources", {}), f"resources of {shown}"))
    resources = resources or (offer.resources if offer else NO_RESOURCES)
    if not resources:
        raise Rejected(f"{shown} has no resources, and no catalogue tells them")
    labels = labels_of(_texts(table.get("labels", {}), f"labels of {shown}"))
    return Profile(table["type"], table["zone"], capacity, resources, labels)


def _price(table: Mapping[str, Any], offers: Mapping[tuple[str, str], Offer], shown: str) -> float:
    price = table.get("price_per_hour")
    offer = offers.get((table["type"], table["zone"]))
    if price is None and offer is not None:
        spot = offer.spot_dollars_per_hour if table["capacity"] == "spot" else None
        price = offer.dollars_per_hour if spot is None else spot
    if price is None:
        raise Rejected(f"{shown} has no price_per_hour, and no catalogue tells it")
    if not 0.0 <= price < float("inf"):
        raise Rejected(f"price_per_hour of {shown} must be zero or more: {price}")
    return float(price)


def _probability(table: Mapping[str, Any], capacity: CapacityType, shown: str) -> float:
    spot = capacity is CapacityType.SPOT
    probability = table.get("interruption_probability", INTERRUPTION_PROBABILITY if spot else 0.0)
    if not 0.0 <= probability <= 1.0 or (spot and probability == 0.0):
        range_ = "above 0 and at most 1" if spot else "within 0 and 1"
        raise Rejected(f"interruption_probability of {shown} must be {range_}: {probability}")
    return float(probability)


def _name(text: str, what: str) -> str:
    """Machine ids are made of it, and name Kubernetes objects."""
    if _NAME.fullmatch(text) is None:
        form = "a to z, 0 to 9 and -, at most 40"
        raise Rejected(f"not a name of a {what}: {text[:80]!r} ({form})")
    return text


def _own_tags(table: Mapping[str, Any]) -> dict[str, str]:
    tags = _texts(table, "tags")
    if len(tags) > OWN_TAGS_MAX:
        raise Rejected(f"too many tags: {len(tags)} (at most {OWN_TAGS_MAX})")
    for key, value in tags.items():
        if key == "Name" or key.startswith((OURS, "aws:")):
            raise Rejected(f"tag {key!r} is not yours to give")
        if not 0 < len(key) <= 128 or len(value) > 256:
            raise Rejected(f"tag {key[:80]!r} is too long: EC2 takes 128 and 256 characters")
    return tags


def _texts(table: Mapping[str, Any], what: str) -> dict[str, str]:
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise Rejected(f"{what} must be text or whole numbers: {key} = {value!r}")
    return {key: str(value) for key, value in table.items()}


def _check_keys(
    table: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], required: Collection[str],
    shown: str,
) -> None:  # fmt: skip
    for key, value in table.items():
        if key not in known:
            names = ", ".join(sorted(known))
            raise Rejected(f"{shown} has an unknown key: {key} (known: {names})")
        if type(value) not in known[key]:
            kinds = " or ".join(kind.__name__ for kind in known[key])
            raise Rejected(f"{key} of {shown} must be a {kinds}: {value!r}")
    for key in required:
        if table.get(key) in (None, "", []):
            raise Rejected(f"{shown} has no {key}")
