"""A shard with and without a coordinator, as far as its settings and imports say."""

import sys

import pytest

import outside
from mainstay.config.shard import ShardConfig
from mainstay.model.errors import Rejected


def test_a_shard_has_no_coordinator_unless_told() -> None:
    config = ShardConfig()

    assert (config.coordinators, config.advertise, config.report_interval_s) == ((), "", 30.0)


@pytest.mark.parametrize("wrong", ["", "host", "host:", "host:99999", ":1"])
def test_a_coordinator_that_cannot_be_dialled_is_refused(wrong: str) -> None:
    with pytest.raises(
        Rejected, match=rf"each of shard\.coordinators must be HOST:PORT.*: {wrong}"
    ):
        ShardConfig(coordinators=("127.0.0.1:1", wrong))


@pytest.mark.parametrize("wrong", ["host", "host:", "host:99999"])
def test_an_address_by_which_nobody_is_reached_is_refused(wrong: str) -> None:
    with pytest.raises(Rejected, match=rf"shard\.advertise must be HOST:PORT.*: {wrong}"):
        ShardConfig(advertise=wrong)


def test_the_process_of_a_shard_does_not_even_load_the_uplink() -> None:
    """It does where a coordinator was named: `mainstay.processes.shard_uplink`."""
    program = (
        "import sys, mainstay.processes.shard\n"
        "print([name for name in sys.modules\n"
        "       if name.startswith(('mainstay.uplink', 'mainstay.coordinator'))])"
    )

    done = outside.run([sys.executable, "-c", program])

    assert (done.stdout.strip(), done.stderr) == ("[]", "")
