"""`analyze`, `calibrate` and `sweep` of the databases beside Qdrant: the real Chroma, Milvus Lite, and the emulators of Pinecone, OpenSearch and
Elasticsearch, or real nodes where OPENSEARCH_SERVER and ELASTICSEARCH_SERVER name them.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from prove.search_nodes import started
from servers.opensearch.store import Product

from support.backends.families import floats
from support.chroma import server as chroma_server
from support.jobs.memory_source import families
from support.milvus import server as milvus_server
from support.pinecone.loading import KEY, index_url, loaded
from support.process.commands import command_line
from support.process.stack import exchange
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.demo.backends import chroma_server as running_chroma
from vecsieve.proxy.jobs.databases import DATABASES, SourceOptions, opened, points_opened
from vecsieve.proxy.jobs.source import PointId, Points, Source, SourceError, Whole, mark_of
from vecsieve.proxy.search.collections.profiles import decoded

# chromadb's close leaves its connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """What these tests left is collected in the last of them, where the warning is expected."""
    yield
    gc.collect()


FAMILIES, COPIES, DIMENSION = 30, 3, 32
VECTORS = families(FAMILIES, COPIES, noise=0.0005, dimension=DIMENSION)
TEXTS = [
    f"This is the text of family {place // COPIES}." + " It has a sentence more." * (place % COPIES == 2)
    for place in range(len(VECTORS))
]


@dataclass(frozen=True, slots=True)
class There:
    """A database with the planted collection. ``ids``: of the points in the order in which they were planted."""

    required: SourceOptions
    environment: Mapping[str, str]
    ids: tuple[PointId, ...]
    distance: str = "Cosine"

    def open(self, **other: object) -> Source:
        return opened(replace(self.required, **other), self.environment)  # type: ignore[arg-type]  # - members of Wanted

    def command(self, name: str, *arguments: str) -> tuple[int, str, str]:
        source_options = self.required
        where = (
            "--backend",
            source_options.backend,
            "--url",
            source_options.url,
            "--collection",
            source_options.collection,
            "--rate",
            "2000",
        )
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in self.environment.items():
                patch.setenv(variable, value)
            done = command_line(name, *where, *arguments)
        return done.returncode, done.stdout, done.stderr


def options(backend: str, url: str, collection: str) -> SourceOptions:
    return SourceOptions(
        backend=backend, url=url, collection=collection, vector=None, requests_per_second=2000.0, api_key_env=None
    )


@contextmanager
def chroma() -> Iterator[There]:
    ids = tuple(f"p{place:03}" for place in range(len(VECTORS)))
    with running_chroma() as url:
        chroma_server.create(url, "planted", "cosine")
        order = np.random.default_rng(1).permutation(len(ids)).tolist()  # it lists in the order of writing
        made = {
            "ids": [ids[place] for place in order],
            "embeddings": [floats(VECTORS[place]) for place in order],
            "documents": [TEXTS[place] for place in order],
            "metadatas": [{"source": "web" if place % 2 else "wiki"} for place in order],
        }
        chroma_server.add(url, "planted", made)
        chroma_server.create(url, "empty")
        yield There(options("chroma", url, "planted"), {}, ids)


@contextmanager
def milvus() -> Iterator[There]:
    with milvus_server.planted() as url:
        client = milvus_server.connected(url)
        rows = [
            {
                "id": place * 3,
                "vec": vector.tolist(),
                "text": text,
                "base": place,
                "source": "web" if place % 2 else "wiki",
            }
            for place, (vector, text) in enumerate(zip(VECTORS, TEXTS, strict=True))
        ]
        milvus_server.create(url, "ours", "L2", copies=1)
        client.delete("ours", filter="id >= 0")
        client.insert("ours", rows)
        yield There(options("milvus", url, "ours"), {}, tuple(range(0, 3 * len(VECTORS), 3)), "Euclid")


@contextmanager
def pinecone() -> Iterator[There]:
    ids = tuple(f"p{place:03}" for place in range(len(VECTORS)))
    records = [
        {
            "id": identifier,
            "values": vector.tolist(),
            "metadata": {"text": text, "source": "web" if place % 2 else "wiki"},
        }
        for place, (identifier, vector, text) in enumerate(zip(ids, VECTORS, TEXTS, strict=True))
    ]
    created = {"dimension": DIMENSION, "metric": "cosine"}
    namespaces = {"ours": records, "other": records[:1]}
    with loaded({"indexes": {"docs": {"created": created, "records": namespaces}}}) as control:
        yield There(options("pinecone", index_url(control, "docs"), "ours"), {"PINECONE_API_KEY": KEY}, ids)


@contextmanager
def search_engine(product: Product) -> Iterator[There]:
    ids = tuple(f"p{place:03}" for place in range(len(VECTORS)))
    with started(product) as url:
        field: dict[str, object] = {"type": "dense_vector", "dims": DIMENSION, "index": True, "similarity": "cosine"}
        if product is Product.OPENSEARCH:
            method = {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"}
            field = {"type": "knn_vector", "dimension": DIMENSION, "method": method}
        settings = {"number_of_shards": 2, **({"knn": True} if product is Product.OPENSEARCH else {})}
        index = {"settings": {"index": settings}, "mappings": {"properties": {"vec": field}}}
        json_type = {"Content-Type": "application/json"}
        assert exchange(url, "PUT", "/ours", json.dumps(index).encode(), json_type).status == 200
        lines = [
            line
            for place, (identifier, vector, text) in enumerate(zip(ids, VECTORS, TEXTS, strict=True))
            for line in (
                {"index": {"_id": identifier}},
                {"text": text, "source": "web" if place % 2 else "wiki", "vec": vector.tolist()},
            )
        ]
        body = b"".join([json.dumps(line).encode() + b"\n" for line in lines])
        stored = exchange(url, "POST", "/ours/_bulk?refresh=true", body, json_type)
        assert not json.loads(stored.body)["errors"]
        yield There(options(product.value, url, "ours"), {}, ids)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(chroma, id="chroma", marks=chroma_server.NEEDS_CHROMA),
        pytest.param(milvus, id="milvus", marks=[milvus_server.NEEDS_MILVUS, milvus_server.NEEDS_TWO_VECTORS]),
        pytest.param(pinecone, id="pinecone"),
        *[pytest.param(partial(search_engine, product), id=product.value) for product in Product],
    ],
)
def there(request: pytest.FixtureRequest) -> Iterator[There]:
    with request.param() as made:
        yield made


def test_the_shape_is_what_the_database_says(there: There) -> None:
    with closing(there.open()) as source:
        shape = source.shape()
    assert (shape.points, shape.dimension, shape.distance) == (len(VECTORS), DIMENSION, there.distance)


def test_every_id_is_listed_once(there: There) -> None:
    with closing(there.open()) as source:
        ids = [entry for page in source.listed() for entry in page]
    assert sorted(ids, key=there.ids.index) == list(there.ids)


def test_points_are_read_in_the_order_asked_with_all_they_have_and_missing_ones_left_out(there: There) -> None:
    missing: PointId = 99_999 if isinstance(there.ids[0], int) else "nowhere"
    chosen = [there.ids[31], missing, there.ids[0], there.ids[12]]
    with closing(there.open()) as source:
        points = source.read(chosen)
    assert [point.id for point in points] == [identifier for identifier in chosen if identifier != missing]
    for point in points:
        place = there.ids.index(point.id)
        assert point.vector is not None
        assert np.allclose(point.vector, VECTORS[place], atol=1e-6)
        assert {TEXTS[place], "web" if place % 2 else "wiki"} <= set(map(str, point.payload.values()))
        assert not {"vec", "vector", "embedding", "values"} & set(point.payload)


def test_a_point_finds_itself_and_its_copies_at_the_proxys_distances(there: There) -> None:
    with closing(there.open()) as source:
        neighbours = source.neighbours(VECTORS[[20, 61]], count=COPIES + 2)
    for centre, pool in zip((20, 61), neighbours, strict=True):
        near = [there.ids.index(point.id) for point, distance in pool if distance < 0.05]
        first = centre - centre % COPIES
        assert sorted(near) == list(range(first, first + COPIES))
        assert pool[-1][1] > 0.2


def test_analyze_finds_the_families_and_lists_what_could_go_and_for_whom(there: There, tmp_path: Path) -> None:
    code, out, err = there.command("analyze", "--json", "-", "--ids", str(tmp_path / "ids.jsonl"))
    assert (code, err) == (0, "")
    content = json.loads(out)
    count = FAMILIES * (COPIES - 1)
    assert content["repeats"] == {"points": count, "equal": 0, "contained": count, "edited": 0, "vectors": 0}
    assert content["about"]["with_text"] == len(VECTORS)
    assert {row["name"] for row in content["sources"]["rows"]} == {"web", "wiki"}
    lines = [json.loads(line) for line in (tmp_path / "ids.jsonl").read_text().splitlines()]
    assert len(lines) == count
    removed, staying = ({line[name] for line in lines} for name in ("id", "survivor"))
    assert len(removed) == len(lines)
    assert not removed & staying
    assert removed | staying == set(there.ids)
    for line in lines:
        one, other = there.ids.index(line["id"]), there.ids.index(line["survivor"])
        assert one // COPIES == other // COPIES
        assert TEXTS[one] in TEXTS[other]
        assert line["evidence"] == "contained"


def test_calibrate_puts_the_cut_between_copies_and_strangers(there: There, tmp_path: Path) -> None:
    code, _, err = there.command("calibrate", "--out", str(tmp_path / "p.json"))
    assert (code, err) == (0, "")
    profile = decoded((tmp_path / "p.json").read_bytes(), name="p.json")
    assert (profile.collection, profile.dimension) == (there.required.collection, DIMENSION)
    assert profile.pool_median.percentile_50 > 0.1


def whole(points: Points, ids: Sequence[PointId]) -> list[Whole]:
    return sorted(points.whole(ids), key=lambda point: str(point.id))


def contents(points: Sequence[Whole]) -> list[dict[str, object]]:
    """With six digits: Chroma makes the vectors of a cosine collection units again, which may change the last bit. Without sequence numbers."""
    read = [json.loads(point.body, parse_float=lambda text: round(float(text), 6)) for point in points]
    return [{name: value for name, value in item.items() if name != "_seq_no"} for item in read]


def test_points_that_were_deleted_are_stored_again_as_they_were(there: There) -> None:
    chosen = sorted((there.ids[place] for place in (3, 40, 41)), key=str)
    with closing(points_opened(there.required, there.environment)) as points, closing(there.open()) as source:
        before, payloads = whole(points, chosen), [point.payload for point in source.read(there.ids)]
        assert [record.id for record in before] == chosen
        assert [record.mark for record in before] == [
            mark_of(point.vector, point.payload) for point in source.read(chosen)
        ]
        points.delete(before)
        points.delete(before)  # again, as after a kill
        assert not points.whole(chosen)
        keys = [record.key for record in before]
        assert not points.present(b"", keys)
        points.put(b"", [record.body for record in before])
        assert points.present(b"", keys) == frozenset(keys)
        after = whole(points, chosen)
        assert contents(after) == contents(before)
        assert [record.mark for record in after] == [
            record.mark for record in before
        ] or there.required.backend == "chroma"
        assert after == before or there.required.backend in {"chroma", "opensearch", "elasticsearch"}
        assert [point.payload for point in source.read(there.ids)] == payloads


def test_a_sweep_deletes_what_undo_stores_again(there: There, tmp_path: Path) -> None:
    journal, copies = str(tmp_path / "journal.db"), FAMILIES * (COPIES - 1)
    with closing(there.open()) as source:
        before = [(point.id, point.payload) for point in source.read(there.ids)]
    arguments = ("--work", str(tmp_path / "work"), "--keep", "first", "--ignore", "source", "--ignore", "base")
    code, out, err = there.command("sweep", *arguments, "--apply", "--journal", journal)
    assert (code, json.loads(err)["msg"], json.loads(err)["evictedCount"]) == (0, "sweep-complete", copies)
    assert f"{copies} were deleted" in " ".join(out.split())
    with closing(there.open()) as source:
        # The last of each family has a sentence more: it holds the others, whatever ``--keep`` says.
        assert [point.id for point in source.read(there.ids)] == list(there.ids[COPIES - 1 :: COPIES])
    code, out, err = there.command("undo", "--journal", journal, "--apply")
    assert (code, err) == (0, "")
    assert f"{copies} were stored; 0 have" in " ".join(out.split())
    with closing(there.open()) as source:
        assert [(point.id, point.payload) for point in source.read(there.ids)] == before


def test_a_collection_that_does_not_exist_is_named_in_one_line(there: There) -> None:
    with pytest.raises(SourceError) as caught, closing(there.open(collection="nowhere")) as source:
        source.shape()
    assert "nowhere" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["chroma", "milvus", "pinecone", "opensearch", "elasticsearch"])
def test_a_database_that_is_not_there_is_a_message_without_the_key(backend: str) -> None:
    environment = {DATABASES[backend].variable: "sesame"}
    source_options = options(backend, "http://127.0.0.1:1", "docs")
    with pytest.raises(SourceError) as caught, closing(opened(source_options, environment)) as source:
        source.shape()
    assert "http://127.0.0.1:1" in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_pinecone_wants_a_key_and_names_the_variable() -> None:
    with pytest.raises(SourceError, match="PINECONE_API_KEY"):
        opened(options("pinecone", "http://127.0.0.1:1", "docs"), {})


@pytest.mark.parametrize("backend", ["chroma", "pinecone"])
def test_a_vector_name_where_there_are_none_is_refused(backend: str) -> None:
    with pytest.raises(SourceError, match="--vector"):
        opened(replace(options(backend, "http://127.0.0.1:1", "docs"), vector="dense"), {"PINECONE_API_KEY": "k"})


def test_a_backend_that_jobs_do_not_read_is_answered_with_those_that_they_do() -> None:
    with pytest.raises(
        SettingsError, match=r"--backend: wanted qdrant, .*, opensearch or elasticsearch; saw 'weaviate'"
    ):
        opened(options("weaviate", "http://127.0.0.1:1", "docs"), {})
