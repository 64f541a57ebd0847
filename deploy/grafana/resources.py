"""The panels of a process's resources, and of versions and settings."""

from __future__ import annotations

from deploy.grafana.panels import Panel, lines, stat, table
from deploy.grafana.queries import TARGETS, own, quantile, rate, series

LABELS_THAT_SAY_NOTHING = ("job", "container", "endpoint", "namespace")


def waiting(wait: str) -> str:
    """How many requests wait for this."""
    matcher = f'wait="{wait}"'
    return f"sum({own('requests_waiting', matcher)})"


def resources() -> tuple[Panel, ...]:
    """How much of each resource is in use, and what waits for it."""
    return (*_machine(), *_room(), *_connections())


def _machine() -> tuple[Panel, ...]:
    alone = series("process_resident_memory_bytes")
    return (
        lines(
            "CPU",
            "Cores in use. Not shown with several workers.",
            "short",
            {"{{instance}}": f"rate({series('process_cpu_seconds_total')}[$__rate_interval])"},
        ),
        lines(
            "Memory",
            "Resident, of all workers together, and the limit (0: none). At 80 % searches pass through.",
            "bytes",
            {
                "{{instance}}": f"sum by (instance) ({own('process_resident_memory_bytes')}) or sum by (instance) ({alone})",
                "limit {{instance}}": f"sum by (instance) ({own('memory_limit_bytes')})",
            },
        ),
        lines(
            "Event loop lag, p99",
            "How late the loop wakes: every request in that process waits this long.",
            "s",
            {"{{instance}}": quantile(0.99, "event_loop_lag_seconds", by="instance")},
        ),
    )


def _room() -> tuple[Panel, ...]:
    return (
        lines(
            "In flight",
            "Requests and searches in progress, with their limits, and requests that wait for room.",
            "none",
            {
                "{{kind}}": f"sum by (kind) ({own('in_flight')})",
                "{{kind}}, limit": f"sum by (kind) ({own('in_flight_limit')})",
                "waiting": waiting("admission"),
            },
        ),
        lines(
            "Held for selection",
            "Bytes of requests and replies that selection holds, and their limit; above it searches pass through.",
            "bytes",
            {
                "held": f"sum({own('selection_bytes_in_flight')})",
                "limit": f"sum({own('selection_bytes_in_flight_limit')})",
            },
        ),
        lines(
            "Garbage collections",
            "Per second and generation. Not shown with several workers.",
            "cps",
            {
                "{{generation}}": f"sum by (generation) (rate(python_gc_collections_total{{{TARGETS}}}[$__rate_interval]))"
            },
        ),
    )


def _connections() -> tuple[Panel, ...]:
    return (
        lines(
            "Client connections and descriptors",
            "Open client connections with their limit, and all file descriptors (not shown with several workers).",
            "none",
            {
                "connections": f"sum({own('connections')})",
                "connections, limit": f"sum({own('connections_limit')})",
                "descriptors": f"sum({series('process_open_fds')})",
            },
        ),
        lines(
            "Connections to the database",
            "busy and idle: over HTTP; shared: over gRPC. waiting: requests over HTTP without a free connection.",
            "none",
            {
                "{{state}}": f"sum by (state) ({own('upstream_connections')})",
                "waiting": waiting("connection"),
            },
        ),
        lines(
            "Connections opened to the database",
            "Over HTTP. Many per second mean that the database closes them, or that the pool does not keep them long enough.",
            "cps",
            {"opened": rate("upstream_connections_opened_total")},
        ),
    )


def running() -> tuple[Panel, ...]:
    """Versions, settings, and their problems."""
    return (
        table("Versions", "Versions by instance.", own("build_info"), hidden=LABELS_THAT_SAY_NOTHING, width=9),
        table(
            "Settings",
            "The hash differs if the settings do. /status on the admin port shows it too.",
            own("config_info"),
            hidden=LABELS_THAT_SAY_NOTHING,
            width=9,
        ),
        stat(
            "Reloads refused",
            "Instances that keep old settings because the new ones were refused.",
            "none",
            f"count({own('config_last_reload_successful')}) - sum({own('config_last_reload_successful')})",
            warn=1,
        ),
        stat(
            "Log lines dropped",
            "Lines per second that were lost because standard output blocked or failed.",
            "cps",
            rate("telemetry_dropped_total", 'kind="log"'),
            warn=0.001,
        ),
    )
