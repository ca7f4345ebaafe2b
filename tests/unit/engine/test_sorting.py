"""Columns sorted and counted."""

import tracemalloc

import numpy as np

from mainstay.engine.sorting import counted


def test_pairs_are_counted_by_how_many_there_are_and_not_by_how_many_there_could_be() -> None:
    each = np.arange(5_000, dtype=np.int64)
    first = np.concatenate([each - 10, each - 10])
    tracemalloc.start()
    try:
        found = list(counted(first, np.concatenate([each, each])))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found == [(number - 10, number, 2) for number in range(5_000)]
    assert most < 10_000_000
