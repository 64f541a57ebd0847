"""The picture in README: the demo's table of one question, as SVG, without a font or an address of another host.

`python -m support.jobs.demo_picture` writes docs/images/before-after.svg; PYTHONPATH=tests:. as for the other pictures.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[3] / "docs" / "images" / "before-after.svg"
QUESTION = "20"
WIDTH = 100
FONT_FACE = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def demo_output(question: str) -> str:
    """The demo's output up to the table's end, with its colours."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "vecsieve.proxy", "demo", "--query", question]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if "Question" in line)
    last = next(number for number, line in enumerate(lines) if "╰" in line)
    return "\n".join(lines[first : last + 1])


def drawn(output: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(output))
    svg = console.export_svg(title="vecsieve demo", theme=DIMMED_MONOKAI, unique_id="demo")
    return "\n".join(line.rstrip() for line in FONT_FACE.sub("", svg).splitlines()) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(demo_output(QUESTION)), encoding="utf-8")
