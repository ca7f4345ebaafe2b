"""What came of a decision or a run, as it stands under `expect`; and how it is written there."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import yaml

from mainstay.engine.plan import Plan, Shortfall, Unsatisfied
from mainstay.model.action import Action, ActionKind
from mainstay.sim.world import Loop
from oracles.plain_engine import PlainPlan
from scenarios.stages import FOLDED, Cast
from scenarios.words import Wrong, told_names, told_units

NOBODY: Final = "none"
COUNTED: Final = (*(f"{kind}s" for kind in ActionKind), "deferred", "lost", "failed")
WHEN_MAX: Final = 8
LAST: Final = ("configured", "creating", "unsatisfied", "shortfalls")

Told = dict[str, Any]


def told_plan(plan: Plan | PlainPlan, cast: Cast) -> Told:
    """A plan; what there is none of is left out, but actions and claims are always told."""
    told: Told = {
        "actions": list(_actions(plan.actions, cast)),
        "claimed": told_names(plan.claimed_ids()) or NOBODY,
        "unsatisfied": [_unsatisfied(row, cast) for row in plan.unsatisfied],
        "shortfalls": [_shortfall(row, cast) for row in plan.shortfalls],
        "ages": {cast.name(ref): age for ref, age in plan.memory.gang_ages.items()},
    }
    told["ages"] = dict(sorted(told["ages"].items()))
    return {key: value for key, value in told.items() if value or key == "actions"}


def _actions(actions: Sequence[Action], cast: Cast) -> Iterator[Told]:
    """Neighbours that differ in nothing but the machine are told together."""
    for (kind, cluster, need, grace), group in groupby(
        actions, key=lambda a: (a.kind, a.cluster, a.need, a.grace_s)
    ):
        told: Told = {str(kind): told_names([action.machine for action in group])}
        if cluster is not None:
            told["cluster"] = str(cluster)
        if need is not None:
            told["for"] = cast.name(need)
        if grace:
            told["grace"] = grace
        yield told


def _unsatisfied(row: Unsatisfied, cast: Cast) -> Told:
    """Of a folded row also what it is; of a gang also what became of its domain."""
    name = cast.row_name(row.need)
    told: Told = {"need": name}
    if name.endswith(FOLDED):
        told["wants"] = told_units(row.need.aggregate)
        told["unit"] = told_units(row.need.min_unit)
        if row.need.arrival_nanos:
            told["arrival"] = row.need.arrival_nanos
    told["deficit"] = told_units(row.deficit)
    if row.need.profile.same_keys or row.domain or row.satisfiable or row.parked:
        told["domain"] = None if row.domain is None else " ".join(row.domain)
        told["satisfiable"] = row.satisfiable
        told["parked"] = row.parked
    told["unresolved"] = told_units(row.unresolved)
    told["reason"] = row.reason.value
    if row.ceiling is not None:
        domain = " ".join(row.ceiling.domain)
        told["ceiling"] = {"domain": domain, "has": told_units(row.ceiling.capacity)}
    return told


def _shortfall(row: Shortfall, cast: Cast) -> Told:
    return {
        "need": cast.kind_name(row.fingerprint),
        "priority": row.priority,
        "deficit": told_units(row.deficit),
        "age": row.age,
    }


def told_run(loop: Loop) -> Told:
    """A run: how many of each step, in which cycles, and how it ended."""
    kinds = [f"{kind}s" for kind in ActionKind]
    cycles = {
        kind: [stats.cycle for stats in loop.history if getattr(stats, kind)] for kind in kinds
    }
    return {
        "totals": {name: total for name in COUNTED if (total := loop.total(name))},
        "when": {kind: _when(numbers) for kind, numbers in cycles.items() if numbers},
        "quiet": loop.quiet_cycles,
        "last": {name: getattr(loop.history[-1], name) for name in LAST},
    }


def _when(cycles: Sequence[int]) -> int | str:
    """The cycles by number; of many only the first and the last."""
    width = len(str(cycles[-1]))
    text = told_names([f"{cycle:0{width}}" for cycle in cycles])
    text = re.sub(r"\b0+(?=[0-9])", "", text)
    if len(text.split()) > WHEN_MAX:
        return f"from {cycles[0]} to {cycles[-1]}"
    return cycles[0] if len(cycles) == 1 else text


# Writing

_PLAIN: Final = re.compile(r"\w[\w./ +-]*")
_EXPECT: Final = re.compile(r"( *)expect:(?: .*)?")


def rewritten(text: str, told: Sequence[Told]) -> str:
    """The text of a file with these in the place of its expectations; the rest stays as it is."""
    lines = text.splitlines()
    found: list[str] = []
    remaining = list(told)
    at = 0
    while at < len(lines):
        opening = _EXPECT.fullmatch(lines[at])
        if opening is None:
            found.append(lines[at])
            at += 1
            continue
        if not remaining:
            raise Wrong("more expectations than decisions")
        found += _block(remaining.pop(0), opening[1])
        at = _end_of_block(lines, at, len(opening[1]))
    if remaining:
        raise Wrong("each expect must have a line of its own, and not be the first key of its part")
    return "\n".join(found) + "\n"


def _end_of_block(lines: Sequence[str], opening: int, indent: int) -> int:
    """The first line after it that is no part of it."""
    end = opening + 1
    while end < len(lines) and lines[end].startswith(" " * (indent + 1)):
        end += 1
    return end


def _block(told: Told, indent: str) -> list[str]:
    lines = [f"{indent}expect:"]
    for key, value in told.items():
        if isinstance(value, list) and value:
            lines.append(f"{indent}  {key}:")
            lines += [f"{indent}    - {flow(row)}" for row in value]
        else:
            lines.append(f"{indent}  {key}: {flow(value)}")
    return lines


def flow(value: object) -> str:
    """A value on one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value)
