"""What a journal has of points that were left out."""

from __future__ import annotations

from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import Row


def rows_left_out(
    book: Book,
    *,
    collection: str | None = None,
    since: float = 0.0,
    id: bytes | None = None,  # noqa: A002 - as the option
) -> list[Row]:
    """The rows that are DONE, oldest first."""
    heads = book.heads(collection=collection, since=since, ids=None if id is None else [id])
    return book.rows([head.number for head in heads])
