"""Which string of a payload is the text: by its values, never by its name alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Pool
from vecsieve.proxy.search.collections import paths
from vecsieve.proxy.search.collections.paths import (
    MOST_PATHS,
    MOST_ROWS,
    Reading,
    read_pool,
)

Vectors = npt.NDArray[np.float32]
WORDS = [
    "valve",
    "pump",
    "meter",
    "water",
    "heat",
    "cable",
    "room",
    "floor",
    "green",
    "pressure",
    "cover",
    "closed",
    "opened",
    "before",
    "after",
    "twice",
]
SIZE = 24


def prose(number: int, words: int = 20) -> str:
    return " ".join(np.random.default_rng(number).choice(WORDS, words))


def vectors_of(size: int, *, groups: int | None = None) -> Vectors:
    """Random ones; ``groups``: so many different ones, repeated."""
    drawn = np.random.default_rng(1).normal(size=(groups or size, 32)).astype(np.float32)
    return drawn[np.arange(size) % len(drawn)]


def pool_of(payloads: list[Any], vectors: Vectors | None = None, scores: list[float] | None = None) -> Pool:
    raws = [None if payload is None else json.dumps(payload).encode() for payload in payloads]
    return Pool(
        scores=np.array(scores if scores is not None else np.linspace(1.0, 0.5, len(raws))),
        vectors=vectors_of(len(raws)) if vectors is None else vectors,
        payloads=lambda rows: [raws[row] for row in rows],
    )


def read(make: Callable[[int], Any], size: int = SIZE, vectors: Vectors | None = None) -> Reading:
    return read_pool(pool_of([make(number) for number in range(size)], vectors), ())


def node(text: str) -> str:
    return json.dumps({"id_": "1", "text": text, "metadata": {"file_name": "pump.pdf"}})


LAYOUTS: dict[str, tuple[Callable[[int], Any], tuple[str, ...]]] = {
    "plain": (lambda n: {"text": prose(n), "source": "pump.pdf"}, ("text",)),
    "langchain": (lambda n: {"page_content": prose(n), "metadata": {"title": "A guide to pumps"}}, ("page_content",)),
    "llamaindex": (lambda n: {"_node_content": node(prose(n)), "_node_type": "TextNode"}, ("_node_content.text",)),
    "mem0": (lambda n: {"data": prose(n, 4), "hash": f"{n:032x}", "user_id": "u1"}, ("data",)),
    "spring": (lambda n: {"doc_content": prose(n), "page": 4}, ("doc_content",)),
    "langchain4j": (lambda n: {"text_segment": prose(n), "file_name": "a.txt"}, ("text_segment",)),
    "kernel memory": (lambda n: {"payload": json.dumps({"text": prose(n), "file": "a.txt"}), "tags": ["a"]}, ("payload.text",)),
    "a file name under a known key": (lambda n: {"document": "pump.pdf", "passage": prose(n)}, ("passage",)),
    "several file names": (lambda n: {"document": f"pump{n % 4}.pdf", "passage": prose(n)}, ("passage",)),
    "a media type": (lambda n: {"content": "text/plain", "document_text": prose(n)}, ("document_text",)),
    "a language": (lambda n: {"text": "en", "passage": prose(n)}, ("passage",)),
    "a link": (lambda n: {"text": f"https://host/{n}", "passage": prose(n)}, ("passage",)),
    "a short title under a known key": (lambda n: {"content": f"Chapter {n}", "passage": prose(n, 60)}, ("passage",)),
    "nested deeply": (lambda n: {"properties": {"inner": {"content": prose(n)}}}, ("properties.inner.content",)),
    "short words": (lambda n: {"text": f"shoe {n}", "kind": "shoe"}, ("text",)),
    "japanese": (lambda n: {"content": "水を止めてからポンプの蓋を開ける" + str(n)}, ("content",)),
    "only file names": (lambda n: {"document": f"pump{n}.pdf"}, ()),
    "only titles": (lambda n: {"title": prose(n)}, ()),
    "short unknown values": (lambda n: {"label": prose(n, 4)}, ()),
    "a list of paragraphs": (lambda n: {"text": f"Part {n}", "paragraphs": [prose(n, 40), prose(n + 99, 40)]}, ("text",)),
    "a key with a dot": (lambda n: {"a.b": prose(n, 40)}, ()),
    "numbers": (lambda n: {"n": n, "x": None, "y": [1, 2]}, ()),
    "no payload": (lambda _: None, ()),
    "an array": (lambda _: [1], ()),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_a_pool_alone_shows_where_its_texts_are(layout: tuple[Callable[[int], Any], tuple[str, ...]]) -> None:
    make, expected = layout
    assert read(make).paths == expected


def test_equal_values_under_clearly_different_vectors_are_no_text() -> None:
    discovered = read(lambda n: {"content": prose(n % 3, 40), "passage": prose(n)})
    assert discovered.paths == ("passage",)
    assert discovered.against == {"content"}
    assert read(lambda n: {"content": prose(n % 3, 40)}).paths == ()


def test_equal_values_under_equal_vectors_are_copies_of_a_text() -> None:
    discovered = read(lambda n: {"text": prose(n % 8)}, vectors=vectors_of(SIZE, groups=8))
    assert (discovered.paths, discovered.against) == (("text",), frozenset())
    assert read(lambda _: {"text": prose(0)}, vectors=vectors_of(SIZE, groups=1)).paths == ("text",)


def test_constant_values_are_no_text_where_the_vectors_differ() -> None:
    assert read(lambda _: {"text": prose(0)}).paths == ()
    assert read(lambda n: {"text": prose(0), "passage": prose(n)}).paths == ("passage",)


def test_copies_that_were_embedded_with_other_metadata_stay_copies() -> None:
    vectors = vectors_of(SIZE, groups=8)
    noise = np.random.default_rng(2).normal(scale=0.3, size=vectors.shape).astype(np.float32)
    assert read(lambda n: {"text": prose(n % 8)}, vectors=vectors + noise).paths == ("text",)


def test_without_vectors_equal_values_with_different_scores_are_no_text() -> None:
    none = np.empty((SIZE, 0), np.float32)
    assert read(lambda n: {"content": prose(n % 3, 40)}, vectors=none).against == {"content"}
    copies = pool_of([{"text": prose(n // 4)} for n in range(SIZE)], none, [1.0 - (n // 4) / 10 for n in range(SIZE)])
    assert read_pool(copies, ()).paths == ("text",)


def test_with_two_layouts_each_point_has_its_own_path() -> None:
    discovered = read(lambda n: {"text": prose(n)} if n % 3 else {"page_content": prose(n)})
    assert discovered.paths == ("text", "page_content")


def test_a_pool_without_whole_payloads_is_read_by_its_fields() -> None:
    rows = tuple((json.dumps(prose(n)).encode(), b'"pump.pdf"', None) for n in range(SIZE))
    pool = Pool(scores=np.ones(SIZE), vectors=vectors_of(SIZE), fields=rows)
    assert read_pool(pool, ("page_content", "document", "text")).paths == ("page_content",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(
        ['{"text":"a b c"}', '{"text":', '[1,2', "{}", '{"a":{"b":"' + "w " * 40 + '"}}', "pump.pdf", "w " * 100]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["text", "data", "a.b", "", "x"]) | st.text(), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(payloads=st.lists(JSON, max_size=8), has_vectors=st.booleans(), seed=st.integers(0, 9))
def test_any_payload_is_read_within_bounds(payloads: list[Any], *, has_vectors: bool, seed: int) -> None:
    """Invariant: no payload raises; paths were seen, are no proven non-texts and lead to strings; equal pools are read equally."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(len(payloads), 4 if has_vectors else 0)).astype(np.float32)
    pool = pool_of(payloads, vectors)
    discovered = read_pool(pool, ())
    assert discovered == read_pool(pool, ())
    assert set(discovered.paths) <= set(discovered.keys)
    assert not discovered.against & set(discovered.paths)
    assert len(discovered.keys) <= MOST_PATHS
    assert discovered.size <= len(payloads)


