"""A small catalogue of instance types for simulated fleets: sizes are typical, prices round."""

from typing import Final, NamedTuple

from mainstay.model.profile import CapacityType


class Offer(NamedTuple):
    """One instance type: what it has and what an hour on demand costs."""

    instance_type: str
    cpu: str
    memory: str
    gpus: int
    dollars_per_hour: float


# fmt: off
OFFERS: Final = (
    Offer("gp-4",      "4",   "16Gi",   0, 0.20),
    Offer("gp-8",      "8",   "32Gi",   0, 0.40),
    Offer("gp-16",     "16",  "64Gi",   0, 0.80),
    Offer("gp-32",     "32",  "128Gi",  0, 1.60),
    Offer("gp-64",     "64",  "256Gi",  0, 3.20),
    Offer("gp-96",     "96",  "384Gi",  0, 4.80),
    Offer("cpu-8",     "8",   "16Gi",   0, 0.35),
    Offer("cpu-16",    "16",  "32Gi",   0, 0.70),
    Offer("cpu-32",    "32",  "64Gi",   0, 1.40),
    Offer("cpu-96",    "96",  "192Gi",  0, 4.20),
    Offer("mem-8",     "8",   "64Gi",   0, 0.50),
    Offer("mem-16",    "16",  "128Gi",  0, 1.00),
    Offer("mem-32",    "32",  "256Gi",  0, 2.00),
    Offer("mem-64",    "64",  "512Gi",  0, 4.00),
    Offer("disk-32",   "32",  "256Gi",  0, 2.70),
    Offer("l4-1",      "8",   "32Gi",   1, 0.80),
    Offer("l40s-4",    "48",  "384Gi",  4, 10.50),
    Offer("a100-8",    "96",  "1152Gi", 8, 27.40),
    Offer("h100-8",    "192", "2048Gi", 8, 55.00),
    Offer("h200-8",    "192", "2048Gi", 8, 63.30),
)
# fmt: on

PRICE_SHARE: Final = {
    CapacityType.BARE_METAL: 0.0,
    CapacityType.RESERVED: 0.6,
    CapacityType.ON_DEMAND: 1.0,
    CapacityType.SPOT: 0.35,
}
"""What a capacity type costs, as a share of the price on demand."""

INTERRUPTION_PROBABILITY: Final = {CapacityType.SPOT: 0.05}
"""Chance of losing a machine within an hour; zero where it is not named."""
