from __future__ import annotations

import itertools
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.exchanges.hostile_bodies import MOST, VALUES
from vecsieve.adapters.contract import Bounds, Reason, UnsupportedError
from vecsieve.adapters.wire import json as wire_json
from vecsieve.adapters.wire.json import (
    DIMENSIONS,
    MOST_MEMBERS,
    NUMBERS,
    REPLY_BYTES,
    REPLY_PARTS,
    REPLY_SURROGATES,
    RepeatedKeyError,
    check_dimensions,
    check_members,
    check_reply,
    check_size,
    cuts,
    elements,
    last_values,
    members_of,
    splice,
    string,
    whole,
    without_surrogates,
)

BOUNDS = Bounds(searches=128, parts=16_384, nesting=4)

# Values of few parts: their size alone costs no more than a pass.
LONG = {
    "blanks",
    "blanks in a list",
    "digits",
    "digits in a list",
    "digits behind a point",
    "a text",
    "a text of escapes",
    "a text of surrogates",
    "a vector of ordinary numbers",
    "nested prefetches of filters",
}


def small(parts: int) -> Bounds:
    return Bounds(searches=1, parts=parts, nesting=1)


def refusal(body: bytes, bounds: Bounds = BOUNDS) -> Reason | None:
    try:
        check_size(body, bounds)
    except UnsupportedError as refused:
        return refused.reason
    return None


@pytest.mark.parametrize("what", VALUES)
def test_a_body_that_is_costly_to_read_has_too_many_parts(what: str) -> None:
    assert refusal(b'{"query":%s}' % VALUES[what]()) is (None if what in LONG else Reason.TOO_MANY_PARTS)


def test_the_numbers_of_vectors_are_no_parts() -> None:
    vector = b"[" + b", ".join([b"-0.12345e-7"] * 1536) + b"]"
    assert refusal(b'{"searches":[' + b",".join([b'{"vector":' + vector + b"}"] * 128) + b"]}") is None
    assert refusal(b'{"vector":' + vector + b"}", small(5)) is None


def test_so_many_numbers_are_not_read_in_any_case() -> None:
    assert refusal(b"[" + b"1," * (NUMBERS - 1) + b"1]") is None
    assert refusal(b"[" + b"1," * (NUMBERS + 1) + b"1]") is Reason.TOO_MANY_PARTS


@pytest.mark.parametrize("body", [b'["a","b","c"]', b"[{},{},{}]", b'{"a":1,"b":1,"c":1}', b'["a",1,1,1,1]'])
def test_parts_are_counted_up_to_the_bound(body: bytes) -> None:
    assert refusal(body, small(6)) is None
    assert refusal(body, small(4)) is Reason.TOO_MANY_PARTS


def test_a_vector_of_more_numbers_than_any_database_takes_is_not_read() -> None:
    most = b"[" + b"1," * (DIMENSIONS - 1) + b"1]"
    check_dimensions(most, 0, len(most))
    assert reason_of(check_dimensions, b"[1," + most[1:], 0, len(most) + 2) is Reason.TOO_MANY_PARTS


@pytest.mark.parametrize("what", ["digits in a list", "digits behind a point", "blanks in a list"])
def test_numbers_that_fill_lines_are_not_read(what: str) -> None:
    vector = VALUES[what]()
    assert reason_of(check_dimensions, vector, 0, len(vector)) is Reason.TOO_MANY_PARTS


def test_a_long_vector_may_be_written_number_by_line() -> None:
    vector = b"[" + b",".join([b"\n            -0.012345678901234567"] * 8192) + b"\n]"
    check_dimensions(vector, 0, len(vector))


def parts_of(value: Any) -> int:
    """Strings, objects and lists of others than numbers, and what stands in them."""
    if isinstance(value, dict):
        return 1 + sum(1 + parts_of(inner) for inner in value.values())
    if isinstance(value, list):
        is_vector = all(isinstance(inner, int | float) and not isinstance(inner, bool) for inner in value)
        return 1 + (0 if is_vector else sum(max(parts_of(inner), 1) for inner in value[:-1]) + parts_of(value[-1]))
    return int(isinstance(value, str))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=40,
)


@given(value=JSON, bound=st.integers(0, 60))
def test_what_is_let_through_has_no_more_parts_than_allowed(value: Any, bound: int) -> None:
    """A document of more parts than the bound is refused: a count is never too low."""
    if parts_of(value) > bound:
        assert refusal(json.dumps(value).encode(), small(bound)) is Reason.TOO_MANY_PARTS


@given(body=st.binary(max_size=300), bound=st.integers(0, 300))
def test_the_count_is_total(body: bytes, bound: int) -> None:
    """Whatever the bytes, they are let through or refused for their parts; what is no longer than the bound is let through."""
    assert refusal(body, small(bound)) in {None, Reason.TOO_MANY_PARTS}
    assert refusal(body, small(len(body))) is None


