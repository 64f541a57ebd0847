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
from support.qdrant.grpc_searches import Said, id_of, point_of, said

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

    def ask(self, made: Cloud, asked: Request) -> Description:
        """One request."""
        path = f"{made.path}/points/{asked.operation}{'/batch' if asked.is_batch else ''}".rstrip("/")
        if time.monotonic() - self._last > STALE_SECONDS or _is_ended(self._connection):
            self._connection.close()
        self._connection.request("POST", path, asked.text, JSON)
        answer = self._connection.getresponse()
        whole = TIME.sub(b'"time":0', answer.read())
        self._last = time.monotonic()
        lists, value = None, None
        if answer.status == 200 and asked.operation in RANKED:
            lists = tuple(tuple(map(_rest_point, result)) for result in asked.results(whole))
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

    def ask(self, made: Cloud, asked: Request) -> Description:
        """One request."""
        call = in_grpc(made, asked)
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


def in_grpc(made: Cloud, asked: Request) -> Said | None:
    """The request as a message; None where it cannot be said."""
    if asked.operation not in RANKED:
        return None
    try:
        return said(asked.operation, made.name, asked.items, is_batch=asked.is_batch)
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


def judge(made: Cloud, asked: Request, ask: Ask, through: Mapping[str, Description], tally: RequestRecorder) -> None:
    """One request: what each mode answered beside what ``ask``, the database itself, answers."""
    direct = ask(asked)
    tally.made += 1
    tally.refused += direct.lists is None and asked.operation in RANKED
    tally.clean_pages += len(direct.lists or ()) * (not made.is_copied)
    for mode, told in through.items():
        wrong, reasons = _judged(made, asked, ask, (direct, told), tally if mode == "on" else None)
        if wrong:
            tally.stray.append(f"{mode} {made.name} {asked.operation} {asked.text.decode()[:1500]}: {wrong}")
        tally.reasons.update(f"{mode}: {reason}" for reason in reasons)


def _judged(
    made: Cloud, asked: Request, ask: Ask, both: tuple[Description, Description], tally: RequestRecorder | None
) -> tuple[str, set[str]]:
    """What is wrong, or why the answer is another. ``tally``: that of mode on, which may leave copies out."""
    direct, told = both
    if told.kind != direct.kind:
        return "another status or field", set()
    if told.whole == direct.whole:
        return "", set()
    if told.lists is None or direct.lists is None or len(told.lists) != len(direct.lists):
        return _read_as_direct(asked, ask, direct.value, told.value)
    reasons: set[str] = set()
    for place, item in enumerate(asked.items):
        own, found = direct.lists[place], told.lists[place]
        if found == own:
            continue
        more = SURELY if tally is None else 0  # in mode on a list is another for other reasons, judged below
        wrong, reason = _as_direct(partial(_again, ask, asked, place), own, found, more=more)
        if wrong and tally is not None:
            wrong, reason = _part_of_direct(
                made, asked.of(item), ask, (own, found), told.report if not asked.is_batch else {}
            )
            tally.distinct += reason == LEFT_OUT
            tally.chance += reason == CHANCE
        if wrong:
            return wrong, reasons
        reasons.add(reason)
    return "", reasons


def _read_as_direct(asked: Request, ask: Ask, own: Any, found: Any) -> tuple[str, set[str]]:
    """What is wrong with a read that is no ranking, or why it is another. Groups are asked again, as rankings are."""
    if own is not None and found == own:
        return "", {SHUFFLED}
    if own is None or found is None or not asked.operation.endswith("groups"):
        return "other bytes", set()
    is_settled = all(ask(asked).value == own for _ in range(SURELY))
    if is_settled or _heads(found) != _heads(own):
        return "other groups", set()
    return "", {GROUPS_EACH_TIME}


def _heads(answer: Any) -> list[tuple[float, int]]:
    """The best score of each group, and how many it shows."""
    return [(group["hits"][0]["score"], len(group["hits"])) for group in answer["result"]["groups"]]


