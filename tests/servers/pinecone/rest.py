"""The REST shell: which index a request is for, its key and version, its call, and the headers the edge adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from servers.pinecone.calls import Answer, Call, Limits
from servers.pinecone.edge import Edge
from servers.pinecone.errors import NOT_FOUND, Refusal
from servers.pinecone.project import Project
from servers.pinecone.routes import CONTROL, DATA, Route, find_route
from servers.pinecone.versions import ALPHA, version_of

Target = TypeVar("Target")

_MOST_BYTES = 64 * 1024 * 1024
"""Read before any limit of the service is looked at; beyond it aiohttp answers for itself."""
_GONE = Answer(body=Refusal(NOT_FOUND, "Index not found").as_status(), status=404, headers={"grpc-status": "5"})


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
        verb, parameters = _found(routes, method, raw_path, call.version)
        return verb(target, replace(call, parameters=parameters))
    except Refusal as refusal:
        if is_named:
            return Answer(body=refusal.as_error(), status=refusal.code.status)
        return Answer(
            body=refusal.as_status(), status=refusal.code.status, headers={"grpc-status": str(refusal.code.number)}
        )


def _found(
    routes: tuple[Route[Target], ...], method: str, raw_path: str, version: str
) -> tuple[Callable[[Target, Call], Answer], dict[str, str]]:
    found = find_route(routes, method, raw_path, version)
    if found is None:
        raise Refusal(NOT_FOUND, f"this emulator has no {method} {raw_path} in version {version}")
    return found


def _response(answer: Answer, edge: Mapping[str, str]) -> web.Response:
    headers = {**edge, **answer.headers, "server": "envoy", "content-length": str(len(answer.body))}
    if not answer.body:
        headers.pop("content-type")
    return web.Response(body=answer.body, status=answer.status, headers=headers)
