"""Where points lie: what is taken is counted, what is packed comes back as it was, and the longest unused leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.candidates import Kind, Record
from vecsieve.proxy.search.memory.shelves import POINT_BYTES, Shelf, is_coarse, packed
from vecsieve.proxy.selection.reading.text import text_of

DIMENSION = 8


def shelf(capacity: int = 64) -> Shelf:
    return Shelf(DIMENSION, capacity, is_exact=False)


def record(number: int) -> Record:
    return Record(
        text=text_of(f"a text of point {number}"), text_bytes=20, source=f"Title {number}", updated=(Kind.NUMBER, 2.0)
    )


def filled(made: Shelf, count: int, *, start: int = 0) -> dict[bytes, int]:
    """So many points of an owner, each with its payload values and its number as the stamp."""
    owner: dict[bytes, int] = {}
    for number in range(start, start + count):
        slot = made.take(owner, b"%d" % number)
        assert slot is not None
        made.stamps[slot] = number
        made.keep([slot], [record(number)])
    return owner


def counted(made: Shelf) -> tuple[int, int, int]:
    """Points and bytes by a look at each slot."""
    held = [slot for slot, owner in enumerate(made.owners) if owner is not None]
    read = [slot for slot in held if isinstance(made.records[slot], Record)]
    return len(held), int(made.sizes[held].sum()), int(made.sizes[read].sum())


STEPS = st.lists(st.sampled_from(["take", "drop", "pack", "recall", "evict", "learn again"]), max_size=40)


@given(steps=STEPS, seed=st.integers(0, 9))
def test_points_and_bytes_are_those_of_the_slots(steps: list[str], seed: int) -> None:
    """Invariant: after any steps the counts are the sums over the slots, and each name leads to its own payload values."""
    made, draw, number = shelf(16), np.random.default_rng(seed), 0
    owner: dict[bytes, int] = {}
    for step in steps:
        slots = list(owner.values())
        if step == "take":
            slot = made.take(owner, b"%d" % number)
            if slot is not None:
                made.keep([slot], [record(number)] if number % 3 else None)
                made.stamps[slot] = number
            number += 1
        elif step == "drop" and slots:
            name = draw.choice(sorted(owner))
            made.drop(owner.pop(name))
        elif step == "pack":
            made.pack(3)
        elif step == "recall" and slots:
            made.recall(slots, unpacks=True)
        elif step == "learn again":
            made.keep(slots, [record(int(name)) for name in owner])
        elif step == "evict":
            made.evict()
        assert counted(made) == (made.points, made.held_bytes, made.read_bytes)
        assert made.points == len(owner) == len(set(owner.values()))
        assert set(made.read) <= set(owner.values())
    for name, slot in owner.items():
        found = made.recall([slot], unpacks=True)
        assert found is None or found[0].says_the_same(record(int(name)))


def test_packed_payload_values_are_recalled_as_they_were_and_take_less() -> None:
    made = shelf()
    slots = list(filled(made, 10).values())
    before = made.recall(slots, unpacks=False)
    assert before is not None
    read = [each.text.passages() for each in before if each.text is not None]
    assert read
    held = made.held_bytes
    assert made.pack(4) == 4
    assert made.pack(100) == 6
    assert made.read_bytes == 0
    assert made.held_bytes < 0.6 * held
    assert made.recall(slots, unpacks=False) is None
    assert made.recall(slots, unpacks=True) == before
    assert made.held_bytes == made.read_bytes == held


def test_payload_values_without_a_text_stay_as_they_are() -> None:
    made, owner = shelf(), dict[bytes, int]()
    slot = made.take(owner, b"1")
    assert slot is not None
    made.keep([slot], [Record(source="a title")])
    assert made.pack(10) == 0
    assert made.recall([slot], unpacks=False) == (Record(source="a title"),)


def test_the_first_that_were_read_are_packed_first() -> None:
    made = shelf()
    slots = list(filled(made, 4).values())
    made.pack(2)
    assert [isinstance(made.records[slot], bytes) for slot in slots] == [True, True, False, False]
    made.recall(slots[:1], unpacks=True)
    made.pack(2)
    assert [isinstance(made.records[slot], bytes) for slot in slots] == [False, True, True, True]


def test_a_full_shelf_has_no_slot_until_the_longest_unused_point_has_left() -> None:
    made = shelf(8)
    owner = filled(made, 8)
    assert made.take(owner, b"other") is None
    assert made.evict() == 1
    assert b"0" not in owner
    assert made.take(owner, b"other") is not None


def test_an_empty_shelf_evicts_nothing() -> None:
    assert shelf().evict() == 0


def test_a_point_without_payload_values_takes_its_row_its_name_and_the_rest() -> None:
    made, owner = shelf(), dict[bytes, int]()
    slot = made.take(owner, b"name")
    assert slot is not None
    made.keep([slot], None)
    assert made.held_bytes == 2 * DIMENSION + len(b"name") + POINT_BYTES
    made.drop(owner.pop(b"name"))
    assert made.held_bytes == made.points == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_a_row_that_is_zero_or_not_finite_has_no_scale_and_changes_no_other(bad: float) -> None:
    rows = np.random.default_rng(0).standard_normal((4, DIMENSION)).astype(np.float32)
    values, scales = packed(rows)
    spoilt = rows.copy()
    spoilt[2] = bad
    found, their_scales = packed(spoilt)
    assert their_scales[2] == 0.0
    assert not found[2].any()
    assert (np.delete(found, 2, axis=0) == np.delete(values, 2, axis=0)).all()
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
