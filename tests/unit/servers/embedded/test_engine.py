"""What the engine raises, and what the client is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded.engine import Shard, Translated, edge
from servers.embedded.fields import RefusalError


class PanicException(BaseException):
    """Stands for a panic of the engine's Rust code."""


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        (
            "Vector dimension error: expected dim: 2, got 3",
            400,
            "Wrong input: Vector dimension error: expected dim: 2, got 3",
        ),
        ("No point with id 7", 404, "Not found: No point with id 7 found"),
        ("Service runtime error: broken", 500, "Service internal error: broken"),
        ("Inconsistent storage: lost", 500, "Service internal error: Inconsistent storage: lost"),
        ("Wrong usage of sparse vectors", 400, "Wrong input: Conversion between sparse and regular vectors failed"),
        ("Wrong usage of multi vectors", 400, "Wrong input: Conversion between multi and regular vectors failed"),
    ],
)
def test_an_engine_error_becomes_the_servers_answer(text: str, status: int, message: str) -> None:
    with pytest.raises(RefusalError) as caught, Translated():
        raise Exception(text)  # noqa: TRY002 - exactly what the engine raises
    assert (caught.value.status, caught.value.message, caught.value.is_timed) == (status, message, True)


@pytest.mark.parametrize("kind", [ValueError, TypeError, OverflowError])
def test_an_argument_the_engine_cannot_convert_is_a_format_error(kind: type[Exception]) -> None:
    with pytest.raises(RefusalError, match=r"^Format error in JSON body: first$") as caught, Translated():
        raise kind("first\nsecond")
    assert (caught.value.status, caught.value.is_timed) == (400, False)


def test_a_panic_is_the_engines_fault() -> None:
    with pytest.raises(RefusalError, match=r"^Service internal error: gone$") as caught, Translated():
        raise PanicException("gone")
    assert caught.value.status == 500


@pytest.mark.parametrize("error", [RefusalError(404, "x"), KeyError("x"), KeyboardInterrupt()])
def test_what_is_not_the_engines_passes_untouched(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, Translated():
        raise error
    assert caught.value is error


def test_records_come_in_the_order_asked_and_once(tmp_path: Path) -> None:
    engine = edge()
    shard = Shard.create(
        tmp_path / "s", engine.EdgeConfig(vectors={"": engine.EdgeVectorParams(1, engine.Distance.Dot)})
    )
    shard.update(engine.UpdateOperation.upsert_points([engine.Point(n, [1.0]) for n in range(9)]))
    found = shard.retrieve([7, 2, 99, 5, 2], False, False)
    assert [record.id for record in found] == [7, 2, 5]
    shard.close()
    with pytest.raises(RefusalError, match="not initialized"):
        shard.info()


@given(seed=st.integers(0, 2**32 - 1), limit=st.integers(1, 20), least=st.sampled_from([None, -0.5, 0.0, 0.4]))
def test_a_batch_answers_each_query_as_it_is_answered_alone(
    tmp_path_factory: pytest.TempPathFactory, seed: int, limit: int, least: float | None
) -> None:
    engine, draw = edge(), np.random.default_rng(seed)
    shard = Shard.create(
        tmp_path_factory.mktemp("shard") / "s",
        engine.EdgeConfig(vectors={"": engine.EdgeVectorParams(24, engine.Distance.Cosine)}),
    )
    rows = draw.standard_normal((30, 24)).tolist()
    shard.update(
        engine.UpdateOperation.upsert_points([engine.Point(n, row, {"n": n % 3}) for n, row in enumerate(rows)])
    )
    requests = [
        engine.QueryRequest(
            limit=limit, query=engine.Query.Nearest(vector), with_payload=["n"], score_threshold=least, offset=n % 2
        )
        for n, vector in enumerate(draw.standard_normal((5, 24)).tolist())
    ]
    together = [[_told(point) for point in points] for points in shard.query_batch(requests)]
    assert together == [[_told(point) for point in shard.query(request)] for request in requests]
    shard.close()


def test_a_batch_of_none_is_answered_with_none(tmp_path: Path) -> None:
    engine = edge()
    config = engine.EdgeConfig(vectors={"": engine.EdgeVectorParams(1, engine.Distance.Dot)})
    shard = Shard.create(tmp_path / "s", config)
    assert shard.query_batch([]) == []
    shard.close()


def _told(point: Any) -> tuple[int, float, Any]:
    return point.id, point.score, point.payload
