"""A cache within its bound, whatever is put into it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.reading.memo import _OVERHEAD_BYTES, Memo


def memo(bound: int) -> Memo[str, str]:
    return Memo(bound, lambda key, value: len(key) + len(value))


def test_what_was_kept_is_found() -> None:
    cache = memo(10_000)
    cache.keep("a", "x")
    assert (cache.get("a"), cache.get("b"), len(cache)) == ("x", None, 1)


def test_the_longest_unused_makes_room() -> None:
    cache = memo(2 * (_OVERHEAD_BYTES + 2))
    cache.keep("a", "x")
    cache.keep("b", "y")
    assert cache.get("a") == "x"
    cache.keep("c", "z")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("x", None, "z")


def test_what_is_larger_than_the_bound_drives_nothing_out() -> None:
    cache = memo(_OVERHEAD_BYTES + 2)
    cache.keep("a", "x")
    cache.keep("b", "y" * 50)
    assert (cache.get("a"), cache.get("b")) == ("x", None)


def test_keeping_a_key_again_replaces_its_value() -> None:
    cache = memo(10_000)
    cache.keep("a", "x" * 100)
    cache.keep("a", "y")
    assert (cache.get("a"), cache._taken, len(cache)) == ("y", _OVERHEAD_BYTES + 2, 1)


def test_a_cleared_cache_is_empty() -> None:
    cache = memo(10_000)
    cache.keep("a", "x")
    cache.clear()
    assert (cache.get("a"), cache._taken, len(cache)) == (None, 0, 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 900), st.booleans())))
def test_the_bound_is_kept_and_the_sum_is_right(steps: list[tuple[str, int, bool]]) -> None:
    """Invariant: what is counted as taken is the sum of what is kept, at most the bound; a found value is the last one kept."""
    cache, last = memo(2_000), dict[str, str]()
    for key, size, looks in steps:
        if looks:
            assert cache.get(key) in {None, last.get(key)}
            continue
        last[key] = "v" * size
        cache.keep(key, last[key])
        entries = [(key, value) for key in "abcdef" if (value := cache.get(key)) is not None]
        assert cache._taken == sum(len(key) + len(value) + _OVERHEAD_BYTES for key, value in entries) <= 2_000


def test_threads_that_use_it_at_once_fail_never_and_its_bytes_add_up() -> None:
    """The thread of long pools evicts while the loop reads."""
    cache: Memo[int, int] = Memo(20 * (_OVERHEAD_BYTES + 100), lambda _key, _value: 100)

    def use(number: int) -> None:
        for _ in range(50_000):
            number = number * 1_103_515_245 + 12_345 & 0x7FFF_FFFF
            key = (number >> 8) % 40
            if cache.get(key) is None:
                cache.keep(key, key)
            assert set(cache.several([key, None])) <= {key, None}

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(use, (1, 2, 3)))
    finally:
        sys.setswitchinterval(interval)
    assert len(cache) == 20
    assert cache._taken == 20 * (_OVERHEAD_BYTES + 100)
