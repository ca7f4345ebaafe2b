"""`mainstay rebalance`: what would be moved between shards, and why not more."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from mainstay.cli import coordinators, exits, output
from mainstay.cli.control import who
from mainstay.cli.options import Option, takes
from mainstay.cli.output import Format
from mainstay.model.coordinator_calls import CancelMoveRequest, ReturnMachinesRequest
from mainstay.model.coordinator_views import PlanQuery, PlanRow, ProposalRow, VerdictRow

app = typer.Typer(add_completion=False, no_args_is_help=True)

TIERS: Final = {1: "idle", 2: "slots", 3: "drain"}
SHORT: Final = 8

ACTS: Final = "Such plans are carried out at intervals."
SHOWS: Final = "Such plans are only shown: this coordinator moves nothing by itself."


@app.callback()
def rebalance() -> None:
    """Capacity between shards: what would be moved, and taking a move back."""


@app.command()
@takes(
    Option("form", Format, "How to print the answer.", Format.TABLE, ("--output", "-o")),
    *coordinators.SERVER,
)
def plan(**given: Any) -> int:
    """What the planner would do now and why, and why not more. Nothing is done by asking."""
    output.not_by_name(given["form"])
    found = coordinators.find(given)
    told = coordinators.ask(found, lambda asked: asked.plan(PlanQuery()))
    _write(told, given["form"])
    return exits.DONE


@app.command()
@takes(coordinators.REASON, *coordinators.SERVER)
def cancel(
    move: Annotated[str, typer.Argument(metavar="MOVE", help="As `get moves` lists it.")],
    **given: Any,
) -> int:
    """Take a move back; what the donor gave already goes back to it."""
    request = CancelMoveRequest(move=move, reason=given["reason"], by=who())
    done = coordinators.ask(coordinators.find(given), lambda asked: asked.cancel_move(request))
    sys.stdout.write(f"Move {move} is taken back. {done.sentence}\n")
    return exits.DONE


@app.command("return")
@takes(coordinators.YES, coordinators.REASON, *coordinators.SERVER)
def give_back(
    shard: Annotated[str, typer.Argument(metavar="SHARD", help="Which misses them.")],
    machines: Annotated[
        list[str] | None, typer.Argument(metavar="[MACHINE]...", help="Without any: all of them.")
    ] = None,
    **given: Any,
) -> int:
    """Give a shard back machines of its domains that it was told are away and that nobody has."""
    if not given["yes"]:
        raise typer.BadParameter(
            f"a machine that a silent shard still has would be {shard}'s too: wait until every"
            " shard has reported (`mainstay get conflicts`), then repeat this with --yes"
        )
    request = ReturnMachinesRequest(
        shard=shard, machines=tuple(machines or ()), reason=given["reason"], by=who()
    )
    done = coordinators.ask(coordinators.find(given), lambda asked: asked.return_machines(request))
    sys.stdout.write(f"{done.sentence}\n")
    return exits.DONE


def _write(plan: PlanRow, form: Format) -> None:
    match form:
        case Format.JSON:
            sys.stdout.write(json.dumps(dataclasses.asdict(plan), indent=2) + "\n")
        case Format.YAML:
            import yaml

            plain = json.loads(json.dumps(dataclasses.asdict(plan)))
            sys.stdout.write(yaml.safe_dump(plain, sort_keys=False))
        case _:
            _write_tables(plan)


def _write_tables(plan: PlanRow) -> None:
    sys.stdout.write(f"{_counted(plan)} {ACTS if plan.acts else SHOWS}\n")
    if plan.proposals:
        sys.stdout.write("\nWould be moved:\n")
        output.write(_proposals(plan.proposals), Format.TABLE)
    if plan.verdicts:
        sys.stdout.write("\nStays as it is:\n")
        output.write(_verdicts(plan.verdicts), Format.TABLE)


def _counted(plan: PlanRow) -> str:
    if not (plan.proposals or plan.verdicts):
        return "No shard is short of anything."
    moves, left = len(plan.proposals), len(plan.verdicts)
    return f"{_so_many(moves, 'move')}; {_so_many(left, 'shortfall')} without one."


def _so_many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _proposals(proposals: Sequence[ProposalRow]) -> list[dict[str, object]]:
    return [
        {
            "from": each.donor,
            "to": each.recipient,
            "how": TIERS.get(each.tier, str(each.tier)),
            "at most": each.machines_max,
            "need": each.fingerprint[:SHORT],
            "wanted": each.wanted,
            "why": each.why,
        }
        for each in proposals
    ]


def _verdicts(verdicts: Sequence[VerdictRow]) -> list[dict[str, object]]:
    return [
        {
            "shard": each.shard,
            "need": each.fingerprint[:SHORT],
            "priority": each.priority,
            "age": each.age,
            "why": each.sentence,
        }
        for each in verdicts
    ]
