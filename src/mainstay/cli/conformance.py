"""`mainstay conformance`: does a provider keep the contract?"""

import dataclasses
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstay.cli import exits, output
from mainstay.cli.options import TLS, Option, takes
from mainstay.cli.progress import progress
from mainstay.model.errors import Rejected

if TYPE_CHECKING:
    from mainstay.conformance.report import Report
    from mainstay.wire.transport import Over

app = typer.Typer(add_completion=False)


class Form(StrEnum):
    """How the report is printed."""

    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"


@app.command()
@takes(
    *TLS,
    Option("torment", bool, "Add lag, copies, re-ordering, restarts.", False, ("--torment",)),
    Option("restart_command", str, "Kills and restarts the provider, and ends.", ""),
    Option("check", list[str], "Only this check; may be repeated."),
    Option("step_timeout", float, "Seconds a step of a machine may take.", 30.0, least=0.1),
    Option("time_limit", float, "Seconds after which no check is begun.", 900.0, least=1.0),
    Option("seed", int, "Of everything drawn by chance.", 1, least=0),
    Option("form", Form, "How to print the report.", Form.TABLE, ("--output", "-o")),
)
def conformance(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The provider.")],
    **given: Any,
) -> int:
    """Check a running provider by gRPC; 0 if it conforms, 1 if not, 3 if it is not there.

    Only quota slots and idle machines are used, the cheapest first, and given back as found.
    """
    import asyncio

    from mainstay.conformance.limits import Limits
    from mainstay.conformance.table import CHECKS
    from mainstay.processes.conformance import Asked, examined

    step_s: float = given["step_timeout"]
    only = tuple(given["check"] or ())
    asked = Asked(
        address=address,
        over=_transport(address, given),
        limits=Limits(step_s=step_s, check_s=max(180.0, 6 * step_s), all_s=given["time_limit"]),
        torment=given["torment"],
        restart_command=given["restart_command"],
        only=only,
        seed=given["seed"],
    )
    if sys.stderr.isatty():
        with progress(len(only) or len(CHECKS)) as shown:
            report = asyncio.run(examined(dataclasses.replace(asked, progress=shown.done)))
    else:
        report = asyncio.run(examined(asked))
    _write(report, given["form"])
    return report.exit_code


def _transport(address: str, given: Mapping[str, Any]) -> "Over":
    from mainstay.wire.tls import Plaintext, TlsFlags, transport

    if ":" not in address:
        raise Rejected(f"not an address: {address} (write HOST:PORT)")
    flags = TlsFlags(
        cert=given["tls_cert"] or "",
        key=given["tls_key"] or "",
        ca=given["tls_ca"] or "",
        insecure=bool(given["insecure"]),
    )
    over = transport(flags, address, tool=True)
    if isinstance(over, Plaintext) and over.announcement:
        sys.stderr.write(over.announcement + "\n")
    return over


def _write(report: "Report", form: Form) -> None:
    from mainstay.conformance.report import as_json, as_junit, remarks, rows

    match form:
        case Form.JSON:
            sys.stdout.write(as_json(report))
        case Form.JUNIT:
            sys.stdout.write(as_junit(report))
        case Form.TABLE:
            output.write(rows(report), output.Format.TABLE)
            sys.stdout.write("\n" + "".join(f"{line}\n" for line in remarks(report)))
    if report.exit_code:
        exits.complain(f"{report.name} is {report.grade}", "the report says why")
