"""How patient an EC2 provider is, and how much it asks at once."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainstay.model.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times in seconds."""

    call_timeout_s: float = 20.0
    """A call of the API that takes longer is given up, and repeated by the kit."""

    calls_at_once: int = 8
    poll_s: float = 2.0
    """How often instances are looked at while somebody waits for one; all share a look."""

    grace_s_max: float = 3600.0
    """A drain waits no longer than this, whatever grace it is given."""

    spot_prices_every_s: float = 300.0
    status_checks: bool = True
    """Whether a machine is Configured only when both of EC2's status checks have passed."""


def timing_of(table: Mapping[str, Any]) -> Timing:
    """The times in a parsed table; those it does not name are as they are."""
    kinds = {each.name: each.type for each in dataclasses.fields(Timing)}
    for key, value in table.items():
        if key not in kinds:
            raise Rejected(f"timing has an unknown key: {key} (known: {', '.join(sorted(kinds))})")
        if isinstance(value, bool) is not (kinds[key] is bool) or not isinstance(
            value, int | float if kinds[key] is float else int
        ):
            raise Rejected(f"{key} of timing is of the wrong kind: {value!r}")
        if value < 0 or (key in {"call_timeout_s", "calls_at_once", "poll_s"} and value == 0):
            raise Rejected(f"{key} of timing is too small: {value!r}")
    return Timing(**table)
