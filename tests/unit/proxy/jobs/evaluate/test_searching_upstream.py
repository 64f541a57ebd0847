"""The in-memory server: the lists, the windows and the selections that Qdrant gives, and a refusal of all else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.labelled_folders import COPY, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import Points, Upstream, neighbours


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    return Upstream(Points(labelled), dict(neighbours(labelled, every=1))[0])


def asked(upstream: Upstream, **members: object) -> list[dict[str, Any]]:
    body = json.dumps({"query": [1.0, 0.0, 0.0], **members}).encode()
    points: list[dict[str, Any]] = json.loads(asyncio.run(upstream.answer(body)))["result"]["points"]
    return points


def ids(points: list[dict[str, Any]]) -> list[int]:
    return [point["id"] for point in points]


def test_points_are_ranked_with_their_scores(upstream: Upstream) -> None:
    points = asked(upstream, limit=3)
    assert ids(points) == [A, COPY, B]
    assert [point["score"] for point in points] == pytest.approx([1.0, 1.0, 0.8], abs=1e-3)  # stored as float16
    assert sorted(points[0]) == ["id", "score", "version"]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, [A, COPY, B, C, D]),
        ({"limit": 2, "offset": 1}, [COPY, B]),
        ({"limit": 2, "offset": 4}, [D]),
        ({"limit": 2, "offset": 5}, []),
        ({"limit": 100}, [A, COPY, B, C, D]),
        ({"limit": 0}, []),
    ],
)
def test_a_window_is_cut_from_the_ranking(upstream: Upstream, members: dict[str, object], expected: list[int]) -> None:
    assert ids(asked(upstream, **members)) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (True, ["doc", "source", "text"]),
        (["text", "nowhere"], ["text"]),
        ([], []),
        ({"include": ["doc"]}, ["doc"]),
        ({"exclude": ["doc"]}, ["source", "text"]),
        (False, None),
        (None, None),
    ],
)
def test_a_payload_selector_is_honoured(upstream: Upstream, selector: object, expected: list[str] | None) -> None:
    point = asked(upstream, limit=1, with_payload=selector)[0]
    assert (sorted(point["payload"]) if "payload" in point else None) == expected


@pytest.mark.parametrize(("selector", "is_there"), [(True, True), ([""], True), (False, False), (None, False)])
def test_the_one_unnamed_vector_is_given_when_asked_for(upstream: Upstream, selector: object, is_there: bool) -> None:
    assert ("vector" in asked(upstream, limit=1, with_vector=selector)[0]) is is_there


@pytest.mark.parametrize(
    "members",
    [
        {"filter": {}},
        {"with_vector": ["text"]},
        {"with_payload": {}},
        {"with_payload": {"include": ["a"], "exclude": ["b"]}},
        {"limit": "many"},
    ],
)
def test_what_it_does_not_do_is_refused_loudly(upstream: Upstream, members: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"with_vector|with_payload|unknown field|limit"):
        asked(upstream, **members)


def test_a_body_that_is_no_json_is_refused(upstream: Upstream) -> None:
    with pytest.raises(ValueError, match="JSON"):
        asyncio.run(upstream.answer(b"nonsense"))
