"""What became of the copies, for a client that sets nothing but one line: their sources in the metadata that frameworks return, one result for
each source, and the newest of several copies. No setting names a field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from qdrant_client import QdrantClient

from support.backends.layouts import Layout, first_of_families, load, recorded, replayed
from support.backends.passages import DISTINCT, QUERY, passages
from support.grpc.clients import over_grpc
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process

QDRANT = {layout.name: layout for layout in (*recorded("qdrant"), *replayed())}
# One line of the settings each. `content` has a summary of the file in one layout, and copies in two files have two.
LINES = {
    "sources": "policy: {collapsed: payload, ignore: [content]}",
    "one per source": "policy: {caps: {per_source: 1}}",
    "newest": "policy: {representative: newest}",
}
# Where frameworks read the metadata that they give to their users.
INSIDE = {
    "haystack-qdrant": "meta",
    "langchain-qdrant": "metadata",
    "langchain-js-qdrant": "metadata",
    "dify": "metadata",
    "open-webui": "metadata",
}
# The file is under `document`, which elsewhere is the text.
WITHOUT_SOURCE = {"file-as-document"}
# No date, or one that only people read ("3/1/2025, 10:15:00 AM").
WITHOUT_DATE = {"dify", "anythingllm", "roo-code", "file-as-document", "summary-as-content"}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, QdrantClient]]:
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        made = {"": QdrantClient(url=url, timeout=30, check_compatibility=False)}
        for layout in QDRANT.values():
            load(made[""], layout)
        for name, line in LINES.items():
            settings = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
            settings.write_text(line + "\n", encoding="utf-8")
            proxy, _ = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc, "--config", str(settings)))
            made[name] = QdrantClient(url=proxy, timeout=30, check_compatibility=False)
            made[f"{name} over gRPC"] = over_grpc(proxy, proxy)
        for client in made.values():
            opened.callback(client.close)
        yield made


def page(client: QdrantClient, name: str, limit: int) -> list[tuple[int, dict[str, Any]]]:
    """The number of the passage, and the payload, of each result."""
    numbers = {point.identifier: point.passage.number for point in QDRANT[name].points}
    points = client.query_points(name, query=QUERY, limit=limit, with_payload=True).points
    return [(numbers[str(point.id)], point.payload or {}) for point in points]


def metadata(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The metadata that the framework returns."""
    if "_node_content" in payload:
        inside: dict[str, Any] = json.loads(payload["_node_content"])["metadata"]
        return inside
    fields: dict[str, Any] = payload[INSIDE[name]] if name in INSIDE else payload
    return fields


@pytest.mark.parametrize("line", ["sources", "sources over gRPC"])
@pytest.mark.parametrize("name", QDRANT)
def test_the_sources_of_copies_are_in_the_metadata_that_the_framework_returns(
    clients: dict[str, QdrantClient], name: str, line: str
) -> None:
    everything = page(clients[""], name, len(passages()))
    direct = [number for number, _ in everything]
    noted = page(clients[line], name, DISTINCT)
    for number, payload in noted:
        copies = [
            answer for answer in direct if answer != number and passages()[answer].family == passages()[number].family
        ]
        inside = metadata(name, payload)
        note = inside.pop("_vecsieve", None)
        assert inside == metadata(name, everything[direct.index(number)][1])
        if not copies:
            assert note is None
            continue
        assert note is not None
        assert note.pop("collapsed_ids") == [QDRANT[name].points[copy].identifier for copy in copies]
        expected = [] if name in WITHOUT_SOURCE else [file_of(QDRANT[name], copy) for copy in copies]
        assert note == {"collapsed_sources": expected}
    assert len(noted) == DISTINCT


def file_of(layout: Layout, number: int) -> str:
    """AnythingLLM has an address in front of it."""
    file = passages()[number].file
    return f"file:///app/collector/hotdir/{file}" if layout.name == "anythingllm" else file


@pytest.mark.parametrize("name", sorted(QDRANT.keys() - WITHOUT_SOURCE))
def test_one_result_for_each_source_needs_no_name_of_a_field(clients: dict[str, QdrantClient], name: str) -> None:
    files = [passages()[number].file for number, _ in page(clients["one per source"], name, 6)]
    assert len(files) == len(set(files)) == 6
    plain = [passages()[number].file for number, _ in page(clients[""], name, 6)]
    assert len(set(plain)) < 6


@pytest.mark.parametrize("name", sorted(QDRANT.keys() - WITHOUT_DATE))
def test_the_newest_of_copies_stays_without_a_name_of_a_field(clients: dict[str, QdrantClient], name: str) -> None:
    everything = [number for number, _ in page(clients[""], name, len(passages()))]
    numbers = [number for number, _ in page(clients["newest"], name, DISTINCT)]
    families = [passages()[number].family for number in numbers]
    assert sorted(families) == list(range(DISTINCT))
    newest: dict[int, int] = {}
    for number in everything:
        family = passages()[number].family
        newest[family] = max(newest.get(family, number), number, key=lambda candidate: passages()[candidate].date)
    assert {passages()[number].family: number for number in numbers} == newest
    firsts = [everything[place] for place in first_of_families([passages()[number].family for number in everything])]
    assert set(numbers) != set(firsts)
