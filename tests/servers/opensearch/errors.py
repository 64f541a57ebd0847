"""Refusals in the shapes of both products."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
NODE = "node-of-the-tests-1234"
WINDOW = 10_000


class RefusedError(Exception):
    """An answer that is no result: ``type`` and ``reason``; ``more``: further members of the cause."""

    def __init__(self, status: int, kind: str, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.cause: Json = {"type": kind, "reason": reason, **more}

    @property
    def body(self) -> Json:
        cause = {key: value for key, value in self.cause.items() if key != "caused_by"}
        return {"error": {"root_cause": [cause], **self.cause}, "status": self.status}


class PlainError(RefusedError):
    """A refusal of the HTTP layer: its error is a text."""

    def __init__(self, status: int, reason: str, *, has_status: bool = True) -> None:
        super().__init__(status, "", reason)
        self._has_status = has_status

    @property
    def body(self) -> Json:
        return {"error": self.cause["reason"], **({"status": self.status} if self._has_status else {})}


class ShardError(RefusedError):
    """A refusal that each shard makes by itself. ``is_wrapped``: as a query that cannot be made."""

    def __init__(self, reason: str, *, is_wrapped: bool = True, status: int = 400) -> None:
        kind = "search_exception" if status == 500 else "illegal_argument_exception"
        super().__init__(status, kind, reason)
        self.is_wrapped = is_wrapped

    def of_index(self, name: str, uuid: str) -> Json:
        """The failure of that index's shard."""
        if not self.is_wrapped:
            return dict(self.cause)
        where = {"index": name, "index_uuid": uuid}
        return {
            "type": "query_shard_exception",
            "reason": f"failed to create query: {self.cause['reason']}",
            **where,
            "caused_by": self.cause,
        }


class AllShardsError(RefusedError):
    """No shard had an answer. ``has_cause``: whether the first failure is repeated as the cause."""

    def __init__(self, status: int, phase: str, failures: list[Json], *, has_cause: bool) -> None:
        first = failures[0]["reason"]
        super().__init__(
            status,
            "search_phase_execution_exception",
            "all shards failed",
            phase=phase,
            grouped=True,
            failed_shards=failures,
        )
        if has_cause or "caused_by" not in first:
            inner = {"caused_by": first} if first["type"] == "illegal_argument_exception" else {}
            self.cause["caused_by"] = {**first, **({} if "caused_by" in first else inner)}
        roots = [
            {key: value for key, value in shard_failure["reason"].items() if key != "caused_by"}
            for shard_failure in failures
        ]
        self._roots = [root for place, root in enumerate(roots) if root not in roots[:place]]

    @property
    def body(self) -> Json:
        return {"error": {"root_cause": self._roots, **self.cause}, "status": self.status}


def failure(index: str, reason: Json) -> Json:
    """A shard's failure, as lists of them have it."""
    return {"shard": 0, "index": index, "node": NODE, "reason": reason}


def unknown_index(name: str) -> RefusedError:
    named = {"index": name, "resource.id": name, "resource.type": "index_or_alias", "index_uuid": "_na_"}
    return RefusedError(404, "index_not_found_exception", f"no such index [{name}]", **named)


def invalid(reason: str) -> RefusedError:
    return RefusedError(400, "illegal_argument_exception", reason)


def unparsed(reason: str) -> RefusedError:
    return RefusedError(400, "parsing_exception", reason, line=1, col=1)


def too_deep(end: int) -> ShardError:
    """A page beyond the window."""
    reason = (
        f"Result window is too large, from + size must be less than or equal to: [{WINDOW}] but was [{end}]. See the scroll api for a "
        "more efficient way to request large data sets. This limit can be set by changing the [index.max_result_window] index level setting."
    )
    return ShardError(reason, is_wrapped=False)
