from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.chroma.rest import Column, read_columns, read_echo
from vecsieve.adapters.wire.json import members_of, whole


def columns(text: bytes) -> dict[str, Column]:
    return read_columns(text, members_of(text, whole(text)))


def said(text: bytes, *wanted: str) -> tuple[str, ...] | None:
    echo = read_echo(text, members_of(text, whole(text)), wanted)
    return None if echo is None else echo.columns


def test_a_reply_of_an_older_server_has_a_column_of_which_nothing_is_known_but_that_it_is_null() -> None:
    assert list(columns(b'{"ids":[["a"]],"data":null,"included":[]}')) == ["ids"]
    with pytest.raises(ValueError, match="data"):
        columns(b'{"ids":[["a"]],"data":[["x"]]}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{}", "no ids"),
        (b'{"ids":null}', "null"),
        (b'{"ids":[["a"]],"scores":[[1]]}', "unknown"),
        (b'{"ids":[["a"]],"documents":[["x","y"]]}', "other rows"),
        (b'{"ids":[["a"]],"documents":[["x"],["y"]]}', "other rows"),
        (b'{"ids":[["a"]],"documents":[]}', "other rows"),
        (b'{"ids":[[1]]}', "kind"),
        (b'{"ids":[[null]]}', "kind"),
        (b'{"ids":[["a"]],"documents":[[1]]}', "kind"),
        (b'{"ids":[["a"]],"metadatas":[["x"]]}', "kind"),
        (b'{"ids":[["a"]],"distances":[["1"]]}', "kind"),
        (b'{"ids":[["a"]],"embeddings":[["AACAPw=="]]}', "kind"),
        (b'{"ids":["a"]}', "JSON"),
        (b'{"ids":[["a"]],"ids":[["a"]]}', "repeated"),
    ],
)
def test_what_is_no_table_is_not_read(text: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        columns(text)


def test_what_was_included_is_repeated_in_order_and_by_older_servers_in_any() -> None:
    assert said(b'{"include":["uris","documents"]}', "uris", "documents") == ("uris", "documents")
    assert said(b'{"included":["uris","documents"]}', "documents", "uris", "uris") == ("uris", "documents")
    assert said(b"{}", "uris") is None
    for text in (b'{"include":["documents","uris"]}', b'{"included":["uris"]}', b'{"include":[],"included":[]}'):
        with pytest.raises(ValueError, match="list of included columns"):
            said(text, "uris", "documents")


@given(text=st.binary(max_size=60))
def test_arbitrary_bytes_are_no_table(text: bytes) -> None:
    """Invariant: whatever the bytes, the only exception is ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011 - the words depend on where the reader stopped
        columns(text)
