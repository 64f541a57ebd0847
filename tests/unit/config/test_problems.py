"""Problems are one line each, show the value, and never a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.problems import (
    LONGEST_VALUE,
    MASK,
    Path,
    Places,
    Problem,
    SettingsError,
    dotted,
    excerpt,
    is_secret_name,
    masked,
)


def test_an_error_is_its_problems_one_line_each() -> None:
    problems = [Problem("a.b", "5", "text"), Problem("c[0]", "null", "a list")]
    error = SettingsError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == "a.b: wanted text; saw 5\nc[0]: wanted a list; saw null"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("listen",), "listen"),
        (("rules", 2, "policy", "threshold", "fixed"), "rules[2].policy.threshold.fixed"),
        (("a b", "c\nd"), '"a b"."c\\nd"'),
        (("x" * 100,), "x" * 39 + "…"),
    ],
)
def test_a_path_is_dotted_with_indices(path: Path, text: str) -> None:
    assert dotted(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (0.15, "0.15"),
        (True, "true"),
        (None, "null"),
        ("5", '"5"'),
        ((1, "a"), '[1, "a"]'),
        ({"a": 1}, '{"a": 1}'),
        ("übung", '"übung"'),
        ("a\u2028b\x85", '"a\\u2028b\\u0085"'),
        (object, "\"<class 'object'>\""),
    ],
)
def test_a_value_is_shown_as_it_would_be_written(value: object, text: str) -> None:
    assert excerpt(value) == text


def test_a_long_value_is_cut() -> None:
    assert len(excerpt("x" * 1000)) == LONGEST_VALUE
    assert excerpt("x" * 1000).endswith("x…")


@pytest.mark.parametrize(
    "name",
    ["api_key", "api-key", "apikey", "key", "Token", "authTokens", "client_secret", "password", "PASSWD", "cookie"],
)
def test_names_that_tell_a_secret(name: str) -> None:
    assert is_secret_name(name) == (name != "authTokens")  # camel case is nobody's spelling in YAML settings
    assert (excerpt("hunter2", name=name) == f'"{MASK}"') == is_secret_name(name)


@pytest.mark.parametrize("name", ["tenant_keys", "keep_alive_seconds", "tokenizer", "monkey", "report_header"])
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://user:hunter2@host:1/p", "http://***@host:1/p"),
        ("http://user:hun@ter2@host", "http://***@host"),
        ("http://user:hun/ter2@host", "http://***@host"),
        ("user:hunter2@host:6333", "***@host:6333"),
        ("//hunter2@host", "//***@host"),
        ("https://host?api_key=hunter2", "https://host?***"),
        ("https://host/a#hunter2", "https://host/a?***"),
        ("https://host/a", "https://host/a"),
    ],
)
def test_what_a_url_carries_beside_host_and_path_is_masked(url: str, text: str) -> None:
    assert masked(url) == text


def test_secrets_are_masked_however_deep_and_whatever_their_type() -> None:
    tree = {"a": [{"token": "hunter2"}, "x://hunter2@h"], "secrets": {"b": "hunter2"}, "key": 5, "password": None}
    assert masked(tree) == {"a": [{"token": MASK}, "x://***@h"], "secrets": MASK, "key": MASK, "password": None}


def test_findings_touch_what_lies_above_and_below_them() -> None:
    faults = Places([("policy", "fetch"), ("listen",)])
    assert faults.touch(("policy", "fetch", "floor"))
    assert faults.touch(("policy",))
    assert faults.touch(("policy", "fetch"))
    assert not faults.touch(("policy", "mmr"))
    assert not faults.touch(("rules", 0))
    assert Places([()]).touch(("rules", 0)), "the whole file"
    assert not Places([]).touch(("rules", 0))


@given(
    value=st.recursive(st.text() | st.integers() | st.floats(), lambda x: st.dictionaries(st.text(), x) | st.lists(x))
)
def test_any_value_is_shown_on_one_short_line(value: object) -> None:
    """Invariant: a value is shown on one printable line of at most LONGEST_VALUE characters."""
    text = excerpt(value)
    assert text.isprintable()
    assert 0 < len(text) <= LONGEST_VALUE


@pytest.mark.parametrize("piece", ["1", "://", "a://b", "@", "x@", "//"])
def test_a_value_of_any_length_is_masked(piece: str) -> None:
    """In quadratic time half a million characters would take minutes."""
    assert masked(piece * 500_000)
