"""Machines walking their lifecycle, as a provider would carry it out: one legal edge at a time."""

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Final

from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, restrict
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.profile import HostRef
from mainstay.model.state import NEXT, RULES, Presence, State
from mainstay.providers.sim.fleet import PROVIDER

DIAGNOSIS: Final = "the simulated provider gave up"


def next_state(machine: Machine, random: Random) -> State | None:
    """A legal next state, or None at the end of the road; failing is rare."""
    options = sorted(NEXT[machine.state])
    if not options:
        return None
    weights = [1 if state == State.FAILED else 50 for state in options]
    return random.choices(options, weights)[0]


def moved(machine: Machine, state: State, clusters: Sequence[ClusterId], random: Random) -> Machine:
    """The record of `machine` as it stands in `state`, carrying what that state asks for."""
    rule = RULES[state]
    host, cluster = machine.host, machine.cluster
    if rule.host is Presence.NEVER:
        host = None
    elif rule.host is Presence.ALWAYS and host is None:
        host = HostRef(PROVIDER, f"i-{random.getrandbits(68):017x}")
    if rule.cluster is Presence.NEVER:
        cluster = None
    elif cluster is None and (rule.cluster is Presence.ALWAYS or state is State.CONFIGURING):
        cluster = random.choice(clusters)
    assignment = machine.assignment if state is not State.CONFIGURING else NO_ASSIGNMENT
    if state is State.CONFIGURED:
        assignment = Assignment(cluster=cluster, priority=random.choice((100, 1_000, 10_000)))
    return dataclasses.replace(
        machine,
        state=state,
        host=host,
        cluster=cluster,
        assignment=restrict(assignment, state),
        last_error=DIAGNOSIS if state is State.FAILED else "",
    )
