"""Ids, page by page: `GET /vectors/list`, and the token that every paged call uses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import orjson
from servers.pinecone.calls import Answer, Call, transcoded
from servers.pinecone.errors import invalid
from servers.pinecone.fields import whole
from servers.pinecone.store import Index, Namespace

Json = Any

MAX_LIST = 100


def list_ids(index: Index, call: Call) -> Answer:
    """A page of the ids with a prefix, in the order of their characters."""
    name = call.asked("namespace") or ""
    prefix = call.asked("prefix") or ""
    limit = limit_of(call)
    records = (index.namespace(name) or Namespace()).records
    ids, pagination = page_of(sorted(one for one in records if one.startswith(prefix)), limit, token_of(call))
    vectors = [{"id": one} for one in ids]
    return transcoded({"vectors": vectors, **pagination, "namespace": name, "usage": {"readUnits": 1}})


def limit_of(call: Call) -> int:
    """`limit`, 100 when absent."""
    return whole(call.asked("limit") or MAX_LIST, "limit", least=1, most=MAX_LIST)


def token_of(call: Call) -> str:
    """The pagination token in either spelling."""
    return call.asked("paginationToken", "pagination_token") or ""


def page_of(names: Sequence[str], limit: int, token: str) -> tuple[list[str], dict[str, Json]]:
    """The page after a token from names in order, and `pagination` with the next token while there is more."""
    after = _read(token) if token else None
    rest = [name for name in names if after is None or name > after]
    page = list(rest[:limit])
    return page, ({"pagination": {"next": _written(page[-1])}} if len(rest) > limit else {})


def _written(last: str) -> str:
    return base64.b64encode(orjson.dumps({"skip_past": last})).decode()


def _read(token: str) -> str:
    try:
        value = orjson.loads(base64.b64decode(token, validate=True))
    except (binascii.Error, ValueError):
        raise invalid("Invalid pagination token") from None
    if not isinstance(value, dict) or not isinstance(value.get("skip_past"), str):
        raise invalid("Invalid pagination token")
    return str(value["skip_past"])
