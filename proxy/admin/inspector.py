"""The inspector's JSON under `/api/`: recent searches, doubtful pairs, collections, cost, settings; and judgements of pairs.

Who may read: on loopback, requests that name this machine as their host, so that no page of another site can reach it through its own name;
elsewhere, and also on loopback if a token is set, holders of the token. The cost is read from the existing metrics, of one process or of
all workers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

import orjson
from prometheus_client import CollectorRegistry

from vecsieve.config.addresses import Address
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import policy_of
from vecsieve.config.problems import masked
from vecsieve.config.schema import Settings

from ..search.collections.learned import Lru
from ..search.policy import Policies
from ..telemetry.exposition import Samples
from .access import has_token, names_this_machine, token_in
from .knowledge import MOST_ROWS, Ask, Kind, Question, collections_in_one, doubtful_first, in_one
from .recent import kept_by
from .whatif import Change, ChangeError
from .whatif import in_one as all_judged

MOST_JUDGED = 10_000  # pairs whose verdict is remembered
NAME_CHARACTERS = 2048  # length of a collection's name in a query
BODY_BYTES = 4096
TOKEN_FILE = "explain.token_file"  # noqa: S105 - the name of a setting
LARGEST = 2**53


class RefusedError(Exception):
    """A request that is refused: its status, and fixed words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorRequest:
    """The relevant parts of a request: ``field``: a header by its name; ``body``: of a POST."""

    method: str
    path: str
    query: str
    field: Callable[[str], str | None]
    body: bytes = b""

    def number(self, name: str) -> int:
        """A whole number of the query; 0 if it is missing. Raises RefusedError."""
        return _whole(parse_qs(self.query).get(name, ["0"])[0])


class InForce:
    """The settings that the page shows; a reload replaces them."""

    def __init__(self, settings: Settings) -> None:
        self.take(settings)

    def take(self, settings: Settings) -> None:
        self.settings, self.policies = settings, Policies(settings)


