"""`mainstay whatif`: what a change would do, without doing it."""

import dataclasses
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from mainstay.cli import servers
from mainstay.cli.changes import addition, price, quota, rack
from mainstay.cli.options import Option, takes
from mainstay.cli.output import Format, Row, not_by_name, write
from mainstay.cli.words import amounts, dollars, percent
from mainstay.model.action import ActionKind
from mainstay.model.errors import Unknown
from mainstay.model.questions import NeedChange, WhatIfAnswer, WhatIfQuery
from mainstay.model.supposing import check_known, divided
from mainstay.model.views import ClusterQuery

if TYPE_CHECKING:
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

app = typer.Typer(add_completion=False)

SHOWN: Final = 20
"""So many needs and machines are named in a table."""


@app.command()
@takes(
    Option("lose_zone", list[str], "Every machine of this zone is gone."),
    Option("drain_rack", list[str], "Every machine of this rack is gone (or KEY=VALUE)."),
    Option("price", list[str], "SELECTOR=FACTOR: type=p4d=2, capacity=spot,zone=z1=1.5, *=2."),
    Option("add", list[str], "CLUSTER:RESOURCE=AMOUNT,...: more is asked for."),
    Option("quota", list[str], "CLUSTER=N or PROVIDER/REGION=N; N may be `any`."),
    Option("form", Format, "How to print the answer.", Format.TABLE, ("--output", "-o")),
    *servers.SERVER,
)
def whatif(**given: Any) -> int:
    """Decide on the live state as it is and as it would be, and compare. Nothing is done.

    With --add also: priority=N, unit.RESOURCE=AMOUNT, where.KEY=VALUE, same=KEY.
    """
    query = WhatIfQuery(
        lost_zones=tuple(given["lose_zone"] or ()),
        lost=tuple(map(rack, given["drain_rack"] or ())),
        prices=tuple(map(price, given["price"] or ())),
        additions=tuple(map(addition, given["add"] or ())),
        quotas=tuple(map(quota, given["quota"] or ())),
    )
    if query == WhatIfQuery():
        raise typer.BadParameter("name a change, such as --lose-zone ZONE")
    import asyncio

    not_by_name(given["form"])
    found = servers.find_servers(given)
    answers = asyncio.run(_asked(found, query))
    told = [answer.value for answer in answers.given]
    code = answers.exit_code
    check_known(told, all_answered=not answers.missing)
    _write(told, given["form"])
    return code


async def _asked(found: "Sequence[Server]", query: WhatIfQuery) -> servers.Answers[WhatIfAnswer]:
    """By each shard that it is about; one where nothing would change says so on stderr."""
    clusters = {each.cluster for each in query.additions}
    known = await servers.ask_all(found, lambda shard: _served(shard, clusters))
    serving = {server.name: set[str]() for server in found}
    asked = divided(query, serving | {each.server.name: each.value for each in known.given})
    answers = await servers.ask_each([
        (each.server, _question(asked[each.server.name]))
        for each in known.given
        if each.server.name in asked
    ])  # fmt: skip
    for error in answers.missing:
        if isinstance(error, Unknown):
            sys.stderr.write(f"Nothing would change there: {error.message}\n")
    silent = [each for each in answers.missing if not isinstance(each, Unknown)]
    return servers.Answers(answers.given, (*known.missing, *silent))


async def _served(shard: "RemoteShard", clusters: Collection[str]) -> set[str]:
    """Which of these it serves."""
    return {name for name in clusters if (await shard.clusters(ClusterQuery(cluster=name))).rows}


def _question(query: WhatIfQuery) -> servers.Ask[WhatIfAnswer]:
    return lambda shard: shard.what_if(query)


def _write(told: Sequence[WhatIfAnswer], form: Format) -> None:
    documents = [_document(each) for each in told]
    match form:
        case Format.JSON:
            sys.stdout.write(json.dumps(documents, indent=2) + "\n")
        case Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump(documents, sort_keys=False))
        case _:
            for each in told:
                _print(each)
            if len(told) > 1:
                sys.stdout.write(together(told))


def together(told: Sequence[WhatIfAnswer]) -> str:
    """The sum over all shards, in lines."""
    before, after = sum(each.cost_before for each in told), sum(each.cost_after for each in told)
    now, then = (
        sum(sum(counts.values()) for counts in side)
        for side in (
            [each.actions_before for each in told],
            [each.actions_after for each in told],
        )
    )
    counted = {
        "no longer served in full": sum(each.unsatisfied_count for each in told),
        "served in full only then": sum(each.satisfied_count for each in told),
        "missing another amount": sum(each.moved_count for each in told),
    }
    needs = ", ".join(f"{count:,} {what}" for what, count in counted.items())
    drained, spared = (
        sum(each.drained_count for each in told),
        sum(each.spared_count for each in told),
    )
    return (
        f"\nAll {len(told)} shards together:\n"
        f"  dollars per hour: {dollars(before)} before, {dollars(after)} after"
        f"{percent(before, after)}\n"
        f"  actions: {now:,} before, {then:,} after\n"
        f"  needs: {needs}\n"
        f"  machines: {drained:,} drained only then, {spared:,} no longer drained\n"
    )


def _document(told: WhatIfAnswer) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(told)))
    stamp = plain.pop("stamp")
    return {"shard": stamp["shard"], "cycle": stamp["cycle"], **plain}


def _print(told: WhatIfAnswer) -> None:
    out = sys.stdout.write
    out(f"Shard {told.stamp.shard}, on the plan of cycle {told.stamp.cycle}. Nothing was done.\n\n")
    write(_actions(told.actions_before, told.actions_after), Format.TABLE)
    before, after = told.cost_before, told.cost_after
    change = percent(before, after)
    out(f"\nDollars per hour: {dollars(before)} before, {dollars(after)} after{change}.\n")
    _needs("No longer served in full", told.unsatisfied, told.unsatisfied_count)
    _needs("Served in full only then", told.satisfied, told.satisfied_count)
    _needs("Missing another amount", told.moved, told.moved_count)
    _machines("Drained only then", told.drained, told.drained_count)
    _machines("No longer drained", told.spared, told.spared_count)
    for each in told.unmatched:
        out(f"\nNo machine of this shard has {each}: that was left out.\n")


def _actions(before: Mapping[str, int], after: Mapping[str, int]) -> list[Row]:
    rows: list[Row] = [
        {"action": str(kind), "before": before.get(kind, 0), "after": after.get(kind, 0)}
        for kind in ActionKind
        if kind in before or kind in after
    ]
    return rows or [{"action": "(none)", "before": 0, "after": 0}]


def _needs(what: str, changes: Sequence[NeedChange], count: int) -> None:
    if not count:
        return
    sys.stdout.write(f"\n{what}: {count}\n")
    for each in changes[:SHOWN]:
        name = "/".join(filter(None, (each.cluster, each.fingerprint[:8], each.group)))
        before, after = amounts(each.before) or "nothing", amounts(each.after) or "nothing"
        sys.stdout.write(f"  {name}: missed {before}, would miss {after}\n")
    _more(count, len(changes[:SHOWN]))


def _machines(what: str, machines: Sequence[str], count: int) -> None:
    if count:
        sys.stdout.write(f"\n{what}: {count}\n  {' '.join(machines[:SHOWN])}\n")
        _more(count, len(machines[:SHOWN]))


def _more(count: int, shown: int) -> None:
    if count > shown:
        sys.stdout.write(f"  and {count - shown:,} more; -o json names the first hundred\n")
