"""What a mutating call must pass, as a table in its fixed order.

A check lets a call go on, raises what it is refused with, or answers it: then it is a repetition,
and its operation is known already.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstay.model.calls import (
    BLOB_BYTES_MAX,
    INT64_MAX,
    METADATA_BYTES_MAX,
    Call,
    ConfigureRequest,
    CreateRequest,
    DrainRequest,
    Fence,
    Mutation,
)
from mainstay.model.errors import IllegalTransition, NotSupported, Rejected
from mainstay.model.ids import parse_cluster_id, parse_machine_id
from mainstay.model.machine import Machine
from mainstay.providers.kit.backend import Backend, Job
from mainstay.providers.kit.ledger import Ledger
from mainstay.providers.kit.steps import STEPS


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call on its way through the checks."""

    call: Call
    request: Mutation
    ledger: Ledger
    backend: Backend

    @property
    def machine(self) -> Machine:
        """The machine it is about, once that is known to be there."""
        return self.ledger.known(self.request.machine).machine


class Check(NamedTuple):
    """One row: `run` returns the operation that answers the call, or None to go on."""

    name: str
    run: Callable[[Attempt], str | None]


def passed(attempt: Attempt) -> str | None:
    """Run every check in order; the operation that this call repeats, or None if it is new."""
    for check in CHECKS:
        operation = check.run(attempt)
        if operation is not None:
            return operation
    return None


def _form(attempt: Attempt) -> None:
    request = attempt.request
    parse_machine_id(request.machine)
    _fence_form(request.fence)
    if isinstance(request, CreateRequest | DrainRequest):
        _echo_form("attribution", request.attribution)
    if isinstance(request, ConfigureRequest):
        _configure_form(request)
    if isinstance(request, DrainRequest) and not 0 <= request.grace_s <= INT64_MAX:
        raise Rejected(f"a grace period must be zero or more seconds: {request.grace_s}")


def _fence_form(fence: Fence) -> None:
    if fence and not fence.shard:
        raise Rejected(f"a fence must name its shard: {fence.epoch}/{fence.sequence}")
    for name, number in (("epoch", fence.epoch), ("sequence", fence.sequence)):
        if not 0 <= number <= INT64_MAX:
            raise Rejected(f"the {name} of a fence must be within 0 and 2**63-1: {number}")


def _configure_form(request: ConfigureRequest) -> None:
    parse_cluster_id(request.cluster)
    if len(request.blob) > BLOB_BYTES_MAX:
        have = f"{len(request.blob)} bytes"
        raise Rejected(f"bootstrap blob too large: {have} (at most {BLOB_BYTES_MAX})")
    _echo_form("shard metadata", request.metadata)


def _echo_form(what: str, texts: Mapping[str, str]) -> None:
    size = sum(
        len(text.encode(errors="surrogatepass")) for entry in texts.items() for text in entry
    )
    if size > METADATA_BYTES_MAX:
        raise Rejected(f"{what} too large: {size} bytes (at most {METADATA_BYTES_MAX})")


def _support(attempt: Attempt) -> None:
    if attempt.call is Call.DELETE and not attempt.backend.deletable:
        name = attempt.backend.name
        raise NotSupported(f"provider {name} deletes no machines: {attempt.request.machine}")


def _fence(attempt: Attempt) -> None:
    fence, machine = attempt.request.fence, attempt.request.machine
    attempt.ledger.fences.check(fence, machine)
    attempt.ledger.write(attempt.ledger.fences.advance(fence, machine))


def _known(attempt: Attempt) -> None:
    attempt.ledger.known(attempt.request.machine)


def _repetition(attempt: Attempt) -> str | None:
    """Arguments are not compared: the first call of a step decides."""
    step = STEPS[attempt.call]
    if attempt.machine.state in {step.during, step.after}:
        return attempt.ledger.operation(attempt.request.machine, attempt.call)
    return None


def _capacity_type(attempt: Attempt) -> None:
    capacity = attempt.machine.profile.capacity_type
    if attempt.call is Call.DELETE and capacity not in attempt.backend.deletable:
        what = f"{capacity} machine {attempt.request.machine}"
        raise NotSupported(f"provider {attempt.backend.name} does not delete {what}")


def _position(attempt: Attempt) -> None:
    """No refusal here may look like a fence: callers take that for an incident."""
    step, machine = STEPS[attempt.call], attempt.machine
    if machine.state is not step.source:
        where = f"{machine.state} (needs {step.source})"
        raise IllegalTransition(f"cannot {attempt.call} machine {machine.id} in state {where}")


def _admission(attempt: Attempt) -> None:
    record = attempt.ledger.known(attempt.request.machine)
    job, request = Job("", record.machine, record.slot), attempt.request
    attempt.backend.admit(attempt.call, job)
    if isinstance(request, ConfigureRequest):
        attempt.backend.admit_binding(job, request.blob, request.metadata)


CHECKS: Final = (
    Check("form", _form),
    Check("support", _support),
    Check("fence", _fence),
    Check("known", _known),
    Check("repetition", _repetition),
    Check("capacity type", _capacity_type),
    Check("position", _position),
    Check("admission", _admission),
)
