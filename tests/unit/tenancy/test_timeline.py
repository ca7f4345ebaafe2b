"""A timeline is derived from rows alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainstay.tenancy.states import EDGES
from mainstay.tenancy.timeline import timeline

START = datetime(2026, 4, 18, 1, 31, 58, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def allocation(**columns: Any) -> dict[str, Any]:
    nothing = dict.fromkeys([edge.stamps for edge in EDGES])
    words = {
        "failure_reason": None,
        "release_initiator": None,
        "release_attempt": 0,
        "node_id": "node-a",
    }
    return {**nothing, **words, "created_at": at(0), **columns}


def task(**columns: Any) -> dict[str, Any]:
    given = {
        "task_type": "slice.vm_provision",
        "attempt": 1,
        "created_at": at(2),
        "dispatched_at": at(3),
        "status": "completed",
        "ended_at": at(280),
        "result": None,
        "error_code": None,
    }
    return {**given, **columns}


def names(moments: Any) -> list[str]:
    return [moment.what for moment in moments]


def test_work_on_the_node_stands_between_the_steps_of_the_allocation() -> None:
    row = allocation(provisioning_started_at=at(1), active_at=at(281))
    phases = [
        {"name": "ssh_ready", "ended_at": at(200).isoformat(), "status": "ok"},
        {"name": "guest_booting", "ended_at": at(100).isoformat(), "status": "ok"},
    ]

    told = timeline(row, [{"created_at": at(0.5)}], [task(result={"phases": phases})])

    assert names(told) == [
        "requested",
        "placement_reserved",
        "provisioning_started",
        "node_task_queued",
        "node_task_dispatched",
        "guest_booting",
        "ssh_ready",
        "node_task_completed",
        "active",
    ]
    assert [moment.layer for moment in told].count("task") == 5


def test_every_time_that_an_edge_stamps_is_a_moment() -> None:
    stamps = list(dict.fromkeys(edge.stamps for edge in EDGES))
    row = allocation(**{column: at(order) for order, column in enumerate(stamps)})

    assert len(timeline(row, [], [])) == len(stamps) == 8


def test_a_failure_says_why_and_a_release_says_who() -> None:
    failed = allocation(failed_at=at(9), failure_reason="sha256 differs")
    released = allocation(releasing_at=at(9), release_initiator="billing", release_attempt=1)

    assert timeline(failed, [], [])[-1].detail == "sha256 differs"
    assert timeline(released, [], [])[-1].detail == "asked for by billing"


def test_a_release_because_the_machine_was_taken_says_why() -> None:
    for by, said in (("admin", "asked for by admin: preempted"), ("tenant", "asked for by tenant")):
        row = allocation(releasing_at=at(9), release_initiator=by, release_attempt=1)
        assert timeline(row, [], [], taken="preempted")[-1].detail == said


def test_a_task_that_expired_and_one_that_waits_are_told() -> None:
    expired = task(status="expired", dispatched_at=None, error_code="expired")
    waiting = task(status="queued", dispatched_at=None, ended_at=None, created_at=at(300))

    assert names(timeline(allocation(), [], [expired, waiting])) == [
        "requested",
        "node_task_queued",
        "node_task_expired",
        "node_task_queued",
    ]


@pytest.mark.parametrize(
    "phases",
    [None, "all", {"name": "x"}, [None], [{"name": "x"}], [{"name": "x", "ended_at": "soon"}],
     [{"name": "x", "ended_at": "2026-04-18T01:00:00"}]],
)  # fmt: skip
def test_what_an_agent_says_in_another_form_is_left_out(phases: object) -> None:
    told = timeline(allocation(), [], [task(result={"phases": phases})])

    assert names(told)[1:] == ["node_task_queued", "node_task_dispatched", "node_task_completed"]
