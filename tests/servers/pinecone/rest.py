"""HTTP in, bytes out: the key, the paths, and the headers of every answer."""

from __future__ import annotations

import hmac
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from servers.pinecone import control, documents, namespaces, queries, records, vectors
from servers.pinecone.calls import ALPHA, DEDICATED, NAMESPACES, OLDEST, Answer, Call, Limits, has_documents, version_of
from servers.pinecone.errors import MISSING, RefusalError
from servers.pinecone.store import Index, Project

# What the edge does to every request, whatever transport it came by: it looks at the key and adds headers of its own.


class Edge:
    """Takes any key but none, unless it is given one of its own."""

    def __init__(self, api_key: str | None) -> None:
        self._api_key = api_key
        self._numbers = itertools.count(1)

    def rejected(self, given: str | None) -> str | None:
        """Why a key is not taken; None when it is."""
        if not given:
            return "Missing API key"
        if self._api_key is not None and not hmac.compare_digest(given.encode(), self._api_key.encode()):
            return "Wrong API key"
        return None

    def headers(self, *, has_id: bool = True) -> dict[str, str]:
        """What Envoy adds. The times are made up, the id is a number: an emulator that is asked twice says the same."""
        identity = {"x-pinecone-request-id": f"{next(self._numbers):016d}"} if has_id else {}
        return {
            **identity,
            "x-pinecone-request-latency-ms": "1",
            "x-pinecone-response-duration-ms": "2",
            "x-envoy-upstream-service-time": "2",
        }


# The paths of both planes, each with its call and the versions that have it.
#
# Paths are split before they are decoded, so `%2F` stays inside a name; doubled slashes at the front are one (the Python
# clients 5 to 8 send `//query` for a host with a slash at its end); an empty namespace is a segment like any other.


Target = TypeVar("Target")
"""What a call is made on: an index, or the project."""

_INTEGRATED = "2025-01"
_DOCUMENTS = "/namespaces/{namespace}/documents"


def _ever(_version: str) -> bool:
    return True


def _since(first: str) -> Callable[[str], bool]:
    return lambda version: version >= first


@dataclass(frozen=True, slots=True)
class Route(Generic[Target]):
    """A path, `{name}` standing for one segment, its call, and which versions have it."""

    method: str
    path: str
    verb: Callable[[Target, Call], Answer]
    serves: Callable[[str], bool] = _ever


DATA: tuple[Route[Index], ...] = (
    Route("POST", "/query", queries.query),
    Route("POST", "/vectors/upsert", vectors.upsert),
    Route("POST", "/vectors/update", vectors.update),
    Route("POST", "/vectors/delete", vectors.delete),
    Route("GET", "/vectors/fetch", vectors.fetch),
    Route("GET", "/vectors/list", vectors.list_ids),
    Route("POST", "/vectors/fetch_by_metadata", vectors.fetch_by_metadata, _since(DEDICATED)),
    Route("POST", "/describe_index_stats", namespaces.stats),
    Route("GET", "/describe_index_stats", namespaces.stats, lambda version: version <= OLDEST),
    Route("GET", "/namespaces", namespaces.list_namespaces, _since(NAMESPACES)),
    Route("POST", "/namespaces", namespaces.create, _since(DEDICATED)),
    Route("GET", "/namespaces/{namespace}", namespaces.describe, _since(NAMESPACES)),
    Route("DELETE", "/namespaces/{namespace}", namespaces.delete, _since(NAMESPACES)),
    Route("POST", "/records/namespaces/{namespace}/upsert", records.upsert, _since(_INTEGRATED)),
    Route("POST", "/records/namespaces/{namespace}/search", records.search, _since(_INTEGRATED)),
    Route("POST", f"{_DOCUMENTS}/upsert", documents.upsert, has_documents),
    Route("POST", f"{_DOCUMENTS}/search", documents.search, has_documents),
    Route("POST", f"{_DOCUMENTS}/fetch", documents.fetch, has_documents),
)
CONTROL: tuple[Route[Project], ...] = (
    Route("GET", "/indexes", control.list_indexes),
    Route("POST", "/indexes", control.create),
    # Before the name: `create-for-model` would be one.
    Route("POST", "/indexes/create-for-model", control.create_for_model, _since(_INTEGRATED)),
    Route("GET", "/indexes/{index}", control.describe),
    Route("PATCH", "/indexes/{index}", control.configure),
    Route("DELETE", "/indexes/{index}", control.delete),
)


