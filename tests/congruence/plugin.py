"""A pytest plugin for a checkout of qdrant-client: its remote clients go where the environment says, its random data is repeated.

The suite writes `localhost:6333` into each remote client. Its test data is drawn from two global generators and `uuid4`, so that
two runs compare different points; here each test and each module fixture draws from its own name.
"""

from __future__ import annotations

import os
import random
import uuid
import zlib
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

REST = "CONGRUENCE_REST"
GRPC_PORT = "CONGRUENCE_GRPC_PORT"
TRANSPORT = "CONGRUENCE_TRANSPORT"


def redirected(arguments: dict[str, Any]) -> dict[str, Any]:
    """A client's arguments: those of a remote one name the server under test, and over gRPC every one of them prefers it."""
    if arguments.get("location") or arguments.get("path"):
        return arguments
    kept = {name: value for name, value in arguments.items() if name not in {"host", "port", "url"}}
    prefers = kept.get("prefer_grpc", False) or os.environ[TRANSPORT] == "grpc"
    return {**kept, "url": os.environ[REST], "grpc_port": int(os.environ[GRPC_PORT]), "prefer_grpc": prefers}


def _sow(name: str) -> None:
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)


def pytest_configure() -> None:
    """Before the first test is collected: a remote client is made where the environment says."""
    made = QdrantClient.__init__

    def make(self: QdrantClient, *given: Any, **arguments: Any) -> None:
        made(self, *given, **(arguments if given else redirected(arguments)))

    QdrantClient.__init__ = make  # type: ignore[method-assign]  # - the suite makes its clients itself
    uuid.uuid4 = lambda: uuid.UUID(int=random.getrandbits(128), version=4)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """A module draws the same parameters whichever modules were read before it."""
    _sow(collector.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Any:
    """A fixture draws the same values whichever tests ran before it."""
    _sow(f"{request.node.nodeid} {fixturedef.argname}")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """So does a test."""
    _sow(item.nodeid)
    return (yield)
