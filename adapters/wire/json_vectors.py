"""Sets a reply's dense vectors aside before its structure is parsed; converts arrays of numbers to numpy; cuts arrays to some elements.

The spans of vectors are guessed with ``bytes.find``, each is replaced by ``[]``, and the few kilobytes that remain are parsed (0.12 ms for
50 x 1536, against 1.2 ms a level for the whole text). A guess may be wrong: a payload may have a key like the vector's. So every
placeholder must be found again as the value of a vector, and every span set aside must decode as an array of numbers. JSON's grammar is
context-free: if both hold, the whole text has the structure of the shortened one. Otherwise it is parsed whole.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from ..contract import Allowance
from .json import Members, Span, check_dimensions, check_reply, last_values, members_of, object_of, part
from .vectors import union_matrix, usable

T = TypeVar("T")
Matrix = npt.NDArray[np.float32]

_PLACEHOLDER = b"[]"
_BRACE = ord("{")
# Of requests. Their placeholder must be found again as the query's vector.
_NUMBER = b"[0]"
_OF_ARRAYS = b"[]0123456789+-.eE, \t\r\n"
LEAST_ARRAY = 64  # bytes
LONGEST_REST = 4096
REMEMBERED = 512  # requests without their vectors, by client selections and filters: 4 MB at most
# More than in any pool. Further vectors stay in the text, which is then too large to be parsed.
_MOST_GUESSES = 32_768
_DIGITS = {b"-", *(b"%d" % digit for digit in range(10))}
_STRUCTURE = (b'"', b"{", b"}")
_OPENINGS = {b"[-", *(b"[%d" % digit for digit in range(10))}


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text with placeholders for some spans, and the mapping of its offsets to the original's.

    ``spans`` are in the original, ``ends`` those of their placeholders in ``text``; ``shifts[k]`` is the number of bytes that the
    first k replacements removed. ``replaced``: placeholder's span -> original's span.
    """

    original: bytes
    text: bytes
    spans: tuple[Span, ...]
    ends: tuple[int, ...]
    shifts: tuple[int, ...]
    replaced: Mapping[Span, Span]

    def cut(self, start: int, end: int) -> bytes:
        """The original's bytes of a span of ``text``. Neither offset may be inside a placeholder."""
        return self.original[self._back(start) : self._back(end)]

    def cut_value(self, span: Span) -> bytes:
        """As `cut`, faster for a span that is a placeholder."""
        aside = self.replaced.get(span)
        return self.cut(*span) if aside is None else self.original[aside[0] : aside[1]]

    def aside(self, span: Span) -> Span | None:
        """The original's span of the placeholder that fills ``span`` of ``text``; None if it is no placeholder."""
        return self.replaced.get(span)

    def _back(self, offset: int) -> int:
        return offset + self.shifts[bisect_right(self.ends, offset)]


def set_aside(body: bytes, spans: Sequence[Span]) -> Shortened:
    """Replace ``spans``, which are disjoint and ascending. Raises ValueError if the rest is too large to be parsed."""
    pieces: list[bytes] = []
    starts: list[int] = []
    shifts = [0]
    position = shift = 0
    for start, end in spans:
        pieces.append(body[position:start])
        starts.append(start - shift)
        shift += end - start - len(_PLACEHOLDER)
        shifts.append(shift)
        position = end
    pieces.append(body[position:])
    ends = [start + len(_PLACEHOLDER) for start in starts]
    replaced = dict(zip(zip(starts, ends, strict=True), spans, strict=True))
    text = _PLACEHOLDER.join(pieces)
    check_reply(text)
    return Shortened(body, text, tuple(spans), tuple(ends), tuple(shifts), replaced)


def read_aside(body: bytes, spans: Sequence[Span], read: Callable[[Shortened], T]) -> T:
    """The result of ``read`` for the body with ``spans`` set aside; for the whole body if that raises ValueError, because one of the spans may
    be no vector: stored metadata can look like one. Raises ValueError.
    """
    try:
        return read(set_aside(body, spans))
    except ValueError:
        if not spans:
            raise
    return read(set_aside(body, ()))


