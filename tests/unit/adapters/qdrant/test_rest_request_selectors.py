from __future__ import annotations

import pytest

from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.qdrant.ranking import Payload
from vecsieve.adapters.qdrant.rest_request import read_payload, read_vectors, widen_payload, widen_vectors


def planned(
    selector: str | None, *fields: str, optional: tuple[str, ...] = (), may_force: bool = True
) -> tuple[bytes | None, Payload]:
    """The new selector, and the additions."""
    text, span = (selector or "").encode(), None if selector is None else (0, len(selector.encode()))
    payload = read_payload(text, span, Needs(payload_fields=fields, optional_fields=optional), may_force=may_force)
    return widen_payload(text, span, payload)[1], payload


@pytest.mark.parametrize("selector", [None, "null", "false", "true", "[]", '["a"]', '{"exclude":["k"]}', "5", '"x"'])
def test_nothing_is_planned_where_no_field_is_needed(selector: str | None) -> None:
    assert planned(selector) == (None, Payload())


@pytest.mark.parametrize(
    ("selector", "value", "added"),
    [
        ("[]", b'["k"]', ("k",)),
        ('["a"]', b'["a","k"]', ("k",)),
        ('[ "a" , "a.b" ]', b'[ "a" , "a.b" ,"k"]', ("k",)),
        ('["k"]', None, ()),
        ('["a","k"]', None, ()),
        ('{"include":["a"]}', b'["a","k"]', ("k",)),
        ('{"include":["k"]}', None, ()),
        ('["kk","k_","k-1"]', b'["kk","k_","k-1","k"]', ("k",)),
    ],
)
def test_missing_keys_are_added_to_a_list(selector: str, value: bytes | None, added: tuple[str, ...]) -> None:
    assert planned(selector, "k") == (value, Payload(added))


def test_an_exclusion_that_spares_the_key_is_left() -> None:
    assert planned('{"exclude":["a","b.k"]}', "k") == (None, Payload())


@pytest.mark.parametrize(
    "selector",
    [
        '["k.part"]',
        '["k[]"]',
        '["k[0].part"]',
        '["\\"k\\""]',
        '{"include":["k.part"]}',
        '{"exclude":["k"]}',
        '{"exclude":["k.part"]}',
        '{"exclude":["\\"k\\""]}',
        '{"include":["a"],"exclude":["b"]}',
        '{"something":["a"]}',
        "{}",
        "5",
        '"k"',
        '["a",1]',
        '{"include":"k"}',
        '["größe"]',
    ],
)
def test_a_selection_that_could_not_be_restored_is_unsupported(selector: str) -> None:
    fields = ("gr",) if "gr" in selector else ("k",)
    with pytest.raises(UnsupportedError) as caught:
        planned(selector, *fields)
    assert caught.value.reason is Reason.PAYLOAD_SELECTOR


@pytest.mark.parametrize("selector", [None, "[]", '["a.b"]', '{"include":[]}'])
def test_a_key_that_reads_like_a_path_is_never_asked_for(selector: str | None) -> None:
    with pytest.raises(UnsupportedError):
        planned(selector, "a.b")


@pytest.mark.parametrize(
    ("selector", "value", "added"),
    [
        ('["a"]', b'["a","k","l"]', ("k", "l")),
        ('["a","k"]', b'["a","k","l"]', ("l",)),
        ('["k.part"]', b'["k.part","l"]', ("l",)),
        ('["k[].part","k"]', b'["k[].part","k","l"]', ("l",)),
        ('{"include":["k.part","l"]}', None, ()),
        ('{"exclude":["k"]}', None, ()),
        ('["\\"k\\""]', None, ()),
        ('{"include":["a"],"exclude":["b"]}', None, ()),
        ('{"include":["a"],"include":["b"]}', None, ()),
        ("{}", None, ()),
        ("5", None, ()),
        ('["a",1]', None, ()),
        ("true", None, ()),
    ],
)
def test_an_optional_key_that_could_not_be_restored_costs_itself_alone(
    selector: str, value: bytes | None, added: tuple[str, ...]
) -> None:
    found, plan = planned(selector, optional=("k", "l"))
    assert (found, plan.is_forced, plan.added) == (value, False, added)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, False), ("null", False), ("false", False), ("true", True), ("[]", ()), ('["", "a"]', ("", "a"))],
)
def test_vector_selectors_are_read(text: str | None, wanted: bool | tuple[str, ...]) -> None:
    body = (text or "").encode()
    assert read_vectors(body, None if text is None else (0, len(body))).selection == wanted


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (b"true", "a", None),
        (b"true", None, None),
        (b"false", None, b"true"),
        (b'["a"]', None, b"true"),
        (b"false", "a", b'["a"]'),
        (b'["b"]', "a", b'["b","a"]'),
        (b'["a"]', "a", None),
        (b"[\n]", 'q"', b'[\n"q\\""]'),
    ],
)
def test_the_compared_vector_is_added_where_it_is_missing(
    text: bytes, name: str | None, expected: bytes | None
) -> None:
    assert widen_vectors(text, read_vectors(text, (0, len(text))), name) == expected


@pytest.mark.parametrize(
    ("selector", "is_cut"),
    [
        ("true", False),
        ("false", False),
        ("[]", False),
        ('["k"]', False),
        ('["k.a"]', True),
        ('["k[].a", "x"]', True),
        ('["\\"k\\""]', True),
        ('{"include":["x"]}', False),
        ('{"exclude":["x"]}', False),
        ('{"exclude":["k"]}', True),
        ('{"exclude":["k.a"]}', True),
        ('{"exclude":["x"],"exclude":["k"]}', True),
    ],
)
def test_a_plan_says_whether_optional_keys_come_whole(selector: str, is_cut: bool) -> None:
    assert planned(selector, optional=("k",))[1].is_cut is is_cut
    assert planned(selector, optional=("k", "a.b"))[1].is_cut is (is_cut or selector != "true")
    assert not planned(selector)[1].is_cut
