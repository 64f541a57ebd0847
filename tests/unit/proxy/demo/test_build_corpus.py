"""The builder of the demo's data, without a model. Its product, the committed data, has tests of its own (test_corpus.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.build_corpus import (
    MODULES,
    OVERLAP_WORDS,
    PAGES,
    WINDOW_WORDS,
    Word,
    docstring_chunks,
    page_words,
    windows,
    write_data,
)
from support.jobs.tiny_corpus import chunk
from vecsieve.proxy.demo.corpus import Question, Vectors, load


def fake_embed(texts: Sequence[str]) -> Vectors:
    """(n, 8) unit vectors that depend on the text's length alone."""
    vectors = np.ones((len(texts), 8), dtype=np.float32)
    vectors[:, 0] = [1 + len(text) % 7 for text in texts]
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def test_what_is_written_can_be_loaded_and_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    chunks = [chunk("some text"), chunk("ein Umlaut: ä")]
    for name in ("one", "two"):
        write_data(tmp_path / name, chunks, [Question(text="Why?")], embed=fake_embed)
    corpus = load(tmp_path / "one")
    assert list(corpus.chunks) == chunks
    np.testing.assert_allclose(corpus.vectors, fake_embed([item.text for item in chunks]), atol=1e-3)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_a_page_gives_its_words_under_the_titles_above_them() -> None:
    body = (
        '<h1>First<a class="headerlink" href="#x">¶</a></h1><nav><p>menu</p></nav><p>lru_<b>cache</b>()</p><p>a &lt; b</p>'
        '<dl><dt class="sig py" id="heapq.merge">merge</dt><dd>Merges.</dd></dl>'
    )
    words = page_words(f'<html><body><div class="nav">menu</div><div class="body">{body}</div>after</body></html>')
    assert " ".join(word.text for word in words) == "First lru_cache() a < b merge Merges."
    assert words[1] == Word("lru_cache()", "First")
    assert words[-1] == Word("Merges.", "heapq.merge")


def test_docstrings_are_cut_under_their_qualified_names() -> None:
    names = {item.document: item.title for item in docstring_chunks(["heapq"])}
    assert next(iter(names)) == "heapq"
    assert names["heapq.merge"] == "heapq.merge"
    assert {f"library/{module}.html" for module in MODULES} <= set(PAGES)


@given(st.integers(0, 2000))
def test_windows_cover_every_word_in_order_and_none_is_longer_than_a_window(count: int) -> None:
    """Dropping each later window's overlap gives back the words; none is overlap alone."""
    cut = [window.text.split() for window in windows([Word(str(number), "t") for number in range(count)])]
    joined = [word for at, window in enumerate(cut) for word in window[OVERLAP_WORDS if at else 0 :]]
    assert joined == [str(number) for number in range(count)]
    assert all(len(window) <= WINDOW_WORDS for window in cut)
    assert all(len(window) > OVERLAP_WORDS for window in cut[1:])
