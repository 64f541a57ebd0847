"""Embeddings from .npy files: a row a line of the JSON beside them, any width, any float, scaled to length one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vecsieve.config.problems import Problem, SettingsError, one_line
from vecsieve.proxy.jobs.evaluate.labelled import Vectors

ENDINGS = (".f16.npy", ".npy")  # the data packs' own name first


def read_vectors(folder: Path, stem: str, *, rows: int) -> Vectors:
    """(rows, d) float32 out of ``stem.f16.npy`` or ``stem.npy``. Raises SettingsError."""
    path = next((found for ending in ENDINGS if (found := folder / (stem + ending)).is_file()), None)
    if path is None:
        raise SettingsError([Problem(str(folder / f"{stem}{ENDINGS[0]}"), "no such file", "the embeddings (or .npy)")])
    matrix = _loaded(path)
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or matrix.shape[1] == 0:
        raise _wrong(path, f"{matrix.dtype} of shape {matrix.shape}", "a matrix of floats, a row per line of the JSON")
    if len(matrix) != rows:
        raise _wrong(path, f"{len(matrix)} rows", f"{rows}, one per line of {stem}.jsonl")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise _wrong(path, f"a number in row {int(finite.argmin())} that is not finite", "finite numbers")
    return unit(matrix.astype(np.float32))


def unit(matrix: Vectors) -> Vectors:
    """Rows of length one, as a cosine collection keeps them; a row of zeros stays."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled = np.zeros_like(matrix)
    np.divide(matrix, lengths, out=scaled, where=lengths > 0.0)
    return scaled


def _loaded(path: Path) -> Vectors:
    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _wrong(path, one_line(str(error)), "a readable .npy file") from error
    if not isinstance(matrix, np.ndarray):  # an .npz under another name
        raise _wrong(path, "an archive", "one array")
    return matrix


def _wrong(path: Path, seen: str, wanted: str) -> SettingsError:
    return SettingsError([Problem(str(path), seen, wanted)])
