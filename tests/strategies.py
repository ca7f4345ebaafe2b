"""Hypothesis strategies for the model: valid machines, and records that break a named rule.

They are cached, since making a strategy costs more than drawing from it.
"""

import math
import string
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple, cast

from hypothesis import strategies as st

from builders import REAL_STATES
from mainstay.model.assignment import NO_ASSIGNMENT, PRIORITY_MAX, PRIORITY_MIN, Assignment, NeedRef
from mainstay.model.cost import PENALTY_BUCKET_MAX, UPPER_BOUND_DOLLARS
from mainstay.model.ids import ID_LENGTH_MAX, ClusterId, Fingerprint, MachineId
from mainstay.model.machine import HOST_REF_BYTES_MAX, Machine, MachineRule
from mainstay.model.need import (
    Need,
    NeedProfile,
    Operator,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)
from mainstay.model.profile import CapacityType, HostRef, Profile, labels_of
from mainstay.model.resources import NO_RESOURCES, Resources
from mainstay.model.state import State

ID_LETTERS: Final = string.ascii_letters + string.digits + string.punctuation
CLUSTERS: Final = ("web", "batch", "train", "eu/prod-1")
DIMENSIONS: Final = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu")
LABEL_KEYS: Final = (
    "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "rack", "nvswitch",
)  # fmt: skip
LABEL_VALUES: Final = ("a", "b", "c", "1", "20", "")

HOSTED: Final = (
    State.IDLE, State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.DELETING,
)  # fmt: skip
HOSTLESS: Final = (State.SPECULATIVE, State.CREATING)
BOUND: Final = (State.CONFIGURED, State.DRAINING)
UNBOUND: Final = (State.SPECULATIVE, State.CREATING, State.IDLE, State.DELETING)
UNCOMMITTED: Final = (State.SPECULATIVE, State.IDLE, State.DELETING)
COMMITTED: Final = (State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.FAILED)
DRAINED: Final = (State.DRAINING, State.FAILED)


class Invalid(NamedTuple):
    """A record that breaks exactly one rule."""

    rule: MachineRule
    machine: Machine


def ids() -> st.SearchStrategy[str]:
    """Text that may be an id, mostly short."""
    return st.text(ID_LETTERS, min_size=1, max_size=12)


@cache
def machine_ids() -> st.SearchStrategy[MachineId]:
    return ids().map(MachineId)


def cluster_ids() -> st.SearchStrategy[ClusterId]:
    """Few, so that they meet again."""
    return st.sampled_from(CLUSTERS).map(ClusterId)


@cache
def fingerprints() -> st.SearchStrategy[Fingerprint]:
    """Ours, and such as another system may have written."""
    ours = st.text("0123456789abcdef", min_size=32, max_size=32)
    return st.one_of(ours, st.text(min_size=1, max_size=20)).map(Fingerprint)


@cache
def dollars() -> st.SearchStrategy[float]:
    """Penalties: those of the ladder, pinned among them, and any other number."""
    other = st.floats(allow_nan=False, allow_infinity=False)
    return st.one_of(st.sampled_from(UPPER_BOUND_DOLLARS), other)


def prices() -> st.SearchStrategy[float]:
    return st.floats(0.0, 1000.0)


def probabilities() -> st.SearchStrategy[float]:
    return st.floats(0.0, 1.0)


@cache
def quantity_texts() -> st.SearchStrategy[str]:
    """Every way to write a quantity, signs and useless zeros among them."""
    whole = st.text(string.digits, min_size=1, max_size=15)
    fraction = st.text(string.digits, max_size=12).map(lambda digits: "." + digits)
    number = st.one_of(
        whole,
        st.builds(str.__add__, whole, fraction),
        fraction.filter(lambda text: len(text) > 1),
    )
    exponent = st.builds("{}{}".format, st.sampled_from("eE"), st.integers(-30, 30))
    suffix = st.one_of(
        st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]), exponent
    )
    return st.builds("{}{}{}".format, st.sampled_from(["", "+", "-"]), number, suffix)


@cache
def amounts(dimension: str) -> st.SearchStrategy[str]:
    """Quantities that one machine can have of this dimension."""
    if dimension in {"cpu", "nvidia.com/gpu"}:
        return st.one_of(st.integers(0, 10**6).map(str), st.integers(0, 10**6).map("{}m".format))
    suffix = st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"])
    return st.builds("{}{}".format, st.integers(0, 1024), suffix)


