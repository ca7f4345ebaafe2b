"""Every mutation of the API wants an idempotency key, and does its work once under it."""

import inspect
from typing import Any

import pytest
from fastapi.routing import APIRoute

from mainstay.tenancy.http import app
from mainstay.tenancy.http.once import once_of

HEADER = "X-Idempotency-Key"
READS = {"GET", "HEAD"}
APP = app.bare()
MUTATIONS = [
    (min(set(route.methods or ()) - READS), route)
    for router in app.ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and set(route.methods or ()) - READS
]
OPERATIONS = {
    (method.upper(), path): operation
    for path, operations in APP.openapi()["paths"].items()
    for method, operation in operations.items()
}


def test_there_are_mutations_and_the_document_has_all_of_them() -> None:
    told = {key for key in OPERATIONS if key[0] not in READS}

    assert told == {(method, app.PREFIX + route.path) for method, route in MUTATIONS}
    assert len(told) > 20


@pytest.mark.parametrize(
    "operation",
    [operation for (method, _), operation in OPERATIONS.items() if method not in READS],
    ids=[f"{method} {path}" for method, path in OPERATIONS if method not in READS],
)
def test_the_document_demands_a_key_of_every_mutation(operation: dict[str, Any]) -> None:
    [key] = [each for each in operation["parameters"] if each["name"] == HEADER]

    assert key["in"] == "header"
    assert key["required"] is True


@pytest.mark.parametrize(
    "route", [route for _, route in MUTATIONS], ids=[route.path for _, route in MUTATIONS]
)
def test_every_mutation_answers_through_its_key(route: APIRoute) -> None:
    """It has the claim of its key, and gives its answer by it."""
    calls = {dependant.call for dependant in _all(route.dependant)}
    source = inspect.getsource(route.endpoint)

    assert once_of in calls
    assert "once.answer(" in source or ", once)" in source


def _all(dependant: Any) -> Any:
    yield dependant
    for inner in dependant.dependencies:
        yield from _all(inner)


def test_what_only_reads_wants_no_key() -> None:
    for (method, path), operation in OPERATIONS.items():
        names = {each["name"] for each in operation.get("parameters", [])}
        assert method not in READS or HEADER not in names, path
