"""Embeddings from files: rows of length one, and every file that cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.evaluate.reading import read_vectors, unit


def saved(folder: Path, matrix: npt.NDArray[np.generic], name: str = "corpus.f16.npy") -> Path:
    np.save(folder / name, matrix)
    return folder


@pytest.mark.parametrize("name", ["corpus.f16.npy", "corpus.npy"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_come_back_as_float32_of_length_one(tmp_path: Path, name: str, dtype: type[np.floating]) -> None:
    vectors = read_vectors(saved(tmp_path, np.array([[3.0, 4.0], [0.0, 2.0]], dtype), name), "corpus", rows=2)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)


def test_a_row_of_zeros_stays_zero(tmp_path: Path) -> None:
    vectors = read_vectors(saved(tmp_path, np.zeros((1, 3), np.float32)), "corpus", rows=1)
    assert vectors.tolist() == [[0.0, 0.0, 0.0]]


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
