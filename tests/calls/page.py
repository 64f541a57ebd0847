"""docs/calls.md, from what the adapters make of what the official clients send."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from calls import clients, search_clients
from calls.exercise import Requests
from calls.servers import Sent
from calls.verdicts import WHY, Fate, verdict
from support.weaviate.client import INTERPRETER, TESTS
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Reason

PAGE = TESTS.parent / "docs" / "calls.md"
HEAD = """# Calls

What VecSieve does with each call of the official Python clients. `make calls` writes this page: it calls every method, and asks the adapters about
what was sent. A test fails with the name of a method that is new.

- **Widened**: a ranked search. More candidates are requested, and repeats are removed.
- **Bypassed**: a ranked search that is sent as it is; the answer says `x-vecsieve: bypass=` and the reason.
- **Passed through**: anything else, streamed without a look at it.

Brackets say what is special about the arguments. [limits.md](limits.md) has further conditions.
"""
# What a call is, in the two last columns.
_TEXTS: Mapping[Fate, tuple[str, str]] = {
    Fate.WIDENED: ("widened", "a ranked search"),
    Fate.WRITE: ("passed through", "a write, sent once; the [write gate](writes.md) reads it if it is on"),
    Fate.DELETION: ("passed through", "a deletion or a change, sent once"),
    Fate.PASSED: ("passed through", "no ranked list of results"),
}
Key = tuple[Fate, Reason | None]


@dataclass(frozen=True, slots=True)
class Section:
    """``requests``: by transport. ``local``: methods without a request. ``uncalled``: methods of which no request is a search."""

    title: str
    backend: str
    client: str
    requests: Mapping[str, Callable[[], Requests]]
    known: Callable[[], object] | None = None
    local: frozenset[str] = frozenset()
    uncalled: frozenset[str] = frozenset()


def _weaviate() -> Requests:
    """Recorded in the client's own environment."""
    ran = subprocess.run(
        [str(INTERPRETER), str(Path(__file__).with_name("weaviate_program.py"))],
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2000:])
    return {
        call: tuple(Sent(**{**item, "body": b64decode(item["body"])}) for item in sent)
        for call, sent in json.loads(ran.stdout).items()
    }


SECTIONS = (
    Section(
        "Qdrant",
        "qdrant",
        "QdrantClient",
        {"REST": clients.qdrant_rest, "gRPC": clients.qdrant_grpc},
        local=clients.QDRANT.local,
    ),
    Section(
        "Pinecone",
        "pinecone",
        "Index",
        {"REST": clients.pinecone_rest},
        local=clients.PINECONE.local,
        uncalled=clients.PINECONE.administration,
    ),
    Section(
        "Chroma",
        "chroma",
        "HttpClient",
        {"REST": clients.chroma_rest},
        local=frozenset(f"{part}.{name}" for part, calls in clients.CHROMA.items() for name in calls.local),
        uncalled=frozenset({"collection.attach_function"}),
    ),
    Section(
        "Milvus",
        "milvus",
        "MilvusClient",
        {"gRPC": clients.milvus_grpc},
        known=clients.milvus_known,
        local=clients.MILVUS.local,
        uncalled=clients.MILVUS.administration,
    ),
    Section(
        "Weaviate",
        "weaviate",
        "collections.use(…)",
        {"gRPC": _weaviate},
        local=frozenset({"data.with_data_model"}),
        uncalled=frozenset({"aggregate.near_image", "data.ingest"}),
    ),
    Section(
        "OpenSearch",
        "opensearch",
        "OpenSearch",
        {"REST": search_clients.opensearch_rest},
        local=search_clients.OPENSEARCH.local,
    ),
    Section(
        "Elasticsearch",
        "elasticsearch",
        "Elasticsearch",
        {"REST": search_clients.elasticsearch_rest},
        local=search_clients.ELASTICSEARCH.local,
        uncalled=search_clients.ELASTICSEARCH.administration,
    ),
)


def verdicts(section: Section) -> dict[str, dict[str, Key]]:
    """By call and transport."""
    known = None if section.known is None else section.known()
    by_call: dict[str, dict[str, Key]] = {}
    for transport, recorded in section.requests.items():
        for call, sent in recorded().items():
            by_call.setdefault(call, {})[transport] = verdict(BACKENDS[section.backend], sent, known=known)
    return by_call


def section_text(section: Section) -> str:
    rows: dict[Key, list[str]] = {}
    for call, by_transport in verdicts(section).items():
        kinds = set(by_transport.values())
        for transport, key in by_transport.items():
            title = f"`{call}`" if len(kinds) == 1 else f"`{call}` over {transport}"
            if title not in rows.setdefault(key, []):
                rows[key].append(title)
    rows.setdefault((Fate.PASSED, None), []).extend(f"`{name}`" for name in sorted(section.uncalled))
    return "\n".join([f"## {section.title}: `{section.client}`", "", *_table(rows, section.local), ""])


def _table(rows: Mapping[Key, list[str]], local: frozenset[str]) -> Iterator[str]:
    yield "| call | what VecSieve does | why |"
    yield "|---|---|---|"
    for fate in Fate:
        for reason in (None, *Reason):
            if calls := rows.get((fate, reason)):
                does, why = ("bypassed", WHY[reason]) if reason is not None else _TEXTS[fate]
                label = f" (`{reason.value}`)" if reason is not None else ""
                yield f"| {', '.join(sorted(calls, key=_unquoted))} | {does}{label} | {why} |"
    if local:
        yield f"| {', '.join(f'`{name}`' for name in sorted(local))} | nothing | the client sends no request |"


def _unquoted(call: str) -> str:
    return call.replace("`", "")


def page() -> str:
    return "\n".join([HEAD, *map(section_text, SECTIONS)])
