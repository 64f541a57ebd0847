"""Defaults that depend on the backend: laid beneath what the user gives, so that `check` shows what is really used."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Tree = Mapping[str, object]

DEFAULTS: Mapping[str, Mapping[str, Tree]] = MappingProxyType(
    {
        "pinecone": MappingProxyType(
            {
                # Idle: each index is far away and has its own TLS handshakes to save; load balancers on the way
                # give 60 s (AWS ALB, nginx), Envoy itself an hour.
                "upstream": MappingProxyType({"url": "https://api.pinecone.io", "pool_idle_seconds": 50.0}),
                # A fetch of 1,000 ids is one request line: 41 kB of UUIDs. Envoy, which answers there, takes 60 KiB.
                # It keeps idle connections for an hour, and Python clients 5 and 6 fail on one that was closed sooner.
                "limits": MappingProxyType({"head_line_bytes": 65_536, "keep_alive_seconds": 3660.0}),
                # Reply bytes are billed, and a pool comes with its vectors: 21 kB each at 1536 dimensions.
                "policy": MappingProxyType({"fetch": MappingProxyType({"adaptive": True})}),
            }
        ),
        # One port for both of its protocols.
        "milvus": MappingProxyType({"upstream": MappingProxyType({"url": "http://127.0.0.1:19530"})}),
        # Its clients refuse to search at the port where the rest of it is spoken: ours has one of its own as well.
        "weaviate": MappingProxyType(
            {
                "upstream": MappingProxyType({"url": "http://127.0.0.1:8080"}),
                # Its server takes messages of so many bytes (GRPC_MAX_MESSAGE_SIZE), and its clients send batches up to that.
                "grpc": MappingProxyType(
                    {"listen": "127.0.0.1:6344", "upstream": "http://127.0.0.1:50051", "message_bytes": 104_858_000}
                ),
            }
        ),
        "chroma": MappingProxyType(
            {
                # Idle: measured, servers before 1.0 close after 30 s, later ones not within 400 s.
                "upstream": MappingProxyType({"url": "http://127.0.0.1:8000", "pool_idle_seconds": 20.0}),
                "policy": MappingProxyType(
                    {
                        # The index looks at max(ef_search, n_results) candidates, and ef_search is 100 unless it was set: up
                        # to there a wider request leaves the head of the list as it is, beyond it the head may change.
                        "fetch": MappingProxyType({"cap": 100}),
                        # The text has a column of its own, told apart from metadata by the name that Chroma itself gives it;
                        # older LangChain and hand-written loaders keep it in metadata as well.
                        "text_fields": ("#document", "text", "page_content", "content"),
                    }
                ),
            }
        ),
    }
)


def with_defaults(tree: object) -> object:
    """The tree with its backend's own defaults beneath it; what is no mapping, or names no such backend, as it is."""
    if not isinstance(tree, Mapping):
        return tree
    backend = tree.get("backend")
    beneath = DEFAULTS.get(backend) if isinstance(backend, str) else None
    if beneath is None:
        return tree
    return {**tree, **{name: _laid(tree.get(name, {}), members) for name, members in beneath.items()}}


def _laid(section: object, members: Tree) -> object:
    """A section the user wrote over the backend's; one that was built, or is wrong, stays as it is."""
    if not isinstance(section, Mapping):
        return section
    deeper = {
        name: _laid(section.get(name, {}), below) for name, below in members.items() if isinstance(below, Mapping)
    }
    return {**members, **section, **deeper}
