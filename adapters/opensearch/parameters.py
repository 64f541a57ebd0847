"""The query string of a search. Some of its members repeat members of the body, and win: clients write ``size``, ``from`` and the selection of
``_source`` there. A widened request has them in its body, and a query string without them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote_plus

import orjson

from ..contract import Reason, UnsupportedError
from ..wire.json import Span, splice
from ..wire.json_requests import member_edit, read_object

# These change neither the shape of an answer nor a member of the body that matters here.
_HARMLESS = frozenset(
    {
        "allow_no_indices", "allow_partial_search_results", "batched_reduce_size", "cancel_after_time_interval",
        "ccs_minimize_roundtrips", "error_trace", "expand_wildcards", "human", "ignore_throttled", "ignore_unavailable",
        "include_named_queries_score", "max_concurrent_searches", "max_concurrent_shard_requests", "phase_took",
        "pre_filter_shard_size", "preference", "pretty", "request_cache", "rest_total_hits_as_int", "routing",
        "search_type", "seq_no_primary_term", "timeout", "track_scores", "track_total_hits", "typed_keys", "version",
    }
)  # fmt: skip
# The pipeline that normalises the scores of a hybrid search; any other search may be reordered by one.
PIPELINE = "search_pipeline"

_SELECTION, _INCLUDES, _EXCLUDES = "_source", "_source_includes", "_source_excludes"
_EXCLUDE_VECTORS = "_source_exclude_vectors"
_COUNTS = ("size", "from")
_MOVED = frozenset({*_COUNTS, _SELECTION, _INCLUDES, _EXCLUDES, _EXCLUDE_VECTORS})
_COUNT = re.compile(r"0|[1-9][0-9]{0,8}")
_SWITCHES = {"true": True, "false": False}


def without_moved(query: str) -> str | None:
    """The query string of a widened search; None if it is the client's. Never raises."""
    if not query:
        return None
    parts = query.split("&")
    kept = [part for part in parts if unquote_plus(part.partition("=")[0]) not in _MOVED]
    return None if len(kept) == len(parts) else "&".join(kept)


def read(query: str, *, may_move: bool) -> Mapping[str, str]:
    """The members by name. Raises UnsupportedError for one that could change the answer's shape, and for one that stands twice."""
    if not query:
        return {}
    pairs = parse_qsl(query, keep_blank_values=True)
    values = dict(pairs)
    if len(values) < len(pairs):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if not values.keys() <= _HARMLESS | {PIPELINE} | (_MOVED if may_move else frozenset()):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return values


def moved(values: Mapping[str, str], body: bytes, span: Span) -> bytes:
    """The body with what the query string says of it. ``span``: of its object. Raises UnsupportedError."""
    if _MOVED.isdisjoint(values):
        return body
    members = {name: values[name] for name in _COUNTS if name in values}
    if not all(map(_COUNT.fullmatch, members.values())):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    selection = _selection(values)
    if selection is not None:
        members[_SELECTION] = selection
    _check_replaced(body, span, members)
    return splice(body, [member_edit(body, span, name, value.encode()) for name, value in members.items()])


def _check_replaced(body: bytes, span: Span, replaced: Mapping[str, str]) -> None:
    """Raises UnsupportedError for a member of the body that the server may refuse although the query string wins."""
    root = read_object(body, span, reason=Reason.NOT_JSON)
    for name in replaced.keys() & root.keys():
        value = body[slice(*root[name].span)]
        is_plain = value in {b"true", b"false"} or value[:1] in {b'"', b"["}
        if not (is_plain if name == _SELECTION else _COUNT.fullmatch(value.decode(errors="replace"))):
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)


def _selection(values: Mapping[str, str]) -> str | None:
    """The whole selection: one in the query string replaces the body's. None if it says nothing of it."""
    names = {name: _listed(values[name]) for name in (_SELECTION, _INCLUDES, _EXCLUDES) if name in values}
    switch = values.get(_EXCLUDE_VECTORS)
    if not names and switch is None:
        return None
    if switch not in {None, "true", "false"}:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    source = values.get(_SELECTION)
    if source == "false":
        return "false"
    includes = names.get(_SELECTION, []) if source not in _SWITCHES else []
    selection: dict[str, object] = {
        "includes": [*includes, *names.get(_INCLUDES, [])],
        "excludes": names.get(_EXCLUDES, []),
    }
    if switch is not None:
        selection["exclude_vectors"] = _SWITCHES[switch]
    return orjson.dumps(selection).decode()


def _listed(value: str) -> list[str]:
    names = value.split(",")
    if not all(names):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return names
