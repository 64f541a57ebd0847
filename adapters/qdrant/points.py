"""All points of a collection over REST, page by page: their ids, and a search that brings points of given ids with version and score.

Scroll names no versions. So a page of it brings ids alone, and the points come by a search narrowed to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec
import numpy as np

from vecsieve.adapters.contract import Listed, MalformedReplyError, Named, Question


class _Vector(msgspec.Struct):
    size: int
    multivector_config: object = None


class _Params(msgspec.Struct):
    vectors: msgspec.Raw = msgspec.Raw(b"{}")


class _Config(msgspec.Struct):
    params: _Params


class _Result(msgspec.Struct):
    config: _Config


class _Info(msgspec.Struct):
    result: _Result


class _Point(msgspec.Struct):
    id: msgspec.Raw


class _Points(msgspec.Struct):
    points: list[_Point]
    next_page_offset: msgspec.Raw = msgspec.Raw(b"null")


class _Page(msgspec.Struct):
    result: _Points


_INFO, _PAGE = msgspec.json.Decoder(_Info), msgspec.json.Decoder(_Page)
_ONE = msgspec.json.Decoder(_Vector)
_SEVERAL = msgspec.json.Decoder(dict[str, _Vector])


def describing(collection: str) -> Question:
    """The request for the collection's vectors."""
    return Question(method="GET", target=_path(collection))


def named_vectors(body: bytes) -> tuple[Named, ...]:
    """The dense vectors of a collection that points have one of. Raises MalformedReplyError, nothing else."""
    try:
        raw = _INFO.decode(body).result.config.params.vectors
        try:
            found = {"": _ONE.decode(raw)}
        except msgspec.ValidationError:
            found = _SEVERAL.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReplyError(f"collection: {error}") from None
    return tuple(
        Named(name, each.size) for name, each in found.items() if each.multivector_config is None and each.size > 0
    )


def listing(collection: str, *, after: bytes, count: int) -> Question:
    """The request for the next ``count`` ids. ``after``: as in Listed; b"" for the first ones."""
    offset = b',"offset":' + after if after else b""
    body = b'{"limit":%d%s,"with_payload":false,"with_vector":false}' % (count, offset)
    return Question(method="POST", target=f"{_path(collection)}/points/scroll", body=body)


def listed(body: bytes) -> Listed:
    """Raises MalformedReplyError, nothing else."""
    try:
        found = _PAGE.decode(body).result
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReplyError(f"scroll: {error}") from None
    following = bytes(found.next_page_offset)
    return Listed(tuple(bytes(each.id) for each in found.points), b"" if following == b"null" else following)


def searching(collection: str, vector: Named, ids: Sequence[bytes]) -> Question:
    """A client's search that ranks these points. Its vector is arbitrary: what scores prove does not depend on it."""
    query = np.random.default_rng(0).standard_normal(vector.dimension).astype(np.float32).tolist()
    using = b',"using":' + msgspec.json.encode(vector.name) if vector.name else b""
    body = b'{"query":%s%s,"filter":{"must":[{"has_id":[%s]}]},"limit":%d}' % (
        msgspec.json.encode(query),
        using,
        b",".join(ids),
        max(2, len(ids)),  # a search of one result is passed through
    )
    return Question(method="POST", target=f"{_path(collection)}/points/query", body=body)


def _path(collection: str) -> str:
    return f"/collections/{quote(collection, safe='')}"
