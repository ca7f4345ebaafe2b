"""What a provider counts. Labels are members of enumerations: no machine is ever one."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mainstay.model.calls import Call, Status
from mainstay.model.state import RULES, State

_CALL_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0)
_STEP_BUCKETS = (0.1, 1.0, 5.0, 15.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class StepEnd(StrEnum):
    """How a step ended."""

    DONE = "done"
    """The machine is where the step was to take it."""

    FAILED = "failed"
    """The hardware refused for good, or too often."""

    TIMED_OUT = "timed_out"
    """It had not come to an end when its time was over."""

    OVERTAKEN = "overtaken"
    """The machine had gone, or had failed, before."""


class Found(StrEnum):
    """What a look at the hardware found."""

    ADDED = "added"
    """A machine that was not known."""

    REFRESHED = "refreshed"
    """A machine that is otherwise than it was known."""

    REFUSED = "refused"
    """A machine that cannot be as it was told."""

    LOST = "lost"
    """A machine that is no longer there."""

    ERROR = "error"
    """Nothing: the look failed."""


class Metrics:
    """One set per provider, in a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self._calls = Counter(
            "mainstay_provider_calls_total", "Calls answered.", ("call", "status"),
            registry=registry,
        )  # fmt: skip
        self._call_seconds = Histogram(
            "mainstay_provider_call_seconds", "Time to answer a call.", ("call",),
            buckets=_CALL_BUCKETS, registry=registry,
        )  # fmt: skip
        self._steps = Counter(
            "mainstay_provider_steps_total", "Steps of machines that ended.", ("call", "end"),
            registry=registry,
        )  # fmt: skip
        self._step_seconds = Histogram(
            "mainstay_provider_step_seconds", "Time a step took.", ("call",),
            buckets=_STEP_BUCKETS, registry=registry,
        )  # fmt: skip
        self._retries = Counter(
            "mainstay_provider_retries_total", "Attempts that were repeated.", ("call",),
            registry=registry,
        )  # fmt: skip
        self._found = Counter(
            "mainstay_provider_reconcile_total", "What looks at the hardware found.", ("found",),
            registry=registry,
        )  # fmt: skip
        self._faults = Counter(
            "mainstay_provider_faults_total", "Faults that were injected.", ("fault",),
            registry=registry,
        )  # fmt: skip
        self._machines = Gauge(
            "mainstay_provider_machines_count", "Machines by state.", ("state",), registry=registry
        )

    def answered(self, call: Call, status: Status, seconds: float) -> None:
        """A call got its answer."""
        self._calls.labels(call.value, status.name).inc()
        self._call_seconds.labels(call.value).observe(seconds)

    def ended(self, call: Call, end: StepEnd, seconds: float) -> None:
        """A step is over."""
        self._steps.labels(call.value, end.value).inc()
        self._step_seconds.labels(call.value).observe(seconds)

    def retried(self, call: Call) -> None:
        """A step is tried again."""
        self._retries.labels(call.value).inc()

    def found(self, found: Found, count: int = 1) -> None:
        """A look at the hardware found this."""
        self._found.labels(found.value).inc(count)

    def injected(self, fault: StrEnum) -> None:
        """A fault was put in on purpose."""
        self._faults.labels(fault.value).inc()

    def bill(self, dollars: Callable[[], float]) -> None:
        """Show what was charged, whenever somebody looks; only who keeps a bill can tell."""
        gauge = Gauge(
            "mainstay_provider_billed_dollars", "What all hosts have cost by now.",
            registry=self.registry,
        )  # fmt: skip
        gauge.set_function(dollars)

    def watch(self, by_state: Mapping[State, int]) -> None:
        """Show how many machines are in each state, whenever somebody looks."""
        for state in RULES:
            if state is not State.UNSPECIFIED:
                self._machines.labels(str(state)).set_function(partial(_count, by_state, state))


def _count(by_state: Mapping[State, int], state: State) -> float:
    return by_state.get(state, 0)
