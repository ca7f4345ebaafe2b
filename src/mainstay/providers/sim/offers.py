"""What a simulated cloud sells, and for how much: a small table of real prices, or a file.

The table holds public prices of AWS in us-east-1: real ones, of some day. A file
has the columns `instance_type, zone, accelerator_count, vcpus, memory_gib, usd_per_hour,
spot_usd_per_hour`; others are not read.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.model.resources import Resources

ZONES: Final = ("use1-az2", "use1-az4", "use1-az6")
GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance type in one zone."""

    instance_type: str
    zone: str
    resources: Resources
    dollars_per_hour: float
    spot_dollars_per_hour: float | None
    """None: not sold as spot."""


# fmt: off
_TABLE: Final = (
    # type           vCPU  GiB   GPU  on demand   spot in each of the zones
    ("m5.large",       2,    8,   0,   0.096,     (0.0430, 0.0442, 0.0447)),
    ("m5.xlarge",      4,   16,   0,   0.192,     (0.0659, 0.0671, 0.0649)),
    ("m5.4xlarge",    16,   64,   0,   0.768,     (0.3301, 0.3150, 0.2974)),
    ("m6i.2xlarge",    8,   32,   0,   0.384,     (0.1784, 0.1756, 0.1673)),
    ("c5.2xlarge",     8,   16,   0,   0.34,      (0.1556, 0.1579, 0.1532)),
    ("c5.9xlarge",    36,   72,   0,   1.53,      (0.6906, 0.6634, 0.6359)),
    ("r5.2xlarge",     8,   64,   0,   0.504,     (0.1916, 0.1994, 0.1933)),
    ("i3en.6xlarge",  24,  192,   0,   2.712,     (1.0240, 0.9990, 1.1162)),
    ("g4dn.xlarge",    4,   16,   1,   0.526,     (0.3739, 0.3720, 0.3599)),
    ("g5.xlarge",      4,   16,   1,   1.006,     (0.7251, 0.6380, 0.5371)),
    ("g5.12xlarge",   48,  192,   4,   5.672,     (3.9745, 4.0150, 5.2476)),
    ("p4d.24xlarge",  96, 1152,   8,  21.957642,  (19.6241, 19.0878, 18.9156)),
    ("p5.48xlarge",  192, 2048,   8,  55.04,      (20.7387, 21.0363, 20.6232)),
)
# fmt: on

_COLUMNS: Final = (
    "instance_type", "zone", "accelerator_count", "vcpus", "memory_gib", "usd_per_hour",
    "spot_usd_per_hour",
)  # fmt: skip


def small_catalog() -> tuple[Offer, ...]:
    """Thirteen types in three zones."""
    return tuple(
        Offer(name, zone, _resources(cpus, gib, gpus), on_demand, spot)
        for name, cpus, gib, gpus, on_demand, spots in _TABLE
        for zone, spot in zip(ZONES, spots, strict=True)
    )


def read_catalog(path: Path) -> tuple[Offer, ...]:
    """The offers of a file; Rejected, with the line, if one cannot be read."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return offers_of(csv.DictReader(file), str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Rejected(f"the catalogue cannot be read: {path} ({error})") from error


def offers_of(rows: Iterable[Mapping[str, str]], where: str) -> tuple[Offer, ...]:
    """Offers of rows with our columns; a type that is not sold at all is left out."""
    offers: dict[tuple[str, str], Offer] = {}
    for line, row in enumerate(rows, start=2):
        missing = [name for name in _COLUMNS if row.get(name) is None]
        if missing:
            raise Rejected(f"line {line} of {where} has no column: {', '.join(missing)}")
        offer = _offer(row, f"line {line} of {where}")
        if offer is not None:
            offers[offer.instance_type, offer.zone] = offer
    if not offers:
        raise Rejected(f"the catalogue is empty: {where}")
    return tuple(offers.values())


def choose(offers: Sequence[Offer], names: Sequence[str]) -> tuple[Offer, ...]:
    """Only these instance types; Rejected for one that is not sold."""
    sold = {offer.instance_type for offer in offers}
    for name in names:
        if name not in sold:
            raise Rejected(f"no such instance type in the catalogue: {name}")
    return tuple(offer for offer in offers if offer.instance_type in names)


def _offer(row: Mapping[str, str], where: str) -> Offer | None:
    on_demand = _number(row, "usd_per_hour", where)
    if on_demand is None:
        return None
    cpus, gib = _number(row, "vcpus", where), _number(row, "memory_gib", where)
    if not row["instance_type"] or not row["zone"] or cpus is None or gib is None:
        raise Rejected(f"{where} must have a type, a zone, vcpus and memory_gib")
    gpus = _number(row, "accelerator_count", where) or 0.0
    spot = _number(row, "spot_usd_per_hour", where)
    resources = _resources(cpus, gib, gpus)
    return Offer(row["instance_type"], row["zone"], resources, on_demand, spot)


def _number(row: Mapping[str, str], name: str, where: str) -> float | None:
    text = row[name].strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError as error:
        raise Rejected(f"{name} of {where} is not a number: {text!r}") from error
    if not 0.0 <= number < math.inf:
        raise Rejected(f"{name} of {where} must be zero or more: {text}")
    return number


def _resources(cpus: float, gib: float, gpus: float) -> Resources:
    texts = {"cpu": f"{cpus:g}", "memory": f"{gib:g}Gi"}
    return Resources(texts | ({GPU: str(int(gpus))} if gpus >= 1 else {}))
