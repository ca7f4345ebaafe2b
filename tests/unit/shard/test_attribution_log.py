"""Which need claims what, as lines; a disk that fails is told and stops nobody."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar, cast

import virtual_loop
from builders import a_machine, a_need, a_need_profile
from mainstay.config.shard import ShardConfig
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.state import State
from mainstay.processes.shard_records import attributed
from mainstay.shard.audit.attribution import AttributionLog, lines
from mainstay.shard.events import Event
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.orders import Disposed
from mainstay.shard.thought import Cycled
from whole_shard import Journal as ShardsJournal

AnswerT = TypeVar("AnswerT")


async def at_once(work: Callable[[], AnswerT], /) -> AnswerT:
    return work()


class Journal:
    def __init__(self) -> None:
        self.told: list[Event] = []

    def disposed(self, records: Iterable[Disposed]) -> None:
        raise AssertionError

    def noticed(self, event: Event, *, reason: str = "", **facts: object) -> None:
        self.told.append(event)


def a_plan() -> Plan:
    """Two needs that take one machine each, one that finds none, one machine left over."""
    inventory = Inventory()
    for name in ("c", "a", "b"):
        inventory.add(a_machine(State.CONFIGURED, id=name), now=0.0)
    needs = tuple(
        a_need(profile=a_need_profile(priority=priority), cluster=cluster)
        for priority, cluster in ((9, "web"), (8, "web"), (7, "batch"))
    )
    demand = Demand(needs, frozenset(need.cluster for need in needs))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)


def test_each_need_has_a_line_with_what_it_claims() -> None:
    told = [json.loads(line) for line in lines(a_plan(), 4)]

    assert [(line["priority"], line["cluster"], line["claims"]) for line in told] == [
        (9, "web", ["a"]),
        (8, "web", ["b"]),
        (7, "batch", []),
    ]
    assert {line["cycle"] for line in told} == {4}
    assert told[0]["aggregate"] == {"cpu": 8000}


def test_cycles_follow_one_another_and_a_large_file_is_set_aside(tmp_path: Path) -> None:
    path, journal = tmp_path / "new" / "attribution.jsonl", Journal()

    async def scenario() -> None:
        log = AttributionLog(path, at_once, file_bytes=1_000)
        for cycle in range(1, 6):
            await log.tell(a_plan(), cycle=cycle, journal=journal)

    virtual_loop.run(scenario())

    def cycles(written: Path) -> list[int]:
        return sorted({json.loads(line)["cycle"] for line in written.read_text().splitlines()})

    assert sorted(each.name for each in path.parent.iterdir()) == [
        "attribution.jsonl",
        "attribution.jsonl.1",
    ]
    older, newer = cycles(path.with_name("attribution.jsonl.1")), cycles(path)
    assert newer[-1] == 5
    assert older[-1] + 1 == newer[0]
    assert journal.told == []


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal()
    log = AttributionLog(tmp_path / "file" / "attribution.jsonl", at_once)

    virtual_loop.run(log.tell(a_plan(), cycle=1, journal=journal))

    assert journal.told == [Event.ATTRIBUTION_LOG_FAILED]


def test_it_is_off_unless_asked_for_and_then_costs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        off, on = ShardConfig(), ShardConfig(attribution_log=True, data_dir=str(tmp_path))
        runs = [
            attributed(config, tmp_path, ShardsJournal(ShardMetrics(), config), at_once).beside
            for config in (off, on)
        ]
        assert [len(each) for each in runs] == [0, 1]

    virtual_loop.run(scenario())
    assert list(tmp_path.iterdir()) == []


class Watched:
    """A cycle that notes what of it is looked at."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    def __getattr__(self, name: str) -> object:
        self.looked_at.append(name)
        return self


def test_while_it_is_off_no_cycle_is_looked_at(tmp_path: Path) -> None:
    async def scenario() -> None:
        for config, looked_at in (
            (ShardConfig(), []),
            (ShardConfig(attribution_log=True, data_dir=str(tmp_path)), ["published"]),
        ):
            cycled = Watched()
            attributed(config, tmp_path, ShardsJournal(ShardMetrics(), config), at_once).seen(
                cast("Cycled", cycled)
            )
            assert cycled.looked_at == looked_at

    virtual_loop.run(scenario())
