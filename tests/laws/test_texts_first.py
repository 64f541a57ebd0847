"""Texts first, over every transport: once the texts of a collection are known no vectors are requested, and answers stay what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from support.backends.text_rankings import DATABASES, Database, Ranked, Ranking, Selected
from support.backends.toy_exchange import ToyExchange, Toys, toys
from vecsieve.config.backends import with_defaults
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.texts import WINDOW
from vecsieve.proxy.search.fetch import LEAST
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.telemetry.reports import Report

PARTS = "valve pump seal motor shaft gauge hose tank filter lamp cable fuse plug rotor blade bolt".split()  # noqa: SIM905 - a sentence is easier to read
EVERY = [(name, selected) for name, database in DATABASES.items() for selected in database.selections]
every_selection = pytest.mark.parametrize(
    ("name", "selected"), EVERY, ids=[f"{name}, {selected.value} of the payload" for name, selected in EVERY]
)
every_database = pytest.mark.parametrize("name", DATABASES)


def sentence(number: int) -> str:
    turned = PARTS[number % 16 :] + PARTS[: number % 16]
    return f"Part {number} has a " + " and a ".join(turned[:: 1 + number % 2]) + "."


PAIRS = [Ranked(rank, sentence(rank // 2), rank // 2) for rank in range(40)]
"""Each text twice: the second time as a copy."""
PAGE = [PAIRS[rank] for rank in (0, 2, 4, 6)]


@dataclass(slots=True)
class Talks:
    """A client's searches through a service of its own. ``sent``: what the database was asked in the last one."""

    database: Database
    around: Toys
    service: SearchService
    sent: Sequence[bytes] = ()
    report: Report | None = None

    async def answer(self, ranking: Ranking, selected: Selected = Selected.ALL) -> bytes:
        exchange = ToyExchange(
            policy=policy_of(self.database),
            plain=self.database.requesting(selected),
            operation=self.database.operation,
            answering=self.database.holding(ranking),
        )
        attempt = self.service.prepare(exchange, self.database.known)
        assert isinstance(attempt, Source), attempt
        answer, self.report = await self.service.best_answer(exchange, attempt)
        self.sent = [body for body, _ in exchange.sent]
        assert not exchange.originals
        return answer.body

    async def learn(self) -> None:
        """Search until the collection's texts, and how deep its pages reach, are known."""
        for _ in range(max(WINDOW, LEAST) + 1):
            await self.answer(PAIRS)

    def direct(self, results: Ranking, selected: Selected = Selected.ALL) -> bytes:
        """What the database itself would say if these were its results."""
        return self.database.holding(results)(self.database.requesting(selected))

    def has_vectors(self, body: bytes) -> bool:
        """Whether a request asks for vectors: the database then answers something else than it would if it had none."""
        bare = [replace(pair, direction=None) for pair in PAIRS]
        return self.database.holding(PAIRS)(body) != self.database.holding(bare)(body)


def policy_of(database: Database) -> ResolvedPolicy:
    backend = database.operation.backend
    return Policies(Settings.model_validate(with_defaults({"backend": backend}))).resolve(backend, "c")


def talks(name: str) -> Talks:
    database, around = DATABASES[name], toys()
    service = SearchService(database.adapter, database.dialect, around.services, number_bytes=4)
    return Talks(database, around, service)


@every_selection
async def test_no_vectors_are_requested_once_texts_are_known(name: str, selected: Selected) -> None:
    """The text comes where the client did not select it, and is taken out again: the answer is the database's own for these results."""
    talk = talks(name)
    for number in range(max(WINDOW, LEAST) + 1):
        assert await talk.answer(PAIRS) == talk.direct(PAGE), f"search {number}"
    assert not talk.has_vectors(talk.sent[0])
    assert await talk.answer(PAIRS, selected) == talk.direct(PAGE, selected)
    (body,) = talk.sent
    assert not talk.has_vectors(body)
    assert sentence(3).encode() in talk.database.holding(PAIRS)(body)
    assert (sentence(3).encode() in talk.direct(PAGE, selected)) == (selected is Selected.ALL)


@every_database
async def test_the_first_pools_show_where_the_texts_are_and_have_vectors(name: str) -> None:
    talk = talks(name)
    for number in range(WINDOW):
        await talk.answer(PAIRS)
        assert [talk.has_vectors(body) for body in talk.sent] == [True], f"search {number}"


@every_database
@pytest.mark.parametrize("text", [None, ""], ids=["no text", "an empty text"])
async def test_a_result_without_a_text_brings_vectors_once_more_and_then_at_once(name: str, text: str | None) -> None:
    """Only vectors say that a result without a text is a copy: here of the one before it."""
    talk = talks(name)
    await talk.learn()
    mixed = [replace(pair, text=text) if pair.rank == 3 else pair for pair in PAIRS]
    assert await talk.answer(mixed) == talk.direct(PAGE)
    assert [talk.has_vectors(body) for body in talk.sent] == [False, True]
    apart = [replace(pair, direction=99) if pair.rank == 3 else pair for pair in mixed]
    assert await talk.answer(apart) == talk.direct([apart[rank] for rank in (0, 2, 3, 4)])
    assert [talk.has_vectors(body) for body in talk.sent] == [True]


@every_database
async def test_candidates_of_which_no_vector_was_requested_are_not_counted_as_unusable(name: str) -> None:
    talk = talks(name)
    await talk.learn()
    assert talk.report is not None
    assert not talk.has_vectors(talk.sent[0])
    assert sum(figure.unusable for figure in talk.report.figures) == 0
