"""S9: any sequence of searches, writes, faults, reloads and broken connections, on one proxy each: every promise at every step.

In this process, so that a thousand proxies take minutes. What a direct call shows is asked of the same upstream, step by step.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from prove.answer_faults import ACTS
from prove.faults import Seen, seen
from prove.finding import Finding, Scale
from prove.verdicts import is_as_broken, is_direct, is_fair
from support.exchanges.drawing import drawn
from support.exchanges.widened_faults import FAULTS
from support.network.faulty_upstream import FaultyUpstream, Received, Talk, reply
from support.process.running import Running, running
from support.qdrant.scripted import honest, is_widened, request, search
from vecsieve.config.schema import Settings

SLOW = {"silence", "trickle"}  # F has them at length
WIDENED = tuple(sorted(FAULTS.keys() - SLOW))
EVERYWHERE = ("reset", "hang-up", "cut-mid-body", "last-chunk-missing", "500", "503", "empty", "garbage")
DROPPED = ("hang-up", "reset")
MODES = ("on", "shadow", "off")
LIMITS: tuple[Mapping[str, object], ...] = ({}, {"searches_in_flight": 1}, {"reply_body_bytes": 2_000})
CONFIGS: tuple[Mapping[str, object], ...] = (
    {},
    {"policy": {"mode": "off"}},
    {"policy": {"mode": "shadow"}},
    {"policy": {"fetch": {"factor": 6}}},
    {"policy": {"session": {"turns": 3}}},
    {"rules": ({"collection": "c1", "policy": {"mode": "off"}},)},
    {"forbidden_overrides": ("mode",)},
    {"explain": {"keep": 3}},
)


@dataclass(frozen=True, slots=True)
class Search:
    """``fault``: what the upstream does to the widened request, or ``everywhere``. ``mode``: a header's, None for none."""

    collection: int
    limit: int
    mode: str | None
    fault: str = ""
    everywhere: bool = False

    @property
    def raw(self) -> bytes:
        """On a connection of its own."""
        fields = b"" if self.mode is None else b"x-vecsieve-mode: %s\r\n" % self.mode.encode()
        fields += b"x-fault: %s\r\n" % self.fault.encode() if self.fault else b""
        fields += b"x-scope: all\r\n" if self.everywhere else b""
        target = b"/collections/c%d/points/query" % self.collection
        return request(search(self.limit), headers=fields, target=target)


@dataclass(frozen=True, slots=True)
class Write:
    """``fault``: what the upstream does when it has read it all."""

    fault: str = ""

    def raw(self, number: int) -> bytes:
        """A write that tells itself from every other."""
        body = b'{"write":%d}' % number
        header = b"x-fault: %s\r\n" % self.fault.encode() if self.fault else b""
        head = b"PUT /collections/c0/points HTTP/1.1\r\nHost: db\r\nConnection: close\r\n"
        return head + header + b"Content-Length: %d\r\n\r\n" % len(body) + body


@dataclass(frozen=True, slots=True)
class Reload:
    """New settings, by their place in CONFIGS."""

    config: int


@dataclass(frozen=True, slots=True)
class HangUp:
    """The upstream ends every connection on which it waits."""


Request = Search | Write
Step = tuple[Request, ...] | Reload | HangUp
"""What is asked at once, or something that happens between."""

MOST_RESULTS = 8
_PLACES, _LIMIT, _MODE = st.integers(0, 2), st.integers(1, MOST_RESULTS), st.sampled_from([None, *MODES])
_REQUESTS = st.one_of(
    st.builds(Search, _PLACES, _LIMIT, _MODE),
    st.builds(Search, _PLACES, _LIMIT, _MODE, st.sampled_from(WIDENED)),
    st.builds(Search, _PLACES, _LIMIT, _MODE, st.sampled_from(EVERYWHERE), st.just(True)),
    st.builds(Write),
    st.builds(Write, st.sampled_from(DROPPED)),
)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.lists(_REQUESTS, min_size=1, max_size=4).map(tuple),
    st.lists(_REQUESTS, min_size=1, max_size=1).map(tuple),
    st.builds(Reload, st.integers(0, len(CONFIGS) - 1)),
    st.builds(HangUp),
)
SEQUENCES = st.tuples(st.sampled_from(LIMITS), st.lists(STEPS, min_size=4, max_size=14))


def is_ours(received: Received) -> bool:
    """Whether the proxy made the request: it asks for vectors, or for more candidates than any client here."""
    return is_widened(received) or (
        received.line.startswith(b"POST ") and json.loads(received.content)["limit"] > MOST_RESULTS
    )


@dataclass(slots=True)
class Database:
    """The upstream of one sequence. ``written``: how often each write arrived whole."""

    waiting: set[Talk] = field(default_factory=set)
    written: Counter[bytes] = field(default_factory=Counter)

    async def __call__(self, talk: Talk) -> None:
        """Serve one connection."""
        while True:
            self.waiting.add(talk)
            received = await talk.request()
            self.waiting.discard(talk)
            if received is None or not await self._answered(talk, received):
                return

    async def _answered(self, talk: Talk, received: Received) -> bool:
        name = (received.header(b"x-fault") or b"").decode()
        if received.line.startswith(b"PUT "):
            self.written[received.content] += 1
            if name:
                return await ACTS[name](talk, received)
            await talk.send(reply(b"written"))
        elif name and (is_ours(received) or received.header(b"x-scope") == b"all"):
            if not await ACTS[name](talk, received):
                return False
        else:
            await talk.send(honest(received))
        return received.header(b"connection") != b"close"

    def hang_up(self) -> None:
        """End every connection on which nothing is asked."""
        for talk in self.waiting:
            talk.close()


