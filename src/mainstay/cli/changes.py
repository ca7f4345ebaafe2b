"""The changes of a what-if, as people write them on a command line."""

import math
from collections.abc import Iterator
from typing import Final

from mainstay.cli.words import state_named
from mainstay.model.errors import Rejected
from mainstay.model.need import Operator
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.questions import Addition, Match, PriceChange, QuotaChange, Selection
from mainstay.model.rollup import RawNeed, RawRequirement

RACK_KEY: Final = "topology.bigfleet/rack"

KEYS: Final = {"type": INSTANCE_TYPE_KEY, "zone": ZONE_KEY, "rack": RACK_KEY}
"""Short names of attributes; any other name is a label."""

EVERYTHING: Final = "*"


def price(text: str) -> PriceChange:
    """`type=p4d=2`: what comes last is the factor."""
    selector, equals, number = text.rpartition("=")
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not equals or not math.isfinite(factor) or factor < 0:
        raise Rejected(f"not a price change: {text[:80]!r} (write SELECTOR=FACTOR: type=p4d=2)")
    return PriceChange(selection=selection(selector), factor=factor)


def selection(text: str) -> Selection:
    """`capacity=spot,zone=z1`: machines that are all of it; `*` is every machine."""
    if text == EVERYTHING:
        return Selection()
    pairs = list(_pairs(text, "a selector", "zone=z1,capacity=spot"))
    return Selection(
        matches=tuple(
            Match(key=KEYS.get(key, key), values=(value,))
            for key, value in pairs
            if key not in {"capacity", "state", "provider"}
        ),
        capacity_types=tuple(value for key, value in pairs if key == "capacity"),
        states=tuple(state_named(value) for key, value in pairs if key == "state"),
        providers=tuple(value for key, value in pairs if key == "provider"),
    )


def rack(text: str) -> Selection:
    """A rack by its name, or any label as KEY=VALUE."""
    return selection(text if "=" in text else f"rack={text}")


def addition(text: str) -> Addition:
    """`web:cpu=64,unit.cpu=8,where.zone=z1,priority=100`."""
    cluster, colon, rest = text.partition(":")
    if not (cluster and colon):
        raise Rejected(f"not an addition: {text[:80]!r} (write CLUSTER:cpu=64,memory=256Gi)")
    asked: dict[str, str] = {}
    unit: dict[str, str] = {}
    requirements: list[RawRequirement] = []
    priority = 0
    for key, value in _pairs(rest, "an addition", "cpu=64,memory=256Gi"):
        if key == "priority":
            priority = _whole(value, "a priority")
        elif key == "same":
            requirements.append(RawRequirement(KEYS.get(value, value), Operator.SAME))
        elif key.startswith("where."):
            name = key.removeprefix("where.")
            requirements.append(RawRequirement(KEYS.get(name, name), Operator.IN, (value,)))
        elif key.startswith("unit."):
            unit[key.removeprefix("unit.")] = value
        else:
            asked[key] = value
    if not asked:
        raise Rejected(f"nothing is asked for in {text[:80]!r}: write CLUSTER:cpu=64")
    need = RawNeed(
        requirements=tuple(requirements),
        aggregate_resources=asked,
        priority=priority,
        min_unit=unit,
    )
    return Addition(cluster=cluster, need=need)


def quota(text: str) -> QuotaChange:
    """`web=100`, `aws/us-east-1=500`, `web=any`."""
    name, equals, number = text.rpartition("=")
    if not (name and equals):
        raise Rejected(f"not a quota: {text[:80]!r} (write CLUSTER=N or PROVIDER/REGION=N)")
    held = None if number == "any" else _whole(number, "a quota")
    provider, slash, region = name.partition("/")
    if slash:
        return QuotaChange(provider=provider, region=region, held=held)
    return QuotaChange(cluster=name, held=held)


def _pairs(text: str, what: str, example: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise Rejected(f"not {what}: {part[:80]!r} (write it like {example})")
        yield key, value


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Rejected(f"not {what}: {text[:80]!r} (a whole number)") from error
