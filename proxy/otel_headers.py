"""The file with what the collector wants to see of us: read when the process starts, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from vecsieve.config.problems import Problem, SettingsError

SETTING = "tracing.headers_file"
WANTED = "a readable file with one `name: value` a line"
_LINE = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)[ \t]*")


def headers_of(file: str | None) -> dict[str, str]:
    """Fields by name; none without a file. Empty lines do not count. Raises SettingsError, which says nothing of what is in it."""
    return {} if file is None else dict(_fields(file))


def _fields(file: str) -> Iterator[tuple[str, str]]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        seen = error.strerror if isinstance(error, OSError) and error.strerror else "no text in UTF-8"
        raise SettingsError([Problem(SETTING, f"{file}: {seen}", WANTED)]) from None
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is not None:
            yield found[1], found[2]
        elif line.strip():
            raise SettingsError([Problem(SETTING, f"{file}: something else in line {number}", WANTED)])
