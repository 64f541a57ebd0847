"""Where points lie: what is taken is counted, and the longest unused leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.memory.shelves import POINT_BYTES, Shelf, is_coarse, packed

DIMENSION = 8


def shelf(capacity: int = 64) -> Shelf:
    return Shelf(DIMENSION, capacity, is_exact=False)


def filled(made: Shelf, count: int) -> dict[bytes, int]:
    """So many points of an owner, each with its number as the stamp."""
    owner: dict[bytes, int] = {}
    for number in range(count):
        slot = made.take(owner, b"%d" % number)
        assert slot is not None
        made.stamps[slot] = number
    return owner


def counted(made: Shelf) -> tuple[int, int]:
    """Points and bytes by a look at each slot."""
    used = [slot for slot, owner in enumerate(made.owners) if owner is not None]
    return len(used), sum([made.row_bytes + len(made.names[slot]) for slot in used])


@given(steps=st.lists(st.sampled_from(["take", "drop", "evict"]), max_size=40), seed=st.integers(0, 9))
def test_points_and_bytes_are_those_of_the_slots(steps: list[str], seed: int) -> None:
    """Invariant: after any steps the counts are the sums over the slots, and each name leads to its own slot."""
    made, draw, number = shelf(16), np.random.default_rng(seed), 0
    owner: dict[bytes, int] = {}
    for step in steps:
        if step == "take":
            slot = made.take(owner, b"%d" % number)
            if slot is not None:
                made.stamps[slot] = number
            number += 1
        elif step == "drop" and owner:
            made.drop(owner.pop(draw.choice(sorted(owner))))
        elif step == "evict":
            made.evict()
        assert counted(made) == (made.points, made.stored_bytes)
        assert made.points == len(owner) == len(set(owner.values()))
        assert all(made.names[slot] == name for name, slot in owner.items())


def test_a_full_shelf_has_no_slot_until_the_longest_unused_point_has_left() -> None:
    made = shelf(8)
    owner = filled(made, 8)
    assert made.take(owner, b"other") is None
    assert made.evict() == 1
    assert b"0" not in owner
    assert made.take(owner, b"other") is not None


def test_an_empty_shelf_evicts_nothing() -> None:
    assert shelf().evict() == 0


def test_a_point_takes_its_row_its_name_and_the_rest() -> None:
    made, owner = shelf(), dict[bytes, int]()
    slot = made.take(owner, b"name")
    assert slot is not None
    assert made.stored_bytes == 2 * DIMENSION + len(b"name") + POINT_BYTES
    made.drop(owner.pop(b"name"))
    assert made.stored_bytes == made.points == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_a_row_that_is_zero_or_not_finite_has_no_scale_and_changes_no_other(bad: float) -> None:
    rows = np.random.default_rng(0).standard_normal((4, DIMENSION)).astype(np.float32)
    values, scales = packed(rows)
    spoilt = rows.copy()
    spoilt[2] = bad
    quantized, their_scales = packed(spoilt)
    assert their_scales[2] == 0.0
    assert not quantized[2].any()
    assert (np.delete(quantized, 2, axis=0) == np.delete(values, 2, axis=0)).all()
    assert (np.delete(their_scales, 2) == np.delete(scales, 2)).all()


@pytest.mark.parametrize(("mean", "coarse"), [(0.0, False), (1.0, False), (1000.0, True)])
def test_rows_are_coarse_where_16_bits_blur_their_differences(mean: float, coarse: bool) -> None:
    rows = (np.random.default_rng(0).standard_normal((50, 96)) + mean).astype(np.float32)
    values, scales = packed(rows)
    kept = values * scales[:, None]
    assert is_coarse(kept, np.einsum("ij,ij->i", kept, kept), scales) is coarse
    assert is_coarse(kept[:1], np.einsum("ij,ij->i", kept[:1], kept[:1]), scales[:1]) is False


def test_a_far_candidate_does_not_blur_those_that_are_near_each_other() -> None:
    """Beside it their differences are nothing, and among themselves everything."""
    rows = (np.random.default_rng(0).standard_normal((50, 96)) * 0.01 + 1000.0).astype(np.float32)
    rows[-1] += np.float32(100.0)
    values, scales = packed(rows)
    kept = values * scales[:, None]
    assert is_coarse(kept, np.einsum("ij,ij->i", kept, kept), scales)


def test_copies_alone_are_not_coarse() -> None:
    rows = np.repeat(np.random.default_rng(0).standard_normal((1, 96)).astype(np.float32), 30, axis=0)
    values, scales = packed(rows)
    kept = values * scales[:, None]
    assert not is_coarse(kept, np.einsum("ij,ij->i", kept, kept), scales)