def _again(ask: Ask, asked: Request, place: int) -> tuple[Point, ...]:
    told = ask(asked)
    return told.lists[place] if told.lists is not None else ()


def _as_direct(
    again: Callable[[], tuple[Point, ...]], own: Sequence[Point], found: Sequence[Point], *, more: int
) -> tuple[str, str]:
    """Why a list is the database's own, which is asked again, ``more`` often where it seems to be of one mind."""
    if _values(found) == _values(own):
        return "", SHUFFLED
    if len(found) != len(own):
        return f"{len(found)} results, directly {len(own)}", ""
    others = [again() for _ in range(AGAIN)]
    if all(_values(other) == _values(own) for other in others):
        others += [again() for _ in range(more)]
    if any(_values(other) == _values(found) for other in others):
        return "", TWO_MINDS
    if all(_values(other) == _values(own) for other in others):
        return "another list", ""
    is_tied = any(_scores(found) == _scores(other) for other in (own, *others))
    if is_tied or any(_scores(other) != _scores(own) for other in others):
        return "", TIES_EACH_TIME if is_tied else CUT_EACH_TIME
    return "other scores", ""


def _values(points: Sequence[Point]) -> list[Any]:
    return [point.value for point in points]


def _scores(points: Sequence[Point]) -> list[Any]:
    return [point.score for point in points]


def _part_of_direct(
    made: Cloud, asked: Request, ask: Ask, both: tuple[Sequence[Point], Sequence[Point]], report: Mapping[str, float]
) -> tuple[str, str]:
    """What is wrong with one list of mode on, or why it is another one. ``asked``: its search alone."""
    (own, found), (item,) = both, asked.items
    everyone = ask(asked.of({**{name: it for name, it in item.items() if name != "offset"}, "limit": EVERYONE}))
    if everyone.lists is None:
        return "a longer page is refused", ""
    wrong, reason = compared(made, item, own, found, everyone.lists[0])
    if not wrong and reason == LEFT_OUT and report:
        wrong = _missed(made, item, found, everyone.lists[0], report)
    return wrong, reason


TWO_MINDS = "the database answers two equal requests differently"
TIES_EACH_TIME = "the database orders equal scores differently each time"
GROUPS_EACH_TIME = "the database forms groups of equal scores differently each time"
CUT_EACH_TIME = "the database ranks a random sample or cuts through equal scores differently each time"
LEFT_OUT = "copies left out"
CHANCE = "points of a clean cloud left out that lie nearer to one another than chance explains"
CHANCE_PAGES = 0.02  # of all pages of clean clouds
UNSTABLE_COPIES = (
    "copies in a ranking that the database itself makes differently each time: only their number was judged"
)
SHUFFLED = "members in another order, as the database's hash map has them"
TIES = "equal scores in another order, which depends on the limit"


def compared(
    made: Cloud, item: Mapping[str, Any], own: Sequence[Point], found: Sequence[Point], everyone: Sequence[Point]
) -> tuple[str, str]:
    """What is wrong with one list, or why it may differ from the database's own."""
    if wrong := _not_of_the_ranking(made, own, found):
        return wrong, ""
    if is_unstable(item) and made.is_copied:
        return "", UNSTABLE_COPIES
    there, runs = {point.id: point for point in everyone}, runs_of(everyone)
    strange = [point.id for point in found if point.id not in there or there[point.id].value != point.value]
    order = [runs.get(point.id, -1) for point in found]
    if strange or order != sorted(order):
        return f"points that the database does not have so: {strange[:3]}" if strange else "another order than its", ""
    if order == [runs.get(point.id) for point in own]:
        return "", TIES
    offset = int(item.get("offset") or 0)
    if made.is_copied:
        return ("" if offset else _not_a_copy(made, found, everyone, runs)), LEFT_OUT
    gone = {point.id for point in own} - {point.id for point in found}
    is_near = is_chance(made, found, everyone[: len(own) + offset])
    return ("" if is_near else f"{len(gone)} of {len(own)} results left out of a cloud without copies"), CHANCE


