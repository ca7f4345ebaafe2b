"""What a run found: rows, a grade, an exit code; as a table, as JSON, as JUnit's XML."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from xml.etree import ElementTree as ET

from mainstay.conformance.check import Check, Part


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"
    """It applies and could not be made: too few machines, time is up."""

    NOT_APPLICABLE = "not applicable"
    """It is about something the provider does not have."""

    NOT_ASKED = "not asked"
    """It is about something that whoever runs the suite did not ask for."""


class Grade(StrEnum):
    """The verdict on a provider."""

    CONFORMANT = "conformant"
    BASELINE = "baseline"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


MEANING: Final[Mapping[Grade, str]] = {
    Grade.CONFORMANT: "every check that applies has passed",
    Grade.BASELINE: "the baseline holds, an extension does not",
    Grade.FAILED: "the baseline does not hold",
    Grade.INCOMPLETE: "nothing failed, but some checks that apply could not be made",
}


@dataclass(frozen=True, slots=True)
class Result:
    """How one check ended, and why if it did not pass."""

    check: Check
    outcome: Outcome
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run."""

    name: str
    results: Sequence[Result]
    found: Mapping[str, int] = field(default_factory=dict)
    """Machines by state when the run began."""

    touched: int = 0
    left: Sequence[str] = ()
    """Machines that are not as they were found."""

    seconds: float = 0.0
    seed: int = 0

    @property
    def counts(self) -> Counter[Outcome]:
        """How many checks ended how."""
        return Counter(result.outcome for result in self.results)

    @property
    def grade(self) -> Grade:
        """The verdict."""
        failed = {r.check.part for r in self.results if r.outcome is Outcome.FAILED}
        if Part.BASELINE in failed:
            return Grade.FAILED
        if failed:
            return Grade.BASELINE
        if self.counts[Outcome.NOT_RUN] or not self.counts[Outcome.PASSED]:
            return Grade.INCOMPLETE
        return Grade.CONFORMANT

    @property
    def exit_code(self) -> int:
        """0 for a provider that conforms, else 1: what was not seen is not taken for good."""
        return 0 if self.grade is Grade.CONFORMANT else 1


def rows(report: Report) -> list[dict[str, object]]:
    """One row for each check."""
    return [
        {
            "check": result.check.id,
            "part": result.check.part.value,
            "outcome": result.outcome.value,
            "seconds": f"{result.seconds:.2f}",
            "what_must_hold": result.check.title,
        }
        for result in report.results
    ]


def remarks(report: Report) -> Iterator[str]:
    """What people read below the table: failures, what was skipped and why, the grade."""
    for result in report.results:
        if result.outcome is Outcome.FAILED:
            yield f"{result.check.id} failed: {result.why}"
    skipped: dict[str, list[str]] = {}
    for result in report.results:
        if result.outcome not in {Outcome.PASSED, Outcome.FAILED}:
            key = f"{result.outcome.value}: {result.why}"
            skipped.setdefault(key, []).append(result.check.id)
    for why, checks in skipped.items():
        shown = ", ".join(checks) if len(checks) <= 6 else f"{len(checks)} checks"
        yield f"{shown} {why}"
    if report.left:
        shown = "; ".join(report.left[:5])
        yield f"not given back as found: {len(report.left)} machines ({shown})"
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(report.counts.items()))
    yield f"{counts}; {report.touched} machines used, {report.seconds:.1f} s, seed {report.seed}"
    yield f"grade of {report.name}: {report.grade} ({MEANING[report.grade]})"


def as_json(report: Report) -> str:
    """All there is to know, for programs."""
    answer: dict[str, Any] = {
        "provider": report.name,
        "grade": report.grade.value,
        "meaning": MEANING[report.grade],
        "counts": {outcome.value: report.counts[outcome] for outcome in Outcome},
        "by_part": _by_part(report),
        "machines_found": dict(report.found),
        "machines_used": report.touched,
        "not_given_back": list(report.left),
        "seconds": round(report.seconds, 3),
        "seed": report.seed,
        "checks": [
            {
                "id": result.check.id,
                "part": result.check.part.value,
                "title": result.check.title,
                "outcome": result.outcome.value,
                "why": result.why,
                "seconds": round(result.seconds, 3),
            }
            for result in report.results
        ],
    }
    return json.dumps(answer, indent=2) + "\n"


def _by_part(report: Report) -> dict[str, dict[str, int]]:
    counts = Counter((result.check.part, result.outcome) for result in report.results)
    return {
        part.value: {outcome.value: counts[part, outcome] for outcome in Outcome} for part in Part
    }


def as_junit(report: Report) -> str:
    """The form that continuous integration reads."""
    suite = ET.Element(
        "testsuite",
        name=f"mainstay conformance {_printable(report.name)}",
        tests=str(len(report.results)),
        failures=str(report.counts[Outcome.FAILED]),
        errors="0",
        skipped=str(
            len(report.results) - report.counts[Outcome.PASSED] - report.counts[Outcome.FAILED]
        ),
        time=f"{report.seconds:.3f}",
    )
    for result in report.results:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"conformance.{result.check.part}",
            name=f"{result.check.id} {result.check.title}",
            time=f"{result.seconds:.3f}",
        )
        if result.outcome is Outcome.FAILED:
            ET.SubElement(case, "failure", message=_printable(result.why))
        elif result.outcome is not Outcome.PASSED:
            why = _printable(f"{result.outcome}: {result.why}")
            ET.SubElement(case, "skipped", message=why)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, "unicode") + "\n"


def _printable(text: str) -> str:
    """Without the characters that XML cannot carry: a provider's words may hold any."""
    return "".join(each if each.isprintable() else "?" for each in text)
