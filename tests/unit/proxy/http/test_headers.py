from __future__ import annotations

import pytest
from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http import headers
from vecsieve.proxy.http.headers import (
    EXACTING,
    HOP_BY_HOP,
    VOUCHING,
    Target,
    are_forwardable,
    around_other_bytes,
    for_client,
    framed,
    is_reply_sound,
    matching_path,
    objection,
    read_target,
    replaced,
    request_head,
    shape_of,
    traced,
    values,
)
from vecsieve.proxy.search.errors import Trouble

NAMES = st.sampled_from(
    [
        b"X-A",
        b"x-a",
        b"Accept",
        b"api-key",
        b"Connection",
        b"Keep-Alive",
        b"TE",
        b"Content-Length",
        b"Host",
        b"host",
        b"X-VecSieve-Mode",
    ]
)
VALUES = st.sampled_from([b"", b"1", b"x-a", b"api-key, close", b"caf\xc3\xa9", b"Host, content-length"])
LISTS = st.lists(st.tuples(NAMES, VALUES), max_size=12)


@given(LISTS)
def test_what_passes_keeps_its_order_case_and_bytes(raw: list[tuple[bytes, bytes]]) -> None:
    # Invariant: the client's list is a subsequence of upstream's, and nothing in it belongs to the hop.
    passed = [(name.encode(), value.encode()) for name, value in for_client(raw)]
    remaining = iter(raw)
    assert all(pair in remaining for pair in passed)
    assert not [name for name, _ in passed if name.lower() in HOP_BY_HOP]


def sent(
    raw: list[tuple[bytes, bytes]], *, length: int | None = None, is_chunked: bool = False
) -> list[tuple[bytes, bytes]]:
    """The fields of the head that goes to the database."""
    head = request_head("GET", "/a", raw, authority="db:6333", length=length, is_chunked=is_chunked)
    assert head.startswith(b"GET /a HTTP/1.1\r\n")
    assert head.endswith(b"\r\n\r\n")
    lines = head.split(b"\r\n")[1:-2]
    return [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]


FRAMING = {b"content-length", b"transfer-encoding"}


@given(LISTS)
def test_upstream_gets_the_same_less_ours_and_its_own_host(raw: list[tuple[bytes, bytes]]) -> None:
    # Invariant: the upstream's host stands wherever one stood, or first; every other line is one that passes.
    fields = sent(raw)
    hosts = [value for name, value in fields if name.lower() == b"host"]
    assert hosts == [b"db:6333"] * max(1, len(values(raw, b"host")))
    passed = [(name.encode(), value.encode()) for name, value in for_client(raw)]
    apart = {b"host", b"expect", *FRAMING}
    others = [pair for pair in passed if pair[0].lower() not in apart]
    assert [pair for pair in fields if pair[0].lower() not in apart] == [
        pair for pair in others if not pair[0].lower().startswith(b"x-vecsieve-")
    ]


@given(LISTS, st.one_of(st.none(), st.integers(0, 2**40)), st.booleans())
def test_a_request_is_framed_exactly_as_its_body(
    raw: list[tuple[bytes, bytes]], length: int | None, is_chunked: bool
) -> None:
    # Invariant: one Content-Length with this value or none, one Transfer-Encoding or none, whatever the client's list says.
    two = [*raw, (b"Transfer-Encoding", b"chunked"), (b"transfer-encoding", b"gzip"), (b"Content-Length", b"7")]
    fields = [(name.lower(), value) for name, value in sent(two, length=length, is_chunked=is_chunked)]
    assert [value for name, value in fields if name == b"content-length"] == (
        [] if length is None else [b"%d" % length]
    )
    assert [value for name, value in fields if name == b"transfer-encoding"] == ([b"chunked"] if is_chunked else [])


def test_the_framing_of_a_request_keeps_its_place_and_case() -> None:
    raw = [(b"Host", b"c"), (b"A", b"1"), (b"conTent-length", b"9"), (b"B", b"2")]
    assert sent(raw, length=4) == [(b"Host", b"db:6333"), (b"A", b"1"), (b"conTent-length", b"4"), (b"B", b"2")]


@pytest.mark.parametrize("pair", [(b"A", b"1\r\nB: 2"), (b"A\nB", b"1")])
def test_a_field_that_is_two_lines_never_reaches_the_database(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="two lines"):
        sent([pair])


def test_connection_cannot_remove_what_keeps_messages_apart() -> None:
    raw = [
        (b"Connection", b"content-length, HOST, transfer-encoding, x-gone"),
        (b"Content-Length", b"3"),
        (b"X-Gone", b"1"),
    ]
    assert for_client(raw) == [("Content-Length", "3")]


