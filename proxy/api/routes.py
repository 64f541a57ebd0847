"""The endpoints of the API: paths, message types, handlers, and the published description (OpenAPI 3.1).

The handler of an endpoint is pure: it takes the bytes of a request and returns the bytes of a reply, or raises ProblemError. It runs in a
thread beside the loop. To add an endpoint, add a Route to ``routes_of``. The document at /openapi.json and the metrics include it then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..search.context.tokens import tokenizer
from ..telemetry.labels import ApiRoute
from ..writes.events import Event, Feed
from .events import EVENTS, LineWork
from .fuse import FuseRequest, FuseResponse, fuse
from .messages import OptimizeRequest, OptimizeResponse, optimizing
from .points import (
    COLLECTION,
    Added,
    AddedBatch,
    Checked,
    PointRequest,
    Points,
    PointsRequest,
    Statistics,
    Stats,
)
from .problems import CONTENT_TYPE, WHOLE, Kind, Problem
from .stream import OptimizeLines

if TYPE_CHECKING:
    from vecsieve.config.applications import ApiSettings


JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One endpoint.

    ``takes``: type of the JSON body; None for a GET. ``gives``: type of the reply; None for the document that describes all endpoints.
    ``work``: the handler. It is pure and may take long, but must not block the interpreter for more than 50 ms in one call.
    ``asks``: the handler instead of ``work`` if it needs the database. It takes the body (for a GET the query) and the request's `api-key`.
    ``lines``: makes the handler of a stream, if the endpoint accepts lines, too.
    ``feed``: the reply is the events of this feed, each of the type ``gives``.
    ``parameters``: of the query: names and descriptions.
    """

    name: ApiRoute
    path: str
    summary: str
    description: str
    work: Callable[[bytes], bytes] | None = None
    gives: type[msgspec.Struct] | None
    asks: Callable[[bytes, str | None], Awaitable[bytes]] | None = None
    takes: type[msgspec.Struct] | None = None
    lines: Callable[[], LineWork] | None = None
    feed: Feed | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def method(self) -> Literal["GET", "POST"]:
        return "GET" if self.takes is None else "POST"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The API answers. For the data ports, see /readyz on the admin port."""

    status: Literal["ok"]
    version: str


def routes_of(
    settings: ApiSettings,
    points: Points | None = None,
    *,
    statistics: Statistics | None = None,
    feed: Feed | None = None,
) -> tuple[Route, ...]:
    """All endpoints except the document. ``points``: None if the API does not support points of the backend. Raises SettingsError."""
    health = msgspec.json.encode(Health(status="ok", version=version("vecsieve"))) + b"\n"
    tokens = tokenizer(settings.tokenizer, setting="api.tokenizer")
    return (
        Route(
            name=ApiRoute.HEALTH,
            path="/health",
            summary="Whether the API answers.",
            description="Always 200 while the process serves.",
            work=lambda _body: health,
            gives=Health,
        ),
        Route(
            name=ApiRoute.OPTIMIZE,
            path="/v1/optimize",
            summary="Select the chunks to keep.",
            description="Removes exact duplicates and near-duplicates, clusters the rest, selects by MMR, and applies a token budget. "
            "With a body of lines (application/x-ndjson: the options, then one chunk per line) each kept chunk is sent as an event "
            "as soon as its line has arrived.",
            work=optimizing(tokens),
            lines=lambda: OptimizeLines(tokens),
            takes=OptimizeRequest,
            gives=OptimizeResponse,
        ),
        Route(
            name=ApiRoute.FUSE,
            path="/v1/fuse",
            summary="Fuse the lists of several retrievers without near-duplicates.",
            description="Removes near-duplicates from each list, fuses by RRF or DBSF, and removes near-duplicates from the fused list.",
            work=fuse,
            takes=FuseRequest,
            gives=FuseResponse,
        ),
        *(() if points is None else _of_points(points)),
        *(() if statistics is None else (_of_statistics(statistics),)),
        *(() if feed is None else (_of_events(feed),)),
    )


def _of_statistics(statistics: Statistics) -> Route:
    return Route(
        name=ApiRoute.STATS,
        path="/v1/stats",
        summary="Counts of the write gate.",
        description="Since the start, for all workers together. The `api-key` of the request is passed to the database.",
        asks=statistics.answer,
        gives=Stats,
        parameters={COLLECTION: "Also count the points of this collection."},
    )


def _of_events(feed: Feed) -> Route:
    return Route(
        name=ApiRoute.EVENTS,
        path="/v1/events",
        summary="Live feed of the write gate's decisions.",
        description="Server-sent events. The data of each is JSON of the type shown. A `dropped` event has the number of lost events.",
        gives=Event,
        feed=feed,
    )


def _of_points(points: Points) -> tuple[Route, ...]:
    behaviour = "The write policy of the collection applies. The `api-key` of the request is passed to the database."
    return (
        Route(
            name=ApiRoute.CHECK,
            path="/v1/check",
            summary="Check whether a point is a copy of a stored point.",
            description="Nothing is stored or counted. " + behaviour,
            asks=points.check,
            takes=PointRequest,
            gives=Checked,
        ),
        Route(
            name=ApiRoute.ADD,
            path="/v1/add",
            summary="Store a point unless it is a copy.",
            description="Mode skip omits copies, merge keeps one of the two, reject refuses the write. Other modes store everything. "
            + behaviour,
            asks=points.add,
            takes=PointRequest,
            gives=Added,
        ),
        Route(
            name=ApiRoute.ADD_BATCH,
            path="/v1/addBatch",
            summary="Store several points, except copies of stored or earlier points.",
            description="As /v1/add, in one write, with one result per point. " + behaviour,
            asks=points.add_batch,
            takes=PointsRequest,
            gives=AddedBatch,
        ),
    )


PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{name}"
# The problems of all endpoints, of those that need the database, and of those with a body.
_ALWAYS = (Kind.NO_TOKEN, Kind.FOREIGN_HOST, Kind.FAILED, Kind.BUSY)
_WITH_DATABASE = (Kind.NO_COLLECTION, Kind.COPIES, Kind.DECLINED, Kind.NO_DATABASE)
_WITH_BODY = (Kind.INVALID, Kind.LATE, Kind.TOO_LARGE, Kind.MEDIA_TYPE)


def described(routes: Iterable[Route], *, needs_token: bool) -> bytes:
    """The document as JSON. ``needs_token``: whether requests need a token."""
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
    """The schemas, with type `integer` for numbers marked as whole."""
    if isinstance(node, list | tuple):
        return [_with_integers(element) for element in node]
    if not isinstance(node, dict):
        return node
    schema = {name: _with_integers(value) for name, value in node.items() if name != WHOLE}
    return {**schema, "type": "integer"} if WHOLE in node else schema


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The self-contained JSON Schema of one message."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = _with_integers(components.pop(kind.__name__))
    return {**schema, "$defs": _with_integers(components)} if components else schema


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
            "200": {"description": "The reply.", "content": answer},
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
