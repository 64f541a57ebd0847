"""Every call of the real Pinecone client that the emulator serves, sync and asyncio, as an application makes it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import pytest
from pinecone import AsyncPinecone, Pinecone, PodSpec, ServerlessSpec
from pinecone.errors import ApiError, ConflictError, ForbiddenError, NotFoundError, UnauthorizedError

from support.pinecone.emulator import EMBED, SPARSE_EMBED, emulated

KEY = "pcsk_test"
SPEC = ServerlessSpec(cloud="aws", region="us-east-1")
NS = {"namespace": "ns"}
MODEL = {"cloud": "aws", "region": "us-east-1"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with emulated(api_key=KEY) as running:
        yield running.url


class Driver:
    """A client of either kind: whatever a call returns is awaited and collected as its kind wants."""

    def __init__(self, client: Any, kind: str) -> None:
        self.client = client
        self.kind = kind
        self._opened: list[Any] = []

    async def __call__(self, value: Any) -> Any:
        """The result of a call."""
        return await value if inspect.isawaitable(value) else value

    async def all(self, value: Any) -> list[Any]:
        """Everything a paged call yields."""
        found = await self(value)
        return [one async for one in found] if hasattr(found, "__aiter__") else list(found)

    def named(self, name: str) -> str:
        """A name for this client's index: both kinds share the emulator."""
        return f"{name}-{self.kind}"

    async def index(self, name: str, **how: Any) -> Any:
        """A new index, opened by its name: the host comes from the control plane."""
        await self(self.client.indexes.create(name=self.named(name), spec=SPEC, **how))
        return await self.opened(name)

    async def integrated(self, name: str, embed: dict[str, Any]) -> Any:
        """A new index that embeds."""
        await self(self.client.indexes.create_for_model(name=self.named(name), embed=embed, **MODEL))
        return await self.opened(name)

    async def opened(self, name: str) -> Any:
        """The index of this name, closed with the client."""
        self._opened.append(await self(self.client.index(name=self.named(name))))
        return self._opened[-1]

    async def close(self) -> None:
        """Close the client and every index it opened."""
        for one in (*self._opened, self.client):
            await self(one.close())


@pytest.fixture(params=["sync", "asyncio"])
async def drive(url: str, request: pytest.FixtureRequest) -> AsyncIterator[Driver]:
    kind: Literal["sync", "asyncio"] = request.param
    made: Any = Pinecone if kind == "sync" else AsyncPinecone
    driver = Driver(made(api_key=KEY, host=url), kind)
    yield driver
    await driver.close()


async def test_an_index_is_made_listed_described_configured_and_deleted(drive: Driver, url: str) -> None:
    pc, name = drive.client, drive.named("life")
    made = await drive(pc.indexes.create(name=name, dimension=3, metric="euclidean", spec=SPEC, tags={"a": "b"}))
    assert made.status.ready
    assert (made.dimension, made.metric, made.vector_type) == (3, "euclidean", "dense")
    assert made.host == made.private_host != url
    assert name in [one.name for one in await drive.all(pc.indexes.list())]
    changed = await drive(pc.indexes.configure(name, tags={"c": "d"}, deletion_protection="enabled"))
    assert dict(changed.tags) == {"a": "b", "c": "d"}
    with pytest.raises(ForbiddenError, match="Deletion protection"):
        await drive(pc.indexes.delete(name))
    await drive(pc.indexes.configure(name, deletion_protection="disabled"))
    await drive(pc.indexes.delete(name))
    assert not await drive(pc.indexes.exists(name))


