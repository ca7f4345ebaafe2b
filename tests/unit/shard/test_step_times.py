"""How long steps take, by what cycles see of them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from builders import a_machine, a_profile
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.shard.latency import (
    ENDED_MAX,
    SAMPLES_MAX,
    Kind,
    Measured,
    Step,
    StepTimes,
    with_done,
)

LIKE_IT: Final = Kind("cloud", "m5.2xlarge")
WEB: Final = ClusterId("web")


def stocked(machines: Iterable[Machine]) -> Inventory:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=0.0, source="cloud")
    return inventory


def creating(count: int = 1) -> list[Machine]:
    return [a_machine(State.CREATING, id=f"m-{number}") for number in range(count)]


def become(inventory: Inventory, machine: Machine, state: State) -> None:
    carried = a_machine(state, id=machine.id)
    cluster = WEB if state in {State.CONFIGURING, State.CONFIGURED} else carried.cluster
    inventory.apply(replace(carried, cluster=cluster), now=0.0)


def test_a_step_took_from_its_first_sight_to_its_end() -> None:
    (machine,) = creating()
    inventory, times = stocked([machine]), StepTimes()
    times.follow(inventory.snapshot(), 100.0)
    times.follow(inventory.snapshot(), 110.0)
    become(inventory, machine, State.IDLE)
    times.follow(inventory.snapshot(), 142.0)

    assert times.measured(142.0).samples == {(LIKE_IT, Step.CREATE): (42.0,)}


def test_each_step_is_measured_by_itself() -> None:
    (machine,) = creating()
    inventory, times = stocked([machine]), StepTimes()
    for at_s, state in ((0, None), (40, State.IDLE), (41, State.CONFIGURING),
                        (51, State.CONFIGURED)):  # fmt: skip
        if state is not None:
            become(inventory, machine, state)
        times.follow(inventory.snapshot(), float(at_s))

    assert times.measured(51.0).samples == {
        (LIKE_IT, Step.CREATE): (40.0,),
        (LIKE_IT, Step.CONFIGURE): (10.0,),
    }


def test_a_step_that_fails_gives_no_sample() -> None:
    (machine,) = creating()
    inventory, times = stocked([machine]), StepTimes()
    times.follow(inventory.snapshot(), 0.0)
    become(inventory, machine, State.FAILED)
    times.follow(inventory.snapshot(), 30.0)

    assert times.measured(30.0).samples == {}


def test_a_row_that_another_machine_has_now_gives_no_sample() -> None:
    (machine,) = creating()
    inventory, times = stocked([machine]), StepTimes()
    times.follow(inventory.snapshot(), 0.0)
    inventory.remove(machine.id)
    inventory.add(a_machine(State.IDLE, id="other"), now=0.0, source="cloud")
    snapshot = inventory.snapshot()
    times.follow(snapshot, 30.0)

    assert len(snapshot.state) == 1 or snapshot.ids[0] == "other"  # it has the same row
    assert times.measured(30.0).samples == {}


def test_types_and_providers_are_told_apart() -> None:
    one, two = creating(2)
    two = replace(two, profile=a_profile(instance_type="p4d"))
    inventory = stocked([one])
    inventory.add(two, now=0.0, source="metal")
    times = StepTimes()
    times.follow(inventory.snapshot(), 0.0)
    inventory.apply(replace(a_machine(State.IDLE, id=one.id)), now=0.0)
    inventory.apply(replace(a_machine(State.IDLE, id=two.id), profile=two.profile), now=0.0)
    times.follow(inventory.snapshot(), 9.0)

    assert set(times.measured(9.0).samples) == {
        (LIKE_IT, Step.CREATE),
        (Kind("metal", "p4d"), Step.CREATE),
    }


def test_the_age_of_a_machine_goes_on_while_others_come_and_go() -> None:
    first, second = creating(2)
    inventory, times = stocked([first]), StepTimes()
    times.follow(inventory.snapshot(), 10.0)
    inventory.add(second, now=0.0, source="cloud")
    times.follow(inventory.snapshot(), 30.0)

    rows = np.array([0, 1, 5], dtype=np.intp)
    assert times.measured(35.0).ages_s(rows).tolist() == [25.0, 5.0, 0.0]
    assert Measured().ages_s(rows).tolist() == [0.0, 0.0, 0.0]


def test_what_is_kept_is_bounded_however_many_end_at_once() -> None:
    machines = creating(2 * ENDED_MAX)
    inventory, times = stocked(machines), StepTimes()
    times.follow(inventory.snapshot(), 0.0)
    for machine in machines:
        become(inventory, machine, State.IDLE)
    times.follow(inventory.snapshot(), 5.0)

    (samples,) = times.measured(5.0).samples.values()
    assert samples == (5.0,) * SAMPLES_MAX


def test_steps_that_no_cycle_sees_may_be_told_beside() -> None:
    key = (LIKE_IT, Step.CONFIGURE)

    told = with_done({key: (10.0,)}, [(LIKE_IT, Step.CONFIGURE, 2.0), (LIKE_IT, Step.DRAIN, 3.0)])

    assert told == {key: (10.0, 2.0), (LIKE_IT, Step.DRAIN): (3.0,)}
