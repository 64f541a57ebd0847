"""What Milvus answers a search with, over rows whose rank is given: by protobuf's own library, sharing nothing with the adapter.

``lite``: as Milvus Lite, which shows all fields to who names none, and an empty `$meta` to everybody.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.milvus.messages import message_type

DIM = 8
NUMBERS: dict[str, tuple[int, str, str]] = {
    # name -> DataType, the array of ScalarField, and what the values of a row become
    "flag": (1, "bool_data", "bool"),
    "small": (4, "int_data", "int"),
    "big": (5, "long_data", "int"),
    "ratio": (10, "float_data", "float"),
    "exact": (11, "double_data", "float"),
    "text": (21, "string_data", "str"),
    "doc": (23, "json_data", "bytes"),
    "tags": (22, "array_data", "list"),
    "when": (26, "timestamptz_data", "int"),
    "place": (24, "geometry_data", "bytes"),
}
VECTORS: dict[str, int] = {
    "vec": 101,
    "half": 102,
    "brain": 103,
    "tiny": 105,
    "bits": 100,
    "sparse": 104,
    "several": 106,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entity. ``values``: of the scalar fields, and ``vectors``, by name; None is null. ``meta``: its dynamic keys."""

    id: int | str
    score: float
    values: dict[str, Any]
    vectors: dict[str, bytes | None]
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The rows near each query. ``nullable``: every field says which rows have it, at ``validity``. ``tail``: after the results."""

    lists: tuple[tuple[Row, ...], ...]
    lite: bool = False
    nullable: bool = False
    validity: str = "column"
    tail: bytes = b""

    @property
    def schema(self) -> Any:
        """What DescribeCollection answers."""
        reply = message_type("DescribeCollectionResponse")()
        reply.status.SetInParent()
        for number, (name, kind) in enumerate([("id", 5), *((n, k[0]) for n, k in NUMBERS.items()), *VECTORS.items()]):
            reply.schema.fields.add(name=name, data_type=kind, fieldID=0 if self.lite else 100 + number)
        reply.schema.enable_dynamic_field = True
        reply.collectionID = 0 if self.lite else 4711
        return reply

    def answer(self, body: bytes, *, hybrid: bool = False) -> bytes:
        """The reply to a request's bytes."""
        request = message_type("HybridSearchRequest" if hybrid else "SearchRequest").FromString(body)
        params = {pair.key: pair.value for pair in (request.rank_params if hybrid else request.search_params)}
        limit, offset = int(params["limit" if hybrid else "topk"]), int(params.get("offset", "0"))
        lists = [rows[offset : offset + limit] for rows in self.lists]
        flat = [row for rows in lists for row in rows]
        reply = message_type("SearchResults")()
        reply.status.SetInParent()
        data = reply.results
        data.num_queries = len(lists)
        data.top_k = limit if self.lite else max(map(len, lists))
        self._show(data, list(request.output_fields), flat)
        data.scores.extend(row.score for row in flat)
        if flat and isinstance(flat[0].id, str):
            data.ids.str_id.data.extend(row.id for row in flat)
        else:
            data.ids.int_id.data.extend(row.id for row in flat)
        data.topks.extend(map(len, lists))
        if self.lite:
            data.primary_field_name = "id"
        reply.collection_name = request.collection_name
        raw: bytes = reply.SerializeToString() + self.tail
        return raw

    def _show(self, data: Any, names_listed: list[str], rows: Sequence[Row]) -> None:
        everything = "*" in names_listed or (self.lite and not names_listed)
        fixed = [*NUMBERS, *VECTORS]
        names = fixed if everything else [name for name in fixed if name in names_listed]
        keys = [name for name in names_listed if name not in (*fixed, "*")]
        for name in names if rows or self.lite else ():
            if name in NUMBERS:
                self._scalar(data.fields_data.add(field_name=name, type=NUMBERS[name][0]), name, rows)
            else:
                self._vector(data.fields_data.add(field_name=name, type=VECTORS[name]), name, rows)
        if (everything or keys or self.lite) and (rows or self.lite):
            column = data.fields_data.add(field_name="$meta", type=23, is_dynamic=True)
            visible = [
                row.meta if everything else {key: row.meta[key] for key in keys if key in row.meta} for row in rows
            ]
            column.scalars.json_data.SetInParent()
            column.scalars.json_data.data.extend(json.dumps(meta).encode() for meta in visible)
        data.output_fields.extend([*names, *keys, *(["$meta"] if everything else [])])

    def _scalar(self, column: Any, name: str, rows: Sequence[Row]) -> None:
        array = getattr(column.scalars, NUMBERS[name][1])
        array.SetInParent()
        values = [row.values[name] for row in rows]
        blank = {"bool": False, "int": 0, "float": 0.0, "str": "", "bytes": b"", "list": []}[NUMBERS[name][2]]
        for value in values:
            if name == "tags":
                array.data.add().long_data.data.extend(blank if value is None else value)
            else:
                array.data.append(blank if value is None else value)
        self._validity(column, column.scalars, [value is not None for value in values])

    def _vector(self, column: Any, name: str, rows: Sequence[Row]) -> None:
        field = column.vectors
        field.dim = DIM
        present = [row.vectors[name] for row in rows]
        stored = [packed for packed in present if packed is not None]  # only the valid ones
        if name == "vec":
            field.float_vector.SetInParent()
            field.float_vector.data.extend(np.frombuffer(b"".join(stored), "<f4").tolist())
        elif name == "sparse":
            field.sparse_float_vector.SetInParent()
            field.sparse_float_vector.contents.extend(stored)
            field.sparse_float_vector.dim = 99
        elif name == "several":
            field.vector_array.SetInParent()
            for packed in stored:
                field.vector_array.data.add(dim=2).float_vector.data.extend([float(byte) for byte in packed])
        else:
            kind = {"half": "float16", "brain": "bfloat16", "tiny": "int8", "bits": "binary"}[name]
            setattr(field, f"{kind}_vector", b"".join(stored))
            if not stored:
                field.ClearField(f"{kind}_vector")
        self._validity(column, field, [packed is not None for packed in present])

    def _validity(self, column: Any, content: Any, valid: list[bool]) -> None:
        if self.nullable:
            (column if self.validity == "column" else content).valid_data.extend(valid)