class LeanRequest(NamedTuple):
    """A request whose one long array was replaced by a placeholder. ``span``: of the placeholder in ``text``. ``numbers``: the array."""

    text: bytes
    span: Span
    numbers: bytes

    def read(self, *, is_compared: bool) -> tuple[bool, npt.NDArray[np.float32] | None]:
        """Whether the array has only numbers, and the vector if it is compared. JSON's grammar is context-free: then the whole request has the
        structure of ``text``. Raises UnsupportedError for an array that is too long.
        """
        check_dimensions(self.numbers, 0, len(self.numbers))
        if not is_compared:
            return not self.numbers.translate(
                None, _OF_ARRAYS
            ), None  # a number that is none is the database's to refuse
        (row,), (is_array,) = decode_matrix([self.numbers])
        return is_array, usable(row)


def query_aside(body: bytes, start: int) -> LeanRequest | None:
    """A client's requests differ in the numbers of their vectors: the rest is read once. ``start``: of the array. None if it is short, or the rest
    long.
    """
    end = body.find(b"]", start) + 1
    if start < 0 or end - start < LEAST_ARRAY or len(body) - (end - start) > LONGEST_REST:
        return None
    text = body[:start] + _NUMBER + body[end:]
    return LeanRequest(text, (start, start + len(_NUMBER)), body[start:end])


def vectors_at(source: Shortened, spans: Sequence[Span | None]) -> Matrix:
    """(n, d) the vectors that fill these spans of ``source.text``. Raises ValueError if another span was set aside, or one is no array of
    numbers.
    """
    guessed = [span is not None and source.aside(span) is not None for span in spans]
    matrix, proven = decode_matrix([b"" if span is None else source.cut_value(span) for span in spans])
    if sum(guessed) != len(source.spans) or not all(
        is_array for aside, is_array in zip(guessed, proven, strict=True) if aside
    ):
        raise ValueError("a span that was set aside is no vector of a result")
    return matrix


def field_values(
    source: Shortened, members: Members, must: Sequence[str], may: Sequence[str], allowance: Allowance
) -> tuple[bytes | None, ...]:
    """The raw JSON of each of these members, None if absent; those that ``may`` be read within the allowance."""
    optional = [members.get(name) for name in may]
    read = [
        member if member is not None and allowance.covers(member.end - member.value) else None for member in optional
    ]
    chosen = (*map(members.get, must), *read)
    return tuple([None if member is None else source.cut(member.value, member.end) for member in chosen])


def payload_values(
    source: Shortened, text: bytes, span: Span | None, must: Sequence[str], may: tuple[str, ...], allowance: Allowance
) -> tuple[bytes | None, ...]:
    """As `field_values` of the object that fills ``span``; None if there is none. ``text``: that of ``source`` without surrogate escapes.

    Where no escape was replaced, the last value of a repeated optional member counts, which takes a sixth of the time (2 against 12 us per
    payload). A required member may decide about tenants: a repeated one raises ValueError.
    """
    if span is None or text[span[0]] != _BRACE or not (must or may):
        return (None,) * (len(must) + len(may))
    if text is not source.text:
        return field_values(source, members_of(text, span), must, may, allowance)
    required = field_values(source, members_of(text, span), must, (), allowance) if must else ()
    return required + (last_values(part(text, span), may, allowance) if may else ())


def objects_of(source: Shortened, rows: Iterable[Members], aside: Collection[str | None] = ()) -> tuple[bytes, ...]:
    """Each row as an object without the members ``aside``."""

    def entries(row: Members) -> Iterator[tuple[bytes, bytes]]:
        for name, member in row.items():
            if name not in aside:
                yield source.cut(member.key, member.value).rstrip(b": \t\r\n"), source.cut(*member.span)

    return tuple([object_of(entries(row)) for row in rows])


# Shorter arrays are parsed with the rest: their placeholders would save nothing.
_LEAST_ARRAY = 64


def guess_numbers(body: bytes) -> list[Span]:
    """All long flat arrays of plain values that begin with a number, anywhere in the text.

    A span has neither quotes nor further brackets. So it is inside one string or is one value, and a valid text with placeholders has the
    same structure, whatever the array means.
    """
    spans: list[Span] = []
    start = body.find(b"[")
    while start >= 0 and len(spans) < _MOST_GUESSES:
        end = body.find(b"]", start) + 1
        if not end:
            break
        inner = body.rfind(b"[", start + 1, end)
        if inner >= 0:
            start = inner  # the last that opens before this end
        is_long = end - start >= _LEAST_ARRAY and body[start + 1 : start + 2] in _DIGITS
        if is_long and not any(body.find(mark, start, end) >= 0 for mark in _STRUCTURE):
            spans.append((start, end))
        start = body.find(b"[", end)
    return spans


