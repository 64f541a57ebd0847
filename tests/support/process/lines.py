"""A log sink that remembers."""

from __future__ import annotations

import json


class RememberedLines:
    """Holds every line in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.is_closed = False

    def put(self, line: bytes) -> None:
        self.lines.append(line)

    def close(self) -> None:
        self.is_closed = True

    @property
    def text(self) -> str:
        return b"".join(self.lines).decode("ascii")

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines]
