"""The policies that are compared, and one query through the proxy's own code: request bytes in, the ids of the trimmed answer out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import RequestHead
from vecsieve.config.load import judged, load
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import PRESETS, policy_of
from vecsieve.config.problems import Finding, Problem, SettingsError, dotted, excerpt, one_line
from vecsieve.config.schema import RuleSettings
from vecsieve.config.values import PresetName
from vecsieve.config.yaml_core import NotYamlError, read

from ...search.errors import RejectedReplyError
from ...search.fetch import needs_of, plan
from ...search.policy import ResolvedPolicy, resolved
from ...search.pools.values import Planned, Selected
from ...search.report import stages_of
from ...search.searcher import Searcher
from ...selection.values import Fate, Indices
from ...telemetry.labels import ReadKind, Stage
from ...telemetry.tracing import Clock, Stopwatch
from .reading import LabelledSet, Vectors

PLAIN = "plain"  # the database's own answer, with which all others are compared
DEFAULT = "default"
CONFIGURED = "configured"
EXPECTED = f"a preset ({', '.join(PRESETS)}) or members of a policy as YAML, such as {{threshold: {{fixed: 0.1}}}}"

# The presets that the usual policy is compared with.
USUAL: tuple[PresetName, ...] = ("exact", "meaning", "vectors", "classical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """``settings``: as given. ``policy``: the same as a search needs it."""

    name: str
    settings: PolicySettings
    policy: ResolvedPolicy


def contenders(
    *, given: Sequence[str] = (), config: Path | None = None, pool: int | None = None
) -> tuple[Contender, ...]:
    """Those ``given`` as NAME=PRESET or NAME=YAML, over the policy of ``config``; the usual ones if none is given.

    ``pool``: the exact number of candidates that each fetches, None for its own. Raises SettingsError.
    """
    base = PolicySettings() if config is None else load(file=config, environment={}, flags={}).policy
    if given:
        chosen = [_read(text, base) for text in given]
        names = [name for name, _ in chosen]
        for number, name in enumerate(names):
            if name == PLAIN:
                raise SettingsError([Problem("--policy", PLAIN, "another name: the plain answer is always included")])
            if name in names[:number]:
                raise SettingsError([Problem("--policy", f"{one_line(name)} twice", "a name of its own for each")])
    else:
        chosen = _usual(base, DEFAULT if config is None else CONFIGURED)
    return tuple(_contender(name, settings, pool) for name, settings in chosen)


def _usual(base: PolicySettings, name: str) -> list[tuple[str, PolicySettings]]:
    usual = [(DEFAULT, PolicySettings())] if name == DEFAULT else [(DEFAULT, PolicySettings()), (name, base)]
    return [*usual, *((preset, _laid(base, preset, place=preset)) for preset in USUAL)]


def _contender(name: str, settings: PolicySettings, pool: int | None) -> Contender:
    policy = resolved(settings, mode=None)
    fetch = policy.fetch.model_copy(update={"cap": max(pool or 0, policy.fetch.cap)})
    # A labelled set has one unnamed vector per item.
    return Contender(name=name, settings=settings, policy=replace(policy, fetch=fetch, exact_fetch=pool, vector=None))


def _read(given: str, base: PolicySettings) -> tuple[str, PolicySettings]:
    name, equals, text = given.partition("=")
    name = name.strip()
    if not equals or not name:
        raise SettingsError([Problem("--policy", one_line(repr(given)), f"NAME=VALUE, the value {EXPECTED}")])
    place = f"--policy {one_line(name)}"
    try:
        document = read(text)
    except NotYamlError as error:
        raise SettingsError([Problem(place, f"{error.seen} at {error.place or 'its start'}", EXPECTED)]) from error
    _raise(place, document.findings)
    return name, _laid(base, document.value, place=place)


def _laid(base: PolicySettings, change: object, *, place: str) -> PolicySettings:
    """``change`` over ``base``, validated like a rule of the settings file. Raises SettingsError."""
    if isinstance(change, str):
        if change not in PRESETS:
            raise SettingsError([Problem(place, excerpt(change), EXPECTED)])
        rule: dict[str, object] = {"preset": change}
    elif isinstance(change, Mapping):
        rule = {"policy": dict(change)}
    else:
        raise SettingsError([Problem(place, excerpt(change), EXPECTED)])
    settings, findings = judged({"policy": base.model_dump(by_alias=True), "rules": (rule,)}, ())
    _raise(place, findings)
    return policy_of(settings.policy, RuleSettings.model_validate(rule))


def _raise(place: str, findings: Sequence[Finding]) -> None:
    if findings:
        raise SettingsError(
            Problem(f"{place}, {where}" if (where := _within(finding)) else place, finding.seen, finding.expected)
            for finding in findings
        )


def _within(finding: Finding) -> str:
    """The error's place within the user's text, not within the settings that were validated."""
    path = finding.path
    return dotted(path[3:] if path[:1] == ("rules",) else path)


# The items of a set as a Qdrant server writes them: each part of a point as JSON bytes, encoded once.


def json_floats(row: Vectors) -> bytes:
    """A row (d,) of float32 as JSON: the shortest digits that parse to the same float32."""
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)


@dataclass(frozen=True, slots=True)
class Points:
    """Point i is item i. Vectors are encoded when first needed, because most items are in no pool."""

    labelled: LabelledSet
    vectors: dict[int, bytes] = field(default_factory=dict)

    def point(self, row: int, score: bytes, *, fields: bool | frozenset[str], with_vector: bool) -> bytes:
        """One scored point, only with the requested parts. ``fields``: top-level keys of the payload; True for all, False for no payload."""
        parts = [b'{"id":%d,"version":0,"score":%s' % (row, score)]
        if fields is not False:
            members = self.labelled.items[row].payload.items()
            payload = b",".join(
                orjson.dumps(key) + b":" + value for key, value in members if fields is True or key in fields
            )
            parts.append(b'"payload":{%s}' % payload)
        if with_vector:
            parts.append(b'"vector":%s' % self._vector(row))
        return b",".join(parts) + b"}"

    def _vector(self, row: int) -> bytes:
        written = self.vectors.get(row)
        if written is None:
            written = self.vectors[row] = json_floats(self.labelled.vectors[row])
        return written


# Exact cosine neighbours, ties broken by row number.
#
# Products are summed in double precision and rounded to float32 at the end: a float32 product's last bit depends on how many rows are
# multiplied at once, so that two copies would be equal in one run and not in another. A database gives copies equal scores, too.

BLOCK = 256  # queries at once: 256 × 100,000 items are 100 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """One query's ranking, computed as deep as needed. ``similarities``: (items,) float32, to every item."""

    similarities: npt.NDArray[np.float32]
    candidates: Indices | None

    def first(self, count: int) -> Indices:
        """The rows of the ``count`` nearest (fewer, if there are no more), best first."""
        rows = np.arange(len(self.similarities), dtype=np.intp) if self.candidates is None else self.candidates
        values = self.similarities[rows]
        if count < len(rows):
            # All that tie with the last one are kept until the sort decides by row.
            near = values >= np.partition(values, len(rows) - count)[len(rows) - count] if count else values > np.inf
            rows, values = rows[near], values[near]
        return rows[np.lexsort((rows, -values))][:count]


