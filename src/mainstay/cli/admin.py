"""`mainstay admin`: what an administrator does. Whatever gets stuck is freed here, never by SQL."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstay.cli import output
from mainstay.cli.alloc import Allocation, ServerOption
from mainstay.cli.listing import OUTPUT, PRINTED
from mainstay.cli.options import takes
from mainstay.cli.output import Format, OutputOption
from mainstay.cli.tenant_lists import RETIRED, SERVER, show_nodes

if TYPE_CHECKING:
    from mainstay.cli.client import Client

app = typer.Typer(add_completion=False, no_args_is_help=True)

Node = Annotated[str, typer.Argument(metavar="NODE", help="Its id.")]
Event = Annotated[str, typer.Argument(metavar="EVENT", help="Its id.")]
Slot = Annotated[int, typer.Argument(metavar="SLOT", help="Its index on the node.")]
Reason = Annotated[str, typer.Option(help="Why; it goes into the audit.")]


@app.callback()
def admin() -> None:
    """Nodes, events, money and what got stuck."""


@app.command("catalogue-load")
def catalogue_load(
    file: Annotated[str, typer.Argument(help="A TOML file.")], server: ServerOption = None
) -> None:
    """Load a catalogue: all of it, or nothing."""
    from pathlib import Path

    from mainstay.tenancy.catalogue import read

    found = _client(server).post("/admin/catalogue", read(Path(file)))
    for what, counts in found.items():
        _say(f"{what}: {', '.join(f'{n} {name}' for name, n in counts.items()) or 'nothing'}")


@app.command("node-add")
@takes(OUTPUT, SERVER)
def node_add(
    node: Node,
    sku: Annotated[str, typer.Option(help="What it is sold as.")],
    region: Annotated[str, typer.Option(help="Where it stands.")],
    gpus: Annotated[int, typer.Option(help="How many it has.")],
    **given: Any,
) -> None:
    """Register a node; the token for its enrolment is printed, once."""
    body = {"id": node, "sku": sku, "region": region, "gpus_total": gpus}
    made = _client(given["server"]).post("/admin/nodes", body)
    output.tell(made, made["enrolment_token"], given["form"])


@app.command("node-token")
def node_token(node: Node, form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """Another token for one enrolment; the one before is void."""
    made = _client(server).post(f"/admin/nodes/{node}/enrolment-token")
    output.tell(made, made["enrolment_token"], form)


@app.command()
@takes(RETIRED, *PRINTED, SERVER)
def nodes(**given: Any) -> int:
    """Nodes, with how many of their slots are free and blocked."""
    return show_nodes(given)


@app.command("node-step")
def node_step(
    node: Node,
    step: Annotated[str, typer.Argument(help="drain, resume, quarantine or retire")],
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Change what becomes of a node; what runs there goes on."""
    found = _client(server).post(f"/admin/nodes/{node}/step", {"step": step})
    output.tell(found, found["status"], form)


