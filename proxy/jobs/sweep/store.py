"""What a sweep has read of a collection, on disk: points and bands in DuckDB, vectors in one raw file beside it.

DuckDB joins the bands out of core, within a bound of memory, so that a laptop's disk and not its memory limits the size of a
collection. A page is added as a whole: the file of vectors first, then one transaction. After a kill, what the transaction does not
know of is cut off, and reading goes on behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import one_line
from vecsieve.proxy.selection.text.tokens import Hashes
from vecsieve.proxy.selection.values import FloatMatrix

Places = npt.NDArray[np.int64]

FORMAT = 1
MEMORY_MB = 512  # of DuckDB; beyond it a join goes to the disk
BATCH = 4096  # pairs that are looked at together: 12 MB of vectors at 384 dimensions
# Points that share a band. Of a larger group each point meets the first one and so many before it: all pairs of a thousand
# equal texts would be half a million, and their family needs a thousand.
GROUP, NEAREST = 32, 8
_ITEM = 4  # bytes of a float32

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name VARCHAR PRIMARY KEY, value VARCHAR);
CREATE TABLE IF NOT EXISTS points (
    place BIGINT, has_vector BOOLEAN, number BIGINT, text VARCHAR, rank DOUBLE, size BIGINT);
CREATE TABLE IF NOT EXISTS bands (band UTINYINT, hash UBIGINT, place BIGINT);
CREATE TABLE IF NOT EXISTS sample (value BLOB);
CREATE TABLE IF NOT EXISTS pairs (a BIGINT, b BIGINT);
"""
_PAIRS = f"""
INSERT INTO pairs
WITH grouped AS (
    SELECT place, hash, row_number() OVER (PARTITION BY hash ORDER BY place) AS r, count(*) OVER (PARTITION BY hash) AS n
    FROM bands WHERE band = ?
), met AS (SELECT * FROM grouped WHERE n > 1)
SELECT DISTINCT one.place, other.place FROM met AS one JOIN met AS other ON one.hash = other.hash AND one.r < other.r
WHERE one.n <= {GROUP} OR one.r = 1 OR other.r - one.r <= {NEAREST}
"""  # noqa: S608 - numbers of our own