@given(LISTS, st.integers(0, 2**40))
def test_an_answer_of_ours_has_exactly_its_length(raw: list[tuple[bytes, bytes]], length: int) -> None:
    # Invariant: one Content-Length with this value, no Transfer-Encoding, all else as before.
    head = for_client([*raw, (b"Transfer-Encoding", b"chunked"), (b"content-length", b"9"), (b"Content-Length", b"9")])
    result = [(name.lower().encode(), value) for name, value in framed(head, length=length)]
    assert [pair for pair in result if pair[0] in FRAMING] == [(b"content-length", str(length))]
    before = [(name.lower().encode(), value) for name, value in head]
    assert [pair for pair in result if pair[0] not in FRAMING] == [pair for pair in before if pair[0] not in FRAMING]


def test_framing_keeps_the_place_and_case_of_the_line_it_replaces() -> None:
    head = [("A", "1"), ("conTent-length", "9"), ("B", "2")]
    assert framed(head, length=4) == [("A", "1"), ("conTent-length", "4"), ("B", "2")]


@given(st.binary(max_size=40))
def test_forwardable_is_what_survives_the_serializer(value: bytes) -> None:
    # Invariant: true exactly for UTF-8 without control characters but the tab.
    try:
        text = value.decode("utf-8")
        fine = not any((ord(char) < 0x20 and char != "\t") or ord(char) == 0x7F for char in text)
    except UnicodeDecodeError:
        fine = False
    assert are_forwardable((b"x", value)) is fine


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"identity", [(b"A", b"1"), (b"Accept-Encoding", b"identity"), (b"B", b"2")]),
        (None, [(b"A", b"1"), (b"B", b"2")]),
    ],
)
def test_replacing_a_field_acts_on_all_its_lines(value: bytes | None, expected: list[tuple[bytes, bytes]]) -> None:
    raw = [(b"A", b"1"), (b"Accept-Encoding", b"gzip"), (b"B", b"2"), (b"accept-encoding", b"br")]
    assert replaced(raw, b"accept-encoding", value) == expected


def test_replacing_an_absent_field_adds_it_last() -> None:
    assert replaced([(b"A", b"1")], b"accept-encoding", b"identity") == [
        (b"A", b"1"),
        (b"accept-encoding", b"identity"),
    ]


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(LISTS, st.integers(0, 12), st.sampled_from([b"traceparent", b"Traceparent", b"TRACEPARENT"]))
def test_a_traceparent_is_replaced_where_it_stands(raw: list[tuple[bytes, bytes]], place: int, name: bytes) -> None:
    """Every other line stays as it is and where it is, and so do the place and the case of this one."""
    before, after = raw[:place], raw[place:]
    assert traced([*before, (name, b"00-a-b-01"), *after], PARENT) == [*before, (name, PARENT.encode()), *after]


@given(LISTS)
def test_a_traceparent_that_was_not_there_comes_last(raw: list[tuple[bytes, bytes]]) -> None:
    """All that was there stays as it is and where it is."""
    assert traced(raw, PARENT) == [*raw, (b"traceparent", PARENT.encode())]


@given(LISTS, st.sampled_from(sorted(VOUCHING)))
def test_around_other_bytes_nothing_vouches_for_the_old_ones(raw: list[tuple[bytes, bytes]], name: bytes) -> None:
    """For any head: what vouches for bytes is gone in whatever case, and everything else is as for the client."""
    assert around_other_bytes([*raw, (name.title(), b"x")], 7) == framed(for_client(raw), length=7)


@pytest.mark.parametrize("name", sorted(VOUCHING | EXACTING))
def test_a_head_that_speaks_of_exact_bytes_is_seen_in_any_case(name: bytes) -> None:
    assert shape_of([(b"Host", b"db"), (name.upper(), b"x")]).is_exacting
    assert not shape_of([(b"Host", b"db"), (b"X-" + name, b"x")]).is_exacting


def test_a_date_of_the_data_is_no_statement_about_bytes() -> None:
    raw = [(b"Last-Modified", b"Thu, 01 Jan 1970 00:00:00 GMT")]
    assert around_other_bytes(raw, 7) == [*for_client(raw), ("Content-Length", "7")]


FIELD = st.tuples(
    st.sampled_from(
        [b"Host", b"X-A", b"Connection", b"content-length", b"Transfer-Encoding", b"Range", b"te", b"Expect"]
    ),
    st.sampled_from(
        [b"a", b"keep-alive", b"Close", b"x-a", b"12", b"+1", b"chunked", b"\xff", "ü".encode(), b"a\0", b""]
    ),
)


