from __future__ import annotations

import json

import pytest

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.qdrant.rest_request import Payload, Vectors, plan_payload, read_vectors, widen_vectors


def planned(selector: str | None, *fields: str) -> Payload:
    text = b"" if selector is None else selector.encode()
    return plan_payload(text, None if selector is None else (0, len(text)), fields)


@pytest.mark.parametrize("selector", [None, "null", "false", "true", "[]", '["a"]', '{"exclude":["k"]}', "5", '"x"'])
def test_nothing_is_planned_where_no_field_is_needed(selector: str | None) -> None:
    plan = planned(selector)
    assert (plan.value, plan.is_forced, plan.added) == (None, False, ())


@pytest.mark.parametrize("selector", [None, "null", "false"])
def test_a_payload_nobody_asked_for_is_asked_for_key_by_key_and_all_ours(selector: str | None) -> None:
    plan = planned(selector, "k", "other-key")
    assert plan.value == b'["k","other-key"]'
    assert plan.is_forced


def test_the_whole_payload_needs_nothing() -> None:
    assert planned("true", "k", "not.simple").value is None


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
    plan = planned(selector, "k")
    assert (plan.value, plan.is_forced, plan.added) == (value, False, added)


def test_only_the_missing_keys_are_added() -> None:
    assert planned('["b"]', "a", "b", "c").added == ("a", "c")


def test_an_exclusion_that_spares_the_key_is_left() -> None:
    plan = planned('{"exclude":["a","b.k"]}', "k")
    assert (plan.value, plan.is_forced, plan.added) == (None, False, ())


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


def optional(selector: str | None, *fields: str, must: tuple[str, ...] = ()) -> Payload:
    text = b"" if selector is None else selector.encode()
    return plan_payload(text, None if selector is None else (0, len(text)), must, fields)


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
    plan = optional(selector, "k", "l")
    assert (plan.value, plan.is_forced, plan.added) == (value, False, added)


def test_optional_keys_that_read_like_a_path_are_left_out() -> None:
    assert optional(None, "k", "a.b", "größe", "a b", "").value == b'["k"]'
    assert optional("false", "a.b").value is None
    assert optional('["a"]', "a.b").value is None


def test_optional_keys_come_behind_the_others_and_once() -> None:
    assert optional("null", "k", "t", must=("t",)).value == b'["t","k"]'
    assert optional('["a"]', "k", "t", must=("t",)).value == b'["a","t","k"]'


@pytest.mark.parametrize("selector", ['["t.part"]', '{"exclude":["t"]}', "5", '{"include":["a"],"include":["b"]}'])
def test_a_key_that_is_a_must_is_none_the_less_beside_optional_ones(selector: str) -> None:
    with pytest.raises((UnsupportedError, ValueError)):
        optional(selector, "k", must=("t",))


def test_optional_keys_are_not_forced_on_a_client_without_payload_unless_they_may_be() -> None:
    for selector in (b"", b"null", b"false"):
        span = (0, len(selector)) if selector else None
        assert plan_payload(selector, span, (), ("k",), may_force=False) == Payload(span, is_cut=True)
        assert plan_payload(selector, span, ("t",), ("k",), may_force=False).value == b'["t"]'
    assert plan_payload(b'["a"]', (0, 5), (), ("k",), may_force=False).added == ("k",)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, False), ("null", False), ("false", False), ("true", True), ("[]", ()), ('["", "a"]', ("", "a"))],
)
def test_vector_selectors_are_read(text: str | None, wanted: bool | tuple[str, ...]) -> None:
    body = (text or "").encode()
    assert read_vectors(body, None if text is None else (0, len(body))).wanted == wanted


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


def test_an_absent_selector_becomes_a_list() -> None:
    value = widen_vectors(b"", Vectors(wanted=False, span=None), "größe")
    assert value is not None
    assert json.loads(value) == ["größe"]


@pytest.mark.parametrize(
    ("selector", "is_cut"),
    [
        (b"true", False),
        (b"false", False),
        (b"[]", False),
        (b'["k"]', False),
        (b'["k.a"]', True),
        (b'["k[].a", "x"]', True),
        (b'["\\"k\\""]', True),
        (b'{"include":["x"]}', False),
        (b'{"exclude":["x"]}', False),
        (b'{"exclude":["k"]}', True),
        (b'{"exclude":["k.a"]}', True),
        (b'{"exclude":["x"],"exclude":["k"]}', True),
    ],
)
def test_a_plan_says_whether_optional_keys_come_whole(selector: bytes, is_cut: bool) -> None:
    assert plan_payload(selector, (0, len(selector)), (), ("k",)).is_cut is is_cut
    assert plan_payload(selector, (0, len(selector)), (), ("k", "a.b")).is_cut is (is_cut or selector != b"true")
    assert not plan_payload(selector, (0, len(selector)), (), ()).is_cut
