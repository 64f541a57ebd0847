"""With one upstream a target is what it was, and only the prefix decides what is matched."""

from __future__ import annotations

import pytest

from vecsieve.proxy.http.headers import Target
from vecsieve.proxy.http.routes import OneUpstream

TARGET = Target("/db//collections/x/points/search/?a", "/db//collections/x/points/search/")


def test_a_target_goes_where_everything_goes() -> None:
    one = OneUpstream("")
    assert one.find(TARGET, None) is TARGET
    assert one.may_be_private is None
    assert one.editing("GET", (), TARGET) is None


@pytest.mark.parametrize(("prefix", "path"), [("/db", "/collections/x/points/search"), ("/other", None)])
def test_the_prefix_is_taken_off_or_excludes(prefix: str, path: str | None) -> None:
    assert OneUpstream(prefix).matching(TARGET) == path
