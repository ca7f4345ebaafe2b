"""What a run found: grade, exit code, and the three forms of the report."""

import json
from xml.etree import ElementTree as ET

import pytest

from mainstay.conformance.check import Check, Part
from mainstay.conformance.report import (
    MEANING,
    Grade,
    Outcome,
    Report,
    Result,
    as_json,
    as_junit,
    remarks,
    rows,
)
from mainstay.conformance.trial import Trial


async def _sentence(at: Trial) -> None:
    """Something must hold.

    And this is not part of it.
    """


def a_check(name: str = "X1", part: Part = Part.CORE) -> Check:
    return Check(name, part, _sentence)


def a_report(*outcomes: Outcome, part: Part = Part.CORE, why: str = "") -> Report:
    results = [Result(a_check(f"X{n}", part), each, why) for n, each in enumerate(outcomes)]
    return Report(name="somewhere:1", results=results)


PASSED, FAILED, NOT_RUN = Outcome.PASSED, Outcome.FAILED, Outcome.NOT_RUN
N_A, NOT_ASKED = Outcome.NOT_APPLICABLE, Outcome.NOT_ASKED


class TestGrade:
    @pytest.mark.parametrize(
        ("outcomes", "grade"),
        [
            ((PASSED, PASSED), Grade.CONFORMANT),
            ((PASSED, N_A, NOT_ASKED), Grade.CONFORMANT),
            ((PASSED, FAILED), Grade.BASELINE),
            ((PASSED, FAILED, NOT_RUN), Grade.BASELINE),
            ((PASSED, NOT_RUN), Grade.INCOMPLETE),
            ((N_A,), Grade.INCOMPLETE),
            ((), Grade.INCOMPLETE),
        ],
    )
    def test_what_was_not_seen_is_not_taken_for_good(
        self, outcomes: tuple[Outcome, ...], grade: Grade
    ) -> None:
        assert a_report(*outcomes).grade is grade

    def test_without_its_baseline_a_provider_has_failed(self) -> None:
        assert a_report(FAILED, part=Part.BASELINE).grade is Grade.FAILED

    def test_only_one_grade_is_success(self) -> None:
        codes = {
            report.grade: report.exit_code
            for report in (
                a_report(PASSED), a_report(FAILED), a_report(NOT_RUN),
                a_report(FAILED, part=Part.BASELINE),
            )
        }  # fmt: skip

        assert codes.keys() == MEANING.keys() == {*Grade}
        assert [grade for grade, code in codes.items() if code == 0] == [Grade.CONFORMANT]


class TestForms:
    def test_the_title_of_a_check_is_the_first_sentence_of_its_function(self) -> None:
        assert a_check().title == "Something must hold"
        assert rows(a_report(PASSED))[0]["what_must_hold"] == "Something must hold"

    def test_failures_and_skips_are_told_with_their_reasons(self) -> None:
        lines = list(remarks(a_report(FAILED, why="it did not")))
        assert lines[0] == "X0 failed: it did not"
        assert lines[-1] == f"grade of somewhere:1: baseline ({MEANING[Grade.BASELINE]})"

        lines = list(remarks(a_report(*[N_A] * 7, why="no Delete")))
        assert lines[0] == "7 checks not applicable: no Delete"

    def test_machines_that_were_not_given_back_are_named(self) -> None:
        report = Report(name="x", results=(), left=["m-1: Failed, was Idle"])

        assert "not given back as found: 1 machines (m-1: Failed, was Idle)" in remarks(report)

    def test_json_has_every_check_and_every_count(self) -> None:
        told = json.loads(as_json(a_report(PASSED, FAILED, why="so")))

        assert told["grade"] == "baseline"
        assert told["counts"] == {
            "passed": 1, "failed": 1, "not run": 0, "not applicable": 0, "not asked": 0,
        }  # fmt: skip
        assert told["by_part"]["core"]["failed"] == 1
        assert [check["outcome"] for check in told["checks"]] == ["passed", "failed"]

    def test_junit_can_be_read_whatever_a_provider_says(self) -> None:
        suite = ET.fromstring(as_junit(a_report(PASSED, FAILED, NOT_RUN, why="<\x00\x1b&>")))

        assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
        kinds = [[child.tag for child in case] for case in suite]
        assert kinds == [[], ["failure"], ["skipped"]]
        assert suite[1][0].get("message") == "<??&>"
