"""`mainstay domain|quota|shards`: tell a coordinator who has what."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstay.cli import coordinators, exits
from mainstay.cli.control import who
from mainstay.cli.options import Option, takes
from mainstay.model.coordination import Domain, QuotaKind
from mainstay.model.coordinator_calls import (
    ClearQuotaRequest,
    CoordinatorDone,
    MoveDomainRequest,
    SetQuotaRequest,
)

if TYPE_CHECKING:
    from mainstay.cli.coordinators import Ask

domain_app = typer.Typer(add_completion=False, no_args_is_help=True)
quota_app = typer.Typer(add_completion=False, no_args_is_help=True)
set_app = typer.Typer(add_completion=False, no_args_is_help=True)
clear_app = typer.Typer(add_completion=False, no_args_is_help=True)
shards_app = typer.Typer(add_completion=False, no_args_is_help=True)
quota_app.add_typer(set_app, name="set")
quota_app.add_typer(clear_app, name="clear")

Label = Annotated[str, typer.Argument(metavar="KEY=VALUE", help="A label and its value.")]
Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Its id.")]
Provider = Annotated[str, typer.Argument(metavar="PROVIDER", help="Its name.")]
Region = Annotated[str, typer.Argument(metavar="REGION", help="Where.")]
Most = Annotated[int, typer.Argument(metavar="N", min=0, help="How many machines at most.")]

FORGET_WAITING = Option(
    "forget_waiting",
    bool,
    "Also free what waits for machines that nobody has: there are none.",
    False,
    ("--forget-waiting",),
)


@domain_app.callback()
def domain() -> None:
    """Say which shard has the machines with one value of a label."""


@domain_app.command()
@takes(Option("shard", str, "Who gets it.", ""), *coordinators.SERVER)
def assign(label: Label, **given: Any) -> int:
    """Give a domain that nobody has to a shard; repeated, it changes nothing."""
    where, shard = _domain(label), _required(given, "shard", "--shard ID")

    async def told(asked: Any) -> None:
        await asked.assign_domain(where, shard)

    coordinators.ask(coordinators.find(given), told)
    return _say(
        f"Assigned {label} to shard {shard}; it is told with the answer to its next report."
    )


@domain_app.command()
@takes(*coordinators.SERVER)
def unassign(label: Label, **given: Any) -> int:
    """Take a domain away; what serves there stays where it is until it is free."""
    where = _domain(label)

    async def told(asked: Any) -> None:
        await asked.unassign_domain(where)

    coordinators.ask(coordinators.find(given), told)
    return _say(f"Unassigned {label}; `mainstay get domains` lists it until its shard has let go.")


@domain_app.command()
@takes(Option("to", str, "Who gets it.", ""), coordinators.REASON, *coordinators.SERVER)
def move(label: Label, **given: Any) -> int:
    """Give a domain of one shard to another; no machine is ever both's."""
    where, to = _domain(label), _required(given, "to", "--to ID")
    request = MoveDomainRequest(
        key=where.key, value=where.value, to=to, reason=given["reason"], by=who()
    )
    return _done(given, label, lambda asked: asked.move_domain(request))


@quota_app.callback()
def quota() -> None:
    """Say how many machines a cluster, or a place, may have over all shards."""


@set_app.callback()
def set_() -> None:
    """Entitle to so many machines; shards get parts of it as they need them."""


@clear_app.callback()
def clear() -> None:
    """Limit no longer."""


@set_app.command("cluster")
@takes(FORGET_WAITING, coordinators.REASON, *coordinators.SERVER)
def set_cluster(cluster: Cluster, most: Most, **given: Any) -> int:
    """Machines that a cluster may hold."""
    return _set(given, SetQuotaRequest(kind=QuotaKind.CLUSTER, name=cluster, entitled=most))


@set_app.command("place")
@takes(FORGET_WAITING, coordinators.REASON, *coordinators.SERVER)
def set_place(provider: Provider, region: Region, most: Most, **given: Any) -> int:
    """Machines of a provider in a region; slots that nothing runs on do not count."""
    request = SetQuotaRequest(kind=QuotaKind.PLACE, name=provider, region=region, entitled=most)
    return _set(given, request)


@clear_app.command("cluster")
@takes(coordinators.REASON, *coordinators.SERVER)
def clear_cluster(cluster: Cluster, **given: Any) -> int:
    """Any number of machines for a cluster."""
    return _clear(given, ClearQuotaRequest(kind=QuotaKind.CLUSTER, name=cluster))


@clear_app.command("place")
@takes(coordinators.REASON, *coordinators.SERVER)
def clear_place(provider: Provider, region: Region, **given: Any) -> int:
    """Any number of machines of a provider in a region."""
    return _clear(given, ClearQuotaRequest(kind=QuotaKind.PLACE, name=provider, region=region))


@shards_app.callback()
def shards() -> None:
    """Shards as the coordinator keeps them; `mainstay get shards` lists them."""


@shards_app.command()
@takes(
    coordinators.YES,
    Option("force", bool, "Also one that has reported just now.", False, ("--force",)),
    *coordinators.SERVER,
)
def remove(
    shard: Annotated[str, typer.Argument(metavar="ID", help="Of the shard.")], **given: Any
) -> int:
    """Forget a shard that is gone for good: its domains, clusters and quota are free again."""
    if not given["yes"]:
        raise typer.BadParameter(
            f"removing {shard} frees its domains and clusters for others: stop it first, then"
            " repeat this with --yes"
        )

    async def told(asked: Any) -> None:
        await asked.remove_shard(shard, force=given["force"])

    coordinators.ask(coordinators.find(given), told)
    return _say(f"Removed shard {shard}; one that reports again is registered anew.")


def _set(given: dict[str, Any], request: SetQuotaRequest) -> int:
    signed = dataclasses.replace(
        request, reason=given["reason"], by=who(), forget_waiting=given["forget_waiting"]
    )
    return _done(given, _named(request), lambda asked: asked.set_quota(signed))


def _clear(given: dict[str, Any], request: ClearQuotaRequest) -> int:
    signed = dataclasses.replace(request, reason=given["reason"], by=who())
    return _done(given, _named(request), lambda asked: asked.clear_quota(signed))


def _named(request: SetQuotaRequest | ClearQuotaRequest) -> str:
    return " ".join(
        part for part in ("Quota of", request.kind, request.name, request.region) if part
    )


def _done(given: dict[str, Any], what: str, question: "Ask[CoordinatorDone]") -> int:
    done = coordinators.ask(coordinators.find(given), question)
    return _say(f"{what}: {done.sentence}")


def _domain(label: str) -> Domain:
    key, equals, value = label.partition("=")
    if not (key and equals and value):
        raise typer.BadParameter(f"not a domain: {label[:80]} (write KEY=VALUE)")
    return Domain(key, value)


def _required(given: dict[str, Any], name: str, flag: str) -> str:
    value = str(given[name]).strip()
    if not value:
        raise typer.BadParameter(f"{flag} is required")
    return value


def _say(line: str) -> int:
    sys.stdout.write(line + "\n")
    return exits.DONE
