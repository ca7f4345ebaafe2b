"""Deciding again with nothing carried over: what the last cycle left must not show in a plan."""

import dataclasses
from itertools import zip_longest

import numpy as np

from mainstay.engine.decide import decide
from mainstay.engine.plan import Memory, Plan


def differences(plan: Plan, memory: Memory, now: float) -> tuple[str, ...]:
    """How a plan, made with this memory at this time, differs from a full pass; empty if it does
    not. A shard asks every so many cycles; an answer that is not empty is a defect of ours.
    """
    alone = dataclasses.replace(memory, last=None)
    unseen = dataclasses.replace(plan.demand, before=None)
    full = decide(plan.snapshot, unseen, alone, plan.policy, now)
    found = []
    for at, (ours, theirs) in enumerate(zip_longest(plan.actions, full.actions)):
        if ours != theirs:
            found.append(f"actions differ from number {at} on: {ours}, in a full pass {theirs}")
            break
    claimed = np.flatnonzero(plan.owner != full.owner)
    if len(claimed):
        machine = plan.snapshot.machine_ids(claimed[:1])[0]
        found.append(f"claims differ on {len(claimed)} machines, such as {machine}")
    told = ("unsatisfied", "shortfalls", "gang_ages", "shortfall_ages", "until")
    other = [f"{name} differ" for name in told if getattr(plan, name) != getattr(full, name)]
    return (*found, *other)
