"""T: generated requests of every kind on the real engine, directly and in each mode, over REST and gRPC; every difference has its reason"""

from __future__ import annotations

import asyncio
import json
import math
import select
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np
from pydantic import ValidationError

from prove.engine_requests import CLOUDS, OTHER, RANKED, Cloud, cloud, filling, is_multi, lookups, request
from prove.finding import Finding, Scale
from prove.near_points import improbable
from support.exchanges.any_request import Request
from support.grpc.calls import Seen
from support.grpc.stack import Asker
from support.process import stack
from support.process.stack import TIME
from support.qdrant.embedded import start_embedded_grpc_process
from support.qdrant.grpc_searches import GrpcSearch, grpc_search, id_of, point_of

MODES = ("off", "shadow", "on")
EVERYONE = 1_000  # more than any cloud holds
APART = 24  # dimensions from which a copy must be found
UNSTABLE = ("fusion", "rrf", "sample")  # served from a hash map or at random: two equal direct calls may differ
AGAIN = 8  # how often the database is asked again
SURELY = 100  # how often more before it is called of one mind: an order that it has seldom took more than 8
STALE_SECONDS = 1.0  # servers end connections that were idle for some seconds
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Point:
    """One result. ``raw``: as it is written; ``value``: what it says, whatever the order of its members."""

    id: int | str
    score: float | str | None
    raw: bytes
    value: Any


@dataclass(frozen=True, slots=True)
class Description:
    """One answer. ``kind``: status and what else is no result. ``whole``: all its bytes but the time it took.

    ``value``: what they say, of a read that is no ranking.
    """

    kind: Any
    whole: bytes
    lists: tuple[tuple[Point, ...], ...] | None
    report: Mapping[str, float]
    value: Any = None


@dataclass
class RequestRecorder:
    """What came of requests so far. ``clean_pages``: of clouds without copies, in mode on; ``chance``: of those, with points near by chance. ``reasons``: differences with a known cause. ``stray``: those without, and the request."""

    made: int = 0
    refused: int = 0
    distinct: int = 0
    clean_pages: int = 0
    chance: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    stray: list[str] = field(default_factory=list)


class Rest:
    """A client of one URL, on one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._last = time.monotonic()

    def ask(self, made: Cloud, search: Request) -> Description:
        """One request."""
        path = f"{made.path}/points/{search.operation}{'/batch' if search.is_batch else ''}".rstrip("/")
        if time.monotonic() - self._last > STALE_SECONDS or _is_ended(self._connection):
            self._connection.close()
        self._connection.request("POST", path, search.text, JSON)
        answer = self._connection.getresponse()
        whole = TIME.sub(b'"time":0', answer.read())
        self._last = time.monotonic()
        lists, value = None, None
        if answer.status == 200 and search.operation in RANKED:
            lists = tuple(tuple(map(_rest_point, result)) for result in search.results(whole))
        elif answer.status == 200:
            value = json.loads(whole)
        kind = (answer.status, answer.getheader("Content-Type"))
        return Description(kind, whole, lists, _report(answer.getheader("x-vecsieve")), value)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class Grpc:
    """A client of one address; what gRPC has no words for is not asked."""

    def __init__(self, url: str) -> None:
        self._asker = Asker(url)

    def ask(self, made: Cloud, search: Request) -> Description:
        """One request."""
        call = in_grpc(made, search)
        if call is None:
            return Description("not to be said", b"", None, {})
        seen = self._asker.ask(call)
        whole = b"".join(seen.messages)
        lists = None
        if seen.code is grpc.StatusCode.OK:
            lists = tuple(tuple(map(_grpc_point, result)) for result in call.results(whole))
        reports = [str(value) for name, value in seen.initial if name == "x-vecsieve"]
        return Description(_plain(seen), whole, lists, _report(reports[0] if reports else None))

    def close(self) -> None:
        """End the connection."""
        self._asker.__exit__(None, None, None)


Client = Rest | Grpc
Ask = Callable[[Request], Description]


def _is_ended(connection: HTTPConnection) -> bool:
    """Whether the server ended an idle connection, as Qdrant's does after a 404 whose body it did not read."""
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


