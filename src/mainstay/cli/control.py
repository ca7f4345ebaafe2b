"""`mainstay pause|shadow|limit|resume|retire`: tell a shard something. Each needs a reason."""

import dataclasses
import getpass
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli import exits, output, servers
from mainstay.cli.listing import OUTPUT
from mainstay.cli.options import Option, takes
from mainstay.cli.words import age, lasts_s
from mainstay.model.errors import Rejected, Unknown
from mainstay.model.questions import LiftControlRequest, RetireRequest, SetControlRequest
from mainstay.model.views import ControlQuery, ControlRow

if TYPE_CHECKING:
    from mainstay.wire.shard_view_client import RemoteShard

pause_app = typer.Typer(add_completion=False)
shadow_app = typer.Typer(add_completion=False)
limit_app = typer.Typer(add_completion=False)
resume_app = typer.Typer(add_completion=False)
retire_app = typer.Typer(add_completion=False)

REASON: Final = Option("reason", str, "Why; it is kept in the audit log.", "")
CLUSTER: Final = Option("cluster", str, "Only for this cluster; without it, the whole shard.", "")
UNKNOWN: Final = Option(
    "even_if_unknown", bool, "Also for a cluster that the shard knows nothing of yet.", False,
    ("--even-if-unknown",),
)  # fmt: skip
LASTS: Final = Option("lasts", str, "For how long: 90s, 30m, 2h, 1d.", "", ("--for",))

STANCES: Final = ("pause", "shadow")
LIMITS: Final = ("reclaim_cap", "action_limit")


@pause_app.command()
@takes(CLUSTER, UNKNOWN, REASON, LASTS, OUTPUT, *servers.SERVER)
def pause(**given: Any) -> int:
    """Decide as ever and do nothing of it, until the time is over or `mainstay resume`."""
    return _set(given, "pause", 0.0)


@shadow_app.command()
@takes(CLUSTER, UNKNOWN, REASON, LASTS, OUTPUT, *servers.SERVER)
def shadow(**given: Any) -> int:
    """Do nothing, and count what would have been done."""
    return _set(given, "shadow", 0.0)


@limit_app.command()
@takes(
    Option("reclaims", float, "Most reclaims per tick, as a share of a cluster's machines."),
    Option("actions", int, "Most actions one cycle begins; the next follows at once.", least=1),
    CLUSTER,
    UNKNOWN,
    REASON,
    LASTS,
    OUTPUT,
    *servers.SERVER,
)
def limit(**given: Any) -> int:
    """Begin less in one cycle than the configuration allows.

    --reclaims slows down what empties a cluster. --actions does not slow anything
    down: it bounds how much of a plan waits at once, so that releases and
    acquisitions take turns, and the next cycle follows at once. What spares a
    provider is fewer `workers` in the configuration, or a pause.
    """
    if (given["reclaims"] is None) == (given["actions"] is None):
        raise typer.BadParameter("give --reclaims SHARE or --actions NUMBER, one of them")
    if given["reclaims"] is not None:
        return _set(given, "reclaim_cap", given["reclaims"])
    return _set(given, "action_limit", float(given["actions"]))


@resume_app.command()
@takes(
    Option("everything", bool, "Lift limits too.", False, ("--all",)),
    CLUSTER,
    REASON,
    OUTPUT,
    *servers.SERVER,
)
def resume(**given: Any) -> int:
    """Lift pause and shadow before their time. What the configuration says stays."""
    _require(given, "reason")
    kinds = (*STANCES, *LIMITS) if given["everything"] else STANCES

    cluster = given["cluster"]

    async def lift(shard: "RemoteShard") -> tuple[list[ControlRow], list[ControlRow]]:
        in_force = (await shard.controls(ControlQuery())).rows
        meant = [c for c in in_force if c.kind in kinds and c.cluster == cluster and not c.fixed]
        wider = [c for c in in_force if c.kind in STANCES and not c.cluster and c not in meant]
        if not meant:
            raise Rejected(nothing_to_lift(cluster, wider))
        lifted = [
            await shard.lift_control(
                LiftControlRequest(
                    kind=each.kind, cluster=each.cluster, reason=given["reason"], by=who()
                )
            )
            for each in meant
        ]
        return lifted, wider

    server = servers.only_one(servers.find_servers(given))
    answers = servers.ask([server], lift)
    lifted, wider = answers.given[0].value
    where = f"of shard {server.name}"
    told = [(_data(each, server.name), f"Lifted {_named(each)} {where}.") for each in lifted]
    output.tell_each(told, given["form"])
    for control in wider:
        sys.stderr.write(f"Shard {server.name} is still held back: {_wider(control)}.\n")
    return exits.DONE