async def test_pods_and_schemas_are_indexes_too(drive: Driver) -> None:
    pc = drive.client
    pods = PodSpec(environment="us-east1-gcp", replicas=2)
    made = await drive(pc.indexes.create(name=drive.named("pod"), dimension=2, spec=pods))
    assert made.spec.pod.pods == 2
    assert (await drive(pc.indexes.configure(drive.named("pod"), replicas=3))).deployment.replicas == 3
    schema = {"fields": {"body": {"type": "string", "full_text_search": {"language": "en"}}}}
    unnamed = await drive(pc.indexes.create(schema=schema))
    assert unnamed.schema.fields["body"].full_text_search.language == "en"
    await drive(pc.indexes.delete(unnamed.name))


async def test_refusals_are_the_clients_own_exceptions(drive: Driver, url: str) -> None:
    pc, name = drive.client, drive.named("refusals")
    index = await drive.index("refusals", dimension=2)
    with pytest.raises(ConflictError):
        await drive(pc.indexes.create(name=name, dimension=2, spec=SPEC))
    with pytest.raises(NotFoundError, match="not found"):
        await drive(pc.indexes.describe("none"))
    with pytest.raises(ApiError, match="Vector dimension 1 does not match the dimension of the index 2") as caught:
        await drive(index.query(vector=[1.0], top_k=1))
    assert caught.value.status_code == 400
    wrong = type(pc)(api_key="pcsk_wrong", host=url)
    with pytest.raises(UnauthorizedError):
        await drive.all(wrong.indexes.list())
    await drive(wrong.close())


async def test_vectors_are_written_queried_changed_and_deleted(drive: Driver) -> None:
    index = await drive.index("vectors", dimension=2)
    vectors = [{"id": f"v{n}", "values": [1.0, n / 3], "metadata": {"n": n, "tag": ["x"]}} for n in range(5)]
    written = await drive(index.upsert(vectors=vectors, **NS))
    assert (written.upserted_count, written.response_info.lsn_committed) == (5, 1)
    asked = {"vector": [1.0, 0.0], "top_k": 3, **NS}
    bare = await drive(index.query(**asked))
    assert [one.id for one in bare.matches] == ["v0", "v1", "v2"]
    assert [(one.values, one.metadata) for one in bare.matches] == [([], None)] * 3
    assert bare.response_info.is_reconciled(1)
    assert bare.usage.read_units == 1
    full = await drive(index.query(**asked, include_values=True, include_metadata=True, filter={"n": {"$gt": 0}}))
    assert full.matches[0].values == [1.0, 0.333333343]
    assert full.matches[0].metadata == {"n": 1, "tag": ["x"]}
    assert [one.id for one in (await drive(index.query(id="v4", top_k=1, **NS))).matches] == ["v4"]
    await drive(index.update(id="v4", values=[1.0, 0.0], set_metadata={"new": True}, **NS))
    fetched = (await drive(index.fetch(ids=["v4", "none"], **NS))).vectors
    assert fetched["v4"].values == [1.0, 0.0]
    assert fetched["v4"].metadata == {"n": 4, "tag": ["x"], "new": True}
    assert list(fetched) == ["v4"]
    changed = await drive(index.update(filter={"n": {"$lt": 2}}, set_metadata={"low": 1}, **NS))
    assert changed.matched_records == 2
    await drive(index.delete(ids=["v0"], **NS))
    await drive(index.delete(filter={"n": 1}, **NS))
    assert list((await drive(index.fetch_by_metadata(filter={"n": {"$gte": 0}}, **NS))).vectors) == ["v2", "v3", "v4"]
    await drive(index.delete(delete_all=True, **NS))
    assert (await drive(index.query(**asked))).matches == []


async def test_ids_and_metadata_are_read_page_by_page(drive: Driver) -> None:
    index = await drive.index("pages", dimension=2)
    await drive(index.upsert(vectors=[(f"p{n:03}", [1.0, 1.0], {"n": n}) for n in range(250)], **NS))
    pages = await drive.all(index.list(prefix="p", **NS))
    assert [len(page) for page in pages] == [100, 100, 50]
    assert len({one.id for page in pages for one in page}) == 250
    first = await drive(index.fetch_by_metadata(filter={"n": {"$lt": 30}}, limit=20, **NS))
    token = first.pagination.next
    rest = await drive(index.fetch_by_metadata(filter={"n": {"$lt": 30}}, limit=20, pagination_token=token, **NS))
    assert (len(first.vectors), len(rest.vectors), rest.pagination) == (20, 10, None)


