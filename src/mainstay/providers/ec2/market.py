"""What EC2 tells of its spot market: prices, and which instances it is about to take back."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mainstay.model.notice import InterruptionNotice

NOTICED: Final = frozenset({"marked-for-termination", "marked-for-stop"})
"""Status codes of a spot request whose instance is about to go."""

WARNING_S: Final = 120.0
"""How long before that EC2 says so."""


def notices_in(requests: Iterable[Mapping[str, Any]]) -> dict[str, InterruptionNotice]:
    """Notices among spot requests as DescribeSpotInstanceRequests gives them, by instance."""
    found = {}
    for request in requests:
        status, instance = request.get("Status", {}), request.get("InstanceId", "")
        if instance and status.get("Code") in NOTICED:
            said = status.get("UpdateTime")
            at_s = said.timestamp() + WARNING_S if said else 0.0
            found[instance] = InterruptionNotice(at_s, status["Code"])
    return found


def prices_in(history: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The newest price of each type in each zone, from DescribeSpotPriceHistory."""
    newest: dict[tuple[str, str], tuple[float, float]] = {}
    for entry in history:
        key = entry["InstanceType"], entry["AvailabilityZone"]
        told = entry["Timestamp"].timestamp(), float(entry["SpotPrice"])
        newest[key] = max(newest.get(key, told), told)
    return {key: price for key, (_, price) in newest.items()}
