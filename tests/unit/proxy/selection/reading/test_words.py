"""The tokens of a run: case, numbers, identifiers, spelling, scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.judgements import leaves, tokens
from support.selection.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.reading.words import fold, known_run, misread, run_of, spelled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pump pump", ("pump", "pump")),
        ("PUMP STATION", ("pump", "station")),
        ("NASA and Nasa", ("nasa", "and", "nasa")),
        ("the USA", ("USA",)),
        ("iPhone and McKay", ("iPhone", "and", "McKay")),
        ("5 mW", ("5", "mW")),
        ("5 MW", ("5", "MW")),
        ("5 Mb/s", ("5", "Mb/s")),
        ("5 MB/s", ("5", "MB/s")),
        ("100 kB", ("100", "kB")),
        ("getUserName", ("getUserName",)),
        ("MAX_SIZE and max_size", ("MAX_SIZE", "and", "max_size")),
        ("v1.2.3", ("v1.2.3",)),
        ("10.0.0.1", ("10.0.0.1",)),
        ("2024-05-06", ("2024-05-06",)),
        ("06.05.2024", ("06.05.2024",)),
        ("12:30", ("12:30",)),
        ("ISO-9001", ("ISO-9001",)),
        ("a@b.example", ("a@b.example",)),
        ("https://a.example/X?y=Z.", ("https://a.example/X?y=Z",)),
        ("C++ and C#", ("C++", "and", "C#")),
        ("--no-cache", ("--no-cache",)),
        ("-v", ("-v",)),
    ],
)
def test_a_run_is_read_as_what_it_is(text: str, expected: tuple[str, ...]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,200 items", "1200 items"),
        ("1,234.89 items", "1234.89 items"),
        ("It cost 1,200,000 euros.", "It cost 1200000 euros."),
        ("\u0661\u0662\u0663 items", "123 items"),
        ("\u0967\u0968\u0969 items", "123 items"),
        ("\uff11\uff12\uff13 items", "123 items"),
        ("pages 3\u20135", "pages 3-5"),
        ("\u2212 5 degrees", "- 5 degrees"),
    ],
)
def test_a_number_may_be_written_in_several_ways(one: str, other: str) -> None:
    assert leaves(one, other)
    assert leaves(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.000 items", "1,000 items"),
        ("1.5 items", "15 items"),
        ("Füllmenge: 1,500 kg je Sack", "Füllmenge: 1500 kg je Sack"),
        ("hepatitis a", "hepatitis"),
        ("at -5 now", "at 5 now"),
        ("at +5 now", "at 5 now"),
        ("12:30 now", "1230 now"),
        ("3-5 days", "35 days"),
        ("1/2 cup", "12 cup"),
        ("v1.0 is out", "v10 is out"),
        ("v1.0 is out", "v1.0.0 is out"),
        ("10.0.0.1 is up", "10.0.0.11 is up"),
        ("2024-05-06 it was", "2024-06-05 it was"),
        ("grade A- it is", "grade A it is"),
        ("C++ it is", "C it is"),
        ("a 5 % rise", "a 5 rise"),
        ("5 mW each", "5 MW each"),
        ("5\nmW each", "5\nMW each"),
        ("5 Mb/s each", "5 MB/s each"),
        ("the Config class", "the config.yaml class"),
        ("IT is late", "it is late"),
        ("US law", "us law"),
        ("set maxSize here", "set maxsize here"),
        ("it matches [0-9]{6,} here", "it matches [0-9]{6} here"),
        ("it matches a{,5} here", "it matches a{5,} here"),
        ("the value (6,) here", "the value (6) here"),
        ("take x[:,0] here", "take x[:0] here"),
    ],
)
def test_what_is_written_otherwise_is_something_else(one: str, other: str) -> None:
    assert tokens(one) != tokens(other)


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("colour", "color"), ("behaviour", "behavior"), ("centre", "center"), ("organise", "organize"), ("organisation", "organization"),
        ("analyse", "analyze"), ("catalogue", "catalog"), ("travelled", "traveled"), ("defence", "defense"), ("favourite", "favorite"),
    ],
)  # fmt: skip
def test_british_spelling_is_american_spelling(british: str, american: str) -> None:
    assert spelled(british) == spelled(american)


@pytest.mark.parametrize(
    ("one", "other"),
    [("four", "for"), ("hour", "hor"), ("pour", "por"), ("wise", "wize"), ("rise", "rize"), ("flour", "flor"), ("tour", "tor"),
     ("modern", "modem"), ("corner", "comer"), ("cornet", "comet"), ("horned", "homed"), ("garner", "gamer"),
     ("cheque", "check"), ("storey", "story"), ("metre", "meter"), ("tyre", "tire"), ("programme", "program")],
)  # fmt: skip
def test_a_word_that_only_looks_british_or_misread_is_left(one: str, other: str) -> None:
    assert spelled(one) != spelled(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Ask Mr. Grey", "Ask Mr. Gray"), ("Ask Marnie", "Ask Mamie"), ("for Labour", "for labor")]
)
def test_a_name_keeps_its_spelling(one: str, other: str) -> None:
    assert tokens(one) != tokens(other)


@pytest.mark.parametrize(("read", "meant"), [("fina1", "final"), ("sch0ol", "school")])
def test_an_error_of_ocr_is_the_word_that_is_meant(read: str, meant: str) -> None:
    assert misread(read) == misread(meant)


@pytest.mark.parametrize("identifier", ["a1", "x10", "b0", "h264", "mp3", "l0", "co2", "B1", "IPv4", "utf8"])
def test_an_identifier_is_no_error_of_ocr(identifier: str) -> None:
    assert spelled(identifier) == misread(identifier) == identifier


@pytest.mark.parametrize(
    ("word", "folded"),
    [("Pump", "pump"), ("PUMP", "pump"), ("PUM", "PUM"), ("Pu", "pu"), ("P", "P"), ("pUmp", "pUmp"), ("O'Neill", "O'Neill"), ("\u00c9tat", "\u00e9tat"), ("\u0414\u041e\u041c\u0410", "\u0434\u043e\u043c\u0430")],
)  # fmt: skip
def test_case_is_folded_in_plain_words_only(word: str, folded: str) -> None:
    assert fold(word) == folded


@pytest.mark.parametrize(
    ("text", "count"),
    [("\u6cf5\u5728\u8fd0\u884c", 4), ("\u6cf5 \u5728 \u8fd0\u884c", 4), ("\u30dd\u30f3\u30d7\u304c\u52d5\u304f", 6), ("\u0e1b\u0e31\u0e4a\u0e21", 4), ("API\u6587\u6863v2", 4)],
)  # fmt: skip
def test_in_scripts_without_blanks_a_character_is_a_token(text: str, count: int) -> None:
    assert len(tokens(text)) == count


@given(ANY_TEXT | ODD_TEXT)
def test_a_run_has_the_same_tokens_whether_it_was_seen_or_not(text: str) -> None:
    """Reading a run never raises, and what is cached is what is read."""
    for run in text.split():
        first = run_of(run)
        assert run_of(run) == first
        assert known_run(run) in {None, first} if isinstance(first, str) else known_run(run) in [None, first]


@given(st.text(st.sampled_from("abcdefgh"), min_size=1, max_size=12))
def test_spelling_and_folding_are_done_once(word: str) -> None:
    """Both change nothing the second time."""
    assert spelled(spelled(word)) == spelled(word)
    assert fold(fold(word)) == fold(word)