class Inspector:
    """Answers `/api/…` and `/explain`. ``ask``: asks the serving processes."""

    def __init__(self, ask: Ask, in_force: InForce, registry: CollectorRegistry) -> None:
        settings = in_force.settings
        self.ask = ask
        self._in_force = in_force
        self._registry = registry
        self._token = token_in(settings.explain.token_file, TOKEN_FILE)
        self._is_loopback = Address(settings.admin.rpartition(":")[0].strip("[]"), 0).is_loopback
        judgements = settings.explain.judgements
        self._judgements = None if judgements is None else Path(judgements)
        self._judged = Lru[tuple[object, ...], bool](MOST_JUDGED)

    def allow(self, request: InspectorRequest) -> None:
        """Raise RefusedError unless this request may read."""
        if self._is_loopback and not names_this_machine(request.field("Host")):
            raise RefusedError(403, "the Host of a request must be this machine's: localhost, 127.0.0.1 or [::1]")
        if self._token is not None and not has_token(self._token, request.field("Authorization")):
            raise RefusedError(401, "a token is needed: Authorization: Bearer TOKEN, as in explain.token_file")

    async def explain(self) -> bytes:
        """The body of `/explain`."""
        answers = await self.ask(Question(Kind.EXPLAIN))
        rows = sorted(in_one(answers), key=lambda row: -row["number"])
        return orjson.dumps({"keep": max((answer["keep"] for answer in answers), default=0), "records": rows}) + b"\n"

    async def answer(self, request: InspectorRequest) -> bytes:
        """The body of an answer. Raises RefusedError."""
        name, _, rest = request.path.removeprefix("/api/").partition("/")
        if name == "judgements" and not rest:
            if request.method != "POST":
                raise RefusedError(405, "method not allowed")
            return orjson.dumps(await self._judge(request))
        if request.method not in {"GET", "HEAD"}:
            raise RefusedError(405, "method not allowed")
        if name == "searches" and rest:
            return orjson.dumps(await self._search(_whole(rest)))
        page = None if rest else _PAGES.get(name)
        if page is None:
            raise RefusedError(404, f"not found: /api/ has {', '.join(_PAGES)}, searches/NUMBER, judgements")
        return orjson.dumps(await page(self, request))

    async def searches(self, request: InspectorRequest) -> object:
        answers = await self.ask(Question(Kind.SEARCHES, request.number("since")))
        rows = sorted(in_one(answers), key=lambda row: -row["number"])[:MOST_ROWS]
        return {
            "keep": max((answer["keep"] for answer in answers), default=0),
            "texts": any(answer["texts"] for answer in answers),
            "next": min((answer["reached"] for answer in answers), default=0),
            "searches": rows,
        }

    async def collections(self, _request: InspectorRequest) -> object:
        merged = collections_in_one(await self.ask(Question(Kind.COLLECTIONS)))
        for row in merged["collections"]:
            row.update(self._ruled("rule", row["collection"]))
        return merged

    async def cost(self, _request: InspectorRequest) -> object:
        return read_cost(self._registry)

    async def settings(self, request: InspectorRequest) -> object:
        """The effective settings without secrets; for ``?collection=`` the rule that matches, and its policy."""
        settings = self._in_force.settings
        reply = {"settings": _dumped(settings), "defaults": _dumped(Settings()), "keep": kept_by(settings)}
        names = parse_qs(request.query, keep_blank_values=True).get("collection")
        if not names:
            return reply
        name = names[0][:NAME_CHARACTERS]
        policy = self._policy(name)
        return {**reply, **self._ruled("rule", name), "policy": _dumped(policy)}

    async def doubtful(self, _request: InspectorRequest) -> object:
        pairs = doubtful_first(in_one(await self.ask(Question(Kind.DOUBTFUL))))
        for pair in pairs:
            pair["judged"] = self._judged.get(_key(pair))
        return {"judgements": None if self._judgements is None else str(self._judgements), "pairs": pairs}

    async def whatif(self, request: InspectorRequest) -> object:
        """The results that the policy in the query would have given for the kept pools."""
        try:
            change = Change.of({name: values[0] for name, values in parse_qs(request.query).items()})
        except ChangeError as error:
            raise RefusedError(400, str(error)) from error
        return {**all_judged(await self.ask(Question(Kind.WHATIF, change=change))), "yaml": change.as_yaml()}

    async def _search(self, number: int) -> object:
        rows = [answer["row"] for answer in await self.ask(Question(Kind.SEARCH, number)) if answer["row"] is not None]
        if not rows:
            raise RefusedError(404, "this search is no longer kept; explain.keep says how many are")
        name = rows[0]["collection"]
        return {**rows[0], **self._ruled("rule_number", name)}

    async def _judge(self, request: InspectorRequest) -> object:
        """Append one verdict to the file. The request names a pair by its search and rank, never by ids."""
        if self._judgements is None:
            raise RefusedError(404, "judgements are off: explain.judgements names their file")
        _same_site(request)
        number, rank, is_right = verdict_of(request.body)
        pairs = [
            answer["row"] for answer in await self.ask(Question(Kind.PAIR, number, rank)) if answer["row"] is not None
        ]
        if not pairs or pairs[0]["a"]["id"] is None or pairs[0]["b"]["id"] is None:
            raise RefusedError(404, "this pair is no longer kept, or has no identifiers")
        pair = pairs[0]
        if self._judged.get(_key(pair)) is not is_right:
            line = {"collection": pair["collection"], "a": pair["a"]["id"], "b": pair["b"]["id"], "copy": is_right}
            try:
                await asyncio.to_thread(_append, self._judgements, orjson.dumps(line) + b"\n")
            except OSError as error:
                raise RefusedError(
                    500, f"the file cannot be written: {(error.strerror or 'an error').lower()}"
                ) from error
            self._judged.hold(_key(pair), is_right)
        return {"judged": is_right}

    def _policy(self, collection: str) -> PolicySettings:
        number, settings = self._rule(collection), self._in_force.settings
        return settings.policy if number is None else policy_of(settings.policy, settings.rules[number])

    def _ruled(self, key: str, collection: str) -> dict[str, object]:
        """The number of the deciding rule, and its name if it has one."""
        number = self._rule(collection)
        return {key: number, "rule_name": None if number is None else self._in_force.settings.rules[number].name}

    def _rule(self, collection: str) -> int | None:
        return self._in_force.policies.rule_of(self._in_force.settings.backend, collection)


