"""The app: pages by path, their live parts as events, orders, and who may what.

Every answer has the same headers; there is no inline script and no address but our own.
"""

import base64
import json
import mimetypes
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainstay.dashboard.access import COOKIE, Doorkeeper, Session, is_genuine
from mainstay.dashboard.asking import Asking, stale
from mainstay.dashboard.data import AS, KINDS, written
from mainstay.dashboard.history import History
from mainstay.dashboard.html import EMPTY, Html, h, is_own, link, together, written_query
from mainstay.dashboard.live import Shown, streamed
from mainstay.dashboard.orders import ORDERS, Form, Order
from mainstay.dashboard.page import Notice, Page, Seen, document, framed, parts_of, theme_button
from mainstay.dashboard.parts import field
from mainstay.dashboard.paths import PAGES, Maker
from mainstay.dashboard.ports import Sources
from mainstay.dashboard.told import Answers
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

LISTS: Final = frozenset(path for path in PAGES if path.count("/") == 1)
SILENT: Final = 503
ABSENT: Final = 404

BODY_BYTES_MAX: Final = 16 * 1024
NOTICE: Final = "mainstay_notice"
NOTICE_MAX: Final = 600

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All that the app is given from outside."""

    sources: Sources
    answers: Answers
    door: Doorkeeper
    history: History
    clock: Clock
    refresh_s: float
    secure: bool = False
    """Whether it is reached by HTTPS, and its cookie is kept to that."""

    nonce: Callable[[], str] = lambda: secrets.token_hex(16)

    def asking(self) -> Asking:
        """For one page."""
        return Asking(self.sources, self.answers, self.history)


def build(parts: Parts) -> Starlette:
    """The app. It holds no state but `parts`."""
    web = Web(parts)
    routes = [
        Route("/healthz", _healthz),
        Route("/favicon.ico", _icon),
        Route("/static/{name}", _static),
        Route("/signed-in", web.signed_in),
        Route("/sign-in", web.sign_in, methods=["GET", "POST"]),
        Route("/sign-out", web.sign_out, methods=["POST"]),
    ]
    for path, (order, back) in ORDERS.items():
        routes.append(Route(path, web.order(order, back), methods=["POST"]))
    for path, make in PAGES.items():
        routes.append(Route(f"/live{path}", web.live(make), methods=["GET"]))
        routes.append(Route(path, web.page(make), methods=["GET"]))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Sealed)],
        exception_handlers={Exception: _failed},
    )


class Sealed:
    """Puts our headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the app does, and add them."""

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, sealed)


async def _failed(request: Request, error: Exception) -> Response:
    """A bug costs one page; what it was stands in the log, not on the page."""
    logger(part="dashboard").error("page_failed", path=request.url.path[:200], exc_info=error)
    return PlainTextResponse("this page has failed; the log of the dashboard says why\n", 500)


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _icon(_: Request) -> Response:
    return RedirectResponse("/static/icon.svg", 301)


async def _static(request: Request) -> Response:
    """Files of the package, by name; nothing else can be named."""
    name = request.path_params["name"]
    folder = resources.files(__package__).joinpath("static")
    if name not in {file.name for file in folder.iterdir()}:
        return PlainTextResponse("not found\n", 404)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(folder.joinpath(name).read_bytes(), media_type=kind)


class Web:
    """Answers to requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def page(self, make: Maker) -> Callable[[Request], Awaitable[Response]]:
        """A whole page, for who is signed in."""

        async def answer(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return self._to_sign_in(request)
            seen, asking = self._seen(request, session), self._parts.asking()
            page = await _made(make, asking, seen)
            if page.to:
                return RedirectResponse(page.to, 303)
            if page.data is not None and (kind := seen.asked(AS)) in KINDS:
                old = {name: told.error for name, told in stale(asking.heard).items()}
                return Response(written(page.data, kind, old), media_type=KINDS[kind])
            notice = _notice_of(request)
            live = parts_of(page, asking, seen.now_s)
            made = _html(framed(page, seen, live, notice), page.status)
            if notice is not None:
                made.delete_cookie(NOTICE, path="/")
            return made

        return answer

    def live(self, make: Maker) -> Callable[[Request], Awaitable[Response]]:
        """The parts of a page that have changed, again and again."""

        async def answer(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return PlainTextResponse("sign in\n", 401)
            nonce = self._parts.nonce()  # of this look at the page: its forms stay what they are

            async def render() -> Shown | None:
                if self._session(request) is None:  # its time is over, or somebody signed out
                    return None
                seen = replace(self._seen(request, session), nonce=nonce)
                asking = self._parts.asking()
                page = await _made(make, asking, seen)
                # One that cannot be had for the moment may still be shown as it was.
                whole = page.status != SILENT
                return Shown(parts_of(page, asking, seen.now_s), whole=whole)

            return streamed(request, render, self._parts.refresh_s)

        return answer

    def order(self, carry_out: Order, back: str) -> Callable[[Request], Awaitable[Response]]:
        """Something that changes something: a known session that may, and a form of ours."""

        async def answer(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return PlainTextResponse("sign in\n", 401)
            try:
                fields = await _fields(request)
            except Rejected as error:
                return PlainTextResponse(f"{error.message}\n", 400)
            if not session.may_change:
                return PlainTextResponse(f"{session.role} may look and not change\n", 403)
            if not is_genuine(session, fields.get("csrf", "")):
                return PlainTextResponse("this form is not of this session: reload the page\n", 403)
            form = Form(fields=fields, names=request.path_params, by=session.name)
            told = logger(part="dashboard", by=session.name, path=request.url.path[:200])
            try:
                done = await carry_out(self._parts.asking(), form)
            except MainstayError as error:
                told.warning("order_refused", error=error.message)
                return self._gone_on(back, Notice(error.message, good=False))
            told.info("order_done", said=done.notice.text)
            return self._gone_on(done.to, done.notice)

        return answer

    async def sign_in(self, request: Request) -> Response:
        """The page for it, and the check."""
        to = request.query_params.get("to", "/")
        to = to if is_own(to) else "/"
        if request.method == "GET":
            return _html(_sign_in_page(to, wrong=False))
        try:
            token = (await _fields(request)).get("token", "")
        except Rejected as error:
            return PlainTextResponse(f"{error.message}\n", 400)
        cookie = self._parts.door.admit(token)
        if cookie is None:
            return _html(_sign_in_page(to, wrong=True), 403)
        answer = RedirectResponse(to, 303)
        answer.set_cookie(
            COOKIE, cookie, httponly=True, samesite="strict", secure=self._parts.secure, path="/"
        )
        return answer

    async def signed_in(self, request: Request) -> Response:
        """Whether this session is still one, for a page that was refused its live parts."""
        return Response(status_code=401 if self._session(request) is None else 204)

    async def sign_out(self, request: Request) -> Response:
        """End the session: whoever has a copy of its cookie is not known by it any more."""
        session = self._session(request)
        try:
            fields = await _fields(request)
        except Rejected as error:
            return PlainTextResponse(f"{error.message}\n", 400)
        if session is not None and not is_genuine(session, fields.get("csrf", "")):
            return PlainTextResponse("this form is not of this session: reload the page\n", 403)
        answer: Response = RedirectResponse("/sign-in", 303)
        if session is not None:
            try:
                self._parts.door.dismiss(session)
            except Unavailable as error:
                answer = PlainTextResponse(f"{error.message}\n", 503)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def _gone_on(self, to: str, notice: Notice) -> Response:
        answer = RedirectResponse(to, 303)
        said = json.dumps([notice.text[:NOTICE_MAX], notice.good])
        held = base64.urlsafe_b64encode(said.encode()).decode()
        answer.set_cookie(
            NOTICE, held, httponly=True, samesite="strict", secure=self._parts.secure, path="/",
            max_age=60,
        )  # fmt: skip
        return answer

    def _session(self, request: Request) -> Session | None:
        return self._parts.door.known(request.cookies.get(COOKIE, ""))

    def _seen(self, request: Request, session: Session) -> Seen:
        return Seen(
            session=session,
            path=request.url.path,
            query=dict(request.query_params),
            names=request.path_params,
            now_s=self._parts.clock.now_s(),
            nonce=self._parts.nonce(),
        )

    def _to_sign_in(self, request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse("/sign-in" + written_query({"to": request.url.path + query}), 303)


async def _made(make: Maker, asking: Asking, seen: Seen) -> Page:
    """The page, or one that says why there is none."""
    try:
        return await make(asking, seen)
    except MainstayError as error:
        silent = isinstance(error, Unavailable)
        todo = error.message if silent else f"{error.message.rstrip('.')}: {error.what_to_do}."
        said = h("p", todo, class_="notice bad", role="alert",
                 data_state="not to be had now" if silent else "gone")  # fmt: skip
        status = SILENT if silent else ABSENT
        section = f"/{seen.path.removeprefix('/live').split('/')[1]}"
        back = h("p", link("To the list", section)) if section in LISTS else EMPTY
        said = together(said, back)
        return Page(title="Not to be had", section=section, fixed=EMPTY, live={}, status=status,
                    gone=said)  # fmt: skip


async def _fields(request: Request) -> dict[str, str]:
    """A form. It is small, or refused before all of it is read."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise Rejected(f"a form has at most {BODY_BYTES_MAX} bytes")
    except ClientDisconnect as error:
        raise Rejected("the form broke off") from error
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise Rejected("this is not a form") from error
    return {name: values[-1] for name, values in found.items()}


def _notice_of(request: Request) -> Notice | None:
    held = request.cookies.get(NOTICE, "")
    if not held:
        return None
    try:
        text, good = json.loads(base64.urlsafe_b64decode(held))
    except (ValueError, TypeError):
        return None
    return Notice(str(text), bool(good))


def _html(made: Html, status: int = 200) -> Response:
    return Response(made.text, status, media_type="text/html; charset=utf-8")


def _sign_in_page(to: str, *, wrong: bool) -> Html:
    refused = h("p", "This token is not known here.", class_="notice bad", role="alert")
    where = h(
        "p", "The token stands in the file ", h("code", "dashboard/tokens"),
        " of the home directory, which `mainstay dashboard` prints when it starts.", class_="note",
    )  # fmt: skip
    entry = field("token", "Token", type="password", required=True, autocomplete="current-password")
    form = h(
        "form", entry, h("button", "Sign in", type="submit"),
        method="post", action="/sign-in" + written_query({"to": to}), class_="order",
    )  # fmt: skip
    top = h("header", link("Mainstay", "/", class_="brand"), theme_button())
    main = h("main", h("h1", "Sign in"), refused if wrong else EMPTY, form, where, id="main",
             tabindex=-1, class_="narrow")  # fmt: skip
    return document("Sign in", together(top, main))
