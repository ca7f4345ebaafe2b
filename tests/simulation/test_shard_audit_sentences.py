"""The audit log of a whole shard: a line for whatever became of an action, in a chain of files."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.cli import audit, exits
from mainstay.model.cost import bucket_for
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, CapacityType
from mainstay.model.questions import SetControlRequest
from mainstay.model.resources import scale
from mainstay.model.state import State
from mainstay.providers.sim.offers import Offer, choose, small_catalog
from mainstay.providers.sim.provider import Sim
from mainstay.providers.sim.spec import Pool, SimSpec
from mainstay.shard.answers.view import ShardControls
from mainstay.shard.audit.files import AuditFiles, Sizes, files_of
from mainstay.shard.audit.log import AuditLog
from mainstay.shard.outcomes import Disposition
from talking import at_once
from virtual_loop import run
from whole_shard import WEB, Whole, a_provider, needs, running, sims

Captured = pytest.CaptureFixture[str]
FILE_BYTES: Final = 6_000


@asynccontextmanager
async def audited(
    folder: Path, providers: dict[str, Sim], **settings: object
) -> AsyncIterator[Whole]:
    """A shard at work that writes its log, as the process does; at the end it stops in order."""
    log = AuditLog(AuditFiles(folder / "audit", Sizes(file_bytes=FILE_BYTES)), at_once)
    async with running(folder / "data", providers, **settings) as whole:
        whole.journal._audit = log
        writing = whole.tasks.create_task(log.run(whole.journal))
        yield whole
        writing.cancel()
    await log.close(whole.journal)


async def hold_back(whole: Whole, kind: str, *, value: float = 0, for_s: float = 30) -> None:
    asked = SetControlRequest(kind=kind, value=value, reason="a drill", by="ann", for_s=for_s)
    await ShardControls(whole.assembled.live).set_control(asked)
    await asyncio.sleep(for_s + 0.5)


async def every_disposition(folder: Path) -> None:
    """A life in which an action of each disposition comes to pass."""
    async with sims(a_provider(slots=0, idle=12)) as providers:
        async with audited(folder, providers, workers=1) as whole, whole.cluster() as web:
            await asyncio.sleep(12)
            providers["sim"].change({"late_acks_s": "9"})
            web.ask_for(12)  # one is called, two wait over a tick, the others find no room
            await asyncio.sleep(30)
            providers["sim"].change({"late_acks_s": "0"})
            await asyncio.sleep(100)
            assert len(whole.machines(State.CONFIGURED)) == 12
            web.ask_for(8)  # one is reclaimed, three are above the cap
            await asyncio.sleep(0.5)
            for kind in ("shadow", "pause"):
                await hold_back(whole, kind)
            await asyncio.sleep(300)
            web.ask_for(12)
            await hold_back(whole, "action_limit", value=1, for_s=1)
            await asyncio.sleep(60)


def lines(folder: Path, what: str = "action") -> list[dict[str, Any]]:
    found = [
        json.loads(line)
        for path in files_of(folder / "audit")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [line for line in found if line["what"] == what]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited")
    run(every_disposition(folder))
    return folder


@pytest.fixture
def own(tmp_path: Path, log: Path) -> Path:
    """A copy that may be harmed."""
    (tmp_path / "audit").mkdir()
    for path in (log / "audit").iterdir():
        (tmp_path / "audit" / path.name).write_bytes(path.read_bytes())
    return tmp_path


def check(folder: Path) -> int:
    return exits.run(audit.app, ["verify", str(folder / "audit")], name="mainstay audit")


def test_every_disposition_has_its_lines(log: Path) -> None:
    assert {line["disposition"] for line in lines(log)} == set(Disposition)


@pytest.mark.parametrize(
    ("disposition", "reason"),
    [
        ("executed", ""),
        ("suppressed", "pause"),
        ("shadowed", "shadow"),
        ("capped", "cap"),
        ("deferred", "limit"),
        ("dropped", "queue_full"),
    ],
)
def test_a_line_says_why_in_a_word(log: Path, disposition: str, reason: str) -> None:
    mine = [line for line in lines(log) if line["disposition"] == disposition]
    assert reason in {line["reason"] for line in mine}
    for line in mine:
        assert (line["outcome"] is not None) == (disposition == "executed")


def test_a_line_says_for_which_need_and_at_what_price(log: Path) -> None:
    fingerprint = needs(1)[0].profile.fingerprint
    acquisitions = [line for line in lines(log) if line["kind"] == "bootstrap"]
    assert acquisitions
    for line in acquisitions:
        need = line["need"]
        assert (need["cluster"], need["fingerprint"]) == (WEB, fingerprint)
        assert (need["priority"], line["price_per_hour"]) == (100, 0.0)
        assert line["provider"] == "sim"
    drains = [line for line in lines(log) if line["kind"] == "reclaim"]
    assert {line["need"] for line in drains} == {None}
    assert all({"saved_per_hour", "at_risk_dollars", "grace_s"} <= line.keys() for line in drains)


LARGE, XLARGE = "m5.large", "m5.xlarge"
PRICES: Final = {LARGE: 0.096, XLARGE: 0.192}
"""What they cost on demand, by the hour."""

AT_RISK: Final = {LARGE: 16.0, XLARGE: 128.0}
"""The greater penalty of who has them, as it is kept: up to the next power of two."""


def priced(cluster: ClusterId, kind: str, machines: int, priority: int, *penalties: float) -> Need:
    """Demand for so many machines of a type; what an interruption and a reclaim cost it."""
    units = dict(sold(kind).resources.units)
    interruption, reclamation = (bucket_for(dollars) for dollars in penalties)
    profile = NeedProfile(
        (Requirement(INSTANCE_TYPE_KEY, Operator.IN, (kind,)),),
        priority=priority,
        interruption_penalty_bucket=interruption,
        reclamation_penalty_bucket=reclamation,
    )
    aggregate = scale(units, machines)
    return Need(cluster=cluster, profile=profile, aggregate=aggregate, min_unit=units)


def sold(kind: str) -> Offer:
    return choose(small_catalog(), [kind])[0]


async def what_money_is_about(folder: Path) -> None:
    """Machines are bought, taken for somebody who matters more, and given up."""
    pools = tuple(
        Pool(sold(kind), CapacityType.ON_DEMAND, slots) for kind, slots in ((LARGE, 2), (XLARGE, 1))
    )
    two, other = priced(WEB, LARGE, 2, 100, 3.0, 10.0), priced(WEB, XLARGE, 1, 100, 100.0, 1.0)
    async with (
        sims(SimSpec(pools=pools, seed=1, name="sim")) as providers,
        audited(folder, providers) as whole,
        whole.cluster() as web,
        whole.cluster("db") as db,
    ):
        web.roll_up([two, other])
        await asyncio.sleep(200)
        assert len(whole.machines(State.CONFIGURED)) == 3
        db.roll_up([priced(db.name, LARGE, 1, 1_000, 0.25, 0.25)])
        await asyncio.sleep(200)
        web.roll_up([two])
        await asyncio.sleep(200)


def test_a_line_says_what_a_machine_costs_and_what_a_drain_saves_and_puts_at_risk(
    tmp_path: Path,
) -> None:
    """By a scene in which none of these is nothing."""
    run(what_money_is_about(tmp_path))

    executed = [line for line in lines(tmp_path) if line["disposition"] == "executed"]
    kinds = {line["machine"]: line["machine"].split(".use")[0] for line in executed}
    for line in executed:
        assert line["price_per_hour"] == PRICES[kinds[line["machine"]]]
    bought = [line for line in executed if line["kind"] in {"provision", "bootstrap"}]
    assert all(line.keys().isdisjoint({"saved_per_hour", "at_risk_dollars"}) for line in bought)
    needs_of = {(line["need"]["cluster"], line["need"]["priority"]) for line in bought}
    assert needs_of == {(WEB, 100), ("db", 1_000)}
    drained = {line["kind"]: line for line in executed if line not in bought}
    assert drained.keys() == {"preempt", "reclaim"}
    for what, kind in (("preempt", LARGE), ("reclaim", XLARGE)):
        line = drained[what]
        assert (line["cluster"], kinds[line["machine"]]) == (WEB, kind)
        assert (line["saved_per_hour"], line["at_risk_dollars"]) == (PRICES[kind], AT_RISK[kind])
    need = drained["preempt"]["need"]
    assert (need["cluster"], need["priority"]) == ("db", 1_000)


def test_a_line_says_in_which_cycle_it_was_decided_and_in_which_it_ended(log: Path) -> None:
    """What waits for a worker ends in a later cycle than the one that decided it."""
    executed = [line for line in lines(log) if line["disposition"] == "executed"]
    assert all(line["decided_in"] <= line["ended_in"] for line in executed)
    assert any(line["decided_in"] < line["ended_in"] for line in executed)
    held = [line for line in lines(log) if line["disposition"] in {"suppressed", "capped"}]
    assert all(line["decided_in"] == line["ended_in"] for line in held)


def test_controls_stand_in_it_with_who_why_and_how_they_ended(log: Path) -> None:
    events = [(line["event"], line["facts"]) for line in lines(log, "event")]
    was_set = [facts for event, facts in events if event == "control_set"]
    ended = [facts for event, facts in events if event == "control_ended"]
    assert [facts["reason"] for facts in was_set] == ["shadow", "pause", "action_limit"]
    assert {(facts["by"], facts["why"]) for facts in was_set} == {("ann", "a drill")}
    assert [(facts["reason"], facts["how"]) for facts in ended] == [
        (facts["reason"], "expired") for facts in was_set
    ]


def test_its_files_follow_one_another_and_the_chain_is_whole(log: Path, capsys: Captured) -> None:
    files = files_of(log / "audit")
    assert len(files) > 2
    assert all(path.stat().st_size <= FILE_BYTES + 4_096 for path in files)
    assert check(log) == exits.DONE
    written = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert (
        f"whole: {written} lines in {len(files)} files, 1 to {written}" in capsys.readouterr().out
    )


def test_a_word_that_is_changed_in_any_file_is_found(own: Path, capsys: Captured) -> None:
    for path in files_of(own / "audit"):
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace('"at":', '"at":1', 1), encoding="utf-8")
        assert check(own) == exits.FAILED
        assert f"broken: {path} line " in capsys.readouterr().out
        path.write_text(before, encoding="utf-8")
    assert check(own) == exits.DONE


def test_it_goes_on_over_a_life_that_follows(own: Path, capsys: Captured) -> None:
    async def another_life() -> None:
        async with sims(a_provider(slots=0, idle=2)) as providers:
            async with audited(own, providers) as whole, whole.cluster() as web:
                web.ask_for(1)
                await asyncio.sleep(60)

    before = len(lines(own))
    run(another_life())
    assert len(lines(own)) == before + 1
    assert check(own) == exits.DONE
    assert "whole: " in capsys.readouterr().out