def in_grpc(made: Cloud, search: Request) -> GrpcSearch | None:
    """The request as a message; None where it cannot be said."""
    if search.operation not in RANKED:
        return None
    try:
        return grpc_search(search.operation, made.name, search.items, is_batch=search.is_batch)
    except (ValidationError, ValueError, TypeError):
        return None


def _plain(seen: Seen) -> Any:
    """Status and metadata; of the date, which two equal calls have apart, that it is there."""
    initial = ((name, "" if name == "date" else value) for name, value in seen.initial if name != "x-vecsieve")
    return seen.code, seen.details, tuple(initial), seen.trailing


def _rest_point(raw: bytes) -> Point:
    value = json.loads(raw)
    return Point(value["id"], value["score"], raw, value)


def _grpc_point(raw: bytes) -> Point:
    value = point_of(raw)
    score = float(value.score)
    return Point(id_of(raw), "nan" if math.isnan(score) else score, raw, value.SerializeToString(deterministic=True))


def _report(value: str | None) -> dict[str, float]:
    pairs = [
        pair.partition("=")
        for pair in (value or "").split(";")
        if pair and not pair.startswith(("bypass=", "fail_open="))
    ]
    return {name: float(number) for name, _, number in pairs}


def judge(made: Cloud, search: Request, ask: Ask, through: Mapping[str, Description], totals: RequestRecorder) -> None:
    """One request: what each mode answered beside what ``ask``, the database itself, answers."""
    direct = ask(search)
    totals.made += 1
    totals.refused += direct.lists is None and search.operation in RANKED
    totals.clean_pages += len(direct.lists or ()) * (not made.is_copied)
    for mode, answer in through.items():
        wrong, reasons = _judged(made, search, ask, (direct, answer), totals if mode == "on" else None)
        if wrong:
            totals.stray.append(f"{mode} {made.name} {search.operation} {search.text.decode()[:1500]}: {wrong}")
        totals.reasons.update(f"{mode}: {reason}" for reason in reasons)


def _judged(
    made: Cloud, search: Request, ask: Ask, both: tuple[Description, Description], totals: RequestRecorder | None
) -> tuple[str, set[str]]:
    """What is wrong, or why the answer is another. ``totals``: that of mode on, which may leave copies out."""
    direct, answer = both
    if answer.kind != direct.kind:
        return "another status or field", set()
    if answer.whole == direct.whole:
        return "", set()
    if answer.lists is None or direct.lists is None or len(answer.lists) != len(direct.lists):
        return _read_as_direct(search, ask, direct.value, answer.value)
    reasons: set[str] = set()
    for place, item in enumerate(search.items):
        plain, results = direct.lists[place], answer.lists[place]
        if results == plain:
            continue
        more = SURELY if totals is None else 0  # in mode on a list is another for other reasons, judged below
        wrong, reason = _as_direct(partial(_again, ask, search, place), plain, results, more=more)
        if wrong and totals is not None:
            wrong, reason = _part_of_direct(
                made, search.of(item), ask, (plain, results), answer.report if not search.is_batch else {}
            )
            totals.distinct += reason == LEFT_OUT
            totals.chance += reason == CHANCE
        if wrong:
            return wrong, reasons
        reasons.add(reason)
    return "", reasons


def _read_as_direct(search: Request, ask: Ask, plain: Any, results: Any) -> tuple[str, set[str]]:
    """What is wrong with a read that is no ranking, or why it is another. Groups are asked again, as rankings are."""
    if plain is not None and results == plain:
        return "", {SHUFFLED}
    if plain is None or results is None or not search.operation.endswith("groups"):
        return "other bytes", set()
    is_settled = all(ask(search).value == plain for _ in range(SURELY))
    if is_settled or _heads(results) != _heads(plain):
        return "other groups", set()
    return "", {GROUPS_VARY}