@given(raws=st.lists(st.binary(max_size=40) | st.none(), max_size=6))
def test_any_bytes_are_read(raws: list[bytes | None]) -> None:
    """Invariant: bytes that are no JSON are a payload without strings."""
    size = len(raws)
    pool = Pool(
        scores=np.full(size, np.nan),
        vectors=np.full((size, 3), np.nan, np.float32),
        payloads=lambda rows: [raws[row] for row in rows],
    )
    read_pool(pool, ())  # fmt: skip
    fields = tuple((raw,) for raw in raws)
    assert (
        read_pool(Pool(scores=np.zeros(size), vectors=np.zeros((size, 0), np.float32), fields=fields), ("text",)).size
        <= size
    )


def test_large_payloads_cost_no_more_than_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    loads = orjson.loads

    def counted(raw: bytes | str) -> object:
        taken.append(len(raw))
        return loads(raw)

    monkeypatch.setattr("vecsieve.proxy.search.collections.statements.orjson.loads", counted)
    text = prose(0, 20_000)
    discovered = read(lambda n: {"text": f"{text} {n}", "inner": json.dumps({"a": text})}, size=500)
    assert discovered.size <= MOST_ROWS
    assert sum(taken) <= 2 * paths.POOL_BYTES
    wide = {f"key{n}": {f"in{m}": "some words here" for m in range(50)} for n in range(200)}
    assert len(read(lambda _: wide, size=3).keys) <= MOST_PATHS
    deep: Any = "some words of prose here"
    for _ in range(300):
        deep = {"a": deep}
    assert read(lambda _: deep, size=3).paths == ()