class StoreError(Exception):
    """A folder that cannot be used or gone on with. Its text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The points of consecutive places from ``start`` on; those that are gone have a row of zeros. ``there``: (m,) places of the others,
    of which the next members speak. ``numbers``: (m,) equal for equal canonical texts, 0 without one. ``rank``: (m,) the larger
    one stays. ``size``: (m,) bytes of vector and payload. ``bands``: (m, b), and which of them count (m, b).
    """

    start: int
    vectors: FloatMatrix
    there: Places
    has_vector: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int64]
    texts: Sequence[str | None]
    rank: npt.NDArray[np.float64]
    size: npt.NDArray[np.int64]
    bands: Hashes
    counts: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Pairs of places, the smaller first: ``pairs`` (p, 2). ``rows`` (p, 2): the same as rows of the other members, of k points."""

    pairs: Places
    rows: npt.NDArray[np.intp]
    vectors: FloatMatrix
    has_vector: npt.NDArray[np.bool_]
    texts: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """All points that are there, ascending by ``places`` (n,); the other members (n,) as in a Page."""

    places: Places
    has_vector: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int64]
    rank: npt.NDArray[np.float64]
    size: npt.NDArray[np.int64]


class Store:
    """The folder of one sweep. ``of``: what the sweep depends on; a folder begun for another one is refused. Raises StoreError."""

    def __init__(self, folder: Path, dimension: int, of: Mapping[str, str | int | float | None]) -> None:
        import duckdb

        self._dimension = dimension
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = duckdb.connect(
                str(folder / "points.duckdb"),
                config={"memory_limit": f"{MEMORY_MB}MB", "temp_directory": str(folder / "temporary")},
            )
        except (OSError, duckdb.Error) as error:
            raise StoreError(f"--work {folder}: {one_line(str(error))}") from None
        self._database.execute(_TABLES)
        self._check(folder, of)
        self._path = folder / "vectors.f32"
        self._file = self._path.open("ab")
        self._file.truncate(self.done * dimension * _ITEM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        self._database.close()

    @property
    def done(self) -> int:
        """How many places have been read, from the first one on."""
        return int(self._about("done") or 0)

    def sample(self, read: Callable[[], FloatMatrix]) -> FloatMatrix:
        """The sample (s, d) of the first run: what is hashed must be hashed alike after a kill."""
        held = self._database.execute("SELECT value FROM sample").fetchone()
        if held is None:
            with self._transaction():
                self._database.execute("INSERT INTO sample VALUES (?)", [read().astype("<f4").tobytes()])
            return self.sample(read)
        return np.frombuffer(held[0], "<f4").reshape(-1, self._dimension)

    def add(self, page: Page) -> None:
        """Keep a page, wholly or not at all. It begins where the last one ended."""
        self._file.write(page.vectors.astype("<f4").tobytes())
        self._file.flush()
        rows, columns = page.counts.nonzero()
        points: dict[str, npt.NDArray[Any]] = {
            "place": page.there,
            "has_vector": page.has_vector,
            "number": page.numbers,
            "text": np.array(page.texts, object),
            "rank": page.rank,
            "size": page.size,
        }
        bands: dict[str, npt.NDArray[Any]] = {
            "band": columns.astype(np.uint8),
            "hash": page.bands[rows, columns],
            "place": page.there[rows],
        }
        with self._transaction():
            for table, columns_of in (("points", points), ("bands", bands)):
                if len(columns_of["place"]):
                    self._database.execute(f"INSERT INTO {table} SELECT * FROM columns_of")  # noqa: S608 - two names of our own
            self._note("done", page.start + len(page.vectors))

    def pair_up(self) -> None:
        """Find the pairs that share a band; once a store."""
        if self._about("paired") is not None:
            return
        with self._transaction():
            self._database.execute("DELETE FROM pairs")
            for (band,) in self._database.execute("SELECT DISTINCT band FROM bands ORDER BY band").fetchall():
                self._database.execute(_PAIRS, [band])
            self._database.execute("CREATE OR REPLACE TABLE pairs AS SELECT DISTINCT a, b FROM pairs ORDER BY a, b")
            self._note("paired", 1)

    def held(self) -> Held:
        found = self._columns("SELECT place, has_vector, number, rank, size FROM points ORDER BY place")
        return Held(
            places=found["place"],
            has_vector=found["has_vector"],
            numbers=found["number"],
            rank=found["rank"],
            size=found["size"],
        )

    def pairs(self) -> int:
        """How many there are, after ``pair_up``."""
        row = self._database.execute("SELECT count(*) FROM pairs").fetchone()
        return 0 if row is None else int(row[0])

    def candidates(self) -> Iterator[Candidates]:
        """All pairs, ascending, so that neighbours in the file of vectors are read together."""
        self._file.flush()
        vectors = np.memmap(self._path, "<f4", "r", shape=(self.done, self._dimension)) if self.done else None
        for start in range(0, self.pairs(), BATCH):
            # By position: a batch needs no sort of its own, and is the same after a kill.
            found = self._columns("SELECT a, b FROM pairs WHERE rowid >= ? AND rowid < ?", start, start + BATCH)
            pairs = np.stack((found["a"], found["b"]), axis=1)
            places, rows = np.unique(pairs, return_inverse=True)
            points = self._columns(
                "SELECT has_vector, text FROM points WHERE place IN (SELECT unnest(?)) ORDER BY place", places.tolist()
            )
            assert vectors is not None  # noqa: S101 - pairs are of points
            yield Candidates(
                pairs=pairs,
                rows=rows.reshape(pairs.shape),
                vectors=np.asarray(vectors[places], np.float32),
                has_vector=points["has_vector"],
                texts=texts_of(points["text"]),
            )

    def texts(self, places: Sequence[int]) -> dict[int, str | None]:
        found = self._database.execute(
            "SELECT place, text FROM points WHERE place IN (SELECT unnest(?))", [list(places)]
        )
        return dict(found.fetchall())

    def _columns(self, query: str, *values: object) -> dict[str, Any]:
        found: dict[str, Any] = self._database.execute(query, list(values)).fetchnumpy()
        return found

    def _about(self, name: str) -> str | None:
        row = self._database.execute("SELECT value FROM about WHERE name = ?", [name]).fetchone()
        return None if row is None else str(row[0])

    def _note(self, name: str, value: object) -> None:
        self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", [name, str(value)])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN")
        is_whole = False
        try:
            yield
            is_whole = True
        finally:
            self._database.execute("COMMIT" if is_whole else "ROLLBACK")

    def _check(self, folder: Path, of: Mapping[str, str | int | float | None]) -> None:
        wanted = json.dumps({"format": FORMAT, **of}, sort_keys=True)
        held = self._about("of")
        if held is None:
            self._note("of", wanted)
        elif held != wanted:
            there, now = json.loads(held), json.loads(wanted)
            words = "\n".join(
                f"  {name}: the folder has {one_line(str(there.get(name)))}, now it is {one_line(str(value))}"
                for name, value in now.items()
                if there.get(name) != value
            )
            self._database.close()
            raise StoreError(f"--work {folder} was begun for another sweep; remove it, or name another folder\n{words}")


def texts_of(column: npt.NDArray[np.object_]) -> list[str | None]:
    """A column of DuckDB, masked where it is NULL."""
    masked = np.ma.getmaskarray(column)
    return [None if is_null else str(value) for value, is_null in zip(column, masked, strict=True)]