def guess_arrays(body: bytes, name: str, *, may_follow: bool = False) -> list[Span]:
    """Likely flat arrays of numbers under this name. ``may_follow``: also directly after another array, where sparse vectors have values."""
    needle = json.dumps(name, ensure_ascii=False).encode(errors="replace") + b":["
    spans: list[Span] = []
    position = body.find(needle)
    for _ in range(_MOST_GUESSES):
        if position < 0:
            break
        start = end = position + len(needle) - 1
        if body[start : start + 2] in _OPENINGS and (may_follow or body[max(position - 2, 0) : position] != b"],"):
            end = body.find(b"]", start) + 1
            if not end:
                break
            spans.append((start, end))
        position = body.find(needle, end)
    return spans


def guess_rows(body: bytes, name: str) -> list[Span]:
    """Likely flat arrays of numbers in the first member of this name, an array of arrays of such arrays or null: up to the next quote."""
    needle = json.dumps(name, ensure_ascii=False).encode(errors="replace") + b":["
    spans: list[Span] = []
    position = body.find(needle)
    last = body.find(b'"', position + len(needle))
    start = body.find(b"[", position + len(needle)) if position >= 0 else -1
    while 0 <= start < (last if last >= 0 else len(body)) and len(spans) < _MOST_GUESSES:
        end = start + 1
        if body[start : start + 2] in _OPENINGS:
            end = body.find(b"]", start) + 1
            if not end:
                break
            spans.append((start, end))
        start = body.find(b"[", end)
    return spans


# Arrays of numbers to numpy. For 50 arrays of 1,536 numbers pysimdjson takes 1.2 ms, orjson 3.3 ms. Both refuse the
# same arrays.

try:
    from simdjson import Parser
except ImportError:  # no wheel for every Python version; the fallback is complete
    HAS_SIMDJSON = False
else:
    HAS_SIMDJSON = True

Row = npt.NDArray[np.float64]


def decode_matrix(arrays: Sequence[bytes]) -> tuple[Matrix, tuple[bool, ...]]:
    """`stack` of `decode_arrays`, and per array whether it is one valid JSON array of numbers."""
    if HAS_SIMDJSON and (matrix := _equal_rows(arrays)) is not None:
        return matrix, (True,) * len(arrays)
    rows = decode_arrays(arrays)
    return stack(rows), tuple(row is not None for row in rows)


def decode_arrays(arrays: Sequence[bytes]) -> list[Row | None]:
    """Each flat JSON array of numbers as (d,) float64, d may be 0; None for any other bytes."""
    return by_simdjson(arrays) if HAS_SIMDJSON else by_orjson(arrays)


def by_simdjson(arrays: Sequence[bytes]) -> list[Row | None]:
    """Decode with pysimdjson into buffers.

    A parser cannot be reused while one of its documents is alive: each call has its own parser, and each document ends with the
    expression that reads it.
    """
    parser: Any = Parser()  # its annotations call a parsed array a str or an int as well
    rows: list[Row | None] = []
    for array in arrays:
        # as_buffer flattens nested arrays: a second bracket is another shape.
        if array[:1] != b"[" or array.find(b"[", 1) > 0:
            rows.append(None)
            continue
        try:
            rows.append(np.frombuffer(parser.parse(array).as_buffer(of_type="d"), dtype=np.float64))
        except (ValueError, TypeError, RuntimeError):
            # Not JSON, an element that is no number, or an integer beyond 64 bits, which orjson reads as a float.
            rows.append(_by_orjson(array))
    return rows


def _equal_rows(arrays: Sequence[bytes]) -> Matrix | None:
    """All arrays as one matrix, if all are valid, of one length and within float32; else None.

    Narrowing all rows in one pass takes a quarter less time than row by row (50 arrays of 384).
    """
    # Only one bracket, at the start: as_buffer flattens nested arrays.
    if not arrays or any(array.rfind(b"[") for array in arrays):
        return None
    parser: Any = Parser()
    try:
        buffers = [parser.parse(array).as_buffer(of_type="d") for array in arrays]
    except (ValueError, TypeError, RuntimeError):
        return None
    sizes = {buffer.size for buffer in buffers}
    if len(sizes) > 1 or 0 in sizes:
        return None
    doubles = np.frombuffer(b"".join(buffers), dtype=np.float64)
    try:
        with np.errstate(over="raise"):
            return doubles.astype(np.float32).reshape(len(arrays), -1)
    except FloatingPointError:
        return None


