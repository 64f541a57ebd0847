"""The page's files: all there, nothing from elsewhere, and colours that can be read in light and dark."""

from __future__ import annotations

import re

import pytest

from vecsieve.proxy.admin.server import page_file

STYLE = (page_file("/static/style.css") or (b"", ""))[0].decode()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)
SURFACES = ("page", "card", "soft", "gone-soft", "new-soft", "warn-soft")
# A colour of words, and what it is written on.
PAIRS = [
    *(("ink", surface) for surface in SURFACES),
    *(("quiet", surface) for surface in SURFACES),
    *(("accent", surface) for surface in ("page", "card", "soft")),
    *((word, surface) for word in ("gone", "new", "warn") for surface in ("card", f"{word}-soft")),
]


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(digit * 2 for digit in digits)
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_word_has_the_contrast_that_wcag_asks_for(colours: dict[str, str]) -> None:
    for word, surface in PAIRS:
        dark, light = sorted((luminance(colours[word]), luminance(colours[surface])))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (word, surface)


def test_every_file_that_the_page_names_is_served_with_its_type() -> None:
    document, kind = page_file("/") or (b"", "")
    assert kind == "text/html; charset=utf-8"
    named = re.findall(rb'(?:src|href)="(/static/[^"]+)"', document)
    scripts = [page_file(f"/static/{name}") for name in ("app.js", "views.js", "whatif.js")]
    imported = {name for script in scripts if script for name in re.findall(rb'from "\./([^"]+)"', script[0])}
    assert len(named) >= 4
    for path in [*named, *(b"/static/" + name for name in imported)]:
        assert page_file(path.decode()) is not None, path


@pytest.mark.parametrize(
    "path", ["/static/", "/static/../server.py", "/static/vendor/README.md", "/index.html", "/static//app.js"]
)
def test_no_other_file_is(path: str) -> None:
    assert page_file(path) is None


def test_no_script_or_style_names_another_host() -> None:
    for name in ("app.js", "views.js", "whatif.js", "style.css"):
        content, _ = page_file(f"/static/{name}") or (b"", "")
        assert content
        assert re.findall(rb"https?://|@import|eval\(|innerHTML", content) == []
