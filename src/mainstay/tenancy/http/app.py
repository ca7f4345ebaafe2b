"""The API for people and their programs: everything under /api/v1."""

from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import PlainTextResponse, Response

from mainstay import __version__
from mainstay.tenancy.database.connect import transaction
from mainstay.tenancy.http import admin, admin_nodes, capacity, expected, keys, live, tenant
from mainstay.tenancy.http.caller import Parts
from mainstay.tenancy.http.errors import install
from mainstay.tenancy.http.frame import Frame
from mainstay.tenancy.http.shapes import Error

PREFIX: Final = "/api/v1"

ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Error, "description": why}
    for status, why in (
        (400, "The request is wrong as it stands."),
        (401, "Nobody, or nobody that we know."),
        (402, "The balance is used up."),
        (403, "Not for this caller."),
        (404, "Not there, or another project's."),
        (409, "Not now: the state, the capacity or the idempotency key is against it."),
        (413, "Too much was sent."),
        (429, "Too often; see Retry-After."),
        (503, "Try again; see Retry-After."),
    )
}

ROUTERS: Final = (
    tenant.router, capacity.router, expected.router, live.router, keys.tenant, admin.router,
    admin_nodes.router, expected.admin, keys.admin,
)  # fmt: skip


def build(parts: Parts, registry: CollectorRegistry | None = None) -> FastAPI:
    """The app. It holds no state but `parts`."""
    app = bare()
    app.state.parts = parts
    app.include_router(_probes(parts, registry or CollectorRegistry()))
    app.add_middleware(Frame, ids=parts.ids)
    return app


def bare() -> FastAPI:
    """The routes alone, for the document."""
    app = FastAPI(
        title="Mainstay",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    install(app)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX, responses=ANSWERS)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: what is wrong with a request is 400 here, never 422."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version="1",
            summary="Allocations that are all or nothing.",
            routes=app.routes,
        )
        for operations in made["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            made["components"]["schemas"].pop(name, None)
        app.openapi_schema = made
    return app.openapi_schema


def _probes(parts: Parts, registry: CollectorRegistry) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @router.get("/readyz")
    async def readyz() -> PlainTextResponse:
        async with transaction(parts.pool) as tx:
            await tx.execute("select 1")
        return PlainTextResponse("ok\n")

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
