"""How far a reading came, as one file: written whole or not at all, and continued only by the very same analysis.

A NumPy archive (npz, nothing pickled): the arrays of gathered.py, and as JSON what they were read for. The file goes when
the report is made; a reading that is done has nothing to continue, and its collection moves on.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import one_line
from vecsieve.proxy.jobs.analyze.ids import NOWHERE
from vecsieve.proxy.jobs.analyze.reading import Reading
from vecsieve.proxy.jobs.files import write_whole

FORMAT = 1
Fingerprint = Mapping[str, str | int | float | None]


class StateError(Exception):
    """A state file that cannot be continued, or not written. Its text says why and what to do, and is fit to print."""


def save(path: Path, fingerprint: Fingerprint, reading: Reading) -> None:
    """Put the reading at ``path``, in place of an earlier one. Raises StateError."""
    gathered, done = reading.gathered, reading.done
    about = {"format": FORMAT, "done": done, "sources": gathered.source_names, "of": dict(fingerprint)}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        others=gathered.others[:done],
        distances=gathered.distances[:done],
        vectors=gathered.vectors[:done],
        keys=gathered.keys,
        known=gathered.known,
        sources=gathered.sources,
    )
    try:
        write_whole(path, buffer.getvalue())
    except OSError as error:
        raise StateError(f"--state {path}: {error.strerror or error}") from None


def restore(path: Path, fingerprint: Fingerprint, reading: Reading) -> bool:
    """Fill ``reading`` with what ``path`` holds; False when there is no such file. Raises StateError."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
        about = json.loads(held["about"].tobytes())
        differing = _differing({**about["of"], "format": about["format"]}, {"format": FORMAT, **fingerprint})
        if not differing:
            _fill(reading, held, about)
    except FileNotFoundError:
        return False
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        said = one_line(f"{type(error).__name__}: {error}")
        raise StateError(f"--state {path} cannot be continued ({said}); remove it, or name another file") from None
    if differing:
        raise StateError(
            f"--state {path} was begun for another analysis; remove it, or name another file\n" + "\n".join(differing)
        )
    return True


def _differing(held: Mapping[str, object], wanted: Fingerprint) -> list[str]:
    return [
        f"  {name}: the file has {one_line(str(held.get(name)))}, now it is {one_line(str(value))}"
        for name, value in wanted.items()
        if held.get(name) != value
    ]


def _fill(reading: Reading, held: Mapping[str, npt.NDArray[np.generic]], about: Mapping[str, object]) -> None:
    """Check everything, then copy everything: a damaged file leaves the reading as it was. Raises ValueError."""
    gathered, done, names = reading.gathered, about["done"], about["sources"]
    if not isinstance(done, int) or not 0 <= done <= len(gathered.looked):
        raise ValueError(f"{done!r} points done of {len(gathered.looked)}")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("source names are no list of texts")
    targets = {
        "others": gathered.others[:done],
        "distances": gathered.distances[:done],
        "vectors": gathered.vectors[:done],
        "keys": gathered.keys,
        "known": gathered.known,
        "sources": gathered.sources,
    }
    for name, target in targets.items():
        if held[name].shape != target.shape or held[name].dtype != target.dtype:
            raise ValueError(f"{name}: {held[name].dtype} {held[name].shape}, wanted {target.dtype} {target.shape}")
    _check_range("others", held["others"], len(gathered.keys))
    _check_range("sources", held["sources"], len(names))
    for name, target in targets.items():
        target[...] = held[name]
    reading.done = done
    gathered.source_names[:] = names
    reading.names = {name: number for number, name in enumerate(names)}


def _check_range(name: str, values: npt.NDArray[np.generic], end: int) -> None:
    if values.size and (int(values.min()) < NOWHERE or int(values.max()) >= end):
        raise ValueError(f"{name}: numbers beyond {end}")
