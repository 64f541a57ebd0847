from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.headers import Target, matching_path, read_target


@pytest.mark.parametrize("raw", ["/", "/a?b", "//evil.example/a", "/a/../b", "/%2e%2F", "/a?", "/a?b=/c?d"])
def test_a_path_is_taken_as_it_is(raw: str) -> None:
    assert read_target(raw) == Target(raw=raw, path=raw.split("?", maxsplit=1)[0])


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "*",
        "?a",
        "a",
        "@evil/a",
        "http://evil/a",
        "evil:80",
        "/a b",
        "/a\tb",
        "/a\nb",
        "/caf\u00e9",
        "/a\x7f",
        "/\udc80",
    ],
)
def test_every_other_form_is_refused(raw: str) -> None:
    assert read_target(raw) is None


@given(st.text(max_size=30))
def test_a_target_taken_is_forwarded_unchanged(raw: str) -> None:
    # Invariant: either refused, or raw is what came in and begins with a slash.
    target = read_target(raw)
    assert target is None or (target.raw == raw and raw.startswith("/"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/collections/x/points/search", "/collections/x/points/search"),
        ("//collections///x/points/search//", "/collections/x/points/search"),
        ("/", "/"),
        ("///", "/"),
        ("/collections/a%2Fb/points/query", "/collections/a%2Fb/points/query"),
        ("/a/../b", "/a/../b"),
    ],
)
def test_matching_merges_slashes_and_drops_the_last_one(path: str, expected: str) -> None:
    assert matching_path(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/qdrant/collections", "/collections"),
        ("//qdrant//collections/", "/collections"),
        ("/qdrant", "/"),
        ("/qdrants/collections", None),
        ("/collections", None),
    ],
)
def test_a_deployment_prefix_is_taken_off_or_excludes_the_path(path: str, expected: str | None) -> None:
    assert matching_path(path, "/qdrant") == expected


@given(st.text(alphabet="/ab%2F", max_size=20))
def test_matching_is_idempotent(path: str) -> None:
    # Invariant: the path that decides is its own normal form.
    once = matching_path("/" + path)
    assert once is not None
    assert matching_path(once) == once
