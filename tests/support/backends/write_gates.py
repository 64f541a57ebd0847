"""What the tests of write gates have in common: vectors, texts, settings of a mode, the originals that notes name, `vecsieve undo`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from support.process.commands import forked_command

SIZE = 8


def vector(axis: int, *, length: float = 1.0) -> list[float]:
    return [length if place == axis else 0.0 for place in range(SIZE)]


def text_with(word: str) -> str:
    """A text with this word: one word alone, the same in all points, is not taken for a text. The case of words of four letters does not count."""
    return f"{word} is the text of this point"


def settings(folder: Path) -> Path:
    """A file with a tenant's key."""
    made = folder / "settings.yaml"
    made.write_text("policy: {tenant_keys: [team], write: {mode: annotate}}\n")
    return made


def originals(metadatas: list[Any]) -> list[object]:
    notes = [json.loads((metadata or {}).get("_vecsieve", "null")) for metadata in metadatas]
    return [None if note is None else note["duplicate_of"] for note in notes]


def ten_minutes_later(journal: Path) -> None:
    """What was stored shows in reads, as far as the gate knows."""
    with closing(sqlite3.connect(journal)) as file, file:
        file.execute("DELETE FROM unseen")


def undone(journal: Path, url: str, backend: str) -> tuple[int, str]:
    """The exit code of `vecsieve undo --apply`, and what it says. In a process: Chroma's client leaves its connections open."""
    arguments = ("undo", "--journal", str(journal), "--url", url, "--backend", backend, "--apply")
    done = forked_command(*arguments)
    return done.returncode, done.stdout + done.stderr


def restored(journal: Path, url: str, backend: str) -> str:
    """The same where it must succeed: what it says."""
    code, words = undone(journal, url, backend)
    assert code == 0, words
    return words


def writing(mode: str, journal: Path, *ignore: str) -> dict[str, str]:
    """``ignore``: fields in which copies may differ."""
    made = journal.with_suffix(".yaml")
    made.write_text(f"policy: {{ignore: {json.dumps(ignore)}}}\n")
    variables = {"VECSIEVE_POLICY_WRITE_MODE": mode, "VECSIEVE_JOURNAL_PATH": str(journal)}
    return {**variables, "VECSIEVE_CONFIG": str(made)}
