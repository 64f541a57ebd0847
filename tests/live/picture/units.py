"""Numbers as a panel's unit writes them, short."""

from __future__ import annotations

_SECONDS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))
_BYTES = ((1024.0**3, "GiB", 1024.0**-3), (1024.0**2, "MiB", 1024.0**-2), (1024.0, "KiB", 1 / 1024.0), (0.0, "B", 1.0))
_PLAIN = ((1e6, "M", 1e-6), (1e3, "k", 1e-3), (0.0, "", 1.0))
_SCALES = {"s": _SECONDS, "bytes": _BYTES, "Bps": _BYTES}
_PER_SECOND = {"reqps": "/s", "cps": "/s", "Bps": "/s"}


def written(value: float, unit: str) -> str:
    """The value with its unit, in three digits."""
    if unit == "percentunit":
        return f"{_digits(value * 100)} %"
    if value == 0:
        return "0"
    _, name, factor = next(scale for scale in _SCALES.get(unit, _PLAIN) if abs(value) >= scale[0])
    return f"{_digits(value * factor)} {name}{_PER_SECOND.get(unit, '')}".rstrip()


def _digits(value: float) -> str:
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e" in text else text
