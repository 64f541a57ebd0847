"""Labelled sets: from their folders (corpus.jsonl, queries.jsonl, the embeddings of both, and meta.json where there is one), and the one that
comes with the package, made of the demo's texts.

A set's folder may name a sibling (``extra_corpus`` in meta.json) whose items are appended as distractors: nothing that any query looks for
is among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import Problem, SettingsError, one_line

from ...demo.corpus import Chunk, load
from ...runtime.files import read_input
from ...search.candidates import string
from ...selection.values import Indices

# A labelled set as evaluation uses it. Items and relevant ids are row numbers from here on.

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One row. ``atoms``: labels of its content. ``payload``: its other members, key to raw JSON."""

    doc: str
    atoms: tuple[str, ...]
    payload: Mapping[str, bytes]

    @property
    def text(self) -> str:
        """The member ``text``, or else the longest string; "" without one."""
        raw = self.payload.get("text", b"")
        longest = max(self.payload.values(), key=lambda value: len(value) * value.startswith(b'"'), default=b"")
        return string(raw, most_bytes=len(raw)) or string(longest, most_bytes=len(longest)) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """``subtopics``: for each need the rows that satisfy it, in the file's order. ``relevant``: their union unless the file has another
    list. ``candidates``: the closed list that is ranked, None for the whole corpus.
    """

    subtopics: Mapping[str, frozenset[int]]
    relevant: frozenset[int]
    candidates: Indices | None


class Repeats(StrEnum):
    """What the labels of a set call a repeat: another copy, the same meaning in other words, or nothing: no item repeats another."""

    COPIES = "copies"
    MEANINGS = "meanings"
    NONE = "none"


