"""Daft finds the pairs that DuckDB finds. Without the package only DuckDB's are looked at; `make runners` installs it, with Ray."""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pytest

from vecsieve.proxy.jobs.pairs.fingerprints import TEXT_BANDS
from vecsieve.proxy.jobs.pairs.joining import BY_DUCKDB, GROUP, NEAREST, by_daft
from vecsieve.proxy.jobs.pairs.store import Page, Sketches, Store

NEEDS_DAFT = pytest.mark.skipif(find_spec("daft") is None, reason="an extra of 150 MB: `make runners`")


def groups() -> list[tuple[int, int]]:
    """(hash, place), of groups on both sides of every border; equal places under several hashes."""
    draw = np.random.default_rng(6)
    sizes = (1, 2, 3, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP + NEAREST)
    rows = []
    for number, size in enumerate(sizes):
        for place in draw.choice(100, size, replace=False).tolist():
            rows.append((2**64 - 1 - number, place))
    draw.shuffle(rows)
    return [(int(hash_), int(place)) for hash_, place in rows]


def expected_pairs(rows: list[tuple[int, int]]) -> set[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    for hash_ in {row for row, _ in rows}:
        places = sorted(place for row, place in rows if row == hash_)
        for (at, one), (then, other) in combinations(enumerate(places), 2):
            if len(places) <= GROUP or at == 0 or then - at <= NEAREST:
                pairs.add((one, other))
    return pairs


def test_of_a_group_as_many_pairs_are_found_as_its_family_needs() -> None:
    rows = groups()
    with duckdb.connect() as database:
        database.execute("CREATE TABLE bands (band UTINYINT, hash UBIGINT, place BIGINT)")
        database.executemany("INSERT INTO bands VALUES (3, ?, ?)", rows)
        pairs = database.execute(BY_DUCKDB, [3, 4]).fetchall()
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected_pairs(rows)


def filled(folder: Path, rows: list[tuple[int, int]]) -> Store:
    n = 1 + max(place for _, place in rows)
    # Two of texts, the others of vectors.
    bands = {hash_: band for band, hash_ in enumerate(sorted({hash_ for hash_, _ in rows}), TEXT_BANDS - 2)}
    sketches = Sketches(
        hashes=np.array([hash_ for hash_, _ in rows], np.uint64),
        places=np.array([place for _, place in rows], np.int64),
        bands=np.array([bands[hash_] for hash_, _ in rows], np.uint8),
    )
    store = Store(folder, 1, {})
    page = Page(
        start=0,
        vectors=np.zeros((n, 1), np.float32),
        there=np.arange(n),
        has_vector=np.ones(n, np.bool_),
        numbers=np.zeros(n, np.int64),
        texts=[None] * n,
        rank=np.zeros(n),
        size=np.zeros(n, np.int64),
        marks=np.zeros(n, np.uint64),
        sketches=sketches,
    )
    store.add(page)
    return store


@pytest.mark.parametrize(("slice_", "folders"), [(10_000, 1), (60, 4)])
def test_another_engine_gets_all_hashes_in_slices_of_which_no_two_share_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_: int, folders: int
) -> None:
    monkeypatch.setattr("vecsieve.proxy.jobs.pairs.store.SLICE", slice_)
    seen: list[list[tuple[int, int]]] = []

    def join(bands: Path, pairs: Path) -> None:
        for part in sorted(bands.iterdir()):
            query = f"SELECT hash, place, of_text FROM read_parquet('{part}/*.parquet')"
            seen.append([(hash_, place) for hash_, place, _ in duckdb.sql(query).fetchall()])
        pairs.mkdir()

    with filled(tmp_path, groups()) as store:
        store.pair_up(join)
    assert len(seen) <= folders
    assert sorted(row for part in seen for row in part) == sorted(groups())
    hashes = [{hash_ for hash_, _ in part} for part in seen]
    assert sum(map(len, hashes)) == len(set.union(*hashes))


@NEEDS_DAFT
def test_daft_finds_the_pairs_that_duckdb_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair_lists, of_text = [], []
    daft = by_daft(on_ray="SWEEP_ON_RAY" in os.environ)  # once a process
    for name, join, size in (("duckdb", None, 10_000), ("daft", daft, 10_000), ("daft in slices", daft, 60)):
        monkeypatch.setattr("vecsieve.proxy.jobs.pairs.store.SLICE", size)
        folder = tmp_path / f"it's {name}"
        folder.mkdir()
        (folder / "pairs").mkdir()
        (folder / "pairs" / "old.parquet").write_bytes(b"of a run that was killed")
        with filled(folder, groups()) as store:
            store.pair_up(join)
            (entry,) = store.candidates(store.stored())
            pair_lists.append(entry.pairs.tolist())
            of_text.append(entry.of_text.tolist())
        assert {entry.name for entry in folder.iterdir()} <= {
            "points.duckdb",
            "vectors.f32",
            "texts.utf8",
            "texts.i64",
            "facts.utf8",
            "facts.i64",
            "temporary",
        }
    assert pair_lists[0] == pair_lists[1] == pair_lists[2]
    assert of_text[0] == of_text[1] == of_text[2]
    assert len(set(of_text[0])) == 2
    assert set(map(tuple, pair_lists[0])) == expected_pairs(groups())
