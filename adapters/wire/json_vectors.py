"""Setting a reply's dense vectors aside before its structure is read.

The idea: a megabyte of digits says nothing about structure. The vectors' spans are guessed with ``bytes.find``, each is
replaced by ``[]``, and the exact reader walks over the few kilobytes that remain (0.12 ms for 50 x 1536 against 1.2 ms
a level for the whole text). A guess may be wrong: a payload may hold a key named like the vector member. So whoever
uses the shortened text must find each placeholder again as the value of a vector, and decode each span that was set
aside as an array of numbers. JSON's grammar is context-free: if both hold, putting the arrays back gives a text with
the same structure, and the guess is proven. If not, ``untouched`` reads the whole text.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.wire.json import Span, check_reply, members
from vecsieve.adapters.wire.vectors import union_matrix

_MEMBER = b'"vector":'
_PLACEHOLDER = b"[]"
_NULL = b"null"
# No pool is so large. What a payload adds to the guesses is then left in the text, which is too much to be read.
_MOST_GUESSES = 32_768
_OPENINGS = {b"[-", *(b"[%d" % digit for digit in range(10))}


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text with some spans replaced by placeholders, and how its offsets map back.

    ``spans`` are in the original, ``starts`` and ``ends`` are where their placeholders stand in ``text``;
    ``shifts[k]`` is what the first k replacements took away. ``replaced``: the original's span by its placeholder's.
    """

    original: bytes
    text: bytes
    spans: tuple[Span, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    shifts: tuple[int, ...]
    replaced: Mapping[Span, Span]

    def cut(self, start: int, end: int) -> bytes:
        """The original's bytes of a span of ``text``. Neither offset may lie inside a placeholder."""
        return self.original[self._back(start) : self._back(end)]

    def cut_value(self, span: Span) -> bytes:
        """As `cut`, at once where the whole span is one placeholder."""
        aside = self.replaced.get(span)
        return self.cut(*span) if aside is None else self.original[aside[0] : aside[1]]

    def aside(self, span: Span) -> Span | None:
        """What was replaced by the placeholder that fills ``span`` of ``text`` exactly; None when none does."""
        return self.replaced.get(span)

    def _back(self, offset: int) -> int:
        return offset + self.shifts[bisect_right(self.ends, offset)]


def set_aside(body: bytes, spans: Sequence[Span]) -> Shortened:
    """Replace ``spans``, which are disjoint and ascending. Raises ValueError where what remains is too much to be read."""
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
    return Shortened(body, text, tuple(spans), tuple(starts), tuple(ends), tuple(shifts), replaced)


def guess_vectors(body: bytes, names: Collection[str]) -> list[Span]:
    """What looks like a flat array under a ``vector`` member: bare, or in an object under the one name of ``names``.

    With more than one name only bare arrays and unnamed ones are looked for, so that the guess stays one pass.
    """
    name = next(iter(names)) if len(names) == 1 else ""
    # ensure_ascii off: the server writes names as plain UTF-8
    needle = json.dumps(name, ensure_ascii=False).encode(errors="replace") + b":["
    is_named = True
    found: list[Span] = []
    position = body.find(_MEMBER)
    for _ in range(_MOST_GUESSES):
        if position < 0:
            break
        start = position + len(_MEMBER)
        if is_named and body[start : start + 1] == b"{":
            inside = body.find(needle, start)
            is_named = inside >= 0  # nor in any later vector: searching on would read the rest once per point
            start = inside + len(needle) - 1 if is_named else start
        if body[start : start + 2] in _OPENINGS:
            end = body.find(b"]", start) + 1
            if not end:
                break
            found.append((start, end))
            start = end
        position = body.find(_MEMBER, start)
    return found


def guess_arrays(body: bytes, name: str) -> list[Span]:
    """What looks like a flat array of numbers as a member of this name, wherever one stands.

    Not where another array ends right before it: so stand the values of a sparse vector, behind its indices.
    """
    needle = json.dumps(name, ensure_ascii=False).encode(errors="replace") + b":["
    found: list[Span] = []
    position = body.find(needle)
    for _ in range(_MOST_GUESSES):
        if position < 0:
            break
        start = end = position + len(needle) - 1
        if body[start : start + 2] in _OPENINGS and body[max(position - 2, 0) : position] != b"],":
            end = body.find(b"]", start) + 1
            if not end:
                break
            found.append((start, end))
        position = body.find(needle, end)
    return found


def guess_rows(body: bytes, name: str) -> list[Span]:
    """What looks like the flat arrays of numbers in the first member of this name: an array of arrays of them, or of null.

    The walk ends where anything else stands.
    """
    needle = json.dumps(name, ensure_ascii=False).encode(errors="replace") + b":["
    found: list[Span] = []
    position = body.find(needle) + len(needle)
    if position < len(needle):
        return found
    while body[position : position + 1] == b"[":
        position = _rows_in(body, position + 1, found)
        if body[position : position + 2] != b"],":
            break
        position += 2
    return found


def _rows_in(body: bytes, position: int, found: list[Span]) -> int:
    """Note the rows of one list from ``position`` on; where the walk came to."""
    while len(found) < _MOST_GUESSES:
        if body[position : position + 2] in _OPENINGS:
            end = body.find(b"]", position) + 1
            if not end:
                return position
            found.append((position, end))
            position = end
        elif body.startswith(_NULL, position):
            position += len(_NULL)
        else:
            return position
        if body[position : position + 1] != b",":
            return position
        position += 1
    return position


# JSON arrays of numbers to numpy, without Python floats where the optional pysimdjson is installed.
#
# Measured for 50 arrays of 1,536 numbers: pysimdjson 1.2 ms, orjson and numpy 3.3 ms. Both refuse the same things.

try:
    from simdjson import Parser
except ImportError:  # no wheel for every Python version; the fallback is complete
    HAS_SIMDJSON = False
else:
    HAS_SIMDJSON = True

Row = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]


