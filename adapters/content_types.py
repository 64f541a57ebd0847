"""Which content types may hold a JSON body."""

from __future__ import annotations


def may_be_json(content_type: str) -> bool:
    """Absent is left to the server's own judgement: its refusal of the widened request is replayed."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence in {"", "application/json"} or (essence.startswith("application/") and essence.endswith("+json"))
