"""Which Chroma requests may change what a collection is like: its space, its dimension, or which one has its name."""

from __future__ import annotations

import re

from vecsieve.adapters.chroma_names import ChromaNames
from vecsieve.adapters.contract import RequestHead, Touched

# Their bodies say which collection is made, or becomes the copy of another.
_MAKING = re.compile(r"/api/(?:v2/tenants/[^/]+/databases/[^/]+|v1)/collections(?:/[^/]+/fork)?")
_NAMES = ChromaNames()


def reshaped(head: RequestHead) -> Touched | None:
    """What the request may give another shape; None for one that gives none. Total.

    Changes name a collection by its id or by its name, and searches are known by either: they are few, so it may be any.
    """
    is_making = head.method == "POST" and _MAKING.fullmatch(head.path) is not None
    return Touched(collection=None) if is_making or _NAMES.unsettles(head) is not None else None
