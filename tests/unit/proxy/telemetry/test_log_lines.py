"""A line is one JSON object of bounded size, whatever its values are; foreign words and messages stay out."""

from __future__ import annotations

import json
import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.telemetry.log import LINE_BYTES, Field, ForeignWithheld, JsonLines, encode, place_of, timestamp

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=3000),
)


@given(st.dictionaries(st.text(max_size=80), VALUES, max_size=12))
def test_any_fields_become_one_bounded_line_of_ascii_json(fields: dict[str, Field]) -> None:
    """Invariant: one newline, at the end; at most 2 KiB; valid strict JSON; nothing invented."""
    line = encode(fields)
    assert line.index(b"\n") == len(line) - 1
    assert len(line) <= LINE_BYTES
    assert all(32 <= byte < 127 for byte in line[:-1])
    read = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    if "truncated" not in read:
        expected = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
        assert read == expected


def test_a_long_line_keeps_its_first_fields_and_says_that_it_was_cut() -> None:
    line = json.loads(encode({"ts": "now", "level": "error", "msg": "m" * 5000, "last": "x" * 5000}))
    assert line == {"truncated": True, "ts": "now", "level": "error", "msg": "m" * 256, "last": "x" * 256}


def test_a_value_that_is_no_json_is_named_by_its_class_only() -> None:
    assert encode({"value": b"secret"}) == b'{"value":"bytes"}\n'  # type: ignore[dict-item]  # - a careless caller


def test_a_time_is_utc_to_the_millisecond() -> None:
    assert timestamp(0.0015) == "1970-01-01T00:00:00.001Z"


def raised(message: str) -> ValueError:
    try:
        int(message)
    except ValueError as error:
        return error
    raise AssertionError(f"{message} is a number")


def test_an_exception_is_its_class_and_place_never_its_message() -> None:
    assert place_of(raised("CANARY")).startswith("ValueError at ")
    assert place_of(raised("CANARY")).rsplit(":", 1)[1].isdecimal()
    assert "CANARY" not in place_of(raised("CANARY"))
    assert place_of(ValueError("CANARY")) == "ValueError at unknown"


def record(name: str, message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord(name, logging.WARNING, "/some/where/place.py", 7, message, arguments, info)


def test_our_own_words_and_fields_are_printed() -> None:
    entry = record("vecsieve.workers", "worker %d ended", 3)
    entry.fields = {"worker": 3, "code": 1}
    line = json.loads(JsonLines().format(entry))
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "vecsieve.workers",
        "msg": "worker 3 ended",
        "worker": 3,
        "code": 1,
    }


def test_our_own_exceptions_are_printed_without_their_message() -> None:
    text = JsonLines().format(record("vecsieve", "failed", error=raised("CANARY")))
    assert json.loads(text)["error"].startswith("ValueError at ")
    assert "CANARY" not in text


@pytest.mark.parametrize(
    "name", ["aiohttp.server", "asyncio", "py.warnings", "vecsieve_lookalike", "root", "a.vecsieve"]
)
def test_of_a_foreign_record_only_place_and_class_remain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A listener that ran before has put the guard on its loggers: here it is the second net that is tested.
    monkeypatch.setattr(logging.getLogger(name), "filters", [])
    foreign = record(name, "header was %s", "CANARY", error=raised("CANARY"))
    foreign.stack_info = "CANARY"
    assert ForeignWithheld().filter(foreign)
    text = JsonLines().format(foreign)
    assert "CANARY" not in text
    assert "place:7 ValueError" in text


@pytest.mark.parametrize("name", ["vecsieve", "vecsieve.http"])
def test_our_own_records_pass_as_they_are(name: str) -> None:
    entry = record(name, "said")
    assert ForeignWithheld().filter(entry)
    assert entry.getMessage() == "said"
