"""One listener, many hosts: which Pinecone host a path leads to. Pure: a target in, a target with its origin or a refusal out.

    /_i/<host>/query      that host, when it may be named
    /query, /vectors/…    the index that the settings fix
    everything else       the control plane, which no path of an index overlaps

What goes on is the client's own bytes: doubled slashes, `%2F` and `b+c` mean something to whoever wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.proxy.http.answers import Trouble
from vecsieve.proxy.http.origin import Origin
from vecsieve.proxy.http.target import Target

NAMED = "_i"
OF_AN_INDEX = frozenset({"query", "vectors", "describe_index_stats", "records", "namespaces", "bulk"})
OF_THE_CONTROL_PLANE = frozenset(
    {"indexes", "collections", "backups", "restore-jobs", "embed", "rerank", "models", "assistant", "admin"}
)
_NAMING = re.compile(rf"/+{NAMED}(?:/([^/?]*)(.*))?")
# How the paths of an index end, seen behind a first segment that nobody knows: a prefix that leads nowhere.
_LOST = re.compile(r"/(?:query|describe_index_stats|vectors/[a-z_]+|records/namespaces/[^/]*/[a-z]+)/?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where requests may go. ``origin_of``: the origin of a host that a path names, None when it may not be named."""

    index: Origin | None
    origin_of: Callable[[str], Origin | None]


def route(target: Target, places: Places) -> Target | Trouble:
    """The target where it belongs; its origin stays None for the control plane."""
    first = target.path.lstrip("/").partition("/")[0]
    if first == NAMED:
        return _named(target, places)
    if first in OF_AN_INDEX:
        return Trouble.NO_INDEX if places.index is None else Target(target.raw, target.path, places.index)
    if first not in OF_THE_CONTROL_PLANE and _LOST.search(target.path) is not None:
        return Trouble.WRONG_PATH
    return target


def _named(target: Target, places: Places) -> Target | Trouble:
    match = _NAMING.fullmatch(target.raw)
    if match is None or not match[1]:
        return Trouble.WRONG_PATH
    origin = places.origin_of(match[1])
    if origin is None:
        return Trouble.HOST_REFUSED
    rest: str = match[2]
    raw = rest if rest.startswith("/") else f"/{rest}"
    return Target(raw, raw.split("?", 1)[0], origin)
