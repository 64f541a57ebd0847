"""Where the texts of each collection are, learned from its pools. Bounded, of this process only, and safe to lose.

A pool that comes before anything is known is judged alone (``paths``). Pools that agree settle a collection; then only every
LOOK_EVERY-th pool is read again. A path that a pool proves to be no text unsettles it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from vecsieve.adapters.contract import FIELD_BYTES, Allowance, Needs, Pool, Reply
from vecsieve.adapters.wire.json import last_values

from ...telemetry.labels import TextsKnown
from ..policy import ResolvedPolicy
from .learned import LEARNED_ENTRIES, Lru, is_of
from .paths import Reading, read_pool

LOGGER = logging.getLogger("vecsieve.texts")

WINDOW = 8  # readings; all of the last ones must agree
# Without any text so many pools settle that there is none: one pool may be all copies, or of a client that selects other fields.
EMPTY_READINGS = 3
# Pools of a settled collection between two looks, at first and at most: a look costs some milliseconds, and has vectors.
LOOK_EVERY, LOOK_AT_LEAST_EVERY = 64, 1024
# Whole payloads may be megabytes: so many looks whose reply was lost end them.
LOST_LOOKS = 2
MOST_POOLS = 4  # of a batch that are read
MOST_LISTED = 32  # keys shown to a person
# Keys of usual payloads. Others may be data, such as a user's address, and are not shown.
_READABLE_KEY = re.compile(r"[\w.#-]{1,64}")
_LONGEST_NAME = 128


@dataclass(frozen=True, slots=True)
class TextsRow:
    """What a person is shown of one collection. Never a value."""

    collection: str
    standing: TextsKnown
    texts: tuple[str, ...]
    keys: tuple[str, ...]


class TextPlan(NamedTuple):
    """How the texts of one search are found."""

    policy: ResolvedPolicy  # with the texts of the collection, if they are known
    seen: tuple[str, ...] = ()  # as in Needs: ``seen_fields``
    whole: bool = False  # as in Needs
    is_look: bool = False  # whether its pool is to show where texts are
    is_by_texts: bool = False  # whether texts alone decide


@dataclass(slots=True)
class _Known:
    """``readings``: the paths of the last pools. ``settled``: None while the pools decide alone; ``seen``: their top-level keys. ``since``: pools since the last reading.
    ``wait``: pools until the next one. ``keys``: of payloads. ``looks``: whole payloads that were requested, less those that came. ``logged``: the
    standing that was logged. ``lacks``: whether a result had no text. ``applied``: the policy of the last search, and the same with these texts.
    """

    readings: deque[tuple[str, ...]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    settled: tuple[str, ...] | None = None
    seen: tuple[str, ...] = ()
    since: int = 0
    wait: int = LOOK_EVERY
    lacks: bool = False
    applied: tuple[ResolvedPolicy, ResolvedPolicy] | None = None
    keys: dict[str, None] = field(default_factory=dict)
    looks: int = 0
    logged: TextsKnown | None = None

    @property
    def standing(self) -> TextsKnown:
        if self.settled is None:
            return TextsKnown.UNSETTLED
        return TextsKnown.FOUND if self.settled else TextsKnown.NONE


class CollectionTexts:
    """Collections without a name (of requests that name theirs in the body) are not learned: their pools decide alone."""

    __slots__ = ("_changed", "_known")

    def __init__(self, changed: Callable[[Counter[TextsKnown]], None] = lambda _: None) -> None:
        self._known = Lru[str, _Known](LEARNED_ENTRIES)
        self._changed = changed

    def applied(self, policy: ResolvedPolicy, collection: str) -> ResolvedPolicy:
        """The policy with the texts of this collection, if they are known."""
        known = self._known.get(collection) if policy.guesses else None
        if known is None or known.settled is None:
            return policy
        if known.applied is None or known.applied[0] is not policy or known.applied[1].learned != known.settled:
            known.applied = policy, policy.with_texts(known.settled)
        return known.applied[1]

    def plan(self, policy: ResolvedPolicy, collection: str) -> TextPlan:
        """What the next search of this collection needs. Counts it."""
        known = self._known.get(collection)
        seen: tuple[str, ...] = ()
        whole = is_by_texts = False
        if known is not None and policy.guesses:
            seen, whole = known.seen, _wants_whole(known)
        if policy.is_by_texts and collection:
            if known is not None:
                is_by_texts = bool(known.settled if policy.guesses else policy.text_fields) and not known.lacks
            else:
                is_by_texts = bool(policy.text_fields) and not policy.guesses
        chosen, is_look = self.applied(policy, collection), self.is_look(policy, collection)
        return TextPlan(chosen, seen, whole, is_look, is_by_texts)

    def is_look(self, policy: ResolvedPolicy, collection: str) -> bool:
        """Whether the next pool is to show where texts are. Counts it. It needs vectors: equal values under different vectors prove that a path is
        no text.
        """
        if not (policy.guesses and policy.reads_texts):
            return False
        known = self._known.get(collection)
        if known is None or known.settled is None:
            return True
        known.since += 1
        is_due = known.since >= known.wait
        if is_due:
            known.since = 0  # of searches at the same time one looks
        return is_due or (bool(known.settled) and policy.is_by_texts and len(known.readings) < WINDOW)

    def is_open(self, policy: ResolvedPolicy, collection: str) -> bool:
        """Whether any pool with vectors still shows where texts are: the first ones are read, also where three of them showed none."""
        known = self._known.get(collection)
        return bool(policy.guesses) and policy.reads_texts and (known is None or len(known.readings) < WINDOW)

    def lacking(self, collection: str) -> None:
        """A result of this collection has no text: vectors decide about such ones from now on."""
        self._known.use(collection, _Known).lacks = True

    def looking(self, collection: str) -> None:
        """A request for whole payloads is sent."""
        if collection:
            self._known.use(collection, _Known).looks += 1

    def learn(self, collection: str, reading: Reading, *, is_look: bool) -> tuple[str, ...]:
        """Learn from a reading; the paths by which its own pool is judged. ``is_look``: the reply had whole payloads by our request."""
        if not collection:
            return reading.paths
        known = self._known.use(collection, _Known)
        known.wait = LOOK_EVERY if len(known.readings) < WINDOW else min(2 * known.wait, LOOK_AT_LEAST_EVERY)
        known.since, known.looks = 0, max(0, known.looks - is_look)
        for key in reading.keys:
            if len(known.keys) < MOST_LISTED:
                known.keys.setdefault(key)
        before = known.settled
        if before is not None and not reading.against.isdisjoint(before):
            known.readings.clear()
            known.settled, before = None, None
        known.readings.append(reading.paths)
        known.settled = _settled(known.readings)
        known.seen = heads(known.settled or ())
        self._log(collection, known)
        self._changed(self.standings())
        if before is None or not reading.paths:
            return tuple(path for path in before or reading.paths if path not in reading.against)
        # In doubt no text: this pool and the earlier ones point to different paths.
        return before if set(before) & set(reading.paths) else () if before else reading.paths

    def forget(self, collection: str | None) -> None:
        """Forget this collection, or all for None."""
        for key in [key for key in self._known if is_of(collection, key)]:
            del self._known[key]
        self._changed(self.standings())

    def rows(self) -> Iterator[TextsRow]:
        """What is known, for a person."""
        for name, known in self._known.items():
            yield TextsRow(name[:_LONGEST_NAME], known.standing, known.settled or (), readable_keys(known.keys))

    def as_rows(self) -> list[dict[str, object]]:
        return [asdict(row) for row in self.rows()]

    def standings(self) -> Counter[TextsKnown]:
        return Counter(known.standing for known in self._known.values())

    def _log(self, collection: str, known: _Known) -> None:
        if known.standing in {TextsKnown.UNSETTLED, known.logged}:
            return
        known.logged, name = known.standing, collection[:_LONGEST_NAME]
        if known.settled:
            LOGGER.info("texts found", extra={"fields": {"collection": name, "texts": list(known.settled)}})
            return
        LOGGER.warning(
            "no text found, only equal vectors are removed: does policy.text_fields name it?",
            extra={"fields": {"collection": name, "keys seen": list(readable_keys(known.keys))}},
        )


def _wants_whole(known: _Known) -> bool:
    """Whether the next pool should have whole payloads even if the client wants none.

    At first only the known keys are requested, which cost nothing where they are missing. Only if those held no text, the whole payload is
    requested, for as many pools as settle a collection, and then for those that are due. If the replies were lost, perhaps because of
    their size, no longer.
    """
    if known.looks >= LOST_LOOKS or any(known.readings) or not known.readings:
        return False
    return known.settled is None or known.since + 1 >= known.wait


def _settled(readings: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The paths on which all readings agree, with those of further layouts; () for none; None while it is open."""
    some = [frozenset(paths) for paths in readings if paths]
    if not some:
        return () if len(readings) >= EMPTY_READINGS else None
    shared = frozenset.intersection(*some)
    if not shared:
        return None
    every = dict.fromkeys(path for paths in readings for path in paths)
    return tuple(sorted(every, key=lambda path: path not in shared))


