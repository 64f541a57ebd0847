"""`GET /v1/stats`: what the write gate has seen and done since the process began, of all workers together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct
from prometheus_client import CollectorRegistry

from vecsieve.proxy.api.points import Points
from vecsieve.proxy.api.problems import Kind, ProblemError, invalid
from vecsieve.proxy.telemetry.instruments import PREFIX
from vecsieve.proxy.telemetry.labels import WriteTier

COLLECTION = "collection"


class Stats(Struct, frozen=True, kw_only=True, rename="camel"):
    """Points by how alike the most similar one was, and by what became of them."""

    total_entries: Annotated[int | None, Meta(description="Points of the collection that was asked for.")]
    total_checks: Annotated[int, Meta(description="Points that were judged.")]
    exact: int
    semantic: int
    related: int
    unique: int
    duplicates: Annotated[int, Meta(description="Points that counted as copies.")]
    held: Annotated[int, Meta(description="Points that a guard kept from being copies.")]
    added: int
    skipped: int
    merged: int
    evicted: int
    rejected_writes: int
    duration_ms: Annotated[float, Meta(description="Mean time that a write waited for its judgement.")]


class Statistics:
    """The endpoint. ``registry``: of the process, or of all workers. ``points``: None where collections are not counted."""

    def __init__(self, registry: CollectorRegistry, points: Points | None) -> None:
        self._registry = registry
        self._points = points

    async def tell(self, query: bytes, key: str | None) -> bytes:
        """Raises ProblemError."""
        asked = dict(parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True))
        if unknown := asked.keys() - {COLLECTION}:
            raise invalid("the query", min(unknown), COLLECTION)
        entries = None
        if COLLECTION in asked:
            if self._points is None or not asked[COLLECTION]:
                raise ProblemError(Kind.NO_COLLECTION, "no collection is counted here by this name")
            entries = await self._points.count(asked[COLLECTION], key)
        # With workers the files of all are read.
        counted = await asyncio.to_thread(self._counted)
        return msgspec.json.encode(_stats(counted, entries)) + b"\n"

    def _counted(self) -> Mapping[str, float]:
        """By the name of a metric, and its tier."""
        found: dict[str, float] = {}
        for metric in self._registry.collect():
            for sample in metric.samples:
                if sample.name.startswith(f"{PREFIX}write"):
                    tier = sample.labels.get("tier", "")
                    found[sample.name.removeprefix(PREFIX) + tier] = sample.value
        return found


def _stats(counted: Mapping[str, float], entries: int | None) -> Stats:
    def number(name: str) -> int:
        return int(counted.get(name, 0.0))

    tiers = {tier.value: number(f"write_points_total{tier.value}") for tier in WriteTier}
    waits = counted.get("write_wait_seconds_count", 0.0)
    return Stats(
        total_entries=entries,
        total_checks=sum(tiers.values()),
        **tiers,
        duplicates=number("write_copies_total"),
        held=number("write_points_held_total"),
        added=number("write_points_added_total"),
        skipped=number("write_points_left_out_total"),
        merged=number("write_points_merged_total"),
        evicted=number("write_points_removed_total"),
        rejected_writes=number("writes_rejected_total"),
        duration_ms=round(counted["write_wait_seconds_sum"] / waits * 1000.0, 3) if waits else 0.0,
    )
