"""`/v1/optimize` as a stream. The first line has the options, each further line one chunk. The reply: `chunk` events, then `done`.

Whether a chunk is kept is decided when it arrives, and later chunks do not change the decision. This requires scores that never rise,
clusters whose first chunk is leader and representative, and no MMR. With these options the result equals that of ``optimize`` for the
whole list, except that headers and footers show only in a whole list.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from ..selection.policy import Linkage, Strategy
from ..selection.values import FloatMatrix
from .events import event
from .messages import (
    MOST_CHUNKS,
    Chunk,
    Options,
    RemovedChunk,
    Stats,
    check_chunk,
    chunk_id,
    decoded_options,
    kept_chunk,
    removed_chunk,
    stats_of,
    vectors_of,
    wishes_of,
)
from .optimize import Kept, Optimized, Removed, Tokens, Wishes, fitted
from .problems import Kind, ProblemError, decoded, invalid
from .walk import Stage, Walk, text_of


def is_stable(wishes: Wishes) -> bool:
    """Whether later chunks never change the decision about earlier ones."""
    is_led = wishes.linkage is Linkage.LEADER and wishes.representative is Strategy.RANK
    return is_led and wishes.mmr_lambda is None


class Stream:
    """``wishes``: must be stable. Chunks must be added in descending order of score."""

    def __init__(self, wishes: Wishes, tokens: Tokens) -> None:
        self._wishes = wishes
        self._tokens = tokens
        self._walk = Walk(wishes.rules, dimension=wishes.dimension)
        self._numbers: list[int] = []  # of the chunks that were judged
        self._sizes: Counter[int] = Counter()
        self._kept: list[Kept] = []
        self._removed: list[Removed] = []
        self._taken = 0
        self._input_tokens = 0
        self._spent = 0

    def add(self, text: str, vector: FloatMatrix | None) -> Kept | None:
        """Add the next chunk. Returns it if it is kept."""
        number = len(self._kept) + len(self._removed)
        self._input_tokens += self._tokens(text)
        if self._wishes.can_never_fit(text, self._tokens):
            self._removed.append(Removed(number, Stage.BUDGET))
            return None
        removed = self._repeat(number, text, vector)
        if removed is None and self._taken == self._wishes.target_k:
            removed = Removed(number, Stage.TARGET)
        if removed is None:
            self._taken += 1
            kept, over, self._spent = fitted([(number, text)], self._wishes, self._tokens, self._spent)
            if not over:
                self._kept += kept
                return kept[0]
            removed = Removed(number, Stage.BUDGET)
        self._removed.append(removed)
        return None

    def _repeat(self, number: int, text: str, vector: FloatMatrix | None) -> Removed | None:
        place = len(self._numbers)
        self._numbers.append(number)
        repeat = self._walk.step(text_of(text), vector)
        head = self._walk.head(place)
        self._sizes[head] += 1
        if repeat is None or self._sizes[head] <= self._wishes.max_per_cluster:
            return None
        of = tuple(self._numbers[place] for place in repeat.of)
        return Removed(number, repeat.stage, replace(repeat, of=of))

    def outcome(self) -> Optimized:
        """The result for all chunks so far."""
        return Optimized(tuple(self._kept), tuple(self._removed), self._walk.clusters, self._input_tokens, self._spent)


_OPTIONS, _CHUNK = msgspec.json.Decoder(Options), msgspec.json.Decoder(Chunk)
STABLE = '"cluster_linkage": "leader", "representative_strategy": "score", "enable_mmr": false'


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a stream: the removed chunks with their reasons, and figures."""

    removed: list[RemovedChunk]
    stats: Stats


class OptimizeLines:
    """One stream. See ``events.LineWork``."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._began = time.perf_counter()
        self._stream: Stream | None = None
        self._cut = 0.0
        self._ids: list[str | int] = []
        self._score = float("inf")

    def begin(self, line: bytes) -> None:
        wishes = wishes_of(_placed(1, lambda: decoded_options(_OPTIONS, line)))
        if not is_stable(wishes):
            expected = f"{STABLE}: with other options a later chunk could change an event that was already sent"
            raise invalid("line 1", "options that need the whole list", expected)
        self._stream, self._cut = Stream(wishes, self._tokens), wishes.cut

    def feed(self, lines: list[bytes]) -> tuple[bytes, ProblemError | None]:
        events: list[bytes] = []
        try:
            events.extend(map(self._fed, lines))  # the events of lines before an invalid one are kept
        except ProblemError as problem:
            return b"".join(events), problem
        return b"".join(events), None

    def _fed(self, line: bytes) -> bytes:
        assert self._stream is not None  # noqa: S101 - begin comes first
        number = len(self._ids) + 2
        if len(self._ids) == MOST_CHUNKS:
            raise ProblemError(Kind.TOO_LARGE, "a stream has too many chunks", wanted=f"{MOST_CHUNKS} at most")
        chunk = _placed(number, lambda: decoded(_CHUNK, line))
        check_chunk(chunk, f"line {number} $")
        (vector,) = vectors_of([chunk.embedding], lambda _: f"line {number} $.embedding")
        if chunk.score > self._score:
            raise invalid(
                f"line {number} $.score", f"{chunk.score:g}", f"at most {self._score:g}, the score of the line before"
            )
        self._score = chunk.score
        self._ids.append(chunk_id(chunk))
        kept = self._stream.add(chunk.text, vector)
        return b"" if kept is None else event("chunk", msgspec.json.encode(kept_chunk(chunk, kept)))

    def end(self) -> bytes:
        assert self._stream is not None  # noqa: S101 - begin comes first
        outcome = self._stream.outcome()
        removed = [removed_chunk(self._ids, chunk, self._cut) for chunk in outcome.removed]
        stats = stats_of(len(self._ids), outcome, time.perf_counter() - self._began)
        return event("done", msgspec.json.encode(Done(removed=removed, stats=stats)))


def _placed(number: int, read: Callable[[], Any]) -> Any:
    """The result of ``read``. Adds the line number to its problems."""
    try:
        return read()
    except ProblemError as error:
        problem = error.problem
        raise ProblemError(
            error.kind,
            problem.detail,
            where=f"line {number} {problem.where or '$'}",
            saw=problem.saw,
            wanted=problem.wanted,
        ) from None
