"""The only importer of `qdrant_edge`: loaded on first use, called inline, its errors converted to Qdrant's. And a collection's settings, for
the engine and as shown by `info`.

The engine holds the GIL during a whole call (measured on 0.9.0: while 8,000 points were written or an index was built, no
other Python thread ran). A worker thread would add no concurrency, so calls run on the thread that serves requests, which
also serialises writes without a lock. The server has a process of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from .fields import (
    Body,
    Json,
    bad_format,
    bad_value,
    boolean,
    from_engine,
    mapping,
    not_served,
    number,
    optional,
    required,
    service_error,
    text,
    unsigned,
)


@cache
def edge() -> Any:
    """The engine's module, untyped: its objects are passed on, not inspected."""
    return importlib.import_module("qdrant_edge")


class Translated:
    """Converts the engine's exceptions inside the block to RefusalError.

    The engine raises bare `Exception` for its own errors, so the exact class is compared. Its argument conversion raises
    ValueError, TypeError and OverflowError; a panic of its Rust code is a PanicException.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            return
        if kind is Exception:
            raise from_engine(str(error)) from error
        if issubclass(kind, ValueError | TypeError | OverflowError):
            raise bad_format(str(error).splitlines()[0] if str(error) else kind.__name__) from error
        if kind.__name__ == "PanicException":
            raise service_error(str(error)) from error


class Shard:
    """One collection's data on disk. Requests and results are the engine's objects."""

    def __init__(self, opened: Any) -> None:
        self.engine = opened

    @classmethod
    def create(cls, path: Path, config: object) -> Shard:
        with Translated():
            return cls(edge().EdgeShard.create(str(path), config))

    @classmethod
    def load(cls, path: Path) -> Shard:
        with Translated():
            return cls(edge().EdgeShard.load(str(path)))

    def query(self, request: object) -> list[Any]:
        with Translated():
            return list(self.engine.query(request))

    def query_batch(self, requests: Sequence[object]) -> list[list[Any]]:
        """As `query` of each, in one pass over the points: with a thousand requests a fifth less time."""
        with Translated():
            return [list(points) for points in self.engine.query_batch(edge().QueryBatchRequest(list(requests)))]

    def scroll(self, request: object) -> tuple[list[Any], Any]:
        """Records by id or by `order_by`, and the id that the next page starts with."""
        with Translated():
            records, following = self.engine.scroll(request)
            return list(records), following

    def retrieve(self, ids: list[Any], payload: object, vectors: object) -> list[Any]:
        """The records that exist, in the order of `ids`."""
        with Translated():
            records = {str(record.id): record for record in self.engine.retrieve(ids, payload, vectors)}
        # The engine has an order of its own.
        return [records[key] for key in dict.fromkeys(str(point) for point in ids) if key in records]

    def count(self, request: object) -> int:
        with Translated():
            return int(self.engine.count(request))

    def update(self, operation: object) -> None:
        """Apply one write; it is in the write-ahead log afterwards."""
        with Translated():
            self.engine.update(operation)

    def optimize(self) -> None:
        """Build indexes that are due: 0.1 ms without any, else about 0.2 s per thousand vectors of 128."""
        with Translated():
            self.engine.optimize()

    def info(self) -> Any:
        with Translated():
            return self.engine.info()

    def close(self) -> None:
        with Translated():
            self.engine.flush()
            self.engine.close()


DEFAULT_VECTOR = ""
_MAX_DIMENSION = 65_536
PLACEHOLDER = "no-vectors"
"""A sparse vector that no point has. Qdrant allows a collection without vectors, for lookups; qdrant-edge-py 0.9.0 does not."""
# Shown by Qdrant 1.19 for a collection created without these settings.
_HNSW: dict[str, Json] = {
    "m": 16,
    "ef_construct": 100,
    "full_scan_threshold": 10_000,
    "max_indexing_threads": 0,
    "on_disk": False,
}
_OPTIMIZERS: dict[str, Json] = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "max_segment_size": None,
    "memmap_threshold": None,
    "indexing_threshold": 10_000,
    "flush_interval_sec": 5,
    "max_optimization_threads": None,
    "prevent_unoptimized": None,
}
_WAL: dict[str, Json] = {"wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1}
_KEPT = (
    *("vectors", "sparse_vectors", "hnsw_config", "optimizers_config", "quantization_config"),
    *("strict_mode_config", "on_disk_payload", "metadata"),
)


def read_settings(body: Body) -> dict[str, Json]:
    """The members of a create call that are stored and shown. Refuses what the embedded server cannot do."""
    if body.get("sharding_method") not in {None, "auto"}:
        raise not_served("custom sharding")
    if body.get("init_from") is not None:
        raise not_served("init_from")
    return {name: body[name] for name in _KEPT if body.get(name) is not None}


def wants_index(settings: Body) -> bool:
    """Whether writes build the HNSW graph: only if the client set an indexing threshold above 0.

    The real server indexes in the background. Here indexing blocks the process (0.2 s per thousand vectors of 128), so
    the default is an exact scan: reproducible, and fast enough at this server's sizes.
    """
    threshold = mapping(settings.get("optimizers_config", {})).get("indexing_threshold")
    return threshold is not None and unsigned(threshold) > 0


def edge_config(settings: Body) -> Any:
    engine = edge()
    given = mapping(settings.get("sparse_vectors", {}))
    with Translated():
        dense = {name: read_dense(name, value) for name, value in dense_settings(settings).items()}
        if not dense and not given:
            given = {PLACEHOLDER: {}}
        return engine.EdgeConfig(
            vectors=dense,
            sparse_vectors={name: read_sparse(mapping(value)) for name, value in given.items()},
            hnsw_config=_hnsw(settings.get("hnsw_config")),
            quantization_config=_quantization(settings.get("quantization_config")),
            optimizers=_optimizers(settings.get("optimizers_config")),
        )


def dense_settings(settings: Body) -> dict[str, Body]:
    """By name; a bare object is the unnamed vector."""
    vectors = mapping(settings.get("vectors", {}))
    if "size" in vectors and not isinstance(vectors["size"], dict):
        return {DEFAULT_VECTOR: vectors}
    return {name: mapping(value) for name, value in vectors.items()}


def config_json(settings: Body) -> dict[str, Json]:
    """The `config` member of `info`, in the server's field order."""
    params: dict[str, Json] = {"vectors": settings.get("vectors", {}), "shard_number": 1, "replication_factor": 1}
    params |= {"write_consistency_factor": 1, "on_disk_payload": settings.get("on_disk_payload", True)}
    if "sparse_vectors" in settings:
        params["sparse_vectors"] = settings["sparse_vectors"]
    config: dict[str, Json] = {
        "params": params,
        "hnsw_config": _HNSW | _given(settings.get("hnsw_config")),
        "optimizer_config": _OPTIMIZERS | _given(settings.get("optimizers_config")),
        "wal_config": _WAL,
        "quantization_config": settings.get("quantization_config"),
        "strict_mode_config": {"enabled": False} | _given(settings.get("strict_mode_config")),
    }
    if "metadata" in settings:
        config["metadata"] = settings["metadata"]
    return config


