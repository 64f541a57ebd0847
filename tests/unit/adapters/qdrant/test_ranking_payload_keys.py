from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.qdrant.ranking import askable, check_excluded, forced, missing

KEYS = st.sampled_from(["a", "b", "a.b", "b[]", '"a"', "größe", ""])


def test_optional_keys_that_need_quoting_or_come_anyway_are_not_asked_for() -> None:
    assert askable(("a", "a.b", "größe", "b", ""), ("b",)) == ("a",)


def test_all_payload_is_ours_where_the_client_wants_none() -> None:
    assert forced(("a",), ("b",)) == ("a", "b")
    assert forced((), ()) == ()
    with pytest.raises(UnsupportedError, match="payload_selector"):
        forced(("a.b",), ("b",))


def test_only_what_the_client_did_not_choose_is_added() -> None:
    assert missing(("a", "c.d"), ("a", "b"), ("c", "d")) == ("b", "d")
    assert missing(("a",), ("a",), ()) == ()
    assert missing((), (), ("d",)) == ("d",)


@pytest.mark.parametrize(
    ("chosen", "fields"),
    [
        (("a.b",), ("a",)),  # a part of it
        (("a[]",), ("a",)),
        (('"a"',), ("a",)),  # quoted
        (("a.b",), ("a.b",)),  # a key that reads like a path
        ((), ("a.b",)),  # one that cannot be asked for by name
    ],
)
def test_what_could_not_be_taken_out_again_is_refused(chosen: tuple[str, ...], fields: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError) as refused:
        missing(chosen, fields, ())
    assert refused.value.reason is Reason.PAYLOAD_SELECTOR


def test_a_part_beside_the_whole_is_the_whole() -> None:
    assert missing(("a.b", "a"), ("a",), ()) == ()


def test_what_the_client_hides_may_be_anything_but_what_is_needed() -> None:
    check_excluded(("b", "c.d"), ("a",))
    for hidden in ("a", "a.b", '"a"'):
        with pytest.raises(UnsupportedError, match="payload_selector"):
            check_excluded(("b", hidden), ("a",))


@given(chosen=st.lists(KEYS, max_size=3), fields=st.lists(KEYS, max_size=2), optional=st.lists(KEYS, max_size=2))
def test_what_is_added_was_not_chosen(chosen: list[str], fields: list[str], optional: list[str]) -> None:
    """Nothing is added that the client's own paths begin with, and every field is there afterwards."""
    try:
        added = missing(chosen, fields, askable(optional, fields))
    except UnsupportedError:
        return
    assert not [path for path in chosen for key in added if path.split(".")[0].split("[")[0] == key]
    assert set(fields) <= set(added) | set(chosen)
