"""Strict mode, the part a proxy meets: a cap on how many results one request may ask for. Its rates are in `rates`."""

from __future__ import annotations

from vecsieve.proxy.embedded.errors import Refusal, bad_request
from vecsieve.proxy.embedded.fields import mapping, unsigned
from vecsieve.proxy.embedded.registry import Collection


def check_limit(collection: Collection, value: int, *, name: str = "limit") -> None:
    """Refuse more than `strict_mode_config.max_query_limit`, in Qdrant's words, when strict mode is enabled."""
    config = mapping(collection.settings.get("strict_mode_config", {}))
    most = config.get("max_query_limit")
    if config.get("enabled") is not True or most is None or value <= unsigned(most):
        return
    raise _exceeded(value, unsigned(most), name)


def _exceeded(value: int, most: int, name: str) -> Refusal:
    return bad_request(
        f'Limit exceeded {value} > {most} for "{name}". Help: Reduce the "{name}" parameter to or below {most}.'
    )
