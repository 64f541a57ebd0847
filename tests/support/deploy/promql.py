"""What an expression names, held against the declared metrics: metrics, their labels, and the values its matchers ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vecsieve.proxy.telemetry.instruments import PREFIX, AnySpec, HistogramSpec
from vecsieve.proxy.telemetry.metrics import Metrics

# What Prometheus adds to every series, and what a histogram adds to its buckets.
# As the scrape adds them; `workload` by the PodMonitor.
TARGET_LABELS = frozenset({"job", "instance", "namespace", "workload"})
OF_LIBRARIES = re.compile(r"(up|process_\w+|python_gc_\w+|python_info)$")

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_SELECTOR = re.compile(r"(?<![\w:$])([a-zA-Z_][\w:]*)\s*(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_WORDS = frozenset({"by", "without", "on", "ignoring", "and", "or", "unless", "bool", "offset", "inf", "nan"})


def selectors(expression: str) -> Iterator[tuple[str, str]]:
    """Every metric with the text of its matchers; functions, keywords, groupings and durations are none."""
    bare = _GROUPING.sub(" ", expression)
    strings = _STRING.sub(lambda match: '"' + "x" * (len(match[0]) - 2) + '"', bare)
    for match in _SELECTOR.finditer(strings):
        after = strings[match.end(1) :].lstrip()
        is_inside = strings.rfind("{", 0, match.start()) > strings.rfind("}", 0, match.start())
        is_duration = strings.rfind("[", 0, match.start()) > strings.rfind("]", 0, match.start())
        is_number = match.start() > 0 and strings[match.start() - 1].isdigit()
        if is_inside or is_duration or is_number or after.startswith("(") or match[1].lower() in _WORDS:
            continue
        yield match[1], "" if match[2] is None else bare[match.start(2) : match.end(2)]


def grouped_labels(expression: str) -> set[str]:
    """The labels that aggregations and matchings name."""
    return {name.strip() for match in _GROUPING.finditer(expression) for name in match[1].split(",") if name.strip()}


def unknown(expression: str, recorded: frozenset[str] = frozenset()) -> list[str]:
    """What an expression asks for that no scrape can have. ``recorded``: names that recording rules make."""
    return [fault for name, matchers in selectors(expression) for fault in _faults(name, matchers, recorded)]


def _faults(name: str, matchers: str, recorded: frozenset[str]) -> list[str]:
    if name in recorded or OF_LIBRARIES.match(name):
        return []
    spec = spec_of(name)
    if spec is None:
        return [f"{name}: not declared"]
    labels = {label.name: label.values for label in spec.labels}
    wrong: list[str] = []
    for label, operator, value in _MATCHER.findall(matchers):
        if label in TARGET_LABELS or (label == "le" and isinstance(spec, HistogramSpec)) or value.startswith("$"):
            continue
        values = value.split("|") if operator in {"=~", "!~"} else [value]
        if label not in labels:
            wrong.append(f"{name}: has no label {label}")
        wrong += [f"{name}: {label} is never {one}" for one in values if labels.get(label) and one not in labels[label]]
    return wrong


def spec_of(name: str) -> AnySpec | None:
    """The declaration of a series' name, a histogram's parts included."""
    short = name.removeprefix(PREFIX)
    for spec in Metrics.declared():
        parts = [f"{spec.name}_{part}" for part in ("bucket", "sum", "count")]
        if short in (parts if isinstance(spec, HistogramSpec) else [spec.name]) and name.startswith(PREFIX):
            return spec
    return None
