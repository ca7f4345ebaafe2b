"""`mainstay alloc`: what a tenant does."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli import exits, output
from mainstay.cli.listing import OUTPUT, PRINTED, Listing, Printer
from mainstay.cli.options import Option, takes
from mainstay.cli.output import Format, OutputOption
from mainstay.cli.streaming import Column
from mainstay.cli.tenant_lists import (
    SERVER,
    STATUS,
    allocation_row,
    show_allocations,
    show_waiting,
)

if TYPE_CHECKING:
    from mainstay.cli.client import Client

app = typer.Typer(add_completion=False, no_args_is_help=True)

ServerOption = Annotated[
    str | None, typer.Option("--server", help="The API; else MAINSTAY_SERVER, else this machine.")
]
Allocation = Annotated[str, typer.Argument(metavar="ALLOCATION", help="Its id.")]

SETTLED: Final = frozenset({"active", "released", "failed", "release_failed"})
ENDED: Final = frozenset({"released", "failed"})
WORKED: Final = frozenset({"active", "released"})


@app.callback()
def alloc() -> None:
    """Ask for GPUs, watch them, give them back."""


@app.command()
@takes(
    Option("ssh_key", list[str], "Id of an SSH key; repeat it."),
    Option("wait", bool, "Wait until there is room, if somebody brings machines.", False,
           flags=("--wait",)),
    Option("wait_s", int, "How long to wait, in seconds.", 3600, flags=("--wait-s",), least=1),
    Option("key", str, "The same key asks once only.", flags=("--idempotency-key",)),
    OUTPUT,
    SERVER,
)  # fmt: skip
def create(
    sku: Annotated[str, typer.Option(help="What kind; `mainstay alloc catalog` lists them.")],
    region: Annotated[str, typer.Option(help="Where.")],
    gpus: Annotated[int, typer.Option(help="How many, on one node.")] = 1,
    **given: Any,
) -> int:
    """Ask for an allocation; its id is printed."""
    body = {"sku": sku, "gpus": gpus, "region": region, "ssh_key_ids": given["ssh_key"] or []}
    client = _client(given["server"])
    if given["wait"]:
        from mainstay.cli.waiting import waited

        return waited(client, {**body, "wait_s": given["wait_s"]}, given["key"], given["form"])
    made = client.post("/allocations", body, key=given["key"])
    output.tell(made, made["allocation_id"], given["form"])
    return exits.DONE


@app.command()
@takes(*PRINTED, SERVER)
def waiting(**given: Any) -> int:
    """Capacity that the project waits for, or has waited for, newest first."""
    return show_waiting(given)


@app.command()
def cancel(
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="Its id, cap_...")],
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Wait no longer for capacity; the state is printed."""
    found = _client(server).post(f"/capacity-requests/{request}/cancel")
    output.tell(found, found["state"], form)


@app.command("list")
@takes(STATUS, *PRINTED, SERVER)
def list_(**given: Any) -> int:
    """Allocations of the project, newest first."""
    return show_allocations(given)


@app.command()
def show(
    allocation: Allocation, form: OutputOption = Format.TABLE, server: ServerOption = None
) -> None:
    """One allocation: how to reach it, what it holds, why it failed, how it was cleaned."""
    found = _client(server).get(f"/allocations/{allocation}")
    if form is not Format.TABLE:
        output.write([found], form)
        return
    told = {
        **allocation_row(found),
        "node": found["node_id"],
        **_flat(found, "connection", "proof"),
    }
    slots = [claim["slot_index"] for claim in found["claims"]]
    told["slots"] = ", ".join(str(slot) for slot in slots if slot is not None) or "the whole node"
    output.write([{"what": name, "value": value} for name, value in told.items()], form)


def _flat(found: Mapping[str, Any], *names: str) -> dict[str, object]:
    return {
        f"{name} {inner}": value
        for name in names
        for inner, value in (found[name] or {}).items()
        if not isinstance(value, list | dict)
    }


@app.command()
def timeline(
    allocation: Allocation, form: OutputOption = Format.TABLE, server: ServerOption = None
) -> None:
    """What happened to it and when."""
    found = _client(server).get(f"/allocations/{allocation}/timeline")
    output.write(found["moments"], form)


@app.command()
def watch(
    allocation: Allocation,
    until: Annotated[
        str | None, typer.Option(help="Stop at this state; else at the next that lasts.")
    ] = None,
    server: ServerOption = None,
) -> int:
    """Print what happens to it as it happens, until it is active or ended."""
    from mainstay.cli.waiting import Outage

    seen, outage = 0, Outage()
    events = outage.followed(lambda: _client(server), "/notices/stream", allocation_id=allocation)
    while True:
        found = outage.through(lambda: _client(server).get(f"/allocations/{allocation}/timeline"))
        for moment in found["moments"][seen:]:
            _say(f"{moment['at']}  {moment['what']:<22}{moment['detail']}".rstrip())
        seen = len(found["moments"])
        status = found["status"]
        if status in ENDED or status == until or (until is None and status in SETTLED):
            return exits.DONE if status in {*WORKED, until} else exits.FAILED
        next(events)


