"""The toy backend as the product knows one: its two rows, and a server that speaks it over HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from support.backends.toy_backend import OPERATION, ToyAdapter, ToyDialect, ranking
from support.network.faulty_upstream import FaultyUpstream, Talk, reply
from vecsieve.adapters.backends import BACKENDS, Backend, Parts, Transport
from vecsieve.config.backends import TRAITS, Traits

ROW = Backend(
    name=OPERATION.backend,
    parts=lambda: Parts(rest=Transport(adapter=ToyAdapter, dialect=ToyDialect)),
    operations=(OPERATION.name,),
)
TOY_TRAITS = Traits(name=OPERATION.backend, has_grpc=False)


def know_the_toy(patch: pytest.MonkeyPatch) -> None:
    """Add its rows to both tables for the time of a test."""
    assert isinstance(BACKENDS, dict)
    assert isinstance(TRAITS, dict)
    patch.setitem(BACKENDS, ROW.name, ROW)
    patch.setitem(TRAITS, ROW.name, TOY_TRAITS)


def toy_server(families: Sequence[int]) -> FaultyUpstream:
    """Answers a request of a client, `[{"k": 4}]`, and one that the adapter widened, `[20]`, from one ranking."""
    rows = ranking(families)

    def results_of(item: Any) -> list[list[float]]:
        size = item["k"] if isinstance(item, dict) else item
        return rows[slice(*size)] if isinstance(size, list) else rows[:size]

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            body = json.dumps([results_of(item) for item in json.loads(received.content)]).encode()
            await talk.send(reply(body, headers=[(b"Content-Type", b"application/json")]))
            if received.header(b"connection") == b"close":
                return

    return FaultyUpstream(script)
