"""Stories for every alert: what Prometheus would have scraped, minute by minute, and whether the alert must fire.

Values are written as promtool reads them: `0+60x10` begins at 0 and grows by 60 a minute, ten times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

A = 'job="proxy",instance="a"'
B = 'job="proxy",instance="b"'
REQUESTS = {f"vecsieve_requests_total{{{A}}}": "0+6000x600"}  # 100 a second
BUILT = {f"vecsieve_build_info{{{A}}}": "1x600"}


@dataclass(frozen=True, slots=True)
class Story:
    """``series``: name with labels -> values. ``minute``: when the alert is looked at."""

    alert: str
    messages: str
    fires: bool
    minute: int
    series: Mapping[str, str]


def _series(name: str, values: str, where: str = A, **labels: str) -> dict[str, str]:
    inside = ",".join([where, *(f'{label}="{value}"' for label, value in labels.items())])
    return {f"{name}{{{inside}}}": values}


def _errors(per_minute: int, kind: str = "internal") -> dict[str, str]:
    return REQUESTS | _series("vecsieve_local_errors_total", f"0+{per_minute}x600", kind=kind)


def _fail_open(plain: int, *, of: int, bypassed: int = 0) -> dict[str, str]:
    return (
        _series("vecsieve_fail_open_total", f"0+{plain}x30", reason="malformed")
        | _series("vecsieve_searches_total", f"0+{plain}x30", outcome="fail_open")
        | _series("vecsieve_searches_total", f"0+{of - plain}x30", outcome="dedup")
        | _series("vecsieve_searches_total", f"0+{bypassed}x30", outcome="bypass")
    )


def _histogram(name: str, below: Mapping[str, int], **labels: str) -> dict[str, str]:
    """``below``: bound -> observations a minute up to it; the last bound is +Inf."""
    series: dict[str, str] = {}
    for bound, rate in below.items():
        series |= _series(f"{name}_bucket", f"0+{rate}x60", le=bound, **labels)
    return series | _series(f"{name}_count", f"0+{below['+Inf']}x60", **labels)


def _added(fast: int) -> dict[str, str]:
    return _histogram("vecsieve_added_latency_seconds", {"0.025": fast, "0.05": 100, "+Inf": 100}, operation="query")


def _memory(resident: int, limit: int) -> dict[str, str]:
    return _series("process_resident_memory_bytes", f"{resident}x10") | _series(
        "vecsieve_memory_limit_bytes", f"{limit}x10"
    )


def _effect(collapsed: int, searches: int) -> dict[str, str]:
    return _series("vecsieve_candidates_collapsed_total", f"0+{collapsed}x500", reason="vectors") | _series(
        "vecsieve_searches_total", f"0+{searches}x500", outcome="dedup"
    )


def _pools(exhausted: int) -> dict[str, str]:
    return _series("vecsieve_pool_exhausted_total", f"0+{exhausted}x200") | _series(
        "vecsieve_candidates_count", "0+60x200"
    )


def _hashes(first: str, second: str, *, workloads: tuple[str, str] = ("shop", "shop")) -> dict[str, str]:
    one, other = workloads
    return _series("vecsieve_config_info", first, hash="aaaa", workload=one) | _series(
        "vecsieve_config_info", second, where=B, hash="bbbb", workload=other
    )


_NEVER_SEEN = _series("up", "0x10")
_LAG = "vecsieve_event_loop_lag_seconds"

STORIES = (
    Story(
        "VecSieveDown",
        "it answered, then it did not",
        True,
        9,
        _series("vecsieve_build_info", "1x4 stale") | _series("up", "1x4 0x10"),
    ),
    Story("VecSieveDown", "a target that never was one of ours is down", False, 9, _NEVER_SEEN),
    Story("VecSieveDown", "one scrape was missed", False, 9, BUILT | _series("up", "1x4 0 1x10")),
    Story("VecSieveErrorBudgetBurnFast", "one request in a hundred fails", True, 30, _errors(60)),
    Story("VecSieveErrorBudgetBurnFast", "six in a thousand are too slow a burn", False, 30, _errors(36)),
    Story("VecSieveErrorBudgetBurnFast", "the database is away", False, 30, _errors(6000, "no_upstream")),
    Story("VecSieveErrorBudgetBurnSlow", "four in a thousand fail for an hour", True, 60, _errors(24)),
    Story("VecSieveErrorBudgetBurnSlow", "two in a thousand fail", False, 60, _errors(12, "shed")),
    Story("VecSieveDatabaseUnreachable", "a tenth finds no database", True, 10, _errors(600, "no_upstream")),
    Story("VecSieveDatabaseUnreachable", "three in a hundred find none", False, 10, _errors(180, "no_upstream")),
    Story("VecSieveRequestsRefused", "a scanner asks every five seconds", True, 40, _errors(12, "bad_request")),
    Story("VecSieveRequestsRefused", "somebody mistypes now and then", False, 40, _errors(3, "bad_request")),
    Story("VecSieveFailOpenHigh", "a tenth is answered plainly", True, 20, _fail_open(600, of=6000)),
    Story("VecSieveFailOpenHigh", "three in a hundred are", False, 20, _fail_open(180, of=6000)),
    Story("VecSieveFailOpenHigh", "all pass through on purpose", False, 20, _fail_open(0, of=0, bypassed=6000)),
    Story("VecSieveBreakerOpen", "it stays open", True, 8, _series("vecsieve_breaker_state", "1x10", state="open")),
    Story(
        "VecSieveBreakerOpen",
        "it closes again",
        False,
        6,
        _series("vecsieve_breaker_state", "0x3 1x2 0x9", state="open"),
    ),
    Story(
        "VecSieveBreakerOpen",
        "it probes in between, in vain",
        True,
        8,
        _series("vecsieve_breaker_state", "1x3 0 1x10", state="open")
        | _series("vecsieve_breaker_state", "0x3 1 0x10", state="probing"),
    ),
    Story("VecSieveBreakerOpen", "it is closed", False, 8, _series("vecsieve_breaker_state", "1x10", state="closed")),
    Story("VecSieveCanaryStopped", "it was slow", True, 2, _series("vecsieve_canary_state", "0x1 1x9", state="slow")),
    Story("VecSieveCanaryStopped", "it is on", False, 8, _series("vecsieve_canary_state", "1x10", state="on")),
    Story(
        "VecSieveCanaryStopped",
        "a reload starts it",
        False,
        8,
        _series("vecsieve_canary_state", "1x3 0x9", state="slow"),
    ),
    Story("VecSieveDedupNoEffect", "hours of searches, no duplicate", True, 420, _effect(0, 10)),
    Story("VecSieveDedupNoEffect", "some were found", False, 420, _effect(1, 10)),
    Story("VecSieveDedupNoEffect", "too few searches to tell", False, 420, _effect(0, 1)),
    Story("VecSievePoolsExhausted", "half of the pools hold too little", True, 130, _pools(30)),
    Story("VecSievePoolsExhausted", "a sixth does", False, 130, _pools(10)),
    Story(
        "VecSieveProfileUntrusted",
        "a model was changed",
        True,
        15,
        _series("vecsieve_profile_failures_total", "0x9 1x20", kind="distances"),
    ),
    Story(
        "VecSieveProfileUntrusted",
        "a profile cannot be read",
        True,
        15,
        _series("vecsieve_profile_failures_total", "0x9 1x20", kind="unreadable"),
    ),
    Story(
        "VecSieveProfileUntrusted",
        "it was long ago",
        False,
        80,
        _series("vecsieve_profile_failures_total", "0x3 1x90", kind="distances"),
    ),
    Story(
        "VecSieveEgressBudgetSpent",
        "nothing remains",
        True,
        8,
        _series("vecsieve_egress_budget_remaining_bytes", "9 0x10"),
    ),
    Story(
        "VecSieveEgressBudgetSpent",
        "there is no budget",
        False,
        8,
        _series("vecsieve_egress_budget_remaining_bytes", "Inf Inf Inf Inf Inf Inf Inf Inf Inf"),
    ),
    Story("VecSieveAddedLatencyHigh", "a tenth waits longer than 25 ms", True, 20, _added(90)),
    Story("VecSieveAddedLatencyHigh", "nobody does", False, 20, _added(100)),
    Story(
        "VecSieveShedding",
        "requests are refused all the time",
        True,
        12,
        _series("vecsieve_requests_shed_total", "0+6x20", reason="in_flight"),
    ),
    Story(
        "VecSieveShedding",
        "one burst was refused",
        False,
        11,
        _series("vecsieve_requests_shed_total", "0x5 6x20", reason="memory"),
    ),
    Story(
        "VecSieveConnectionsRejected",
        "there are too many connections",
        True,
        16,
        _series("vecsieve_connections_rejected_total", "0+6x30", reason="limit"),
    ),
    Story(
        "VecSieveConnectionsRejected",
        "slow heads are ended, as they should be",
        False,
        16,
        _series("vecsieve_connections_rejected_total", "0+6x30", reason="head_timeout"),
    ),
    Story(
        "VecSieveUpstreamPoolFull",
        "there is always one that waits",
        True,
        12,
        _series("vecsieve_requests_waiting", "0x3 2 1 7 1x20", wait="connection"),
    ),
    Story(
        "VecSieveUpstreamPoolFull",
        "some wait now and then",
        False,
        12,
        _series("vecsieve_requests_waiting", "9 0 9 9 9 0 9 9 9 0 9 9 0 9 9 9 0 9", wait="connection"),
    ),
    Story(
        "VecSieveEventLoopBlocked",
        "a sixth of the wake-ups is late",
        True,
        20,
        _histogram(_LAG, {"0.25": 500, "0.5": 600, "+Inf": 600}),
    ),
    Story(
        "VecSieveEventLoopBlocked",
        "all are in time",
        False,
        20,
        _histogram(_LAG, {"0.25": 600, "0.5": 600, "+Inf": 600}),
    ),
    Story("VecSieveMemoryHigh", "nine tenths are held", True, 8, BUILT | _memory(900, 1000)),
    Story("VecSieveMemoryHigh", "seven tenths are held", False, 8, BUILT | _memory(700, 1000)),
    Story("VecSieveMemoryHigh", "there is no limit", False, 8, BUILT | _memory(900, 0)),
    Story(
        "VecSieveMemoryHigh",
        "two workers hold nine tenths together",
        True,
        8,
        BUILT
        | _series("vecsieve_process_resident_memory_bytes", "500x10", worker="w0")
        | _series("vecsieve_process_resident_memory_bytes", "400x10", worker="w1")
        | _series("vecsieve_memory_limit_bytes", "1000x10"),
    ),
    Story(
        "VecSieveConfigReloadFailed",
        "new settings were refused",
        True,
        6,
        _series("vecsieve_config_last_reload_successful", "1x3 0x9"),
    ),
    Story(
        "VecSieveConfigReloadFailed",
        "all were taken",
        False,
        6,
        _series("vecsieve_config_last_reload_successful", "1x9"),
    ),
    Story("VecSieveSettingsDiffer", "a rollout stopped half-way", True, 40, _hashes("1x60", "1x60")),
    Story("VecSieveSettingsDiffer", "a rollout took ten minutes", False, 40, _hashes("1x10 stale", "1x60")),
    Story(
        "VecSieveSettingsDiffer",
        "two applications have settings of their own",
        False,
        40,
        _hashes("1x60", "1x60", workloads=("shop", "search")),
    ),
    Story(
        "VecSieveLogLinesDropped",
        "the reader stalls",
        True,
        25,
        _series("vecsieve_telemetry_dropped_total", "0+1x40", kind="log"),
    ),
    Story(
        "VecSieveLogLinesDropped",
        "it stalled once",
        False,
        25,
        _series("vecsieve_telemetry_dropped_total", "0x5 3x35", kind="log"),
    ),
)
