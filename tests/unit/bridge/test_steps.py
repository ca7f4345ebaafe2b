"""Which step of a machine's life is due, from what is known and nothing else."""

import dataclasses
from typing import Any, Final

import pytest

from mainstay.bridge.doing import DOES
from mainstay.bridge.steps import BY_NAME, STEPS, Known, Life, Name, Patience, due, is_gone
from mainstay.model.state import State

PATIENCE: Final = Patience(join_s=100.0, settle_s=10.0, gone_after_s=50.0)


def known(life: Life, heard: State | None = State.CONFIGURED, **facts: Any) -> Known:
    given = Known(life=life, asked_s=20.0, heard=heard, session_s=20.0)
    return dataclasses.replace(given, **facts)


@pytest.mark.parametrize(
    ("told", "step"),
    [
        (known(Life.JOINING, agent_speaks=True), Name.OPEN),
        (known(Life.JOINING), None),
        (known(Life.JOINING, State.CONFIGURING, agent_speaks=True), None),
        (known(Life.JOINING, None, agent_speaks=True), None),
        (known(Life.JOINING, State.DRAINING), Name.CLOSE),
        (known(Life.JOINING, State.FAILED), Name.CLOSE),
        (known(Life.JOINING, State.IDLE), Name.CLOSE),
        (known(Life.JOINING, State.IDLE, asked_s=9.0), None),
        (known(Life.JOINING, asked_s=101.0), Name.GIVE_UP),
        (known(Life.JOINING, asked_s=101.0, agent_speaks=True), Name.OPEN),
        (known(Life.JOINING, asked_s=101.0, session_s=0.0), None),
        (known(Life.OPEN), None),
        (known(Life.OPEN, None), None),
        (known(Life.OPEN, State.DRAINING), Name.CLOSE),
        (known(Life.OPEN, State.FAILED), Name.CLOSE),
        (known(Life.OPEN, State.IDLE, asked_s=9.0), Name.CLOSE),
        (known(Life.OPEN, State.SPECULATIVE), Name.CLOSE),
        (known(Life.DRAINING, untold=1, held=1, to_release=1), Name.WARN),
        (known(Life.DRAINING, held=1, to_release=1, release_in_s=5.0), None),
        (known(Life.DRAINING, held=1, to_release=1), Name.RELEASE),
        (known(Life.DRAINING, held=1), None),
        (known(Life.DRAINING, State.IDLE, held=1, to_release=1), Name.BURY),
        (known(Life.DRAINING, State.IDLE, held=1, untold=1), Name.WARN),
        (known(Life.DRAINING, State.FAILED, held=1), None),
        (known(Life.DRAINING, State.CONFIGURED, held=1, is_gone=True), Name.BURY),
        (known(Life.DRAINING), Name.RETIRE),
        (known(Life.RETIRED, State.IDLE), None),
    ],
)
def test_the_step_that_is_due(told: Known, step: Name | None) -> None:
    assert due(told, PATIENCE) is step
    assert step is None or told.life in BY_NAME[step].old


@pytest.mark.parametrize(
    ("facts", "gone"),
    [
        ({"session_s": 51.0, "silent_s": 51.0, "asked_s": 51.0}, True),
        ({"session_s": 49.0, "silent_s": 51.0, "asked_s": 51.0}, False),
        ({"session_s": 51.0, "silent_s": 49.0, "asked_s": 51.0}, False),
        ({"session_s": 0.0, "silent_s": 51.0, "asked_s": 51.0}, False),
    ],
)
def test_silence_is_a_loss_only_when_shard_and_agent_are_silent(
    facts: dict[str, float], gone: bool
) -> None:
    assert is_gone(known(Life.OPEN, None, **facts), PATIENCE) is gone
    assert not is_gone(known(Life.OPEN, State.CONFIGURED, **facts), PATIENCE)


def test_every_step_of_the_table_is_done_by_somebody() -> None:
    assert {step.name for step in STEPS} == set(Name) == {Name.ASK, *DOES}


def test_every_life_leads_to_its_end_and_nothing_leads_out_of_it() -> None:
    edges = {(old, step.new) for step in STEPS for old in step.old}
    reached = {Life.RETIRED}
    for _ in Life:
        reached |= {old for old, new in edges if new in reached}
    assert reached == set(Life)
    assert all(old is not Life.RETIRED for old, _ in edges)


@pytest.mark.parametrize("heard", [None, *State])
@pytest.mark.parametrize("speaks", [False, True])
@pytest.mark.parametrize("held", [0, 1])
def test_no_life_is_joining_for_ever(heard: State | None, speaks: bool, held: int) -> None:
    """With a session that lasts: whatever is said, in the end there is a step, or it is open."""
    for life in (Life.JOINING, Life.DRAINING):
        told = known(
            life, heard, asked_s=1e6, session_s=1e6, silent_s=0.0 if speaks else 1e6,
            agent_speaks=speaks, held=held, to_release=held,
        )  # fmt: skip
        waits = life is Life.JOINING and speaks and heard in {
            None, State.UNSPECIFIED, State.CONFIGURING,
        }  # fmt: skip
        assert waits or due(told, PATIENCE) is not None