@app.command()
def slots(node: Node, form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """The slots of a node."""
    _slots(_client(server).get(f"/admin/nodes/{node}/resource-slots"), form)


@app.command()
def discover(node: Node, form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """Have the node's agent look at its hardware."""
    _slots(_client(server).post(f"/admin/nodes/{node}/slice-topology/discovery"), form)


def _slots(found: Any, form: Format) -> None:
    names = ("slot_index", "status", "numa_node", "pci_address", "nvme_device", "private_ip")
    output.write(_columns(found["items"], *names), form)


@app.command("slot-approve")
def slot_approve(
    node: Node, slot: Slot, form: OutputOption = Format.TABLE, server: ServerOption = None
) -> None:
    """Let a slot be given out."""
    path = f"/admin/nodes/{node}/resource-slots/{slot}/approve"
    found = _client(server).post(path)
    output.tell(found, found["status"], form)


@app.command("slot-disable")
def slot_disable(
    node: Node, slot: Slot, form: OutputOption = Format.TABLE, server: ServerOption = None
) -> None:
    """Take a slot out of service."""
    path = f"/admin/nodes/{node}/resource-slots/{slot}/disable"
    found = _client(server).post(path)
    output.tell(found, found["status"], form)


@app.command()
def allocations(
    status: Annotated[str | None, typer.Option(help="Such as release_failed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most so many.")] = 50,
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """The newest allocations of every project."""
    found = _client(server).get("/admin/allocations", status=status, limit=limit)["items"]
    names = ("allocation_id", "project_id", "status", "sku", "gpus", "node_id", "created_at")
    output.write(_columns(found, *names), form)


@app.command("force-release")
def force_release(
    allocation: Allocation, form: OutputOption = Format.TABLE, server: ServerOption = None
) -> None:
    """Release it: clean-up runs, again if need be, and must be proved."""
    found = _client(server).post(f"/admin/allocations/{allocation}/force-release")
    output.tell(found, found["status"], form)


@app.command("force-cleanup")
def force_cleanup(
    allocation: Allocation,
    verified_absent: Annotated[
        bool, typer.Option("--verified-absent", help="Somebody looked: nothing runs there.")
    ] = False,
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Give up what is stuck before it was active; without the flag its slots stay blocked."""
    body = {"runtime_verified_absent": verified_absent}
    path = f"/admin/allocations/{allocation}/force-cleanup"
    found = _client(server).post(path, body)
    output.tell(found, found["status"], form)


@app.command()
def events(form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """Events that failed, oldest first."""
    found = _client(server).get("/admin/outbox/failed")["items"]
    names = ("event_id", "event_type", "key", "status", "attempts", "held", "error")
    output.write(_columns(found, *names), form)


@app.command("event-requeue")
def event_requeue(event: Event, reason: Reason = "", server: ServerOption = None) -> None:
    """Begin anew with a failed event."""
    _client(server).post(f"/admin/outbox/{event}/requeue", {"reason": reason})
    _say("requeued")


@app.command("event-discard")
def event_discard(event: Event, reason: Reason = "", server: ServerOption = None) -> None:
    """Give a failed event up for good."""
    _client(server).post(f"/admin/outbox/{event}/discard", {"reason": reason})
    _say("discarded")


@app.command()
@takes(OUTPUT, SERVER)
def credit(
    account: Annotated[str, typer.Argument(help="Its id.")],
    amount: Annotated[int, typer.Argument(help="In minor units.")],
    payment: Annotated[str, typer.Option(help="Key of the payment: the same is booked once.")],
    reason: Reason = "",
    **given: Any,
) -> None:
    """Book money that came in."""
    body = {"amount_minor": amount, "payment_key": payment, "reason": reason}
    found = _client(given["server"]).post(f"/admin/accounts/{account}/credits", body)
    output.tell(found, f"entry {found['id']}", given["form"])


@app.command("project-add")
def project_add(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    account: Annotated[str | None, typer.Option(help="Who pays; else a new account.")] = None,
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Make a project; its id and its account's are printed."""
    found = _client(server).post("/admin/projects", {"name": name, "account_id": account})
    output.tell(found, f"{found['id']} {found['account_id']}", form)


@app.command("key-add")
def key_add(
    role: Annotated[str, typer.Argument(help="tenant, member, admin or readonly")],
    project: Annotated[str | None, typer.Option(help="For tenants and members.")] = None,
    name: Annotated[str, typer.Option(help="What to call it.")] = "",
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Make an API key; its secret is printed, once."""
    body = {"role": role, "project_id": project, "name": name}
    made = _client(server).post("/admin/api-keys", body)
    output.tell(made, made["secret"], form)


@app.command()
def keys(form: OutputOption = Format.TABLE, server: ServerOption = None) -> None:
    """API keys, newest first."""
    found = _client(server).get("/admin/api-keys")["items"]
    output.write(_columns(found, "id", "role", "project_id", "name", "revoked_at"), form)


@app.command("key-revoke")
def key_revoke(
    key: Annotated[str, typer.Argument(help="Its id.")], server: ServerOption = None
) -> None:
    """End an API key, now."""
    _client(server).delete(f"/admin/api-keys/{key}")
    _say("revoked")


@app.command()
def audit(
    target: Annotated[str | None, typer.Option(help="Of this one only.")] = None,
    form: OutputOption = Format.TABLE,
    server: ServerOption = None,
) -> None:
    """Who tried what, newest first."""
    found = _client(server).get("/admin/audit", target=target)["items"]
    names = ("at", "actor", "actor_role", "action", "target_id", "result", "correlation_id")
    if form not in {Format.JSON, Format.YAML}:
        found = _columns(found, *names)
    output.write(found, form)


def _columns(rows: list[dict[str, Any]], *names: str) -> list[dict[str, object]]:
    return [{name: row[name] for name in names} for row in rows]


def _client(server: str | None) -> "Client":
    from mainstay.cli.client import client

    return client("admin", server)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
