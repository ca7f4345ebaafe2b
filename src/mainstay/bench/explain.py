"""`mainstay bench explain`: whole answers to whole questions, on two fleets where much is unmet.

`crowded` is the Go reference's fleet, nearly full; `many` is its fleet of many small gangs with
twenty times as many needs. Every question is asked of a plan that nobody has looked at yet, twice:
as the command line asks it, and with all changes tried, however long that takes. Then what-if, and
on the crowded fleet needs that nothing helps.
"""

import dataclasses
import json
import math
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from mainstay.bench import lcg, uber
from mainstay.bench.decide import demand_of, make_cases, stocked
from mainstay.bench.frame import Bench, resident_mb
from mainstay.bench.in_vain import demand_in_vain
from mainstay.bench.what_if import ifs_of, is_other
from mainstay.engine import kernels
from mainstay.engine.decide import decide
from mainstay.engine.lookup import told_at
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.need import Need
from mainstay.model.questions import About, Explanation, Question
from mainstay.model.resources import scale
from mainstay.model.views import Stamp
from mainstay.runtime.patience import Patience
from mainstay.shard.answers.explain import CUT, Given, explain
from mainstay.shard.answers.whatif import what_if
from mainstay.shard.answers.when import Outlook

BUDGET: Final = {
    "max_ms": 1000.0,
    "all_cpu_max_ms": 1000.0,
    "in_vain_max_ms": 1000.0,
    "in_vain_all_cpu_max_ms": 1000.0,
    "what_if_max_ms": 1000.0,
    "what_if_cpu_max_ms": 1000.0,
}
BUDGET_SIZE: Final = 225_000
NOW: Final = 0.0
STAMP: Final = Stamp(shard="bench", cycle=1, at_s=NOW)

KNOWN_HASHES: Final = {225_000: "009b8ac4dca42fd9"}
"""Of the crowded fleet, by size."""

EVERY: Final = 50
"""One of so many needs asks for far more than it did."""

PLAIN_TIMES: Final = 400
GANG_TIMES: Final = 40
"""How much more: no rack holds such a gang."""

PATIENCE_S: Final = 0.8
"""As the command line has it where nothing else is said."""

COMMAND: Final = "from mainstay.cli.main import main; main()"
NOT_REACHABLE: Final = 3
"""How the command ends then."""

KINDS: Final = {
    "crowded": (About.NEED, About.GANG, About.MACHINE, About.CLUSTER),
    "many": (About.NEED, About.MACHINE, About.CLUSTER),
}
"""What is asked about; the small gangs of `many` are all served."""


def run(bench: Bench, *, machines: int, questions: int) -> None:
    """Both fleets: what they are first, then the time of every question."""
    bench.budget = dict(BUDGET) if machines == BUDGET_SIZE else {}
    bench.figures["kernels"] = kernels.warm()
    kinds: list[dict[str, float]] = []
    vain: dict[str, float] = {}
    ifs: dict[str, dict[str, float]] = {}
    for name, make in (("crowded", _crowded), ("many", _many)):
        bench.progress(f"explain: making {machines:,} machines, {name}")
        snapshot, demand = make(bench, machines)
        plan = decide(snapshot, demand, Memory.empty(), Policy(), NOW)
        told = _measure(bench, name, plan, questions)
        bench.figures[name] = told
        kinds += told.values()
        ifs[name] = _measure_ifs(bench, name, plan)
        if name == "crowded":
            vain = _measure_in_vain(bench, plan, questions)
    bench.figures |= {
        "what_if": ifs,
        "in_vain": vain,
        "in_vain_max_ms": vain["max_ms"],
        "in_vain_all_cpu_max_ms": vain["all_cpu_max_ms"],
        "max_ms": max(each["max_ms"] for each in kinds),
        "all_cpu_max_ms": max(each["all_cpu_max_ms"] for each in kinds),
        "cut": sum(each["cut"] for each in kinds),
        "what_if_max_ms": max(each["max_ms"] for each in ifs.values()),
        "what_if_cpu_max_ms": max(each["cpu_max_ms"] for each in ifs.values()),
        "command_cpu_ms": command_cpu_ms(bench),
        "memory": {"rss_mb": resident_mb()},
    }


