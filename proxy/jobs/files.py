"""A file is there whole or not at all: written beside its place, made durable, then renamed into it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

UNFINISHED = ".unfinished"  # no reader of *.json takes a file of this name for one of its own


def write_whole(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path``, in place of what was there; whatever goes wrong, what was there stays.

    Raises OSError. An interruption removes the temporary file; only a killed process leaves one, named as above.
    """
    # Named before it is made, unlike mkstemp's: an interruption between the two finds something to remove.
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}"
    try:
        with open(temporary, "xb", opener=_privately) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_permissions(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # once renamed there is none of that name
    _make_durable(path.parent)


def _privately(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _permissions(path: Path) -> int:
    """Those of the file that is replaced; else what any new file would get, which private ones are not."""
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _make_durable(directory: Path) -> None:
    """A rename is a change of the directory, which has a write cache of its own."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