@cache
def resources() -> st.SearchStrategy[Resources]:
    texts = {dimension: amounts(dimension) for dimension in DIMENSIONS}
    return st.fixed_dictionaries({}, optional=texts).map(Resources)


@cache
def units(highest: int = 10**6) -> st.SearchStrategy[dict[str, int]]:
    """A vector of amounts, dimensions missing and zero among them."""
    return st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, highest))


@cache
def labels() -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(LABEL_KEYS), st.sampled_from(LABEL_VALUES))


@cache
def profiles() -> st.SearchStrategy[Profile]:
    return st.builds(
        Profile,
        instance_type=st.sampled_from(["m5.2xlarge", "p5.48xlarge", "metal-1"]),
        zone=st.sampled_from(["zone-a", "zone-b", ""]),
        capacity_type=st.sampled_from(CapacityType),
        resources=resources(),
        labels=labels().map(labels_of),
    )


@cache
def hosts() -> st.SearchStrategy[HostRef]:
    return st.builds(HostRef, provider=st.sampled_from(["metal", "aws-eu-west-1"]), ref=ids())


@cache
def need_refs() -> st.SearchStrategy[NeedRef]:
    groups = st.sampled_from(["", "gang-1"])
    return st.builds(NeedRef, cluster_ids(), fingerprints(), groups)


def _optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


def _part_strategies(state: State) -> dict[str, st.SearchStrategy[Any]]:
    need = {
        "fingerprint": _optional(fingerprints()),
        "group": _optional(st.sampled_from(["", "gang-1", "gang-2"])),
        "cluster": _optional(cluster_ids()),
    }
    serving = {
        "priority": _optional(st.integers(PRIORITY_MIN, PRIORITY_MAX)),
        "interruption_penalty_dollars": _optional(dollars()),
        "reclamation_penalty_dollars": _optional(dollars()),
    }
    drained = {"drained_for": _optional(need_refs())}
    if state in UNCOMMITTED:
        return {}
    if state is State.CREATING:
        return need
    return need | serving | drained if state in DRAINED else need | serving


@cache
def assignments(state: State = State.FAILED) -> st.SearchStrategy[Assignment]:
    """What a machine in `state` may carry, any part absent; by default, any assignment at all."""
    return st.builds(Assignment, **_part_strategies(state))


def machines(states: Sequence[State] = REAL_STATES) -> st.SearchStrategy[Machine]:
    """A valid machine in one of these states."""
    return st.sampled_from(states).flatmap(_machines_in)


@cache
def _machines_in(state: State) -> st.SearchStrategy[Machine]:
    host: st.SearchStrategy[HostRef | None] = _optional(hosts())
    cluster: st.SearchStrategy[ClusterId | None] = _optional(cluster_ids())
    if state is not State.FAILED:
        host = st.none() if state in HOSTLESS else hosts()
    if state in UNBOUND or state in BOUND:
        cluster = st.none() if state in UNBOUND else cluster_ids()
    return st.builds(
        Machine,
        id=machine_ids(),
        state=st.just(state),
        profile=profiles(),
        host=host,
        cluster=cluster,
        allocatable=st.one_of(st.just(NO_RESOURCES), resources()),
        price_per_hour=prices(),
        interruption_probability=probabilities(),
        assignment=assignments(state),
        last_error=st.text(min_size=1 if state is State.FAILED else 0, max_size=20),
        shard_metadata=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=2),
    )


def not_ids() -> st.SearchStrategy[str]:
    return st.sampled_from(["", "a b", "zürich", "a\nb", "a\x00", "a" * (ID_LENGTH_MAX + 1)])


def _but(changes: st.SearchStrategy[dict[str, Any]], *states: State) -> st.SearchStrategy[Machine]:
    """Valid machines in `states`, spoilt by `changes`."""
    return st.builds(
        lambda machine, change: replace(machine, **change),
        machines(states or REAL_STATES),
        changes,
    )


