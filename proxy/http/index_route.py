"""Few listeners, many hosts: which Pinecone host a path leads to. Pure: a target in, a target with its origin or a refusal out.

    /_i/<host>/query      that host, when it may be named
    /_i/<host>/a/b/query  that host too, and what is found there is behind /a/b: another gateway's path, or /_i/<host> of another VecSieve
    /query, /vectors/…    the index behind the port, or the one that the settings fix
    everything else       the control plane, which no path of an index overlaps

What goes on is the client's own bytes: doubled slashes, `%2F` and `b+c` mean something to whoever wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vecsieve.adapters.pinecone_paths import is_of_the_control_plane
from vecsieve.proxy.http.target import Target
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.trouble import Trouble

NAMED = "_i"
OF_AN_INDEX = frozenset({"query", "vectors", "describe_index_stats", "records", "namespaces", "bulk"})
_NAMING = re.compile(rf"/+{NAMED}(?:/([^/?]*)(.*))?")
# How the paths of an index end, seen behind a first segment that nobody knows: a prefix that leads nowhere.
_LOST = re.compile(r"/(?:query|describe_index_stats|vectors/[a-z_]+|records/namespaces/[^/]*/[a-z]+)/?\Z")


OriginOf = Callable[[str], Origin | None]
"""The origin of a host that a path names; None when it may not be named."""


def route(target: Target, index: Origin | None, origin_of: OriginOf) -> Target | Trouble:
    """The target where it belongs; its origin stays None for the control plane. ``index``: what plain paths lead to."""
    first = target.path.lstrip("/").partition("/")[0]
    if first == NAMED:
        return _named(target, origin_of)
    if first in OF_AN_INDEX:
        return Trouble.NO_INDEX if index is None else Target(target.raw, target.path, index)
    if not is_of_the_control_plane(target.path) and _LOST.search(target.path) is not None:
        return Trouble.WRONG_PATH
    return target


def _named(target: Target, origin_of: OriginOf) -> Target | Trouble:
    match = _NAMING.fullmatch(target.raw)
    if match is None or not match[1]:
        return Trouble.WRONG_PATH
    origin = origin_of(match[1])
    if origin is None:
        return Trouble.HOST_REFUSED
    rest: str = match[2]
    raw = rest if rest.startswith("/") else f"/{rest}"
    path = raw.split("?", 1)[0]
    return Target(raw, path, origin, prefix_of(path))


def prefix_of(path: str) -> str:
    """What stands before an index's own part of a path, without a closing slash; "" where nothing does, or no such part is known.

    Told by the path alone, so that every worker tells it alike, and after a restart. A path with dots may become another one.
    """
    at, segments = 0, path.split("/")
    if any(segment.lower().replace("%2e", ".") in {".", ".."} for segment in segments):
        return ""
    for number, segment in enumerate(segments):
        # A host behind `_i` may be called like one of these.
        if segment in OF_AN_INDEX and segments[number - 1] != NAMED:
            return path[:at].rstrip("/")
        at += len(segment) + 1
    return ""
