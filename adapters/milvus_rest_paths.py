"""Which of Milvus's RESTful requests are ranked searches: raw path in, operation out.

Version 1 as servers of 2.3 have it. Version 2, since 2.4, is spoken from its description: none that speaks it was at hand.
Hybrid searches over REST are passed through. The collection stands in the body, which is not read by then: rules cannot
name it, and the default policy holds.
"""

from __future__ import annotations

from vecsieve.adapters.content_types import may_be_json
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.milvus_grpc_methods import BACKEND, SEARCH

VERSION_1 = "1"
VERSION_2 = "2"
_VERSIONS = {"/v1/vector/search": VERSION_1, "/v2/vectordb/entities/search": VERSION_2}


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a head stands for; None for everything else. Total."""
    version = _VERSIONS.get(head.path)
    if version is None or head.method != "POST" or not may_be_json(head.content_type):
        return None
    return Operation(backend=BACKEND, name=SEARCH, collection="", partition=version)