def nothing_to_lift(cluster: str, wider: Sequence[ControlRow]) -> str:
    """Why there is nothing to lift, and what holds back all the same."""
    if wider and cluster:
        own = f"nothing holds back cluster {cluster} alone"
        return f"{own}, but the whole shard is held back: {_wider(wider[0])}"
    if wider:
        return f"there is nothing to lift: {_wider(wider[0])}"
    where = f"cluster {cluster}" if cluster else "the shard"
    return f"nothing holds {where} back: `mainstay get controls` lists what does"


def _wider(control: ControlRow) -> str:
    """A control of the whole shard, and what lifts it."""
    if control.fixed:
        lifts = "only another configuration and a restart lift that"
        return f"{control.kind} by its configuration ({control.reason}), and {lifts}"
    lifts = "`mainstay resume` without --cluster lifts that"
    return f"{_named(control)} by {control.by} ({control.reason}), and {lifts}"


@retire_app.command()
@takes(REASON, OUTPUT, *servers.SERVER)
def retire(
    machine: Annotated[str, typer.Argument(metavar="MACHINE", help="Its id.")], **given: Any
) -> int:
    """Give up the record of a Failed machine; it is admitted again as its provider reports it."""
    _require(given, "reason")
    request = RetireRequest(machine=machine, reason=given["reason"], by=who())
    found = servers.find_servers(given)
    answers = servers.known_to_some(servers.ask(found, lambda shard: shard.retire(request)))
    told = [
        (
            {"machine": each.machine, "last_error": each.last_error, "shard": each.stamp.shard},
            f"Retired {each.machine}, which had failed: {each.last_error}",
        )
        for each in (answer.value for answer in answers.given)
    ]
    output.tell_each(told, given["form"])
    return answers.exit_code


def _set(given: Mapping[str, Any], kind: str, value: float) -> int:
    _require(given, "reason")
    _require(given, "lasts")
    request = SetControlRequest(
        kind=kind,
        cluster=given["cluster"],
        value=value,
        reason=given["reason"],
        for_s=lasts_s(given["lasts"]),
        by=who(),
        even_if_unknown=given["even_if_unknown"],
    )
    server = servers.only_one(servers.find_servers(given))
    try:
        answers = servers.ask([server], lambda shard: shard.set_control(request))
    except Unknown as error:
        advice = "check the name, or set it for when it connects with --even-if-unknown"
        raise Unknown(f"{error.message}, and nothing is set", what_to_do=advice) from error
    control = answers.given[0].value
    lasts = age(control.expires_at_s - control.set_at_s)
    sentence = f"Set {_named(control)} of shard {server.name} for {lasts}."
    output.tell_each([(_data(control, server.name), sentence)], given["form"])
    return exits.DONE


def _data(control: ControlRow, shard: str) -> Mapping[str, object]:
    """Itself, and of which shard."""
    return {**dataclasses.asdict(control), "shard": shard}


def _named(control: ControlRow) -> str:
    value = f" {control.value:g}" if control.value else ""
    where = f" for cluster {control.cluster}" if control.cluster else ""
    return f"{control.kind}{value}{where}"


_FLAGS: Final = {"reason": "--reason TEXT", "lasts": "--for TIME, such as 30m"}


def _require(given: Mapping[str, Any], name: str) -> None:
    if not given[name].strip():
        raise typer.BadParameter(f"{_FLAGS[name]} is required")


def who() -> str:
    """Who asks, as this machine knows them; a certificate says it better."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
