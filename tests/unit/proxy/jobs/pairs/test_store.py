"""What a job has read survives a kill, and belongs to one job."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from vecsieve.proxy.jobs.pairs.fingerprints import TEXT_BANDS
from vecsieve.proxy.jobs.pairs.joining import GROUP, NEAREST
from vecsieve.proxy.jobs.pairs.store import Page, Sketches, Store, StoreError

OF: dict[str, str | int | float | None] = {"collection": "c", "keep": "first"}


def page(start: int, hashes: list[list[int]], *, texts: list[str | None] | None = None) -> Page:
    """Points with these bands, one after the other from ``start`` on; a band of 0 does not count."""
    n = len(hashes)
    bands = np.array(hashes, np.uint64).reshape(n, -1)
    rows, columns = bands.nonzero()
    return Page(
        start=start,
        vectors=np.arange(start, start + 2 * n, dtype=np.float32).reshape(n, 2),
        there=np.arange(start, start + n),
        has_vector=np.ones(n, np.bool_),
        numbers=np.arange(start, start + n),
        texts=[None] * n if texts is None else texts,
        rank=np.zeros(n),
        size=np.full(n, 10),
        marks=np.arange(n, dtype=np.uint64) + np.uint64(2**63),
        sketches=Sketches(hashes=bands[rows, columns], places=start + rows, bands=columns.astype(np.uint8)),
    )


def pairs_of(store: Store) -> list[list[int]]:
    store.pair_up()
    return [pair for candidate in store.candidates(store.stored()) for pair in candidate.pairs.tolist()]


def test_candidates_come_with_their_vectors_and_texts(tmp_path: Path) -> None:
    with Store(tmp_path, 2, OF) as store:
        store.add(page(0, [[1], [2], [1]], texts=["one", None, None]))
        store.pair_up()
        (candidates,) = store.candidates(store.stored())
        assert candidates.pairs.tolist() == [[0, 2]]
        assert candidates.rows.tolist() == [[0, 1]]
        assert candidates.vectors.tolist() == [[0.0, 1.0], [4.0, 5.0]]
        assert candidates.texts == ["one", None]
        assert store.texts([0, 1]) == {0: "one", 1: None}


def test_candidates_say_whether_a_band_of_their_texts_is_shared(tmp_path: Path) -> None:
    text, other, vector = [5] + [0] * (TEXT_BANDS - 1), [0] * TEXT_BANDS, 1
    with Store(tmp_path, 2, OF) as store:
        store.add(page(0, [[*text, vector], [*other, vector], [*text, vector]]))
        store.pair_up()
        (candidates,) = store.candidates(store.stored())
    assert candidates.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert candidates.of_text.tolist() == [False, True, False]


@pytest.mark.parametrize("joined", [1, 8, 10_000])
def test_however_many_bands_are_joined_together_the_pairs_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: int
) -> None:
    monkeypatch.setattr("vecsieve.proxy.jobs.pairs.store.JOINED", joined)
    bands = np.arange(1, 4 * (TEXT_BANDS + 9) + 1).reshape(4, -1)  # nobody shares one, but for these:
    bands[2, TEXT_BANDS - 1] = bands[1, TEXT_BANDS - 1]
    bands[3, TEXT_BANDS] = bands[0, TEXT_BANDS]
    bands[3, -1] = bands[1, -1]
    with Store(tmp_path, 2, OF) as store:
        store.add(page(0, bands.tolist()))
        store.pair_up()
        (candidates,) = store.candidates(store.stored())
    assert candidates.pairs.tolist() == [[0, 3], [1, 2], [1, 3]]
    assert candidates.of_text.tolist() == [False, True, False]


def test_of_a_large_group_each_point_meets_the_first_and_the_ones_before_it(tmp_path: Path) -> None:
    count = GROUP + 10
    with Store(tmp_path, 2, OF) as store:
        store.add(page(0, [[9]] * count))
        pairs = pairs_of(store)
    assert pairs == [
        [one, two] for one in range(count) for two in range(one + 1, count) if not one or two - one <= NEAREST
    ]


def test_a_page_whose_vectors_alone_were_written_is_read_again(tmp_path: Path) -> None:
    with Store(tmp_path, 2, OF) as store:
        store.add(page(0, [[1], [2]]))
    with (tmp_path / "vectors.f32").open("ab") as file:
        file.write(b"half a page")  # the process was killed before its transaction
    with Store(tmp_path, 2, OF) as store:
        assert store.done == 2
        store.add(page(2, [[1]]))
        store.pair_up()
        (candidates,) = store.candidates(store.stored())
        assert candidates.vectors.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_texts_of_any_length_are_those_that_were_added_and_what_a_kill_left_behind_them_is_cut_off(
    tmp_path: Path,
) -> None:
    texts = ["", "über", None, "x" * 70_000, "日本語", None]
    with Store(tmp_path, 2, OF) as store:
        assert store.texts([]) == {}
        store.add(page(0, [[0], [0], [0]], texts=[None, None, None]))
        assert store.texts([2, 0]) == {2: None, 0: None}
        store.add(page(3, [[0]] * 6, texts=texts))
    for name, left in (("texts.utf8", b"half a t"), ("texts.i64", b"\x01\x02\x03")):
        with (tmp_path / name).open("ab") as file:
            file.write(left)
    with Store(tmp_path, 2, OF) as store:
        store.add(page(9, [[0]], texts=["after"]))
        assert store.texts([9, 6, 4, 7, 5]) == {9: "after", 6: "x" * 70_000, 4: "über", 7: "日本語", 5: None}


def test_all_pairs_come_in_order_however_many_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vecsieve.proxy.jobs.pairs.store.BATCH", 4)
    monkeypatch.setattr("vecsieve.proxy.jobs.pairs.store.READ", 12)
    with Store(tmp_path, 2, OF) as store:
        store.add(page(0, [[5]] * 9))
        store.pair_up()
        batches = [candidates.pairs.tolist() for candidates in store.candidates(store.stored())]
    assert [len(pairs) for pairs in batches] == [4] * 9
    assert [pair for pairs in batches for pair in pairs] == [
        [one, two] for one in range(9) for two in range(one + 1, 9)
    ]


def test_a_page_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = page(0, [[1], [1]])
    with Store(tmp_path, 2, OF) as store:
        with pytest.raises(duckdb.Error):
            store.add(Page(**{**{name: getattr(broken, name) for name in Page.__slots__}, "rank": np.zeros(1)}))
        assert store.done == 0
    with Store(tmp_path, 2, OF) as store:
        assert len(store.stored().places) == 0


def test_the_sample_of_the_first_run_is_kept(tmp_path: Path) -> None:
    first = np.array([[1.0, 2.0]], np.float32)
    with Store(tmp_path, 2, OF) as store:
        assert store.sample(lambda: first).tolist() == first.tolist()
    with Store(tmp_path, 2, OF) as store:
        assert store.sample(lambda: first * 2).tolist() == first.tolist()


def test_a_folder_of_another_job_is_refused_with_what_differs(tmp_path: Path) -> None:
    with Store(tmp_path, 2, OF):
        pass
    with pytest.raises(StoreError, match=r"begun for another job.*\n  keep: the folder has first, now it is newest"):
        Store(tmp_path, 2, {**OF, "keep": "newest"})


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="--work"):
        Store(tmp_path / "file", 2, OF)


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "points.duckdb").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="--work"):
        Store(tmp_path, 2, OF)
