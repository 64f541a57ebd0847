"""A backend is one package and its rows: nothing else of the product is told of it."""

from __future__ import annotations

import json

import pytest
from prometheus_client import generate_latest

from support.backends.toy_backend import families_of
from support.backends.toy_row import know_the_toy, toy_server
from support.deploy.expositions import exposed
from support.network.faulty_upstream import raw_exchange
from support.process.running import running
from support.qdrant.scripted import request


async def test_a_new_backend_runs_by_its_package_and_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    know_the_toy(monkeypatch)
    message = request(b'[{"k": 4}]', target=b"/nearest")
    async with toy_server([0, 0, 0, 1, 1, 2, 3, 4]) as database, running(database.url, backend="toy") as proxy:
        seen = exposed(generate_latest(proxy.registry))
        plain, answer = await raw_exchange(database.port, message), await raw_exchange(proxy.port, message)
        passed = await raw_exchange(proxy.port, request(b'[{"k": 4}]', target=b"/other"))
        counted = exposed(generate_latest(proxy.registry))
    bodies = [reply.partition(b"\r\n\r\n")[2] for reply in (plain, answer, passed)]
    assert [families_of(body) for body in bodies] == [[[0, 0, 0, 1]], [[0, 1, 2, 3]], [[0, 0, 0, 1]]]
    labels = counted.label_values("vecsieve_")
    assert (labels["backend"], labels["operation"]) == ({"toy"}, {"nearest", "other"})
    searched = {"backend": "toy", "operation": "nearest", "outcome": "dedup"}
    assert (seen.value("vecsieve_requests_total", searched), counted.value("vecsieve_requests_total", searched)) == (
        0,
        1,
    )
    (read, widened, *_) = database.requests
    assert json.loads(read.content) == [{"k": 4}]
    assert json.loads(widened.content)[0] > 4