def neighbours(labelled: LabelledSet, *, every: int) -> Iterator[tuple[int, Neighbours]]:
    """The number and the ranking of every ``every``-th query."""
    numbers = range(0, len(labelled.queries), every)
    items = labelled.vectors.T.astype(np.float64)
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        products = labelled.query_vectors[block.start : block.stop : every].astype(np.float64) @ items
        for number, row in zip(block, products.astype(np.float32), strict=True):
            yield number, Neighbours(similarities=row, candidates=labelled.queries[number].candidates)


# An in-memory Qdrant for one query: answers POST /collections/{name}/points/query from an exact ranking.
#
# It knows the members that the adapter sends and refuses all others, so that no unknown member is ignored.


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: msgspec.Raw  # its ranking is known
    limit: int = 10
    offset: int = 0
    with_payload: bool | frozenset[str] = False
    with_vector: bool | tuple[Literal[""]] = False  # the one vector has no name


@dataclass(slots=True)
class Upstream:
    """Ranks one query's neighbours, for any number of requests."""

    points: Points
    neighbours: Neighbours

    async def answer(self, body: bytes) -> bytes:
        """The body of a 200 answer. Raises ValueError for a request that this server does not understand."""
        request = msgspec.json.decode(body, type=_Request)
        rows = self.neighbours.first(request.offset + request.limit)[request.offset :]
        fields = request.with_payload
        points = b",".join(
            self.points.point(row, score, fields=fields, with_vector=bool(request.with_vector))
            for row, score in zip(rows.tolist(), self._scores(rows), strict=True)
        )
        return b'{"result":{"points":[%s]},"status":"ok","time":0.001}' % points

    def _scores(self, rows: Indices) -> list[bytes]:
        written = json_floats(self.neighbours.similarities[rows])[1:-1]
        return written.split(b",") if written else []


