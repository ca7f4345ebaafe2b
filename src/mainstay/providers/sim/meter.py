"""The bill of a simulated cloud, as its users are told of it: when each host costs how much.

A cursor is a place in the bill and a digest of what stands before it: of another bill, or of one
that was begun anew, it is not known, and marks are told from then on.
"""

import hashlib
from itertools import islice

from mainstay.model.charges import MARKS_MAX, ChargeMark, Charges
from mainstay.model.ids import parse_machine_id
from mainstay.providers.sim.bill import Bill, Mark


class SimMeter:
    """`mainstay.model.charges.Meter` over a bill in this process."""

    def __init__(self, bill: Bill) -> None:
        self._bill = bill

    async def charges(self, since: bytes) -> Charges:
        """Marks made after a cursor; with none, where to begin."""
        marks = self._bill.marks
        place = self._place(since)
        if place is None:
            return Charges(cursor=self._cursor(len(marks)), begins=True)
        end = min(place + MARKS_MAX, len(marks))
        return Charges(
            marks=[_told(mark) for mark in islice(marks, place, end) if mark.machine],
            cursor=self._cursor(end),
            more=end < len(marks),
        )

    def _cursor(self, place: int) -> bytes:
        before = repr(self._bill.marks[place - 1]) if place else ""
        digest = hashlib.blake2b(before.encode(), digest_size=8).hexdigest()
        return f"{place}/{digest}".encode()

    def _place(self, cursor: bytes) -> int | None:
        number, _, _ = cursor.partition(b"/")
        if not number.isdigit() or len(number) > len(str(2**63)):
            return None
        place = int(number)
        known = place <= len(self._bill.marks) and self._cursor(place) == cursor
        return place if known else None


def _told(mark: Mark) -> ChargeMark:
    return ChargeMark(
        machine=parse_machine_id(mark.machine),
        at_s=mark.at_s,
        price_per_hour=mark.dollars_per_hour,
    )