@dataclass(slots=True)
class Broken:
    """What was wrong, by the criterion. ``first``: the sequence that showed it first."""

    requested: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def judged(self, criterion: str, where: object, *, is_kept: bool) -> None:
        """Count one judgement."""
        self.requested[criterion] += 1
        if not is_kept:
            self.wrong[criterion] += 1
            self.first.setdefault(criterion, repr(where)[:600])

    def finding(self, criterion: str, words: str, what: str) -> Finding:
        """One row."""
        bad, total = self.wrong[criterion], self.requested[criterion]
        measured = f"{total - bad} of {total}" + (f"; first: {self.first[criterion]}" if bad else "")
        return Finding("S9", what, f"{criterion}: {words}", measured, met=bool(total) and not bad)


async def prove(scale: Scale) -> list[Finding]:
    """So many sequences."""
    broken = Broken()
    for limits, steps in drawn(SEQUENCES, scale.sequences):
        await played(limits, steps, broken)
    what = f"{scale.sequences} sequences of up to 14 steps"
    return [
        broken.finding("F1", "a fault of the widened request is not the client's", what),
        broken.finding("F2", "what is cut is never whole, what is whole is whole", what),
        broken.finding("W1", "a write arrives once; once, where it was acknowledged", what),
        broken.finding("attempts", "one widened request and one of the client's own at most for each search", what),
        broken.finding("end", "nothing is left in flight", what),
        Finding(
            "S9", what, "some are improved", f"{broken.requested['improved']}", met=broken.requested["improved"] > 0
        ),
    ]


async def played(limits: Mapping[str, object], steps: Sequence[Step], broken: Broken) -> None:
    """One sequence on a proxy of its own."""
    database = Database()
    async with FaultyUpstream(database) as upstream, running(upstream.url, limits=limits) as proxy:
        scene = Scene(upstream, proxy, database, broken)
        for step in steps:
            match step:
                case Reload(config):
                    proxy.process.reload(settings(upstream.url, config))
                    scene.refuses_modes = CONFIGS[config].get("forbidden_overrides") is not None
                case HangUp():
                    database.hang_up()
                case batch:
                    await scene.at_once(batch)
        async with asyncio.timeout(5):
            while proxy.process.in_flight:
                await asyncio.sleep(0.005)
    broken.judged("end", steps, is_kept=not proxy.process.searches_in_flight)
    widened = sum(map(is_ours, upstream.requests))
    attempts = len(upstream.requests) - scene.directly - widened
    broken.judged("attempts", steps, is_kept=widened <= scene.searches and attempts <= scene.requested + widened)


def settings(url: str, config: int) -> Settings:
    """What a reload brings."""
    return Settings.model_validate({**CONFIGS[config], "upstream": {"url": url}})


@dataclass(slots=True)
class Scene:
    """One proxy before one upstream. ``requested``, ``searches``, ``directly``: how many so far."""

    upstream: FaultyUpstream
    proxy: Running
    database: Database
    outcome: Broken
    refuses_modes: bool = False
    requested: int = 0
    searches: int = 0
    directly: int = 0

    async def at_once(self, batch: Sequence[Request]) -> None:
        """Ask all at once, and judge each."""
        direct: dict[int, Seen] = {}
        for place, item in enumerate(batch):
            if isinstance(item, Search):
                direct[place] = await seen(self.upstream.port, item.raw)
        first, self.requested = self.requested, self.requested + len(batch)
        self.searches, self.directly = self.searches + len(direct), self.directly + len(direct)
        raws = [item.raw if isinstance(item, Search) else item.raw(first + place) for place, item in enumerate(batch)]
        answers = await asyncio.gather(*(seen(self.proxy.port, raw) for raw in raws))
        for place, (item, raw, through) in enumerate(zip(batch, raws, answers, strict=True)):
            if isinstance(item, Search):
                criterion, is_kept = self._judged(item, direct[place], through)
            else:
                times = self.database.written[raw.split(b"\r\n\r\n", 1)[1]]
                criterion, is_kept = "W1", times <= 1 and (times == 1 or through.kind != "whole")
            self.outcome.judged(criterion, (batch, item, through), is_kept=is_kept)
            self.outcome.requested["improved"] += through.plainly() != through.unexplained()

    def _judged(self, query: Search, direct: Seen, through: Seen) -> tuple[str, bool]:
        """The criterion, and whether it is kept."""
        if query.mode is not None and self.refuses_modes:
            return "F1", through == Seen("ours", b"400")
        if query.everywhere:
            return "F2", is_as_broken(direct, through)
        return "F1", is_direct(direct, through) if query.fault else is_fair(direct, through)
