"""Where a payload keeps what selection reads of it beside the vector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Payload keys or dotted paths, the first one present counts; () = not looked at.

    ``citations``: all of them, counted. ``chunk_size`` turns a chunk's number i into the span [i * (size - overlap), + size);
    None makes it [i, i + 1).
    """

    text: tuple[str, ...]
    document: tuple[str, ...]
    section: tuple[str, ...]
    source: tuple[str, ...]
    span_start: tuple[str, ...]
    span_end: tuple[str, ...]
    chunk_index: tuple[str, ...]
    updated: tuple[str, ...]
    citations: tuple[str, ...]
    chunk_size: int | None
    chunk_overlap: int

    def top_level(self) -> tuple[str, ...]:
        """The distinct first keys, in order: what the adapter is asked for."""
        paths = (
            *self.text,
            *self.document,
            *self.section,
            *self.source,
            *self.span_start,
            *self.span_end,
            *self.chunk_index,
            *self.updated,
            *self.citations,
        )
        return tuple(dict.fromkeys(path.split(".", 1)[0] for path in paths))
