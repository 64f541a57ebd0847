"""Numbers as people read them."""

from __future__ import annotations

import pytest

from deploy.grafana.picture.units import written


@pytest.mark.parametrize(
    ("value", "unit", "wanted"),
    [
        (0.0, "reqps", "0"),
        (0.0, "percentunit", "0 %"),
        (0.1234, "percentunit", "12.3 %"),
        (0.0000834, "s", "83.4 µs"),
        (0.00125, "s", "1.25 ms"),
        (2.5, "s", "2.5 s"),
        (123456.0, "s", "123000 s"),
        (512.0, "bytes", "512 B"),
        (91_234_567.0, "bytes", "87 MiB"),
        (2048.0, "Bps", "2 KiB/s"),
        (1234.0, "short", "1.23 k"),
        (33.333, "reqps", "33.3 /s"),
        (-4.0, "none", "-4"),
    ],
)
def test_a_number_is_written_in_three_digits_with_its_unit(value: float, unit: str, wanted: str) -> None:
    assert written(value, unit) == wanted
