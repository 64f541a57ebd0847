"""TRAITS: one row for each backend, with what settings must know of it. Its other row is in adapters/backends.py.

A backend's own defaults are laid beneath what the user gives, so that `check` shows what is really used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Tree = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What settings must know of one backend. ``defaults``: those that differ from the models'. ``page``: its page in docs.

    ``shares_port``: gRPC calls go to the host and port of `upstream.url`. ``has_indexes``: each index is a host of its own, and the
    settings section INDEXES applies. ``closes_idle_seconds``: the database closes idle connections then.
    """

    name: str
    defaults: Tree | None = None
    page: str | None = None
    has_grpc: bool = True
    shares_port: bool = False
    has_indexes: bool = False
    closes_idle_seconds: float | None = None


_PINECONE: Tree = {
    # Idle: each index is far away and has its own TLS handshakes to save; load balancers on the way
    # give 60 s (AWS ALB, nginx), Envoy itself an hour.
    "upstream": {"url": "https://api.pinecone.io", "pool_idle_seconds": 50.0},
    # A fetch of 1,000 ids is one request line: 41 kB of UUIDs. Envoy, which answers there, takes 60 KiB.
    # It keeps idle connections for an hour, and Python clients 5 and 6 fail on one that was closed sooner.
    "limits": {"head_line_bytes": 65_536, "keep_alive_seconds": 3660.0},
    # Reply bytes are billed, and a pool comes with its vectors: 21 kB each at 1536 dimensions.
    "policy": {"fetch": {"adaptive": True}},
}
_MILVUS: Tree = {"upstream": {"url": "http://127.0.0.1:19530"}}
# Its clients refuse to search at the port where the rest of it is spoken: ours has one of its own as well.
_WEAVIATE: Tree = {
    "upstream": {"url": "http://127.0.0.1:8080"},
    # Its server takes messages of so many bytes (GRPC_MAX_MESSAGE_SIZE), and its clients send batches up to that.
    "grpc": {"listen": "127.0.0.1:6344", "upstream": "http://127.0.0.1:50051", "message_bytes": 104_858_000},
}
_CHROMA: Tree = {
    # Idle: measured, servers before 1.0 close after 30 s, later ones not within 400 s.
    "upstream": {"url": "http://127.0.0.1:8000", "pool_idle_seconds": 20.0},
    "policy": {
        # The index looks at max(ef_search, n_results) candidates, and ef_search is 100 unless it was set: up
        # to there a wider request leaves the head of the list as it is, beyond it the head may change.
        "fetch": {"cap": 100},
        # The text has a column of its own, told apart from metadata by the name that Chroma itself gives it;
        # older LangChain and hand-written loaders keep it in metadata as well.
        "text_fields": ("#document", "text", "page_content", "content"),
    },
}

DEFAULT_BACKEND = "qdrant"
INDEXES = "pinecone"  # the settings section of a backend whose indexes are hosts of their own
# In the order of the documentation.
TRAITS: Mapping[str, Traits] = {
    row.name: row
    for row in (
        Traits(name="qdrant", closes_idle_seconds=5.0),  # actix-web's keep-alive
        Traits(name="pinecone", defaults=_PINECONE, page="pinecone.md", has_indexes=True),
        Traits(name="chroma", defaults=_CHROMA, page="chroma.md", has_grpc=False),
        Traits(name="milvus", defaults=_MILVUS, page="milvus.md", shares_port=True),
        Traits(name="weaviate", defaults=_WEAVIATE, page="weaviate.md"),
    )
}


def with_defaults(tree: object) -> object:
    """The tree with its backend's own defaults beneath it; what is no mapping, or names no such backend, as it is."""
    if not isinstance(tree, Mapping):
        return tree
    backend = tree.get("backend")
    row = TRAITS.get(backend) if isinstance(backend, str) else None
    if row is None or row.defaults is None:
        return tree
    return _laid(tree, row.defaults)


def _laid(section: object, members: Tree) -> object:
    """A section the user wrote over the backend's; one that was built, or is wrong, stays as it is."""
    if not isinstance(section, Mapping):
        return section
    deeper = {
        name: _laid(section.get(name, {}), below) for name, below in members.items() if isinstance(below, Mapping)
    }
    return {**members, **section, **deeper}
