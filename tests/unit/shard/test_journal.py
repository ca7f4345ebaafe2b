"""What is told to a journal reaches metrics, log and audit log, each as the table says."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from builders import a_need
from mainstay.engine.policy import Policy
from mainstay.model.action import Action, ActionKind
from mainstay.model.ids import ClusterId, MachineId
from mainstay.runtime.clock import StepClock
from mainstay.shard.admitted import HeldAs
from mainstay.shard.audit.log import Content
from mainstay.shard.events import EVENTS, Event, Level
from mainstay.shard.journal import KEPT, LINES_MAX, LINES_WINDOW_S, ShardJournal
from mainstay.shard.metrics import ShardMetrics
from mainstay.shard.orders import Disposed, Order
from mainstay.shard.outcomes import Disposition, Outcome

D = Disposition


class Lines:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.contents: list[Mapping[str, object]] = []
        self.written = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self.contents)

    def append(self, content: Content) -> None:
        self.contents.append(content())


class Desk:
    """A journal with all it writes to."""

    def __init__(self, *, audited: bool = True) -> None:
        self.registry = CollectorRegistry()
        self.lines = Lines()
        self.clock = StepClock(1_000.0)
        self.out: list[Mapping[str, Any]] = []
        log = structlog.wrap_logger(
            structlog.WriteLogger(StringIO()), processors=[self._keep],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )  # fmt: skip
        self.journal = ShardJournal(
            ShardMetrics(self.registry), self.lines if audited else None, log, self.clock, Policy()
        )

    def _keep(self, _: object, level: str, event: structlog.typing.EventDict) -> str:
        self.out.append({"level": level, **event})
        raise structlog.DropEvent

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"mainstay_shard_{name}", labels)


def disposed(
    disposition: Disposition = D.EXECUTED,
    outcome: Outcome | None = None,
    *,
    machine: str = "m-1",
    kind: ActionKind = ActionKind.BOOTSTRAP,
    cycle: int = 1,
    reason: str = "",
) -> Disposed:
    need = a_need()
    action = Action(kind, MachineId(machine), ClusterId("web"), need.ref, 30)
    order = Order(action=action, need=need, cycle=cycle, source="sim", price_per_hour=1.5)
    return Disposed(
        order=order, disposition=disposition, outcome=outcome, reason=reason, cycle=cycle,
        seconds=0.25, detail="words",
    )  # fmt: skip


class TestDisposed:
    def test_a_line_has_all_that_an_auditor_asks_for(self) -> None:
        desk = Desk()

        desk.journal.disposed([disposed(D.EXECUTED, Outcome.SUCCESS)])

        need = a_need()
        assert desk.lines.contents == [
            {
                "at": 1_000.0,
                "what": "action",
                "kind": "bootstrap",
                "machine": "m-1",
                "cluster": "web",
                "provider": "sim",
                "disposition": "executed",
                "reason": "",
                "outcome": "success",
                "decided_in": 1,
                "ended_in": 1,
                "need": {
                    "cluster": need.cluster,
                    "fingerprint": need.profile.fingerprint,
                    "group": need.group,
                    "priority": need.profile.priority,
                },
                "grace_s": 30,
                "price_per_hour": 1.5,
                "seconds": 0.25,
                "detail": "words",
                "policy": {
                    "hold_on_demand_s": 600.0,
                    "hold_spot_s": 60.0,
                    "park_after": 8,
                    "reprobe_every": 32,
                },
            }
        ]

    def test_a_deletion_is_for_no_need(self) -> None:
        desk = Desk()
        action = Action(ActionKind.DELETE, MachineId("m-1"), None, None)
        order = Order(action=action, need=None, cycle=1, source="sim")

        desk.journal.disposed([Disposed(order=order, disposition=D.DROPPED)])

        assert (desk.lines.contents[0]["need"], desk.lines.contents[0]["cluster"]) == (None, None)

    @pytest.mark.parametrize("disposition", D)
    def test_each_disposition_is_counted_on_its_own(self, disposition: Disposition) -> None:
        desk = Desk()

        desk.journal.disposed([disposed(disposition)] * 3)

        for each in D:
            value = desk.value("actions_total", kind="bootstrap", disposition=each.value)
            assert value == (3 if each is disposition else None)

    def test_an_executed_one_is_counted_by_outcome_and_timed(self) -> None:
        desk = Desk()

        desk.journal.disposed([disposed(D.EXECUTED, Outcome.FENCED)])

        labels = {"kind": "bootstrap", "outcome": "fenced"}
        assert desk.value("action_outcomes_total", **labels) == 1
        assert desk.value("action_seconds_sum", kind="bootstrap") == 0.25

    def test_what_ended_badly_is_a_line_of_the_log_and_what_ended_well_is_not(self) -> None:
        desk = Desk()

        desk.journal.disposed([disposed(D.EXECUTED, outcome) for outcome in Outcome])

        told = {line["outcome"] for line in desk.out}
        assert Outcome.PROVIDER_ERROR.value in told
        assert Outcome.SUCCESS.value not in told
        assert {line["level"] for line in desk.out} == {"warning"}

    def test_the_last_thousand_are_kept(self) -> None:
        desk = Desk()

        desk.journal.disposed(
            [disposed(D.EXECUTED, Outcome.SUCCESS, machine=f"m-{n}") for n in range(KEPT + 5)]
        )

        kept = desk.journal.recent()
        machines = [told.disposed.order.action.machine for told in kept]
        assert (len(kept), machines[0], machines[-1]) == (KEPT, "m-5", f"m-{KEPT + 4}")
        assert kept[0].at_s == 1_000.0

    def test_what_is_held_back_does_not_push_out_what_was_executed(self) -> None:
        desk = Desk()

        desk.journal.disposed([disposed(D.EXECUTED, Outcome.SUCCESS, machine="done")])
        desk.journal.disposed(
            [disposed(D.CAPPED, machine=f"m-{n}", reason="cap") for n in range(KEPT + 5)]
        )
        desk.journal.disposed([disposed(D.EXECUTED, Outcome.SUCCESS, machine="last")])

        machines = [told.disposed.order.action.machine for told in desk.journal.recent()]
        assert (machines[0], machines[1], machines[-1]) == ("done", "m-5", "last")
        assert len(machines) == KEPT + 2
        executed = [told.disposed.order.action.machine for told in desk.journal.executed()]
        assert executed == ["done", "last"]

    def test_without_an_audit_log_the_rest_goes_on(self) -> None:
        desk = Desk(audited=False)

        desk.journal.disposed([disposed()])
        desk.journal.counted({HeldAs(D.CAPPED, "cap", ActionKind.RECLAIM): 1}, cycle=1)
        desk.journal.noticed(Event.SHARD_FENCED)
        desk.journal.observe()

        assert len(desk.journal.recent()) == 1


class TestHeld:
    """An order that is held again and again is written down once and counted every time."""

    def written(self, *cycles: tuple[int, Disposition, str]) -> int:
        desk = Desk()
        for cycle, disposition, reason in cycles:
            desk.journal.disposed([disposed(disposition, cycle=cycle, reason=reason)])
        assert len(desk.journal.recent()) == len(desk.lines)
        return len(desk.lines)

    def test_the_same_in_the_next_cycle_is_not_written_again(self) -> None:
        assert self.written(*((n, D.SUPPRESSED, "pause") for n in range(1, 50))) == 1

    def test_it_is_counted_every_time(self) -> None:
        desk = Desk()
        for cycle in range(1, 6):
            desk.journal.disposed([disposed(D.CAPPED, cycle=cycle)])

        assert desk.value("actions_total", kind="bootstrap", disposition="capped") == 5

    def test_after_a_cycle_without_it_it_is_written_again(self) -> None:
        assert self.written((1, D.CAPPED, "cap"), (3, D.CAPPED, "cap")) == 2

    def test_another_reason_or_disposition_is_written(self) -> None:
        assert self.written((1, D.DEFERRED, "limit"), (2, D.DEFERRED, "back_off")) == 2
        assert self.written((1, D.SUPPRESSED, "x"), (2, D.SHADOWED, "x")) == 2

    def test_another_machine_is_written(self) -> None:
        desk = Desk()
        desk.journal.disposed(disposed(D.CAPPED, machine=name) for name in ("a", "b"))

        assert len(desk.lines) == 2

    def test_what_is_executed_is_always_written(self) -> None:
        assert self.written((1, D.EXECUTED, ""), (2, D.EXECUTED, "")) == 2

    def test_more_that_are_not_told_one_by_one_are_counted_and_written_when_they_change(
        self,
    ) -> None:
        desk = Desk()
        held = HeldAs(D.CAPPED, "cap", ActionKind.RECLAIM)

        for cycle, count in enumerate((70, 70, 70, 50, 0), start=1):
            desk.journal.counted({held: count} if count else {}, cycle=cycle)

        assert desk.value("actions_total", kind="reclaim", disposition="capped") == 260
        assert [(line["decided_in"], line["actions"]) for line in desk.lines.contents] == [
            (1, 70),
            (4, 50),
        ]


class TestNoticed:
    @pytest.mark.parametrize("event", Event)
    def test_each_event_goes_where_its_row_says(self, event: Event) -> None:
        desk, rule = Desk(), EVENTS[event]

        desk.journal.noticed(event, reason="why", machine="m-1")

        labels = {rule.label: "why"} if rule.label else {}
        assert desk.value(f"{rule.counter}_total", **labels) == 1
        assert [(line["level"], line["event"]) for line in desk.out] == [
            (rule.level.value, event.value)
        ]
        facts = {"reason": "why", "machine": "m-1"}
        line = {"at": 1_000.0, "what": "event", "event": event.value, "facts": facts}
        assert desk.lines.contents == ([line] if rule.audited else [])

    def test_every_event_has_a_row_and_no_two_are_counted_as_one(self) -> None:
        assert {*EVENTS} == {*Event}
        assert len({rule.counter for rule in EVENTS.values()}) == len(EVENTS)

    def test_many_at_once_are_counted_as_many(self) -> None:
        desk = Desk()

        desk.journal.noticed(Event.MACHINE_FOREIGN, count=17)

        assert desk.value("machines_foreign_total") == 17

    def test_facts_may_have_any_name(self) -> None:
        desk = Desk()

        desk.journal.noticed(Event.CYCLE_FAILED, level="x", method="y")

        assert desk.out[0]["event"] == "cycle_failed"

    def test_a_flood_is_told_as_a_number(self) -> None:
        desk = Desk()
        for number in range(LINES_MAX + 30):
            desk.journal.noticed(Event.MACHINE_REFUSED, reason="price", machine=f"m-{number}")
        desk.journal.noticed(Event.PROVIDER_LOST, reason="sim")
        assert len(desk.out) == LINES_MAX + 1

        desk.clock.advance(LINES_WINDOW_S)
        desk.journal.noticed(Event.MACHINE_REFUSED, reason="price")

        assert desk.out[-2] == {
            "level": "warning", "event": "log_lines_left_out", "of": "machine_refused", "lines": 30,
        }  # fmt: skip
        assert desk.out[-1]["event"] == "machine_refused"
        assert desk.value("machines_rejected_total", reason="price") == LINES_MAX + 31

    def test_levels_are_those_of_the_log(self) -> None:
        assert {each.value for each in Level} == {"debug", "info", "warning", "error"}


def test_how_the_audit_log_stands_is_shown() -> None:
    desk = Desk()
    desk.journal.noticed(Event.SHARD_FENCED)
    for desk.lines.written, desk.lines.lost in ((5, 1), (8, 1)):
        desk.journal.observe()

    assert desk.value("audit_lines_waiting") == 1
    assert desk.value("audit_lines_written_total") == 8
    assert desk.value("audit_lines_lost_total") == 1
