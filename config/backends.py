"""TRAITS: the backends' properties that settings depend on, one row each. A backend's other row is in adapters/backends.py. KNOWN_TEXTS:
where client libraries store texts.

A backend's own defaults apply if the user gives no value, and `check` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Tree = Mapping[str, object]

# Where client libraries store the text, their usual names first: plain payloads and LangChain; mem0; Spring AI; LangChain4j; code indexes;
# nested data; LlamaIndex (a JSON object as a string); Kernel Memory (the same). A name is a hint: which one holds the text is judged from
# what searches return (proxy/search/collections/paths.py).
KNOWN_TEXTS = (
    "text", "page_content", "document", "content", "chunk", "chunk_text", "body", "data", "doc_content", "text_segment", "codeChunk",
    "data.text", "_node_content.text", "payload.text",
)  # fmt: skip
# Chroma's column of documents.
DOCUMENT_TEXT = "#document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """One backend. ``defaults``: those that differ from the models'. ``page``: its page in docs.

    ``shares_port``: gRPC calls go to the host and port of `upstream.url`. ``has_indexes``: each index has its own host, and the settings
    section INDEXES applies. ``closes_idle_seconds``: when the database closes idle connections.
    """

    name: str
    defaults: Tree | None = None
    page: str | None = None
    has_grpc: bool = True
    shares_port: bool = False
    has_indexes: bool = False
    closes_idle_seconds: float | None = None


_PINECONE: Tree = {
    # Idle: each index needs its own TLS handshakes over a long distance. Load balancers on the way close after 60 s (AWS ALB,
    # nginx), Envoy after an hour.
    "upstream": {"url": "https://api.pinecone.io", "pool_idle_seconds": 50.0},
    # A fetch of 1,000 ids is one request line: 41 kB of UUIDs. Pinecone's Envoy accepts 60 KiB.
    # It keeps idle connections for an hour, and Python clients 5 and 6 fail on one that was closed earlier.
    "limits": {"head_line_bytes": 65_536, "keep_alive_seconds": 3660.0},
    # Reply bytes are billed, and a pool includes its vectors: 21 kB each at 1536 dimensions. Pages without copies need one candidate a result,
    # and half a pool of copies is rare; where it is not, the depth is learned.
    "policy": {"fetch": {"factor": 2.0}},
}
_MILVUS: Tree = {"upstream": {"url": "http://127.0.0.1:19530"}}
# Its clients require a gRPC port apart from the HTTP port.
_WEAVIATE: Tree = {
    "upstream": {"url": "http://127.0.0.1:8080"},
    # message_bytes: its server's limit (GRPC_MAX_MESSAGE_SIZE), and the size of its clients' batches.
    "grpc": {"listen": "127.0.0.1:6344", "upstream": "http://127.0.0.1:50051", "message_bytes": 104_858_000},
}
_CHROMA: Tree = {
    # Idle: servers before 1.0 close after 30 s, later ones not within 400 s (measured).
    "upstream": {"url": "http://127.0.0.1:8000", "pool_idle_seconds": 20.0},
    "policy": {
        # The index examines max(ef_search, n_results) candidates; ef_search is 100 by default. Up to there a wider
        # request keeps the first results, beyond it they may change.
        "fetch": {"cap": 100},
        # The text has its own column; older LangChain and hand-written loaders keep it in metadata as well.
        "text_fields": (DOCUMENT_TEXT, *KNOWN_TEXTS),
    },
}

_SEARCH_ENGINE: Tree = {"upstream": {"url": "http://127.0.0.1:9200"}}

DEFAULT_BACKEND = "qdrant"
INDEXES = "pinecone"  # the settings section of a backend whose indexes are hosts
# In the order of the documentation.
TRAITS: Mapping[str, Traits] = {
    row.name: row
    for row in (
        # actix-web's keep-alive
        Traits(name="qdrant", closes_idle_seconds=5.0),
        Traits(name="pinecone", defaults=_PINECONE, page="pinecone.md", has_indexes=True),
        Traits(name="chroma", defaults=_CHROMA, page="chroma.md", has_grpc=False),
        Traits(name="milvus", defaults=_MILVUS, page="milvus.md", shares_port=True),
        Traits(name="weaviate", defaults=_WEAVIATE, page="weaviate.md"),
        Traits(name="opensearch", defaults=_SEARCH_ENGINE, page="opensearch.md", has_grpc=False),
        Traits(name="elasticsearch", defaults=_SEARCH_ENGINE, page="opensearch.md", has_grpc=False),
    )
}


def with_defaults(tree: object) -> object:
    """The tree with its backend's own defaults under it; unchanged if it is no mapping or has no known backend."""
    if not isinstance(tree, Mapping):
        return tree
    backend = tree.get("backend")
    row = TRAITS.get(backend) if isinstance(backend, str) else None
    if row is None or row.defaults is None:
        return tree
    return _laid(tree, row.defaults)


def _laid(section: object, members: Tree) -> object:
    """The user's section with the backend's defaults under it; unchanged if it is no mapping."""
    if not isinstance(section, Mapping):
        return section
    deeper = {
        name: _laid(section.get(name, {}), below) for name, below in members.items() if isinstance(below, Mapping)
    }
    return {**members, **section, **deeper}