def _change(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return values.map(lambda value: {name: value})


def _stateless() -> st.SearchStrategy[Machine]:
    numbers = st.sampled_from([int(State.UNSPECIFIED), 9, 42, -1])
    return _but(_change("state", numbers))


def _overcommitted() -> st.SearchStrategy[Machine]:
    """Machines that carry one part more than their state allows."""
    part = _change("assignment", st.builds(Assignment, fingerprint=fingerprints()))
    priority = _change("assignment", st.builds(Assignment, priority=st.integers(0, 1000)))
    drained = _change("assignment", st.builds(Assignment, drained_for=need_refs()))
    return st.one_of(
        _but(part, *UNCOMMITTED),
        _but(priority, State.CREATING),
        _but(drained, State.CONFIGURING, State.CONFIGURED),
    )


def _unpriced() -> st.SearchStrategy[Machine]:
    """Machines that carry a penalty which is no number."""
    names = st.sampled_from(["interruption_penalty_dollars", "reclamation_penalty_dollars"])
    penalty = names.map(
        lambda name: {"assignment": replace(NO_ASSIGNMENT, **cast("Any", {name: math.nan}))}
    )
    return _but(penalty, *COMMITTED)


_PRICES: Final = (math.nan, math.inf, -math.inf, -0.01)
_PROBABILITIES: Final = (math.nan, math.inf, -0.001, 1.001)

_BREAKING: Final[dict[MachineRule, st.SearchStrategy[Machine]]] = {
    MachineRule.ID: _but(_change("id", not_ids())),
    MachineRule.STATE: _stateless(),
    MachineRule.HOST: st.one_of(
        _but(_change("host", st.none()), *HOSTED),
        _but(_change("host", hosts()), *HOSTLESS),
        _but(_change("host", st.just(HostRef("metal", "x" * (HOST_REF_BYTES_MAX + 1)))), *HOSTED),
    ),
    MachineRule.CLUSTER: st.one_of(
        _but(_change("cluster", st.sampled_from([None, ""])), *BOUND),
        _but(_change("cluster", cluster_ids()), *UNBOUND),
    ),
    MachineRule.ASSIGNMENT: _overcommitted(),
    MachineRule.DIAGNOSIS: _but(_change("last_error", st.just("")), State.FAILED),
    MachineRule.PRICE: _but(_change("price_per_hour", st.sampled_from(_PRICES))),
    MachineRule.INTERRUPTION_PROBABILITY: _but(
        _change("interruption_probability", st.sampled_from(_PROBABILITIES))
    ),
    MachineRule.PENALTY: _unpriced(),
}

RECORD_RULES: Final = tuple(_BREAKING)
"""The rules that a record can break on its own; the others are about the fleet it joins."""


def breaking(rule: MachineRule) -> st.SearchStrategy[Machine]:
    """Records that break this rule and no other."""
    return _BREAKING[rule]


def invalid_machines() -> st.SearchStrategy[Invalid]:
    """Records that break one rule, labelled with it."""
    return st.sampled_from(RECORD_RULES).flatmap(
        lambda rule: breaking(rule).map(lambda machine: Invalid(rule, machine))
    )


@cache
def requirements() -> st.SearchStrategy[Requirement]:
    return st.builds(
        Requirement,
        key=st.sampled_from(LABEL_KEYS),
        operator=st.sampled_from(Operator),
        values=st.lists(st.sampled_from(LABEL_VALUES), max_size=3).map(tuple),
    )


@cache
def spreads() -> st.SearchStrategy[Spread]:
    return st.builds(
        Spread,
        topology_key=st.sampled_from(LABEL_KEYS),
        max_skew=st.integers(1, 3),
        when_unsatisfiable=st.sampled_from(WhenUnsatisfiable),
    )


@cache
def need_profiles() -> st.SearchStrategy[NeedProfile]:
    buckets = st.integers(0, PENALTY_BUCKET_MAX)
    return st.builds(
        NeedProfile,
        requirements=st.lists(requirements(), max_size=4).map(tuple),
        spread=st.lists(spreads(), max_size=3).map(tuple),
        priority=st.one_of(st.integers(0, 2), st.integers(PRIORITY_MIN, PRIORITY_MAX)),
        interruption_penalty_bucket=buckets,
        reclamation_penalty_bucket=buckets,
    )


@cache
def needs(cluster: ClusterId | None = None) -> st.SearchStrategy[Need]:
    """Needs of one cluster, or of any."""
    return st.builds(
        Need,
        cluster=cluster_ids() if cluster is None else st.just(cluster),
        profile=need_profiles(),
        aggregate=units(),
        min_unit=units(1000),
        arrival_nanos=st.integers(0, 3),
        group=st.sampled_from(["", "gang-1", "gang-2"]),
    )
