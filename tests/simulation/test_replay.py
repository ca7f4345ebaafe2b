"""A run follows from its spec, its spec from a command, and a broken law ends it with code 1."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mainstay.cli import exits, main
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.model.action import Action, ActionKind
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.sim import laws
from mainstay.sim.loop import run, start
from mainstay.sim.scene import SCENES
from mainstay.sim.spec import SETTINGS, Event, LoopSpec, parse_event, parse_settings, replay
from mainstay.sim.world import Loop, machines

Captured = pytest.CaptureFixture[str]

EVERYTHING = LoopSpec(
    seed=7,
    cycles=30,
    scene="gang",
    events=tuple(
        map(
            parse_event,
            (
                "lose@3:train=1",
                "fail@4=1",
                "scale@9:train=50",
                "mute@5:train=2",
            ),
        )
    ),
    create_dwell=2,
    configure_dwell=1,
    drain_dwell=1,
    list_lag=2,
    losses=2,
    reclaim_cap=True,
    restart_at=11,
    echo=False,
    echo_create=False,
    drop_per_mille=100,
    repeat_per_mille=100,
    racing=True,
    drift_per_mille=100,
    drift_reorders=True,
)

SMALL = [name for name in SCENES if not name.startswith("s")] + ["shared", "s86-aligned"]


def answer(capsys: Captured, *words: str) -> tuple[int, Any]:
    code = main.dispatch(["sim", "loop", *words])
    return code, json.loads(capsys.readouterr().out)


class TestReplay:
    def test_the_spec_of_everything_leaves_no_setting_out(self) -> None:
        plain = LoopSpec(seed=7, cycles=30)

        assert [
            name for name in SETTINGS if getattr(EVERYTHING, name) == getattr(plain, name)
        ] == []

    @pytest.mark.parametrize("scene", SMALL)
    def test_the_same_spec_gives_the_same_run(self, scene: str) -> None:
        spec = dataclasses.replace(EVERYTHING, cycles=20, scene=scene, events=())

        assert run(spec).history == run(spec).history

    def test_the_command_of_a_spec_runs_that_spec(self, capsys: Captured) -> None:
        words = replay(EVERYTHING).split()
        assert words[:3] == ["mainstay", "sim", "loop"]

        code, said = answer(capsys, *words[3:])

        assert code == exits.DONE
        assert said["replay"] == replay(EVERYTHING)
        assert said["last"] == dataclasses.asdict(run(EVERYTHING).history[-1])

    def test_the_answer_tells_sums_and_the_end(self, capsys: Captured) -> None:
        code, said = answer(capsys, "--seed", "3", "--cycles", "40", "--set", "losses=5")

        assert code == exits.DONE
        assert said["totals"]["lost"] == said["totals"]["provisions"] == 5
        assert said["last"]["configured"] == 16
        assert said["broken"] == []

    def test_a_table_has_a_line_per_cycle(self, capsys: Captured) -> None:
        assert main.dispatch(["sim", "loop", "--cycles", "5", "-o", "table"]) == exits.DONE

        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("CYCLE   BOOTSTRAPS")
        assert len(lines) == 6

    def test_a_broken_law_is_one_line_with_the_command_and_code_one(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> Iterator[str]:
            yield "machine m-001 is upside down"

        monkeypatch.setattr(laws, "machine_faults", broken)

        code = main.dispatch(["sim", "loop", "--seed", "9", "--cycles", "2"])

        assert code == exits.FAILED
        assert capsys.readouterr().err == (
            "mainstay: law broken: cycle 0: machine m-001 is upside down: "
            "mainstay sim loop --seed 9 --cycles 2 --scene plain\n"
        )


class TestWords:
    @pytest.mark.parametrize("text", ["lose@3:web=1", "fail@4=1", "scale@9:web=50", "mute@2:web=5"])
    def test_an_event_is_written_as_it_is_read(self, text: str) -> None:
        assert str(parse_event(text)) == text

    @pytest.mark.parametrize(
        "text", ["", "lose@3=1", "mute@3=1", "fail@3:web=1", "lose@x:web=1", "lose@3:web"]
    )
    def test_what_is_no_event_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match="event"):
            parse_event(text)

    def test_settings_are_read_by_name(self) -> None:
        told = parse_settings(["create-dwell=3", "reclaim_cap=1", "echo-create=0", "racing=1"])

        assert told == {
            "create_dwell": 3, "reclaim_cap": True, "echo_create": False, "racing": True,
        }  # fmt: skip

    @pytest.mark.parametrize("text", ["", "seed=3", "create-dwell", "losses=-1", "losses=many"])
    def test_what_is_no_setting_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match="not a setting"):
            parse_settings([text])

    @pytest.mark.parametrize(
        "wrong",
        [
            {"cycles": 0}, {"seed": -1}, {"list_lag": 3}, {"drop_per_mille": 1001},
            {"repeat_per_mille": -1}, {"drift_per_mille": 2000},
        ],
    )  # fmt: skip
    def test_a_spec_that_makes_no_sense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(Rejected):
            LoopSpec(**{"seed": 1, "cycles": 1, **wrong})

    def test_an_unknown_scene_is_refused_with_those_there_are(self, capsys: Captured) -> None:
        assert main.dispatch(["sim", "loop", "--scene", "opera"]) == exits.FAILED

        assert "no such scene: 'opera' (one of plain, gang," in capsys.readouterr().err


def halved() -> tuple[Loop, Plan]:
    """A plan with five reclaims, and the loop it is for."""
    events: tuple[Event, ...] = (parse_event("scale@0:web=50"),)
    loop = start(LoopSpec(seed=1, cycles=1, events=events))
    demand = run(loop.spec).demand
    loop.demand = demand
    plan = decide(loop.inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)
    assert [action.kind for action in plan.actions] == [ActionKind.RECLAIM] * 5
    return loop, plan


class TestLaws:
    """Each law can be broken."""

    def faults(self, plan: Plan, loop: Loop) -> list[str]:
        return list(laws.plan_faults(plan, loop.demand, loop.inventory))

    def test_a_good_plan_breaks_none(self) -> None:
        loop, plan = halved()

        assert self.faults(plan, loop) == []

    def test_a_machine_in_two_actions_is_seen(self) -> None:
        loop, plan = halved()
        twice = dataclasses.replace(plan, actions=(plan.actions[0], *plan.actions))

        assert self.faults(twice, loop) == [f"machine {plan.actions[0].machine} is in 2 actions"]

    def test_releasing_what_is_claimed_is_seen(self) -> None:
        loop, plan = halved()
        kept = plan.claimed_ids()[0]
        wrong = dataclasses.replace(plan.actions[0], machine=kept)

        found = self.faults(dataclasses.replace(plan, actions=(wrong,)), loop)

        assert found == [f"machine {kept} is claimed, and there is a reclaim"]

    def test_acquiring_without_a_claim_is_seen(self) -> None:
        loop, plan = halved()
        slot = MachineId("m-016")
        wrong = Action(ActionKind.PROVISION, slot, None, None)

        found = self.faults(dataclasses.replace(plan, actions=(wrong,)), loop)

        assert found == [f"machine {slot} is acquired and not claimed"]

    def test_reclaiming_from_a_silent_cluster_is_seen(self) -> None:
        loop, plan = halved()
        silent = Demand(loop.demand.needs, frozenset())

        found = list(laws.plan_faults(plan, silent, loop.inventory))

        assert len(found) == 5
        assert "reclaimed from web, which was not heard from" in found[0]

    def test_a_machine_too_few_is_seen(self) -> None:
        loop, _ = halved()
        loop.inventory.remove(MachineId("m-000"))

        found = list(laws.machine_faults(machines(loop.inventory), size=26))

        assert found == ["there are 25 machines and not 26"]

    def test_a_machine_that_cannot_be_is_seen(self) -> None:
        loop, _ = halved()
        broken = dataclasses.replace(loop.scene.machines[0], host=None)

        assert len(list(laws.machine_faults([broken], size=1))) == 1

    def test_a_machine_with_two_owners_is_seen(self) -> None:
        loop, _ = halved()
        ours = dataclasses.replace(loop.scene.machines[0], cluster=ClusterId("batch"))

        found = list(laws.owner_faults([ours, *loop.scene.machines[1:]], loop.provider))

        assert found == ["machine m-000 serves batch here and web there"]

    def test_work_that_is_begun_twice_is_seen(self) -> None:
        _, plan = halved()
        first = plan.actions[0]

        found = list(laws.step_faults([first, first], None))

        assert found == [f"work on machine {first.machine} was begun 2 times"]

    def test_reclaims_above_the_cap_are_seen(self) -> None:
        _, plan = halved()
        web = ClusterId("web")

        assert list(laws.step_faults(plan.actions, {web: 100})) == []
        assert list(laws.step_faults(plan.actions, {web: 99})) == [
            "5 machines were reclaimed from web in one cycle, and not 4"
        ]
