"""Where the uplink tells what happens to it: metrics for each, log lines for what is new.

A coordinator that is away for a day, or that says the same a thousand times, makes two lines.
"""

from typing import Final

from structlog.typing import FilteringBoundLogger

from mainstay.model.coordination import InstructAck, Instruction, Outcome
from mainstay.model.errors import MainstayError
from mainstay.runtime.clock import Clock
from mainstay.uplink.metrics import Handled, Heard, UplinkMetrics

TEXT_MAX: Final = 300
"""Longest text of a coordinator's that goes into a line."""

REMARKS_MAX: Final = 20
LINES_MAX: Final = 20
"""Most lines about instructions in LINES_WINDOW_S; metrics count them all."""

LINES_WINDOW_S: Final = 10.0


def short(text: object) -> str:
    """As much of a text from outside as anybody reads."""
    return str(text)[:TEXT_MAX]


class Telling:
    """Lives on the event loop; nothing here waits."""

    def __init__(self, metrics: UplinkMetrics, log: FilteringBoundLogger, clock: Clock) -> None:
        self._metrics, self._log, self._clock = metrics, log, clock
        self._heard: Heard | None = None
        self._remarks: tuple[str, ...] = ()
        self._window_s, self._lines = 0.0, 0

    def reported(self, heard: Heard, why: str = "") -> None:
        """What became of a report; a line when it is another than the last time."""
        self._metrics.reported(heard)
        if heard is self._heard:
            return
        self._heard = heard
        if heard is Heard.ANSWERED:
            self._log.info("coordinator_answers")
        else:
            self._log.warning("coordinator_does_not_answer", outcome=heard.value, why=short(why))

    def remarked(self, remarks: tuple[str, ...]) -> None:
        """What the coordinator wants people to read; a line when it is new."""
        remarks = tuple(short(remark) for remark in remarks[:REMARKS_MAX])
        for remark in remarks:
            if remark not in self._remarks:
                self._log.warning("coordinator_remarked", remark=remark)
        self._remarks = remarks

    def handled(self, instruction: Instruction, handled: Handled, ack: InstructAck | None) -> None:
        """What became of an instruction."""
        self._metrics.handled(handled)
        if ack is None or handled is Handled.AGAIN or not self._has_room():
            return
        level = "info" if ack.outcome is Outcome.ACCEPTED else "warning"
        getattr(self._log, level)(
            "instruction_handled",
            instruction=short(instruction.id),
            kind=type(instruction.payload).__name__,
            term=instruction.term,
            outcome=handled.value,
            given=len(ack.given),
            why=short(ack.reason),
        )

    def surplus(self, count: int) -> None:
        """An answer held more instructions than are looked at."""
        self._log.warning("instructions_left_out", count=count)

    def trouble(self, what: str, error: MainstayError) -> None:
        """Something expected went wrong at our end: a full disk, a grant that cannot be."""
        self._log.warning("uplink_held_up", what=what, why=short(error.message))

    def defect(self, what: str) -> None:
        """A defect of ours; inside an `except`."""
        self._metrics.defect()
        self._log.exception("uplink_failed", what=what)

    def stands(self, *, term: int, acks: int, strays: int) -> None:
        """How it stands."""
        self._metrics.stands(term=term, acks=acks, strays=strays)

    def _has_room(self) -> bool:
        now = self._clock.elapsed_s()
        if now >= self._window_s + LINES_WINDOW_S:
            self._window_s, self._lines = now, 0
        self._lines += 1
        return self._lines <= LINES_MAX