@given(st.lists(FIELD, max_size=5), st.lists(FIELD, max_size=5))
def test_what_is_remembered_of_a_head_says_nothing_of_another_heads_values(
    first: list[tuple[bytes, bytes]], second: list[tuple[bytes, bytes]]
) -> None:
    """Invariant: after any head, one with the same names is judged and forwarded as if it were the first one ever seen."""

    def judged(raw: list[tuple[bytes, bytes]]) -> tuple[object, ...]:
        trouble = objection("POST", "/", HttpVersion11, raw)
        sound = is_reply_sound(200, HttpVersion11, raw)
        if trouble is not None:
            return trouble, sound
        head = request_head("POST", "/", raw, authority="db:1", length=None, is_chunked=False)
        return head, sound, for_client(raw), shape_of(raw).is_exacting

    same_names = [(name, value) for (name, _), (_, value) in zip(first, second, strict=False)]
    headers._SHAPES.clear()
    fresh = judged(same_names)
    headers._SHAPES.clear()
    judged([(name, value) for name, value in first[: len(same_names)]])
    assert judged(same_names) == fresh


def test_heads_are_remembered_by_their_names_alone_and_not_without_bound() -> None:
    headers._SHAPES.clear()
    for number in range(headers.MOST_SHAPES + 10):
        for secret in (b"one", b"two"):
            shape_of([(b"api-key", secret), (b"x-%d" % number, b"")])
    assert 0 < len(headers._SHAPES) <= headers.MOST_SHAPES
    shape_of([(b"x" * headers.SHAPE_BYTES, b""), (b"y", b"")])
    assert all(sum(map(len, names)) <= headers.SHAPE_BYTES for names in headers._SHAPES)
    assert not any(b"one" in names for names in headers._SHAPES)


TE = b"Transfer-Encoding"
CL = b"content-length"


@pytest.mark.parametrize(
    ("raw", "trouble"),
    [
        ([], None),
        ([(CL, b"3")], None),
        ([(CL, b"0")], None),
        ([(TE, b"chunked")], None),
        ([(TE, b" Chunked ")], None),
        ([(TE, b"chunked"), (CL, b"3")], Trouble.TWO_FRAMINGS),
        ([(TE, b"gzip, chunked")], Trouble.TRANSFER_CODING),
        ([(TE, b"chunked"), (TE, b"chunked")], Trouble.TRANSFER_CODING),
        ([(TE, b"")], Trouble.TRANSFER_CODING),
        ([(CL, b"3"), (CL, b"3")], Trouble.MALFORMED),
        ([(CL, b"+3")], Trouble.MALFORMED),
        ([(CL, b"")], Trouble.MALFORMED),
        ([(CL, "٣".encode())], Trouble.MALFORMED),
        ([(b"Host", b"a"), (b"host", b"a")], Trouble.MALFORMED),
        ([(b"X", b"\xff")], Trouble.HEADER_BYTES),
        ([(b"X", b"a\x01")], Trouble.HEADER_BYTES),
    ],
)
def test_framing_that_two_parsers_could_read_apart_is_refused(
    raw: list[tuple[bytes, bytes]], trouble: Trouble | None
) -> None:
    assert objection("POST", "/a", HttpVersion11, raw) is trouble


@pytest.mark.parametrize("version", [HttpVersion(0, 9), HttpVersion(1, 2), HttpVersion(2, 0)])
def test_only_two_versions_are_spoken(version: HttpVersion) -> None:
    assert objection("GET", "/", version, []) is Trouble.VERSION


def test_an_old_version_has_no_chunks() -> None:
    assert objection("POST", "/", HttpVersion10, [(TE, b"chunked")]) is Trouble.OLD_CHUNKED
    assert objection("POST", "/", HttpVersion10, [(CL, b"1")]) is None


def test_targets_and_connect_are_refused_before_framing() -> None:
    assert objection("CONNECT", "evil:443", HttpVersion11, []) is Trouble.CONNECT_METHOD
    assert objection("GET", "http://evil/", HttpVersion11, [(TE, b"x")]) is Trouble.TARGET


