"""A profile in a running proxy: loaded, obeyed, reloaded while it runs; and the page that explains what was left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient

from support.jobs.profiles import profile
from support.process.stack import eventually, exchange, serve
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.search.collections.profiles import PoolMedians, encoded


@dataclass(frozen=True, slots=True)
class Urls:
    direct: str
    proxy: str
    admin: str


# In many dimensions, because in few vectors are near by chance. Four pairs, one without its second point, at growing angles to the query; the
# second point is 0.2 radians from the first, a cosine distance of 0.02.
DIMENSION = 384
AXES = np.linalg.qr(np.random.default_rng(0).normal(size=(DIMENSION, 9)))[0].T
QUERY = AXES[0].tolist()
FIRST = [np.cos(angle) * AXES[0] + np.sin(angle) * AXES[1 + i] for i, angle in enumerate((0.5, 0.7, 0.9, 1.1))]
SECOND = [np.cos(0.2) * vector + np.sin(0.2) * AXES[5 + i] for i, vector in enumerate(FIRST)]
VECTORS = [vector for pair in zip(FIRST, SECOND, strict=True) for vector in pair][:-1]


def medians(median: float) -> PoolMedians:
    """A fifth of it is the cut."""
    return PoolMedians(percentile_1=median, percentile_50=median, percentile_99=median)


def write(folder: Path, median: float) -> None:
    content = encoded(profile(collection="pairs", dimension=DIMENSION, pool_median=medians(median)))
    (folder / "pairs.json").write_bytes(content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profiles")
    write(folder, 0.01)
    return folder


@pytest.fixture(scope="module")
def stack(folder: Path) -> Iterator[Urls]:
    settings = {
        "VECSIEVE_EXPLAIN_KEEP": "10",
        "VECSIEVE_POLICY_SHORT": "allow",
        "VECSIEVE_POLICY_THRESHOLD_RELATIVE": "0.2",
    }
    with (
        start_embedded_process() as direct,
        serve(direct, "--profiles", str(folder), environment=settings) as (proxy, admin),
    ):
        yield Urls(direct, proxy, admin)


def page(stack: Urls, **headers: str) -> list[int]:
    """Without the official client: a new one reads the system's certificates, which takes longer than the search, and this is asked a hundred times."""
    body = json.dumps({"query": QUERY, "limit": 4}).encode()
    answer = exchange(stack.proxy, "POST", "/collections/pairs/points/query", body, headers)
    return [point["id"] for point in json.loads(answer.body)["result"]["points"]]


@pytest.fixture(scope="module", autouse=True)
def _collection(stack: Urls) -> None:
    client = QdrantClient(url=stack.direct, check_compatibility=False)
    planted.fill(client, "pairs", [(number, vector.tolist(), {}) for number, vector in enumerate(VECTORS)])


def test_a_profile_that_arrives_while_the_proxy_runs_decides_what_is_a_copy(stack: Urls, folder: Path) -> None:
    assert page(stack) == [0, 1, 2, 3]
    write(folder, 0.25)
    eventually(lambda: page(stack), lambda seen: seen == [0, 2, 4, 6])


def test_the_request_itself_has_the_last_word(stack: Urls) -> None:
    assert page(stack, **{"x-vecsieve-distance-threshold": "0"}) == [0, 1, 2, 3]


def test_the_admin_port_says_who_was_left_out_and_why(stack: Urls) -> None:
    eventually(lambda: page(stack), lambda seen: seen == [0, 2, 4, 6])
    content = json.loads(exchange(stack.admin, "GET", "/explain").body)
    text = json.dumps(content)
    assert "vectors" in text
    assert '"pairs"' in text
