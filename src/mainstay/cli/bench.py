"""`mainstay bench`: the figures we promise, one JSON object each."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mainstay.bench.frame import Bench
from mainstay.cli import exits
from mainstay.cli.options import Option, takes
from mainstay.cli.progress import begun
from mainstay.runtime.clock import SystemClock

app = typer.Typer(add_completion=False, no_args_is_help=True)


class Workload(StrEnum):
    """The fleets a decision is measured on."""

    LCG = "lcg"
    REALISTIC_50K = "realistic50k"
    ALLSAME_50K = "allsame50k"
    ONEPOOL = "onepool"
    UBER5K = "uber5k"
    UBER50K = "uber50k"


MEMORY = ("bytes_per_machine", "pss_mb")
"""What is no time: over its budget it fails."""

ONLY_TOLD = "a time fails nothing, for machines are shared"

JsonOption = Annotated[bool, typer.Option("--json", help="On one line, for machines.")]


@app.callback()
def bench() -> None:
    """Measure what we promise, print JSON; exit 1 when a promise about memory is not kept."""


@app.command()
def inventory(
    machines: Annotated[int, typer.Option(min=1000, help="Size of the fleet.")] = 500_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same fleet.")] = 1,
    one_line: JsonOption = False,
) -> int:
    """Memory and time of the columnar inventory."""
    from mainstay.bench import inventory as bench_inventory

    frame = _frame("inventory", {"machines": machines, "seed": seed})
    bench_inventory.run(frame, machines=machines, seed=seed)
    return _print(frame, one_line=one_line)


@app.command()
def decide(
    *,
    machines: Annotated[int, typer.Option(min=1000, help="Size of the fleet.")] = 500_000,
    needs: Annotated[int, typer.Option(min=50, help="Rows of demand.")] = 5_000,
    racks: Annotated[int, typer.Option(min=3, help="Racks the fleet stands in.")] = 500,
    workload: Annotated[Workload, typer.Option(help="Which fleet and demand.")] = Workload.LCG,
    dump: Annotated[Path | None, typer.Option(help="Write each case's actions here (lcg).")] = None,
    one_line: JsonOption = False,
) -> int:
    """A whole decision, cold, steady and after a change, on the Go reference's own inputs."""
    from mainstay.bench import decide as bench_decide

    if workload is Workload.LCG:
        size = {"machines": machines, "needs": needs, "racks": racks}
        frame = _frame("decide", {"workload": str(workload), **size})
        bench_decide.run(frame, machines=machines, needs=needs, racks=racks, dump=dump)
    else:
        frame = _frame("decide", {"workload": str(workload)})
        bench_decide.run_fleet(frame, workload=str(workload), share=1.0)
    return _print(frame, one_line=one_line)


@app.command()
def explain(
    machines: Annotated[int, typer.Option(min=1000, help="Size of each fleet.")] = 225_000,
    questions: Annotated[int, typer.Option(min=1, help="Of each kind, on each fleet.")] = 25,
    one_line: JsonOption = False,
) -> int:
    """Answers about needs, gangs, machines and clusters, with the changes that would help."""
    from mainstay.bench import explain as bench_explain

    frame = _frame("explain", {"machines": machines, "questions": questions})
    bench_explain.run(frame, machines=machines, questions=questions)
    return _print(frame, one_line=one_line)


@app.command()
def reconcile(
    machines: Annotated[int, typer.Option(min=1000, help="Size of the fleet.")] = 500_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same list.")] = 1,
    one_line: JsonOption = False,
) -> int:
    """A provider's whole list, from bytes to rows: cold, unchanged in any order, changed."""
    from mainstay.bench import reconcile as bench_reconcile

    frame = _frame("reconcile", {"machines": machines, "seed": seed})
    bench_reconcile.run(frame, machines=machines, seed=seed)
    return _print(frame, one_line=one_line)


@app.command()
def shard(
    machines: Annotated[int, typer.Option(min=1000, help="Size of the fleet.")] = 500_000,
    cycles: Annotated[int, typer.Option(min=2, help="Samples of each kind.")] = 100,
    one_line: JsonOption = False,
) -> int:
    """Whole cycles of a shard process over gRPC: steady, changing, and from demand to decision."""
    from mainstay.bench import shard as bench_shard

    frame = _frame("shard", {"machines": machines, "cycles": cycles})
    bench_shard.run(frame, bench_shard.size_of(machines, cycles))
    return _print(frame, one_line=one_line)


@app.command()
def sessions(
    clients: Annotated[int, typer.Option(min=1, help="Clusters, each with a machine.")] = 2_000,
    one_line: JsonOption = False,
) -> int:
    """All clusters of a shard process dial at once: until each is acknowledged, and is replayed."""
    from mainstay.bench import sessions as bench_sessions

    frame = _frame("sessions", {"clients": clients})
    bench_sessions.run(frame, clients)
    return _print(frame, one_line=one_line)


@app.command()
def dashboard(
    machines: Annotated[int, typer.Option(min=1000, help="Size of the fleet.")] = 500_000,
    asks: Annotated[int, typer.Option(min=1, help="How often each page is asked for.")] = 10,
    visits: Annotated[
        int,
        typer.Option(
            min=0, help="How often Chromium goes to the largest pages; 0: it is not needed."
        ),
    ] = 0,
    one_line: JsonOption = False,
) -> int:
    """Every page of the dashboard over a shard process, by HTTP: bytes, rows, calls, times."""
    from mainstay.bench import dashboard as bench_dashboard

    size = bench_dashboard.Size(machines=machines, asks=asks, visits=visits)
    frame = _frame("dashboard", {"machines": machines, "asks": asks, "visits": visits})
    bench_dashboard.run(frame, size)
    return _print(frame, one_line=one_line)


