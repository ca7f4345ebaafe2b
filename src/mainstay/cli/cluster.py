"""`mainstay cluster`: clusters that are not there, and forgetting whose one is."""

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstay.cli import coordinators, exits
from mainstay.cli.control import who
from mainstay.cli.options import Option, takes
from mainstay.cli.servers import SERVER
from mainstay.model.coordinator_calls import UnbindClusterRequest

if TYPE_CHECKING:
    from mainstay.processes.cluster_sim import Report

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def cluster() -> None:
    """Be a cluster: tell a shard what is needed, and see what comes. Or unbind a real one."""


@app.command()
@takes(
    Option("clusters", int, "How many clusters.", 1, least=1),
    Option("machines", int, "How many machines each asks for, on average.", 100, least=1),
    Option("seed", int, "The same seed, the same demand.", 1, least=0),
    Option("name", str, "Of the cluster; several have a number behind it.", "sim"),
    Option("every", float, "Seconds between two roll-ups.", 10.0),
    Option("day", int, "Steps from one peak of demand to the next.", 60, least=2),
    Option("steps", int, "How many steps; 0: until Ctrl-C.", 0, least=0),
    Option("steady", bool, "The same demand at every step.", False, flags=("--steady",)),
    Option("exact", bool, "Only machines that hold one unit each.", False, flags=("--exact",)),
    Option("instance_type", str, "Only machines of this type, each whole.", "", ("--type",)),
    Option("priority", int, "Of demand by --type.", 0),
    Option("one_line", bool, "On one line, for machines.", False, flags=("--json",)),
    *SERVER,
)
def sim(**given: Any) -> None:
    """Clusters with changing demand, each with its session; prints what they see."""
    import asyncio

    from mainstay.cli.servers import find_servers, only_one
    from mainstay.processes.cluster_demand import whole_machines
    from mainstay.processes.cluster_sim import ClustersSpec, Pace, SimulatedClusters, simulate

    wanted = given["instance_type"]
    spec = ClustersSpec(
        clusters=given["clusters"],
        machines=given["machines"],
        name=given["name"],
        seed=given["seed"],
        steps_per_day=given["day"],
        steady=given["steady"],
        exact=given["exact"],
        only=whole_machines(wanted, given["priority"]) if wanted else None,
    )
    pace = Pace(every_s=given["every"], steps=given["steps"])
    server = only_one(find_servers(given))

    def say(report: "Report") -> None:
        line = json.dumps(dataclasses.asdict(report)) if given["one_line"] else str(report)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    async def run() -> None:
        await simulate(SimulatedClusters(spec, server.address, server.over), pace, say)

    asyncio.run(run())


@app.command()
@takes(coordinators.REASON, *coordinators.SERVER)
def unbind(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Its id.")], **given: Any
) -> int:
    """Have the coordinator forget which shard serves a cluster; the next report binds it anew."""
    request = UnbindClusterRequest(cluster=cluster, reason=given["reason"], by=who())
    found = coordinators.find(given)
    done = coordinators.ask(found, lambda asked: asked.unbind_cluster(request))
    sys.stdout.write(f"Cluster {cluster} is unbound. {done.sentence}\n")
    return exits.DONE