def command_cpu_ms(bench: Bench) -> float:
    """What `mainstay explain` computes around an answer: nobody answers where it asks."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        address = f"127.0.0.1:{bound.getsockname()[1]}"
    words = ["explain", "machine", "m-1", "--server", address, "--insecure"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", COMMAND, *words], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    bench.expect("nobody answers", expected=NOT_REACHABLE, actual=done.returncode)
    worked_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return round(worked_s * 1000, 1)


def _crowded(bench: Bench, machines: int) -> tuple[Snapshot, Demand]:
    fleet = lcg.generate(machines, max(50, machines // 100), max(3, machines // 1000))
    value = lcg.input_hash(fleet)
    bench.expect("crowded input_hash", expected=KNOWN_HASHES.get(machines, value), actual=value)
    snapshot = stocked(fleet).snapshot()
    bench.expect("crowded machines", expected=machines, actual=len(snapshot.order))
    burst = next(case.demand for case in make_cases(fleet) if case.name == "burst")
    return snapshot, demand_of([*hungry(burst.needs)])


def _many(bench: Bench, machines: int) -> tuple[Snapshot, Demand]:
    full = uber.expected("uber50k")
    share = math.ceil(machines * uber.CLUSTERS["uber50k"] / sum(full.by_state.values()))
    share_of_clusters = share / uber.CLUSTERS["uber50k"]
    expected = uber.expected("uber50k", share_of_clusters)
    inventory, demand = uber.make("uber50k", share_of_clusters)
    snapshot = inventory.snapshot()
    total = sum(expected.by_state.values())
    bench.expect("many machines", expected=total, actual=len(snapshot.order))
    bench.expect("many needs", expected=expected.needs, actual=len(demand.needs))
    return snapshot, Demand(tuple(hungry(demand.needs)), demand.heard)


def hungry(needs: Sequence[Need]) -> Iterator[Need]:
    """The same, but one of many asks for far more; plain needs and gangs are counted apart."""
    seen = {False: 0, True: 0}
    for need in needs:
        is_gang = bool(need.profile.same_keys)
        seen[is_gang] += 1
        times = GANG_TIMES if is_gang else PLAIN_TIMES
        more = seen[is_gang] % EVERY == 1
        yield dataclasses.replace(need, aggregate=scale(need.aggregate, times)) if more else need


def _measure(bench: Bench, name: str, plan: Plan, questions: int) -> dict[str, dict[str, float]]:
    outlook = Outlook(connected=plan.demand.heard)
    found: dict[str, dict[str, float]] = {}
    for about in KINDS[name]:
        kind = about.name.lower()
        asked = list(_spaced(list(questions_of(plan, about)), questions))
        bench.expect(f"{name} asks about a {kind}", expected=True, actual=bool(asked))
        told = [_asked(bench, unread(plan), each, outlook, PATIENCE_S) for each in asked]
        whole = [_asked(bench, unread(plan), each, outlook, None) for each in asked]
        cpu = summary([each.cpu_ms for each in whole])
        found[kind] = summary([each.took_ms for each in told]) | {
            "cut": float(sum(each.is_cut for each in told)),
            "helped": float(sum(each.is_helped for each in told)),
            "all_helped": float(sum(each.is_helped for each in whole)),
            "all_cpu_p50_ms": cpu["p50_ms"],
            "all_cpu_max_ms": cpu["max_ms"],
        }
        bench.samples[f"{name} {kind}"] = [round(each.took_ms, 3) for each in told]
        bench.samples[f"{name} {kind} all_cpu"] = [round(each.cpu_ms, 3) for each in whole]
        bench.progress(f"explain: {name} {kind} {found[kind]}")
    return found


def _measure_in_vain(bench: Bench, before: Plan, questions: int) -> dict[str, float]:
    """Needs that nothing helps: that is asserted with all changes tried, then they are timed."""
    demand, asked = demand_in_vain(before, questions)
    plan = decide(before.snapshot, demand, Memory.empty(), before.policy, NOW)
    outlook = Outlook(connected=demand.heard)
    bench.expect("asks in vain", expected=True, actual=bool(asked))
    whole = [_asked(bench, unread(plan), each, outlook, None) for each in asked]
    bench.expect("helped in vain", expected=0, actual=sum(each.is_helped for each in whole))
    bench.expect("all are tried in vain", expected=0, actual=sum(each.is_cut for each in whole))
    told = [_asked(bench, unread(plan), each, outlook, PATIENCE_S) for each in asked]
    cpu = summary([each.cpu_ms for each in whole])
    bench.samples["in vain"] = [round(each.took_ms, 3) for each in told]
    bench.samples["in vain all_cpu"] = [round(each.cpu_ms, 3) for each in whole]
    found = summary([each.took_ms for each in told]) | {
        "cut": float(sum(each.is_cut for each in told)),
        "all_cpu_p50_ms": cpu["p50_ms"],
        "all_cpu_max_ms": cpu["max_ms"],
    }
    bench.progress(f"explain: in vain {found}")
    return found


def _measure_ifs(bench: Bench, name: str, plan: Plan) -> dict[str, float]:
    """Every way to ask what if, one after the other."""
    took_ms, cpu_ms = [], []
    for words, query in ifs_of(plan).items():
        fresh = unread(plan)
        began_s, worked_s = bench.clock.elapsed_s(), time.process_time()
        answer = what_if(fresh, query, STAMP)
        cpu_ms.append((time.process_time() - worked_s) * 1000)
        took_ms.append((bench.clock.elapsed_s() - began_s) * 1000)
        bench.expect(f"{name} is another if {words}", expected=True, actual=is_other(answer))
    cpu = summary(cpu_ms)
    found = summary(took_ms) | {"cpu_p50_ms": cpu["p50_ms"], "cpu_max_ms": cpu["max_ms"]}
    bench.samples[f"{name} what if"] = [round(ms, 3) for ms in took_ms]
    bench.progress(f"explain: {name} what if {found}")
    return found


class _Answered(NamedTuple):
    """An answer, and what it took."""

    answer: Explanation
    took_ms: float
    cpu_ms: float

    @property
    def is_cut(self) -> bool:
        """Whether it says that changes were left out."""
        return any(each.endswith(CUT) for each in self.answer.sentences)

    @property
    def is_helped(self) -> bool:
        """Whether it names a change that would admit the need."""
        return bool(json.loads(self.answer.document).get("relaxations"))


def _asked(
    bench: Bench, plan: Plan, question: Question, outlook: Outlook, patience_s: float | None
) -> _Answered:
    """With so much patience for changes that would help; None: all are tried."""
    began_s, worked_s = bench.clock.elapsed_s(), time.process_time()
    enough = None if patience_s is None else Patience(bench.clock, patience_s).is_over
    answer = explain(plan, question, STAMP, Given(outlook, enough))
    cpu_ms = (time.process_time() - worked_s) * 1000
    return _Answered(answer, (bench.clock.elapsed_s() - began_s) * 1000, cpu_ms)


def summary(times: Sequence[float]) -> dict[str, float]:
    """How many, the median, the 99th of a hundred, the longest."""
    ordered = sorted(times)
    parts = (("p50", 0.5), ("p99", 0.99))
    at = {name: ordered[math.ceil(len(ordered) * part) - 1] for name, part in parts}
    figures = {f"{name}_ms": round(ms, 3) for name, ms in at.items()}
    return {"questions": float(len(ordered)), **figures, "max_ms": round(ordered[-1], 3)}


def unread(plan: Plan) -> Plan:
    """The same plan without anything that earlier questions have made of it.

    The rows that it tells of stay: it knows them by these very objects.
    """
    told = {place: plan.walk.row(place) for place in told_at(plan)}
    return dataclasses.replace(plan, walk=dataclasses.replace(plan.walk, _made=told))


def questions_of(plan: Plan, about: About) -> Iterator[Question]:
    """All that could be asked of a kind; of needs and gangs, those that miss something."""
    if about is About.MACHINE:
        for machine in plan.snapshot.machine_ids(plan.snapshot.order.astype(np.intp)):
            yield Question(about=about, name=machine)
    elif about is About.CLUSTER:
        for cluster in sorted(plan.demand.heard):
            yield Question(about=about, name=cluster)
    else:
        for need in _unmet(plan):
            if bool(need.profile.same_keys) == (about is About.GANG):
                yield Question(
                    about=about,
                    name=need.cluster,
                    fingerprint=need.profile.fingerprint,
                    group=need.group,
                )


def _unmet(plan: Plan) -> Iterator[Need]:
    """The rows that miss something; of a row of folded gangs also the first gang."""
    for place, told in told_at(plan).items():
        if told.unresolved:
            yield told.need
            at = int(plan.walk.need[place])
            if at < 0:
                yield plan.demand.needs[int(plan.walk.members[-1 - at][0])]


def _spaced(values: Sequence[Question], count: int) -> Iterator[Question]:
    """So many of them, evenly."""
    step = max(1, len(values) // count)
    yield from values[::step][:count]
