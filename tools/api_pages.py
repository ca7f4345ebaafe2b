"""The page of the HTTP API: every call, who may make it, what goes in, what comes out."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from mainstay.tenancy.http.app import ANSWERS, PREFIX, ROUTERS, bare
from mainstay.tenancy.http.caller import MAY, Doing
from page_parts import NOTICE, table

INTRODUCTION = """{notice}# The API for tenants and administrators

Plain HTTP below `{prefix}`, in JSON; `Authorization: Bearer KEY` says who calls. Whatever changes
something takes a header `X-Idempotency-Key`: a new one for each intent, the same one for each
repetition of it. For programs there is the same as [OpenAPI](openapi.json). What `mainstay alloc`,
`mainstay admin` and the dashboard do goes through these calls.

## Errors

Every error has the form [Error](#error). `code` is stable, `message` is for people.

{errors}
## Who may

| doing | roles |
| --- | --- |
{doings}
"""

Schema = Mapping[str, Any]


def api_page() -> str:
    """Every call and every form."""
    document = bare().openapi()
    errors = table(("status", "meaning"), ((code, said["description"]) for code, said in _errors()))
    doings = "".join(f"| {doing} | {_roles(doing)} |\n" for doing in Doing)
    head = INTRODUCTION.format(notice=NOTICE, prefix=PREFIX, errors=errors, doings=doings)
    calls = "".join(
        _call(method, path, told, _doing_of(path, method))
        for path, by_method in sorted(document["paths"].items())
        for method, told in by_method.items()
    )
    forms = "".join(
        _form(name, schema) for name, schema in sorted(document["components"]["schemas"].items())
    )
    return f"{head}\n## Calls\n{calls}\n## Forms\n{forms}"


def _errors() -> Iterable[tuple[int | str, Mapping[str, Any]]]:
    return ANSWERS.items()


def _roles(doing: Doing) -> str:
    return ", ".join(sorted(role.value for role in MAY[doing]))


def _doing_of(path: str, method: str) -> Doing | None:
    """What the route's own check asks for; None: whoever is known may."""
    for router in ROUTERS:
        for route in router.routes:
            if not isinstance(route, APIRoute) or PREFIX + route.path != path:
                continue
            if method.upper() in (route.methods or ()):
                return next(_doings(route.dependant), None)
    return None


def _doings(dependant: Dependant) -> Iterator[Doing]:
    for each in dependant.dependencies:
        if inspect.isfunction(each.call):
            held = inspect.getclosurevars(each.call).nonlocals.get("doing")
            if isinstance(held, Doing):
                yield held
        yield from _doings(each)


def _call(method: str, path: str, told: Schema, doing: Doing | None) -> str:
    lines = [f"\n### {method.upper()} {path}\n", f"{told['description']}\n"]
    lines.append(f"- for: {doing.value if doing else 'anybody with a key'}"
                 + (f" ({_roles(doing)})" if doing else ""))  # fmt: skip
    asked = [each for each in told.get("parameters", ()) if each["in"] != "header"]
    if asked:
        lines.append("- asks: " + ", ".join(map(_parameter, asked)))
    if "requestBody" in told:
        lines.append(f"- body: {_of_content(told['requestBody']['content'])}")
    for status, answer in told["responses"].items():
        if int(status) < 400:
            lines.append(f"- answers {status}: {_of_content(answer.get('content', {}))}")
    own = [code for code in told["responses"] if int(code) >= 400 and int(code) not in ANSWERS]
    if own:
        lines.append(f"- errors of its own: {', '.join(own)}")
    return "\n".join(lines) + "\n"


def _parameter(asked: Schema) -> str:
    needed = "" if asked["required"] else ", optional"
    return f"`{asked['name']}` ({asked['in']}, {_type(asked['schema'])}{needed})"


def _of_content(content: Schema) -> str:
    return ", ".join(
        _type(held["schema"]) if held.get("schema") else f"`{kind}`"
        for kind, held in content.items()
    ) or "nothing"  # fmt: skip


def _form(name: str, schema: Schema) -> str:
    head = f"\n### {name}\n\n"
    if "enum" in schema:
        return head + ", ".join(f"`{value}`" for value in schema["enum"]) + "\n"
    needed = set(schema.get("required", ()))
    rows = [
        (f"`{field}`", _type(held), "yes" if field in needed else "", held.get("description", ""))
        for field, held in schema.get("properties", {}).items()
    ]
    said = schema.get("description", "").split("\n\n")[0].replace("\n", " ")
    return head + (f"{said}\n\n" if said else "") + table(("field", "type", "always", ""), rows)


def _type(schema: Schema) -> str:
    """In a word or two; a form of ours is a link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("format") or schema.get("type") or "anything")