def is_chance(made: Cloud, found: Sequence[Point], page: Sequence[Point]) -> bool:
    """Whether all that was left out of a page lies nearer to another point of it than chance explains, by one of its vectors."""
    shown = {point.id for point in found}
    left_out = {point.id for point in page} - shown
    vectors = {point["id"]: point["vector"] for point in made.points}
    near: set[int | str] = set()
    if not vectors.keys() >= {point.id for point in page}:
        return False
    for name, size in made.sizes.items():
        if size and not is_multi(name):
            rows = np.array([vectors[point.id][name] for point in page])
            near |= {page[place].id for place in improbable(rows)}
    return bool(left_out) and left_out <= near


def _not_of_the_ranking(made: Cloud, own: Sequence[Point], found: Sequence[Point]) -> str:
    """Fewer points are right where all that lack repeat a text of the page: by default no text stands twice."""
    shown = {made.families.get(point.id) for point in found}
    lacking = [point for point in own if made.families.get(point.id) not in shown]
    if len(found) > len(own) or (len(found) < len(own) and (lacking or not made.is_copied)):
        return f"{len(found)} results, directly {len(own)}"
    return "a point twice" if len({point.id for point in found}) != len(found) else ""


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


def _not_a_copy(made: Cloud, found: Sequence[Point], everyone: Sequence[Point], runs: Mapping[int | str, int]) -> str:
    """What was left out ahead of the last result and is a copy of no result."""
    last = max(runs[point.id] for point in found)
    shown, families = {point.id for point in found}, {made.families[point.id] for point in found}
    left_out = [point.id for point in everyone if runs[point.id] < last and point.id not in shown]
    wrong = [identifier for identifier in left_out if made.families[identifier] not in families]
    return f"left out and no copy: {wrong[:3]}, {len(wrong)} of {len(left_out)}" if wrong else ""


def _missed(
    made: Cloud, item: Mapping[str, Any], found: Sequence[Point], everyone: Sequence[Point], report: Mapping[str, float]
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
    shown = {made.families[point.id] for point in found}
    wanted = min(len(found), len(pool))
    return "" if len(shown) == wanted else f"{len(shown)} different of {len(found)} where {len(pool)} were in the pool"


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
        for each in (client for group in clients.values() for client in group.values()):
            opened.callback(each.close)
        for place, number in enumerate(clouds):
            made = cloud(number)
            with loaded(rest, made):
                for step in range(place, count, len(clouds)):
                    asked = request(step, made)
                    transport = "gRPC" if step // len(clouds) % 2 and in_grpc(made, asked) is not None else "REST"
                    _asked(made, asked, clients[transport], tallies[transport])
    return tallies


def _asked(made: Cloud, asked: Request, clients: Mapping[str, Client], tally: RequestRecorder) -> None:
    through = {mode: clients[mode].ask(made, asked) for mode in MODES}
    judge(made, asked, lambda one: clients["direct"].ask(made, one), through, tally)


def findings(tallies: Mapping[str, RequestRecorder]) -> list[Finding]:
    """One row a transport."""
    criterion = (
        "off, shadow: direct's bytes; on: its bytes in its order, as many, no copies, all of a clean cloud "
        f"(but for {CHANCE_PAGES:.0%} of pages with points near by chance); 0 unexplained"
    )
    rows = []
    for transport, tally in tallies.items():
        told = f"{tally.made} requests, {tally.refused} refused by the database, {len(tally.stray)} unexplained"
        told += "".join(f"; {each[:300]}" for each in tally.stray[:3])
        told += f"; {tally.chance} of {tally.clean_pages} pages of clean clouds with points near by chance"
        told += "".join(f"; {count} {reason}" for reason, count in sorted(tally.reasons.items()))
        is_rare = tally.chance <= tally.clean_pages * CHANCE_PAGES + 1
        met = not tally.stray and tally.distinct > 0 and is_rare
        rows.append(Finding("T7", f"any request on the engine over {transport}", criterion, told, met))
    return rows


async def prove(scale: Scale) -> list[Finding]:
    """T7: both transports."""
    return findings(await asyncio.to_thread(fuzzed, scale.engine_requests))
