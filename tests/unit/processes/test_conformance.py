"""What the command line asks of a conformance run."""

import asyncio
import sys

import pytest

from mainstay.conformance.table import CHECKS
from mainstay.model.errors import Rejected
from mainstay.processes.conformance import _chosen, _restart


def test_without_a_choice_all_checks_are_made() -> None:
    assert _chosen(()) == CHECKS


def test_a_choice_is_kept_in_its_order_and_an_unknown_check_refused() -> None:
    assert [check.id for check in _chosen(["B301", "B101"])] == ["B301", "B101"]
    with pytest.raises(Rejected, match="no such check: B102"):
        _chosen(["B102"])


def restart(command: str) -> None:
    function = _restart(command)
    assert function is not None

    async def scenario() -> None:
        await function()

    asyncio.run(scenario())


def test_no_command_means_no_restart() -> None:
    assert _restart("") is None
    assert _restart("  ") is None


def test_a_restart_is_a_program_that_ends_well() -> None:
    restart(f"{sys.executable} -c 'pass'")
    with pytest.raises(Rejected, match="ended with code 3: the provider was not restarted"):
        restart(f"{sys.executable} -c 'raise SystemExit(3)'")
    with pytest.raises(Rejected, match="cannot run no-such-program-at-all"):
        restart("no-such-program-at-all")
