"""Every check has been seen to fail: by a provider that is broken in one way, and only that."""

import pytest

from broken_provider import Defect, examined
from defects import FAILS, ROWS
from mainstay.conformance.report import Grade, Outcome
from mainstay.conformance.table import CHECKS

NAMES = {check.id for check in CHECKS}


def expected(defect: Defect) -> tuple[set[str], set[str]]:
    """The checks that must fail, and those that may."""
    words = FAILS[defect].split()
    must = {word for word in words if not word.startswith("?")}
    return must, {word.removeprefix("?") for word in words}


def rowless(names: set[str], rows: dict[str, Defect]) -> set[str]:
    """Checks that nobody has seen fail."""
    return names - rows.keys()


def test_every_check_has_the_row_of_a_defect_that_fails_it() -> None:
    assert rowless(NAMES, ROWS) == set()
    assert ROWS.keys() - NAMES == set()
    assert [name for name, defect in ROWS.items() if name not in expected(defect)[0]] == []


def test_a_check_without_a_row_would_be_seen() -> None:
    assert rowless(NAMES | {"B9999"}, ROWS) == {"B9999"}


def test_every_defect_is_switched_on_once() -> None:
    assert FAILS.keys() == set(Defect) - {Defect.NONE}


def test_a_sound_provider_passes_every_check() -> None:
    report = examined(Defect.NONE)

    assert [(each.check.id, each.why) for each in report.results if each.why] == []
    assert report.grade is Grade.CONFORMANT
    assert len(report.results) == len(CHECKS)


@pytest.mark.parametrize("defect", FAILS, ids=lambda defect: defect.name)
def test_a_defect_is_seen_by_its_checks_and_by_no_others(defect: Defect) -> None:
    must, may = expected(defect)

    report = examined(defect)

    failed = {each.check.id: each.why for each in report.results if each.outcome is Outcome.FAILED}
    assert must - failed.keys() == set(), f"{defect} was not seen"
    assert {name: why for name, why in failed.items() if name not in may} == {}
    assert {each.outcome for each in report.results} == {Outcome.PASSED, Outcome.FAILED}
    assert not any("the check broke" in why for why in failed.values())
    assert report.exit_code == 1
