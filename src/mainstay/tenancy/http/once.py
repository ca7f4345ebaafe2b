"""Mutations: the idempotency key is required, and the same key is the same answer."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from mainstay.model.errors import MainstayError, Unavailable
from mainstay.tenancy import idempotency
from mainstay.tenancy.http.caller import AnyCaller, GivenParts, Parts
from mainstay.tenancy.http.errors import answer_to, envelope_of, status_of
from mainstay.tenancy.idempotency import Answer, Call, Claim, InProgress
from mainstay.tenancy.ids import Ids

PATIENCE_S: Final = 10.0
POLL_S: Final = 0.05
REPLAYED: Final = "Idempotency-Replayed"

IdempotencyKey = Annotated[
    str,
    Header(
        alias="X-Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A new one for each intent, the same one for each repetition of it.",
    ),
]

Work = Callable[[Ids], Awaitable[BaseModel]]


class Once:
    """One mutation, made once however often it is asked for."""

    def __init__(self, parts: Parts, call: Call, correlation_id: str) -> None:
        self._parts, self._call, self._correlation_id = parts, call, correlation_id
        self.is_first = False
        """While the work is done: nobody has tried it before."""

    async def answer(
        self, work: Work, *, status: int = 200, secret: frozenset[str] = frozenset()
    ) -> JSONResponse:
        """Do the work, or say what was said before.

        Fields named in `secret` are shown once and kept nowhere: a repetition gets null for them.
        """
        held = await self._claimed()
        if isinstance(held, Answer):
            return JSONResponse(held.body, held.status, {REPLAYED: "true"})
        self.is_first = held.is_first
        try:
            made = await work(held.ids(self._parts.ids))
        except Unavailable:
            await self._let_go()
            raise
        except MainstayError as error:
            await self._keep(Answer(status_of(error), envelope_of(error, self._correlation_id)))
            return answer_to(error, self._correlation_id)
        except BaseException:
            await self._let_go()
            raise
        body = made.model_dump(mode="json")
        await self._keep(Answer(status, _without(body, secret)))
        return JSONResponse(body, status)

    async def _claimed(self) -> Claim | Answer:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + PATIENCE_S
        while True:
            held = await idempotency.claim(self._parts.pool, self._parts.ids, self._call)
            if held is not None:
                return held
            if loop.time() > until_s:
                raise InProgress("the same request is being worked on")
            await asyncio.sleep(POLL_S)

    async def _keep(self, answer: Answer) -> None:
        await idempotency.answer(self._parts.pool, self._call, answer)

    async def _let_go(self) -> None:
        await idempotency.let_go(self._parts.pool, self._call)


def _without(body: Any, secret: frozenset[str]) -> Any:
    if not isinstance(body, dict):
        return body
    return {name: None if name in secret else value for name, value in body.items()}


async def once_of(
    request: Request, parts: GivenParts, caller: AnyCaller, key: IdempotencyKey
) -> Once:
    """The mutation that this request is."""
    query = sorted(request.query_params.multi_items())
    said = json.dumps([query, await _canonical(request)], sort_keys=True)
    call = Call(
        principal=caller.name,
        route=f"{request.method} {request.url.path}",
        key=key,
        request_hash=hashlib.sha256(said.encode()).hexdigest(),
    )
    return Once(parts, call, caller.correlation_id)


async def _canonical(request: Request) -> Any:
    """The body, so that the same fields in another order are the same body."""
    body = await request.body()
    try:
        return json.loads(body) if body else None
    except ValueError:
        return hashlib.sha256(body).hexdigest()


Mutation = Annotated[Once, Depends(once_of)]
