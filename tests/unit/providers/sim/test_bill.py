"""Money: exact while it grows, whole cents when it is read."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainstay.model.errors import Rejected, Unavailable
from mainstay.providers.sim.bill import Bill, read_bill


def test_a_host_costs_its_price_for_its_time() -> None:
    bill = Bill()
    bill.open("h", 0.096, now_s=0.0)
    bill.close("h", now_s=7200.0)

    assert bill.cents(now_s=1e6) == {"h": 19}


def test_half_a_cent_counts_as_one() -> None:
    """0.015 as a binary number is a little less: the bill goes by what was written."""
    bill = Bill()
    bill.open("h", 0.015, now_s=0.0)

    assert (bill.total_cents(now_s=3599.0), bill.total_cents(now_s=3600.0)) == (1, 2)


def test_a_change_of_price_leaves_what_it_has_cost() -> None:
    bill = Bill()
    bill.open("h", 1.0, now_s=0.0)
    bill.reprice("h", 3.0, now_s=3600.0)

    assert bill.total_cents(now_s=7200.0) == 400


def test_a_minute_is_paid_at_least() -> None:
    bill = Bill()
    bill.open("h", 60.0, now_s=10.0)
    bill.close("h", now_s=11.0)

    assert bill.total_cents(now_s=12.0) == 100


def test_ten_million_small_prices_do_not_add_up_to_an_error() -> None:
    """A tenth of a dollar has no binary form; the bill must not care."""
    bill = Bill()
    bill.open("h", 0.1, now_s=0.0)
    for hour in range(1, 1001):
        bill.reprice("h", 0.1, now_s=hour * 3600.0)

    assert bill.total_cents(now_s=1000 * 3600.0) == 10_000


def test_the_total_is_the_sum_of_what_is_printed() -> None:
    bill = Bill()
    for host in range(10):
        bill.open(f"h-{host}", 0.004, now_s=0.0)

    assert bill.total_cents(now_s=3600.0) == sum(bill.cents(now_s=3600.0).values()) == 0


def test_a_bill_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "bill"
    before = read_bill(path)
    before.open("h", 0.096, now_s=0.0)
    before.reprice("h", 0.2, now_s=3600.0)
    before.open("i", 1.0, now_s=0.0)
    before.close("i", now_s=1800.0)

    after = read_bill(path)
    after.close("h", now_s=7200.0)

    assert after.lines["i"] == before.lines["i"]
    assert read_bill(path).cents(now_s=1e6) == {"h": 30, "i": 50}


def test_a_line_that_a_kill_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "bill"
    read_bill(path).open("h", 3.6, now_s=0.0)
    whole = path.read_text()
    path.write_text(whole + '["close", "h", 3.')

    bill = read_bill(path)
    bill.close("h", now_s=100.0)

    assert read_bill(path).cents(now_s=1e6) == {"h": 10}


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """What does not fit is written in part, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 5])
def test_what_a_full_disk_does_not_take_has_not_happened(tmp_path: Path, room: int) -> None:
    """Half a line before the next one, or an end without a beginning, could never be read again."""
    path = tmp_path / "bill"
    bill = read_bill(path)
    bill.open("h", 3.6, now_s=0.0)
    whole = path.read_text()
    with no_file_above(len(whole) + room):
        with pytest.raises(Unavailable, match=r"cannot write .*bill: .*\(free some space"):
            bill.open("i", 3.6, now_s=0.0)
        with pytest.raises(Unavailable):
            bill.reprice("h", 7.2, now_s=50.0)
        with pytest.raises(Unavailable):
            bill.close("h", now_s=50.0)
    assert path.read_text() == whole
    assert (bill.is_running("i"), len(bill.marks)) == (False, 1)

    bill.close("h", now_s=100.0)
    bill.open("i", 3.6, now_s=0.0)

    assert bill.cents(now_s=100.0) == {"h": 10, "i": 10}
    assert read_bill(path).lines == bill.lines


def test_a_bill_that_is_read_is_never_written_anew(tmp_path: Path) -> None:
    """A kill in the middle of that would lose all of it."""
    path = tmp_path / "bill"
    read_bill(path).open("h", 3.6, now_s=0.0)
    whole = path.read_text()
    path.write_text(whole + '["close", "h", 3.')
    with no_file_above(0):
        read_bill(path)

    assert path.read_text() == whole


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bill"
    path.write_text("dear sir\n")

    with pytest.raises(Rejected, match=r"not the journal of a bill: .*bill"):
        read_bill(path)


def test_a_host_is_opened_once_and_closed_once() -> None:
    bill = Bill()
    bill.open("h", 1.0, now_s=0.0)
    bill.close("h", now_s=1.0)

    with pytest.raises(Rejected, match="already: h"):
        bill.open("h", 1.0, now_s=2.0)
    with pytest.raises(Rejected, match="running: h"):
        bill.close("h", now_s=2.0)