def by_orjson(arrays: Sequence[bytes]) -> list[Row | None]:
    """Decode with orjson: the fallback, and the reference in tests."""
    return [_by_orjson(array) for array in arrays]


def _by_orjson(array: bytes) -> Row | None:
    return None if array[:1] != b"[" or array.find(b"[", 1) > 0 else numbers(array)


def stack(rows: Sequence[Row | None]) -> Matrix:
    """(n, d) float32, d being the length of the first row that is not empty; NaN rows for the others.

    A value beyond float32 makes its row NaN.
    """
    width = next((len(row) for row in rows if row is not None and len(row)), 0)
    matrix = np.full((len(rows), width), np.nan, dtype=np.float32)
    with np.errstate(over="ignore"):
        for index, row in enumerate(rows):
            if row is not None and len(row) == width:
                matrix[index] = row
    if width:
        matrix[~np.isfinite(matrix).all(axis=1)] = np.nan
    return matrix


def sparse_matrix(values: Sequence[bytes | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32 over the union of indices; NaN rows for values that are no sparse vector; d = 0 if there is none or the union is too
    wide. Raises ValueError for an ambiguous object.
    """
    return union_matrix([_sparse(value) for value in values])


def numbers(value: bytes | None) -> Row | None:
    """An array of numbers, or of equally long arrays of numbers; None for any other value."""
    # numpy would convert literals and strings to numbers.
    if value is None or any(mark in value for mark in (b'"', b"t", b"f", b"n", b"{")):
        return None
    try:
        rows = np.array(orjson.loads(value), dtype=np.float64)
    except (ValueError, OverflowError):  # not JSON, or ragged; an integer beyond a float
        return None
    return rows if np.isfinite(rows).all() else None


def _sparse(value: bytes | None) -> tuple[npt.NDArray[np.int64], Row] | None:
    """Indices and values of a sparse vector; None for any other value, and for an empty one."""
    if value is None or not value.startswith(b"{"):
        return None
    members = members_of(value, (0, len(value)))
    if members.keys() != {"indices", "values"}:
        return None
    indices, weights = (numbers(value[members[key].value : members[key].end]) for key in ("indices", "values"))
    if indices is None or weights is None or indices.shape != weights.shape or indices.ndim != 1 or not indices.size:
        return None
    return indices.astype(np.int64), weights


Edit = tuple[int, int, bytes]
"""Replace the bytes from start to end."""


def kept_inside(
    source: Shortened, array: Span, spans: Sequence[Span], kept: Sequence[int], edits: Callable[[int], list[Edit]]
) -> list[bytes]:
    """The inside of ``array`` as pieces, with the elements ``spans[i]`` for i in ``kept``, in that order.

    An element includes the separator before it; keeping all elements in order changes no byte. ``edits(i)``: those of element i, disjoint,
    in any order.
    """
    start, end = array
    if not spans:
        return [source.cut(start + 1, end - 1)]
    if not kept:
        return []
    pieces = [source.cut(start + 1, spans[0][0])]
    for place, index in enumerate(kept):
        if place:
            pieces.append(source.cut(spans[index - 1][1], spans[index][0]) if index else b",")
        pieces += edited(source, spans[index], edits(index))
    pieces.append(source.cut(spans[-1][1], end - 1))
    return pieces


def cut_list(
    source: Shortened,
    length: int,
    array: Span,
    spans: Sequence[Span],
    kept: Sequence[int],
    edits: Callable[[int], list[Edit]],
    outside: Sequence[Edit] = (),
) -> bytes:
    """The original with one array cut as by `kept_inside`. ``length``: of ``source.text``. ``outside``: edits outside the array."""
    start, end = array[0] + 1, array[1] - 1
    before = edited(source, (0, start), [edit for edit in outside if edit[0] < start])
    after = edited(source, (end, length), [edit for edit in outside if edit[0] >= end])
    return b"".join([*before, *kept_inside(source, array, spans, kept, edits), *after])


def edited(source: Shortened, span: Span, edits: Sequence[Edit]) -> list[bytes]:
    """The bytes of ``span`` as pieces, with its edits, which are disjoint, in any order."""
    pieces: list[bytes] = []
    position = span[0]
    for start, end, replacement in sorted(edits):
        pieces += (source.cut(position, start), replacement)
        position = end
    pieces.append(source.cut(position, span[1]))
    return pieces
