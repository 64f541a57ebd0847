"""Read a Prometheus exposition back: families, samples, and the rules a linter would check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from support.process.stack import exchange
from vecsieve.proxy.telemetry.instruments import PREFIX

ABBREVIATED = ("_ms", "_us", "_sec", "_secs", "_milliseconds", "_kb", "_mb", "_mib", "_percent")


@dataclass(frozen=True, slots=True)
class Exposed:
    """One scrape, parsed."""

    text: str
    families: tuple[Metric, ...]

    @property
    def series(self) -> int:
        return sum(1 for line in self.text.splitlines() if line and not line.startswith("#"))

    def value(self, name: str, labels: Mapping[str, str] | None = None) -> float | None:
        expected = dict(labels or {})
        values = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and sample.labels == expected
        ]
        assert len(values) <= 1, f"{name}{expected} is exposed {len(values)} times"
        return values[0] if values else None

    def total(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def label_values(self, prefix: str) -> dict[str, set[str]]:
        values: dict[str, set[str]] = {}
        for family in self.families:
            for sample in family.samples if family.name.startswith(prefix) else ():
                for label, value in sample.labels.items():
                    values.setdefault(label, set()).add(value)
        return values


def exposed(scrape: bytes) -> Exposed:
    text = scrape.decode("utf-8")
    return Exposed(text, tuple(text_string_to_metric_families(text)))


def counted(admin: str, name: str, **labels: str) -> float:
    """What the process with this admin port exposes: the sum of the series with these labels, by the name without the prefix."""
    return exposed(exchange(admin, "GET", "/metrics").body).total(PREFIX + name, **labels)


def counts(admin: str, name: str, label: str) -> dict[str, float]:
    """The same by the values of a label."""
    scrape = exposed(exchange(admin, "GET", "/metrics").body)
    values = scrape.label_values(PREFIX + name.removesuffix("_total")).get(label, set())
    return {value: scrape.total(PREFIX + name, **{label: value}) for value in values}


def faults(scrape: bytes) -> list[str]:
    """What `promtool check metrics` finds fault with, for where it is not installed."""
    wrong: list[str] = []
    lines = scrape.decode("utf-8").splitlines()
    helped = {line.split(" ", 3)[2] for line in lines if line.startswith("# HELP ") and len(line.split(" ", 3)) == 4}
    types = {parts[2]: parts[3] for parts in (line.split(" ") for line in lines if line.startswith("# TYPE "))}
    for name, kind in types.items():
        if name not in helped:
            wrong.append(f"{name}: no help")
        if (kind == "counter") != name.endswith("_total"):
            wrong.append(f"{name}: a {kind} by this name")
        if name.endswith(("_count", "_sum", "_bucket", *ABBREVIATED)):
            wrong.append(f"{name}: ends like something else")
    named = {line.split("{", 1)[0].split(" ", 1)[0] for line in lines if line and not line.startswith("#")}
    suffixes = ("_bucket", "_sum", "_count")
    for name in sorted(named):
        bare = next((name.removesuffix(suffix) for suffix in suffixes if name.removesuffix(suffix) in types), name)
        if bare not in types:
            wrong.append(f"{name}: no type")
        if name.endswith("_created"):
            wrong.append(f"{name}: a creation time")
    return wrong


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """One sample of a registry, by its name without the prefix; 0 where there is none."""
    sample = registry.get_sample_value(PREFIX + name, labels)
    return 0.0 if sample is None else sample
