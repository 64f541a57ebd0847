"""A settings file is Settings that read back the same, or a SettingsError of short lines that name a place; nothing else is raised."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

from vecsieve.config.fields import leaves
from vecsieve.config.load import load
from vecsieve.config.problems import MASK, SettingsError
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import effective

ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = (
    *sorted({str(part).encode() + b": " for leaf in leaves() for part in leaf.path}),
    *(b"&a ", b"*a", b"<<: ", b"- ", b"!!python/name:os.system", b"!!int ", b"%YAML 1.2", b"---\n", b"...\n", b"? "),
    *(b"|\n ", b'"\\ud800"', b"0x7fffffffffffffff", b".inf", b".nan", b"1e999", b"~", b"[[[[[", b"{{{{", b"\xef\xbb\xbf", b"\n  "),
)  # fmt: skip
LONGEST_LINE = 1_000  # a place of many long keys, and what was wanted and seen


def seeds() -> list[bytes]:
    """The examples and the files that are refused."""
    good = [file.read_bytes() for file in sorted((ROOT / "config/examples").glob("*.yaml"))]
    bad = re.sub(rb"(?m)^> .*\n", b"", (ROOT / "tests/unit/config/bad_files.txt").read_bytes())
    return [*good, *re.split(rb"(?m)^== .*\n", bad)[1:], b'listen: "a\x07b"\n', b"mode: \xe9\n"]


@cache
def _file() -> Path:
    """One file for all inputs, in memory where the system has a place for that."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="vecsieve-fuzz-", dir=memory if memory.is_dir() else None)
    return Path(folder) / "settings.yaml"


def check(data: bytes) -> None:
    """Load the bytes as a file, twice when they are settings."""
    _file().write_bytes(data)
    settings = _loaded()
    if settings is None:
        return
    text = effective(settings)
    if MASK not in text:
        _file().write_text(text, encoding="utf-8")
        assert _loaded() == settings, "what is effective reads back the same"


def _loaded() -> Settings | None:
    try:
        return load(file=_file(), environment={}, flags={})
    except SettingsError as error:
        problems = error.problems
    assert problems, "an error says what is wrong"
    for problem in problems:
        line = str(problem)
        assert problem.path, "it says where"
        assert line.isprintable(), f"one line: {line!r}"
        assert len(line) <= LONGEST_LINE, f"{len(line)} characters: {line[:200]}"
    return None
