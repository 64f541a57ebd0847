"""The judge of `make grpc-clients` itself: it lets honest answers through and names every way of being wrong."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from qdrant_client import grpc as pb

from support.exchanges.foreign_plan import COPIES
from support.exchanges.foreign_verdict import differences, faults, observed

TOP_K = 4
ALL = [base * 10 + copy for base in range(8) for copy in range(COPIES)]
DISTINCT = [identifier for identifier in ALL if identifier % 10 == 0]
QUERY, BATCH, GET = "/qdrant.Points/Query", "/qdrant.Points/QueryBatch", "/qdrant.Points/Get"


def point(identifier: int, *, score: float | None = None) -> Any:
    payload = {name: pb.Value(integer_value=identifier) for name in ("a", "b", "c")}
    value = 1 - identifier / 1000 if score is None else score
    return pb.ScoredPoint(id=pb.PointId(num=identifier), score=value, payload=payload)


def call(name: str, message: Any, *, path: str = QUERY, **changed: Any) -> dict[str, Any]:
    reply = base64.b64encode(message.SerializeToString()).decode()
    made = {"name": name, "path": path, "code": 0, "details": "", "reply": reply, "initial": {}, "trailing": {}}
    return {**made, **changed}


def page(name: str, identifiers: list[int], **changed: Any) -> dict[str, Any]:
    return call(name, pb.QueryResponse(result=[point(one) for one in identifiers], time=0.1), **changed)


def batch(name: str, *pages: list[int]) -> dict[str, Any]:
    results = [pb.BatchResult(result=[point(one) for one in identifiers]) for identifiers in pages]
    return call(name, pb.QueryBatchResponse(result=results, time=0.1), path=BATCH)


DIRECT = [
    call("get", pb.GetResponse(result=[], time=0.2), path=GET),
    page("clean.nearest", DISTINCT[:TOP_K]),
    page("copied.nearest", ALL[:TOP_K]),
    page("copied.nearest.all", ALL),
    page("copied.offset", ALL[2 : TOP_K + 2]),
    page("copied.offset.all", ALL),
    page("copied.default limit", ALL[:TOP_K]),
    batch("copied.batch", ALL[:TOP_K], ALL[4 : TOP_K + 4]),
    batch("copied.batch.all", ALL, ALL[4:]),
]
HONEST = [
    *DIRECT[:2],
    page("copied.nearest", DISTINCT[:TOP_K]),
    DIRECT[3],
    page("copied.offset", DISTINCT[2 : TOP_K + 2]),
    DIRECT[5],
    page("copied.default limit", DISTINCT[:TOP_K]),
    batch("copied.batch", DISTINCT[:TOP_K], DISTINCT[1 : TOP_K + 1]),
    DIRECT[8],
]


def with_call(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [made if one["name"] == made["name"] else one for one in HONEST]


def test_an_honest_proxy_has_no_faults() -> None:
    assert faults(DIRECT, HONEST) == []


def test_seconds_and_the_coding_of_a_hop_are_not_compared_but_other_metadata_is() -> None:
    before = [call("get", pb.GetResponse(result=[], time=0.2), path=GET, initial={"content-type": ["x"]})]
    coded = {"content-type": ["x"], "grpc-encoding": ["gzip"], "x-vecsieve": ["pool=1"]}
    assert differences(before, [call("get", pb.GetResponse(time=9.0), path=GET, initial=coded)]) == []
    assert differences(before, [call("get", pb.GetResponse(time=9.0), path=GET, trailing={"more": ["1"]})]) == ["get"]


def test_the_order_of_a_map_s_entries_is_not_compared_but_what_they_hold_is() -> None:
    first, second = (b"\x12\x07\x0a\x01" + key + b"\x12\x02\x18\x01" for key in (b"a", b"b"))
    forth, back = (b"\x0a\x12" + entries for entries in (first + second, second + first))
    before, after = ([call("one", pb.QueryResponse.FromString(b""))] for _ in range(2))
    before[0]["reply"], after[0]["reply"] = (base64.b64encode(reply).decode() for reply in (forth, back))
    assert forth != back
    assert differences(before, after) == []
    after[0]["reply"] = base64.b64encode(forth.replace(b"\x18\x01", b"\x18\x02")).decode()
    assert differences(before, after) == ["one"]


def test_equal_calls_do_not_differ_and_others_do() -> None:
    assert differences(DIRECT, [dict(one) for one in DIRECT]) == []
    changed = ["copied.nearest", "copied.offset", "copied.default limit", "copied.batch"]
    assert differences(DIRECT, HONEST) == changed
    assert differences(DIRECT, DIRECT[1:]) == ["get"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (call("get", pb.GetResponse(), path=GET, code=5), "not what it is directly"),
        (page("clean.nearest", DISTINCT[1 : TOP_K + 1]), "not what it is directly"),
        (page("copied.nearest", ALL[:TOP_K]), "not distinct"),
        (page("copied.nearest", DISTINCT[: TOP_K - 1]), "3 results, not 4"),
        (page("copied.nearest", DISTINCT[1 : TOP_K + 1]), "the best result is not the first"),
        (page("copied.nearest", [0, 20, 10, 30]), "upstream's order"),
        (page("copied.nearest", [0, 10, 20, 990]), "upstream's order"),
        (call("copied.nearest", pb.QueryResponse(), code=14, details="gone"), "through the proxy 14 'gone'"),
        (batch("copied.batch", DISTINCT[:TOP_K]), "1 items, not 2"),
        (batch("copied.batch", DISTINCT[:TOP_K], ALL[4 : TOP_K + 4]), "not distinct"),
    ],
)
def test_every_fault_is_named(made: dict[str, Any], message: str) -> None:
    problems = faults(DIRECT, with_call(made))
    assert problems
    assert all(one.startswith(made["name"]) for one in problems)
    assert message in " ".join(problems)


def test_a_point_that_is_told_otherwise_is_a_fault() -> None:
    points = [point(one, score=0.5 if one == 20 else None) for one in DISTINCT[:TOP_K]]
    problems = faults(DIRECT, with_call(call("copied.nearest", pb.QueryResponse(result=points))))
    assert problems == ["copied.nearest: 20 is not told as upstream tells it"]


def test_a_program_that_gives_two_calls_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="2 calls, 1 names"):
        observed([DIRECT[0], DIRECT[0]])