def test_every_hostile_body_is_as_large_as_bodies_are_read() -> None:
    assert all(MOST // 2 < len(made()) <= MOST for what, made in VALUES.items() if what != "a sparse vector")


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (b"x" * REPLY_BYTES, b"x" * (REPLY_BYTES + 1)),
        (b"{}" * REPLY_PARTS, b"{}" * (REPLY_PARTS + 1)),
        (b"[]" * REPLY_PARTS, b"[]" * (REPLY_PARTS + 1)),
        (b'"a"' * REPLY_PARTS, b'"a"' * (REPLY_PARTS + 1)),
        (b"\\ud83d" * REPLY_SURROGATES, b"\\uD83d" * (REPLY_SURROGATES + 1)),
        (b"\\n" * (2 * REPLY_SURROGATES), b"\\uD83d" * (REPLY_SURROGATES + 1)),  # other escapes may be many
    ],
)
def test_a_reply_is_read_up_to_a_bound(most: bytes, more: bytes) -> None:
    check_reply(most)
    with pytest.raises(ValueError, match=str(len(more)) if len(more) > REPLY_BYTES else "more than|wanted"):
        check_reply(more)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)
STYLES = st.sampled_from(
    [{}, {"separators": (",", ":")}, {"indent": 2}, {"separators": (" ,\r\n", "\t: ")}, {"ensure_ascii": False}]
)


def dumped(value: Any, style: dict[str, Any]) -> bytes:
    return json.dumps(value, **style).encode(errors="surrogatepass")


@given(
    document=st.dictionaries(st.text(max_size=6), ANY_JSON, max_size=6),
    style=STYLES,
    around=st.sampled_from(["", " \n"]),
)
def test_the_members_of_an_object_are_found_with_their_exact_bytes(
    document: dict[str, Any], style: dict[str, Any], around: str
) -> None:
    # Invariant: decoding each span gives the member; the bytes before a value end in its key and a colon.
    text = around.encode() + dumped(document, style) + around.encode()
    members = members_of(text, whole(text))
    assert list(members) == list(document)
    for key, member in members.items():
        assert text[member.value : member.end] == dumped(document[key], style) or "indent" in style
        assert json.loads(text[member.value : member.end]) == document[key]
        assert json.loads(text[member.key : member.value].rstrip(b" \t\r\n:")) == key


@given(document=st.lists(ANY_JSON, max_size=6), style=STYLES)
def test_the_elements_of_an_array_are_found_with_their_exact_bytes(document: list[Any], style: dict[str, Any]) -> None:
    # Invariant: decoding each span gives the element; between spans stand a comma and white space only.
    text = b"  " + dumped(document, style)
    spans = elements(text, whole(text))
    assert [json.loads(text[start:end]) for start, end in spans] == document
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert text[end:start].strip() == b","


@given(document=st.dictionaries(st.text(max_size=3), ANY_JSON, max_size=6), style=STYLES, data=st.data())
def test_an_object_without_some_members_is_still_the_object(
    document: dict[str, Any], style: dict[str, Any], data: st.DataObject
) -> None:
    # Invariant: cutting any set of members leaves an object of exactly the others, in order.
    text = dumped(document, style)
    dropped = {key for key in document if data.draw(st.booleans())}
    left = splice(text, [(start, end, b"") for start, end in cuts(members_of(text, whole(text)), dropped)])
    assert list(json.loads(left).items()) == [(key, value) for key, value in document.items() if key not in dropped]


@given(
    document=st.dictionaries(st.text(max_size=2), ANY_JSON, min_size=1, max_size=4),
    value=ANY_JSON,
    style=STYLES,
    data=st.data(),
)
def test_a_repeated_key_is_always_seen(
    document: dict[str, Any], value: Any, style: dict[str, Any], data: st.DataObject
) -> None:
    # Invariant: one more member under a key that is there already raises RepeatedKeyError, wherever it stands.
    pairs = [(json.dumps(key), dumped(item, style).decode(errors="surrogatepass")) for key, item in document.items()]
    again = data.draw(st.sampled_from(pairs))[0]
    pairs.insert(data.draw(st.integers(0, len(pairs))), (again, dumped(value, style).decode(errors="surrogatepass")))
    text = ("{" + ",".join(f"{key}:{item}" for key, item in pairs) + "}").encode(errors="surrogatepass")
    with pytest.raises(RepeatedKeyError):
        members_of(without_surrogates(text), whole(text))


def test_a_key_repeated_in_another_spelling_is_seen() -> None:
    with pytest.raises(RepeatedKeyError):
        members_of(b'{"a":1,"\\u0061":2}', (0, 18))


def test_a_repeated_key_cannot_hide_behind_a_value_of_equal_length() -> None:
    text = b'{"a":"11","b":",\\"a\\":","a":"22"}'
    with pytest.raises(RepeatedKeyError):
        members_of(text, whole(text))


