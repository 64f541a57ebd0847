"""Conversations: the results of earlier turns of a session, kept in this process or in a Valkey that several replicas share.

A session is identified by a digest of the client's identifier and credentials, so that clients with different credentials never share one.
Without an identifier, the searches of one client within a second or so may be one question, where a setting says so: a short session.
Results are kept as digests of points and texts. All of it is bounded, expires, and is safe to lose: without it an answer is as if there
were no session.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import SessionStoreSettings

from ...runtime.files import read_input
from ...selection.values import Fate
from ...telemetry.labels import Outcome
from ...telemetry.reports import Report
from ...telemetry.tracing import Clock
from ..candidates import records_of
from ..collections.learned import Lru
from ..errors import first_success
from ..policy import ResolvedPolicy
from ..pools.source import Source
from ..pools.values import Selected
from .clients import Client, credentials_digest
from .repeats import point_digests, text_digest

LOGGER = logging.getLogger("vecsieve.sessions")
REST_SECONDS = 1.0  # seconds without the shared store after a failure: at most one search waits for it in that time
RESULTS = 1000  # digests of a session, two or three for each result; the oldest are removed
LEAST_REPLY_BYTES, RESULT_BYTES = 64 * 1024, 128  # of a reply; a digest and its turn take 40

A = TypeVar("A")
T = TypeVar("T")


def identified(policy: ResolvedPolicy, headers: Iterable[tuple[str, str]]) -> ResolvedPolicy:
    """The policy, its session key bound to the credentials among these headers."""
    if policy.session_key is None:
        return policy
    return replace(policy, session_key=credentials_digest(policy.session_key, headers))


def of_question(policy: ResolvedPolicy, client: Client) -> ResolvedPolicy:
    """The policy, its session the question that the client asks now; unchanged if a setting knows no questions, the request names a session, or
    the client is unknown.
    """
    seconds = policy.session.question_seconds
    if seconds is None or policy.session_key is not None or not (client.key or client.address):
        return policy
    key = credentials_digest(f"question {client.address}".encode("utf-8", "surrogateescape"), client.headers)
    session = policy.session.model_copy(update={"ttl_seconds": seconds, "turns": int(seconds * 1000)})
    return replace(policy, session=session, session_key=key, is_question=True)


@dataclass(frozen=True, slots=True)
class Given:
    """The results that a session was given: for each digest, the turn. ``turn``: the last one, 0 before the first."""

    turn: int = 0
    turns: dict[bytes, int] | None = None

    def since(self, turns: int | None) -> frozenset[bytes]:
        """The digests of the last ``turns`` turns; None: of all."""
        known = self.turns or {}
        return frozenset(
            known if turns is None else [digest for digest, turn in known.items() if turn > self.turn - turns]
        )


class Store(Protocol):
    """Stores sessions. May raise anything."""

    async def given(self, key: bytes) -> Given: ...

    async def add(self, key: bytes, digests: Collection[bytes], turn: int, *, seconds: float) -> None: ...

    async def close(self) -> None: ...


class InProcess:
    """In memory. The least recently used session is dropped first; within a session, the oldest results."""

    __slots__ = ("_clock", "_results", "_sessions")

    def __init__(self, *, sessions: int, clock: Clock, results: int = RESULTS) -> None:
        self._sessions = Lru[bytes, tuple[float, int, OrderedDict[bytes, int]]](sessions)
        self._results, self._clock = results, clock

    async def given(self, key: bytes) -> Given:
        session = self._sessions.get(key)
        if session is None or self._clock() >= session[0]:
            return Given()
        return Given(session[1], dict(session[2]))

    async def add(self, key: bytes, digests: Collection[bytes], turn: int, *, seconds: float) -> None:
        session, now = self._sessions.get(key), self._clock()
        turns = OrderedDict[bytes, int]() if session is None or now >= session[0] else session[2]
        for digest in digests:
            turns[digest] = turn
            turns.move_to_end(digest)
        while len(turns) > self._results:
            turns.popitem(last=False)
        self._sessions.hold(key, (now + seconds, turn, turns))

    async def close(self) -> None:
        self._sessions.clear()


class Shared:
    """In a Valkey or Redis. A session is a sorted set of digests by turn. It expires as a whole, together with the number of its last turn."""

    __slots__ = ("_client", "_results", "_seconds")

    def __init__(self, client: Any, *, seconds: float, results: int = RESULTS) -> None:
        self._client, self._results, self._seconds = client, results, seconds

    async def given(self, key: bytes) -> Given:
        name = _name(key)
        pipe = self._client.pipeline(transaction=False)
        pipe.zrange(name, -self._results, -1, withscores=True)
        pipe.get(name + b":turn")
        rows, turn = await self._sent(pipe)
        try:
            known = {digest: int(score) for digest, score in rows if isinstance(digest, bytes)}
            return Given(int(turn or 0), known)
        except (ValueError, TypeError, OverflowError) as error:  # another program wrote it
            raise ConnectionError("the session store has no session where one belongs") from error

    async def add(self, key: bytes, digests: Collection[bytes], turn: int, *, seconds: float) -> None:
        name, milliseconds = _name(key), max(1, int(seconds * 1000))
        pipe = self._client.pipeline(transaction=True)
        if digests:
            pipe.zadd(name, dict.fromkeys(digests, turn))
        pipe.zremrangebyrank(name, 0, -(self._results + 1))
        pipe.pexpire(name, milliseconds)
        pipe.set(name + b":turn", turn, px=milliseconds)
        await self._sent(pipe)

    async def _sent(self, pipe: Any) -> Any:
        async with asyncio.timeout(self._seconds):
            return await pipe.execute()

    async def close(self) -> None:
        async with asyncio.timeout(self._seconds):
            await self._client.aclose()


def _name(key: bytes) -> bytes:
    return b"vecsieve:session:" + key.hex().encode()


def _bounded(kind: type[Any], most_bytes: int) -> type[Any]:
    """A class of connections that break off when the replies to one request exceed ``most_bytes``. The client has no limit of its own: a reply
    without an end took 0.9 GB within its timeout.
    """

    class Bounded(kind):  # type: ignore[misc]  # - of an extra, without types
        async def _connect(self) -> None:
            await super()._connect()
            feed, self._received = self._reader.feed_data, 0

            def fed(data: bytes) -> None:
                self._received += len(data)
                if self._received <= most_bytes:
                    feed(data)
                    return
                self._writer.transport.abort()
                self._reader.set_exception(ConnectionError(f"a reply of more than {most_bytes} bytes"))

            self._reader.feed_data = fed

        async def send_packed_command(self, *arguments: Any, **options: Any) -> None:
            self._received = 0
            await super().send_packed_command(*arguments, **options)

    return Bounded


def password_of(settings: SessionStoreSettings) -> str | None:
    """Of the store; None without a file. Raises SettingsError."""
    if settings.password_file is None:
        return None
    setting, expected = "sessions.password_file", "a readable file with a password"
    content = read_input(Path(settings.password_file), setting=setting, expected=expected)
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise SettingsError([Problem(setting, "a file that is not UTF-8 text", expected)]) from error


def store_of(settings: SessionStoreSettings, clock: Clock, *, results: int = RESULTS) -> Store:
    """Raises SettingsError for a password file that cannot be read."""
    if settings.url is None:
        return InProcess(sessions=settings.sessions, clock=clock, results=results)
    from redis.asyncio import Redis  # an extra; the settings check that it is there

    seconds, password = settings.timeout_seconds, password_of(settings)
    client = Redis.from_url(settings.url, password=password, socket_timeout=seconds, socket_connect_timeout=seconds)
    pool = client.connection_pool
    pool.connection_class = _bounded(pool.connection_class, LEAST_REPLY_BYTES + results * RESULT_BYTES)
    return Shared(client, seconds=seconds, results=results)


class Sessions:
    """Reads a session before its search is selected from and writes it after the answer. ``failed``: called for each failure of the store.
    ``now``: seconds since the epoch, as all replicas have them.
    """

    __slots__ = ("_clock", "_failed", "_now", "_rests_until", "_store")

    def __init__(
        self, store: Store, *, clock: Clock, failed: Callable[[], None], now: Callable[[], float] = time.time
    ) -> None:
        self._store, self._clock, self._failed, self._now = store, clock, failed, now
        self._rests_until = float("-inf")

    async def around(self, source: Source, answer: Callable[[], Awaitable[tuple[A, Report]]]) -> tuple[A, Report]:
        """Answer a search of a session, and add the answer's results to the session if selection made it."""
        policy, key = source.planned.policy, source.planned.policy.session_key
        assert key is not None  # noqa: S101 - the caller has looked
        rules, turn = policy.session, None

        async def recollect() -> frozenset[bytes]:
            nonlocal turn
            known = await self._try(self._store.given(key))
            if known is not None and policy.is_question:
                known = replace(known, turn=int(self._now() * 1000))
            turn = None if known is None else known.turn
            return frozenset() if known is None else known.since(rules.turns)

        source.recollect = recollect
        answered, report = await answer()
        selected = source.selected
        if turn is not None and selected is not None and report.outcome is Outcome.DEDUP:
            digests = answer_digests(selected)
            if policy.is_question:
                digests -= selected.given  # else a busy client would hold back a result for good
            await self._try(self._store.add(key, digests, turn + 1, seconds=rules.ttl_seconds))
        return answered, report

    async def close(self) -> None:
        await self._try(self._store.close(), always=True)

    async def _try(self, request: Awaitable[T], *, always: bool = False) -> T | None:
        """The store's answer; None if it fails, or failed recently."""
        if self._clock() < self._rests_until and not always:
            if asyncio.iscoroutine(request):
                request.close()
            return None

        def rest(error: Exception) -> None:
            self._rests_until = self._clock() + REST_SECONDS
            self._failed()
            LOGGER.warning("session ignored: %s", type(error).__name__)

        # Whatever broke: what the client's parser raises for bytes that are no reply has no class of its own (redis 7).
        return await first_success([lambda: request], rest)


def answer_digests(selected: Selected) -> set[bytes]:
    """The digests of the results of an answer: of their points and texts, and of the points that they represent."""
    pools, digests = selected.pools, set[bytes | None]()
    policy, call = pools.policy, pools.call
    for search, pool, selection in zip(call.searches, pools.reply.pools, selected.selections, strict=True):
        records = records_of(pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
        names = point_digests(call.operation.collection, search, pool)
        is_kept = np.zeros(pool.size, np.bool_)
        is_kept[selection.keep] = True
        stands = is_kept[selection.representative] & (selection.fates == Fate.COLLAPSED)
        digests.update(names[row] for row in (is_kept | stands).nonzero()[0].tolist())
        digests.update(text_digest(records[row]) for row in selection.keep.tolist())
    return {digest for digest in digests if digest is not None}
