"""Logs: JSON on a stream, one event a line, context bound once."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from mainstay.runtime import log
from mainstay.runtime.clock import StepClock


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging is configured once per process; a test gives it back as it was."""
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_with_its_facts() -> None:
    stream = io.StringIO()
    log.configure(StepClock(12.34567), stream=stream)

    log.logger().info("machine_moved", machine="m1\nm2", new="idle")

    assert lines(stream) == [
        {"at": 12.346, "event": "machine_moved", "level": "info", "machine": "m1\nm2",
         "new": "idle"},
    ]  # fmt: skip


def test_the_time_is_that_of_the_clock() -> None:
    stream, clock = io.StringIO(), StepClock()
    log.configure(clock, stream=stream)

    log.logger().info("started")
    clock.advance(1.5)
    log.logger().info("stopped")

    assert [line["at"] for line in lines(stream)] == [0.0, 1.5]


def test_context_is_bound_once_and_is_on_every_line() -> None:
    stream = io.StringIO()
    log.configure(StepClock(), stream=stream)
    bound = log.logger(shard="s1")

    bound.info("cycle_ended", cycle=1)
    bound.bind(action="a1").warning("action_refused")

    assert [(line["shard"], line.get("cycle"), line.get("action")) for line in lines(stream)] == [
        ("s1", 1, None), ("s1", None, "a1"),
    ]  # fmt: skip


def test_context_of_a_task_is_on_lines_of_every_logger() -> None:
    stream = io.StringIO()
    log.configure(StepClock(), stream=stream)

    with structlog.contextvars.bound_contextvars(tenant="t1"):
        log.logger().info("asked")
    log.logger().info("answered")

    assert [line.get("tenant") for line in lines(stream)] == ["t1", None]


def test_a_traceback_stays_on_its_line() -> None:
    stream = io.StringIO()
    log.configure(StepClock(), stream=stream)

    try:
        _ = 1 / 0
    except ZeroDivisionError:
        log.logger().exception("cycle_failed")

    (line,) = lines(stream)
    assert "ZeroDivisionError: division by zero" in str(line["exception"])


def test_events_below_the_level_are_dropped() -> None:
    stream = io.StringIO()
    log.configure(StepClock(), stream=stream, level=logging.WARNING)

    log.logger().info("quiet")
    log.logger().error("loud")

    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_without_a_stream_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(StepClock())

    log.logger().info("started")

    shown = capsys.readouterr()
    assert shown.out == ""
    assert json.loads(shown.err)["event"] == "started"
