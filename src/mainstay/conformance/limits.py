"""How patient, how thorough and how greedy a run is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run; times in seconds."""

    call_s: float = 30.0
    """A call that takes longer has failed."""

    step_s: float = 30.0
    """A step that takes longer has failed."""

    check_s: float = 180.0
    """A check that takes longer has failed."""

    all_s: float = 900.0
    """After this no further check is begun."""

    poll_s: float = 0.02
    still_s: float = 0.3
    """How long a machine is watched that must not move."""

    quiet_s: float = 0.75
    """How long a list is watched that must not change."""

    fault_s: float = 15.0
    """How long a step that fails may take to do so."""

    late_s: float = 4.0
    """How long after a time-out a late success may come."""

    soak_s: float = 8.0
    at_once: int = 16
    """Checks that run side by side."""

    burst: int = 16
    tokens: int = 240
    maps: int = 20
    walks: int = 5
    scale_machines: int = 2000
    """From so many machines on a fleet is a large one."""

    page: int = 500
    samples: int = 120
    get_p99_s: float = 0.25
    list_p99_s: float = 2.0
    list_s: float = 3.0
    lag_s: float = 0.2
    """The most a tormented line holds a call back."""
