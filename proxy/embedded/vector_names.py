"""Named vectors of a collection that exists: added, and removed with all their values."""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.configs import adding, dense_settings, removing, vector_settings
from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.engine import Translated
from vecsieve.proxy.embedded.errors import bad_input, bad_value
from vecsieve.proxy.embedded.fields import Body, Json, mapping
from vecsieve.proxy.embedded.registry import Collection, Registry
from vecsieve.proxy.embedded.updates import wants_to_wait

_MOST_NAME_BYTES = 200
# A vector's name is a directory's name in the server.
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')
_SCHEMA = ("size", "distance", "multivector_config", "datatype", "modifier", "index")
"""What makes two configurations different; the rest may be tuned afterwards."""


def create(registry: Registry, call: Call) -> Json:
    """Add a vector: `{"dense": {"size", "distance", ..}}` or `{"sparse": {"modifier"?, "datatype"?}}`."""
    name = _checked_name(call.path["vector"])
    kind, added = vector_settings(call.object())
    with Translated():
        operation = adding(name, kind, added)
    collection = call.collection(registry)
    settings = dict(collection.settings)
    vectors = _named(settings, kind)
    if name in vectors or _exists(settings, name, kind):
        _check_same(name, kind, vectors.get(name), added)
    else:
        settings[kind] = vectors | {name: added}
    return _done(collection, call, operation, settings)


def delete(registry: Registry, call: Call) -> Json:
    """Remove a vector; one that does not exist is no error."""
    name = _checked_name(call.path["vector"])
    collection = call.collection(registry)
    settings = dict(collection.settings)
    for kind in ("vectors", "sparse_vectors"):
        vectors = _named(settings, kind)
        if vectors.pop(name, None) is not None:
            settings[kind] = vectors
    with Translated():
        operation = removing(name)
    return _done(collection, call, operation, settings)


def _done(collection: Collection, call: Call, operation: Any, settings: dict[str, Json]) -> Json:
    is_waiting = wants_to_wait(call)
    number = collection.change_vectors(operation, settings)
    return {"operation_id": number, "status": "completed" if is_waiting else "acknowledged"}


def _named(settings: Body, kind: str) -> dict[str, Json]:
    """The vectors of that kind by name, to be changed."""
    return dict(dense_settings(settings) if kind == "vectors" else mapping(settings.get(kind) or {}))


def _exists(settings: Body, name: str, kind: str) -> bool:
    """Whether a vector of the other kind has that name."""
    return name in _named(settings, "vectors" if kind == "sparse_vectors" else "sparse_vectors")


def _check_same(name: str, kind: str, existing: Body | None, added: Body) -> None:
    is_dense = kind == "vectors"
    if existing is None:
        raise bad_input(f"Vector `{name}` already exists as a {'sparse' if is_dense else 'dense'} vector")
    if _schema(existing) != _schema(added):
        raise bad_input(
            f"{'Vector' if is_dense else 'Sparse vector'} `{name}` already exists with a different configuration"
        )


def _schema(body: Body) -> dict[str, Json]:
    kept = {part: body[part] for part in _SCHEMA if body.get(part) is not None}
    datatype = mapping(kept.pop("index", {})).get("datatype")
    return kept if datatype is None else kept | {"datatype": datatype}


def _checked_name(name: str) -> str:
    if len(name.encode()) > _MOST_NAME_BYTES:
        raise bad_value(
            "vector_name", f"vector name must be at most {_MOST_NAME_BYTES} bytes long", where="path parameters"
        )
    if not _FORBIDDEN.isdisjoint(name):
        raise bad_value("vector_name", "vector name cannot contain forbidden characters", where="path parameters")
    return name
