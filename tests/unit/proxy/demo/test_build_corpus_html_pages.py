"""Words and titles from HTML pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.jobs.build_corpus import Word, page_words


def page(body: str) -> str:
    return f'<html><head><title>T</title></head><body><div class="nav">menu</div><div class="body">{body}</div>after</body></html>'


def text_of(body: str) -> str:
    return " ".join(word.text for word in page_words(page(body)))


def test_only_the_body_element_is_read() -> None:
    assert text_of("<p>inside</p>") == "inside"


def test_a_page_without_a_body_element_has_no_words() -> None:
    assert page_words("<html><body><p>text</p></body></html>") == ()


def test_inline_tags_do_not_break_a_word() -> None:
    assert text_of("<p>lru_<b>cache</b>()</p>") == "lru_cache()"


def test_block_tags_break_words_even_without_white_space() -> None:
    assert text_of("<p>one</p><p>two</p><ul><li>three</li><li>four</li></ul>") == "one two three four"


def test_a_line_break_separates_words() -> None:
    assert text_of("<p>one<br>two<br/>three</p>") == "one two three"


def test_character_references_are_resolved() -> None:
    assert text_of("<p>a &lt; b &amp; c &#8594; d</p>") == "a < b & c → d"


def test_permalinks_scripts_and_contents_are_left_out() -> None:
    body = (
        '<h1>Title<a class="headerlink" href="#x">¶</a></h1><script>var hidden;</script>'
        '<div class="contents topic"><p>Contents</p></div><nav><p>menu</p></nav><p>text</p>'
    )
    assert text_of(body) == "Title text"


def test_what_follows_a_left_out_element_is_read_again() -> None:
    assert (
        text_of('<nav><ul><li>deep</li></ul></nav><p>kept</p><div class="topic"><p>x</p></div><p>too</p>') == "kept too"
    )


def test_words_carry_the_heading_above_them() -> None:
    words = page_words(page("<h1>First part</h1><p>a</p><h2>Second</h2><p>b</p>"))
    assert Word("a", "First part") in words
    assert Word("b", "Second") in words


def test_a_permalink_sign_is_no_part_of_a_title() -> None:
    words = page_words(page('<h2>Name<a class="headerlink">¶</a></h2><p>a</p>'))
    assert words[-1] == Word("a", "Name")


def test_words_carry_the_described_object_above_them() -> None:
    body = '<h1>H</h1><dl><dt class="sig py" id="heapq.merge">heapq.merge(a)</dt><dd><p>Merges.</p></dd></dl>'
    assert page_words(page(body))[-1] == Word("Merges.", "heapq.merge")


def test_a_definition_term_that_describes_no_object_changes_no_title() -> None:
    body = '<h1>H</h1><dl><dt id="x">term</dt><dd>meaning</dd></dl>'
    assert page_words(page(body))[-1] == Word("meaning", "H")


def test_unclosed_elements_end_with_the_one_around_them() -> None:
    assert text_of("<div><p>one<span>two</div><p>three</p>") == "onetwo three"


def test_text_behind_the_body_element_is_not_read() -> None:
    assert "after" not in text_of("<p>x</p></section>")


@given(st.text(alphabet=st.sampled_from("<>/ap divclas=\"body'&;#!-x1"), max_size=300))
def test_any_text_is_read_without_an_error(noise: str) -> None:
    """Arbitrary markup gives words without white space, never an exception."""
    for word in page_words(page(noise)):
        assert word.text
        assert not any(sign.isspace() for sign in word.text)