def _heads(answer: Any) -> list[tuple[float, int]]:
    """The best score of each group, and how many it shows."""
    return [(group["hits"][0]["score"], len(group["hits"])) for group in answer["result"]["groups"]]


def _again(ask: Ask, search: Request, place: int) -> tuple[Point, ...]:
    answer = ask(search)
    return answer.lists[place] if answer.lists is not None else ()


def _as_direct(
    again: Callable[[], tuple[Point, ...]], plain: Sequence[Point], results: Sequence[Point], *, more: int
) -> tuple[str, str]:
    """Why a list is the database's own, which is asked again, ``more`` often where it seems to be of one mind."""
    if _values(results) == _values(plain):
        return "", SHUFFLED
    if len(results) != len(plain):
        return f"{len(results)} results, directly {len(plain)}", ""
    others = [again() for _ in range(AGAIN)]
    if all(_values(other) == _values(plain) for other in others):
        others += [again() for _ in range(more)]
    if any(_values(other) == _values(results) for other in others):
        return "", TWO_MINDS
    if all(_values(other) == _values(plain) for other in others):
        return "another list", ""
    is_tied = any(_scores(results) == _scores(other) for other in (plain, *others))
    if is_tied or any(_scores(other) != _scores(plain) for other in others):
        return "", TIES_VARY if is_tied else CUT_VARIES
    return "other scores", ""


def _values(points: Sequence[Point]) -> list[Any]:
    return [point.value for point in points]


def _scores(points: Sequence[Point]) -> list[Any]:
    return [point.score for point in points]


def _part_of_direct(
    made: Cloud, search: Request, ask: Ask, both: tuple[Sequence[Point], Sequence[Point]], report: Mapping[str, float]
) -> tuple[str, str]:
    """What is wrong with one list of mode on, or why it is another one. ``search``: its search alone."""
    (plain, results), (item,) = both, search.items
    everyone = ask(search.of({**{name: it for name, it in item.items() if name != "offset"}, "limit": EVERYONE}))
    if everyone.lists is None:
        return "a longer page is refused", ""
    wrong, reason = compared(made, item, plain, results, everyone.lists[0])
    if not wrong and reason == LEFT_OUT and report:
        wrong = _missed(made, item, results, everyone.lists[0], report)
    return wrong, reason


TWO_MINDS = "the database answers two equal requests differently"
TIES_VARY = "the database orders equal scores differently each time"
GROUPS_VARY = "the database forms groups of equal scores differently each time"
CUT_VARIES = "the database ranks a random sample or cuts through equal scores differently each time"
LEFT_OUT = "copies left out"
CHANCE = "points of a clean cloud left out that lie nearer to one another than chance explains"
CHANCE_PAGES = 0.02  # of all pages of clean clouds
UNSTABLE_COPIES = (
    "copies in a ranking that the database itself makes differently each time: only their number was judged"
)
SHUFFLED = "members in another order, as the database's hash map has them"
TIES = "equal scores in another order, which depends on the limit"


def compared(
    made: Cloud, item: Mapping[str, Any], plain: Sequence[Point], results: Sequence[Point], everyone: Sequence[Point]
) -> tuple[str, str]:
    """What is wrong with one list, or why it may differ from the database's own."""
    if wrong := _not_of_the_ranking(made, plain, results):
        return wrong, ""
    if is_unstable(item) and made.is_copied:
        return "", UNSTABLE_COPIES
    there, runs = {point.id: point for point in everyone}, runs_of(everyone)
    strange = [point.id for point in results if point.id not in there or there[point.id].value != point.value]
    order = [runs.get(point.id, -1) for point in results]
    if strange or order != sorted(order):
        return f"points that the database does not have so: {strange[:3]}" if strange else "another order than its", ""
    if order == [runs.get(point.id) for point in plain]:
        return "", TIES
    offset = int(item.get("offset") or 0)
    if made.is_copied:
        return ("" if offset else _not_a_copy(made, results, everyone, runs)), LEFT_OUT
    gone = {point.id for point in plain} - {point.id for point in results}
    is_near = is_chance(made, results, everyone[: len(plain) + offset])
    return ("" if is_near else f"{len(gone)} of {len(plain)} results left out of a cloud without copies"), CHANCE


