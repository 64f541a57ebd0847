"""The data of a job on disk: the points read so far, and the removable points. DuckDB has points and bands, raw files have vectors and texts.

DuckDB joins the bands out of core, within a bound of memory, so that the size of a collection is limited by a laptop's disk and not by its
memory. A page is added as a whole: the raw files first, then one transaction. After a kill, raw data without a transaction is truncated,
and reading continues after it. The raw files are read by place, while a table would be scanned for each batch of pairs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import one_line

from ...selection.values import FloatMatrix
from ..source import PointId, Shape
from .fingerprints import TEXT_BANDS, Hashes
from .joining import BY_DUCKDB, Join

Places = npt.NDArray[np.int64]

ENGINE = "duckdb"  # commands look for it before they read a collection
FORMAT = 6
MEMORY_MB = 512  # memory of DuckDB; beyond it a join uses the disk
BATCH = 4096  # pairs that are judged together: 12 MB of vectors at 384 dimensions
JOINED = 1_000_000  # hashes that DuckDB joins at a time, or one band: each query has a fixed cost
SLICE = 8_000_000  # hashes that another engine joins at a time: Daft took 290 bytes for each
READ = 64 * BATCH  # pairs that are read together: the table is scanned for each reading
_ITEM, _OFFSET = 4, 8  # bytes of a float32, and of a place in a file

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name VARCHAR PRIMARY KEY, value VARCHAR);
CREATE TABLE IF NOT EXISTS points (
    place BIGINT, has_vector BOOLEAN, number BIGINT, rank DOUBLE, size BIGINT, mark UBIGINT, label VARCHAR);
CREATE TABLE IF NOT EXISTS bands (band UTINYINT, hash UBIGINT, place BIGINT);
CREATE TABLE IF NOT EXISTS sample (value BLOB);
CREATE TABLE IF NOT EXISTS pairs (a BIGINT, b BIGINT, of_text BOOLEAN);
CREATE TABLE IF NOT EXISTS removals (row BIGINT, value VARCHAR);
"""


class StoreError(Exception):
    """A folder that cannot be used or continued. The message has the reason and the remedy."""


class OutdatedError(StoreError):
    """A folder that belongs to another job, or to an earlier state of the collection."""


class EndedError(OutdatedError):
    """A folder of which all that could be deleted was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """h hashes of points: ``hashes`` (h,), the ``places`` (h,) of their points, and their ``bands`` (h,), those of texts first. Different bands
    have no hash in common.
    """

    hashes: Hashes
    places: Places
    bands: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The points of consecutive places, beginning at ``start``. ``vectors``: one row per place, zero for a deleted point. ``there``: (m,)
    the places of the m existing points. The other members have one entry per existing point. ``numbers``: equal for points of equal
    texts that say the same beside them, 0 without text. ``rank``: of two copies, the one with the larger value stays. ``size``: bytes of vector
    and payload. ``marks``: equal for equal content. ``sketches``: of these points. ``facts``: what a payload says beside the text; empty if that
    does not count. ``labels``: the groups for counting points; empty if they are not counted.
    """

    start: int
    vectors: FloatMatrix
    there: Places
    has_vector: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int64]
    texts: Sequence[str | None]
    rank: npt.NDArray[np.float64]
    size: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint64]
    sketches: Sketches
    facts: Sequence[str] = ()
    labels: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """``pairs``: (p, 2) places, the smaller first. ``rows``: (p, 2) the same pairs as rows of ``vectors``, ``has_vector``, ``texts`` and ``facts``.
    ``of_text``: (p,) whether the pair shares a band of its texts.
    """

    pairs: Places
    rows: npt.NDArray[np.intp]
    of_text: npt.NDArray[np.bool_]
    vectors: FloatMatrix
    has_vector: npt.NDArray[np.bool_]
    texts: Sequence[str | None]
    facts: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllPoints:
    """All existing points, ascending by ``places`` (n,). The other members are (n,) and as in Page."""

    places: Places
    has_vector: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int64]
    rank: npt.NDArray[np.float64]
    size: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A removable point. ``similarity``: of its vector and the survivor's; None unless both have one. Marks: as by ``mark_of``."""

    id: PointId
    survivor: PointId
    evidence: str
    similarity: float | None
    mark: int
    survivor_mark: int


