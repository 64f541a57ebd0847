"""The status inside Milvus's replies: errors come as successful calls."""

from __future__ import annotations

from vecsieve.adapters.contract import Declined
from vecsieve.adapters.proto_wire import LENGTH, VARINT, Field, fields, only, unsigned

# Status: the code of old, and the one since 2.3.
_ERROR_CODE, _REASON, _CODE = 1, 2, 3


def check_status(data: bytes, status: Field | None) -> None:
    """Raises Declined where a status says that the call failed; absent it says success, as for every reader of protobuf.
    ValueError for what is no status.
    """
    if status is None:
        return
    found = fields(data, status.span)
    for number in (_ERROR_CODE, _CODE):
        code = only(found, number, VARINT)
        if code is not None and unsigned(data, code):
            reason = only(found, _REASON, LENGTH)
            raise Declined(unsigned(data, code), b"" if reason is None else data[reason.value : reason.end])