@app.command()
def up(
    machines: Annotated[int, typer.Option(min=30, help="Size of the fleet.")] = 2_000,
    looks: Annotated[int, typer.Option(min=1, help="Looks at the memory, a second apart.")] = 10,
    one_line: JsonOption = False,
) -> int:
    """`mainstay up` from an empty home: seconds to the page and the first node, memory of all."""
    from mainstay.bench import up as bench_up

    frame = _frame("up", {"machines": machines, "looks": looks})
    bench_up.run(frame, bench_up.Size(machines=machines, looks=looks))
    return _print(frame, one_line=one_line)


@app.command()
def quality(
    cases: Annotated[int, typer.Option(min=1, help="Small fleets, against the optimum.")] = 200,
    large: Annotated[int, typer.Option(min=0, help="Large fleets, against a bound.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same fleets.")] = 1,
    one_line: JsonOption = False,
) -> int:
    """How far decisions are from the best ones, in money and in satisfied demand."""
    from mainstay.bench import quality as bench_quality

    frame = _frame("quality", {"cases": cases, "large": large, "seed": seed})
    bench_quality.run(frame, cases=cases, seed=seed, large=large)
    return _print(frame, one_line=one_line)


@app.command()
def placement(
    *,
    trace: Annotated[Path, typer.Option(help="Folder of the openb trace.")],
    workload: Annotated[str, typer.Option(help="Lists of pods, or `all`.")] = "default",
    demand: Annotated[str, typer.Option(help="GPUs asked for, as shares of all.")] = "1.0,1.3",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Orders of arrival.")] = 10,
    one_line: JsonOption = False,
) -> int:
    """GPU % left unallocated on the openb trace: ours, best fit, published, and the least."""
    from mainstay.bench import openb
    from mainstay.bench import placement as bench_placement

    names = openb.workloads(trace) if workload == "all" else workload.split(",")
    demands = bench_placement.demands_of(demand)
    frame = _frame("placement", {"workloads": names, "demands": demands, "seeds": seeds})
    bench_placement.run(frame, trace=trace, names=names, demands=demands, seeds=seeds)
    return _print(frame, one_line=one_line)


@app.command()
@takes(
    Option("requests", int, "Requests that race.", 100_000, least=1),
    Option("nodes", int, "Nodes of eight GPUs.", 250, least=1),
    Option("clients", int, "Requests under way at once.", 32, least=1),
    Option("processes", int, "Processes they are in.", 2, least=1),
    Option("seed", int, "The same seed, the same requests.", 1, least=0),
    Option("pressure", int, "GPUs a round asks for, of a hundred that there are.", 105, least=1),
)
def allocations(
    database: Annotated[
        str | None, typer.Option(help="URL of an empty PostgreSQL; else an embedded one.")
    ] = None,
    dump: Annotated[Path | None, typer.Option(help="Write the time of every call here.")] = None,
    one_line: JsonOption = False,
    **given: int,
) -> int:
    """Create and release on a real PostgreSQL, events to a consumer, and no GPU given twice."""
    from mainstay.bench import allocations as bench_allocations

    size = bench_allocations.Size(**given)
    frame = _frame(
        "allocations", {**given, "database": "embedded" if database is None else "given"}
    )
    bench_allocations.run(frame, size=size, database=database, dump=dump)
    return _print(frame, one_line=one_line)


@app.command()
def failover(
    *,
    shards: Annotated[int, typer.Option(min=1, help="Simulated shards.")] = 20,
    domains: Annotated[int, typer.Option(min=0, help="Domains that they have.")] = 1_000,
    kills: Annotated[int, typer.Option(min=1, help="How often the leader is lost, each way.")] = 5,
    one_line: JsonOption = False,
) -> int:
    """From a leading coordinator that is killed, or stopped, to a report the next one answers."""
    from mainstay.bench import failover as bench_failover

    args: dict[str, object] = {"shards": shards, "domains": domains, "kills": kills}
    frame = _frame("failover", args)
    size = bench_failover.Size(shards=shards, domains=domains, kills=kills)
    bench_failover.run(frame, size)
    return _print(frame, one_line=one_line)


@app.command()
def coordinator(
    *,
    shards: Annotated[int, typer.Option(min=1, help="Simulated shards.")] = 200,
    domains: Annotated[int, typer.Option(min=0, help="Domains over all shards.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each phase.")] = 10.0,
    writes: Annotated[int, typer.Option(min=1, help="Domains assigned one by one.")] = 1_000,
    one_line: JsonOption = False,
) -> int:
    """A coordinator with many shards and domains: state, reports, writes, a new leader."""
    from mainstay.bench import coordinator as bench_coordinator

    args: dict[str, object] = {
        "shards": shards, "domains": domains, "seconds": seconds, "writes": writes
    }  # fmt: skip
    frame = _frame("coordinator", args)
    size = bench_coordinator.Size(shards=shards, domains=domains, seconds=seconds, writes=writes)
    bench_coordinator.run(frame, size)
    return _print(frame, one_line=one_line)


def _frame(name: str, args: dict[str, object]) -> Bench:
    return Bench(name, args, SystemClock(), begun().say)


def _print(frame: Bench, *, one_line: bool) -> int:
    answer = frame.answer()
    begun().close()
    sys.stdout.write(json.dumps(answer, indent=None if one_line else 2) + "\n")
    over = frame.over_budget()
    broken = [key for key in over if key.endswith(MEMORY)]
    for key, figure in over.items():
        told = f"over budget: {key} is {figure}, the budget is {frame.budget[key]}"
        exits.complain(told if key in broken else f"{told}; {ONLY_TOLD}", "")
    return exits.FAILED if broken else exits.DONE