BACKEND = "qdrant"
HEAD = RequestHead(method="POST", path="/collections/labelled/points/query", content_type="application/json")


class _Point(msgspec.Struct):
    id: int


class _Result(msgspec.Struct):
    points: list[_Point]


class _Answer(msgspec.Struct):
    result: _Result


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """``rows``: best first. ``dropped``: the rows that were left out as copies, best first, as far as the page reaches: those better than
    its last result, or all of the pool if the page is short or filled with copies. ``added_seconds``: everything except the database's
    own time.
    """

    rows: tuple[int, ...]
    added_seconds: float
    dropped: tuple[int, ...] = ()


class Trial:
    """Requests like a client that needs ids only; the adapter fetches the payload that a policy reads, and removes it."""

    __slots__ = ("_adapter", "_clock", "_operation", "_searcher", "_top_k")

    def __init__(self, *, top_k: int, clock: Clock) -> None:
        self._adapter = adapter = BACKENDS[BACKEND].rest.adapter()
        self._searcher = Searcher(adapter)
        operation = adapter.classify(HEAD)
        assert operation is not None  # noqa: S101 - a search of this backend
        self._operation = operation
        self._top_k = top_k
        self._clock = clock

    async def plain(self, vector: Vectors, upstream: Upstream) -> TrialOutcome:
        """The database's own answer."""
        return TrialOutcome(rows=_rows(await upstream.answer(self._body(vector))), added_seconds=0.0)

    async def search(self, policy: ResolvedPolicy, vector: Vectors, upstream: Upstream) -> TrialOutcome:
        """The answer of a client behind the proxy. A search that the proxy would answer plainly is answered plainly here."""
        body = self._body(vector)
        watch = Stopwatch(self._clock, self._clock())
        call = self._adapter.parse_request(self._operation, body, needs_of(policy, None))
        planned = plan(call, policy, None)
        if planned is None:
            return await self.plain(vector, upstream)

        async def send(body: bytes, *, further: ReadKind | None = None) -> bytes:
            return await upstream.answer(body)

        source = self._searcher.source(Planned(call=call, policy=policy, plan=planned, watch=watch), send)
        try:
            selected = await self._searcher.select(source, cap=None)
            answer = (await self._searcher.answer(source, selected)).body
            dropped = _dropped(selected, self._top_k)
        except RejectedReplyError:
            answer, dropped = self._searcher.plain(source), ()
        return TrialOutcome(
            rows=_rows(answer),
            dropped=dropped,
            added_seconds=watch.clock() - watch.started - stages_of(watch.marks).get(Stage.UPSTREAM, 0.0),
        )

    def _body(self, vector: Vectors) -> bytes:
        return b'{"query":%s,"limit":%d,"with_payload":false}' % (json_floats(vector), self._top_k)


def _dropped(selected: Selected, top_k: int) -> tuple[int, ...]:
    """The rows that the selection left out as copies, as far as the page reaches."""
    dropped: list[int] = []
    for pool, selection in zip(selected.pools.reply.pools, selected.selections, strict=True):
        copies = np.flatnonzero(selection.fates == Fate.COLLAPSED)
        if len(selection.keep) >= top_k and not np.any(selection.fates == Fate.FILLED):
            copies = copies[copies < selection.keep.max()]
        dropped += [int(pool.ids[place]) for place in copies.tolist()]
    return tuple(dropped)


def _rows(answer: bytes) -> tuple[int, ...]:
    return tuple(point.id for point in msgspec.json.decode(answer, type=_Answer).result.points)