class Texts:
    """The texts of the first places of a collection: one file with the concatenated texts, one with the end of each. A missing text counts as
    empty. ``name``: of the files. ``done``: the number of places to keep from existing files.
    """

    def __init__(self, folder: Path, name: str, done: int) -> None:
        self._texts, self._ends = folder / f"{name}.utf8", folder / f"{name}.i64"
        self._texts_file, self._ends_file = self._texts.open("ab"), self._ends.open("ab")
        self._ends_file.truncate(done * _OFFSET)
        self._bytes = int(np.memmap(self._ends, "<i8", "r")[-1]) if done else 0
        self._texts_file.truncate(self._bytes)

    def close(self) -> None:
        self._texts_file.close()
        self._ends_file.close()

    def add(self, texts: Sequence[str]) -> None:
        """Append the texts of the next places."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]  # payloads may have lone surrogates
        ends = self._bytes + np.cumsum([len(text) for text in encoded], dtype=np.int64)
        self._texts_file.write(b"".join(encoded))
        self._texts_file.flush()
        self._ends_file.write(ends.astype("<i8").tobytes())
        self._ends_file.flush()
        self._bytes = int(ends[-1]) if len(ends) else self._bytes

    def at(self, places: Sequence[int]) -> list[str | None]:
        """The text at a place; None if there is none."""
        if not self._bytes:
            return [None] * len(places)
        ends, data = np.memmap(self._ends, "<i8", "r"), np.memmap(self._texts, np.uint8, "r")
        at = np.asarray(places, np.int64)
        starts = np.where(at > 0, ends[np.maximum(at - 1, 0)], 0)
        spans = zip(starts.tolist(), ends[at].tolist(), strict=True)
        return [data[start:end].tobytes().decode("utf-8", "surrogatepass") or None for start, end in spans]


class Store:
    """The folder of one job. ``of``: what the job depends on; a folder begun for another one is refused. Raises StoreError."""

    def __init__(self, folder: Path, dimension: int, of: Mapping[str, str | int | float | None]) -> None:
        import duckdb

        self._dimension = dimension
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = duckdb.connect(
                str(folder / "points.duckdb"),
                config={"memory_limit": f"{MEMORY_MB}MB", "temp_directory": str(folder / "temporary")},
            )
        except (OSError, duckdb.Error) as error:
            raise StoreError(f"--work {folder}: {one_line(str(error))}") from None
        self._database.execute(_TABLES)
        self.check("of", {"format": FORMAT, **of})
        self._path = folder / "vectors.f32"
        self._file = self._path.open("ab")
        self._file.truncate(self.done * dimension * _ITEM)
        self._texts, self._facts = Texts(folder, "texts", self.done), Texts(folder, "facts", self.done)

    @classmethod
    def of_job(cls, folder: Path, job: str, collection: str, shape: Shape, **further: str) -> Self:
        """``further``: what else the job depends on."""
        of: dict[str, str | int | float | None] = {"job": job, "collection": collection, "vector": shape.vector_name}
        of |= {"dimension": shape.dimension, "distance": shape.distance}
        return cls(folder, shape.dimension, of | {name.replace("_", " "): value for name, value in further.items()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        self._texts.close()
        self._facts.close()
        self._database.close()

    def check(self, name: str, of: Mapping[str, str | int | float | None]) -> None:
        """Record what the job depends on; refuse a folder that was begun for another job."""
        expected = json.dumps(of, sort_keys=True)
        saved = self._about(name)
        if saved is None:
            self._note(name, expected)
        elif saved != expected:
            there = json.loads(saved)
            words = "\n".join(
                f"  {key}: the folder has {one_line(str(there.get(key)))}, now it is {one_line(str(value))}"
                for key, value in of.items()
                if there.get(key) != value
            )
            self._database.close()
            raise OutdatedError(
                f"--work {self._folder} was begun for another job; remove it, or name another folder\n{words}"
            )

    @property
    def done(self) -> int:
        """How many places have been read, from the first one on."""
        return int(self._about("done") or 0)

    def sample(self, read: Callable[[], FloatMatrix]) -> FloatMatrix:
        """The sample (s, d) of the first run, because a continued run must hash with the same directions."""
        saved = self._database.execute("SELECT value FROM sample").fetchone()
        if saved is None:
            with self._transaction():
                self._database.execute("INSERT INTO sample VALUES (?)", [read().astype("<f4").tobytes()])
            return self.sample(read)
        return np.frombuffer(saved[0], "<f4").reshape(-1, self._dimension)

    def add(self, page: Page) -> None:
        """Store a page, completely or not at all. It begins where the last one ended."""
        self._file.write(page.vectors.astype("<f4").tobytes())
        self._file.flush()
        self._texts.add(_of_places(page, page.texts))
        self._facts.add(_of_places(page, page.facts or [None] * len(page.there)))
        points: dict[str, npt.NDArray[Any]] = {
            "place": page.there,
            "has_vector": page.has_vector,
            "number": page.numbers,
            "rank": page.rank,
            "size": page.size,
            "mark": page.marks,
            "label": np.array(page.labels or [None] * len(page.there), object),
        }
        bands: dict[str, npt.NDArray[Any]] = {
            "band": page.sketches.bands,
            "hash": page.sketches.hashes,
            "place": page.sketches.places,
        }
        with self._transaction():
            for table, columns_of in (("points", points), ("bands", bands)):
                if len(columns_of["place"]):
                    self._database.execute(f"INSERT INTO {table} SELECT * FROM columns_of")  # noqa: S608 - two names of our own
            self._note("done", page.start + len(page.vectors))

    def pair_up(self, join: Join | None = None) -> None:
        """Find the pairs that share a band; once per store. ``join``: another engine than the store's own."""
        if self._about("paired") is not None:
            return
        folders = self._folder / "bands", self._folder / "pairs"
        if join is not None:
            shutil.rmtree(folders[0], ignore_errors=True)
            slices = max(1, -(-self._count("bands") // SLICE))
            query = f"SELECT hash, place, band < {TEXT_BANDS} AS of_text, hash % {slices} AS slice FROM bands"  # noqa: S608 - numbers of our own
            self._database.execute(f"COPY ({query}) TO '{_quoted(folders[0])}' (FORMAT parquet, PARTITION_BY (slice))")
            join(*folders)
        with self._transaction():
            self._database.execute("DELETE FROM pairs")
            if join is None:
                insert = f"INSERT INTO pairs SELECT a, b, ? FROM ({BY_DUCKDB})"  # noqa: S608 - our own
                for start, end in self._joined_together():
                    self._database.execute(insert, [end <= TEXT_BANDS, start, end])
            elif any(folders[1].glob("*.parquet")):
                pairs = f"{_quoted(folders[1])}/*.parquet"
                self._database.execute(f"INSERT INTO pairs SELECT a, b, of_text FROM read_parquet('{pairs}')")  # noqa: S608 - quoted
            query = "SELECT a, b, bool_or(of_text) AS of_text FROM pairs GROUP BY a, b ORDER BY a, b"
            self._database.execute(f"CREATE OR REPLACE TABLE pairs AS {query}")
            self._note("paired", 1)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _joined_together(self) -> Iterator[tuple[int, int]]:
        """Ranges of bands that hold about JOINED hashes; those of texts are separate."""
        (last,) = self._database.execute("SELECT coalesce(max(band::INTEGER), 0) + 1 FROM bands").fetchone() or (0,)
        step = max(1, JOINED // max(1, self.done))
        for first, end in ((0, TEXT_BANDS), (TEXT_BANDS, int(last))):
            yield from ((start, min(start + step, end)) for start in range(first, end, step))

    def stored(self) -> AllPoints:
        columns = "place AS places, has_vector, number AS numbers, rank, size, mark AS marks"
        return AllPoints(**self._columns(f"SELECT {columns} FROM points ORDER BY place"))  # noqa: S608 - names of our own

    def labels(self) -> list[str | None]:
        """The labels of all existing points, ascending by place."""
        rows = self._database.execute("SELECT label FROM points ORDER BY place").fetchall()
        return [label for (label,) in rows]

    def pairs(self) -> int:
        """How many there are, after ``pair_up``."""
        return self._count("pairs")

    def candidates(self, stored: AllPoints) -> Iterator[Candidates]:
        """All pairs, ascending, so that adjacent vectors in the file are read together. ``stored``: all points."""
        self._file.flush()
        vectors = np.memmap(self._path, "<f4", "r", shape=(self.done, self._dimension)) if self.done else None
        for start in range(0, self.pairs(), READ):
            # By position, so that reading needs no sort, and is the same after a kill.
            read = self._columns("SELECT a, b, of_text FROM pairs WHERE rowid >= ? AND rowid < ?", start, start + READ)
            for begins in range(0, len(read["a"]), BATCH):
                part = slice(begins, begins + BATCH)
                pairs = np.stack((read["a"][part], read["b"][part]), axis=1)
                places, rows = np.unique(pairs, return_inverse=True)
                assert vectors is not None  # noqa: S101 - pairs are of points
                yield Candidates(
                    pairs=pairs,
                    rows=rows.reshape(pairs.shape),
                    of_text=read["of_text"][part],
                    vectors=np.asarray(vectors[places], np.float32),
                    has_vector=stored.has_vector[np.searchsorted(stored.places, places)],
                    texts=self._texts.at(places.tolist()),
                    facts=self._facts.at(places.tolist()),
                )

    def decide(self, batches: Iterable[Sequence[Removal]], report: bytes) -> None:
        """Store the removable points, in order, and the report."""
        with self._transaction():
            self._database.execute("DELETE FROM removals")
            row = 0
            for batch in filter(None, batches):
                columns = {
                    "row": np.arange(row, row + len(batch)),
                    "value": np.array([msgspec.json.encode(verdict).decode() for verdict in batch], object),
                }
                self._database.execute("INSERT INTO removals SELECT row, value FROM columns")
                row += len(columns["row"])
            self._note("report", report.decode())

    def report(self) -> bytes | None:
        """As it was given to ``decide``."""
        saved = self._about("report")
        return None if saved is None else saved.encode()

    def deletions(self, start: int, most: int) -> list[Removal]:
        """From this row on."""
        query = "SELECT value FROM removals WHERE row >= ? AND row < ? ORDER BY row"
        rows = self._database.execute(query, [start, start + most]).fetchall()
        return [msgspec.json.decode(value, type=Removal) for (value,) in rows]

    def count(self) -> int:
        """The number of removable points."""
        return self._count("removals")

    @property
    def has_ended(self) -> bool:
        """Whether all removable points were passed to ``progressed``."""
        return self.deleted is not None and sum(self.deleted.values()) == self.count()

    @property
    def deleted(self) -> Mapping[str, int] | None:
        """The number of rows passed to ``progressed``, by outcome; None before the first call."""
        saved = self._about("deleted")
        return None if saved is None else json.loads(saved)

    def progressed(self, counts: Mapping[str, int]) -> None:
        """Record that this many rows are done in all. Durable when the call returns."""
        with self._transaction():
            self._note("deleted", json.dumps(counts))

    def texts(self, places: Sequence[int]) -> dict[int, str | None]:
        return dict(zip(places, self._texts.at(places), strict=True))

    def facts(self, places: Sequence[int]) -> dict[int, str | None]:
        return dict(zip(places, self._facts.at(places), strict=True))

    def _count(self, table: str) -> int:
        (count,) = self._database.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)  # noqa: S608 - a name of our own
        return int(count)

    def _columns(self, query: str, *values: object) -> dict[str, Any]:
        columns: dict[str, Any] = self._database.execute(query, list(values)).fetchnumpy()
        return columns

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


def _of_places(page: Page, values: Sequence[str | None]) -> list[str]:
    """The texts of existing points by place, empty for a missing one."""
    texts = [""] * len(page.vectors)
    for place, text in zip((page.there - page.start).tolist(), values, strict=True):
        texts[place] = text or ""
    return texts


def _quoted(path: Path) -> str:
    """Quoted for an SQL literal."""
    return str(path).replace("'", "''")
