"""The lines of a stream to `/v1/optimize` and its events: options first, then a chunk a line; `chunk` events, then `done`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from vecsieve.proxy.api.events import event
from vecsieve.proxy.api.messages import (
    MOST_CHUNKS,
    Chunk,
    Options,
    RemovedChunk,
    Stats,
    check_chunk,
    decoded_options,
    kept_chunk,
    own_id,
    stats_of,
    vectors_of,
    wishes_of,
)
from vecsieve.proxy.api.optimize import Tokens
from vecsieve.proxy.api.problems import Kind, ProblemError, invalid
from vecsieve.proxy.api.reading import decoded
from vecsieve.proxy.api.stream import Stream, is_stable

_OPTIONS, _CHUNK = msgspec.json.Decoder(Options), msgspec.json.Decoder(Chunk)
STABLE = '"cluster_linkage": "leader", "representative_strategy": "score", "enable_mmr": false'


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a stream: the chunks that were not kept, with their reasons, and figures."""

    removed: list[RemovedChunk]
    stats: Stats


class OptimizeLines:
    """One stream. See ``events.LineWork``."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._began = time.perf_counter()
        self._stream: Stream | None = None
        self._ids: list[str | int] = []
        self._score = float("inf")

    def begin(self, line: bytes) -> None:
        wishes = wishes_of(_placed(1, lambda: decoded_options(_OPTIONS, line)))
        if not is_stable(wishes):
            wanted = f"{STABLE}: with others a later chunk could change what was sent"
            raise invalid("line 1", "options of a whole list", wanted)
        self._stream = Stream(wishes, self._tokens)

    def feed(self, lines: list[bytes]) -> tuple[bytes, ProblemError | None]:
        events: list[bytes] = []
        try:
            events.extend(map(self._fed, lines))  # what came before a line that fails stays
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
            raise invalid(f"line {number} $.score", f"{chunk.score:g}", f"at most {self._score:g}, as the line before")
        self._score = chunk.score
        self._ids.append(own_id(chunk))
        kept = self._stream.add(chunk.text, vector)
        return b"" if kept is None else event("chunk", msgspec.json.encode(kept_chunk(chunk, kept)))

    def end(self) -> bytes:
        assert self._stream is not None  # noqa: S101 - begin comes first
        found = self._stream.outcome()
        removed = [
            RemovedChunk(
                id=self._ids[each.number], stage=each.stage, repeats=None if each.of is None else self._ids[each.of]
            )
            for each in found.removed
        ]
        stats = stats_of(len(self._ids), found, time.perf_counter() - self._began)
        return event("done", msgspec.json.encode(Done(removed=removed, stats=stats)))


def _placed(number: int, read: Callable[[], Any]) -> Any:
    """What is read of a line; a problem names the line."""
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