async def test_sparse_and_hybrid_vectors(drive: Driver) -> None:
    words = {"indices": [3, 8], "values": [0.5, 2.0]}
    sparse = await drive.index("sparse", vector_type="sparse")
    await drive(sparse.upsert(vectors=[{"id": "s", "sparse_values": words}]))
    found = await drive(sparse.query(sparse_vector={"indices": [8], "values": [1.0]}, top_k=1, include_values=True))
    assert (found.matches[0].id, found.matches[0].score) == ("s", 2.0)
    assert found.matches[0].sparse_values.indices == [3, 8]
    hybrid = await drive.index("hybrid", dimension=2, metric="dotproduct")
    await drive(hybrid.upsert(vectors=[{"id": "h", "values": [1.0, 0.0], "sparse_values": words}]))
    both = await drive(hybrid.query(vector=[1.0, 0.0], sparse_vector=words, top_k=1))
    assert both.matches[0].score == 1.0 + 0.25 + 4.0


async def test_euclidean_scores_rise(drive: Driver) -> None:
    index = await drive.index("euclidean", dimension=1, metric="euclidean")
    await drive(index.upsert(vectors=[(str(n), [float(n)]) for n in range(1, 5)]))
    matches = (await drive(index.query(vector=[2.0], top_k=4))).matches
    assert [(one.id, one.score) for one in matches] == [("2", 0.0), ("1", 1.0), ("3", 1.0), ("4", 4.0)]


async def test_namespaces_and_statistics(drive: Driver) -> None:
    index = await drive.index("namespaces", dimension=2)
    await drive(index.create_namespace(name="made", schema={"fields": {"year": {"filterable": True}}}))
    await drive(index.upsert(vectors=[("a", [1.0, 0.0])]))
    await drive(index.upsert(vectors=[("b", [0.0, 1.0])], **NS))
    stats = await drive(index.describe_index_stats())
    assert (stats.total_vector_count, stats.dimension, stats.metric) == (2, 2, "cosine")
    assert {name: one.vector_count for name, one in stats.namespaces.items()} == {"made": 0, "__default__": 1, "ns": 1}
    pages = await drive.all(index.list_namespaces())
    assert [(one.name, one.record_count) for page in pages for one in page] == [
        ("__default__", 1),
        ("made", 0),
        ("ns", 1),
    ]
    assert (await drive(index.describe_namespace(name="made"))).indexed_fields.fields == ["year"]
    both = await drive(
        index.query_namespaces(vector=[1.0, 0.0], namespaces=["__default__", "ns"], metric="cosine", top_k=2)
    )
    assert [one.id for one in both.matches] == ["a", "b"]
    await drive(index.delete_namespace(name="ns"))
    with pytest.raises(NotFoundError):
        await drive(index.describe_namespace(name="ns"))


async def test_integrated_records_are_searched_and_reranked(drive: Driver) -> None:
    index = await drive.integrated("records", EMBED)
    records = [{"_id": "1", "text": "red car", "kind": "road"}, {"_id": "2", "text": "cold sea water", "kind": "sea"}]
    assert (await drive(index.upsert_records(records=records, namespace="a/b c%d"))).record_count == 2
    asked: dict[str, Any] = {"namespace": "a/b c%d", "top_k": 2}
    found = await drive(index.search(**asked, inputs={"text": "red car"}, fields=["kind"]))
    assert [(hit.id, hit.fields) for hit in found.result.hits] == [("1", {"kind": "road"}), ("2", {"kind": "sea"})]
    assert found.result.hits[0].score == pytest.approx(1.0)
    assert (found.usage.read_units, found.usage.embed_total_tokens) == (1, 2)
    rerank = {"model": "bge-reranker-v2-m3", "rank_fields": ["text"], "top_n": 1}
    reranked = await drive(index.search(**asked, inputs={"text": "water"}, rerank=rerank))
    assert [hit.id for hit in reranked.result.hits] == ["2"]
    assert reranked.usage.rerank_units == 1
    assert (await drive(index.search(**asked, id="2"))).result.hits[0].id == "2"
    filtered = await drive(index.search_records(**asked, inputs={"text": "red"}, filter={"kind": "sea"}))
    assert [hit.id for hit in filtered.result.hits] == ["2"]


