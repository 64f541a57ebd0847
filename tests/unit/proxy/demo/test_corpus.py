"""Loading the demo data: the committed files, and damaged ones."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs import build_corpus
from vecsieve.proxy.demo.corpus import (
    CHUNK_VECTORS_FILE,
    CHUNKS_FILE,
    DATA_DIRECTORY,
    QUESTION_VECTORS_FILE,
    QUESTIONS_FILE,
    Choice,
    Chunk,
    Corpus,
    CorpusDamagedError,
    UnknownQuestionError,
    choose,
    load,
)

FILES = (CHUNKS_FILE, CHUNK_VECTORS_FILE, QUESTIONS_FILE, QUESTION_VECTORS_FILE)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    shutil.copytree(DATA_DIRECTORY, directory)
    return directory


def test_there_are_between_1500_and_3000_chunks_and_about_forty_questions(corpus: Corpus) -> None:
    assert 1500 <= len(corpus.chunks) <= 3000
    assert 35 <= len(corpus.questions) <= 45


def test_vectors_are_of_length_one_in_the_models_384_dimensions(corpus: Corpus) -> None:
    assert corpus.vectors.shape == (len(corpus.chunks), 384)
    assert corpus.question_vectors.shape == (len(corpus.questions), 384)
    for vectors in (corpus.vectors, corpus.question_vectors):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_texts_are_windows_of_pages_and_docstrings(corpus: Corpus) -> None:
    lengths = [len(chunk.text.split()) for chunk in corpus.chunks]
    assert (min(lengths) >= 5, max(lengths), median(lengths)) == (True, 100, 100)
    assert all(chunk.document and chunk.title for chunk in corpus.chunks)
    docs = sum(chunk.source == "docs" for chunk in corpus.chunks)
    assert min(docs, len(corpus.chunks) - docs) > len(corpus.chunks) / 4


def test_neighbours_of_a_page_overlap_by_a_quarter(corpus: Corpus) -> None:
    pairs = [
        (first, second)
        for first, second in zip(corpus.chunks, corpus.chunks[1:], strict=False)
        if second.position == first.position + 1 and first.document == second.document
    ]
    assert len(pairs) > 1000
    assert all(first.text.split()[-25:] == second.text.split()[:25] for first, second in pairs)


def test_many_chunks_have_a_natural_copy(corpus: Corpus) -> None:
    similarity = corpus.vectors @ corpus.vectors.T
    np.fill_diagonal(similarity, -1.0)
    assert (similarity.max(axis=1) > 0.95).mean() > 0.15


def test_pages_repeat_docstrings_and_not_only_themselves(corpus: Corpus) -> None:
    is_docs = np.array([chunk.source == "docs" for chunk in corpus.chunks])
    across = corpus.vectors[is_docs] @ corpus.vectors[~is_docs].T
    assert (across.max(axis=1) > 0.85).sum() >= 50


def test_most_questions_meet_copies_and_some_meet_none(corpus: Corpus) -> None:
    similarity = corpus.question_vectors @ corpus.vectors.T
    copies = 0
    for scores in similarity:
        top = corpus.vectors[np.argsort(-scores, kind="stable")[:8]]
        copies += bool((np.triu(top @ top.T, 1) > 0.97).any())
    assert len(corpus.questions) * 0.6 < copies < len(corpus.questions)


def test_questions_are_the_listed_ones_each_once(corpus: Corpus) -> None:
    assert tuple(question.text for question in corpus.questions) == build_corpus.QUESTIONS
    assert len(set(build_corpus.QUESTIONS)) == len(build_corpus.QUESTIONS)


def test_the_licence_travels_with_the_text_and_the_changes_are_named() -> None:
    notice = (DATA_DIRECTORY / "NOTICE").read_text(encoding="utf-8")
    for words in ("PSF LICENSE AGREEMENT", "Python Software Foundation; All Rights", "Changes made", "Zero-Clause BSD"):
        assert words in notice


def test_the_data_stays_small() -> None:
    assert sum(file.stat().st_size for file in DATA_DIRECTORY.iterdir()) < 4_000_000


def test_a_payload_names_where_the_text_comes_from(corpus: Corpus) -> None:
    payload = corpus.chunks[0].payload()
    assert list(payload) == ["text", "source", "document", "title", "position"]
    assert msgspec.convert(payload, Chunk) == corpus.chunks[0]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(CorpusDamagedError, match=name):
        load(copied)


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_refused(copied: Path, name: str) -> None:
    whole = (copied / name).read_bytes()
    (copied / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusDamagedError):
        load(copied)


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        (np.ones((3, 4), np.float16), r"\(3, 4\)"),
        (np.ones((42, 4), np.float32), "float32"),
        (np.ones(42, np.float16), r"\(42,\)"),
        (np.ones((42, 4), np.float16), "2.000"),
        (np.zeros((42, 4), np.float16), "0.000"),
        (np.full((42, 4), np.nan, np.float16), "nan"),
    ],
)
def test_vectors_that_do_not_fit_are_refused_with_what_was_seen(copied: Path, stored: object, seen: str) -> None:
    np.save(copied / QUESTION_VECTORS_FILE, np.asarray(stored))
    with pytest.raises(CorpusDamagedError, match=f"{QUESTION_VECTORS_FILE}.*{seen}"):
        load(copied)


def test_pickled_objects_are_never_loaded(copied: Path) -> None:
    np.save(copied / QUESTION_VECTORS_FILE, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(CorpusDamagedError):
        load(copied)


@pytest.mark.parametrize("line", ["[]", "{}", '{"text": 1}', '{"text": "x", "extra": 1}', "x"])
def test_a_line_of_another_shape_is_refused(copied: Path, line: str) -> None:
    (copied / QUESTIONS_FILE).write_text(line + "\n", encoding="utf-8")
    with pytest.raises(CorpusDamagedError):
        load(copied)


def test_a_source_that_is_neither_docs_nor_docstring_is_refused(copied: Path) -> None:
    row = json.dumps({"text": "x", "source": "web", "document": "d", "title": "t", "position": 0})
    (copied / CHUNKS_FILE).write_bytes(gzip.compress(row.encode()))
    with pytest.raises(CorpusDamagedError, match="source"):
        load(copied)


@given(noise=st.binary(max_size=200), name=st.sampled_from(FILES))
def test_noise_in_any_file_is_damage_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, name: str
) -> None:
    """Arbitrary bytes in one file raise CorpusDamagedError, never another exception and never a corpus."""
    directory = tmp_path_factory.mktemp("noise")
    for file in FILES:
        (directory / file).write_bytes(noise if file == name else (DATA_DIRECTORY / file).read_bytes())
    with pytest.raises(CorpusDamagedError):
        load(directory)


# Which question is asked.


QUESTIONS = (
    "How do I split a string?",
    "How do I copy a file?",
    "How do I copy a list?",
    "How do I wait for a thread?",
    "How do I sort a list in place?",
)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("1", 0),
        (" 5 ", 4),
        ("how do i COPY a list", 2),
        ("sort the list", 4),  # a rare word outweighs a common one
        ("list of files, one file to copy", 1),
        ("copy", 1),  # of two as near the first
        ("waiting on a thread", 3),
    ],
)
def test_a_number_or_the_most_telling_words_choose(query: str, index: int) -> None:
    choice = choose(QUESTIONS, query)
    assert choice.index == index
    is_exact = query.strip().isdigit() or "COPY" in query
    assert (choice.remark is None) is is_exact
    assert (
        is_exact
        or f"no embedding model, so it cannot embed your text: instead it asks listed question {index + 1}"
        in (choice.remark or "")
    )


@pytest.mark.parametrize("number", ["0", "6", "-1", "+99", "123456789012345678901234567890"])
def test_an_unknown_number_is_an_error_that_says_what_is_requested_and_lists_the_questions(number: str) -> None:
    with pytest.raises(UnknownQuestionError) as caught:
        choose(QUESTIONS, number)
    message = str(caught.value)
    assert f"no question {int(number)}: want 1 to 5" in message
    assert all(question in message for question in QUESTIONS)


@pytest.mark.parametrize("text", ["", "  ", "zebra", "how do I", "???", "3.5 zebras"])
def test_text_without_a_telling_word_is_an_error_that_lists_the_questions(text: str) -> None:
    with pytest.raises(UnknownQuestionError, match="shares a significant word") as caught:
        choose(QUESTIONS, text)
    assert QUESTIONS[0] in str(caught.value)


def test_without_questions_nothing_can_be_chosen() -> None:
    with pytest.raises(UnknownQuestionError):
        choose((), "anything")


@given(st.text(max_size=60))
def test_any_text_chooses_a_question_or_says_why_not(text: str) -> None:
    """Arbitrary input gives an index into the questions or UnknownQuestionError, nothing else."""
    try:
        choice = choose(QUESTIONS, text)
    except UnknownQuestionError:
        return
    assert 0 <= choice.index < len(QUESTIONS)


def test_every_question_of_the_demo_is_found_by_its_number_and_by_its_words() -> None:
    texts = [question.text for question in load().questions]
    for index, text in enumerate(texts):
        assert choose(texts, str(index + 1)) == Choice(index=index)
        assert choose(texts, text) == Choice(index=index)
