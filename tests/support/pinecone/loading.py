"""What is put into an emulated Pinecone, over plain HTTP: the clients under test have no hand in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from servers.pinecone.server import Emulator

from support.pinecone.emulator import emulated
from support.process.stack import exchange

KEY = "key"
HEADERS = {"Api-Key": KEY, "X-Pinecone-Api-Version": "2025-10"}
SPEC = {"serverless": {"cloud": "aws", "region": "us-east-1"}}


@contextmanager
def loaded(plan: Mapping[str, Any]) -> Iterator[str]:
    """The URL of an emulator's control plane, with the plan's indexes in it."""
    with loaded_emulator(plan) as emulator:
        yield emulator.url


@contextmanager
def loaded_emulator(plan: Mapping[str, Any], **options: Any) -> Iterator[Emulator]:
    """An emulator with the plan's indexes in it."""
    with emulated(api_key=KEY, **options) as emulator:
        for name, index in plan["indexes"].items():
            host = sent(emulator.url, "/indexes", {"name": name, "spec": SPEC, **index["created"]})["host"]
            for namespace, records in index["records"].items():
                sent(host, "/vectors/upsert", {"vectors": records, "namespace": namespace})
        yield emulator


def index_url(control: str, name: str) -> str:
    """Where an index is reached, as the control plane says."""
    url = json.loads(exchange(control, "GET", f"/indexes/{name}", headers=HEADERS).body)["host"]
    assert isinstance(url, str)
    return url


def sent(url: str, path: str, body: Mapping[str, Any]) -> Any:
    """The answer to a POST that must succeed."""
    answer = exchange(url, "POST", path, json.dumps(body).encode(), HEADERS)
    assert answer.status in {200, 201}, (path, answer.status, answer.body[:500])
    return json.loads(answer.body)