def find_route(
    routes: tuple[Route[Target], ...], method: str, raw_path: str, version: str
) -> tuple[Callable[[Target, Call], Answer], dict[str, str]] | None:
    """The call and the parameters of a raw path, decoded; None when this version has no such path."""
    parts = raw_path.lstrip("/").split("/")
    for route in routes:
        pattern = route.path.lstrip("/").split("/")
        if route.method != method or len(pattern) != len(parts) or not route.serves(version):
            continue
        pairs = list(zip(pattern, parts, strict=True))
        if all(name == part for name, part in pairs if not name.startswith("{")):
            return route.verb, {name[1:-1]: unquote(part) for name, part in pairs if name.startswith("{")}
    return None


# The REST shell: which index a request is for, its key and version, its call, and the headers the edge adds.


_MOST_BYTES = 64 * 1024 * 1024
"""Read before any limit of the service is looked at; beyond it aiohttp answers for itself."""
_GONE = Answer(body=RefusalError(MISSING, "Index not found").as_status(), status=404, headers={"grpc-status": "5"})


class Rest:
    """Answers every request of one project. `label_at` tells which index has a port for itself."""

    def __init__(self, project: Project, label_at: Callable[[int], str | None], *, edge: Edge, limits: Limits) -> None:
        self._project = project
        self._label_at = label_at
        self._edge = edge
        self._limits = limits

    def app(self) -> web.Application:
        """The application of every listener."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self.answer)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        """The response to one request."""
        reason = self._edge.rejected(request.headers.get("Api-Key"))
        if reason is not None:
            return _response(
                Answer(body=b"Unauthorized", status=401, headers={"x-pinecone-auth-rejected-reason": reason}),
                {"content-type": "text/plain"},
            )
        # raw_path, as it was sent: yarl would resolve `%2E%2E` and collapse what it takes for dots.
        raw_path, _, raw_query = request.raw_path.partition("?")
        call = Call(
            version=version_of(request.headers.getall("X-Pinecone-Api-Version", [])),
            query=tuple(parse_qsl(raw_query, keep_blank_values=True)),
            body=await request.read(),
            limits=self._limits,
        )
        label = self._label_of(request)
        if label is None:
            answer = _answered(CONTROL, self._project, request.method, raw_path, call)
            return _response(answer, self._headers(has_id=True))
        index = self._project.labelled(label)
        answer = _GONE if index is None else _answered(DATA, index, request.method, raw_path, call)
        # Documents carry no request id, say the clients that read it.
        return _response(answer, self._headers(has_id="/documents/" not in raw_path))

    def _label_of(self, request: web.Request) -> str | None:
        """Which index: by the port it came in on, else by the host it was sent to. None for the control plane."""
        transport = request.transport
        port = 0 if transport is None else transport.get_extra_info("sockname")[1]
        label = request.headers.get("Host", "").split(".")[0].lower()
        return self._label_at(port) or (label if self._project.labelled(label) is not None else None)

    def _headers(self, *, has_id: bool) -> dict[str, str]:
        return {"content-type": "application/json", **self._edge.headers(has_id=has_id)}


def _answered(routes: tuple[Route[Target], ...], target: Target, method: str, raw_path: str, call: Call) -> Answer:
    is_named = routes is CONTROL or ("/documents/" in raw_path and call.version > ALPHA)
    try:
        verb, parameters = _route(routes, method, raw_path, call.version)
        return verb(target, replace(call, parameters=parameters))
    except RefusalError as refusal:
        if is_named:
            return Answer(body=refusal.as_error(), status=refusal.code.status)
        return Answer(
            body=refusal.as_status(), status=refusal.code.status, headers={"grpc-status": str(refusal.code.number)}
        )


def _route(
    routes: tuple[Route[Target], ...], method: str, raw_path: str, version: str
) -> tuple[Callable[[Target, Call], Answer], dict[str, str]]:
    route = find_route(routes, method, raw_path, version)
    if route is None:
        raise RefusalError(MISSING, f"this emulator has no {method} {raw_path} in version {version}")
    return route


def _response(answer: Answer, edge: Mapping[str, str]) -> web.Response:
    headers = {**edge, **answer.headers, "server": "envoy", "content-length": str(len(answer.body))}
    if not answer.body:
        headers.pop("content-type")
    return web.Response(body=answer.body, status=answer.status, headers=headers)
