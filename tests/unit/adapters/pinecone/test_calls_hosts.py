"""Hosts in descriptions are replaced where they stand; nothing else of a body moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.pinecone.calls import renamed


def here(host: str) -> str | None:
    """Every host but those that begin with `keep` leads here."""
    return None if host.startswith("keep") else f"http://here/_i/{host}"


ODD = rb""" {"name" : "docs", "host":"docs.svc.x.pinecone.io" ,"metric":"cosine",
 "dimension":1536.0, "note":"a \"host\": \"b\" \u00e9 \ud800", "big":12345678901234567890, "private_host" : "p.svc.private.x.pinecone.io",
 "spec":{"host":"inner","private_host":"inner"}, "tags":null} """


def test_both_hosts_of_a_description_are_replaced_and_every_other_byte_stays() -> None:
    expected = ODD.replace(b'"docs.svc', b'"http://here/_i/docs.svc').replace(b'"p.svc', b'"http://here/_i/p.svc')
    assert renamed(ODD, here) == expected


def test_every_index_of_a_list_is_replaced() -> None:
    body = b'{"indexes":[{"host":"a","name":"x"},{"name":"y","host":"b","private_host":null},{"name":"z"},3,null]}'
    expected = b'{"indexes":[{"host":"http://here/_i/a","name":"x"},{"name":"y","host":"http://here/_i/b","private_host":null},{"name":"z"},3,null]}'
    assert renamed(body, here) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'"host"',
        b'{"indexes":[]}',
        b'{"indexes":null}',
        b'{"indexes":{"host":"a"}}',
        b'{"host":null,"private_host":null}',
        b'{"host":["a"]}',
        b'{"assistants":[{"host":"a"}]}',
        b'{"data":{"host":"a"}}',
        b'{"host":"keep"}',
        b'{"host":"a","host":"b"}',
        b'{"host":"a"',
        b'{"host":"a"}}',
        b'{"host":"\\ud800"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_has_no_host_or_cannot_be_read_is_left_as_it_is(body: bytes) -> None:
    assert renamed(body, here) == body


def test_an_escaped_key_and_an_escaped_host_are_read_for_what_they_are() -> None:
    assert renamed(b'{"h\\u006fst":"a\\u002eb"}', here) == b'{"h\\u006fst":"http://here/_i/a.b"}'


def test_a_new_name_is_written_as_json() -> None:
    assert renamed(b'{"host":"a"}', lambda _: 'x"\\\u00e9') == b'{"host":"x\\"\\\\\\u00e9"}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["host", "private_host", "indexes", "name", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def by_hand(tree: Any) -> Any:
    """The same on the parsed tree."""

    def of_one(index: Any) -> Any:
        if not isinstance(index, dict):
            return index
        return {
            key: (here(value) or value) if key in {"host", "private_host"} and isinstance(value, str) else value
            for key, value in index.items()
        }

    tree = of_one(tree)
    if isinstance(tree, dict) and isinstance(tree.get("indexes"), list):
        tree = {**tree, "indexes": [of_one(index) for index in tree["indexes"]]}
    return tree


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_the_splice_says_what_the_parsed_tree_would(tree: Any, indent: int | None, ascii_only: bool) -> None:
    """Invariant: parsing the changed body gives the tree changed by hand, and a body without hosts is untouched."""
    body = json.dumps(tree, indent=indent, ensure_ascii=ascii_only).encode()
    changed = renamed(body, here)
    assert json.loads(changed) == by_hand(tree)
    if by_hand(tree) == tree:
        assert changed == body


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\host ab', max_size=60).map(str.encode))
def test_whatever_the_bytes_nothing_is_raised_and_no_change_means_no_change(body: bytes) -> None:
    """Invariant: total; a rename to nothing gives the body back."""
    renamed(body, here)
    assert renamed(body, lambda _: None) == body
