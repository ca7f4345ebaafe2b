"""`mainstay explain`: why a need, a gang, a machine or a cluster stands as it does."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstay.cli import exits, servers
from mainstay.cli.options import Option, takes
from mainstay.cli.output import Format
from mainstay.model.questions import About, Explanation, Question

if TYPE_CHECKING:
    from mainstay.wire.shard_view_client import RemoteShard

app = typer.Typer(add_completion=False, no_args_is_help=True)

SHARED: Final = (
    Option("form", Format, "How to print the answer.", Format.TABLE, ("--output", "-o")),
    *servers.SERVER,
)
QUICK: Final = Option(
    "quick", bool, "Do not try which change would help.", False, ("--quick",)
)  # fmt: skip

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Whose it is.")]


@app.callback()
def explain() -> None:
    """Say why: cause, what blocks, who holds it, the nearest miss, the smallest change."""


@app.command()
@takes(QUICK, *SHARED)
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
    )
    return _answer(question, given)


@app.command()
@takes(QUICK, *SHARED)
def gang(
    cluster: ClusterArgument,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The gang, as its cluster named it.")
    ],
    **given: Any,
) -> int:
    """Why a gang is, or is not, served."""
    question = Question(about=About.GANG, name=cluster, group=group, quick=given["quick"])
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


def _answer(question: Question, given: Mapping[str, Any]) -> int:
    async def asked(shard: "RemoteShard") -> Explanation:
        return await shard.explain(question)

    found = servers.find_servers(given)
    answers = servers.known_to_some(servers.ask(found, asked))
    told = [answer.value for answer in answers.given]
    match given["form"]:
        case Format.JSON:
            sys.stdout.write(json.dumps([_document(each) for each in told], indent=2) + "\n")
        case Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump([_document(each) for each in told], sort_keys=False))
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
        "certificate": json.loads(told.document),
    }


def _print(told: Explanation, *, several: bool) -> None:
    if several:
        sys.stdout.write(f"Shard {told.stamp.shard}, cycle {told.stamp.cycle}:\n")
    for sentence in told.sentences:
        line = "".join(each if each.isprintable() else "?" for each in sentence)
        sys.stdout.write(line + "\n")
