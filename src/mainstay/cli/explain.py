"""`mainstay explain`: why a need, gang, machine, cluster or allocation stands as it does."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from mainstay.cli import exits, servers
from mainstay.cli.options import Option, takes
from mainstay.cli.output import Format, OutputOption, not_by_name
from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.questions import About, Expected, Explanation, Question, When

if TYPE_CHECKING:
    from mainstay.cli.client import Client
    from mainstay.processes.finding import Server
    from mainstay.wire.shard_view_client import RemoteShard

app = typer.Typer(add_completion=False, no_args_is_help=True)

SHARED: Final = (
    Option("form", Format, "How to print the answer.", Format.TABLE, ("--output", "-o")),
    *servers.SERVER,
)
QUICK: Final = Option(
    "quick", bool, "Do not try which change would help.", False, ("--quick",)
)  # fmt: skip

PATIENCE_S: Final = 0.8
PATIENCE: Final = Option(
    "patience", float, "Seconds for changes that would help; 0 tries all.", PATIENCE_S, (), 0
)  # fmt: skip

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Whose it is.")]


@app.callback()
def explain() -> None:
    """Say why: cause, what blocks, who holds it, the nearest miss, the smallest change."""


@app.command()
@takes(QUICK, PATIENCE, *SHARED)
def need(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER[/NEED[/GROUP]]", help="As `get needs` shows it.")
    ],
    which: Annotated[
        str, typer.Argument(metavar="[NEED]", help="The beginning of its fingerprint.")
    ] = "",
    **given: Any,
) -> int:
    """Why a need is, or is not, served."""
    name, _, rest = cluster.partition("/")
    fingerprint, _, group = rest.partition("/")
    question = Question(
        about=About.NEED,
        name=name,
        fingerprint=which or fingerprint,
        group=group,
        quick=given["quick"],
        patience_s=given["patience"],
    )
    return _answer(question, given)


@app.command()
@takes(QUICK, PATIENCE, *SHARED)
def gang(
    cluster: ClusterArgument,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The gang, as its cluster named it.")
    ],
    **given: Any,
) -> int:
    """Why a gang is, or is not, served."""
    question = Question(
        about=About.GANG,
        name=cluster,
        group=group,
        quick=given["quick"],
        patience_s=given["patience"],
    )
    return _answer(question, given)


@app.command()
@takes(*SHARED)
def machine(
    name: Annotated[str, typer.Argument(metavar="MACHINE", help="Its id.")], **given: Any
) -> int:
    """What a machine is, who claims it, and what the plan does with it."""
    return _answer(Question(about=About.MACHINE, name=name), given)


@app.command()
@takes(*SHARED)
def cluster(
    name: Annotated[str, typer.Argument(metavar="CLUSTER", help="Its id.")], **given: Any
) -> int:
    """What a cluster asks, holds and may hold."""
    return _answer(Question(about=About.CLUSTER, name=name), given)


@app.command()
def allocation(
    name: Annotated[str, typer.Argument(metavar="ALLOCATION", help="Its id.")],
    form: OutputOption = Format.TABLE,
    server: Annotated[
        str | None,
        typer.Option("--server", help="The API; else MAINSTAY_SERVER, else this machine."),
    ] = None,
) -> int:
    """What an allocation waits for, what blocks it, when, its timeline, its proof, its bill.

    A request for capacity that still waits is named by its own id, cap_...
    """
    from mainstay.cli.client import client
    from mainstay.tenancy.states import REQUEST_PREFIX

    not_by_name(form)
    api = client("tenant", server)
    if name.startswith(f"{REQUEST_PREFIX}_"):
        request = api.get(f"/capacity-requests/{quote(name, safe='')}")
        if request["allocation_id"] is None:
            return _tell([_request_told(api, request)], form)
        name = str(request["allocation_id"])
    return _tell([_allocation_told(api, name)], form)


def _tell(documents: Sequence[Mapping[str, Any]], form: Format) -> int:
    if form in {Format.JSON, Format.YAML}:
        _write_data(documents, form)
    else:
        _print_lines([line for each in documents for line in each["sentences"]])
    return exits.DONE


def _allocation_told(api: "Client", name: str) -> dict[str, Any]:
    from mainstay.cli.allocation_told import allocation_sentences
    from mainstay.tenancy.expecting import expected_of

    path = f"/allocations/{quote(name, safe='')}"
    shown, timeline = api.get(path), api.get(f"{path}/timeline")
    expected = expected_of(api.get(f"{path}/expected"))
    sentences = allocation_sentences(shown, timeline, api.get(f"{path}/bill"), expected)
    return {
        "allocation": shown,
        "timeline": timeline["moments"],
        "sentences": list(sentences),
        "expected": _expected(expected),
    }


def _request_told(api: "Client", shown: Mapping[str, Any]) -> dict[str, Any]:
    from mainstay.cli.allocation_told import request_sentences
    from mainstay.tenancy.expecting import after_of, expected_of, request_expected

    told = api.get(f"/capacity-requests/{quote(shown['request_id'], safe='')}/expected")
    after = after_of(told)
    expected, behind = expected_of(told), tuple[str, ...]()
    if after is not None:
        served, behind = need_told(after.cluster, after.need)
        expected = request_expected(after, served)
    return {
        "request": dict(shown),
        "after": told["after"],
        "sentences": list(request_sentences(shown, after, expected, behind)),
        "expected": _expected(expected),
    }


def need_told(cluster: str, fingerprint: str) -> tuple[Expected | None, tuple[str, ...]]:
    """When a need is served and why it is not, by the shards that run here; None: none answers."""
    question = Question(
        about=About.NEED, name=cluster, fingerprint=fingerprint, patience_s=PATIENCE_S
    )

    async def asked(shard: "RemoteShard") -> Explanation:
        return await shard.explain(question)

    try:
        told = servers.ask(shards_here(), asked).given[0].value
    except Rejected as error:
        return Expected(when=When.UNKNOWN, because=(error.message,)), ()
    except MainstayError:
        return None, ()
    return told.expected, told.sentences


def shards_here() -> "tuple[Server, ...]":
    """Those of the context, or that run here: what MAINSTAY_SERVER names is the API now."""
    from mainstay.config.load import contexts_file, home_directory
    from mainstay.processes.finding import SHARD, Where, find

    found = find(
        Where(process=SHARD, home=home_directory(), contexts=contexts_file(), environment={})
    )
    for line in {server.announcement for server in found} - {""}:
        sys.stderr.write(line + "\n")
    return found


def _expected(expected: Expected) -> dict[str, object]:
    return {
        "when": expected.when.name.lower(),
        "seconds": expected.seconds,
        "because": list(expected.because),
    }


def _answer(question: Question, given: Mapping[str, Any]) -> int:
    async def asked(shard: "RemoteShard") -> Explanation:
        return await shard.explain(question)

    not_by_name(given["form"])
    found = servers.find_servers(given)
    answers = servers.known_to_some(servers.ask(found, asked))
    told = [answer.value for answer in answers.given]
    match given["form"]:
        case Format.JSON | Format.YAML:
            _write_data([_document(each) for each in told], given["form"])
        case _:
            for each in told:
                _print(each, several=len(found) > 1)
    return answers.exit_code if answers.missing else exits.DONE


def _document(told: Explanation) -> dict[str, object]:
    return {
        "shard": told.stamp.shard,
        "cycle": told.stamp.cycle,
        "subject": told.subject,
        "sentences": list(told.sentences),
        "expected": _expected(told.expected),
        "certificate": json.loads(told.document),
    }


def _print(told: Explanation, *, several: bool) -> None:
    if several:
        sys.stdout.write(f"Shard {told.stamp.shard}, cycle {told.stamp.cycle}:\n")
    _print_lines(told.sentences)


def _print_lines(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        line = "".join(each if each.isprintable() else "?" for each in sentence)
        sys.stdout.write(line + "\n")


def _write_data(documents: Sequence[Mapping[str, Any]], form: Format) -> None:
    if form is Format.JSON:
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
        return
    import yaml

    sys.stdout.write(yaml.safe_dump(list(documents), sort_keys=False))
