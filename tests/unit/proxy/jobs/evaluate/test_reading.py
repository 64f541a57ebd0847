"""A labelled set's folder: what is read, and that every fault is told with its file and line."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from support.jobs.labelled_folders import CORPUS, QUERIES, B, C, D, labelled_folder
from support.process.commands import command_line
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.evaluate.reading import (
    FEWEST_NEEDS,
    MOST_PROBLEMS,
    Repeats,
    read_set,
    read_vectors,
    sample_set,
    set_folders,
    unit,
)


def problems(folder: Path) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read_set(folder)
    return [str(problem) for problem in caught.value.problems]


def test_a_set_is_read_whole(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    assert labelled.name == "tiny"
    assert [(item.doc, item.atoms) for item in labelled.items[2:4]] == [("one", ("y",)), ("three", ("x", "z"))]
    assert labelled.queries[0].subtopics == {"x": {0, 1, 3}, "z": {3}}
    assert [query.relevant for query in labelled.queries] == [{0, 1, 3}, {4}]
    assert labelled.queries[0].candidates is None
    assert labelled.vectors.shape == (5, 3)
    assert labelled.query_vectors.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_everything_but_the_labels_is_payload_byte_for_byte(tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    lines[0] = '{"atoms":["x"], "doc":"\\u006fne","big":12345678901234567890.10,"id":"a", "span": [0, 1]}'
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    payload = read_set(folder).items[0].payload
    assert payload == {"doc": b'"\\u006fne"', "big": b"12345678901234567890.10", "span": b"[0, 1]"}


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"text": "alpha", "note": "a longer note"}, "alpha"),
        ({"body": "alpha", "pages": [1, 2, 3, 4, 5, 6]}, "alpha"),
        ({"text": None, "body": "alpha"}, "alpha"),
        ({}, "one"),  # the name of the document
    ],
)
def test_the_text_of_an_item_is_the_member_of_this_name_or_the_longest_string(
    tmp_path: Path, members: dict[str, object], text: str
) -> None:
    corpus: list[dict[str, object]] = [{"id": "a", "doc": "one", "atoms": ["x"], **members}, *CORPUS[1:]]
    assert read_set(labelled_folder(tmp_path / "tiny", corpus=corpus)).items[0].text == text


@pytest.mark.parametrize(
    ("meta", "repeats"),
    [
        (None, Repeats.COPIES),
        ({"type": "intent"}, Repeats.MEANINGS),
        ({"type": "multi-hop"}, Repeats.NONE),
        ({"type": "unheard of"}, Repeats.COPIES),
        ({"type": "intent", "repeats": "copies"}, Repeats.COPIES),
    ],
)
def test_a_set_says_what_its_repeats_are(tmp_path: Path, meta: object, repeats: Repeats) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    assert read_set(folder).repeats is repeats


def test_relevant_ids_may_be_more_or_less_than_the_subtopics(tmp_path: Path) -> None:
    queries = [{**QUERIES[0], "rel": ["b"]}, QUERIES[1]]
    assert read_set(labelled_folder(tmp_path / "tiny", queries=queries)).queries[0].relevant == {B}


def test_a_closed_list_is_kept_by_row(tmp_path: Path) -> None:
    queries = [{**QUERIES[0], "candidates": ["d", "b", "c", "b"]}, QUERIES[1]]
    candidates = read_set(labelled_folder(tmp_path / "tiny", queries=queries)).queries[0].candidates
    assert candidates is not None
    assert candidates.tolist() == [B, C, D]


def test_the_sibling_s_items_follow_as_distractors_that_no_query_looks_for(tmp_path: Path) -> None:
    labelled_folder(tmp_path / "others", vectors=[[0.0, 0.0, float(2 + row)] for row in range(5)])
    labelled = read_set(labelled_folder(tmp_path / "tiny", extra="others"))
    assert len(labelled.items) == 10
    assert labelled.vectors[5:].tolist() == [[0.0, 0.0, 1.0]] * 5
    assert max(max(query.relevant) for query in labelled.queries) < 5


def test_a_geometry_brings_the_vectors_of_items_distractors_and_queries(tmp_path: Path) -> None:
    labelled_folder(tmp_path / "data" / "others")
    folder = labelled_folder(tmp_path / "data" / "tiny", extra="others")
    for name in ("tiny", "others"):
        (tmp_path / "flat" / name).mkdir(parents=True)
        np.save(tmp_path / "flat" / name / "corpus.npy", np.full((5, 2), 3.0, np.float64))
    np.save(tmp_path / "flat" / "tiny" / "queries.npy", np.full((2, 2), 1.0, np.float32))
    labelled = read_set(folder, geometry=tmp_path / "flat")
    assert labelled.vectors.shape == (10, 2)
    assert labelled.query_vectors.shape == (2, 2)


def test_widths_that_differ_are_told(tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path / "tiny", query_vectors=[[1.0], [1.0]])
    assert problems(folder) == [
        f"{folder}: wanted one width for items, distractors and queries; saw embeddings of 3 and of 1 numbers"
    ]


ITEM = "a JSON object with id, doc, atoms"
NEEDS = "needs, and ids of corpus.jsonl that satisfy them"
NOBODY, NONE = "the id nobody, which no item has", "no relevant id"


@pytest.mark.parametrize(
    ("name", "line", "expected", "seen"),
    [
        ("corpus", "", ITEM, "an empty line"),
        ("corpus", "[]", ITEM, "Expected `object`, got `array`"),
        ("corpus", '{"id": "a", "doc": "d"}', ITEM, "Object missing required field `atoms`"),
        ("corpus", '{"id": 7, "doc": "d", "atoms": []}', ITEM, "Expected `str`, got `int` - at `$.id`"),
        ("corpus", '{"id": "a", "doc": "d", "atoms": "x"}', ITEM, "Expected `array`, got `str` - at `$.atoms`"),
        ("corpus", '{"id": "a', ITEM, "Input data was truncated"),
        ("corpus", json.dumps({**CORPUS[4], "id": "a"}), "an id of its own", "the id of line 1 again: a"),
        ("queries", '{"subtopics": {"x": ["nobody"]}}', NEEDS, NOBODY),
        ("queries", '{"subtopics": {"x": ["a"]}, "rel": ["nobody"]}', NEEDS, NOBODY),
        ("queries", '{"subtopics": {"x": ["a"]}, "candidates": ["nobody"]}', NEEDS, NOBODY),
        ("queries", '{"subtopics": {}}', NEEDS, NONE),
        ("queries", '{"subtopics": {"x": []}}', NEEDS, NONE),
        ("queries", '{"subtopics": {"x": ["a"]}, "rel": []}', NEEDS, NONE),
    ],
)
def test_a_wrong_line_is_told_with_its_number(tmp_path: Path, name: str, line: str, expected: str, seen: str) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    path = folder / f"{name}.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = line
    path.write_text("\n".join(lines))
    assert problems(folder) == [f"{path}, line 2: wanted {expected}; saw {seen}"]


def test_every_wrong_line_is_told_up_to_twenty(tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    (folder / "corpus.jsonl").write_text("{}\n" * (MOST_PROBLEMS + 5))
    assert len(problems(folder)) == MOST_PROBLEMS


def test_a_distractor_s_id_is_none_of_the_set_s(tmp_path: Path) -> None:
    labelled_folder(tmp_path / "others", corpus=[{**row, "id": f"o{row['id']}"} for row in CORPUS], queries=[
        {"subtopics": {"x": ["oa"]}}, {"subtopics": {"x": ["oa"]}}
    ])  # fmt: skip
    queries: list[dict[str, object]] = [{"subtopics": {"x": ["oa"]}}, QUERIES[1]]
    assert (
        "the id oa, which no item has"
        in problems(labelled_folder(tmp_path / "tiny", queries=queries, extra="others"))[0]
    )


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_a_missing_or_an_empty_file_is_told(tmp_path: Path, name: str) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    (folder / name).write_text("")
    assert problems(folder) == [f"{folder / name}: wanted a JSON object per line; saw an empty file"]
    (folder / name).unlink()
    assert problems(folder) == [f"{folder / name}: wanted a readable file; saw no such file or directory"]


@pytest.mark.parametrize("extra", ["missing", "../tiny", "", ".."])
def test_a_sibling_that_is_none_is_told(tmp_path: Path, extra: str) -> None:
    folder = labelled_folder(tmp_path / "tiny", extra=extra)
    expected = "the name of a folder beside tiny, with corpus.jsonl"
    assert problems(folder) == [f"{folder / 'meta.json'}: wanted {expected}; saw extra_corpus {extra!r}"]


def test_a_damaged_meta_file_is_told(tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    (folder / "meta.json").write_text("{")
    assert problems(folder) == [f"{folder / 'meta.json'}: wanted a JSON object; saw Input data was truncated"]


@given(st.binary(max_size=60), st.sampled_from(["corpus.jsonl", "queries.jsonl", "meta.json"]))
def test_whatever_a_file_holds_is_read_or_told(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    """Invariant: arbitrary bytes in place of a file give a set or a SettingsError, nothing else."""
    folder = labelled_folder(tmp_path_factory.mktemp("any") / "tiny")
    (folder / name).write_bytes(content)
    with suppress(SettingsError):
        assert len(read_set(folder).items) == 5
    shutil.rmtree(folder.parent)


def test_every_set_of_a_folder_is_found_in_order_of_names(tmp_path: Path) -> None:
    for name in ("zebra", "ant"):
        labelled_folder(tmp_path / name)
    (tmp_path / "pairs").mkdir()
    assert [folder.name for folder in set_folders(tmp_path)] == ["ant", "zebra"]
    assert [folder.name for folder in set_folders(tmp_path, ["zebra"])] == ["zebra"]
    assert [folder.name for folder in set_folders(tmp_path / "ant")] == ["ant"]


@pytest.mark.parametrize(
    ("name", "required", "message"),
    [
        ("missing", (), "wanted a folder of labelled sets, each with queries.jsonl; saw no such folder"),
        ("pairs", (), "wanted folders that hold corpus.jsonl, queries.jsonl and their embeddings; saw no set in it"),
        (".", ("cat", "dog"), "--set: wanted one of ant; saw 'cat'\n--set: wanted one of ant; saw 'dog'"),
    ],
)
def test_a_folder_without_what_was_wanted_is_told(
    tmp_path: Path, name: str, required: tuple[str, ...], message: str
) -> None:
    labelled_folder(tmp_path / "ant")
    (tmp_path / "pairs").mkdir()
    with pytest.raises(SettingsError) as caught:
        set_folders(tmp_path / name, required)
    assert str(caught.value).endswith(message)


# Embeddings from files: rows of length one, and every file that cannot be used is named.


def saved(folder: Path, matrix: npt.NDArray[np.generic], name: str = "corpus.f16.npy") -> Path:
    np.save(folder / name, matrix)
    return folder


@pytest.mark.parametrize("name", ["corpus.f16.npy", "corpus.npy"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_come_back_as_float32_of_length_one(tmp_path: Path, name: str, dtype: type[np.floating]) -> None:
    vectors = read_vectors(saved(tmp_path, np.array([[3.0, 4.0], [0.0, 2.0]], dtype), name), "corpus", rows=2)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)


@given(arrays(np.float32, (3, 4), elements=st.floats(-1e3, 1e3, width=32)))
def test_any_row_becomes_one_of_length_one_or_stays_zero(matrix: npt.NDArray[np.float32]) -> None:
    """Invariant: every length is 1 or 0, and 0 only where the row was zero or underflows."""
    before = np.linalg.norm(matrix, axis=1)
    after = np.linalg.norm(unit(matrix), axis=1)
    np.testing.assert_allclose(after[before > 1e-15], 1.0, rtol=1e-5)
    assert not after[(matrix == 0.0).all(axis=1)].any()


def test_a_missing_file_says_what_was_wanted(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"corpus\.f16\.npy: wanted the embeddings .*saw no such file"):
        read_vectors(tmp_path, "corpus", rows=1)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 2), np.float32), "wanted 3, one per line of corpus.jsonl; saw 2 rows"),
        (np.ones(3, np.float32), r"saw float32 of shape \(3,\)"),
        (np.ones((3, 0), np.float32), r"saw float32 of shape \(3, 0\)"),
        (np.ones((3, 2), np.int64), r"saw int64 of shape \(3, 2\)"),
        (np.array([[1.0], [1.0], [np.nan]], np.float32), "saw a number in row 2 that is not finite"),
        (np.array([[1.0], [np.inf], [np.nan]], np.float16), "saw a number in row 1 that is not finite"),
    ],
)
def test_a_matrix_that_cannot_be_used_says_what_was_seen(
    tmp_path: Path, matrix: npt.NDArray[np.generic], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        read_vectors(saved(tmp_path, matrix), "corpus", rows=3)


@pytest.mark.parametrize("content", [b"", b"not numpy", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_matrix_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "corpus.npy").write_bytes(content)
    with pytest.raises(SettingsError, match=r"corpus\.npy: wanted a readable \.npy file"):
        read_vectors(tmp_path, "corpus", rows=1)


def test_an_archive_under_another_name_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "corpus.npz", np.ones((1, 1), np.float32))
    (tmp_path / "corpus.npz").rename(tmp_path / "corpus.npy")
    with pytest.raises(SettingsError, match="wanted one array; saw an archive"):
        read_vectors(tmp_path, "corpus", rows=1)


def test_a_file_that_would_run_code_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "corpus.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(SettingsError, match="pickle"):
        read_vectors(tmp_path, "corpus", rows=1)


# The sample set: labelled by names alone, whole, and run by the command without arguments.


def test_every_item_has_exactly_one_other_of_its_label_from_the_other_source() -> None:
    sample = sample_set()
    sides = sorted((item.atoms, item.payload["source"]) for item in sample.items)
    assert sides[::2] == [(atoms, b'"docs"') for atoms, _ in sides[::2]]
    assert sides[1::2] == [(atoms, b'"docstring"') for atoms, _ in sides[::2]]
    assert len(sample.items) >= 200


def test_every_need_of_a_query_is_satisfied_by_both_items_of_one_label() -> None:
    sample = sample_set()
    assert len(sample.queries) >= 20
    for query in sample.queries:
        assert len(query.subtopics) >= FEWEST_NEEDS
        for title, rows in query.subtopics.items():
            assert {sample.items[row].atoms for row in rows} == {(title,)}
            assert len(rows) == 2
        assert query.relevant == frozenset().union(*query.subtopics.values())


def test_vectors_are_of_length_one_and_the_same_each_time() -> None:
    sample, again = sample_set(), sample_set()
    assert sample.vectors.shape == (len(sample.items), 384)
    assert sample.query_vectors.shape == (len(sample.queries), 384)
    for matrix in (sample.vectors, sample.query_vectors):
        assert np.allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=1e-4)
    assert np.array_equal(sample.query_vectors, again.query_vectors)
    assert sample.queries == again.queries


def test_evaluate_without_arguments_prints_the_table_and_says_what_it_is_of(tmp_path: Path) -> None:
    done = command_line("evaluate", "--bootstrap", "10", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0
    assert "1 set whose repeats are copies," in done.stdout
    assert "default" in done.stdout
    assert "This is the sample set" in done.stderr
    assert (tmp_path / "found.json").is_file()


def test_a_name_of_a_set_wants_a_folder() -> None:
    done = command_line("evaluate", "--set", "one")
    assert done.returncode == 2
    assert "a folder with labelled sets" in done.stderr