# The types of the known sets that are no copies.
OF_TYPE = {
    "intent": Repeats.MEANINGS,
    "perspectives": Repeats.MEANINGS,
    "key points": Repeats.MEANINGS,
    "multi-hop": Repeats.NONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet:
    """``vectors``: (items, d), ``query_vectors``: (queries, d); rows of length one, or zero for zero vectors."""

    name: str
    items: tuple[Item, ...]
    queries: tuple[Query, ...]
    vectors: Vectors
    query_vectors: Vectors
    repeats: Repeats = Repeats.COPIES


# Embeddings from .npy files: one row per line of the JSON beside them, any width, any float, scaled to length one.

ENDINGS = (".f16.npy", ".npy")  # the data packs' own name first


def read_vectors(folder: Path, stem: str, *, rows: int | None) -> Vectors:
    """(rows, d) float32 from ``stem.f16.npy`` or ``stem.npy``; ``rows``: None for any number. Raises SettingsError."""
    path = next((file for ending in ENDINGS if (file := folder / (stem + ending)).is_file()), None)
    if path is None:
        raise SettingsError([Problem(str(folder / f"{stem}{ENDINGS[0]}"), "no such file", "the embeddings (or .npy)")])
    matrix = _loaded(path)
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or matrix.shape[1] == 0:
        raise _wrong(path, f"{matrix.dtype} of shape {matrix.shape}", "a matrix of floats, a row per line of the JSON")
    if rows is not None and len(matrix) != rows:
        raise _wrong(path, f"{len(matrix)} rows", f"{rows}, one per line of {stem}.jsonl")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise _wrong(path, f"a number in row {int(finite.argmin())} that is not finite", "finite numbers")
    return unit(matrix.astype(np.float32))


def unit(matrix: Vectors) -> Vectors:
    """Rows of length one, as in a cosine collection; a row of zeros is unchanged."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled = np.zeros_like(matrix)
    np.divide(matrix, lengths, out=scaled, where=lengths > 0.0)
    return scaled


def _loaded(path: Path) -> Vectors:
    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _wrong(path, one_line(str(error)), "a readable .npy file") from error
    if not isinstance(matrix, np.ndarray):  # an .npz with the wrong name
        raise _wrong(path, "an archive", "one array")
    return matrix


def _wrong(path: Path, seen: str, expected: str) -> SettingsError:
    return SettingsError([Problem(str(path), seen, expected)])


MOST_PROBLEMS = 20  # a file of another format is wrong in every line
LABELS = frozenset({"id", "atoms"})  # all other members are payload: the proxy must not see the labels

CORPUS = "corpus.jsonl"
QUERIES = "queries.jsonl"


class _Row(msgspec.Struct, frozen=True):
    id: str
    doc: str
    atoms: tuple[str, ...]


class _Question(msgspec.Struct, frozen=True):
    subtopics: dict[str, tuple[str, ...]]
    rel: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None


class _Meta(msgspec.Struct, frozen=True):
    extra_corpus: str | None = None
    type: str | None = None
    repeats: Repeats | None = None


_Read = TypeVar("_Read", bound=msgspec.Struct)


def set_folders(data: Path, names: Sequence[str] = ()) -> tuple[Path, ...]:
    """The folders of the sets in ``data``, or ``data`` itself if it is one; ``names``: only these. Raises SettingsError."""
    if not data.is_dir():
        raise SettingsError([Problem(str(data), "no such folder", f"a folder of labelled sets, each with {QUERIES}")])
    here = [data.resolve()] if (data / QUERIES).is_file() else sorted(path.parent for path in data.glob(f"*/{QUERIES}"))
    if not here:
        seen = "no set in it"
        raise SettingsError([Problem(str(data), seen, f"folders that hold {CORPUS}, {QUERIES} and their embeddings")])
    known = {folder.name: folder for folder in here}
    unknown = [
        Problem("--set", one_line(repr(name)), f"one of {', '.join(known)}") for name in names if name not in known
    ]
    if unknown:
        raise SettingsError(unknown)
    return tuple(folder for folder in here if not names or folder.name in names)


def read_set(folder: Path, *, geometry: Path | None = None) -> LabelledSet:
    """The set in ``folder``. ``geometry``: a folder with other embeddings, one folder per set. Raises SettingsError."""
    ids, items, vectors = _corpus(folder, geometry)
    queries = _queries(folder, ids)
    meta = _meta(folder)
    extra = _extra(folder, meta.extra_corpus)
    if extra is not None:
        _, others, others_vectors = _corpus(extra, geometry)
        _same_width(extra, vectors, others_vectors)
        items, vectors = items + others, np.concatenate((vectors, others_vectors))
    query_vectors = read_vectors(_geometry_of(folder, geometry), "queries", rows=len(queries))
    _same_width(folder, vectors, query_vectors)
    return LabelledSet(
        name=folder.name, items=items, queries=queries, vectors=vectors, query_vectors=query_vectors,
        repeats=meta.repeats or OF_TYPE.get(meta.type or "", Repeats.COPIES),
    )  # fmt: skip


def _corpus(folder: Path, geometry: Path | None) -> tuple[list[str], tuple[Item, ...], Vectors]:
    """Ids, items and their vectors."""
    path = folder / CORPUS
    ids: list[str] = []
    items: list[Item] = []
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for number, (line, row) in enumerate(decoded(path, _Row), 1):
        if row.id in first:
            seen = f"the id of line {first[row.id]} again: {one_line(row.id)}"
            problems.append(at_line(path, number, seen, "an id of its own"))
        first.setdefault(row.id, number)
        ids.append(row.id)
        items.append(Item(doc=row.doc, atoms=row.atoms, payload=_payload(line)))
    raise_all(problems)
    return ids, tuple(items), read_vectors(_geometry_of(folder, geometry), "corpus", rows=len(items))


def _queries(folder: Path, ids: Sequence[str]) -> tuple[Query, ...]:
    path = folder / QUERIES
    rows = {name: row for row, name in enumerate(ids)}
    queries: list[Query] = []
    problems: list[Problem] = []
    for number, (_, question) in enumerate(decoded(path, _Question), 1):
        try:
            queries.append(_query(question, rows))
        except ValueError as error:
            problems.append(at_line(path, number, str(error), f"needs, and ids of {CORPUS} that satisfy them"))
    raise_all(problems)
    return tuple(queries)


def _query(question: _Question, rows: Mapping[str, int]) -> Query:
    """Raises ValueError with the value seen."""
    subtopics = {name: frozenset(_rows(ids, rows)) for name, ids in question.subtopics.items()}
    union = frozenset().union(*subtopics.values())
    relevant = union if question.rel is None else frozenset(_rows(question.rel, rows))
    if not union or not relevant:
        raise ValueError("no relevant id")
    candidates = question.candidates
    return Query(
        subtopics=subtopics,
        relevant=relevant,
        candidates=None if candidates is None else np.array(sorted(set(_rows(candidates, rows))), np.intp),
    )


def _rows(ids: Sequence[str], rows: Mapping[str, int]) -> list[int]:
    unknown = next((chunk_id for chunk_id in ids if chunk_id not in rows), None)
    if unknown is not None:
        raise ValueError(f"the id {one_line(unknown)}, which no item has")
    return [rows[chunk_id] for chunk_id in ids]


def decoded(path: Path, kind: type[_Read]) -> Iterator[tuple[bytes, _Read]]:
    """Each line, raw and decoded. Raises SettingsError that names each wrong line, up to twenty."""
    lines: list[tuple[bytes, _Read]] = []
    problems: list[Problem] = []
    for number, line in enumerate(_content(path).splitlines(), 1):
        try:
            lines.append((line, msgspec.json.decode(line, type=kind)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            expected = "a JSON object with " + ", ".join(
                field.name for field in msgspec.structs.fields(kind) if field.required
            )
            problems.append(at_line(path, number, one_line(str(error)) if line.strip() else "an empty line", expected))
    raise_all(problems)
    if not lines:
        raise SettingsError([Problem(str(path), "an empty file", "a JSON object per line")])
    yield from lines


def _payload(line: bytes) -> Mapping[str, bytes]:
    """Every member that is no label, its value as in the file."""
    members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    return {key: bytes(value) for key, value in members.items() if key not in LABELS}


def _meta(folder: Path) -> _Meta:
    path = folder / "meta.json"
    if not path.is_file():
        return _Meta()
    try:
        return msgspec.json.decode(_content(path), type=_Meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError([Problem(str(path), one_line(str(error)), "a JSON object")]) from error


def _extra(folder: Path, name: str | None) -> Path | None:
    """The folder of the sibling set."""
    if name is None:
        return None
    if not name or Path(name).name != name or not (folder.resolve().parent / name / CORPUS).is_file():
        seen = f"extra_corpus {one_line(repr(name))}"
        place = str(folder / "meta.json")
        raise SettingsError([Problem(place, seen, f"the name of a folder beside {folder.name}, with {CORPUS}")])
    return folder.resolve().parent / name


def _content(path: Path) -> bytes:
    return read_input(path, expected="a readable file")


def _geometry_of(folder: Path, geometry: Path | None) -> Path:
    return folder if geometry is None else geometry / folder.name


def _same_width(folder: Path, one: Vectors, other: Vectors) -> None:
    if one.shape[1] != other.shape[1]:
        seen = f"embeddings of {one.shape[1]} and of {other.shape[1]} numbers"
        raise SettingsError([Problem(str(folder), seen, "one width for items, distractors and queries")])


def at_line(path: Path, number: int, seen: str, expected: str) -> Problem:
    """A problem in one line, from 1."""
    return Problem(f"{path}, line {number}", seen, expected)


def raise_all(problems: Sequence[Problem]) -> None:
    """Raises SettingsError with the first of them, if there are any."""
    if problems:
        raise SettingsError(problems[:MOST_PROBLEMS])


NAME = "sample"
FEWEST_NEEDS = 2  # items per query: with one there is nothing to choose from


def sample_set() -> LabelledSet:
    """Raises CorpusDamagedError."""
    corpus = load()
    of_title: defaultdict[str, list[int]] = defaultdict(list)
    for row, chunk in enumerate(corpus.chunks):
        of_title[chunk.title].append(row)
    twice = {
        title: rows
        for title, rows in of_title.items()
        if sorted(corpus.chunks[row].source for row in rows) == ["docs", "docstring"]
    }
    kept = sorted(row for rows in twice.values() for row in rows)
    place = {row: number for number, row in enumerate(kept)}
    of_owner: defaultdict[str, dict[str, frozenset[int]]] = defaultdict(dict)
    for title, rows in sorted(twice.items()):
        of_owner[title.rpartition(".")[0]][title] = frozenset(place[row] for row in rows)
    needs = [subtopics for owner, subtopics in sorted(of_owner.items()) if owner and len(subtopics) >= FEWEST_NEEDS]
    queries = tuple(
        Query(subtopics=subtopics, relevant=frozenset().union(*subtopics.values()), candidates=None)
        for subtopics in needs
    )
    vectors = corpus.vectors[kept]
    return LabelledSet(
        name=NAME,
        items=tuple(_item(corpus.chunks[row]) for row in kept),
        queries=queries,
        vectors=vectors,
        query_vectors=unit(np.stack([vectors[sorted(query.relevant)].mean(axis=0) for query in queries])),
    )


def _item(chunk: Chunk) -> Item:
    payload = {name: msgspec.json.encode(value) for name, value in chunk.payload().items()}
    return Item(doc=chunk.document, atoms=(chunk.title,), payload=payload)
