"""The arithmetic of the benchmarks: a table with a wrong ratio is worse than none."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench import bodies, connections, stats
from bench.bench_client import mmr
from bench.canned import load
from bench.contenders import OtherSearchError, unselected
from bench.figures import Aim, Figure, Sides, figure
from bench.generator import ordered, packed, unpacked
from bench.load import Request
from bench.pools import sample
from bench.processes import cpu_seconds, peak_rss_bytes, rss_bytes
from bench.report import document, judged, judged_most, number, section, table
from bench.rounds import interleave

POSITIVE = st.floats(min_value=1e-6, max_value=1e6)
ROUNDS = st.lists(POSITIVE, min_size=1, max_size=20)


@given(ROUNDS)
def test_a_spread_holds_its_median_and_every_round(rounds: list[float]) -> None:
    """Invariant: low <= median <= high, and both ends are rounds."""
    seen = stats.spread(rounds)
    assert seen.low <= seen.median <= seen.high
    assert {seen.low, seen.high} <= set(rounds)


@given(ROUNDS, st.floats(min_value=0.01, max_value=100.0))
def test_a_ratio_is_taken_round_by_round(baseline: list[float], factor: float) -> None:
    """Invariant: whatever slows both sides of a round alike leaves its ratio alone."""
    ours = [factor * value for value in baseline]
    assert stats.ratios(ours, baseline) == pytest.approx([factor] * len(baseline))


def test_rounds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rounds of ours against 1"):
        stats.ratios([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="1 rounds of ours against 2"):
        stats.differences([1.0], [1.0, 2.0])


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        stats.spread([])
    with pytest.raises(ValueError, match="percentile of nothing"):
        stats.percentile([], 0.5)


def test_differences_keep_their_sign() -> None:
    assert stats.differences([3.0, 1.0], [1.0, 2.0]) == [2.0, -1.0]


@given(st.lists(POSITIVE, min_size=1, max_size=200), st.floats(min_value=0.001, max_value=1.0))
def test_a_percentile_covers_its_share_and_no_smaller_value_does(values: list[float], share: float) -> None:
    """Invariant: at least that share lies at or below it, and less than that share below it."""
    seen = stats.percentile(values, share)
    assert sum(value <= seen for value in values) >= share * len(values)
    assert sum(value < seen for value in values) < share * len(values)


def test_a_percentile_of_a_share_beyond_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"share 99\.0"):
        stats.percentile([1.0], 99.0)


def test_sides_take_turns() -> None:
    calls: list[str] = []

    def note(name: str) -> int:
        calls.append(name)
        return len(calls)

    assert interleave({"a": lambda: note("a"), "b": lambda: note("b")}, rounds=2) == {"a": [1, 3], "b": [2, 4]}
    assert calls == ["a", "b", "a", "b"]


def one_figure(*aims: Aim) -> Figure:
    return figure("search", Sides([40.0, 50.0, 60.0], [100.0, 100.0, 200.0]), unit="1/s", against="relay", aims=aims)


def test_a_figure_sums_up_both_sides_and_pairs_the_ratio() -> None:
    seen = one_figure()
    assert (seen.ours.median, seen.baseline.median) == (50.0, 100.0)
    assert seen.ratio == stats.Spread(median=0.4, low=0.3, high=0.5)


@pytest.mark.parametrize(
    ("aim", "is_met"),
    [
        (Aim("ratio", ">=", 0.4), True),
        (Aim("ratio", ">=", 0.41), False),
        (Aim("ours", "<=", 50.0), True),
        (Aim("ours", "<=", 49.0), False),
    ],
)
def test_an_aim_is_judged_by_the_median_and_its_bound_counts_as_met(aim: Aim, is_met: bool) -> None:
    assert (one_figure(aim).missed == ()) is is_met


def test_the_document_keeps_the_range_of_every_row() -> None:
    made = document([section("search", "here", [one_figure()])], {"cores": 2})
    read = json.loads(json.dumps(made))
    assert (read["schema"], read["cores"]) == (2, 2)
    assert read["sections"]["search"][0]["ratio"] == {"median": 0.4, "low": 0.3, "high": 0.5}


def test_the_table_shows_ours_the_baseline_the_range_and_a_missed_aim() -> None:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(table(section("search", "here", [one_figure(Aim("ratio", ">=", 0.45))])))
    shown = captured.get()
    for wanted in ("search: here", "50 1/s", "100 1/s", "relay", "0.4 (0.3-0.5)", "ratio >= 0.45: missed"):
        assert wanted in shown


def test_what_is_wanted_counts_as_met_at_its_bound() -> None:
    assert judged(0.5, 0.5) == "≥ 0.5: met"
    assert judged(0.49, 0.5) == "≥ 0.5: missed"
    assert judged(0.1, None) == ""
    assert judged_most(1.0, 1.0) == "≤ 1: met"
    assert judged_most(1.1, 1.0) == "≤ 1: missed"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12345, "0.123"), (12.345, "12.3"), (123.4, "123"), (12345.6, "12,346")]
)
def test_numbers_are_shown_with_what_they_carry(value: float, shown: str) -> None:
    assert number(value) == shown


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_printed_as_the_shortest_json_that_reads_back(value: float) -> None:
    """Invariant: JSON reads it, and the float32 it reads is the one that was printed."""
    printed = bodies.f32(np.float32(value))
    assert np.float32(json.loads(printed)) == np.float32(value)


@pytest.mark.parametrize(
    ("value", "printed"),
    [(1.0, "1.0"), (0.1, "0.1"), (-0.0, "-0.0"), (1e-5, "0.00001"), (1e-7, "1e-7"), (2.5e-8, "2.5e-8")],
)
def test_floats_look_as_the_database_prints_them(value: float, printed: str) -> None:
    assert bodies.f32(np.float32(value)) == printed


def test_a_reply_reads_as_the_pool_it_was_made_of() -> None:
    pool = sample(12, 16, seed=1)
    points = json.loads(bodies.query_reply(pool, seed=1))["result"]["points"]
    assert [point["id"] for point in points] == list(range(1, 13))
    assert np.array_equal(np.array([point["vector"] for point in points], dtype=np.float32), pool.vectors)
    assert all(550 <= len(json.dumps(point["payload"], ensure_ascii=False).encode()) <= 750 for point in points)
    assert 250 <= len(bodies.point_reply()) <= 350


def test_a_request_asks_for_what_the_client_asks() -> None:
    pool = sample(3, 4, seed=1)
    asked = json.loads(bodies.query_request(pool, limit=10))
    assert (asked["limit"], asked["with_vector"], asked["with_payload"]) == (10, False, True)
    assert np.array_equal(np.array(asked["query"]["nearest"], dtype=np.float32), pool.query)


def test_pools_are_ranked_repeatable_and_hold_near_copies() -> None:
    pool, again = sample(50, 384, seed=3), sample(50, 384, seed=3)
    assert np.array_equal(pool.vectors, again.vectors)
    assert (np.diff(pool.scores) <= 0).all()
    distances = 1.0 - pool.vectors @ pool.vectors.T
    others = distances[~np.eye(50, dtype=bool)]
    assert 0.4 < np.median(others) < 0.6
    assert 20 <= (distances + np.eye(50) < 0.1).any(axis=1).sum() <= 45


def test_the_client_side_mmr_prefers_what_is_unlike_the_picked() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.001], [0.6, 0.8]], dtype=np.float32)
    assert mmr(vectors, np.array([0.9, 0.89, 0.75], dtype=np.float32), top_k=2) == [0, 2]
    assert mmr(vectors, np.array([0.9, 0.89, 0.75], dtype=np.float32), top_k=9) == [0, 2, 1]


def test_searches_without_a_removed_copy_are_counted_and_too_many_are_refused() -> None:
    assert unselected((10.0, 20.0), (110.0, 120.0)) == 0.0
    assert unselected((10.0, 20.0), (107.0, 120.0)) == pytest.approx(0.03)
    with pytest.raises(OtherSearchError, match="60% of 100 searches"):
        unselected((10.0, 20.0), (50.0, 120.0))
    with pytest.raises(OtherSearchError, match="100% of 0 searches"):
        unselected((10.0, 20.0), (10.0, 20.0))


def test_requests_are_asked_in_turn_from_a_place_or_by_zipfs_law() -> None:
    requests = [b"%d" % number for number in range(100)]
    assert list(itertools.islice(ordered(requests, "turn", 98), 4)) == [b"98", b"99", b"0", b"1"]
    drawn = Counter(itertools.islice(ordered(requests, "zipf", 1), 20_000))
    assert drawn[b"0"] == pytest.approx(2 * drawn[b"1"], rel=0.15)
    assert drawn[b"0"] == pytest.approx(10 * drawn[b"9"], rel=0.3)
    with pytest.raises(ValueError, match="order 'dice', wanted turn or zipf"):
        ordered(requests, "dice", 1)


@given(st.lists(st.binary(max_size=50)))
def test_requests_are_read_from_the_file_as_they_were_written(requests: list[bytes]) -> None:
    """Invariant: any requests come back, in order."""
    assert unpacked(packed(requests)) == requests


def test_the_generator_takes_only_a_counted_200() -> None:
    assert connections.body_bytes(b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 12") == 12
    with pytest.raises(ConnectionError, match="503"):
        connections.body_bytes(b"HTTP/1.1 503 Busy\r\nContent-Length: 1")
    with pytest.raises(ConnectionError, match="without Content-Length"):
        connections.body_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")


def test_a_raw_request_is_framed() -> None:
    made = Request(method="POST", path="/a", body=b"{}").raw()
    assert made.startswith(b"POST /a HTTP/1.1\r\nHost: ")
    assert made.endswith(b"Content-Length: 2\r\n\r\n{}")


def test_canned_replies_carry_their_length(tmp_path: Path) -> None:
    directory = tmp_path
    (directory / "a").mkdir()
    (directory / "a" / "b").write_bytes(b"xyz")
    replies = load(directory)
    assert list(replies) == [b"/a/b"]
    assert replies[b"/a/b"].endswith(b"Content-Length: 3\r\n\r\nxyz")


def test_ratios_of_a_dead_baseline_fail_loudly() -> None:
    with pytest.raises(ZeroDivisionError):
        stats.ratios([1.0], [0.0])
    assert math.isfinite(stats.ratios([1.0], [1e-6])[0])


def test_processor_time_and_peak_memory_are_read_of_a_process() -> None:
    before, begun = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - begun < 0.1:
        pass
    assert 0.05 <= cpu_seconds(os.getpid()) - before <= 0.5
    assert peak_rss_bytes(os.getpid()) > 1 << 20
    assert rss_bytes(os.getpid()) > 1 << 20