def readable_keys(keys: Sequence[str] | dict[str, None]) -> tuple[str, ...]:
    """The keys that a person may be shown."""
    return tuple(key for key in keys if _READABLE_KEY.fullmatch(key))


def heads(paths: Sequence[str]) -> tuple[str, ...]:
    """The top-level keys of these paths."""
    return tuple(dict.fromkeys(path.split(".", 1)[0] for path in paths))


def fields_of(needs: Needs) -> tuple[str, ...]:
    """The keys of ``Pool.fields``."""
    return (*needs.payload_fields, *needs.optional_fields)


def read_pools(pools: Sequence[Pool], needs: Needs) -> Reading:
    """The first reading with a text, without what another pool proves to be none."""
    readings = [read_pool(pool, fields_of(needs)) for pool in pools[:MOST_POOLS] if pool.size]
    against = frozenset[str]().union(*(reading.against for reading in readings))
    paths_by_pool = [tuple(path for path in reading.paths if path not in against) for reading in readings]
    keys = tuple(dict.fromkeys(key for reading in readings for key in reading.keys))
    return Reading(next(filter(None, paths_by_pool), ()), against, keys, sum(reading.size for reading in readings))


def with_fields(reply: Reply, needs: Needs, policy: ResolvedPolicy) -> Reply:
    """The reply whose pools have the fields that the policy reads; those that the ``needs`` lack are read from their payloads."""
    had, required = fields_of(needs), policy.keys
    if had == required or not needs.values:
        return reply
    return replace(reply, pools=tuple([_with_fields(pool, had, required) for pool in reply.pools]))


def _with_fields(pool: Pool, had: tuple[str, ...], required: tuple[str, ...]) -> Pool:
    if not pool.size:
        return pool
    places = {key: place for place, key in enumerate(had)}
    added = tuple(key for key in required if key not in places)
    empty: tuple[bytes | None, ...] = (None,) * len(added)
    more: list[tuple[bytes | None, ...]] = [empty] * pool.size
    if added and pool.payloads is not None:
        allowance = Allowance(FIELD_BYTES)
        more = [empty if raw is None else last_values(raw, added, allowance) for raw in pool.payloads(range(pool.size))]
    further = {key: place for place, key in enumerate(added)}
    rows = pool.fields or ((None,) * len(had),) * pool.size
    fields = tuple(
        tuple(row[places[key]] if key in places else extra[further[key]] for key in required)
        for row, extra in zip(rows, more, strict=True)
    )
    return replace(pool, fields=fields)
