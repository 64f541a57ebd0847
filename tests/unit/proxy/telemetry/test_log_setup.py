"""Nothing that a request said reaches the log, whichever way an exception or a record takes."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from support.process.lines import RememberedLines
from vecsieve.proxy.telemetry.log import Logging, set_up

CANARY = "CANARY-5e4d3c"


@pytest.fixture
def installed() -> Iterator[tuple[Logging, RememberedLines]]:
    sink = RememberedLines()
    logging_ = set_up(sink)
    yield logging_, sink
    logging_.close()


@pytest.fixture
def sink(installed: tuple[Logging, RememberedLines]) -> RememberedLines:
    return installed[1]


def fail() -> None:
    api_key = CANARY
    raise ValueError(f"bad header: {api_key}")


def raised() -> ValueError:
    try:
        fail()
    except ValueError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("name", ["aiohttp.server", "aiohttp.access", "asyncio", "urllib3", None])
def test_foreign_records_are_logged_without_their_words(sink: RememberedLines, name: str | None) -> None:
    logging.getLogger(name).error("request %s", CANARY, exc_info=raised())
    [line] = sink.objects
    assert CANARY not in sink.text
    assert "ValueError" in str(line["msg"])


def test_our_own_records_are_logged_with_their_words_and_without_messages(sink: RememberedLines) -> None:
    logging.getLogger("vecsieve.part").warning("it broke", exc_info=raised(), extra={"fields": {"worker": 2}})
    [line] = sink.objects
    assert (line["msg"], line["worker"], line["level"]) == ("it broke", 2, "warning")
    assert str(line["error"]).startswith("ValueError at ")
    assert CANARY not in sink.text


def test_an_uncaught_exception_is_a_line_without_its_message(sink: RememberedLines) -> None:
    error = raised()
    sys.excepthook(ValueError, error, error.__traceback__)
    [line] = sink.objects
    assert (line["level"], line["msg"]) == ("critical", "uncaught exception")
    assert CANARY not in sink.text


def test_an_exception_in_a_thread_is_a_line_without_its_message(sink: RememberedLines) -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert [line["msg"] for line in sink.objects] == ["uncaught exception"]
    assert CANARY not in sink.text


def test_an_exception_in_a_destructor_is_a_line_without_its_message(sink: RememberedLines) -> None:
    class Fragile:
        def __del__(self) -> None:
            fail()

    Fragile()
    assert [line["msg"] for line in sink.objects] == ["uncaught exception"]
    assert CANARY not in sink.text


def test_a_warning_is_a_line_without_its_words(sink: RememberedLines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn(CANARY, stacklevel=1)
    assert [line["logger"] for line in sink.objects] == ["py.warnings"]
    assert CANARY not in sink.text


def test_an_interrupt_from_the_keyboard_is_no_failure(sink: RememberedLines) -> None:
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert sink.lines == []


def test_a_record_whose_arguments_do_not_fit_prints_neither(
    installed: tuple[Logging, RememberedLines], capsys: pytest.CaptureFixture[str]
) -> None:
    logging_, sink = installed
    record = logging.LogRecord("vecsieve", logging.ERROR, "place.py", 7, "no room for it", (CANARY,), None)
    logging_._handler.handle(record)  # not by a logger: the handlers of the test runner object to it themselves
    [line] = sink.objects
    assert line["level"] == "error"
    assert CANARY not in sink.text + capsys.readouterr().err


def test_lines_below_the_level_are_not_written(sink: RememberedLines) -> None:
    logging.getLogger("vecsieve").debug("detail")
    assert sink.lines == []


def test_closing_takes_everything_back() -> None:
    before = (sys.excepthook, threading.excepthook, sys.unraisablehook, list(logging.getLogger().handlers))
    sink = RememberedLines()
    installed = set_up(sink)
    assert sys.excepthook is not before[0]
    installed.close()
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook, logging.getLogger().handlers) == before
    assert sink.is_closed
