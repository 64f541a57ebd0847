"""What a scrape contains beside the instruments, and how single samples are read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exposed import exposed
from vecsieve.proxy.exposition import CONTENT_TYPE, exposition, own_registry, shared_registry, value
from vecsieve.proxy.labels import Shed
from vecsieve.proxy.metrics import Metrics


def test_a_process_that_serves_alone_shows_its_memory_and_its_collections() -> None:
    found = exposed(exposition(own_registry()))
    assert found.total("process_resident_memory_bytes") > 1_000_000
    assert found.total("python_gc_collections_total") >= 0
    assert "python_gc_collections_total" in found.text


def test_the_format_is_the_one_without_surprises() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# EOF" not in exposition(own_registry())


def test_a_sample_is_read_by_its_name_and_labels() -> None:
    registry = own_registry()
    metrics = Metrics(registry)
    metrics.requests_shed_total.labels(Shed.MEMORY.value).inc(3)
    assert value(registry, "requests_shed_total", reason="memory") == 3
    assert value(registry, "requests_shed_total", reason="never") == 0


def test_a_shared_registry_wants_its_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a directory"):
        shared_registry(tmp_path / "missing")
    assert exposition(shared_registry(tmp_path)) == b""


def test_a_file_that_a_starting_worker_has_not_filled_yet_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "counter_w0.db").touch()
    assert exposition(shared_registry(tmp_path)) == b""