@pytest.mark.parametrize(
    ("raw", "sound"),
    [
        ([], True),
        ([(CL, b"3")], True),
        ([(CL, b"03")], True),
        ([(TE, b"chunked")], True),
        ([(TE, b"Chunked")], True),
        ([(TE, b"identity")], True),
        ([(TE, b"xchunked")], False),
        ([(TE, b"")], False),
        ([(TE, b"gzip")], False),
        ([(TE, b"gzip, chunked")], False),
        ([(TE, b"chunked, gzip")], False),
        ([(TE, b"chunked, chunked")], False),
        ([(TE, b"chunked"), (TE, b"chunked")], False),
        ([(TE, b"chunked"), (TE, b"identity")], False),
        ([(TE, b"chunked"), (CL, b"3")], False),
        ([(TE, b"identity"), (CL, b"3")], False),
        ([(CL, b"3"), (CL, b"3")], False),
        ([(CL, b"+3")], False),
        ([(CL, b"3, 3")], False),
        ([(b"Transfer-Encoding ", b"chunked")], False),
        ([(b"Content-Length ", b"3")], False),
        ([(b"Connection\t", b"close")], False),
        ([(b"", b"3")], False),
    ],
)
def test_a_reply_whose_end_could_be_read_in_two_ways_is_not_sound(raw: list[tuple[bytes, bytes]], sound: bool) -> None:
    assert is_reply_sound(200, HttpVersion11, raw) is sound


@pytest.mark.parametrize(("status", "sound"), [(99, False), (100, True), (599, True), (999, True), (1000, False)])
def test_a_replys_status_has_three_digits(status: int, sound: bool) -> None:
    assert is_reply_sound(status, HttpVersion11, []) is sound


@pytest.mark.parametrize("version", [HttpVersion(0, 9), HttpVersion(2, 0)])
def test_a_reply_of_another_version_is_not_sound(version: HttpVersion) -> None:
    assert not is_reply_sound(200, version, [])


def test_a_reply_of_the_old_version_has_no_transfer_coding() -> None:
    assert is_reply_sound(200, HttpVersion10, [(CL, b"3")])
    assert not is_reply_sound(200, HttpVersion10, [(TE, b"chunked")])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [b"Transfer-Encoding", b"transfer-encoding ", b"Content-Length", b"X-A", b"Content-Length\t"]
            ),
            st.sampled_from([b"chunked", b"identity", b"3", b"03", b"+3", b"", b"gzip, chunked", b"xchunked", b"3, 3"]),
        ),
        max_size=4,
    )
)
def test_a_sound_reply_has_one_framing_that_every_parser_reads_alike(raw: list[tuple[bytes, bytes]]) -> None:
    """For any head: sound means at most one of one length in digits, one `chunked`, and no name with a blank behind it."""
    if not is_reply_sound(200, HttpVersion11, raw):
        return
    assert all(name == name.strip() for name, _ in raw)
    lengths = [value for name, value in raw if name.lower() == b"content-length"]
    codings = [value for name, value in raw if name.lower() == b"transfer-encoding"]
    assert len(lengths) + len(codings) <= 1
    assert all(value.isdigit() for value in lengths)
    assert set(codings) <= {b"chunked", b"identity"}


@pytest.mark.parametrize("raw", ["/", "/a?b", "//evil.example/a", "/a/../b", "/%2e%2F", "/a?", "/a?b=/c?d"])
def test_a_path_is_taken_as_it_is(raw: str) -> None:
    assert read_target(raw) == Target(raw=raw, path=raw.split("?", maxsplit=1)[0])


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "*",
        "?a",
        "a",
        "@evil/a",
        "http://evil/a",
        "evil:80",
        "/a b",
        "/a\tb",
        "/a\nb",
        "/caf\u00e9",
        "/a\x7f",
        "/\udc80",
    ],
)
def test_every_other_form_is_refused(raw: str) -> None:
    assert read_target(raw) is None


@given(st.text(max_size=30))
def test_a_target_taken_is_forwarded_unchanged(raw: str) -> None:
    # Invariant: either refused, or raw is what came in and begins with a slash.
    target = read_target(raw)
    assert target is None or (target.raw == raw and raw.startswith("/"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/collections/x/points/search", "/collections/x/points/search"),
        ("//collections///x/points/search//", "/collections/x/points/search"),
        ("/", "/"),
        ("///", "/"),
        ("/collections/a%2Fb/points/query", "/collections/a%2Fb/points/query"),
        ("/a/../b", "/a/../b"),
    ],
)
def test_matching_merges_slashes_and_drops_the_last_one(path: str, expected: str) -> None:
    assert matching_path(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/qdrant/collections", "/collections"),
        ("//qdrant//collections/", "/collections"),
        ("/qdrant", "/"),
        ("/qdrants/collections", None),
        ("/collections", None),
    ],
)
def test_a_deployment_prefix_is_taken_off_or_excludes_the_path(path: str, expected: str | None) -> None:
    assert matching_path(path, "/qdrant") == expected


@given(st.text(alphabet="/ab%2F", max_size=20))
def test_matching_is_idempotent(path: str) -> None:
    # Invariant: the path that decides is its own normal form.
    once = matching_path("/" + path)
    assert once is not None
    assert matching_path(once) == once
