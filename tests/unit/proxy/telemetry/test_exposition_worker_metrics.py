"""Workers' files: counters continue across restarts, gauges do not, and the number of files stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.exposed import Exposed, exposed
from vecsieve.proxy.telemetry.exposition import (
    exposition,
    forget_gauges,
    make_directory,
    remove_directory,
    shared_registry,
)

# The library decides once per process how values are stored, so each worker here is a process.
WORKER = """
import sys
from pathlib import Path
from vecsieve.proxy.telemetry.labels import *
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.exposition import join, show_memory
place = int(sys.argv[2])
metrics = Metrics(join(Path(sys.argv[1]), place), backend="qdrant")
metrics.requests_in_flight.inc(2)
metrics.candidates.observe(50)
metrics.config_taken(sys.argv[3], previous=None, at=1000.0 + place)
if place:
    metrics.config_refused()
    metrics.breaker_is(BreakerState.OPEN)
show_memory(metrics, place, lambda: 1000 + place)
for trace_id in (None, None, None, None, "4bf92f3577b34da6a3ce929d0e0e4736"):
    metrics.request_done(
        "query", Outcome.DEDUP, status=200, origin=Origin.UPSTREAM, seconds=0.002, trace_id=trace_id
    )
"""
REQUEST = {"backend": "qdrant", "operation": "query", "outcome": "dedup"}


def work(directory: Path, place: int, settings: str = "aaaa") -> None:
    command = [sys.executable, "-c", WORKER, str(directory), str(place), settings]
    subprocess.run(command, check=True, timeout=60)


def scrape(directory: Path) -> Exposed:
    return exposed(exposition(shared_registry(directory)))


def test_what_two_workers_count_adds_up(tmp_path: Path) -> None:
    work(tmp_path, 0)
    work(tmp_path, 1)
    found = scrape(tmp_path)
    assert found.value("vecsieve_requests_total", REQUEST) == 10
    assert found.value("vecsieve_requests_in_flight") == 4
    assert found.value("vecsieve_candidates_count", {"backend": "qdrant"}) == 2
    assert found.value("vecsieve_candidates_sum", {"backend": "qdrant"}) == 100
    assert found.value("vecsieve_process_resident_memory_bytes", {"worker": "w0"}) == 1000
    assert found.value("vecsieve_process_resident_memory_bytes", {"worker": "w1"}) == 1001
    assert found.value("vecsieve_config_last_reload_successful") == 0, "one worker has refused"
    assert found.value("vecsieve_config_last_reload_timestamp_seconds") == 1001
    assert found.value("vecsieve_breaker_state", {"state": "open"}) == 1
    assert found.series <= 600
    assert "_created" not in found.text
    assert 'pid="' not in found.text


def test_every_series_of_one_process_is_there_with_several_too(tmp_path: Path) -> None:
    work(tmp_path, 0)
    found = scrape(tmp_path)
    assert found.value("vecsieve_fail_open_total", {"backend": "qdrant", "reason": "breaker"}) == 0
    assert found.value("vecsieve_log_dropped_total") == 0


def test_a_restarted_worker_continues_its_counters_and_not_its_gauges(tmp_path: Path) -> None:
    work(tmp_path, 0)
    files = sorted(file.name for file in tmp_path.iterdir())
    for restart in range(2, 4):
        forget_gauges(tmp_path, 0)
        work(tmp_path, 0)
        found = scrape(tmp_path)
        assert found.value("vecsieve_requests_total", REQUEST) == 5 * restart
        assert found.value("vecsieve_requests_in_flight") == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == files


def test_forgetting_one_workers_gauges_leaves_the_others(tmp_path: Path) -> None:
    for name in ("gauge_livesum_w1.db", "gauge_livesum_w11.db", "counter_w1.db"):
        (tmp_path / name).touch()
    forget_gauges(tmp_path, 1)
    forget_gauges(tmp_path, 7)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counter_w1.db", "gauge_livesum_w11.db"]


def test_settings_that_two_workers_hold_differently_are_both_shown(tmp_path: Path) -> None:
    work(tmp_path, 0, "aaaa")
    work(tmp_path, 1, "bbbb")
    assert scrape(tmp_path).label_values("vecsieve_config_info")["hash"] == {"aaaa", "bbbb"}


def test_the_directory_is_new_private_and_goes_away_with_its_files() -> None:
    one, other = make_directory(), make_directory()
    assert one != other
    assert one.stat().st_mode & 0o777 == 0o700
    (one / "counter_w0.db").touch()
    for directory in (one, other):
        remove_directory(directory)
        remove_directory(directory)
        assert not directory.exists()