_PAGES = {
    "searches": Inspector.searches,
    "collections": Inspector.collections,
    "cost": Inspector.cost,
    "settings": Inspector.settings,
    "doubtful": Inspector.doubtful,
    "whatif": Inspector.whatif,
}


def _dumped(settings: Settings | PolicySettings) -> object:
    return masked(settings.model_dump(mode="json", by_alias=True))


def _key(pair: dict[str, object]) -> tuple[object, ...]:
    sides = [side["id"] for side in (pair["a"], pair["b"]) if isinstance(side, dict)]
    return pair["collection"], *map(str, sides)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 16 or int(text) > LARGEST:
        raise RefusedError(400, "a number of a search must be a whole number")
    return int(text)


def _same_site(request: InspectorRequest) -> None:
    """Raises RefusedError for a request that a page of another site may send."""
    origin, site = request.field("Origin"), request.field("Sec-Fetch-Site")
    if origin is not None and origin.partition("://")[2] != request.field("Host"):
        raise RefusedError(403, "the request comes from another site")
    if site is not None and site != "same-origin":
        raise RefusedError(403, "the request comes from another site")
    if (request.field("Content-Type") or "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "a judgement is application/json")


def verdict_of(body: bytes) -> tuple[int, int, bool]:
    """Search, rank and verdict of ``{"pair": {"search": …, "rank": …}, "right": true}``. Raises RefusedError."""
    try:
        judged = orjson.loads(body)
        number, rank, is_right = judged["pair"]["search"], judged["pair"]["rank"], judged["right"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        number, rank, is_right = None, None, None
    if type(number) is not int or type(rank) is not int or not isinstance(is_right, bool):
        raise RefusedError(400, 'a judgement is {"pair": {"search": number, "rank": number}, "right": true or false}')
    return number, rank, is_right


def _append(path: Path, line: bytes) -> None:
    """One write, so that lines of two processes do not mix. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


# For each member of the answer: its counter and label.
COUNTERS = {
    "outcomes": ("searches_total", "outcome"),
    "bypassed": ("bypass_total", "reason"),
    "failed_open": ("fail_open_total", "reason"),
    "collapsed": ("candidates_collapsed_total", "reason"),
    "memory": ("memory_recalls_total", "result"),
    "own_reads": ("own_reads_total", "kind"),
}
BYTES = {
    "from_database": "upstream_response_bytes_total",
    "to_clients": "client_response_bytes_total",
    "widened": "overfetch_bytes_total",
}
TIMES = {
    "added_ms": "added_latency_seconds",
    "request_ms": "request_duration_seconds",
    "database_ms": "upstream_request_duration_seconds",
}


def read_cost(registry: CollectorRegistry) -> dict[str, object]:
    """Counts since the start, except those that are 0, largest first; times in milliseconds."""
    samples = Samples(registry)
    return {
        **{name: _times(samples, metric) for name, metric in TIMES.items()},
        "bytes": {name: int(samples.total(metric)) for name, metric in BYTES.items()},
        **{name: _counts(samples.by(*counter)) for name, counter in COUNTERS.items()},
    }


def _counts(sums: Mapping[str, float]) -> dict[str, int]:
    counts = [(name, int(count)) for name, count in sums.items() if count]
    return dict(sorted(counts, key=lambda entry: -entry[1]))


def _times(samples: Samples, metric: str) -> dict[str, float | int | None]:
    """Count, mean and percentiles of a histogram over all its labels."""
    count, total = samples.total(f"{metric}_count"), samples.total(f"{metric}_sum")
    mean = total / count if count else None
    seconds = {"mean": mean, **{f"p{share}": samples.quantile(metric, share / 100) for share in (50, 95, 99)}}
    return {
        "count": int(count),
        **{name: None if duration is None else round(duration * 1000, 3) for name, duration in seconds.items()},
    }
