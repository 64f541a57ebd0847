"""Which Chroma requests are ranked searches: raw path in, verdict out.

The server's router takes paths literally: a doubled or closing slash is another path, which it does not know. Collections
are named by their ids alone; which tenant and database stand before one is the client's word, the server looks at the id.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from vecsieve.adapters.content_types import may_be_json
from vecsieve.adapters.contract import Operation, RequestHead

BACKEND = "chroma"
QUERY = "query"

ID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# Servers before 0.6 spoke version 1, where an id stands alone.
_QUERY = re.compile(rf"/api/(?:v2/tenants/([^/]+)/databases/([^/]+)|v1)/collections/({ID})/query")


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a request head stands for; None for everything else. Total."""
    match = _QUERY.fullmatch(head.path)
    if head.method != "POST" or match is None or not may_be_json(head.content_type):
        return None
    before = scope(match[1], match[2])
    if before is None:
        return None
    identifier = match[3].lower()
    return Operation(backend=BACKEND, name=QUERY, collection=before + identifier, id=identifier)


def scope(tenant: str | None, database: str | None) -> str | None:
    """What stands before a collection's name, ``tenant/database/`` decoded; "" where a path names neither.

    None for parts that cannot be read, or that may lead to another path.
    """
    if tenant is None or database is None:
        return ""
    try:
        parts = [unquote_to_bytes(part).decode() for part in (tenant, database)]
    except UnicodeError:  # bytes that are no UTF-8, or a path that could not be encoded
        return None
    return None if {".", ".."} & set(parts) else "/".join([*parts, ""])