def decode_matrix(arrays: Sequence[bytes]) -> tuple[Matrix, tuple[bool, ...]]:
    """As `stack` of `decode_arrays`, and per array whether it was one valid JSON array of numbers."""
    if HAS_SIMDJSON and (matrix := _equal_rows(arrays)) is not None:
        return matrix, (True,) * len(arrays)
    rows = decode_arrays(arrays)
    return stack(rows), tuple(row is not None for row in rows)


def decode_arrays(arrays: Sequence[bytes]) -> list[Row | None]:
    """Each flat JSON array of numbers as (d,) float64; None for whatever is not exactly that.

    A row that is given is proof that its bytes are one valid JSON array of numbers. d may be 0.
    """
    return by_simdjson(arrays) if HAS_SIMDJSON else by_orjson(arrays)


def by_simdjson(arrays: Sequence[bytes]) -> list[Row | None]:
    """Decode with pysimdjson into buffers.

    A parser cannot be used again while a document of it lives, so each call has its own (costs nothing measurable)
    and each document dies inside the one expression that reads it.
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
            # Not JSON, an element that is no number, or an integer beyond 64 bits: orjson reads the last as a float,
            # and so decides all three.
            rows.append(_by_orjson(array))
    return rows


def _equal_rows(arrays: Sequence[bytes]) -> Matrix | None:
    """All arrays as one matrix, when every one is good, of one length, and within float32; else None.

    A quarter less for 50 arrays of 384 than row by row: the rows are joined as doubles and narrowed in one pass.
    """
    # One bracket, at the start: as_buffer would flatten nested arrays, and a value that is no array has no as_buffer.
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
    """Decode with orjson; the fallback, and the oracle of the other in the tests."""
    return [_by_orjson(array) for array in arrays]


def _by_orjson(array: bytes) -> Row | None:
    # true, false, null and strings would become numbers in numpy; a flat array of numbers has none of these bytes.
    if array[:1] != b"[" or array.find(b"[", 1) > 0 or any(mark in array for mark in (b'"', b"t", b"f", b"n", b"{")):
        return None
    try:
        row = np.array(orjson.loads(array), dtype=np.float64)
    except (orjson.JSONDecodeError, OverflowError):  # OverflowError: an integer beyond what a float can hold
        return None
    return row if np.isfinite(row).all() else None


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


# Sparse vectors, ``{"indices": [..], "values": [..]}``, to numpy.


def sparse_matrix(values: Sequence[bytes | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32; a row of NaN for what is no sparse vector, d = 0 when there is none or the union is too wide.

    Raises ValueError for an object that cannot be read with certainty.
    """
    return union_matrix([_sparse(value) for value in values])


def numbers(value: bytes | None) -> Row | None:
    """An array of numbers, or of equally long arrays of numbers; None for everything else."""
    # The same guard as in json_floats: numpy would turn these literals and strings into numbers.
    if value is None or any(mark in value for mark in (b'"', b"t", b"f", b"n", b"{")):
        return None
    try:
        rows = np.array(orjson.loads(value), dtype=np.float64)
    except (ValueError, OverflowError):  # ValueError: not JSON, or ragged
        return None
    return rows if np.isfinite(rows).all() else None


def _sparse(value: bytes | None) -> tuple[npt.NDArray[np.int64], Row] | None:
    """Indices and values of a sparse vector; None when it is none, or empty."""
    if value is None or not value.startswith(b"{"):
        return None
    found = members(value, (0, len(value)))
    if found.keys() != {"indices", "values"}:
        return None
    indices, weights = (numbers(value[found[key].value : found[key].end]) for key in ("indices", "values"))
    if indices is None or weights is None or indices.shape != weights.shape or indices.ndim != 1 or not indices.size:
        return None
    return indices.astype(np.int64), weights


# Some of an array's elements, in another order, cut from the text they came in.
#
# What stands around and between the elements stays: keeping all of them in order changes no byte.

Edit = tuple[int, int, bytes]
"""Replace the bytes from start to end."""


def kept_inside(
    source: Shortened, array: Span, spans: Sequence[Span], kept: Sequence[int], edits: Callable[[int], list[Edit]]
) -> list[bytes]:
    """The inside of ``array`` with the elements at ``spans`` that ``kept`` names, in that order; join the pieces.

    An element brings the separator that stood before it. ``edits(i)``: what changes in element i, disjoint, any order.
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


def edited(source: Shortened, span: Span, edits: Sequence[Edit]) -> list[bytes]:
    """The bytes of ``span`` with its edits, which are disjoint, in any order; join the pieces."""
    pieces: list[bytes] = []
    position = span[0]
    for start, end, replacement in sorted(edits):
        pieces += (source.cut(position, start), replacement)
        position = end
    pieces.append(source.cut(position, span[1]))
    return pieces