async def test_a_sparse_model_insists_on_words(drive: Driver) -> None:
    index = await drive.integrated("words", SPARSE_EMBED)
    records = [{"_id": "1", "text": "astronaut training"}, {"_id": "2", "text": "submarine navigation"}]
    await drive(index.upsert_records(records=records, **NS))
    terms = {"strategy": "all", "terms": ["Astronaut"]}
    found = await drive(index.search(top_k=5, inputs={"text": "space"}, match_terms=terms, **NS))
    assert [hit.id for hit in found.result.hits] == ["1"]


async def test_documents_are_written_searched_fetched_listed_changed_and_deleted(drive: Driver) -> None:
    schema = {
        "fields": {
            "vec": {"type": "dense_vector", "dimension": 2, "metric": "cosine"},
            "terms": {"type": "sparse_vector"},
            "body": {"type": "string", "full_text_search": {"language": "en"}},
            "summary": {"type": "string", "embed": {"model": "multilingual-e5-large"}},
        }
    }
    await drive(drive.client.indexes.create(name=drive.named("documents"), schema=schema))
    documents = (await drive.opened("documents")).documents
    given: list[dict[str, Any]] = [
        {"_id": "a", "vec": [1.0, 0.0], "body": "red car", "year": 2019},
        {"_id": "b", "vec": [1.0, 1.0], "body": "red boat", "summary": "a boat at sea"},
    ]
    written = await drive(documents.upsert(documents=given, **NS))
    assert (written.upserted_count, written.usage.embed_total_tokens) == (2, 4)
    by_vector = [{"type": "dense_vector", "field": "vec", "values": [1.0, 0.0]}]
    bare = await drive(documents.search(score_by=by_vector, top_k=2, **NS))
    assert [one.to_dict() for one in bare.matches] == [
        {"_id": "a", "_score": 1.0},
        {"_id": "b", "_score": 0.7071067690849304},
    ]
    assert bare.response_info.lsn_reconciled == 1
    shown = await drive(documents.search(score_by=by_vector, top_k=1, include_fields=["vec", "year"], **NS))
    assert shown.matches[0].to_dict() == {"_id": "a", "_score": 1.0, "vec": [1.0, 0.0], "year": 2019}
    by_text = [{"type": "text", "fields": ["body"], "query": "boat"}]
    assert [one.id for one in (await drive(documents.search(score_by=by_text, top_k=5, **NS))).matches] == ["b"]
    by_meaning = [{"type": "embed", "field": "summary", "query": "boat at sea"}]
    assert [one.id for one in (await drive(documents.search(score_by=by_meaning, top_k=5, **NS))).matches] == ["b"]
    await drive(documents.update(documents=[{"_id": "a", "year": 2020}], **NS))
    fetched = await drive(documents.fetch(ids=["a"], **NS))
    assert fetched.documents["a"].to_dict() == {**given[0], "year": 2020}
    assert [one.id for one in await drive.all(documents.list(**NS))] == ["a", "b"]
    await drive(documents.delete(ids=["a"], **NS))
    assert (await drive(documents.delete(filter={"body": "red boat"}, **NS))).matched_records == 1
    assert await drive.all(documents.list(**NS)) == []
