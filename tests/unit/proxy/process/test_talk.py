"""The banner, the text log and the closing summary say what happened, in plain words and without escapes of a terminal."""

from __future__ import annotations

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.network.ports import free_ports
from vecsieve.config.schema import Settings, UpstreamSettings
from vecsieve.proxy.process.talk import TextLines, advised, as_text, banner, fault_of, policy_of, summary
from vecsieve.proxy.telemetry.labels import Bypass, Collapse, Origin, Outcome
from vecsieve.proxy.telemetry.log import encode
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Figures, Report


def report(outcome: Outcome, *, collapsed: int = 0, bypass: Bypass | None = None) -> Report:
    row = Figures(
        candidates=40,
        clusters=40 - collapsed,
        returned=8,
        repeats=2,
        collapsed=collapsed,
        collapsed_by=((next(iter(Collapse)), collapsed),) if collapsed else (),
        capped=0,
        over_budget=0,
        earlier=0,
        filled=0,
        short=0,
        unusable=0,
        restrained=False,
        exhausted=False,
        score_loss=0.0,
        changed=collapsed > 0,
        proven=collapsed // 4,
        judged=1 if collapsed else 0,
        saved_tokens=100 * collapsed,
    )
    return Report(
        backend="qdrant",
        operation="query",
        outcome=outcome,
        total_seconds=0.0103,
        upstream_seconds=0.01,
        added_seconds=0.0003,
        bypass=bypass,
        figures=() if bypass else (row,),
    )


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, backend="qdrant")


def test_without_a_search_the_summary_asks_for_the_address(registry: CollectorRegistry, metrics: Metrics) -> None:
    assert metrics.backend == "qdrant"
    assert summary(registry) == "No search arrived. Does the client use the address of VecSieve?"


