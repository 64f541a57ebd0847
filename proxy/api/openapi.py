"""The description of the API (OpenAPI 3.1), made from the message types, so that it cannot say anything else than they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from vecsieve.proxy.api.events import EVENTS
from vecsieve.proxy.api.problems import CONTENT_TYPE, WHOLE, Kind, Problem
from vecsieve.proxy.api.routes import JSON, Route

PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{name}"
# Problems that any endpoint may answer with, and those of endpoints with a body.
_ALWAYS = (Kind.NO_TOKEN, Kind.FOREIGN_HOST, Kind.FAILED, Kind.BUSY)
_WITH_DATABASE = (Kind.NO_COLLECTION, Kind.COPIES, Kind.DECLINED, Kind.NO_DATABASE)
_WITH_BODY = (Kind.INVALID, Kind.LATE, Kind.TOO_LARGE, Kind.MEDIA_TYPE)


def described(routes: Iterable[Route], *, needs_token: bool) -> bytes:
    """The document as JSON. ``needs_token``: whether requests need one here."""
    routes = tuple(routes)
    types: list[type] = [kind for route in routes for kind in (route.takes, route.gives) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REFERENCE)
    schemas, components = _with_integers(schemas), _with_integers(components)
    known = dict(zip([*types, Problem], schemas, strict=True))
    components = {"schemas": components, "responses": {kind.name: _problem(kind) for kind in Kind}}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "VecSieve",
            "version": version("vecsieve"),
            "description": "VecSieve's own endpoints. Errors are problem documents (RFC 9457).",
        },
        "paths": {route.path: {route.method.lower(): _operation(route, known)} for route in routes},
        "components": components,
    }
    if needs_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return msgspec.json.encode(document) + b"\n"


def _with_integers(node: Any) -> Any:
    """The schemas with `integer` for numbers that must be whole."""
    if isinstance(node, list | tuple):
        return [_with_integers(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {name: _with_integers(value) for name, value in node.items() if name != WHOLE}
    return {**found, "type": "integer"} if WHOLE in node else found


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of one message, whole in itself."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own: dict[str, Any] = _with_integers(components.pop(kind.__name__))
    return {**own, "$defs": _with_integers(components)} if components else own


def _operation(route: Route, known: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    kinds = (*_ALWAYS, *_WITH_BODY) if route.takes is not None else _ALWAYS
    events: dict[str, Any] = {} if route.lines is None else {EVENTS: {"schema": {"type": "string"}}}
    if events or route.feed is not None:
        kinds = (*kinds, Kind.NOT_ACCEPTABLE)
    if route.parameters:
        kinds = (*kinds, Kind.INVALID)
    if route.asks is not None:
        kinds = (*kinds, *_WITH_DATABASE)
    schema = {"type": "object"} if route.gives is None else known[route.gives]
    answer = {JSON: {"schema": schema}, **events} if route.feed is None else {EVENTS: {"schema": schema}}
    operation: dict[str, Any] = {
        "operationId": route.name.value,
        "summary": route.summary,
        "description": route.description,
        "responses": {
            "200": {"description": "The answer.", "content": answer},
            **{str(kind.status): {"$ref": f"#/components/responses/{kind.name}"} for kind in kinds},
        },
    }
    if route.parameters:
        operation["parameters"] = [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
            for name, text in route.parameters.items()
        ]
    if route.takes is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": known[route.takes]}}}
    return operation


def _problem(kind: Kind) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name=Problem.__name__)}
    return {"description": kind.value[2] + ".", "content": {CONTENT_TYPE: {"schema": schema}}}
