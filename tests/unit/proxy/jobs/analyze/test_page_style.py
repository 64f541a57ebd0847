"""The page can be read in the light, in the dark and on paper: every class is styled, every colour stands out enough."""

from __future__ import annotations

import re

import pytest

from support.analyzed import report
from vecsieve.proxy.jobs.analyze.page import STYLE, page

# WCAG 2.2, level AA: 4.5 to 1 for text, 3 to 1 for the parts of a picture that must be told apart.
TEXT, PICTURE = 4.5, 3.0
BLOCKS = re.compile(r":root \{([^}]*)\}")
COLOUR = re.compile(r"--([a-z]+): (#[0-9a-f]{3,6})\b")


def themes() -> list[dict[str, str]]:
    """Light, dark and paper; what a theme does not say it has from the light one."""
    light, dark, paper = (dict(COLOUR.findall(block)) for block in BLOCKS.findall(STYLE))
    return [light, {**light, **dark}, {**light, **paper}]


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rgb or #rrggbb."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255.0 for at in (0, 2, 4)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_is_wcags() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark", "paper"])
def test_text_and_pictures_stand_out(theme: int) -> None:
    colours = themes()[theme]
    for ground in ("paper", "panel"):
        for ink in ("ink", "soft"):
            assert contrast(colours[ink], colours[ground]) >= TEXT, (ink, ground)
    for line in ("one", "two"):
        assert contrast(colours[line], colours["paper"]) >= PICTURE, line


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark", "paper"])
def test_the_darkest_cell_of_the_heat_table_can_still_be_read(theme: int) -> None:
    colours = themes()[theme]
    strongest = re.search(r"calc\(var\(--share\) \* (\d+)%\)", STYLE)
    assert strongest is not None
    part = int(strongest[1]) / 100.0

    def mixed(one: str, other: str) -> str:
        pairs = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
        return "#" + "".join(f"{round(part * left + (1 - part) * right):02x}" for left, right in pairs)

    paper, ink = (colours[name] if len(colours[name]) == 7 else f"#{colours[name][1] * 6}" for name in ("paper", "ink"))
    assert contrast(ink, mixed(colours["one"], paper)) >= TEXT


def test_every_class_of_the_page_is_styled() -> None:
    used = {name for names in re.findall(r'class="([^"]*)"', page(report())) for name in names.split()}
    styled = set(re.findall(r"\.([a-z][a-z0-9]*)", STYLE))
    assert used - {"start"} <= styled  # `start` is where SVG text begins by itself
