"""Pool sizes: enough, in steps, never more than allowed, never less than the client asked for."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.schema import Settings
from vecsieve.proxy.search.fetch import bucket, fetch_k, grown_fetch_k, grown_page_fetch_k, page_fetch_k
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.selection.paged import BLOCK


def policy(*, exact: int | None = None, **fetch: object) -> ResolvedPolicy:
    made = Policies(Settings.model_validate({"policy": {"fetch": fetch}})).resolve("qdrant", "c")
    return dataclasses.replace(made, exact_fetch=exact)


@pytest.mark.parametrize(
    ("top_k", "size"),
    [(1, 24), (4, 24), (5, 32), (8, 40), (10, 50), (11, 64), (20, 100), (21, 128), (40, 200), (41, 256), (200, 256)],
)
def test_a_default_pool_is_five_times_top_k_in_steps_from_24_to_256(top_k: int, size: int) -> None:
    assert fetch_k(top_k, policy=policy(), cap=None) == size


def test_a_pool_in_which_chunks_are_exchanged_is_a_block() -> None:
    made = Policies(Settings.model_validate({"policy": {"overlap": "exchange"}})).resolve("qdrant", "c")
    assert [fetch_k(top_k, policy=made, cap=None) for top_k in (1, 5, 10, 11)] == [BLOCK, BLOCK, BLOCK, 64]
    assert not made.is_by_rank  # a chunk from behind the page may stand on it, so a smaller pool is another page


def test_a_pool_is_never_smaller_than_what_the_client_asked_for() -> None:
    assert fetch_k(500, policy=policy(), cap=None) == 500
    assert fetch_k(50, policy=policy(), cap=30) == 50


def test_the_classical_recipe_fetches_fifty() -> None:
    assert [fetch_k(top_k, policy=policy(factor=1.0, floor=50), cap=None) for top_k in (1, 10, 50)] == [50, 50, 50]


def test_a_fraction_of_a_candidate_is_a_candidate() -> None:
    assert fetch_k(21, policy=policy(factor=1.55, floor=1), cap=None) == 40  # 32.55 does not fit into 32


def test_the_backends_own_limit_bounds_the_pool() -> None:
    assert fetch_k(10, policy=policy(), cap=45) == 45
    assert grown_fetch_k(24, policy=policy(), cap=45) == 45
    assert page_fetch_k(10, 30, policy=policy(), cap=70) == 50
    assert page_fetch_k(10, 50, policy=policy(), cap=70) is None
    assert grown_page_fetch_k(50, policy=policy(), cap=120) == 100


def test_a_number_the_client_named_is_used_as_it_is_and_does_not_grow() -> None:
    assert fetch_k(10, policy=policy(exact=33), cap=None) == 33
    assert fetch_k(10, policy=policy(exact=33), cap=20) == 20
    assert fetch_k(10, policy=policy(exact=5), cap=None) == 10
    assert grown_fetch_k(33, policy=policy(exact=33), cap=None) == 33


def test_where_it_is_known_how_many_will_do_a_pool_grows_to_that_step() -> None:
    assert [grown_fetch_k(50, policy=policy(), cap=None, needed=wanted) for wanted in (40, 71, 190, 999)] == [
        50,
        80,
        200,
        256,
    ]
    assert grown_fetch_k(50, policy=policy(), cap=70, needed=71) == 70
    assert grown_fetch_k(33, policy=policy(exact=33), cap=None, needed=71) == 33
    assert [grown_page_fetch_k(50, policy=policy(), cap=None, needed=wanted) for wanted in (40, 71, 9999)] == [
        50,
        100,
        1000,
    ]


@pytest.mark.parametrize(("size", "grown"), [(24, 100), (32, 128), (50, 200), (100, 256), (256, 256), (500, 500)])
def test_a_pool_grows_fourfold_up_to_the_cap(size: int, grown: int) -> None:
    assert grown_fetch_k(size, policy=policy(), cap=None) == grown


@pytest.mark.parametrize(
    ("top_k", "offset", "size"),
    [
        (10, 0, 50),
        (25, 0, 50),
        (26, 0, 100),
        (10, 90, 200),
        (10, 490, 1000),
        (10, 491, 1000),
        (10, 990, 1000),
        (10, 991, None),
        (2000, 0, None),
    ],
)
def test_a_paged_pool_is_twice_the_page_in_whole_blocks(top_k: int, offset: int, size: int | None) -> None:
    assert page_fetch_k(top_k, offset, policy=policy(), cap=None) == size


def test_a_page_cap_that_is_no_whole_block_is_rounded_down() -> None:
    assert page_fetch_k(10, 100, policy=policy(page_cap=240), cap=None) == 200
    assert page_fetch_k(10, 195, policy=policy(page_cap=240), cap=None) is None
    assert grown_page_fetch_k(100, policy=policy(page_cap=240), cap=None) == 200


def test_a_number_the_client_named_is_a_least_size_for_pages() -> None:
    assert page_fetch_k(10, 0, policy=policy(exact=120), cap=None) == 150
    assert page_fetch_k(10, 190, policy=policy(exact=120), cap=None) == 400
    assert grown_page_fetch_k(150, policy=policy(exact=120), cap=None) == 600


def test_a_paged_pool_grows_fourfold_to_the_page_cap_and_stops() -> None:
    sizes = [50]
    while (grown := grown_page_fetch_k(sizes[-1], policy=policy(), cap=None)) != sizes[-1]:
        sizes.append(grown)
    assert sizes == [50, 200, 800, 1000]


def test_the_steps_are_those_of_the_measurements_and_go_on_by_decades() -> None:
    steps = sorted({bucket(wanted) for wanted in range(21, 2001)})
    assert steps == [24, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1000, 1280, 1600, 2000]
    assert bucket(8001) == 10_000
    assert bucket(10**7 - 1) == 10**7


@given(wanted=st.integers(1, 10**9))
def test_a_step_holds_what_is_requested_with_little_waste(wanted: int) -> None:
    """Invariant: bucket(w) is the smallest step >= w, and steps lie at most a third apart from five on."""
    step = bucket(wanted)
    assert step >= wanted
    assert bucket(step) == step
    assert wanted < 5 or step <= wanted * 4 / 3


@given(
    top_k=st.integers(1, 3000),
    offset=st.integers(0, 3000),
    factor=st.floats(1.0, 50.0),
    floor=st.integers(1, 100),
    room=st.integers(0, 1900),
    cap=st.none() | st.integers(1, 3000),
)
def test_sizes_stay_between_what_was_asked_for_and_what_is_allowed(
    top_k: int, offset: int, factor: float, floor: int, room: int, cap: int | None
) -> None:
    """Invariant: top_k <= fetch_k <= max(top_k, caps), likewise for pages; growing never shrinks and comes to an end."""
    made = policy(factor=factor, floor=floor, cap=floor + room, page_cap=floor + room)
    most = min(floor + room, 10**9 if cap is None else cap)
    size = fetch_k(top_k, policy=made, cap=cap)
    assert top_k <= size <= max(top_k, most)
    paged = page_fetch_k(top_k, offset, policy=made, cap=cap)
    assert paged is None or (top_k + offset <= paged <= most and paged % BLOCK == 0)
    for first, grow in ((size, grown_fetch_k), (paged, grown_page_fetch_k)):
        if first is not None:
            sizes = [first]
            for _ in range(6):
                sizes.append(grow(sizes[-1], policy=made, cap=cap))
            assert all(before <= after for before, after in itertools.pairwise(sizes))
            assert sizes[-1] == sizes[-2] <= max(first, most)
