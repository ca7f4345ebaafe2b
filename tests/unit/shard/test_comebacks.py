"""How often a machine that was given up may come back."""

from mainstay.model.ids import MachineId
from mainstay.shard.lists.comebacks import Comebacks

M, N = MachineId("m-1"), MachineId("m-2")


def test_the_first_comeback_is_at_once_and_the_next_ones_ever_later() -> None:
    comebacks, now_s, waits = Comebacks(), 0.0, []
    for _ in range(8):
        waited = 0
        while not comebacks.allow(M, now_s):
            now_s += 1
            waited += 1
        waits.append(waited)
    assert waits == [0, 60, 120, 240, 480, 900, 900, 900]


def test_machines_wait_for_themselves_alone() -> None:
    comebacks = Comebacks()

    assert comebacks.allow(M, 0.0)
    assert comebacks.allow(N, 1.0)
    assert not comebacks.allow(M, 59.9)
    assert comebacks.allow(M, 60.0)


def test_whoever_has_not_come_back_for_an_hour_starts_anew() -> None:
    comebacks = Comebacks()
    for at_s in (0.0, 60.0, 180.0):
        assert comebacks.allow(M, at_s)

    assert not comebacks.allow(M, 200.0)
    assert comebacks.allow(M, 180.0 + 3600.5)
    assert comebacks.allow(M, 180.0 + 3600.5 + 60.0)


def test_nobody_is_remembered_for_ever() -> None:
    comebacks = Comebacks()
    for number in range(1000):
        comebacks.allow(MachineId(f"m-{number}"), float(number))

    comebacks.allow(M, 5000.0)

    assert len(comebacks._last) == 1
