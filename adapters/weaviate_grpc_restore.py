"""The client's answer from a wider Weaviate reply: upstream's bytes, without the other results and without what was added.

Everything around the results stays as it came: time, query profile, fields nobody knows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.proto_maps import entries
from vecsieve.adapters.proto_wire import Field, length_field, without
from vecsieve.adapters.weaviate_grpc_reply import METADATA, OWN_PROPERTIES, PROPERTIES, RESULTS, ReplyDocument, Result
from vecsieve.adapters.weaviate_grpc_request import Document
from vecsieve.adapters.weaviate_grpc_shown import NAMED, Shown
from vecsieve.adapters.weaviate_grpc_vectors import name_of


def trim(request: Document, reply: ReplyDocument, kept: npt.NDArray[np.intp]) -> bytes:
    """The client's answer: the results ``kept`` in that order, without what the request added.

    They take the places of the first results, one each, so that all that stands between stays.
    """
    data, places = reply.data, kept.tolist()
    pieces: list[bytes] = []
    at = 0
    for place, result in enumerate(reply.results):
        pieces.append(data[at : result.field.start])
        if place < len(places):
            pieces.append(_shown(data, request.shown, reply.results[places[place]]))
        at = result.field.end
    pieces.append(data[at:])
    return b"".join(pieces)


def _shown(data: bytes, shown: Shown, result: Result) -> bytes:
    """A result as the client asked for it."""
    hidden = [field for field in result.inside if _is_hidden(data, shown, field)]
    pieces: list[tuple[Field, bytes]] = []
    if hidden:
        pieces.append((result.metadata, length_field(METADATA, without(data, result.metadata.span, hidden))))
    if shown.properties and result.properties is not None and result.own is not None:
        pieces.append((result.properties, _properties(data, shown, result.properties, result.own, result.entries)))
    if not pieces:
        return data[result.field.start : result.field.end]
    at, inside = result.field.value, b""
    for field, changed in sorted(pieces):
        inside += data[at : field.start] + changed
        at = field.end
    return length_field(RESULTS, inside + data[at : result.field.end])


def _is_hidden(data: bytes, shown: Shown, field: Field) -> bool:
    if field.number in shown.hidden:
        return True
    return shown.listed is not None and field.number == NAMED and name_of(data, field) not in shown.listed


def _properties(data: bytes, shown: Shown, properties: Field, own: Field, held: list[Field]) -> bytes:
    """A result's properties without those that were added; without the field that holds them where none is left."""
    added = {name.encode(errors="surrogatepass") for name in shown.properties}
    keys = [key for key, _ in entries(data, [field.span for field in held])]
    dropped = [field for field, key in zip(held, keys, strict=True) if key in added]
    if not dropped:
        return data[properties.start : properties.end]
    left = without(data, own.span, dropped)
    inside = length_field(OWN_PROPERTIES, left) if left else b""
    return length_field(PROPERTIES, data[properties.value : own.start] + inside + data[own.end : properties.end])