@app.command()
def release(
    allocation: Allocation,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key asks once only.")
    ] = None,
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Give it back; before it is active this cancels it. The state is printed."""
    found = _client(server).post(f"/allocations/{allocation}/release", key=key)
    cancelled = " (cancelled)" if found["cancel_requested"] else ""
    output.tell(found, f"{found['status']}{cancelled}", form)


@app.command()
def ssh(
    allocation: Allocation,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the command instead of running it.")
    ] = False,
    server: ServerOption = None,
) -> None:
    """Log in to it."""
    from mainstay.model.errors import Rejected

    found = _client(server).get(f"/allocations/{allocation}")
    words = ssh_words(found)
    if words is None:
        raise Rejected(f"allocation {allocation} is {found['status']}: there is nothing to log in")
    if only_print:
        _say(" ".join(words))
        return
    os.execvp(words[0], words)


def ssh_words(found: Mapping[str, Any]) -> list[str] | None:
    """The command that logs in; None unless it is active and says where."""
    connection = found["connection"]
    host, port = connection.get("host"), connection.get("ssh_port", 22)
    if found["status"] != "active" or not isinstance(host, str) or host.startswith("-"):
        return None
    user = connection.get("username", "ubuntu")
    return ["ssh", "-p", str(int(port)), "-l", str(user).lstrip("-"), "--", host]


@app.command()
@app.command("catalogue", hidden=True)  # as an operator's `admin catalogue-load` has it
@takes(*PRINTED, SERVER)
def catalog(**given: Any) -> int:
    """What can be asked for, what it costs, and what is free."""
    printer = Printer.of(CATALOG, given)

    def once() -> int:
        printer.write(offers(_client(given["server"]).get("/catalog")))
        printer.close()
        return exits.DONE

    return printer.repeat(once)


def offers(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is sold where; prices in minor units."""
    prices = {sku["sku"]: sku for sku in found["skus"]}
    return [
        {
            "sku": room["sku"],
            "region": room["region"],
            "gpus": ", ".join(map(str, prices[room["sku"]]["allowed_gpu_counts"])),
            "gpu_hour_minor": prices[room["sku"]]["gpu_hourly_price_minor"],
            "currency": prices[room["sku"]]["currency"],
            "free": room["free_gpus"],
            "largest_block": room["largest_free_block"],
        }
        for room in found["rooms"]
        if room["sku"] in prices
    ]


def _price(offer: Mapping[str, Any]) -> str:
    from mainstay.tenancy.billing.charge import formatted

    return f"{formatted(offer['gpu_hour_minor'], offer['currency'])}/GPU-h"


CATALOG: Final = Listing(
    (
        Column("sku", lambda offer: offer["sku"]),
        Column("region", lambda offer: offer["region"]),
        Column("gpus", lambda offer: offer["gpus"]),
        Column("price", _price),
        Column("free", lambda offer: offer["free"]),
        Column("largest block", lambda offer: offer["largest_block"]),
    ),
    lambda offer: str(offer["sku"]),
    dict,
    lambda offer: (offer["sku"], offer["region"]),
)


@app.command()
def balance(form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """What is left, and how long it lasts."""
    output.write([_client(server).get("/billing/balance")], form)


@app.command()
def bill(
    month: Annotated[
        str | None, typer.Option(help="Such as 2026-11; else the present one.")
    ] = None,
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """What was charged in a month: a line per allocation, then the balance."""
    found = _client(server).get("/billing/statement", month=month)
    if form is not Format.TABLE:
        output.write([found], form)
        return
    names = ("allocation", "sku", "gpus", "seconds", "amount")
    output.write([{name: line[name] for name in names} for line in found["lines"]], form)
    _say(f"{found['month']}: opening {found['opening']}, charges {found['charges']}, "
         f"closing {found['closing']}")  # fmt: skip


@app.command("keys")
def keys(form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """SSH keys of the project."""
    found = _client(server).get("/ssh-keys")["items"]
    rows = [{name: key[name] for name in ("id", "name", "public_key")} for key in found]
    output.write(rows, form)


@app.command("key-add")
def key_add(
    file: Annotated[str, typer.Argument(help="A .pub file.")],
    name: Annotated[str, typer.Option(help="What to call it.")] = "",
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Add the public half of an SSH key; its id is printed."""
    from pathlib import Path

    from mainstay.model.errors import Rejected

    try:
        line = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"cannot read {file}") from error
    made = _client(server).post("/ssh-keys", {"name": name, "public_key": line})
    output.tell(made, made["id"], form)


def _client(server: str | None) -> "Client":
    from mainstay.cli.client import client

    return client("tenant", server)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
