"""Lists of a provider: fetched page by page where it declares that it can, else in one answer.

What cannot be read of a list is counted by reason and spoils nothing else of it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from mainstay.model.batch import MachineBatch, Shape
from mainstay.model.calls import Capabilities, ListRequest
from mainstay.model.errors import Unavailable
from mainstay.model.profile import Profile
from mainstay.model.resources import NO_RESOURCES
from mainstay.model.texts import texts_of
from mainstay.wire.calls import Page, page_from_wire
from mainstay.wire.listing import Listing, listing_of

PAGE_MACHINES: Final = 10_000
"""A page of these is some megabytes, and a fraction of a second of both sides' time."""

ANSWERS_MAX: Final = 100_000
"""No fleet has so many pages: a provider that goes on beyond is broken."""


class Answer(NamedTuple):
    """One answer: its bytes, and what they say beside the machines."""

    data: bytes
    page: Page


class ListReader:
    """Asks until a list is complete. Remembers what the provider declares."""

    def __init__(
        self,
        ask: Callable[[ListRequest], Awaitable[bytes]],
        *,
        source: str,
        page_machines: int = PAGE_MACHINES,
    ) -> None:
        self._ask = ask
        self._source = source
        self._page_machines = page_machines
        self._asked = False
        self.capabilities: Capabilities | None = None
        self.refused: Counter[str] = Counter()

    async def read(self, request: ListRequest) -> Listing:
        """The whole list, read as far as ids and digests: what `Inventory.merge` takes."""
        answers = await self._answers(request)
        return await asyncio.to_thread(joined, request, answers, self._source)

    async def batch(self, request: ListRequest) -> MachineBatch:
        """The whole list, read to the end; what cannot be read is counted and told as such."""
        listing = await self.read(request)
        batch, refused = await asyncio.to_thread(listing.batch)
        self.refused.update(str(error.rule) for error in refused.values())
        self.refused.update(str(error.rule) for _, error in listing.nameless)
        return _with_unreadable(batch, listing, list(refused)) if refused else batch

    async def _answers(self, request: ListRequest) -> list[Answer]:
        """Every answer that the list consists of, in order."""
        size = request.results_max or self._page_machines
        asked = replace(request, results_max=size if await self._offers_pages() else 0)
        answers: list[Answer] = []
        for _ in range(ANSWERS_MAX):
            answer = await self._answer(asked)
            if asked.results_max and not self._declares_pages():
                # Another program has taken its place and cut off what it does not continue.
                asked, answers = replace(request, results_max=0), []
                continue
            if not answer.page.incremental:
                answers = []  # it did not know the cursor and has begun again
            answers.append(answer)
            if not answer.page.more:
                return answers
            if answer.page.cursor in {b"", asked.since}:
                break
            asked = replace(asked, since=answer.page.cursor)
        raise Unavailable(f"provider {self._source}: its list does not end")

    async def _offers_pages(self) -> bool:
        """Whether it pages; an unknown provider is asked for one machine to find out."""
        if not self._asked:
            await self._answer(ListRequest(results_max=1))
        return self._declares_pages()

    def _declares_pages(self) -> bool:
        return self.capabilities is not None and self.capabilities.paging

    async def _answer(self, request: ListRequest) -> Answer:
        data = await self._ask(request)
        page = page_from_wire(data)
        self.capabilities, self._asked = page.capabilities, True
        return Answer(data, page)


def joined(request: ListRequest, answers: Sequence[Answer], source: str) -> Listing:
    """All answers as one list: the later word about a machine is true, and gone is gone."""
    pages = [answer.page for answer in answers]
    data = answers[0].data if len(answers) == 1 else b"".join(answer.data for answer in answers)
    listing = listing_of(data, source=source, full=is_full(request, pages))
    gone = frozenset(listing.tombstones)
    if len(answers) == 1 and not gone:
        return listing
    last = {name: row for row, name in enumerate(listing.ids) if name not in gone}
    kept = np.fromiter(last.values(), dtype=np.intp, count=len(last))
    kept.sort()
    return replace(
        listing,
        ids=listing.ids.take(kept),
        digest=listing.digest[kept],
        found=listing.found[kept],
    )


def is_full(request: ListRequest, pages: Sequence[Page]) -> bool:
    """Whether what the list does not name is gone.

    A provider that declares nothing does not say: with a cursor its answer may be either, and only
    "incremental" takes nothing away that is there.
    """
    if request.states:
        return False
    if pages[-1].capabilities is None:
        return not request.since
    return not pages[0].incremental


def _with_unreadable(batch: MachineBatch, listing: Listing, rows: Sequence[int]) -> MachineBatch:
    """The batch, with the machines that could not be read as records without a state.

    They are named, so they are not gone; whoever takes the batch in refuses them and keeps what it
    has.
    """
    at = np.array(rows, dtype=np.intp)
    none = np.zeros(len(at), dtype=np.uint32)
    nothing = np.full(len(at), len(batch.shapes), dtype=np.uint32)
    zero = np.zeros(len(at))
    return replace(
        batch,
        ids=texts_of([*batch.ids, *listing.ids.take(at)]),
        digest=np.concatenate([batch.digest, listing.digest[at]]),
        state=np.concatenate([batch.state, none.astype(np.uint8)]),
        host_provider=np.concatenate([batch.host_provider, none]),
        host_ref=texts_of([*batch.host_ref, *[""] * len(at)]),
        shape=np.concatenate([batch.shape, nothing]),
        shapes=(*batch.shapes, Shape(Profile(""), NO_RESOURCES)),
        cluster=np.concatenate([batch.cluster, none]),
        price_per_hour=np.concatenate([batch.price_per_hour, zero]),
        interruption_probability=np.concatenate([batch.interruption_probability, zero]),
        last_error=np.concatenate([batch.last_error, none]),
        metadata=np.concatenate([batch.metadata, none]),
    )
