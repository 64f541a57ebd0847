"""How a hybrid search fuses its lists: the rank parameters, for both transports.

Read in Milvus' sources (2.4 to 3.0), and tried on Milvus Lite 2.5 and 3.2. Servers sum in 32 bits, Lite since 3 in 64; both rank equal
scores by their ids. A weighted sum needs the metric of each list, which only the request tells, and whether scores are normed,
whose default differs between servers: where the request does not say both, the database fuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from vecsieve.adapters.contract import Needs
from vecsieve.adapters.fusions import Fusion, Method, Undivided, UndividedError
from vecsieve.adapters.milvus.schema import schema_of
from vecsieve.adapters.wire.json import members, whole

UNROUNDED = "-1"  # of `round_decimal`, its default
_DEFAULT_K = 60  # without a strategy
_LARGEST_K = 16_384  # exclusive
_METRICS = frozenset({"COSINE", "IP", "BM25", "L2", "HAMMING", "JACCARD"})
# Of the others Lite fuses numbers of 64 bits, or of the other sign, which its replies do not have.
_LITE_METRICS = frozenset({"COSINE", "IP"})


def fusion_of(
    strategy: str | None, params: bytes, *, metrics: Sequence[str | None], limit: int, needs: Needs
) -> Fusion:
    """``strategy``: None for none. ``params``: its parameters, a JSON text. ``metrics``: of each list, as the request names them.

    Raises UndividedError, or ValueError for parameters that are no object.
    """
    schema = schema_of(needs)
    is_lite = schema is not None and schema.shows_all
    named = _named(params)
    if strategy is None and not named:
        return _rrf(_DEFAULT_K, limit=limit, is_lite=is_lite)
    if strategy == "rrf" and named.keys() == {"k"}:
        return _rrf(named["k"], limit=limit, is_lite=is_lite)
    if strategy == "weighted" and named.keys() == {"weights", "norm_score"}:
        return _weighted(named, metrics, limit=limit, is_lite=is_lite)
    raise UndividedError(Undivided.MEMBER)


def _named(params: bytes) -> dict[str, Any]:
    """Raises ValueError, also for a name that is there twice."""
    if not params.strip():
        return {}
    members(params, whole(params))
    found: dict[str, Any] = orjson.loads(params)
    return found


def _rrf(k: object, *, limit: int, is_lite: bool) -> Fusion:
    """Of a k that is no whole number servers round the ranks differently."""
    if not isinstance(k, int | float) or isinstance(k, bool) or not 0 < k < _LARGEST_K:
        raise UndividedError(Undivided.MEMBER)
    if k != int(k):
        raise UndividedError(Undivided.INEXACT)
    # Ranks count from 1 here, and from 0 in the formula.
    return Fusion(method=Method.RRF, limit=limit, k=int(k) + 1, is_double=is_lite, is_by_id=True)


def _weighted(named: dict[str, Any], metrics: Sequence[str | None], *, limit: int, is_lite: bool) -> Fusion:
    weights, is_normed = named["weights"], named["norm_score"]
    if not isinstance(weights, list) or not isinstance(is_normed, bool) or len(weights) != len(metrics):
        raise UndividedError(Undivided.MEMBER)
    if any(isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= 1 for each in weights):
        raise UndividedError(Undivided.MEMBER)
    known = [metric.upper() for metric in metrics if metric is not None]
    if len(known) < len(metrics) or not (_LITE_METRICS if is_lite else _METRICS).issuperset(known):
        raise UndividedError(Undivided.INEXACT)
    return Fusion(
        method=Method.WEIGHTED,
        limit=limit,
        weights=tuple(map(float, weights)),
        metrics=tuple(known),
        is_normed=is_normed,
        is_double=is_lite,
        is_by_id=True,
    )