def _given(value: Json) -> dict[str, Json]:
    return {} if value is None else {name: item for name, item in mapping(value).items() if item is not None}


def read_dense(name: str, body: Body) -> Any:
    field = f"vectors.{name}.size" if name else "vectors.size"
    size = unsigned(required(body, "size"), expected="u64")
    if not 1 <= size <= _MAX_DIMENSION:
        raise bad_value(field, f"value {size} invalid, must be from 1 to {_MAX_DIMENSION}")
    return edge().EdgeVectorParams(
        size,
        choose("Distance", required(body, "distance")),
        multivector_config=_multi(body.get("multivector_config")),
        datatype=_datatype(body.get("datatype")),
        quantization_config=_quantization(body.get("quantization_config")),
        hnsw_config=_hnsw(body.get("hnsw_config")),
    )


def read_sparse(body: Body) -> Any:
    index = mapping(body.get("index") or {})
    modifier = body.get("modifier")
    return edge().EdgeSparseVectorParams(
        full_scan_threshold=optional(index.get("full_scan_threshold"), unsigned),
        modifier=None if modifier in {None, "none"} else choose("Modifier", modifier),
        datatype=_datatype(index.get("datatype")),
    )


def _multi(value: Json) -> Any:
    if value is None:
        return None
    if mapping(value).get("comparator") != "max_sim":
        raise bad_format(f"unknown variant `{value.get('comparator')}`, expected `max_sim`")
    return edge().MultiVectorConfig(edge().MultiVectorComparator.MaxSim)


def _datatype(value: Json) -> Any:
    return None if value is None else choose("VectorStorageDatatype", value)


def _hnsw(value: Json) -> Any:
    if value is None:
        return None
    merged = _HNSW | _given(value)
    return edge().HnswIndexConfig(
        m=unsigned(merged["m"]),
        ef_construct=unsigned(merged["ef_construct"]),
        full_scan_threshold=unsigned(merged["full_scan_threshold"]),
        payload_m=optional(merged.get("payload_m"), unsigned),
    )


def _optimizers(value: Json) -> Any:
    given = _given(value)
    counts = ("vacuum_min_vector_number", "default_segment_number", "max_segment_size", "indexing_threshold")
    options: dict[str, Json] = {name: unsigned(given[name]) for name in counts if name in given}
    if "deleted_threshold" in given:
        options["deleted_threshold"] = number(given["deleted_threshold"], expected="f64")
    return edge().EdgeOptimizersConfig(**options) if options else None


def _quantization(value: Json) -> Any:
    if value is None:
        return None
    body, engine = mapping(value), edge()
    if "scalar" in body:
        scalar = mapping(body["scalar"])
        kind = choose("ScalarType", required(scalar, "type"))
        return engine.ScalarQuantizationConfig(kind, optional(scalar.get("quantile"), number), _ram(scalar))
    if "product" in body:
        product = mapping(body["product"])
        ratio = choose("CompressionRatio", required(product, "compression"))
        return engine.ProductQuantizationConfig(ratio, _ram(product))
    if "binary" in body:
        return engine.BinaryQuantizationConfig(_ram(mapping(body["binary"])))
    raise not_served(f"quantization of kind {sorted(body)}")


def _ram(body: Body) -> bool | None:
    return optional(body.get("always_ram"), boolean)


def choose(kind: str, value: Json) -> Any:
    """The member of an engine enumeration named `value`, ignoring case and underscores."""
    enumeration, spelling = getattr(edge(), kind), text(value).replace("_", "").lower()
    for name in dir(enumeration):
        if not name.startswith("_") and name.lower() == spelling:
            return getattr(enumeration, name)
    raise bad_format(f"unknown variant `{value}` of {kind}")