def is_chance(made: Cloud, results: Sequence[Point], page: Sequence[Point]) -> bool:
    """Whether all that was left out of a page lies nearer to another point of it than chance explains, by one of its vectors."""
    ids = {point.id for point in results}
    left_out = {point.id for point in page} - ids
    vectors = {point["id"]: point["vector"] for point in made.points}
    near: set[int | str] = set()
    if not vectors.keys() >= {point.id for point in page}:
        return False
    for name, size in made.sizes.items():
        if size and not is_multi(name):
            rows = np.array([vectors[point.id][name] for point in page])
            near |= {page[place].id for place in improbable(rows)}
    return bool(left_out) and left_out <= near


def _not_of_the_ranking(made: Cloud, plain: Sequence[Point], results: Sequence[Point]) -> str:
    """Fewer points are right where all that lack repeat a text of the page: by default no text stands twice."""
    seen = {made.families.get(point.id) for point in results}
    lacking = [point for point in plain if made.families.get(point.id) not in seen]
    if len(results) > len(plain) or (len(results) < len(plain) and (lacking or not made.is_copied)):
        return f"{len(results)} results, directly {len(plain)}"
    return "a point twice" if len({point.id for point in results}) != len(results) else ""


def is_unstable(item: Mapping[str, Any]) -> bool:
    """Whether two equal direct calls may differ where scores are equal, as those of copies are."""
    query = json.dumps(item.get("query"))
    return "prefetch" in item or any(f'"{word}"' in query for word in UNSTABLE)


def runs_of(everyone: Sequence[Point]) -> dict[int | str, int]:
    """Id -> number of its run of equal scores: the order within one depends on the limit, directly as well."""
    steps, run = {}, 0
    for before, point in pairwise([None, *everyone]):
        run += before is not None and point is not None and before.score != point.score
        if point is not None:
            steps[point.id] = run
    return steps


def _not_a_copy(made: Cloud, results: Sequence[Point], everyone: Sequence[Point], runs: Mapping[int | str, int]) -> str:
    """What was left out ahead of the last result and is a copy of no result."""
    last = max(runs[point.id] for point in results)
    ids, families = {point.id for point in results}, {made.families[point.id] for point in results}
    left_out = [point.id for point in everyone if runs[point.id] < last and point.id not in ids]
    wrong = [identifier for identifier in left_out if made.families[identifier] not in families]
    return f"left out and no copy: {wrong[:3]}, {len(wrong)} of {len(left_out)}" if wrong else ""


def _missed(
    made: Cloud,
    item: Mapping[str, Any],
    results: Sequence[Point],
    everyone: Sequence[Point],
    report: Mapping[str, float],
) -> str:
    """Copies shown although the pool had others. Judged for a nearest search by a dense vector of enough dimensions."""
    name = item.get("using", "")
    query = item.get("query", item.get("vector"))
    if isinstance(query, dict) and "vector" in query:
        name, query = query["name"], query["vector"]
    is_dense = isinstance(query, list) and bool(query) and not isinstance(query[0], list)
    if not is_dense or item.get("offset") or "prefetch" in item or made.sizes[name] < APART or "pool" not in report:
        return ""
    pool = {made.families[point.id] for point in everyone[: int(report["pool"])]}
    families = {made.families[point.id] for point in results}
    expected = min(len(results), len(pool))
    return (
        ""
        if len(families) == expected
        else f"{len(families)} different of {len(results)} where {len(pool)} were in the pool"
    )


