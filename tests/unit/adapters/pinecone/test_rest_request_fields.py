from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.pinecone.rest_request import Selected, of_documents, of_records
from vecsieve.adapters.wire.json import splice

NAMES = st.lists(st.sampled_from(["text", "doc", "größe", 'a"b', "t*", "_id", "_score"]), max_size=4)


def records(text: bytes | None, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Selected:
    return of_records(text or b"", None if text is None else (0, len(text)), required, optional)


def documents(text: bytes | None, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Selected:
    if text is None:
        return of_documents(b'{"top_k":2}', None, 0, required, optional)
    return of_documents(text, (0, len(text)), 0, required, optional)


def edited(text: bytes, selected: Selected) -> bytes:
    return splice(text, [selected.edit] if selected.edit else [])


def test_missing_fields_are_put_behind_the_listed_ones() -> None:
    text = b'[ "text" , "a" ]'
    selected = records(text, ("tenant",), ("text", "größe"))
    assert edited(text, selected) == '[ "text" , "a" ,"tenant","größe"]'.encode()
    assert selected.added == {"tenant", "größe"}
    assert selected.readable == {"tenant", "text", "größe"}


@pytest.mark.parametrize("text", [b"[]", b'["te*"]'])
def test_a_list_of_which_the_meaning_is_not_sure_is_not_widened(text: bytes) -> None:
    assert records(text, (), ("text",)) == Selected(None, frozenset(), frozenset())
    assert reason_of(records, text, ("tenant",), ("text",)) is Reason.PAYLOAD_SELECTOR


def test_names_that_are_no_fields_are_never_asked_for() -> None:
    assert documents(None, (), ("_id", "_score", "a*", "a", "a")).added == {"a"}
    with pytest.raises(UnsupportedError):
        documents(None, ("a*",))


@pytest.mark.parametrize("text", [b'"text"', b"{}", b"[1]", b'["\\ud800"]', b"true"])
def test_what_is_no_list_of_names_is_left_to_the_service(text: bytes) -> None:
    for select in (records, documents):
        assert reason_of(select, text, (), ("text",)) is Reason.AMBIGUOUS_FIELD


@given(listed=NAMES, required=NAMES, optional=NAMES, indent=st.sampled_from([None, 1]))
def test_the_widened_list_is_the_clients_and_what_was_added(
    listed: list[str], required: list[str], optional: list[str], indent: int | None
) -> None:
    """Invariant: the client's names stay in front, the added ones are wanted, new and each there once."""
    text = json.dumps(listed, indent=indent).encode()
    try:
        selected = documents(text, required, optional)
    except UnsupportedError:
        hopeless = {name for name in required if "*" in name or name in {"_id", "_score"}} - set(listed)
        assert hopeless or any("*" in name for name in listed)
        return
    names = json.loads(edited(text, selected))
    assert names[: len(listed)] == listed
    assert sorted(names[len(listed) :]) == sorted(selected.added)
    assert not selected.added & set(listed)
    assert selected.added <= {*required, *optional}
    assert set(required) <= selected.readable
