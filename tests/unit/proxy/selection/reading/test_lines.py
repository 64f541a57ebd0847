"""Lines: prose, code and rows of tables; where a sentence cannot go on; page numbers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from support.selection.judgements import leaves, tokens
from support.selection.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.lines import Kind, lines_of
from vecsieve.proxy.selection.reading.text import read


def kinds(text: str) -> list[Kind]:
    return [line.kind for line in lines_of(text)]


@pytest.mark.parametrize(
    "text",
    [
        "The pump runs all night, and nobody minds.",
        "Return the form to the office (see below).",
        "Note: the pump runs all night.",
        "If the pump stops, call the office; it is open.",
        "Warning! Do not open.",
        "    An indented line of prose is prose.",
        "Die Pumpe l\u00e4uft die ganze Nacht; niemand st\u00f6rt sich daran.",
        "\u041d\u0430\u0441\u043e\u0441 \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442 \u0432\u0441\u044e \u043d\u043e\u0447\u044c.",
        "\u6cf5\u6574\u591c\u8fd0\u884c\uff0c\u6ca1\u6709\u4eba\u4ecb\u610f\u3002",
    ],
)
def test_a_line_of_prose_has_no_layout(text: str) -> None:
    assert kinds(text) == [Kind.PROSE]


@pytest.mark.parametrize(
    "text",
    ["def f(x):", "x = f(y)", "if (a) {", "}", "SELECT a, b FROM t WHERE c = 1;", "$ make test", "#include <stdio.h>"],
)  # fmt: skip
def test_a_statement_is_code(text: str) -> None:
    assert kinds(text) == [Kind.CODE]


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("| a | b |", ("a", "b")),
        ("| a | | b |", ("a", "", "b")),
        ("a\tb\tc", ("a", "b", "c")),
        ("a;b;;c", ("a", "b", "", "c")),
        ("a,b,,c", ("a", "b", "", "c")),
    ],
)
def test_a_row_has_cells_and_empty_ones_count(text: str, cells: tuple[str, ...]) -> None:
    (line,) = lines_of(text)
    assert (line.kind, line.cells) == (Kind.ROW, cells)


LAID_OUT = {
    "a return inside and after the loop": (
        "def f(rows):\n    for row in rows:\n        g(row)\n        return row",
        "def f(rows):\n    for row in rows:\n        g(row)\n    return row",
    ),
    "a key one level deeper": ("server:\n  port: 80\n  tls:\n    on: true", "server:\n  port: 80\n  tls:\n  on: true"),
    "a cell one column further": ("| a | b | c |\n| 1 |   | 2 |", "| a | b | c |\n| 1 | 2 |   |"),
    "brackets": ("x = (a + b) * c", "x = a + (b * c)"),
    "quotes": ("x = 'a' + b", "x = a + 'b'"),
    "empty values": ("name;street;town\nBerg;;Oslo", "name;street;town\nBerg;Oslo;"),
    "columns of blanks": (
        "item        May     June\nboats        3\nnets                 4",
        "item        May     June\nboats                3\nnets                 4",
    ),
    "a shell pipe": ("$ cat a.log | sort > b.log", "$ cat a.log > sort b.log"),
}


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("name", LAID_OUT)
def test_layout_counts_where_both_have_one(name: str, tier: Tier) -> None:
    one, other = LAID_OUT[name]
    assert not leaves(one, other, tier=tier)
    assert not leaves(other, one, tier=tier)


LONGER = "Its wheel has forty paddles and turns to the left, because the water comes from the east, and the miller greases it on every first Monday."
WRAPPED = "The pump of the upper mill runs all night and is only stopped for cleaning when the lake is low."


@pytest.mark.parametrize("width", [12, 30, 45, 70])
def test_prose_may_be_wrapped_and_indented_anywhere(width: int) -> None:
    rows: list[str] = [""]
    for word in WRAPPED.split():
        rows[-1:] = [rows[-1], word] if len(rows[-1]) + len(word) > width else [f"{rows[-1]} {word}".strip()]
    assert leaves(WRAPPED, "\n".join(rows))
    assert leaves("\n".join(rows), WRAPPED)
    assert leaves(WRAPPED, "\n".join("   " + row for row in rows))


def test_indentation_by_two_and_by_four_blanks_is_the_same_nesting() -> None:
    two = "if a:\n  b()\n  if c:\n    d()"
    assert leaves(two, two.replace("  ", "    "))


@pytest.mark.parametrize(
    "number", ["Page 3", "- 3 -", "Page 3 of 12", "Seite 3 von 12", "p. 3", "\u0441\u0442\u0440. 3"]
)
def test_a_page_number_in_the_first_or_last_line_goes(number: str) -> None:
    text = f"The mill was built of stone.\nIt stands by the lake. {LONGER}"
    assert leaves(text, f"{text}\n{number}")
    assert leaves(text, f"{number}\n{text}")
    assert not leaves(text, text.replace("\n", f"\n{number}\n"))


RUNNING = [
    "PUMPS OF THE HX RANGE                 Page 3 of 9",
    "Home > Articles > Pumps of the HX range | Skip to content | Sign in",
    "Was this page helpful? Yes No | Cookie settings | Last updated 2031-05-06",
    "© 2031 Halden Works. All rights reserved.",
    "(c) Halden Works Export - Confidential - Do not distribute",
]
CONTENT = [
    "Contact",
    "Imprint and privacy",
    "Home",
    "(c) The tenant pays for the heating.",
    "(c) Staff do not distribute keys to guests.",
    "Copyright law protects the drawings.",
    "| Avelin | tablets |",
    "Avelin | tablets | 20 mg",
    "Page 3 was torn out.",
]


@pytest.mark.parametrize("line", RUNNING)
def test_menus_notices_and_page_numbers_at_the_ends_are_no_words_but_titles_are(line: str) -> None:
    body = f"The seal is changed each spring.\nA torn one lets water in. {LONGER}"
    for text in (f"{line}\n{body}", f"{body}\n{line}"):
        words = {token.lower() for token in tokens(text)}
        assert {"seal", "spring", "torn"} <= words
        assert not words & {"page", "3", "home", "skip", "sign", "helpful", "cookie", "2031", "rights", "distribute"}
        assert ("pumps" in words) == ("PUMPS" in line.upper())


@pytest.mark.parametrize("line", CONTENT)
def test_other_lines_at_the_ends_are_words(line: str) -> None:
    body = "The seal is changed each spring.\nA torn one lets water in."
    for text in (f"{line}\n{body}", f"{body}\n{line}", f"{line}\n{body} {LONGER}", f"{body} {LONGER}\n{line}"):
        assert len(tokens(text)) > len(tokens(f"{body} {LONGER}" if LONGER in text else body))


@pytest.mark.parametrize("line", ["page 12", "Home > Settings | Sign in", RUNNING[3]])
def test_in_a_short_text_the_first_and_the_last_line_are_what_it_says(line: str) -> None:
    body = "The button of the pump is on"
    for text in (f"{line}\n{body}", f"{body}\n{line}"):
        assert len(tokens(text)) > len(tokens(body))


@pytest.mark.parametrize("line", RUNNING[1:])
def test_in_final_deletions_menus_and_notices_count(line: str) -> None:
    body = "The seal is changed each spring.\nA torn one lets water in."
    assert len(tokens(f"{line}\n{body}", exact=True)) > len(tokens(body, exact=True))


@pytest.mark.parametrize(
    "sentence", ["For refunds see page {}", "The rule stands on p. {}", "Die Regel steht auf Seite {}"]
)
def test_a_page_that_a_sentence_refers_to_counts(sentence: str) -> None:
    """A page number is a line of its own."""
    texts = [f"The terms are in the manual.\n{sentence.format(number)}" for number in (3, 4)]
    for tier in Tier:
        assert not leaves(*texts, tier=tier)


@pytest.mark.parametrize(
    "statement",
    ["return row + 1", "return [row]", "return not row", "return -1", "yield row", "raise ValueError", "assert row", "del row", "i++", "print row"],
)  # fmt: skip
def test_the_indentation_of_any_statement_counts(statement: str) -> None:
    head = "def f(rows):\n    for row in rows:\n        g(row)\n"
    inside, after = f"{head}        {statement}", f"{head}    {statement}"
    for tier in Tier:
        assert not leaves(inside, after, tier=tier)


NESTED = "The roles of this system\n- editors of all pages\n  - may change every text\n  - may see old versions\n- readers of all pages"


@pytest.mark.parametrize("tier", list(Tier))
def test_the_level_of_an_item_counts_where_both_lists_are_nested(tier: Tier) -> None:
    """Under which item another one stands is a statement: who may see old versions."""
    other = NESTED.replace("  - may see", "- may see")
    assert not leaves(NESTED, other, tier=tier)
    assert not leaves(other, NESTED, tier=tier)


@pytest.mark.parametrize(
    "copy",
    [
        NESTED.replace("  - ", "    * "),
        NESTED.replace("\n  - ", "\n- "),
        NESTED.replace("- ", ""),
    ],
    ids=["other blanks", "flat", "no bullets"],
)
def test_a_nested_list_that_was_written_another_way_is_a_copy(copy: str) -> None:
    assert leaves(NESTED, copy)


@pytest.mark.parametrize("part", [NESTED.partition("\n")[2], NESTED.partition("pages\n")[2].strip()])
def test_a_list_without_the_line_above_it_says_less_than_with_it(part: str) -> None:
    assert not leaves(NESTED, part)


def test_a_quote_mark_a_bullet_and_a_border_are_no_words() -> None:
    assert tokens("> The mill stands.\n> It is old.") == tokens("The mill stands.\nIt is old.")
    assert tokens("+-----+-----+\n| a | b |\n+-----+-----+") == tokens("| a | b |")


def test_a_fence_is_no_line_and_its_lines_are_code() -> None:
    assert kinds("```python\nthe words here\n```") == [Kind.CODE]


@pytest.mark.parametrize(
    ("after", "is_heading"),
    [
        ("The mill stands by the river.", True),
        ("\nkubectl delete pod", True),
        ("kubectl delete pod pump-0", False),
        ("level: debug", False),
        ("# and of the river", False),
        ("return the_height_of(the, mill, by, metres)", False),
    ],
)
def test_one_mark_is_a_heading_before_text_and_a_comment_before_a_command(after: str, is_heading: bool) -> None:
    assert (lines_of(f"# Height of the mill\n{after}")[0].words == "Height of the mill") == is_heading


def test_where_a_line_cannot_go_on_a_sentence_begins() -> None:
    assert [
        line.breaks for line in lines_of("A short heading\nThe text begins here and goes on\nin the next line")
    ] == [True, True, False]
    assert [line.breaks for line in lines_of("One.\n\ntwo")] == [True, True]


@given(ANY_TEXT | ODD_TEXT)
def test_lines_never_raise_and_none_is_blank(text: str) -> None:
    """Whatever the text, each line has words."""
    assert all(line.words.strip() for line in lines_of(text))


# No line takes the patterns of the reader more than linear time: a pattern holds the interpreter, and all clients with it.

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