@contextmanager
def running(server: tuple[str, str] | None = None) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The URLs for REST and gRPC of a server, the embedded engine without one, and the proxy's in each mode, which speaks both."""
    with ExitStack() as opened:
        rest, rpc = server or opened.enter_context(start_embedded_grpc_process())
        yield (
            rest,
            rpc,
            {
                mode: opened.enter_context(stack.serve(rest, "--grpc-upstream", rpc, "--mode", mode))[0]
                for mode in MODES
            },
        )


@contextmanager
def loaded(url: str, made: Cloud) -> Iterator[None]:
    """The cloud and the collection that its lookups read, both gone when the block is left."""
    collections = {made.path: filling(made), f"/collections/{OTHER}": lookups(made)}
    try:
        for path, points in collections.items():
            _put(url, path, json.dumps(made.creation()).encode())
            _put(url, f"{path}/points?wait=true", points)
        for name, kind in (("price", "float"), ("group", "integer")):
            _put(url, f"{made.path}/index?wait=true", json.dumps({"field_name": name, "field_schema": kind}).encode())
        yield
    finally:
        for path in collections:
            stack.exchange(url, "DELETE", path)


def _put(url: str, path: str, body: bytes) -> None:
    answer = stack.exchange(url, "PUT", path, body)
    assert answer.status == 200, answer.body


def fuzzed(
    count: int, clouds: Sequence[int] = range(CLOUDS), server: tuple[str, str] | None = None
) -> dict[str, RequestRecorder]:
    """So many requests over both transports together, spread over the clouds. ``server``: as of ``running``."""
    tallies = {"REST": RequestRecorder(), "gRPC": RequestRecorder()}
    with running(server) as (rest, rpc, proxies), ExitStack() as opened:
        clients: dict[str, dict[str, Client]] = {
            "REST": {"direct": Rest(rest), **{mode: Rest(url) for mode, url in proxies.items()}},
            "gRPC": {"direct": Grpc(rpc), **{mode: Grpc(url) for mode, url in proxies.items()}},
        }
        for client_ in (client for group in clients.values() for client in group.values()):
            opened.callback(client_.close)
        for place, number in enumerate(clouds):
            made = cloud(number)
            with loaded(rest, made):
                for step in range(place, count, len(clouds)):
                    search = request(step, made)
                    transport = "gRPC" if step // len(clouds) % 2 and in_grpc(made, search) is not None else "REST"
                    _compare_request(made, search, clients[transport], tallies[transport])
    return tallies


def _compare_request(made: Cloud, search: Request, clients: Mapping[str, Client], totals: RequestRecorder) -> None:
    through = {mode: clients[mode].ask(made, search) for mode in MODES}
    judge(made, search, lambda one: clients["direct"].ask(made, one), through, totals)


def findings(tallies: Mapping[str, RequestRecorder]) -> list[Finding]:
    """One row a transport."""
    criterion = (
        "off, shadow: direct's bytes; on: its bytes in its order, as many, no copies, all of a clean cloud "
        f"(but for {CHANCE_PAGES:.0%} of pages with points near by chance); 0 unexplained"
    )
    rows = []
    for transport, totals in tallies.items():
        summary = f"{totals.made} requests, {totals.refused} refused by the database, {len(totals.stray)} unexplained"
        summary += "".join(f"; {line[:300]}" for line in totals.stray[:3])
        summary += f"; {totals.chance} of {totals.clean_pages} pages of clean clouds with points near by chance"
        summary += "".join(f"; {count} {reason}" for reason, count in sorted(totals.reasons.items()))
        is_rare = totals.chance <= totals.clean_pages * CHANCE_PAGES + 1
        met = not totals.stray and totals.distinct > 0 and is_rare
        rows.append(Finding("T7", f"any request on the engine over {transport}", criterion, summary, met))
    return rows


async def prove(scale: Scale) -> list[Finding]:
    """T7: both transports."""
    return findings(await asyncio.to_thread(fuzzed, scale.engine_requests))
