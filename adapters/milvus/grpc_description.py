"""Over gRPC: the status inside a reply, which may be an error's, and the description of a collection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..base import GrpcDialect
from ..contract import DeclinedError, MalformedReplyError
from ..wire.protobuf import check_count
from ..wire.schema import parsed
from .calls import QUOTAS, RANGE
from .fields import DYNAMIC, VARCHAR, FieldType, limits
from .grpc_schema import COUNTED, proto
from .search import Schema, of_types

MOST_FIELDS = 2048  # 8 microseconds each; servers allow 64, or 256 if configured


def read_answer(kind: Any, body: bytes) -> Any:
    """A reply of that type. Raises DeclinedError for a status other than success, ValueError for an invalid reply.
    An absent status is success.
    """
    check_count(body, kind.DESCRIPTOR.name, COUNTED)
    reply = parsed(kind, body)
    status = reply.status
    if code := status.error_code or status.code:  # that of servers before 2.3, and the one since
        raise DeclinedError(code, status.reason)
    return reply


class MilvusGrpcDialect(GrpcDialect):
    """Errors have a status inside a successful message."""

    limit, quotas = RANGE, QUOTAS

    def refusal_in_success(self, body: bytes) -> bytes | None:
        """By the status inside the message."""
        try:
            read_answer(proto.Answer, body)
        except DeclinedError as declined:
            return declined.words
        except ValueError:
            return None
        return None


def read_description(body: bytes) -> Schema:
    """A DescribeCollectionResponse. Raises MalformedReplyError, nothing else."""
    try:
        return _described(read_answer(proto.Description, body))
    except ValueError as error:
        raise MalformedReplyError(f"description: {error}") from None


def _described(description: Any) -> Schema:
    schema = description.schema
    if not 0 < len(schema.fields) <= MOST_FIELDS:
        raise ValueError(f"{len(schema.fields)} fields")
    types = {field.name.decode(): _type_of(field) for field in schema.fields}
    primary = next((field for field in schema.fields if field.is_primary_key), None)
    known = of_types(
        {name: kind.kind for name, kind in types.items()},
        primary="" if primary is None else primary.name.decode(),
        has_texts=primary is not None and primary.data_type == VARCHAR,
        is_dynamic=schema.enable_dynamic_field,
        shows_all=not description.collectionID,  # Lite gives no ids to collections
    )
    types.pop(DYNAMIC, None)
    return replace(known, is_restorable=not any(field.autoID for field in schema.fields), fields=types)


def _type_of(field: Any) -> FieldType:
    if not field.name or not field.data_type:
        raise ValueError("a field has no name or no type")
    return FieldType(
        kind=field.data_type,
        element=field.element_type,
        is_nullable=field.nullable,
        has_default=bool(field.default_value),
        **limits({pair.key.decode(): pair.value.decode() for pair in field.type_params}),
    )
