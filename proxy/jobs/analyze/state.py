"""An interrupted reading as one file, written atomically and continued only by the same analysis.

A digest, then a NumPy archive (npz, without pickles): the arrays of ``Gathered``, and the analysis as JSON. The digest is
checked before anything is decoded. The file is deleted when the report is done.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import one_line
from vecsieve.proxy.jobs.analyze.reading import Reading
from vecsieve.proxy.jobs.files import write_whole

FORMAT = 1
_DIGEST_BYTES = 16
Fingerprint = Mapping[str, str | int | float | None]


class StateError(Exception):
    """A state file that cannot be continued or written. Its text says why and what to do."""


def save(path: Path, fingerprint: Fingerprint, reading: Reading) -> None:
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
        write_whole(path, _digest(buffer.getbuffer()) + buffer.getbuffer())
    except OSError as error:
        raise StateError(f"--state {path}: {error.strerror or error}") from None


def restore(path: Path, fingerprint: Fingerprint, reading: Reading) -> bool:
    """Fill ``reading`` from the file; False if there is none. Raises StateError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"--state {path}: {error.strerror or error}") from None
    if content[:_DIGEST_BYTES] != _digest(memoryview(content)[_DIGEST_BYTES:]):
        raise StateError(f"--state {path} is damaged, or no state of this command; remove it, or name another file")
    with np.load(io.BytesIO(content[_DIGEST_BYTES:]), allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    about = json.loads(held["about"].tobytes())
    differing = _differing({**about["of"], "format": about["format"]}, {"format": FORMAT, **fingerprint})
    if differing:
        raise StateError(
            f"--state {path} was begun for another analysis; remove it, or name another file\n" + "\n".join(differing)
        )
    _fill(reading, held, about)
    return True


def _digest(content: memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _differing(held: Mapping[str, object], wanted: Fingerprint) -> list[str]:
    return [
        f"  {name}: the file has {one_line(str(held.get(name)))}, now it is {one_line(str(value))}"
        for name, value in wanted.items()
        if held.get(name) != value
    ]


def _fill(reading: Reading, held: Mapping[str, npt.NDArray[np.generic]], about: Mapping[str, Any]) -> None:
    gathered, done = reading.gathered, int(about["done"])
    gathered.others[:done] = held["others"]
    gathered.distances[:done] = held["distances"]
    gathered.vectors[:done] = held["vectors"]
    gathered.keys[:] = held["keys"]
    gathered.known[:] = held["known"]
    gathered.sources[:] = held["sources"]
    gathered.source_names[:] = about["sources"]
    reading.done = done
    reading.names = {name: number for number, name in enumerate(gathered.source_names)}
