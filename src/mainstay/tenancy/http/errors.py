"""Errors as answers: one envelope, and one table from code to HTTP status."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from mainstay.model.errors import Fenced, MainstayError, NoCapacity, Rejected, Unavailable

STATUS_OF_CODE: Final[Mapping[str, int]] = {
    "validation_error": 400,
    "invalid_request": 400,
    "bad_ssh_key": 400,
    "bad_certificate": 400,
    "catalogue_refused": 400,
    "insufficient_balance": 402,
    "insufficient_permissions": 403,
    "admin_required": 403,
    "ownership_required": 403,
    "token_missing": 401,
    "token_invalid": 401,
    "token_expired": 401,
    "token_scope_invalid": 403,
    "node_identity_refused": 403,
    "enrolment_refused": 403,
    "task_not_claimed_by_caller": 403,
    "allocation_not_found": 404,
    "project_not_found": 404,
    "account_not_found": 404,
    "ssh_key_not_found": 404,
    "api_key_not_found": 404,
    "node_not_found": 404,
    "slot_not_found": 404,
    "task_not_found": 404,
    "capacity_request_not_found": 404,
    "outbox_event_not_found": 404,
    "ledger_entry_not_found": 404,
    "rate_limit_exceeded": 429,
}
"""What is not here goes by its reaction."""

STATUS_OF_REACTION: Final[Mapping[type[MainstayError], int]] = {
    Rejected: 409,
    NoCapacity: 409,
    Fenced: 409,
    Unavailable: 503,
}

PUBLIC_CODE: Final[Mapping[str, str]] = {
    "rejected": "invalid_request",
    "unavailable": "service_unavailable",
}
"""Codes of our own that callers know by another name."""

_HTTP_CODES: Final = {
    404: "route_not_found", 405: "method_not_allowed", 413: "request_too_large",
}  # fmt: skip

RETRY_AFTER_S: Final = 1


def status_of(error: MainstayError) -> int:
    """By its code, else by what the caller is to do."""
    code = PUBLIC_CODE.get(error.code, error.code)
    if code in STATUS_OF_CODE:
        return STATUS_OF_CODE[code]
    return next(
        (status for kind, status in STATUS_OF_REACTION.items() if isinstance(error, kind)), 500
    )


def envelope_of(error: MainstayError, correlation_id: str) -> dict[str, Any]:
    """What everybody may see of an error."""
    details = getattr(error, "details", None)
    return envelope(
        PUBLIC_CODE.get(error.code, error.code),
        error.message,
        correlation_id,
        {**(details if isinstance(details, dict) else {}), "what_to_do": error.what_to_do},
    )


def envelope(
    code: str, message: str, correlation_id: str, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The one form of every error."""
    return {
        "code": code,
        "message": message,
        "correlation_id": correlation_id,
        "details": dict(details or {}),
    }


def answer_to(error: MainstayError, correlation_id: str) -> JSONResponse:
    """The whole answer."""
    status = status_of(error)
    headers = {}
    if status in {429, 503}:
        headers["Retry-After"] = str(getattr(error, "retry_after_s", RETRY_AFTER_S))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(envelope_of(error, correlation_id), status, headers)


def correlation_of(request: Request) -> str:
    """The id that this request goes by in logs, audit and events."""
    return str(request.state.correlation_id)


def install(app: FastAPI) -> None:
    """Have every error of the app answered so."""

    async def ours(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, MainstayError)
        return answer_to(error, correlation_of(request))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        wrong = [_told(dict(found)) for found in error.errors()]
        first = wrong[0] if wrong else {"field": "request", "problem": "is wrong"}
        return JSONResponse(
            envelope(
                "validation_error",
                f"{first['field']}: {first['problem']}",
                correlation_of(request),
                {"errors": wrong},
            ),
            400,
        )

    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        code = _HTTP_CODES.get(error.status_code, "invalid_request")
        return JSONResponse(
            envelope(code, str(error.detail), correlation_of(request)),
            error.status_code,
            error.headers,
        )

    app.add_exception_handler(MainstayError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)


def _told(found: Mapping[str, Any]) -> dict[str, str]:
    """One thing that is wrong: where, and what. What was sent is not sent back."""
    place = [str(part) for part in found.get("loc", ())]
    return {"field": ".".join(place) or "request", "problem": str(found.get("msg", "is wrong"))}