def test_requests_without_a_search_are_no_client_that_is_missing(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.requests_total.labels("other", Outcome.PASSTHROUGH).inc(3)
    assert summary(registry).startswith("No search arrived, but 3 other requests. Is the backend right (--backend)")


def test_a_process_for_writes_alone_asks_nothing(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.requests_total.labels("other", Outcome.PASSTHROUGH).inc(3)
    metrics.writes_total.labels("judged").inc(3)
    metrics.write_copies_total.inc(2)
    assert summary(registry) == "No search arrived. The write gate compared 3 writes, with 2 copies."


def test_the_summary_counts_changed_answers_replaced_results_and_the_added_time(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    for collapsed in (12, 8, 0, 0):
        metrics.search_done(report(Outcome.DEDUP, collapsed=collapsed))
    assert summary(registry) == (
        "4 searches, 2 answers changed, 7 repeats replaced (5 proven, 2 judged), about 2,000 tokens saved, p50 +0.2 ms."
    )


def test_what_was_answered_plainly_is_told_with_its_commonest_reason(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.search_done(report(Outcome.DEDUP, collapsed=8))
    for reason in (Bypass.TOO_LARGE, Bypass.ENCODING, Bypass.TOO_LARGE):
        metrics.search_done(report(Outcome.BYPASS, bypass=reason))
    assert summary(registry).endswith(", 3 answered plainly (most often too_large).")


@pytest.mark.parametrize(("count", "words"), [(1, "1 request got an error"), (30, "30 requests got an error")])
def test_errors_are_no_plain_answers(registry: CollectorRegistry, metrics: Metrics, count: int, words: str) -> None:
    """As while the database was down: the summary named those answers plain, and no error."""
    metrics.search_done(report(Outcome.SHADOW))
    for status in (200, 404, *[502] * count):
        metrics.request_done("query", Outcome.BYPASS, status=status, origin=Origin.PROXY, seconds=0.1)
    assert summary(registry) == f"1 search, {words} (5xx). None was measured since a policy changed."


def test_shadow_ends_with_its_verdict_and_counts_no_answer_as_changed(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.search_done(report(Outcome.SHADOW, collapsed=10))
    assert summary(registry, "Go: now.") == "1 search. Go: now."


def test_shadow_that_measured_nothing_says_so(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.search_done(report(Outcome.BYPASS, bypass=Bypass.SHADOW_NOT_SAMPLED))
    assert summary(registry) == "1 search. None was measured; shadow.sample sets the share."


def test_shadow_does_not_deny_what_it_measured_before_a_reload(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.search_done(report(Outcome.SHADOW, collapsed=10))
    metrics.search_done(report(Outcome.BYPASS, bypass=Bypass.SHADOW_NOT_SAMPLED))
    assert summary(registry) == "2 searches. None was measured since a policy changed."


@pytest.mark.parametrize(("mode", "words"), [("on", "x-vecsieve"), ("shadow", "Ctrl-C"), ("off", "--mode shadow")])
def test_the_banner_says_what_runs_and_what_to_do_next(mode: str, words: str) -> None:
    settings = Settings.model_validate({"mode": mode, "upstream": {"url": "http://db:6333"}})
    output = "\n".join(
        banner(settings, version="1.2", admin="http://a:1", resident_bytes=80 << 20, limit_bytes=512 << 20)
    )
    assert output.startswith(f"VecSieve 1.2, mode {mode}, backend qdrant\n")
    for part in ("http://db:6333", "80 MiB, limit 512 MiB", "http://a:1/ ", "every collection", words):
        assert part in output


def test_the_banner_of_a_canary_does_not_say_that_every_answer_is_the_databases_own() -> None:
    settings = Settings.model_validate({"policy": {"mode": "shadow"}, "canary": {"share": 0.1}})
    output = "\n".join(banner(settings, version="1.2", admin="http://a:1", resident_bytes=0, limit_bytes=None))
    assert output.startswith("VecSieve 1.2, mode shadow with a canary, backend qdrant\n")
    assert "Answers of the canary" in output


def test_the_policy_is_told_by_its_rules() -> None:
    rules = [{"collection": f"c{n}", "preset": "classical"} for n in range(3)] + [
        {"collection": f"d{n}", "policy": {"mode": "off"}} for n in range(3)
    ]
    settings = Settings.model_validate({"rules": tuple(rules)})
    assert policy_of(settings) == (
        "c0: classical, c1: classical, c2: classical, d0: own policy, 2 more rules, others: the default"
    )


async def test_a_database_that_takes_connections_has_no_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        assert await fault_of(UpstreamSettings(url=f"http://127.0.0.1:{there.getsockname()[1]}")) is None


async def test_a_database_that_takes_none_is_named_with_the_reason() -> None:
    (port,) = free_ports(1)
    words = f"VecSieve cannot reach the database at 127.0.0.1:{port}: connection refused"
    assert await fault_of(UpstreamSettings(url=f"http://127.0.0.1:{port}")) == words


async def test_a_handshake_that_never_comes_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        fault = await fault_of(UpstreamSettings(url=f"https://{address}"), seconds=0.1)
    assert fault == f"the database at {address} did not answer in time"


def test_an_access_line_is_short_and_ends_with_the_cause() -> None:
    line = encode(
        {
            "ts": "2026-11-22T20:31:07.123Z",
            "level": "warning",
            "msg": "access",
            "request_id": "abc",
            "method": "POST",
            "operation": "query",
            "backend": "qdrant",
            "status": 502,
            "origin": "proxy",
            "outcome": "passthrough",
            "duration_ms": 3.1,
            "request_bytes": 5,
            "cause": "VecSieve cannot reach the database at db:1: connection refused",
        }
    )
    assert as_text(line) == (
        b"20:31:07 warning POST query 502 passthrough 3.1 ms: "
        b"VecSieve cannot reach the database at db:1: connection refused\n"
    )


def test_other_lines_keep_their_fields() -> None:
    line = encode({"ts": "2026-11-22T20:31:07.123Z", "level": "info", "logger": "x", "msg": "reloaded", "hash": "ab"})
    assert as_text(line) == b"20:31:07 reloaded hash=ab\n"


@given(
    st.dictionaries(
        st.just("msg") | st.text(max_size=20), st.text(st.characters(exclude_categories=()), max_size=80), max_size=6
    )
)
def test_any_line_becomes_printable_ascii_and_further_lines_of_it_are_indented(fields: dict[str, str]) -> None:
    """Invariant: nothing that a terminal would obey, and nothing that looks like another line of the log."""
    first, *further = as_text(encode(fields)).removesuffix(b"\n").split(b"\n")
    assert len(further) == fields.get("msg", "").count("\n")
    assert all(line.startswith(b"  ") for line in further)
    assert all(32 <= byte < 127 for line in (first, *further) for byte in line)


def test_several_problems_of_settings_stand_in_lines_of_their_own_as_they_are_written() -> None:
    message = 'reload failed: a.yaml:1: mode: saw "shadwo"\na.yaml:3: upstream.url: saw "C:\\new"'
    assert as_text(encode({"ts": "2026-11-22T20:31:07.123Z", "level": "error", "msg": message})) == (
        b'20:31:07 error reload failed: a.yaml:1: mode: saw "shadwo"\n  a.yaml:3: upstream.url: saw "C:\\\\new"\n'
    )


def test_the_text_sink_writes_through_the_other_and_closes_it() -> None:
    class Kept:
        def __init__(self) -> None:
            self.lines: list[bytes] = []
            self.closed = False

        def put(self, line: bytes) -> None:
            self.lines.append(line)

        def close(self) -> None:
            self.closed = True

    kept = Kept()
    sink = TextLines(kept)
    sink.put(json.dumps({"ts": "2026-11-22T20:31:07Z", "level": "info", "msg": "m"}).encode())
    sink.close()
    assert (kept.lines, kept.closed) == ([b"20:31:07 m\n"], True)


def test_a_fault_that_asks_a_question_gets_no_second_one() -> None:
    assert advised("connection refused") == "connection refused. Is upstream.url right, and does the database run?"
    assert advised("is its URL http://…?") == "is its URL http://…?"
