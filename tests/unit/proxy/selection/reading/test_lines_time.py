"""No line takes the patterns of the reader more than linear time: a pattern holds the interpreter, and all clients with it."""

from __future__ import annotations

import time

import pytest

from vecsieve.proxy.selection.reading.text import read

SIZE = 16_000
MOST_SECONDS = 0.3  # of the thread; 0.02 here, while the worst took minutes
BLANKS = " " * SIZE

COSTLY = (
    f"x{BLANKS}y\nz",
    f"a\nx{BLANKS}y",
    f"a\nf(){BLANKS}x=",
    f"a\n{BLANKS}=",
    f"f(){BLANKS}x",
    "x" + "\t " * (SIZE // 2) + "y\nb",
    ("|" + " " * 20) * (SIZE // 21) + "x\ny",
    f"a-{BLANKS}x\nb",
    f"a:{BLANKS}x\na: b\n  c: d",
    f"# x{BLANKS}#x",
    "# " + "#" * SIZE + "x",
    '{"a":1}' * (SIZE // 7),
    '{"a":1}' * (SIZE // 7) + "x",
    "{" + '" :' * (SIZE // 3),
    "x" * SIZE + ";",
    "한[x](y)" * (SIZE // 7),
    "[" + "       \n" * 1_990,
    "1," * (SIZE // 2) + "1ー",
    ("1," * 450 + "1x ") * (SIZE // 900),
)


@pytest.mark.parametrize("text", COSTLY, ids=range(len(COSTLY)))
def test_a_line_is_read_in_linear_time(text: str) -> None:
    started = time.thread_time()
    read(text)
    assert time.thread_time() - started < MOST_SECONDS


@pytest.mark.parametrize(
    ("row", "rest"),
    [
        ("Annual report   page 7", "Annual report"),
        ("Annual report | Page 7 of 9 ", "Annual report"),
        ("   Seite 3", ""),
        ("Annual report - page 7 -", "Annual report"),
        ("Annual report page 7", "Annual report page 7"),
        ("- 12 -", ""),
    ],
)
def test_page_numbers_are_found_as_before(row: str, rest: str) -> None:
    words = "The words of the page " * 6
    assert read(f"{row}\n{words}")[0].tokens == read(f"{rest}\n{words}")[0].tokens


@pytest.mark.parametrize("heading", ["# The title", "# The title #", "## The title ###", "# The title   ##"])
def test_marks_around_a_heading_say_nothing(heading: str) -> None:
    assert read(f"{heading}\n\nIts words")[0].tokens == read("The title\n\nIts words")[0].tokens


@pytest.mark.parametrize("text", ["# PermitRootLogin yes", "# RUN make\nRUN make test"])
def test_one_mark_before_a_line_makes_it_a_comment(text: str) -> None:
    assert read(text)[0].tokens != read(text.removeprefix("# "))[0].tokens