@given(text=st.one_of(st.binary(max_size=40), st.text(alphabet='{}[]",:\\0a 1e-.tn', max_size=30).map(str.encode)))
def test_arbitrary_bytes_raise_only_value_errors(text: bytes) -> None:
    # Invariant: either the bytes are JSON of the wanted kind, or ValueError; nothing else is raised.
    for read in (members_of, elements):
        try:
            read(text, whole(text))
        except ValueError:
            continue
        assert isinstance(json.loads(text), dict if read is members_of else list)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[1]",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":01}',
        b'{"a":1.}',
        b'{"a":1,}',
        b'{"a":1}x',
        b'{"a":1} {}',
        b'{"a":1',
        b'{"a"}',
        b"{a:1}",
        b"{'a':1}",
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}\x00',
        b'{"\xff":1}',
        b'{"a":"\x01"}',
        b'{"a":"\\x"}',
        b'{"a":tru}',
    ],
)
def test_what_is_no_json_object_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        members_of(text, whole(text))


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_hundred_thousand_levels_are_refused_at_once(opening: bytes, is_closed: bool) -> None:
    closing = (b"]" if opening == b"[" else b"}") * 100_000 if is_closed else b""
    text = b'{"a":' + opening * 100_000 + b"1" + closing + b"}"
    began = time.thread_time()
    with pytest.raises(ValueError, match=r"depth|truncated"):
        members_of(text, whole(text))
    assert time.thread_time() - began < 1.0


def test_a_lone_surrogate_is_masked_without_moving_a_byte() -> None:
    text = b'{"a":"\\ud800","b":"\\\\ud800","c":"\\uDC00x","d":"\\u00e9"}'
    masked = without_surrogates(text)
    assert len(masked) == len(text)
    members = members_of(masked, whole(masked))
    assert [text[member.value : member.end] for member in members.values()] == [
        b'"\\ud800"',
        b'"\\\\ud800"',
        b'"\\uDC00x"',
        b'"\\u00e9"',
    ]
    with pytest.raises(ValueError, match=r"hex escape|truncated"):
        members_of(text, whole(text))


@given(
    st.lists(
        st.sampled_from([r"\ud800", r"\uDFFF", r"\ud7ff", r"\u0041", "\\\\", "ud800", "d", "x", r"\uD9", "\\"]),
        max_size=12,
    )
)
def test_surrogates_are_masked_as_a_pattern_would(pieces: list[str]) -> None:
    """Invariant: exactly the escapes of surrogates are replaced, wherever a block ends."""
    text = "".join(pieces).encode()
    expected = re.sub(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", rb"\\u0041", text)
    for block in (1, 3, 1 << 20):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(wire_json, "_BLOCK", block)
            assert without_surrogates(text) == expected


def test_an_object_of_many_members_is_not_walked() -> None:
    text = b"{" + b",".join(b'"%d":1' % number for number in range(MOST_MEMBERS + 1)) + b"}"
    with pytest.raises(ValueError, match="members"):
        members_of(text, whole(text))
    check_members(text)
    with pytest.raises(ValueError, match="members in all"):
        check_members(text * 2)


@given(
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=5),
    st.lists(st.text(max_size=3), min_size=1, max_size=5),
)
def test_the_values_of_keys_are_those_that_python_reads(known: dict[str, int], keys: list[str]) -> None:
    """Invariant: each key's own value, None where it has none, whatever keys are called and however often one is asked."""
    text = json.dumps(known).encode()
    expected = tuple(None if key not in known else str(known[key]).encode() for key in keys)
    assert last_values(text, tuple(keys)) == expected
    assert last_values(memoryview(text), tuple(keys)) == expected


def test_of_a_key_that_is_there_twice_the_last_value_counts() -> None:
    assert last_values(b'{"a":1,"a":2,"\\u0061":3}', ("a", "b")) == (b"3", None)
    assert last_values(b'{"a":1', ("a",)) == (None,)
    assert last_values(b'{"a":%s}' % (b"[" * 100_000), ("b",)) == (None,)


def test_a_text_without_escapes_is_not_copied() -> None:
    text = b'{"a":"d800"}'
    assert without_surrogates(text) is text


def test_edits_may_come_in_any_order_and_insertions_keep_theirs() -> None:
    assert splice(b"abcdef", [(4, 5, b"E"), (0, 0, b"1"), (0, 0, b"2"), (1, 3, b"")]) == b"12adEf"
    assert splice(b"abc", []) == b"abc"


def test_white_space_around_a_document_is_not_part_of_it() -> None:
    assert whole(b" \r\n\t{} \n") == (4, 6)
    assert whole(b"   ") == (3, 3)


def test_a_string_is_decoded_and_nothing_else_is() -> None:
    assert string(b'"gr\\u00f6\\u00dfe \\ud83d\\ude00"') == "größe 😀"
    for text in (b"1", b"null", b'["a"]', b'"a', b'"\\ud800"', b'"\xff"'):
        with pytest.raises(ValueError, match=r"\w"):
            string(text)


@pytest.mark.parametrize("text", [b' {"a":1}', b'{"a":1} '])
def test_an_object_must_fill_its_span(text: bytes) -> None:
    with pytest.raises(ValueError, match="byte"):
        members_of(text, (0, len(text)))


def test_an_array_must_begin_where_its_span_does() -> None:
    with pytest.raises(ValueError, match="delimiter"):
        elements(b" [1]", (0, 4))
