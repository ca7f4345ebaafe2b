"""Expected waste: what strands a GPU, and that a request goes where it strands least."""

import math

import numpy as np
import pytest

from mainstay.tenancy.placement.waste import MILLI, Outlook, Room, Want, added, short, torn

PAIRS = Outlook.of([(Want(10_000, 0, 1, 470), 10.0), (Want(10_000, 0, 1, MILLI), 10.0)])


def room(*gpus: int, cpu: int = 96_000) -> Room:
    return Room(cpu, 1_000_000, np.array(gpus), len(gpus))


def adds(left: Room, want: Want, outlook: Outlook = PAIRS) -> float:
    return added(left, want, outlook.columns)[0]


def test_plenty_of_cpu_strands_nothing() -> None:
    assert short(1e9, 8.0, 12_000.0, 3_000.0) == pytest.approx(0.0)


def test_no_cpu_at_all_strands_every_gpu() -> None:
    assert short(-1e9, 8.0, 12_000.0, 3_000.0) > 8.0
    assert short(0.0, 8.0, 12_000.0, 0.0) == 8.0


def test_just_enough_cpu_on_average_strands_something() -> None:
    """The excess of a normal over its mean: its deviation over the root of two pi."""
    assert short(96_000.0, 8.0, 12_000.0, 3_000.0) == pytest.approx(
        3_000 * math.sqrt(8) / math.sqrt(2 * math.pi) / 12_000
    )


def test_what_is_not_counted_strands_nothing() -> None:
    assert short(0.0, 8.0, 0.0, 0.0) == 0.0
    assert short(0.0, 0.0, 12_000.0, 3_000.0) == 0.0


def test_gpus_that_make_up_no_block_are_torn() -> None:
    assert torn(8, 8, (0.1, 0.2, 0.4)) == 0.0
    assert torn(7, 8, (0.1, 0.2, 0.4)) == pytest.approx(0.1 * 1 + 0.2 * 3 + 0.4 * 7)


def test_a_node_too_small_for_a_block_is_not_torn_by_having_none() -> None:
    assert torn(2, 2, (0.1, 0.2, 0.4)) == 0.0
    assert torn(1, 2, (0.1, 0.2, 0.4)) == pytest.approx(0.1)


def test_a_part_goes_beside_the_part_it_makes_a_pair_with() -> None:
    half, whole = room(530, 0), room(1000, 0)

    assert adds(half, Want(10_000, 0, 1, 470)) < adds(whole, Want(10_000, 0, 1, 470))


def test_of_a_nodes_gpus_the_one_that_loses_least_is_taken() -> None:
    _, gpu = added(room(1000, 530, 900), Want(10_000, 0, 1, 470), PAIRS.columns)

    assert gpu == 1


def test_whole_gpus_name_no_gpu_to_share() -> None:
    assert added(room(1000, 1000), Want(10_000, 0, 2, MILLI), PAIRS.columns)[1] == -1


def test_a_hungry_request_goes_where_cpu_is_to_spare() -> None:
    hungry = Want(24_000, 0, 1, MILLI)

    assert adds(room(1000, 1000, cpu=104_000), hungry) < adds(room(1000, 1000, cpu=26_000), hungry)


def test_a_request_without_gpus_keeps_away_from_gpus_that_need_the_cpu() -> None:
    no_gpus = Want(16_000, 0, 0, 0)

    assert adds(room(0, 0, cpu=20_000), no_gpus) == pytest.approx(0.0)
    assert adds(room(1000, 1000, cpu=20_000), no_gpus) > 0.5


def test_a_broken_node_is_broken_further_before_a_whole_one() -> None:
    large = Outlook.of([(Want(0, 0, 8, MILLI), 1.0), (Want(0, 0, 1, MILLI), 8.0)])

    one = Want(0, 0, 1, MILLI)
    assert adds(room(*[1000] * 3, *[0] * 5), one, large) < adds(room(*[1000] * 8), one, large)


def test_a_part_is_taken_from_a_gpu_that_is_in_no_block() -> None:
    pairs = Outlook.of([(Want(0, 0, 2, MILLI), 1.0), (Want(0, 0, 1, 500), 4.0)])

    part = Want(0, 0, 1, 500)
    assert adds(room(1000, 1000, 1000), part, pairs) < adds(room(1000, 1000, 0), part, pairs)


def test_of_two_nodes_as_good_the_fuller_is_taken() -> None:
    plain = Outlook.of([(Want(0, 0, 1, MILLI), 1.0)])

    one = Want(0, 0, 1, MILLI)
    assert adds(room(1000, 0), one, plain) < adds(room(1000, 1000), one, plain)


def test_an_outlook_on_nothing_still_ranks() -> None:
    nothing = Outlook.of([])

    assert adds(room(1000, 0), Want(1, 1, 1, MILLI), nothing) < adds(
        room(1000, 1000), Want(1, 1, 1, MILLI), nothing
    )


def test_memory_is_weighed_as_cpu_is() -> None:
    outlook = Outlook.of([(Want(0, 100, 1, MILLI), 1.0), (Want(0, 300, 1, MILLI), 1.0)])

    assert outlook.beside.tolist() == [0.0, 0.0, 200.0, 50.0]
